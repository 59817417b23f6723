//! Reads the vectors under `tests/vectors` for the tests of this room. They are data that others made; see the README there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{Algorithm, SigningKey};

pub(super) fn read(path: &str) -> Value {
    let path = format!("{}/tests/vectors/{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a directory, by name.
pub(super) fn read_all(dir: &str) -> Vec<(String, Value)> {
    let path = format!("{}/tests/vectors/{dir}", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), read(&format!("{dir}/{name}")))).collect()
}

pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_else(|| panic!("no string {member} in {value}"))
}

pub(super) fn cases<'a>(document: &'a Value, member: &str) -> &'a Vec<Value> {
    document[member].as_array().unwrap()
}

/// The body of a case: in base64, or by its building instruction.
pub(super) fn body(case: &Value) -> Bytes {
    match case["body_b64"].as_str() {
        Some(encoded) => STANDARD.decode(encoded).unwrap().into(),
        None => {
            let instruction = text(case, "body_construct");
            let (prefix, rest) = instruction.strip_prefix("bytes: prefix ").unwrap().split_once(" then ").unwrap();
            assert_eq!(rest, "262144 bytes of 0x61 then \"}");
            [prefix.as_bytes(), &vec![0x61; 262_144], b"\"}"].concat().into()
        }
    }
}

pub(super) fn headers(members: &Value) -> HeaderMap {
    let named = |(name, value): (&String, &Value)| {
        (HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value.as_str().unwrap().as_bytes()).unwrap())
    };
    members.as_object().unwrap().iter().map(named).collect()
}

/// One of the two keys of `signing.json`.
pub(super) fn signing_key(document: &Value, name: &str, kid: &str) -> SigningKey {
    let algorithm = if name == "ed" { Algorithm::Ed25519 } else { Algorithm::EcdsaP256Sha256 };
    SigningKey::from_pem(text(&document["keys"][name], "pkcs8_pem").as_bytes(), kid, Some(algorithm)).unwrap()
}

/// A private key of the AdCP corpus, whose private halves are public.
pub(super) fn corpus_key(jwk: &Value) -> SigningKey {
    let mut private = jwk.clone();
    private["d"] = jwk["_private_d_for_test_only"].clone();
    SigningKey::from_jwk(private.to_string().as_bytes()).unwrap()
}

pub(super) fn jwks(keys: impl IntoIterator<Item = Value>) -> Value {
    json!({ "keys": keys.into_iter().collect::<Vec<_>>() })
}
