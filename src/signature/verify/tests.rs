//! The corpora that AdCP publishes, as the installed SDK ships them, and a request of ours spoiled in one place at a time.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;
use crate::signature::sign::CONTENT_DIGEST;
use crate::signature::vectors::{cases, corpus_key, headers, jwks, read, read_all, read_dir, read_path, shipped, text};
use crate::signature::{Moment, Scheme, Target, sign};

const DIR: &str = "adcp/webhook-signing";

/// A receiver of the corpora: the keys a vector names, and the state it asks the runner to install.
struct Runner {
    jwks: Value,
    revoked: BTreeSet<String>,
    stale: bool,
    crowded: Option<String>,
    claimed: HashSet<(String, String)>,
}

/// Remembers which check was made last.
#[derive(Default)]
struct Last(Option<(Check, Option<VerifyError>)>, Vec<Check>, String);

impl Trace for Last {
    fn checked(&mut self, check: Check, outcome: Result<(), VerifyError>) {
        self.0 = Some((check, outcome.err()));
        self.1.push(check);
    }

    fn saw(&mut self, fact: Fact<'_>) {
        if let Fact::Base(base) = fact {
            self.2 = base.to_owned();
        }
    }
}

impl Runner {
    /// The key set beside the vector, but for what it replaces: single keys, or all of them.
    fn of(vector: &Value, document: &Value) -> Self {
        let instead = &vector["jwks_override"];
        let keys = match instead["keys"].as_array() {
            Some(keys) => jwks(keys.iter().cloned()),
            None => {
                let wanted = cases(vector, "jwks_ref");
                let of_vector = |key: &Value| instead.get(text(key, "kid")).unwrap_or(key).clone();
                jwks(cases(document, "keys").iter().filter(|key| wanted.contains(&key["kid"])).map(of_vector))
            }
        };
        let state = &vector["test_harness_state"];
        let list = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let revoked = [list(&state["revoked_kids"]), list(&state["revocation_list"]["revoked_kids"])].concat();
        let crowded = [&state["per_keyid_cap_filled_for"], &state["replay_cache_per_keyid_cap_hit"]["keyid"]];
        Runner {
            jwks: keys,
            revoked: revoked.iter().map(|kid| kid.as_str().unwrap().to_owned()).collect(),
            stale: state["revocation_list_stale_seconds"].is_number(),
            crowded: crowded.iter().find_map(|keyid| keyid.as_str()).map(str::to_owned),
            claimed: list(&state["replay_cache_entries"])
                .iter()
                .map(|entry| (text(entry, "keyid").to_owned(), text(entry, "nonce").to_owned()))
                .collect(),
        }
    }

    /// The outcome, the step at which it came about, and the signature base where there was one.
    fn receive<D: Decoder>(&mut self, profile: &Profile<D>, vector: &Value) -> (Result<(), VerifyError>, Last) {
        let request = &vector["request"];
        let received = Received {
            method: text(request, "method"),
            url: text(request, "url"),
            headers: &headers(&request["headers"]),
            body: request["body"].as_str().unwrap_or_default().as_bytes(),
        };
        let knowledge = Knowledge {
            jwks: &self.jwks,
            revocation: if self.stale { Revocation::Stale } else { Revocation::Revoked(&self.revoked) },
            crowded: &|kid| self.crowded.as_deref() == Some(kid),
            unix_seconds: vector["reference_now"].as_i64().unwrap(),
        };
        let mut last = Last::default();
        let outcome = verify_watched(profile, &received, &knowledge, &mut last).and_then(|verified| {
            let fresh = self.claimed.insert((verified.keyid, verified.nonce));
            let outcome = if fresh { Ok(()) } else { Err(VerifyError::Replayed) };
            last.checked(Check::Nonce, outcome);
            outcome
        });
        (outcome, last)
    }
}

/// Vectors whose outcome is another here than one version of the corpus says: version, file, our code.
const DIFFERENCES: [(&str, &str, &str); 1] = [
    // Corrected upstream: 3.2.4 gives the same vector our code, and says so in its comment.
    ("3.2.1", "026-non-ascii-host.json", "request_target_uri_malformed"),
];

