//! RFC 9421 webhook signatures in the profile `adcp/webhook-signing/v1`: canonical target, keys, signing, verifying, and
//! the schemes with a shared secret. It does not resolve keys, hold a clock, draw nonces or remember the ones it has seen.

mod algorithm;
mod base;
mod der;
mod encrypted;
mod jwk;
mod key;
mod legacy;
mod pem;
mod private;
mod revocation;
mod sign;
mod standard;
mod structured;
mod target;
#[cfg(test)]
mod vectors;
pub(crate) mod verify;

pub(crate) use algorithm::{Algorithm, Algorithms};
pub(crate) use jwk::{KEY_SET_BYTES, PrivateJwk, key_set};
pub(crate) use key::{KeyError, SigningKey};
pub(crate) use legacy::{LegacyError, is_hmac, verify_hmac};
pub(crate) use private::private_jwk;
pub(crate) use revocation::RevocationList;
pub(crate) use sign::{Moment, Scheme, SignError, SignedRequest, sign};
pub(crate) use standard::{is_standard, verify_standard};
pub(crate) use target::Target;

/// The value of the `tag` parameter: a signature made for one profile is worth nothing in another.
const TAG: &str = "adcp/webhook-signing/v1";
/// Of requests between agents, which are verified here by command only.
const REQUEST_TAG: &str = "adcp/request-signing/v1";
/// Of requests to the terminal-notification receiver: the request-signing profile of AdCP, under a name of its own.
const NOTIFICATION_TAG: &str = "outboxd/terminal-notification-request/v1";
/// The label that this profile signs and verifies under; other labels of a message are not ours to judge.
const LABEL: &str = "sig1";
/// The longest validity that the profile allows between `created` and `expires`, in seconds.
const WINDOW_SECONDS: i64 = 300;
