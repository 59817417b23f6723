//! The sealed envelope of an outbox row: opening, checking against the row, sealing. It performs no I/O, and decides
//! nothing about what becomes of a row whose envelope it refuses.

mod aad;
mod error;
pub(crate) mod json;
mod key;
mod legacy;
mod open;
#[cfg_attr(not(test), expect(dead_code, reason = "composed rows will be rendered from it"))]
mod registration;
mod row;
mod seal;

#[cfg(test)]
mod tests;

pub(crate) use aad::{Aad, Binding};
pub(crate) use error::{JsonFault, OpenError, RowFault};
pub(crate) use key::{EnvelopeKey, Keyring};
pub(crate) use legacy::Authentication;
pub(crate) use open::{Envelope, OpenRules, open};
pub(crate) use row::Row;
pub(crate) use seal::seal;