/// Judges one vector in full: outcome, code, step, and the signature base where the vector has it.
fn judge<D: Decoder>(profile: &Profile<D>, vector: &Value, document: &Value, name: &str) {
    let mut runner = Runner::of(vector, document);
    let (outcome, last) = runner.receive(profile, vector);
    let expected = &vector["expected_outcome"];
    if expected["success"] == true {
        assert_eq!(outcome, Ok(()), "{name}");
        assert_eq!(runner.receive(profile, vector).0, Err(VerifyError::Replayed), "{name}, again");
        if let Some(base) = vector["expected_signature_base"].as_str() {
            assert_eq!(last.2, base, "{name}");
        }
        return;
    }
    let error = outcome.expect_err(name);
    if let Some((_, _, ours)) =
        DIFFERENCES.iter().find(|(version, file, _)| name == format!("{version} negative {file}"))
    {
        assert_eq!(error.code_of(profile.family), *ours, "{name}");
        return;
    }
    assert_eq!(error.code_of(profile.family), text(expected, "error_code"), "{name}");
    let (check, failed) = last.0.unwrap();
    assert_eq!(failed, Some(error), "{name}");
    let letter = expected["sub_step"].as_str().unwrap_or_default();
    let step = expected["failed_step"].as_str().map_or_else(|| expected["failed_step"].to_string(), str::to_owned);
    // Step 0 is the published name of the check for presence, before step 1.
    let ours = if error == VerifyError::Required { "0" } else { check.step() };
    assert_eq!(ours, format!("{step}{letter}"), "{name}");
}

#[test]
fn every_webhook_vector_of_every_shipped_version_earns_its_code_at_its_step() {
    let versions = shipped();
    assert!(versions.len() >= 2, "{versions:?}");
    for (version, dir) in versions {
        let dir = dir.join("webhook-signing");
        let document = read_path(&dir.join("keys.json"));
        for (kind, count) in [("positive", 8), ("negative", 21)] {
            let vectors = read_dir(&dir.join(kind));
            assert_eq!(vectors.len(), count, "{version} {kind}");
            for (name, vector) in vectors {
                judge(&WEBHOOK, &vector, &document, &format!("{version} {kind} {name}"));
            }
        }
    }
}

/// Vectors of the request-signing corpora that this verifier does not judge. Beside them stand `a2a`, `body-integrity-policy`
/// and `protocol-method-names`, which grade what operation a body names and whether that one must be signed: the
/// application's to say, and nothing of the signature; and `canonicalization`, which the tests of targets read.
const NOT_JUDGED: [(&str, &str); 1] = [(
    "018-digest-covered-when-forbidden.json",
    "a verifier that forbids covering the body is not offered; 3.2 has none",
)];

#[test]
fn every_request_vector_of_every_shipped_version_earns_its_code_at_its_step() {
    let (mut judged, mut left_out) = (0, 0);
    for (version, dir) in shipped() {
        let dir = dir.join("request-signing");
        let document = read_path(&dir.join("keys.json"));
        for kind in ["positive", "negative", "profile-3.2/positive", "profile-3.2/negative"] {
            for (name, vector) in read_dir(&dir.join(kind)) {
                if NOT_JUDGED.iter().any(|(file, _)| name == *file) {
                    left_out += 1;
                    continue;
                }
                judged += 1;
                let of = format!("{version} {kind} {name}");
                match (kind.starts_with("profile-3.2"), vector["verifier_capability"]["covers_content_digest"].as_str())
                {
                    (true, _) => judge(&REQUEST, &vector, &document, &of),
                    (false, Some("required")) => {
                        judge(&Profile { body_covered: true, ..REQUEST_3_1 }, &vector, &document, &of);
                    }
                    (false, _) => judge(&REQUEST_3_1, &vector, &document, &of),
                }
            }
        }
    }
    // Of 3.2.1 and 3.2.4, as adcp 9.2.0 ships them.
    assert_eq!((judged, left_out), (160, 2));
}

