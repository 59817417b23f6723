//! The receiver's side: the checks of a profile in their order, each with its code. It fetches no keys and remembers no
//! nonces: the caller claims the nonce of a `Verified` before it acts on the request.

mod checklist;
mod checks;
mod error;

use std::collections::BTreeSet;

use http::HeaderMap;
use serde_json::Value;

pub(crate) use self::checklist::{Check, Fact, Trace, Unwatched};
use self::checks::Parameters;
pub(crate) use self::error::{Family, VerifyError};
use super::algorithm::Algorithm;
use super::base::COVERED;
use super::jwk::{Purpose, VerifyingKey};
use super::sign::{SIGNATURE, SIGNATURE_INPUT};
use super::structured::{self, Decoder, Rfc8941, WebhookV1};
use super::{LABEL, NOTIFICATION_TAG, REQUEST_TAG, TAG};

/// How far the clocks of the two sides may be apart, in seconds.
pub(crate) const SKEW_SECONDS: i64 = 60;
/// Longer key ids and nonces would only swell the caller's replay store.
pub(crate) const MAX_PARAMETER_CHARS: usize = 256;

/// What a signature must say it is for, and cover at least; what its key must be for, and how its bytes are spelt.
pub(crate) struct Profile<D> {
    pub(crate) family: Family,
    tag: &'static str,
    covered: &'static [&'static str],
    /// Whether a body makes `content-digest` one of the covered.
    body_covered: bool,
    purposes: &'static [Purpose],
    decoder: D,
}

const BOTH_PURPOSES: &[Purpose] = &[Purpose::WebhookSigning, Purpose::RequestSigning];

pub(crate) const WEBHOOK: Profile<WebhookV1> = Profile {
    family: Family::Webhook,
    tag: TAG,
    covered: &COVERED,
    body_covered: true,
    // Either value serves for webhooks: the tag of the signature keeps the profiles apart.
    purposes: BOTH_PURPOSES,
    decoder: WebhookV1,
};
/// A request to the terminal-notification receiver with a body, and one without.
pub(crate) const NOTIFICATION: Profile<WebhookV1> = Profile { tag: NOTIFICATION_TAG, ..WEBHOOK };
pub(crate) const NOTIFICATION_READ: Profile<WebhookV1> =
    Profile { covered: &["@method", "@target-uri", "@authority", "content-digest"], ..NOTIFICATION };
/// A request between agents as AdCP 3.2 signs it, and as 3.1 does, which may leave the body out.
pub(crate) const REQUEST: Profile<Rfc8941> = Profile {
    family: Family::Request,
    tag: REQUEST_TAG,
    covered: &["@method", "@target-uri", "@authority"],
    body_covered: true,
    purposes: &[Purpose::RequestSigning],
    decoder: Rfc8941,
};
pub(crate) const REQUEST_3_1: Profile<WebhookV1> = Profile {
    family: Family::Request,
    tag: REQUEST_TAG,
    covered: &["@method", "@target-uri", "@authority"],
    body_covered: false,
    purposes: &[Purpose::RequestSigning],
    decoder: WebhookV1,
};

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

/// Whether both headers of a signature are there: then it decides who the sender is, whatever else the request says.
pub(crate) fn is_signed(headers: &HeaderMap) -> bool {
    headers.contains_key(SIGNATURE) && headers.contains_key(SIGNATURE_INPUT)
}

/// Whether a signature by this public key can be verified at all, and it is nobody's private key.
pub(crate) fn is_public_key(jwk: &Value) -> bool {
    let whole = Algorithm::of_jwk(jwk).is_some_and(|algorithm| {
        VerifyingKey::of(jwk, algorithm).is_some() && checks::purpose(jwk, algorithm, BOTH_PURPOSES).is_ok()
    });
    whole && jwk.get("d").is_none()
}

pub(crate) fn verify(request: &Received<'_>, knowledge: &Knowledge<'_>) -> Result<Verified, VerifyError> {
    verify_as(&WEBHOOK, request, knowledge)
}

pub(crate) fn verify_as<D: Decoder>(
    profile: &Profile<D>,
    request: &Received<'_>,
    knowledge: &Knowledge<'_>,
) -> Result<Verified, VerifyError> {
    verify_watched(profile, request, knowledge, &mut Unwatched)
}

