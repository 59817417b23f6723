//! The sealed envelope of an outbox row: opening, checking against the row, sealing. It performs no I/O, and decides
//! nothing about what becomes of a row whose envelope it refuses.

mod aad;
mod error;
mod json;
mod key;
mod legacy;
mod open;
mod registration;
mod row;
mod seal;

#[cfg(test)]
mod tests;

pub(crate) use aad::{Aad, Binding};
pub(crate) use error::{EnvelopeFault, JsonFault, OpenError, RowFault, UrlFault};
pub(crate) use key::{EnvelopeKey, KeyError, Keyring};
pub(crate) use legacy::Authentication;
pub(crate) use open::{Envelope, MAX_BODY, MAX_SEALED, OpenRules, open};
pub(crate) use registration::{Registration, SealedRegistration, open_registration};
pub(crate) use row::Row;
pub(crate) use seal::{NONCE_LEN, TAG_LEN, seal};
