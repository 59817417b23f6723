//! Standard Webhooks 1.0 with a shared secret: an HMAC over id, timestamp and body, as Svix and its kin sign and verify it.
//! It signs neither the URL nor the method; nothing here makes up for that.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::legacy::{LegacyError, check_age, is_mac, mac, single};
use super::sign::SignError;
use crate::secret::Secret;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// The version of symmetric signatures. Others may stand beside it and are not ours to judge.
const VERSION: &str = "v1,";

/// `id` is the same for every attempt of a message, `unix_seconds` is not.
pub(super) fn headers(key: &Secret, id: &str, body: &[u8], unix_seconds: i64) -> Result<HeaderMap, SignError> {
    let tag = mac(key, &[id.as_bytes(), b".", unix_seconds.to_string().as_bytes(), b".", body]);
    let text = format!("{VERSION}{}", STANDARD.encode(tag.as_ref()));
    // Base64 is visible ASCII.
    let mut signature = HeaderValue::from_str(&text).expect("base64 makes a header value");
    signature.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(ID, HeaderValue::from_str(id).map_err(|_| SignError::IdUnsendable)?);
    headers.insert(TIMESTAMP, HeaderValue::from(unix_seconds));
    headers.insert(SIGNATURE, signature);
    Ok(headers)
}

/// Whether the request asks to be judged by this scheme.
pub(crate) fn is_standard(headers: &HeaderMap) -> bool {
    headers.contains_key(SIGNATURE)
}

/// Judges a request. While a secret is exchanged a sender signs with both, so that one good signature of several is enough.
pub(crate) fn verify_standard(
    key: &Secret,
    headers: &HeaderMap,
    body: &[u8],
    unix_seconds: i64,
) -> Result<(), LegacyError> {
    let (id, signatures) = (single(headers, &ID)?, single(headers, &SIGNATURE)?);
    let tags: Vec<Vec<u8>> = signatures
        .split(' ')
        .filter_map(|signature| signature.strip_prefix(VERSION))
        .filter_map(|text| STANDARD.decode(text).ok())
        .collect();
    if id.is_empty() || tags.is_empty() {
        return Err(LegacyError::Signature);
    }
    let timestamp = check_age(single(headers, &TIMESTAMP)?, unix_seconds)?;
    let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    if is_mac(key, &parts, tags.iter().map(Vec::as_slice)) { Ok(()) } else { Err(LegacyError::Mismatch) }
}

#[cfg(test)]
mod tests;
