//! Reads the vectors under `tests/vectors` for the tests of this room. They are data that others made; see the README there.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{Algorithm, SigningKey};

pub(super) fn read(path: &str) -> Value {
    read_path(&vectors().join(path))
}

/// The files of a directory, by name.
pub(super) fn read_all(dir: &str) -> Vec<(String, Value)> {
    read_dir(&vectors().join(dir))
}

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// Each version of the compliance corpora that the installed SDK ships: its number and its directory.
pub(super) fn shipped() -> Vec<(String, PathBuf)> {
    let python = std::env::var_os("OUTBOXD_TEST_PYTHON").map(PathBuf::from);
    let python = python.unwrap_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/venv/bin/python"));
    let libraries = python.parent().and_then(Path::parent).expect("an interpreter is in bin").join("lib");
    let inside = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}; run: sh tests/needs.sh test", dir.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let python = inside(&libraries).pop().expect("the environment has a Python");
    let versions = inside(&python.join("site-packages/adcp/_compliance")).into_iter();
    let versions = versions.filter(|path| path.join("test-vectors").is_dir());
    versions.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path.join("test-vectors"))).collect()
}

/// The JSON files of a directory anywhere, by name.
pub(super) fn read_dir(dir: &Path) -> Vec<(String, Value)> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let paths = paths.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    paths.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read_path(&path))).collect()
}

pub(super) fn read_path(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
