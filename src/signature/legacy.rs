//! The two schemes that registrations from before RFC 9421 may ask for: a bearer token, and an HMAC over timestamp and
//! body. They sign neither the URL nor the method; nothing here makes up for that.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use zeroize::Zeroizing;

use super::sign::SignError;
use crate::secret::Secret;

const SIGNATURE: HeaderName = HeaderName::from_static("x-adcp-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-adcp-timestamp");
const KEY_ID: HeaderName = HeaderName::from_static("x-adcp-key-id");
/// A constant: the shared secret comes with the registration, so there is no key to choose.
const KEY_ID_VALUE: HeaderValue = HeaderValue::from_static("adcp-task-registration");
/// How far the clocks of the two sides may be apart, in seconds.
const MAX_SKEW: u64 = 300;

/// Fails for credentials that HTTP cannot carry unchanged: outside printable ASCII, or with blanks at an end, which every
/// parser strips.
pub(super) fn bearer(credentials: &Secret) -> Result<HeaderValue, SignError> {
    let text = credentials.expose();
    let blank = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b' ' | b'\t'));
    if blank(text.first()) || blank(text.last()) || !text.is_ascii() {
        return Err(SignError::CredentialsUnsendable);
    }
    // Wiped when the last copy of the header is dropped; what HTTP writes of it is out of our hands.
    let line = Bytes::from_owner(Zeroizing::new([b"Bearer ", text].concat()));
    let mut value = HeaderValue::from_maybe_shared(line).map_err(|_| SignError::CredentialsUnsendable)?;
    value.set_sensitive(true);
    Ok(value)
}

pub(super) fn hmac_headers(credentials: &Secret, body: &[u8], unix_seconds: i64) -> Result<HeaderMap, SignError> {
    if credentials.expose().is_empty() {
        return Err(SignError::CredentialsUnsendable);
    }
    let tag = mac(credentials, &[unix_seconds.to_string().as_bytes(), b".", body]);
    let text = format!("sha256={}", crate::hex::encode(tag.as_ref()));
    // Hex digits are visible ASCII.
    let mut signature = HeaderValue::from_str(&text).expect("hex digits make a header value");
    signature.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(SIGNATURE, signature);
    headers.insert(TIMESTAMP, HeaderValue::from(unix_seconds));
    headers.insert(KEY_ID, KEY_ID_VALUE);
    Ok(headers)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LegacyError {
    #[error("a header of the scheme is absent, repeated or not text")]
    Missing,
    #[error("the signature has not the form of the scheme")]
    Signature,
    #[error("the timestamp is not a number")]
    Timestamp,
    #[error("the timestamp is more than {MAX_SKEW} s away")]
    Skew,
    #[error("the signature does not match")]
    Mismatch,
}

/// Whether the request asks to be judged by this scheme.
pub(crate) fn is_hmac(headers: &HeaderMap) -> bool {
    headers.contains_key(SIGNATURE)
}

/// Judges a request of the HMAC scheme. The comparison takes the same time for every wrong signature.
pub(crate) fn verify_hmac(
    credentials: &Secret,
    headers: &HeaderMap,
    body: &[u8],
    unix_seconds: i64,
) -> Result<(), LegacyError> {
    let signature = single(headers, &SIGNATURE)?.strip_prefix("sha256=").ok_or(LegacyError::Signature)?;
    let tag = unhex(signature).ok_or(LegacyError::Signature)?;
    let timestamp = check_age(single(headers, &TIMESTAMP)?, unix_seconds)?;
    let parts = [timestamp.as_bytes(), b".", body];
    if is_mac(credentials, &parts, [tag.as_slice()]) { Ok(()) } else { Err(LegacyError::Mismatch) }
}

/// What was signed is the text of the timestamp, not its value.
pub(super) fn check_age(timestamp: &str, unix_seconds: i64) -> Result<&str, LegacyError> {
    if !timestamp.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(LegacyError::Timestamp);
    }
    let sent: i64 = timestamp.parse().map_err(|_| LegacyError::Timestamp)?;
    if unix_seconds.abs_diff(sent) > MAX_SKEW { Err(LegacyError::Skew) } else { Ok(timestamp) }
}

/// HMAC-SHA256 over the parts, one after another.
pub(super) fn mac(secret: &Secret, parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose()));
    parts.iter().for_each(|part| context.update(part));
    context.sign()
}

/// Whether one of the tags is right, in the same time for every wrong one. The parts are read once, whatever the number of
/// tags: what is compared with each is an HMAC of the right tag.
pub(super) fn is_mac<'a>(secret: &Secret, parts: &[&[u8]], tags: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    let right = hmac::sign(&key, mac(secret, parts).as_ref());
    tags.into_iter().any(|tag| hmac::verify(&key, tag, right.as_ref()).is_ok())
}

pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, LegacyError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| LegacyError::Missing),
        _ => Err(LegacyError::Missing),
    }
}

/// Lower-case digits only: that is the one spelling that senders of this scheme use.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
