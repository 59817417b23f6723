//! Appendix B of RFC 9421. Its RSA signatures are of no algorithm of ours, so that B.2.1 to B.2.3 hold the base alone; the
//! derived components that no profile of ours covers (`@path`, `@query`, `@query-param`, `@status`) get their values here.

use serde_json::Value;

use super::*;
use crate::secret::Secret;
use crate::signature::jwk::VerifyingKey;
use crate::signature::legacy::mac;
use crate::signature::structured::{Bare, Component, Decoder, Rfc8941, signature_inputs};
use crate::signature::vectors::{cases, read, text};
use crate::signature::{Algorithm, SigningKey, target};

fn value_of(component: &Component<'_>, message: &Value) -> String {
    match (component.name.as_str(), component.parameters.as_slice()) {
        ("@method", []) => text(message, "method").to_owned(),
        ("@authority", []) => target::received(text(message, "url")).unwrap().authority,
        ("@path", []) => text(message, "path").to_owned(),
        ("@query", []) => text(message, "query").to_owned(),
        ("@status", []) => text(message, "status").to_owned(),
        ("@query-param", [("name", Bare::String(name))]) => {
            let pairs =
                text(message, "query").trim_start_matches('?').split('&').filter_map(|pair| pair.split_once('='));
            let values: Vec<&str> = pairs.filter(|(key, _)| key == name).map(|(_, value)| value).collect();
            assert_eq!(values.len(), 1);
            values[0].to_owned()
        }
        (field, []) => {
            let headers = message["headers"].as_object().unwrap();
            let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(field)).expect(field);
            value.as_str().unwrap().to_owned()
        }
        (name, parameters) => panic!("{name} with {parameters:?}"),
    }
}

/// The base that our parser and our builder make of a case.
fn base_of(case: &Value, document: &Value) -> String {
    let inputs = signature_inputs(text(case, "input")).unwrap();
    let message = &document[text(case, "message")];
    let values: Vec<(&str, String)> =
        inputs[0].components.iter().map(|component| (component.identifier, value_of(component, message))).collect();
    signature_base(values.iter().map(|(identifier, value)| (*identifier, value.as_str())), inputs[0].raw)
}

fn document() -> Value {
    read("rfc9421/appendix_b.json")
}

fn case<'a>(document: &'a Value, name: &str) -> &'a Value {
    cases(document, "cases").iter().find(|case| case["name"] == name).unwrap()
}

fn signature(case: &Value) -> Vec<u8> {
    let label = text(case, "signature").split('=').next().unwrap();
    Rfc8941.signature(text(case, "signature"), label).unwrap()
}

#[test]
fn every_base_of_appendix_b_is_byte_exact() {
    let document = document();
    assert_eq!(cases(&document, "cases").len(), 6);
    for case in cases(&document, "cases") {
        assert_eq!(base_of(case, &document), text(case, "base"), "{}", case["name"]);
    }
}

fn private(document: &Value, name: &str, algorithm: &str) -> SigningKey {
    let mut jwk = document["keys"][name].clone();
    (jwk["alg"], jwk["adcp_use"]) = (algorithm.into(), "webhook-signing".into());
    SigningKey::from_jwk(jwk.to_string().as_bytes()).unwrap()
}

#[test]
fn the_ed25519_signature_of_appendix_b_is_made_byte_for_byte_and_verified() {
    let document = document();
    let case = case(&document, "B.2.6");
    let key = private(&document, "test-key-ed25519", "ed25519");
    let base = base_of(case, &document);
    assert_eq!(key.sign(base.as_bytes()).unwrap().as_ref(), signature(case));
    let public = VerifyingKey::of(&document["keys"]["test-key-ed25519"], Algorithm::Ed25519).unwrap();
    assert!(public.verifies(base.as_bytes(), &signature(case)));
    assert!(!public.verifies(base.replace("POST", "PUT").as_bytes(), &signature(case)));
}

#[test]
fn the_ecdsa_signature_of_appendix_b_is_verified_and_ours_over_its_base_too() {
    let document = document();
    let case = case(&document, "B.2.4");
    let base = base_of(case, &document);
    let public = VerifyingKey::of(&document["keys"]["test-key-ecc-p256"], Algorithm::EcdsaP256Sha256).unwrap();
    assert!(public.verifies(base.as_bytes(), &signature(case)));
    assert!(!public.verifies(base.replace("200", "201").as_bytes(), &signature(case)));
    let ours = private(&document, "test-key-ecc-p256", "ecdsa-p256-sha256").sign(base.as_bytes()).unwrap();
    assert!(public.verifies(base.as_bytes(), ours.as_ref()));
}

#[test]
fn the_hmac_of_appendix_b_is_byte_exact() {
    let document = document();
    let case = case(&document, "B.2.5");
    let secret = Secret::new(STANDARD.decode(text(&document, "shared_secret_base64")).unwrap());
    assert_eq!(mac(&secret, &[base_of(case, &document).as_bytes()]).as_ref(), signature(case));
}
