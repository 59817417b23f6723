//! outboxd (architecture page follows)
#![forbid(unsafe_code)]

pub(crate) mod address;
pub(crate) mod claim;
pub mod cli;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod deliver;
#[doc(hidden)]
pub mod demo;
pub(crate) mod envelope;
pub(crate) mod post;
pub(crate) mod sealing;
pub(crate) mod secret;
pub(crate) mod settle;
pub(crate) mod signature;
pub(crate) mod signer;
pub(crate) mod store;
pub(crate) mod telemetry;
pub(crate) mod verdict;
