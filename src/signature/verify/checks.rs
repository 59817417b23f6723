//! Each check by itself, as a function of the request. Their order is `verify`'s.

use std::collections::BTreeSet;

use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName};
use serde_json::Value;

use super::checklist::{Fact, Trace};
use super::error::{Family, VerifyError};
use super::{MAX_PARAMETER_CHARS, Received, Revocation, SKEW_SECONDS, Verified};
use crate::signature::algorithm::Algorithm;
use crate::signature::base::{sha256, signature_base};
use crate::signature::jwk::{Purpose, text};
use crate::signature::sign::{CONTENT_DIGEST, SIGNATURE, SIGNATURE_INPUT};
use crate::signature::structured::{self, Bare, Decoder, Malformed, SignatureInput};
use crate::signature::{LABEL, WINDOW_SECONDS, target};

type Inputs<'a> = Result<Vec<SignatureInput<'a>>, Malformed>;

/// `Signature` and `Signature-Input`, where they are there: text, and not ambiguous before it is read.
pub(super) fn fields<'a>(
    headers: &'a HeaderMap,
    decoder: &impl Decoder,
) -> Result<(Option<&'a str>, Option<&'a str>), VerifyError> {
    let signature = first(headers, &SIGNATURE)?;
    let input = first(headers, &SIGNATURE_INPUT)?;
    if signature.is_some_and(|field| decoder.is_ambiguous(field, LABEL)) {
        return Err(VerifyError::HeaderMalformed);
    }
    Ok((signature, input))
}

/// The first line of a field. Repeated lines are refused later, in their turn.
fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, VerifyError> {
    headers.get(name).map(|value| value.to_str()).transpose().map_err(|_| VerifyError::HeaderMalformed)
}

/// The reference looks at the first label here, whatever it is called.
pub(super) fn first_label_covers_content_type(
    inputs: Option<&Inputs<'_>>,
    headers: &HeaderMap,
) -> Result<(), VerifyError> {
    let first = inputs.and_then(|inputs| inputs.as_ref().ok()).and_then(|inputs| inputs.first());
    let covered = first.is_none_or(|input| input.components.iter().any(|component| component.name == "content-type"));
    if covered || !headers.contains_key(CONTENT_TYPE) { Ok(()) } else { Err(VerifyError::ComponentsIncomplete) }
}

/// Both headers, or it is no signature.
pub(super) fn pair<'a, 'b>(
    signature: Option<&'a str>,
    inputs: Option<Inputs<'b>>,
    family: Family,
) -> Result<(&'a str, Inputs<'b>), VerifyError> {
    match (signature, inputs) {
        (Some(signature), Some(inputs)) => Ok((signature, inputs)),
        (None, None) if family == Family::Request => Err(VerifyError::Required),
        _ => Err(VerifyError::HeaderMalformed),
    }
}

/// Refuses whatever two parsers might read in two ways, before any of it is parsed.
pub(super) fn refuse_ambiguous_fields(headers: &HeaderMap) -> Result<(), VerifyError> {
    for name in [&SIGNATURE, &SIGNATURE_INPUT, &CONTENT_TYPE, &CONTENT_DIGEST, &HOST] {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(VerifyError::HeaderMalformed);
        }
    }
    if first(headers, &CONTENT_TYPE)?.is_some_and(|field| structured::split_at_commas(field).len() > 1) {
        return Err(VerifyError::HeaderMalformed);
    }
    for name in [&SIGNATURE, &SIGNATURE_INPUT, &CONTENT_DIGEST] {
        if first(headers, name)?.is_some_and(structured::has_duplicate_keys) {
            return Err(VerifyError::HeaderMalformed);
        }
    }
    Ok(())
}

/// Converting names is the sender's task: a receiver that did it too might settle on another name.
pub(super) fn wire_authority(headers: &HeaderMap, url: &str) -> Result<(), VerifyError> {
    if let Some(host) = headers.get(HOST) {
        let host = host.to_str().map_err(|_| VerifyError::TargetUriMalformed)?;
        target::check_authority_shape(host).map_err(|_| VerifyError::TargetUriMalformed)?;
    }
    match target::raw_authority(url) {
        Some(authority) if !authority.is_ascii() => Err(VerifyError::TargetUriMalformed),
        _ => Ok(()),
    }
}

pub(super) struct Parameters<'a> {
    pub(super) created: i64,
    pub(super) expires: i64,
    pub(super) nonce: &'a str,
    pub(super) keyid: &'a str,
    pub(super) alg: &'a str,
    pub(super) tag: &'a str,
}

impl<'a> Parameters<'a> {
    pub(super) fn are_there(input: &SignatureInput<'_>) -> Result<(), VerifyError> {
        const NAMES: [&str; 6] = ["created", "expires", "nonce", "keyid", "alg", "tag"];
        let complete = NAMES.iter().all(|name| input.parameter(name).is_some());
        if complete { Ok(()) } else { Err(VerifyError::ParamsIncomplete) }
    }

    pub(super) fn read(input: &'a SignatureInput<'_>) -> Result<Self, VerifyError> {
        let integer = |name| match input.parameter(name) {
            Some(Bare::Integer(value)) => Ok(*value),
            _ => Err(VerifyError::HeaderMalformed),
        };
        let string = |name| match input.parameter(name) {
            Some(Bare::String(text)) => Ok(text.as_str()),
            _ => Err(VerifyError::HeaderMalformed),
        };
        Ok(Parameters {
            created: integer("created")?,
            expires: integer("expires")?,
            nonce: string("nonce")?,
            keyid: string("keyid")?,
            alg: string("alg")?,
            tag: string("tag")?,
        })
    }

