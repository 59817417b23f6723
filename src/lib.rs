//! `outboxd` posts sealed webhooks from a Postgres outbox: exactly the bytes that were committed, signed, at least once.
//!
//! # One delivery
//!
//! ```text
//! claim -> open -> resolve -> pin -> sign -> post -> classify -> schedule -> settle
//! ```
//!
//! Each stage takes what the one before it made, so that none can be skipped: nothing can be posted without a
//! `address::Pinned`, which only the address policy makes, and a signed request. `deliver` is that line on one
//! screen; the rooms below it do not know each other.
//!
//! # Rooms
//!
//! Pure rooms take time, jitter and randomness as arguments and know no socket, file, clock or log: `envelope` (open and
//! seal), `signature` (RFC 9421, schemes with a shared secret, verification), `capture` (a request as somebody wrote it
//! down), `verdict` (causes, classes, back-off), `life` (what may happen to a row, when and by whom), `history` (what is
//! kept of an attempt), `clock` (how far two clocks are apart) and, of `address`, the URL rules and the policy. Shell rooms
//! call, wait and translate, and decide nothing: `store` (all that is Postgres), `claim`, `signer`, `jwks`, `post`, `settle`, `rekey`
//! (envelope keys in use and out of it), `steer` (what operators do to many rows), `telemetry`, `config`, `daemon` (the
//! composition root), `cli` and `demo`. `fuzz` is not part of the daemon, and `killpoint` only of one under test.
//! `tests/rooms.rs` reads the source and holds the rules.
//!
//! One process may serve several outboxes: `daemon` gives each a store, a health and loops of its own, and `claim` divides one
//! set of slots among them. Nothing below knows of more than one.
//!
//! # What is absent
//!
//! - There is no way to settle a row without the token of its current lease, and no statement that lacks the comparison.
//! - There is no transaction and no pool connection across the network.
//! - There is no second parser that decides where a URL leads, no redirect, no proxy, no decompression.
//! - There is no attempt that begins without room for all of it in its lease, and none after the row's horizon.
//! - There is no log field, metric label, span or stored error that a receiver's text or a secret could get into.
//! - There is no cause recognised by its text; foreign errors are told apart by type, once, at the wall.
//! - There is no unsafe code, and no crypto backend but ring.
#![forbid(unsafe_code)]

#[macro_use]
mod killpoint;

pub(crate) mod address;
pub(crate) mod capture;
pub(crate) mod certificate;
pub(crate) mod claim;
pub mod cli;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod deliver;
#[doc(hidden)]
pub mod demo;
pub(crate) mod envelope;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub(crate) mod hex;
pub(crate) mod history;
pub(crate) mod jwks;
pub(crate) mod life;
pub(crate) mod post;
pub(crate) mod receive;
pub(crate) mod rekey;
pub(crate) mod sealing;
pub(crate) mod secret;
pub(crate) mod settle;
pub(crate) mod signature;
pub(crate) mod signer;
pub(crate) mod steer;
pub(crate) mod store;
pub(crate) mod telemetry;
pub(crate) mod verdict;