#[test]
fn a_request_must_cover_its_type_under_its_own_label_and_be_signed_by_a_key_for_requests() {
    let (_, dir) = shipped().pop().unwrap();
    let dir = dir.join("request-signing");
    let document = read_path(&dir.join("keys.json"));
    let vector = read_path(&dir.join("profile-3.2/positive/001-post-with-content-digest.json"));
    let outcome = |vector: &Value, keys: &Value| {
        let (outcome, last) = Runner::of(vector, keys).receive(&REQUEST, vector);
        outcome.map_err(|error| (error, last.0.unwrap().0.step()))
    };
    assert_eq!(outcome(&vector, &document), Ok(()));
    let mut keys = document.clone();
    for key in keys["keys"].as_array_mut().unwrap() {
        key["adcp_use"] = "webhook-signing".into();
    }
    assert_eq!(outcome(&vector, &keys), Err((VerifyError::KeyPurposeInvalid, "8")));
    let mut untyped = vector.clone();
    let input = text(&vector["request"]["headers"], "Signature-Input");
    let less = input.replace(" \"content-type\"", "");
    untyped["request"]["headers"]["Signature-Input"] = format!("relay=(\"content-type\");created=1, {less}").into();
    assert_eq!(outcome(&untyped, &document), Err((VerifyError::ComponentsIncomplete, "6")));
    let mut bodiless = vector.clone();
    bodiless["request"]["headers"]["Signature-Input"] = input.replace(" \"content-digest\"", "").into();
    assert_eq!(outcome(&bodiless, &document), Err((VerifyError::ComponentsIncomplete, "6")));
    // Without a body there is nothing to cover: what fails then is the signature, which was made over more.
    bodiless["request"]["body"] = "".into();
    assert_eq!(outcome(&bodiless, &document), Err((VerifyError::Invalid, "10")));
}

#[test]
fn our_signer_reproduces_the_signatures_of_the_corpus() {
    let document = read(&format!("{DIR}/keys.json"));
    let mut reproduced = 0;
    for (name, vector) in read_all(&format!("{DIR}/positive")) {
        let request = &vector["request"];
        let expected = headers(&request["headers"]);
        let inputs = structured::signature_inputs(expected[SIGNATURE_INPUT].to_str().unwrap()).unwrap();
        let parameters = Parameters::read(&inputs[0]).unwrap();
        let jwk = cases(&document, "keys").iter().find(|jwk| jwk["kid"] == parameters.keyid).unwrap();
        let nonce = URL_SAFE_NO_PAD.decode(parameters.nonce).unwrap();
        let signed = sign(
            Scheme::Rfc9421(&corpus_key(jwk)),
            &Target::parse(text(request, "url")).unwrap(),
            text(request, "body").to_owned().into(),
            Moment { unix_seconds: parameters.created, nonce: nonce.try_into().unwrap() },
        )
        .unwrap();
        let ours = signed.headers[SIGNATURE_INPUT].to_str().unwrap().to_owned();
        assert_eq!(ours, format!("sig1={}", inputs[0].raw), "{name}");
        if parameters.alg == "ed25519" {
            assert_eq!(signed.headers[SIGNATURE], expected[SIGNATURE], "{name}");
            reproduced += 1;
        }
    }
    assert_eq!(reproduced, 7);
}

/// A request of ours that verifies, to be spoiled in one place.
struct Sample {
    method: &'static str,
    url: &'static str,
    headers: HeaderMap,
    body: Bytes,
    jwk: Value,
    now: i64,
}

const NOW: i64 = 1_776_520_800;

impl Sample {
    fn new() -> Self {
        let document = read(&format!("{DIR}/keys.json"));
        let jwk = cases(&document, "keys")[0].clone();
        let url = "https://buyer.example.com/hooks?x=1";
        let body = Bytes::from_static(b"{\"a\":1}");
        let moment = Moment { unix_seconds: NOW, nonce: [9; 16] };
        let request =
            sign(Scheme::Rfc9421(&corpus_key(&jwk)), &Target::parse(url).unwrap(), body.clone(), moment).unwrap();
        Sample { method: "POST", url, headers: request.headers, body, jwk, now: NOW }
    }