    pub(super) fn check_window(&self, now: i64) -> Result<(), VerifyError> {
        let ordered = self.expires > self.created && self.expires - self.created <= WINDOW_SECONDS;
        let current = now >= self.created - SKEW_SECONDS && now <= self.expires + SKEW_SECONDS;
        if ordered && current { Ok(()) } else { Err(VerifyError::WindowInvalid) }
    }

    pub(super) fn check_lengths(&self) -> Result<(), VerifyError> {
        let fit = [self.keyid, self.nonce].iter().all(|text| text.len() <= MAX_PARAMETER_CHARS);
        if fit { Ok(()) } else { Err(VerifyError::HeaderMalformed) }
    }

    pub(super) fn as_fact(&self) -> Fact<'a> {
        let Parameters { created, expires, nonce, keyid, alg, tag } = *self;
        Fact::Parameters { created, expires, nonce, keyid, alg, tag }
    }

    pub(super) fn verified(&self, algorithm: Algorithm) -> Verified {
        let (keyid, nonce) = (self.keyid.to_owned(), self.nonce.to_owned());
        Verified { keyid, nonce, expires: self.expires, algorithm }
    }
}

/// What a signature must cover: of every request, and of one with a body.
pub(super) struct Coverage {
    pub(super) always: &'static [&'static str],
    pub(super) body: bool,
}

impl Coverage {
    /// Whether the body is covered.
    pub(super) fn check(&self, input: &SignatureInput<'_>, request: &Received<'_>) -> Result<bool, VerifyError> {
        let names: BTreeSet<&str> = input.components.iter().map(|component| component.name.as_str()).collect();
        let plain = input.components.iter().all(|component| component.parameters.is_empty());
        if names.len() != input.components.len() || !plain {
            return Err(VerifyError::HeaderMalformed);
        }
        let body = names.contains("content-digest");
        let typed = names.contains("content-type") || !request.headers.contains_key(CONTENT_TYPE);
        let bound = body || !self.body || request.body.is_empty();
        if typed && bound && self.always.iter().all(|name| names.contains(name)) {
            Ok(body)
        } else {
            Err(VerifyError::ComponentsIncomplete)
        }
    }
}

/// Where a careless key set names one id twice, the last one counts, as it does for the reference.
pub(super) fn find_key<'a>(jwks: &'a Value, keyid: &str) -> Option<&'a Value> {
    jwks.get("keys")?.as_array()?.iter().rev().find(|jwk| text(jwk, "kid") == Some(keyid))
}

pub(super) fn purpose(jwk: &Value, algorithm: Algorithm, purposes: &[Purpose]) -> Result<(), VerifyError> {
    let verifies = jwk
        .get("key_ops")
        .and_then(Value::as_array)
        .is_some_and(|operations| operations.iter().any(|op| op == "verify"));
    let purpose = text(jwk, "adcp_use").and_then(Purpose::parse);
    // `alg` is not read: key type and curve say the same and cannot be left out.
    let purpose = purpose.is_some_and(|purpose| purposes.contains(&purpose));
    let fits = text(jwk, "use") == Some("sig") && verifies && purpose && Algorithm::of_jwk(jwk) == Some(algorithm);
    if fits { Ok(()) } else { Err(VerifyError::KeyPurposeInvalid) }
}

pub(super) fn revocation(revocation: &Revocation<'_>, keyid: &str) -> Result<(), VerifyError> {
    match revocation {
        Revocation::Stale => Err(VerifyError::RevocationStale),
        Revocation::Revoked(kids) if kids.contains(keyid) => Err(VerifyError::KeyRevoked),
        Revocation::Revoked(_) | Revocation::NotTracked => Ok(()),
    }
}

pub(super) fn base(request: &Received<'_>, input: &SignatureInput<'_>) -> Result<String, VerifyError> {
    let canonical = target::received(request.url).map_err(|_| VerifyError::TargetUriMalformed)?;
    let method = request.method.to_ascii_uppercase();
    let mut components = Vec::with_capacity(input.components.len());
    for component in &input.components {
        let value = match component.name.as_str() {
            "@method" => method.clone(),
            "@target-uri" => canonical.target_uri.clone(),
            "@authority" => canonical.authority.clone(),
            name => field_value(request.headers, name)?,
        };
        components.push((component.identifier, value));
    }
    let lines = components.iter().map(|(identifier, value)| (*identifier, value.as_str()));
    Ok(signature_base(lines, input.raw))
}

/// The value of a covered header, its lines joined as RFC 9421 section 2.1 says. Derived components other than the three
/// of the profile find no header of their name and are refused.
fn field_value(headers: &HeaderMap, name: &str) -> Result<String, VerifyError> {
    let mut lines = Vec::new();
    for value in headers.get_all(name) {
        lines.push(value.to_str().map_err(|_| VerifyError::HeaderMalformed)?.trim());
    }
    if lines.is_empty() { Err(VerifyError::HeaderMalformed) } else { Ok(lines.join(", ")) }
}

pub(super) fn digest(
    headers: &HeaderMap,
    body: &[u8],
    decoder: &impl Decoder,
    trace: &mut dyn Trace,
) -> Result<(), VerifyError> {
    let field = first(headers, &CONTENT_DIGEST)?.unwrap_or_default();
    let (sent, computed) = (decoder.sha256(field).ok(), sha256(body));
    trace.saw(Fact::Digest { sent: sent.as_deref(), computed: computed.as_ref() });
    if sent.as_deref() == Some(computed.as_ref()) { Ok(()) } else { Err(VerifyError::DigestMismatch) }
}
