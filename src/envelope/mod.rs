//! The sealed envelope of an outbox row: opening, checking against the row, sealing. It performs no I/O, and decides
//! nothing about what becomes of a row whose envelope it refuses.

mod aad;
mod announced;
mod body;
mod compose;
mod draft;
mod error;
mod held;
mod inspect;
pub(crate) mod json;
mod key;
mod legacy;
mod open;
mod registration;
mod renew;
mod reseal;
mod row;
mod seal;

#[cfg(test)]
mod tests;

pub(crate) use aad::{Aad, Binding};
pub(crate) use announced::Announced;
pub(crate) use draft::{Credentials, RegistrationDraft, seal_delivery, seal_registration};
#[cfg(any(test, fuzzing))]
pub(crate) use error::EnvelopeFault;
pub(crate) use error::{JsonFault, OpenError};
pub(crate) use held::{open_held, seal_held};
pub(crate) use inspect::{Form, Hint, inspect_delivery, inspect_registration};
pub(crate) use key::{EnvelopeKey, Keyring};
pub(crate) use legacy::Authentication;
pub(crate) use open::{Envelope, OpenRules, open};
pub(crate) use registration::{Registration, SealedRegistration};
pub(crate) use renew::renew;
pub(crate) use reseal::{Opened, try_open};
pub(crate) use row::{Composed, Row};
pub(crate) use seal::{NONCE_LEN, seal};