    fn set(mut self, name: &HeaderName, change: impl Fn(&str) -> String) -> Self {
        let changed = change(self.headers[name].to_str().unwrap());
        self.headers.insert(name.clone(), HeaderValue::from_bytes(changed.as_bytes()).unwrap());
        self
    }

    fn append(mut self, name: &HeaderName, value: &'static str) -> Self {
        self.headers.append(name.clone(), HeaderValue::from_static(value));
        self
    }

    fn without(mut self, name: &HeaderName) -> Self {
        self.headers.remove(name);
        self
    }

    fn judge(&self) -> Result<Verified, VerifyError> {
        let received = Received { method: self.method, url: self.url, headers: &self.headers, body: &self.body };
        let knowledge = Knowledge {
            jwks: &jwks([self.jwk.clone()]),
            revocation: Revocation::NotTracked,
            crowded: &|_| false,
            unix_seconds: self.now,
        };
        verify(&received, &knowledge)
    }

    fn code(&self) -> &'static str {
        self.judge().expect_err("must be refused").code()
    }
}

const MALFORMED: &str = "webhook_signature_header_malformed";

#[test]
fn a_verified_request_tells_what_its_nonce_must_be_claimed_under() {
    let verified = Sample::new().judge().unwrap();
    assert_eq!((verified.keyid.as_str(), verified.expires), ("test-ed25519-webhook-2026", NOW + 300));
    assert_eq!((verified.nonce.len(), verified.algorithm), (22, Algorithm::Ed25519));
}

#[test]
fn the_method_is_compared_without_regard_to_case_and_otherwise_counts() {
    assert!(Sample { method: "post", ..Sample::new() }.judge().is_ok());
    assert_eq!(Sample { method: "PUT", ..Sample::new() }.code(), "webhook_signature_invalid");
}

#[test]
fn every_covered_part_counts() {
    let elsewhere = Sample { url: "https://buyer.example.com/hooks?x=2", ..Sample::new() };
    assert_eq!(elsewhere.code(), "webhook_signature_invalid");
    let other_host = Sample { url: "https://seller.example.com/hooks?x=1", ..Sample::new() };
    assert_eq!(other_host.code(), "webhook_signature_invalid");
    let typed = Sample::new().set(&CONTENT_TYPE, |value| format!("{value}; charset=utf-8"));
    assert_eq!(typed.code(), "webhook_signature_invalid");
    let digest = Sample::new().set(&CONTENT_DIGEST, |value| value.replace("=:", "=:A"));
    assert_eq!(digest.code(), "webhook_signature_invalid");
    let body = Sample { body: Bytes::from_static(b"{\"a\":2}"), ..Sample::new() };
    assert_eq!(body.code(), "webhook_signature_digest_mismatch");
}

#[test]
fn the_window_ends_a_minute_after_it_expires_and_opens_a_minute_early() {
    for (now, accepted) in [(NOW - 61, false), (NOW - 60, true), (NOW + 360, true), (NOW + 361, false)] {
        let outcome = Sample { now, ..Sample::new() }.judge();
        assert_eq!(outcome.is_ok(), accepted, "{now}");
        assert!(accepted || outcome == Err(VerifyError::WindowInvalid));
    }
}

#[test]
fn a_field_that_comes_on_two_lines_is_ambiguous() {
    for (name, value) in [
        (&SIGNATURE, "relay=:AAAA:"),
        (&SIGNATURE_INPUT, "relay=()"),
        (&CONTENT_TYPE, "application/json"),
        (&CONTENT_DIGEST, "sha-512=:AAAA:"),
        (&HOST, "buyer.example.com"),
    ] {
        assert_eq!(Sample::new().append(name, value).code(), MALFORMED, "{name}");
    }
}

