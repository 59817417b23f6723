//! The receiver's side: the checks of the webhook profile in their order, each with its code. It fetches no keys and
//! remembers no nonces: the caller claims the nonce of a `Verified` before it acts on the request.

use std::collections::BTreeSet;

use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName};
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};
use serde_json::Value;

use super::algorithm::Algorithm;
use super::base::{COVERED, sha256, signature_base};
use super::jwk::{Purpose, coordinate};
use super::sign::{CONTENT_DIGEST, SIGNATURE, SIGNATURE_INPUT};
use super::structured::{self, Bare, SignatureInput};
use super::target;
use super::{LABEL, NOTIFICATION_TAG, TAG, WINDOW_SECONDS};

/// How far the clocks of the two sides may be apart, in seconds.
pub(crate) const SKEW_SECONDS: i64 = 60;
/// Longer key ids and nonces would only swell the caller's replay store.
pub(crate) const MAX_PARAMETER_CHARS: usize = 256;

/// What a signature must say it is for, and cover at least.
pub(crate) struct Profile {
    tag: &'static str,
    covered: &'static [&'static str],
}

pub(crate) const WEBHOOK: Profile = Profile { tag: TAG, covered: &COVERED };
/// A request to the terminal-notification receiver with a body, and one without.
pub(crate) const NOTIFICATION: Profile = Profile { tag: NOTIFICATION_TAG, covered: &COVERED };
pub(crate) const NOTIFICATION_READ: Profile =
    Profile { tag: NOTIFICATION_TAG, covered: &["@method", "@target-uri", "@authority", "content-digest"] };

/// A request as it came in. `url` is what the sender aimed at: scheme, `Host` and request target.
pub(crate) struct Received<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
}

/// What the receiver knows when the request arrives.
pub(crate) struct Knowledge<'a> {
    /// A JSON Web Key Set: an object with an array `keys`.
    pub(crate) jwks: &'a Value,
    pub(crate) revocation: Revocation<'a>,
    /// Key ids whose share of the replay store is full: refused before any cryptography is spent on them.
    pub(crate) crowded: &'a dyn Fn(&str) -> bool,
    pub(crate) unix_seconds: i64,
}

pub(crate) enum Revocation<'a> {
    NotTracked,
    /// A list is tracked and too old to rely on.
    Stale,
    Revoked(&'a BTreeSet<String>),
}

/// A signature that holds, and what the caller needs to claim its nonce until `expires` and the skew have passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) keyid: String,
    pub(crate) nonce: String,
    pub(crate) expires: i64,
    pub(crate) algorithm: Algorithm,
}

/// Why a request is refused. `code` is what the receiver may tell the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.code())]
pub(crate) enum VerifyError {
    HeaderMalformed,
    ParamsIncomplete,
    TagInvalid,
    AlgNotAllowed,
    WindowInvalid,
    ComponentsIncomplete,
    KeyUnknown,
    KeyPurposeInvalid,
    KeyRevoked,
    RevocationStale,
    RateAbuse,
    Invalid,
    DigestMismatch,
    /// Only the caller's replay store can find this out.
    Replayed,
    TargetUriMalformed,
}

impl VerifyError {
    pub(crate) fn code(self) -> &'static str {
        match self {
            VerifyError::HeaderMalformed => "webhook_signature_header_malformed",
            VerifyError::ParamsIncomplete => "webhook_signature_params_incomplete",
            VerifyError::TagInvalid => "webhook_signature_tag_invalid",
            VerifyError::AlgNotAllowed => "webhook_signature_alg_not_allowed",
            VerifyError::WindowInvalid => "webhook_signature_window_invalid",
            VerifyError::ComponentsIncomplete => "webhook_signature_components_incomplete",
            VerifyError::KeyUnknown => "webhook_signature_key_unknown",
            VerifyError::KeyPurposeInvalid => "webhook_signature_key_purpose_invalid",
            VerifyError::KeyRevoked => "webhook_signature_key_revoked",
            VerifyError::RevocationStale => "webhook_signature_revocation_stale",
            VerifyError::RateAbuse => "webhook_signature_rate_abuse",
            VerifyError::Invalid => "webhook_signature_invalid",
            VerifyError::DigestMismatch => "webhook_signature_digest_mismatch",
            VerifyError::Replayed => "webhook_signature_replayed",
            VerifyError::TargetUriMalformed => "webhook_target_uri_malformed",
        }
    }
}

/// Whether both headers of a signature are there: then it decides who the sender is, whatever else the request says.
pub(crate) fn is_signed(headers: &HeaderMap) -> bool {
    headers.contains_key(SIGNATURE) && headers.contains_key(SIGNATURE_INPUT)
}