/// Tells the trace of every check as it is made.
struct Checks<'t> {
    trace: &'t mut dyn Trace,
}

impl Checks<'_> {
    fn made<T>(&mut self, check: Check, outcome: Result<T, VerifyError>) -> Result<T, VerifyError> {
        self.trace.checked(check, outcome.as_ref().map(drop).map_err(|error| *error));
        outcome
    }
}

/// The order is part of the contract: a request with two faults must earn the code of the first.
pub(crate) fn verify_watched<D: Decoder>(
    profile: &Profile<D>,
    request: &Received<'_>,
    knowledge: &Knowledge<'_>,
    trace: &mut dyn Trace,
) -> Result<Verified, VerifyError> {
    let mut checks = Checks { trace };
    let headers = request.headers;
    let (signature, input) = checks.made(Check::Text, checks::fields(headers, &profile.decoder))?;
    let inputs = input.map(structured::signature_inputs);
    checks.made(Check::FirstLabel, checks::first_label_covers_content_type(inputs.as_ref(), headers))?;
    let (signature, inputs) = checks.made(Check::Pair, checks::pair(signature, inputs, profile.family))?;
    checks.made(Check::Ambiguity, checks::refuse_ambiguous_fields(headers))?;
    checks.made(Check::Authority, checks::wire_authority(headers, request.url))?;
    let inputs = inputs.map_err(|_| VerifyError::HeaderMalformed);
    let input = inputs.as_ref().ok().and_then(|inputs| inputs.iter().find(|input| input.label == LABEL));
    let read = input.zip(profile.decoder.signature(signature, LABEL).ok()).ok_or(VerifyError::HeaderMalformed);
    let (input, signature) = checks.made(Check::Syntax, read)?;

    checks.made(Check::Parameters, Parameters::are_there(input))?;
    let parameters = checks.made(Check::ParameterTypes, Parameters::read(input))?;
    checks.trace.saw(parameters.as_fact());
    let tagged = parameters.tag == profile.tag;
    checks.made(Check::Tag, tagged.then_some(()).ok_or(VerifyError::TagInvalid))?;
    let algorithm: Result<Algorithm, _> = parameters.alg.parse().map_err(|_| VerifyError::AlgNotAllowed);
    let algorithm = checks.made(Check::Algorithm, algorithm)?;
    checks.made(Check::Window, parameters.check_window(knowledge.unix_seconds))?;
    let covered = checks::Coverage { always: profile.covered, body: profile.body_covered };
    let body_covered = checks.made(Check::Components, covered.check(input, request))?;
    checks.made(Check::Lengths, parameters.check_lengths())?;

    let jwk = checks::find_key(knowledge.jwks, parameters.keyid).ok_or(VerifyError::KeyUnknown);
    let jwk = checks.made(Check::Key, jwk)?;
    checks.trace.saw(Fact::Key(jwk));
    checks.made(Check::Purpose, checks::purpose(jwk, algorithm, profile.purposes))?;
    checks.made(Check::Revocation, checks::revocation(&knowledge.revocation, parameters.keyid))?;
    let crowded = (knowledge.crowded)(parameters.keyid);
    checks.made(Check::Capacity, if crowded { Err(VerifyError::RateAbuse) } else { Ok(()) })?;

    let base = checks::base(request, input);
    if let Ok(base) = &base {
        checks.trace.saw(Fact::Base(base));
    }
    let held = base.and_then(|base| {
        let key = VerifyingKey::of(jwk, algorithm).ok_or(VerifyError::HeaderMalformed)?;
        if key.verifies(base.as_bytes(), &signature) { Ok(()) } else { Err(VerifyError::Invalid) }
    });
    checks.made(Check::Signature, held)?;
    if body_covered {
        let digest = checks::digest(headers, request.body, &profile.decoder, checks.trace);
        checks.made(Check::Digest, digest)?;
    } else {
        checks.trace.saw(Fact::BodyNotCovered);
    }
    Ok(parameters.verified(algorithm))
}

#[cfg(test)]
mod tests;
