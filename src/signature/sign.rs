//! Turns a target and a body into the request that goes on the wire, under one of the four schemes. It opens no
//! connection and draws no nonce: the moment is an argument.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::base::{IDENTIFIERS, content_digest, signature_base, signature_parameters};
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
    let digest = content_digest(body);
    let created = moment.unix_seconds;
    let nonce = URL_SAFE_NO_PAD.encode(moment.nonce);
    let algorithm = key.algorithm().name();
    let parameters = signature_parameters(created, created + WINDOW_SECONDS, &nonce, key.kid(), algorithm);
    let values = [METHOD, &target.target_uri, &target.authority, JSON, &digest];
    let base = signature_base(IDENTIFIERS.into_iter().zip(values), &parameters);
    // Unpadded base64url is not what RFC 8941 says, but what the profile emits in all of 3.x.
    let signature = URL_SAFE_NO_PAD.encode(key.sign(base.as_bytes())?);
    headers.insert(CONTENT_DIGEST, ascii(&digest));
    headers.insert(SIGNATURE_INPUT, ascii(&format!("{LABEL}={parameters}")));
    headers.insert(SIGNATURE, ascii(&format!("{LABEL}=:{signature}:")));
    Ok(())
}

fn ascii(text: &str) -> HeaderValue {
    // Base64, digits, constants, and a key id whose constructor admits printable ASCII alone.
    HeaderValue::from_str(text).expect("printable ASCII makes a header value")
}

#[cfg(test)]
mod tests;