/// Whether a signature by this public key can be verified at all, and it is nobody's private key.
pub(crate) fn is_public_key(jwk: &Value) -> bool {
    let of_curve = Algorithm::from_curve(text(jwk, "kty").unwrap_or_default(), text(jwk, "crv").unwrap_or_default());
    let has = |name| text(jwk, name).and_then(coordinate).is_some();
    let whole = of_curve.is_some_and(|algorithm| {
        has("x") && (algorithm == Algorithm::Ed25519 || has("y")) && check_purpose(jwk, algorithm).is_ok()
    });
    whole && jwk.get("d").is_none()
}

pub(crate) fn verify(request: &Received<'_>, knowledge: &Knowledge<'_>) -> Result<Verified, VerifyError> {
    verify_as(&WEBHOOK, request, knowledge)
}

/// The order is part of the contract: a request with two faults must earn the code of the first.
pub(crate) fn verify_as(
    profile: &Profile,
    request: &Received<'_>,
    knowledge: &Knowledge<'_>,
) -> Result<Verified, VerifyError> {
    let headers = request.headers;
    let signature_field = first(headers, &SIGNATURE)?;
    let input_field = first(headers, &SIGNATURE_INPUT)?;
    let inputs = input_field.map(structured::signature_inputs);

    refuse_mixed_alphabets(signature_field)?;
    if let Some(Ok(inputs)) = &inputs {
        first_label_covers_content_type(inputs, headers)?;
    }
    let (Some(signature_field), Some(inputs)) = (signature_field, inputs) else {
        return Err(VerifyError::HeaderMalformed);
    };
    refuse_ambiguous_fields(headers)?;
    check_wire_authority(headers, request.url)?;

    let inputs = inputs.map_err(|_| VerifyError::HeaderMalformed)?;
    let input = inputs.iter().find(|input| input.label == LABEL).ok_or(VerifyError::HeaderMalformed)?;
    let signature = decode_signature(signature_field)?;

    let parameters = Parameters::read(input)?;
    if parameters.tag != profile.tag {
        return Err(VerifyError::TagInvalid);
    }
    let algorithm: Algorithm = parameters.alg.parse().map_err(|_| VerifyError::AlgNotAllowed)?;
    parameters.check_window(knowledge.unix_seconds)?;
    check_components(input, profile.covered)?;
    if [parameters.keyid, parameters.nonce].iter().any(|text| text.len() > MAX_PARAMETER_CHARS) {
        return Err(VerifyError::HeaderMalformed);
    }

    let jwk = find_key(knowledge.jwks, parameters.keyid).ok_or(VerifyError::KeyUnknown)?;
    check_purpose(jwk, algorithm)?;
    check_revocation(&knowledge.revocation, parameters.keyid)?;
    if (knowledge.crowded)(parameters.keyid) {
        return Err(VerifyError::RateAbuse);
    }
    check_signature(request, input, jwk, algorithm, &signature)?;
    check_digest(headers, request.body)?;
    Ok(Verified {
        keyid: parameters.keyid.to_owned(),
        nonce: parameters.nonce.to_owned(),
        expires: parameters.expires,
        algorithm,
    })
}

/// The first line of a field. Repeated lines are refused later, in their turn.
fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, VerifyError> {
    headers.get(name).map(|value| value.to_str()).transpose().map_err(|_| VerifyError::HeaderMalformed)
}

fn refuse_mixed_alphabets(signature_field: Option<&str>) -> Result<(), VerifyError> {
    match signature_field.map(|field| structured::byte_sequence(field, |key| key == LABEL)) {
        Some(Ok(Some(text))) if structured::mixes_alphabets(text) => Err(VerifyError::HeaderMalformed),
        _ => Ok(()),
    }
}

