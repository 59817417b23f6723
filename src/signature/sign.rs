//! Turns a target and a body into the request that goes on the wire, under one of the four schemes. It opens no
//! connection and draws no nonce: the moment is an argument.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::base::{IDENTIFIERS, put_content_digest, put_parameters, signature_base};
use super::key::{KeyError, SigningKey};
use super::target::Target;
use super::{LABEL, WINDOW_SECONDS};
use super::{legacy, standard};
use crate::secret::Secret;

pub(super) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
pub(super) const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");
pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("signature");

const METHOD: &str = "POST";
const JSON: &str = "application/json";

/// What makes one attempt's signature differ from the next.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) unix_seconds: i64,
    pub(crate) nonce: [u8; 16],
}

#[derive(Clone, Copy)]
pub(crate) enum Scheme<'a> {
    Rfc9421(&'a SigningKey),
    Bearer(&'a Secret),
    HmacSha256(&'a Secret),
    StandardWebhooks { key: &'a Secret, id: &'a str },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignError {
    #[error("the registered credentials are not fit for a header")]
    CredentialsUnsendable,
    #[error("the message id is not fit for a header")]
    IdUnsendable,
    #[error("the target is not fit for a header")]
    TargetUnsendable,
    #[error("the signing key failed: {0}")]
    Key(#[from] KeyError),
}

/// A request, whole but for `Content-Length` and `User-Agent`.
#[derive(Clone)]
pub(crate) struct SignedRequest {
    pub(crate) request_target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) fn sign(
    scheme: Scheme<'_>,
    target: &Target,
    body: Bytes,
    moment: Moment,
) -> Result<SignedRequest, SignError> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(HOST, HeaderValue::from_str(&target.authority).map_err(|_| SignError::TargetUnsendable)?);
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    match scheme {
        Scheme::Rfc9421(key) => rfc9421(key, target, &body, moment, &mut headers)?,
        Scheme::Bearer(credentials) => {
            headers.insert(AUTHORIZATION, legacy::bearer(credentials)?);
        }
        Scheme::HmacSha256(credentials) => {
            headers.extend(legacy::hmac_headers(credentials, &body, moment.unix_seconds)?);
        }
        Scheme::StandardWebhooks { key, id } => {
            headers.extend(standard::headers(key, id, &body, moment.unix_seconds)?);
        }
    }
    Ok(SignedRequest { request_target: target.request_target.clone(), headers, body })
}

/// Says where to and how much, and neither path nor content.
impl std::fmt::Debug for SignedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (host, bytes) = (self.headers.get(HOST), self.body.len());
        f.debug_struct("SignedRequest").field("host", &host).field("bytes", &bytes).finish_non_exhaustive()
    }
}

fn rfc9421(
    key: &SigningKey,
    target: &Target,
    body: &[u8],
    moment: Moment,
    headers: &mut HeaderMap,
) -> Result<(), SignError> {
    let created = moment.unix_seconds;
    let nonce = URL_SAFE_NO_PAD.encode(moment.nonce);
    // The three values one after another: they share their memory, and so do their copies in each request.
    let mut text = String::with_capacity(512);
    put_content_digest(&mut text, body);
    let digest = 0..text.len();
    text.push_str(LABEL);
    text.push('=');
    let parameters = text.len();
    put_parameters(&mut text, created, created + WINDOW_SECONDS, &nonce, key.kid(), key.algorithm().name());
    let input = digest.end..text.len();
    let values = [METHOD, &target.target_uri, &target.authority, JSON, &text[digest.clone()]];
    let base = signature_base(IDENTIFIERS.into_iter().zip(values), &text[parameters..]);
    text.push_str(LABEL);
    text.push_str("=:");
    // Unpadded base64url is not what RFC 8941 says, but what the profile emits in all of 3.x.
    URL_SAFE_NO_PAD.encode_string(key.sign(base.as_bytes())?, &mut text);
    text.push(':');
    let signature = input.end..text.len();
    let text = Bytes::from(text);
    headers.insert(CONTENT_DIGEST, ascii(text.slice(digest)));
    headers.insert(SIGNATURE_INPUT, ascii(text.slice(input)));
    headers.insert(SIGNATURE, ascii(text.slice(signature)));
    Ok(())
}

fn ascii(text: Bytes) -> HeaderValue {
    // Base64, digits, constants, and a key id whose constructor admits printable ASCII alone.
    HeaderValue::from_maybe_shared(text).expect("printable ASCII makes a header value")
}

#[cfg(test)]
mod tests;
