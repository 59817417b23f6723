//! RFC 9421 webhook signatures in the profile `adcp/webhook-signing/v1`: canonical target, keys, signing, verifying, and
//! the two legacy schemes. It does not resolve keys, hold a clock, draw nonces or remember the ones it has seen.

mod algorithm;
mod base;
mod der;
mod encrypted;
mod jwk;
mod key;
mod legacy;
mod pem;
mod private;
mod sign;
mod structured;
mod target;
#[cfg(test)]
mod vectors;
pub(crate) mod verify;

pub(crate) use algorithm::{Algorithm, Algorithms};
pub(crate) use jwk::PrivateJwk;
pub(crate) use key::{KeyError, SigningKey};
pub(crate) use legacy::verify_hmac;
pub(crate) use private::private_jwk;
pub(crate) use sign::{Moment, Scheme, SignError, SignedRequest, sign};
pub(crate) use target::Target;

/// The value of the `tag` parameter: a signature made for one profile is worth nothing in another.
const TAG: &str = "adcp/webhook-signing/v1";
/// Of requests to the terminal-notification receiver: the request-signing profile of AdCP, under a name of its own.
const NOTIFICATION_TAG: &str = "outboxd/terminal-notification-request/v1";
/// The label that this profile signs and verifies under; other labels of a message are not ours to judge.
const LABEL: &str = "sig1";
/// The longest validity that the profile allows between `created` and `expires`, in seconds.
const WINDOW_SECONDS: i64 = 300;