/// The reference looks at the first label here, whatever it is called.
fn first_label_covers_content_type(inputs: &[SignatureInput<'_>], headers: &HeaderMap) -> Result<(), VerifyError> {
    let covered =
        inputs.first().is_none_or(|input| input.components.iter().any(|component| component.name == "content-type"));
    if covered || !headers.contains_key(CONTENT_TYPE) { Ok(()) } else { Err(VerifyError::ComponentsIncomplete) }
}

/// Refuses whatever two parsers might read in two ways, before any of it is parsed.
fn refuse_ambiguous_fields(headers: &HeaderMap) -> Result<(), VerifyError> {
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
fn check_wire_authority(headers: &HeaderMap, url: &str) -> Result<(), VerifyError> {
    if let Some(host) = headers.get(HOST) {
        let host = host.to_str().map_err(|_| VerifyError::TargetUriMalformed)?;
        target::check_authority_shape(host).map_err(|_| VerifyError::TargetUriMalformed)?;
    }
    match target::raw_authority(url) {
        Some(authority) if !authority.is_ascii() => Err(VerifyError::TargetUriMalformed),
        _ => Ok(()),
    }
}

fn decode_signature(field: &str) -> Result<Vec<u8>, VerifyError> {
    structured::byte_sequence(field, |key| key == LABEL)
        .ok()
        .flatten()
        .and_then(structured::decode_either)
        .ok_or(VerifyError::HeaderMalformed)
}

struct Parameters<'a> {
    created: i64,
    expires: i64,
    nonce: &'a str,
    keyid: &'a str,
    alg: &'a str,
    tag: &'a str,
}

impl<'a> Parameters<'a> {
    fn read(input: &'a SignatureInput<'_>) -> Result<Self, VerifyError> {
        const NAMES: [&str; 6] = ["created", "expires", "nonce", "keyid", "alg", "tag"];
        if NAMES.iter().any(|name| input.parameter(name).is_none()) {
            return Err(VerifyError::ParamsIncomplete);
        }
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

    fn check_window(&self, now: i64) -> Result<(), VerifyError> {
        let ordered = self.expires > self.created && self.expires - self.created <= WINDOW_SECONDS;
        let current = now >= self.created - SKEW_SECONDS && now <= self.expires + SKEW_SECONDS;
        if ordered && current { Ok(()) } else { Err(VerifyError::WindowInvalid) }
    }
}

fn check_components(input: &SignatureInput<'_>, covered: &[&str]) -> Result<(), VerifyError> {
    let names: BTreeSet<&str> = input.components.iter().map(|component| component.name.as_str()).collect();
    if names.len() != input.components.len() || input.components.iter().any(|component| component.has_parameters) {
        return Err(VerifyError::HeaderMalformed);
    }
    if covered.iter().all(|name| names.contains(name)) { Ok(()) } else { Err(VerifyError::ComponentsIncomplete) }
}

/// Where a careless key set names one id twice, the last one counts, as it does for the reference.
fn find_key<'a>(jwks: &'a Value, keyid: &str) -> Option<&'a Value> {
    jwks.get("keys")?.as_array()?.iter().rev().find(|jwk| text(jwk, "kid") == Some(keyid))
}

fn text<'a>(jwk: &'a Value, member: &str) -> Option<&'a str> {
    jwk.get(member)?.as_str()
}

fn check_purpose(jwk: &Value, algorithm: Algorithm) -> Result<(), VerifyError> {
    let verifies = jwk
        .get("key_ops")
        .and_then(Value::as_array)
        .is_some_and(|operations| operations.iter().any(|op| op == "verify"));
    let purpose = text(jwk, "adcp_use").and_then(Purpose::parse);
    // `alg` is not read: key type and curve say the same and cannot be left out.
    let of_curve = Algorithm::from_curve(text(jwk, "kty").unwrap_or_default(), text(jwk, "crv").unwrap_or_default());
    let fits = text(jwk, "use") == Some("sig") && verifies && purpose.is_some() && of_curve == Some(algorithm);
    if fits { Ok(()) } else { Err(VerifyError::KeyPurposeInvalid) }
}

fn check_revocation(revocation: &Revocation<'_>, keyid: &str) -> Result<(), VerifyError> {
    match revocation {
        Revocation::Stale => Err(VerifyError::RevocationStale),
        Revocation::Revoked(kids) if kids.contains(keyid) => Err(VerifyError::KeyRevoked),
        Revocation::Revoked(_) | Revocation::NotTracked => Ok(()),
    }
}

fn check_signature(
    request: &Received<'_>,
    input: &SignatureInput<'_>,
    jwk: &Value,
    algorithm: Algorithm,
    signature: &[u8],
) -> Result<(), VerifyError> {
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
        components.push((component.name.as_str(), value));
    }
    let base = signature_base(components.iter().map(|(name, value)| (*name, value.as_str())), input.raw);
    let member = |name| text(jwk, name).and_then(coordinate).ok_or(VerifyError::HeaderMalformed);
    let outcome = match algorithm {
        Algorithm::Ed25519 => {
            UnparsedPublicKey::new(&ED25519, member("x")?.as_slice()).verify(base.as_bytes(), signature)
        }
        Algorithm::EcdsaP256Sha256 => {
            let point = [&[4], member("x")?.as_slice(), member("y")?.as_slice()].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(base.as_bytes(), signature)
        }
    };
    outcome.map_err(|_| VerifyError::Invalid)
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

fn check_digest(headers: &HeaderMap, body: &[u8]) -> Result<(), VerifyError> {
    let field = first(headers, &CONTENT_DIGEST)?.unwrap_or_default();
    // Upper case is no key, but the reference reads it, and it cannot hide a second digest.
    let sent = structured::byte_sequence(field, |key| key.eq_ignore_ascii_case("sha-256"));
    let sent = sent.ok().flatten().and_then(structured::decode_either);
    if sent.as_deref() == Some(sha256(body).as_ref()) { Ok(()) } else { Err(VerifyError::DigestMismatch) }
}

#[cfg(test)]
mod tests;
