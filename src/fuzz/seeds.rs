//! The inputs that every target begins with: the hand-made ones of `tests/fuzz/corpus`, and what the vectors of others
//! come to in the form that each target reads.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fields::SEPARATOR;

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut found: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

pub(super) fn handmade(target: &str) -> Vec<(String, Vec<u8>)> {
    let files = entries(&root().join("tests/fuzz/corpus").join(target));
    files.into_iter().map(|path| (name(&path), std::fs::read(path).unwrap())).collect()
}

pub(super) fn of_vectors(target: &str) -> Vec<(String, Vec<u8>)> {
    match target {
        "url_policy" => urls(),
        "envelope_open" => envelopes("delivery", &DELIVERY),
        "registration_open" => envelopes("registration", &REGISTRATION),
        "signature_input" => signatures(),
        _ => Vec::new(),
    }
}

fn json(path: &str) -> Value {
    let text = std::fs::read(root().join("tests/vectors").join(path)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

fn join(fields: &[&[u8]]) -> Vec<u8> {
    fields.join(&SEPARATOR)
}

fn urls() -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<String> = include_str!("../../tests/vectors/ssrf-urls.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    let signing = json("signing.json");
    let canonical = json("adcp/request-signing/canonicalization.json");
    for (cases, member) in
        [(&signing["vectors"], "url"), (&signing["refused"], "url"), (&canonical["cases"], "input_url")]
    {
        found.extend(cases.as_array().unwrap().iter().map(|case| text(case, member).to_owned()));
    }
    found.sort();
    found.dedup();
    found.into_iter().enumerate().map(|(nth, url)| (format!("vector-{nth}"), url.into_bytes())).collect()
}

const DELIVERY: [&str; 8] = [
    "account_id",
    "task_id",
    "task_type",
    "terminal_status",
    "url",
    "operation_id",
    "idempotency_key",
    "signing_scope_id",
];
const REGISTRATION: [&str; 3] = ["account_id", "task_id", "task_type"];

/// Each vector twice: as it is stored, and its plaintext to be sealed anew.
fn envelopes(kind: &str, columns: &[&str]) -> Vec<(String, Vec<u8>)> {
    let document = json("envelope.json");
    let vectors = document["vectors"].as_array().unwrap().iter().filter(|vector| text(vector, "kind") == kind);
    let mut found = Vec::new();
    for vector in vectors {
        let row = columns.iter().map(|column| match vector["row"].get(*column) {
            // An empty scope is not the same as none.
            Some(Value::String(text)) if text.is_empty() && *column == "signing_scope_id" => "\0",
            Some(Value::String(text)) => text.as_str(),
            _ => "",
        });
        let row: Vec<&[u8]> = row.map(str::as_bytes).collect();
        let bytes = |member: &str| unhex(text(vector, member));
        let (nonce, ciphertext) = (bytes("nonce_hex"), bytes("ciphertext_hex"));
        if ciphertext.len() <= MOST {
            let stored = [&[&b"a"[..]], &row[..], &[&nonce[..], &ciphertext[..]]].concat();
            found.push((format!("{}-stored", text(vector, "name")), join(&stored)));
        }
        let plaintext = STANDARD.decode(text(vector, "plaintext_b64")).unwrap_or_default();
        if !plaintext.is_empty() && plaintext.len() <= MOST {
            let sealed = [&[&b"p"[..]], &row[..], &[&plaintext[..]]].concat();
            found.push((format!("{}-plain", text(vector, "name")), join(&sealed)));
        }
    }
    found
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len() / 2).map(|at| &digits[2 * at..2 * at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The few large vectors would only slow the fuzzer down.
const MOST: usize = 16 << 10;

fn signatures() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for dir in ["positive", "negative"] {
        for path in entries(&root().join("tests/vectors/adcp/webhook-signing").join(dir)) {
            let vector: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let request = &vector["request"];
            let header = |name: &str| text(&request["headers"], name).as_bytes();
            let fields = [
                header("Signature-Input"),
                header("Signature"),
                header("Content-Digest"),
                header("Content-Type"),
                header("Host"),
                text(request, "url").as_bytes(),
                text(request, "body").as_bytes(),
            ];
            found.push((name(&path), join(&fields)));
        }
    }
    found
}