#[test]
fn a_key_that_stands_twice_in_a_field_is_ambiguous_in_any_letter_case() {
    let twice = |value: &str| format!("{value}, {value}");
    let shouted = |value: &str| format!("{value}, {}", value.replace("sha-", "SHA-").replace("sig1", "SIG1"));
    for name in [&SIGNATURE, &SIGNATURE_INPUT, &CONTENT_DIGEST] {
        assert_eq!(Sample::new().set(name, twice).code(), MALFORMED, "{name}");
        assert_eq!(Sample::new().set(name, shouted).code(), MALFORMED, "{name}");
    }
    assert_eq!(Sample::new().set(&CONTENT_TYPE, twice).code(), MALFORMED);
    assert_eq!(Sample::new().set(&CONTENT_TYPE, |value| format!("{value},")).code(), MALFORMED);
}

#[test]
fn both_headers_of_the_pair_are_needed() {
    assert_eq!(Sample::new().without(&SIGNATURE).code(), MALFORMED);
    assert_eq!(Sample::new().without(&SIGNATURE_INPUT).code(), MALFORMED);
    assert_eq!(Sample::new().without(&SIGNATURE).without(&SIGNATURE_INPUT).code(), MALFORMED);
    assert_eq!(Sample::new().set(&SIGNATURE, |value| value.replace("sig1", "sig2")).code(), MALFORMED);
    assert_eq!(Sample::new().set(&SIGNATURE_INPUT, |value| value.replace("sig1", "sig2")).code(), MALFORMED);
}

#[test]
fn names_are_not_converted_on_behalf_of_the_sender() {
    for host in ["bücher.example", "a:b:c", "[::1", "[fe80::1%25en0]", ":443", "user@"] {
        assert_eq!(Sample::new().set(&HOST, |_| host.to_owned()).code(), "webhook_target_uri_malformed", "{host}");
    }
    // Another well-formed host is a proxy's doing; what was signed is the URL's.
    assert!(Sample::new().set(&HOST, |_| "internal:8080".to_owned()).judge().is_ok());
    for url in ["https://bücher.example/", "https://a..b/", "https://[::1/"] {
        assert_eq!(Sample { url, ..Sample::new() }.code(), "webhook_target_uri_malformed", "{url}");
    }
}

#[test]
fn a_signature_has_one_text_in_each_alphabet() {
    let standard = |value: &str| value.replace('-', "+").replace('_', "/");
    let padded = Sample::new().set(&SIGNATURE, |value| format!("{}==:", standard(value).trim_end_matches(':')));
    assert!(padded.judge().is_ok());
    let unpadded_padding = Sample::new().set(&SIGNATURE, |value| format!("{}=:", value.trim_end_matches(':')));
    assert_eq!(unpadded_padding.code(), MALFORMED);
    // The last of 86 characters carries two bits of the signature and four that must be zero.
    let stray_bits = Sample::new().set(&SIGNATURE, |value| {
        let (rest, last) = value.trim_end_matches(':').split_at(value.len() - 2);
        let stray = if last == "A" { "B" } else { "R" };
        format!("{rest}{stray}:")
    });
    assert_eq!(stray_bits.code(), MALFORMED);
    let short = Sample::new().set(&SIGNATURE, |_| "sig1=:AAAA:".to_owned());
    assert_eq!(short.code(), "webhook_signature_invalid");
    let bare = Sample::new().set(&SIGNATURE, |value| value.replace(':', ""));
    assert_eq!(bare.code(), MALFORMED);
}

