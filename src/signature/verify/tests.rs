use std::collections::HashSet;

use bytes::Bytes;
use http::HeaderValue;
use serde_json::json;

use super::*;
use crate::signature::vectors::{cases, corpus_key, headers, jwks, read, read_all, text};
use crate::signature::{Moment, Scheme, Target, sign};

const DIR: &str = "adcp/webhook-signing";

/// A receiver of the corpus: the keys a vector names, and the state it asks the runner to install.
struct Runner {
    jwks: Value,
    revoked: BTreeSet<String>,
    stale: bool,
    crowded: Option<String>,
    claimed: HashSet<(String, String)>,
}

impl Runner {
    fn of(vector: &Value) -> Self {
        let wanted = cases(vector, "jwks_ref");
        let document = read(&format!("{DIR}/keys.json"));
        let of_vector = |key: &Value| match vector["jwks_override"].get(text(key, "kid")) {
            Some(instead) => instead.clone(),
            None => key.clone(),
        };
        let keys = cases(&document, "keys").iter().filter(|key| wanted.contains(&key["kid"])).map(of_vector);
        let state = &vector["test_harness_state"];
        let list = |member: &str| state[member].as_array().cloned().unwrap_or_default();
        Runner {
            jwks: jwks(keys),
            revoked: list("revoked_kids").iter().map(|kid| kid.as_str().unwrap().to_owned()).collect(),
            stale: state["revocation_list_stale_seconds"].is_number(),
            crowded: state["per_keyid_cap_filled_for"].as_str().map(str::to_owned),
            claimed: list("replay_cache_entries")
                .iter()
                .map(|entry| (text(entry, "keyid").to_owned(), text(entry, "nonce").to_owned()))
                .collect(),
        }
    }

    fn receive(&mut self, vector: &Value) -> Result<Verified, VerifyError> {
        let request = &vector["request"];
        let received = Received {
            method: text(request, "method"),
            url: text(request, "url"),
            headers: &headers(&request["headers"]),
            body: text(request, "body").as_bytes(),
        };
        let knowledge = Knowledge {
            jwks: &self.jwks,
            revocation: if self.stale { Revocation::Stale } else { Revocation::Revoked(&self.revoked) },
            crowded: &|kid| self.crowded.as_deref() == Some(kid),
            unix_seconds: vector["reference_now"].as_i64().unwrap(),
        };
        let verified = verify(&received, &knowledge)?;
        if self.claimed.insert((verified.keyid.clone(), verified.nonce.clone())) {
            Ok(verified)
        } else {
            Err(VerifyError::Replayed)
        }
    }
}

#[test]
fn every_positive_vector_of_the_corpus_is_accepted_once() {
    let vectors = read_all(&format!("{DIR}/positive"));
    assert_eq!(vectors.len(), 8);
    for (name, vector) in vectors {
        let mut runner = Runner::of(&vector);
        assert!(runner.receive(&vector).is_ok(), "{name}");
        assert_eq!(runner.receive(&vector), Err(VerifyError::Replayed), "{name}");
    }
}

#[test]
fn every_negative_vector_of_the_corpus_earns_its_code() {
    let vectors = read_all(&format!("{DIR}/negative"));
    assert_eq!(vectors.len(), 21);
    for (name, vector) in vectors {
        let error = Runner::of(&vector).receive(&vector).expect_err(&name);
        assert_eq!(error.code(), text(&vector["expected_outcome"], "error_code"), "{name}");
    }
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
        let nonce = structured::decode_either(parameters.nonce).unwrap();
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