#[test]
fn parameters_are_judged_in_their_order() {
    let spoil = |from: &'static str, to: &'static str| {
        Sample::new().set(&SIGNATURE_INPUT, move |value| {
            assert!(value.contains(from), "{from}");
            value.replacen(from, to, 1)
        })
    };
    assert_eq!(spoil(";created=1776520800", "").code(), "webhook_signature_params_incomplete");
    assert_eq!(spoil("created=1776520800", "created=\"1776520800\"").code(), MALFORMED);
    assert_eq!(spoil("alg=\"ed25519\"", "alg=ed25519").code(), MALFORMED);
    assert_eq!(spoil("alg=\"ed25519\"", "alg=\"ed25519\";alg=\"ed25519\"").code(), MALFORMED);
    assert_eq!(spoil("webhook-signing/v1", "request-signing/v1").code(), "webhook_signature_tag_invalid");
    assert_eq!(spoil("\"ed25519\"", "\"rsa-pss-sha512\"").code(), "webhook_signature_alg_not_allowed");
    assert_eq!(spoil("expires=1776521100", "expires=1776521101").code(), "webhook_signature_window_invalid");
    assert_eq!(spoil("expires=1776521100", "expires=1776520800").code(), "webhook_signature_window_invalid");
    assert_eq!(spoil("\"@authority\" ", "").code(), "webhook_signature_components_incomplete");
    assert_eq!(spoil(" \"content-digest\"", "").code(), "webhook_signature_components_incomplete");
    assert_eq!(spoil(" \"content-type\"", "").code(), "webhook_signature_components_incomplete");
    assert_eq!(spoil("\"@method\"", "\"@method\" \"@method\"").code(), MALFORMED);
    assert_eq!(spoil("\"content-type\"", "\"content-type\";sf").code(), MALFORMED);
    assert_eq!(spoil("\"content-type\"", "\"content-type\" \"@query\"").code(), MALFORMED);
    assert_eq!(spoil("\"content-type\"", "\"content-type\" \"date\"").code(), MALFORMED);
    assert_eq!(spoil("keyid=\"test-ed", "keyid=\"best-ed").code(), "webhook_signature_key_unknown");
}

#[test]
fn the_earlier_of_two_faults_gives_the_code() {
    let both = Sample::new()
        .set(&SIGNATURE_INPUT, |value| value.replace("webhook-signing/v1", "x").replace("\"ed25519\"", "\"x\""));
    assert_eq!(both.code(), "webhook_signature_tag_invalid");
    let unknown_and_late = Sample { jwk: json!({}), now: NOW + 1000, ..Sample::new() };
    assert_eq!(unknown_and_late.code(), "webhook_signature_window_invalid");
}

#[test]
fn a_first_label_without_the_content_type_is_refused_even_if_it_is_not_ours() {
    let relay = Sample::new().set(&SIGNATURE_INPUT, |value| format!("relay=(\"@method\");created=1, {value}"));
    assert_eq!(relay.code(), "webhook_signature_components_incomplete");
    let after = Sample::new().set(&SIGNATURE_INPUT, |value| format!("{value}, relay=(\"@method\");created=1"));
    assert!(after.judge().is_ok());
}

#[test]
fn a_key_must_be_meant_for_this() {
    let with = |member: &str, value: Value| {
        let mut sample = Sample::new();
        sample.jwk[member] = value;
        sample
    };
    for (member, value) in [
        ("use", json!("enc")),
        ("use", Value::Null),
        ("key_ops", json!(["sign"])),
        ("key_ops", json!("verify")),
        ("adcp_use", json!("response-signing")),
        ("adcp_use", Value::Null),
        ("kty", json!("EC")),
        ("crv", json!("P-256")),
    ] {
        assert_eq!(with(member, value).code(), "webhook_signature_key_purpose_invalid", "{member}");
    }
    assert!(with("adcp_use", json!("request-signing")).judge().is_ok());
    assert!(with("alg", json!("nonsense")).judge().is_ok());
    for x in [json!("AAAA"), json!("y7tTfeqazsFeTn3ccCzQlcJ4qFWuYsu-JkJAcfc9VoA="), Value::Null] {
        assert_eq!(with("x", x).code(), MALFORMED);
    }
}

#[test]
fn long_key_ids_and_nonces_do_not_reach_the_replay_store() {
    for name in ["keyid", "nonce"] {
        let sample = Sample::new().set(&SIGNATURE_INPUT, |value| {
            let at = value.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
            format!("{}{}{}", &value[..at], "x".repeat(257), &value[at..])
        });
        assert_eq!(sample.code(), MALFORMED, "{name}");
    }
}
