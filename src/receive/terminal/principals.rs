//! Who may do what: a file of hashed bearer tokens and public keys, each standing for one principal with one scope and one
//! site. The file holds nothing that a request could be made with.
//!
//! Signatures are not remembered: within its five minutes a copied one does once more what was done, to the same body,
//! and every operation that is repeated comes to the same.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::capabilities::PRINCIPAL_SCHEMA;
use super::notification::is_token;
use crate::secret::read_secret_file;
use crate::signature::verify::{
    Knowledge, MAX_PARAMETER_CHARS, NOTIFICATION, NOTIFICATION_READ, Received, Revocation, VerifyError, is_public_key,
    verify_as,
};

const FIELDS: [&str; 6] = ["schema", "principal_id", "credential_id", "credential_version", "scope", "site_id"];

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("receive.terminal.credentials_file: {path}: {problem}", path = path.display())]
pub(crate) struct CredentialsError {
    path: PathBuf,
    problem: String,
}

#[derive(Debug, Default)]
pub(super) struct Credentials {
    entries: Vec<(Mark, Known)>,
    /// Of the entries that have one. Whoever is to be let in no more is taken out of the file.
    jwks: Value,
}

/// What a sender is known by.
#[derive(Debug, PartialEq, Eq)]
enum Mark {
    Token(Digest),
    /// The id of a public key.
    Key(String),
}

type Digest = [u8; 32];

/// Whom a token or key stands for. An entry whose principal has a slip in it takes out itself and no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    Principal {
        scope: String,
        site_id: String,
    },
    /// The entry says nobody: ours to mend, and the sender's to try again.
    Unsaid,
    /// What it says is no principal.
    NoPrincipal,
    /// A principal that may not do anything: of another schema, or with something that is no token.
    Unfit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    credentials: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    token_sha256: Option<String>,
    jwk: Option<Value>,
    #[serde(default, deserialize_with = "said")]
    principal: Option<Value>,
}

/// `null` is something said.
fn said<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

impl Credentials {
    /// Blocks. Says in the log which entries are of no use.
    pub(super) fn load(path: &Path) -> Result<Credentials, CredentialsError> {
        let refuse = |problem: String| CredentialsError { path: path.to_owned(), problem };
        let bytes = read_secret_file(path).map_err(|error| refuse(error.to_string()))?;
        let credentials = Credentials::parse(&bytes).map_err(refuse)?;
        for (number, (_, known)) in credentials.entries.iter().enumerate() {
            let fault = match known {
                Known::Principal { .. } => continue,
                Known::Unsaid => "has no principal",
                Known::NoPrincipal => "its principal has not exactly the six members",
                Known::Unfit => "its principal has another schema, or a member that is no token",
            };
            tracing::warn!(entry = number + 1, fault, "a credential that nobody can use");
        }
        Ok(credentials)
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Credentials, String> {
        // serde's sentence may quote what it stumbled over; where that was is all that is needed.
        let file: File = serde_json::from_slice(bytes)
            .map_err(|error| format!("is not what is expected, at line {} column {}", error.line(), error.column()))?;
        let mut entries: Vec<(Mark, Known)> = Vec::with_capacity(file.credentials.len());
        let mut keys = Vec::new();
        for (number, entry) in file.credentials.into_iter().enumerate() {
            let mark = mark(entry.token_sha256.as_deref(), entry.jwk.as_ref())
                .and_then(|mark| match entries.iter().any(|(other, _)| *other == mark) {
                    true if matches!(mark, Mark::Token(_)) => Err("its token stands in the file twice"),
                    true => Err("its key id stands in the file twice"),
                    false => Ok(mark),
                })
                .map_err(|problem| format!("entry {}: {problem}", number + 1))?;
            entries.push((mark, judge(entry.principal)));
            keys.extend(entry.jwk);
        }
        Ok(Credentials { entries, jwks: json!({ "keys": keys }) })
    }

    /// Whom the request's Authorization stands for. Takes as long for a token that is known as for one that is not.
    pub(super) fn recognise(&self, authorization: Option<&[u8]>) -> Option<&Known> {
        let token = authorization?.strip_prefix(b"Bearer ")?;
        let digest = ring::digest::digest(&ring::digest::SHA256, token);
        let mut found = None;
        for (mark, whom) in &self.entries {
            let Mark::Token(known) = mark else { continue };
            let differs = known.iter().zip(digest.as_ref()).fold(0, |differs, (a, b)| differs | (a ^ b));
            if std::hint::black_box(differs) == 0 {
                found = Some(whom);
            }
        }
        found
    }

    /// Whom the key stands for that the request is signed with.
    pub(super) fn verify(&self, request: &Received<'_>, unix_seconds: i64) -> Result<Option<&Known>, VerifyError> {
        let revocation = Revocation::NotTracked;
        let knowledge = Knowledge { jwks: &self.jwks, revocation, crowded: &|_| false, unix_seconds };
        let profile = if request.body.is_empty() { &NOTIFICATION_READ } else { &NOTIFICATION };
        let verified = verify_as(profile, request, &knowledge)?;
        let signer = Mark::Key(verified.keyid);
        Ok(self.entries.iter().find(|(mark, _)| *mark == signer).map(|(_, whom)| whom))
    }
}

fn mark(token_sha256: Option<&str>, jwk: Option<&Value>) -> Result<Mark, &'static str> {
    match (token_sha256, jwk) {
        (Some(digest), None) => unhex(digest).map(Mark::Token).ok_or("token_sha256 is not 64 lower-case hex digits"),
        (None, Some(jwk)) => {
            let kid =
                jwk.get("kid").and_then(Value::as_str).filter(|kid| (1..=MAX_PARAMETER_CHARS).contains(&kid.len()));
            let kid = kid.filter(|_| is_public_key(jwk));
            kid.map(|kid| Mark::Key(kid.into())).ok_or(
                "jwk is no public key with a kid, use \"sig\", key_ops [\"verify\"] and adcp_use, such as outboxd keygen prints",
            )
        }
        _ => Err("has not exactly one of token_sha256 and jwk"),
    }
}

fn judge(principal: Option<Value>) -> Known {
    let Some(principal) = principal else { return Known::Unsaid };
    let Some(members) = principal
        .as_object()
        .filter(|members| members.len() == FIELDS.len() && FIELDS.iter().all(|field| members.contains_key(*field)))
    else {
        return Known::NoPrincipal;
    };
    let text = |name: &str| members[name].as_str();
    let tokens = ["principal_id", "credential_id", "credential_version", "site_id"];
    let fit = text("schema") == Some(PRINCIPAL_SCHEMA) && tokens.iter().all(|name| text(name).is_some_and(is_token));
    match (text("scope"), text("site_id")) {
        (Some(scope), Some(site_id)) if fit => Known::Principal { scope: scope.into(), site_id: site_id.into() },
        _ => Known::Unfit,
    }
}

fn unhex(text: &str) -> Option<Digest> {
    let bytes = text.as_bytes();
    if bytes.len() != 64 || !bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut digest = [0; 32];
    for (out, pair) in digest.iter_mut().zip(bytes.chunks(2)) {
        *out = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use http::HeaderMap;
    use ring::signature::{Ed25519KeyPair, KeyPair};

    use super::super::notification::sha256;
    use super::*;

    fn file(entries: &str) -> Result<Credentials, String> {
        Credentials::parse(format!("{{\"credentials\":[{entries}]}}").as_bytes())
    }

    fn entry(token: &str, principal: &str) -> String {
        format!("{{\"token_sha256\":\"{}\"{principal}}}", sha256(token.as_bytes()))
    }

    #[test]
    fn a_token_is_recognised_in_one_spelling_only() {
        let whole = r#","principal":{"schema":"blun.cms-source-terminal-notification-principal.v1","principal_id":"p",
            "credential_id":"c","credential_version":"1","scope":"s","site_id":"site"}"#;
        let entries = [entry("good", whole), entry("mute", ""), entry("null", r#","principal":null"#)].join(",");
        let credentials = file(&entries).unwrap();
        let known = Known::Principal { scope: "s".into(), site_id: "site".into() };
        assert_eq!(credentials.recognise(Some(b"Bearer good")), Some(&known));
        assert_eq!(credentials.recognise(Some(b"Bearer mute")), Some(&Known::Unsaid));
        assert_eq!(credentials.recognise(Some(b"Bearer null")), Some(&Known::NoPrincipal));
        for other in ["bearer good", "Bearer  good", "Bearer good,", "good", "Basic good", "Bearer nobody"] {
            assert_eq!(credentials.recognise(Some(other.as_bytes())), None, "{other}");
        }
        assert_eq!(credentials.recognise(None), None);
    }

    #[test]
    fn a_file_that_says_a_token_twice_or_unhashed_is_refused_without_quoting_it() {
        let twice = [entry("t", ""), entry("t", "")].join(",");
        assert_eq!(file(&twice).unwrap_err(), "entry 2: its token stands in the file twice");
        let plain = file(r#"{"token_sha256":"hush"}"#).unwrap_err();
        assert!(!plain.contains("hush"), "{plain}");
        let unknown = file(r#"{"token":"hush"}"#).unwrap_err();
        assert!(!unknown.contains("hush"), "{unknown}");
    }

    const NOW: i64 = 1_800_000_000;
    const URL: &str = "https://cms.example.test/v1/localization/terminal-notifications";
    const WITH_BODY: &[&str] = &["@method", "@target-uri", "@authority", "content-type", "content-digest"];
    const TAG: &str = "outboxd/terminal-notification-request/v1";

    fn pair() -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
    }

    fn jwk(kid: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "key_ops": ["verify"], "adcp_use": "request-signing",
            "kid": kid, "x": URL_SAFE_NO_PAD.encode(pair().public_key())})
    }

    /// The headers of a request to `URL`, signed a minute ago.
    fn signed(method: &str, body: &[u8], covered: &[&str], tag: &str) -> HeaderMap {
        let digest = format!("sha-256=:{}:", STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, body)));
        let value = |name: &str| match name {
            "@method" => method.to_owned(),
            "@target-uri" => URL.to_owned(),
            "@authority" => "cms.example.test".to_owned(),
            "content-type" => "application/json; charset=utf-8".to_owned(),
            _ => digest.clone(),
        };
        let names: Vec<String> = covered.iter().map(|name| format!("\"{name}\"")).collect();
        let (created, expires) = (NOW - 60, NOW + 240);
        let parameters = format!(
            "({});created={created};expires={expires};nonce=\"n\";keyid=\"site-key\";alg=\"ed25519\";tag=\"{tag}\"",
            names.join(" ")
        );
        let lines: Vec<String> = covered.iter().map(|name| format!("\"{name}\": {}\n", value(name))).collect();
        let base = format!("{}\"@signature-params\": {parameters}", lines.concat());
        let signature = STANDARD.encode(pair().sign(base.as_bytes()));
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: String| headers.insert(name, value.parse().unwrap());
        set("content-digest", digest.clone());
        set("signature-input", format!("sig1={parameters}"));
        set("signature", format!("sig1=:{signature}:"));
        if !body.is_empty() {
            set("content-type", value("content-type"));
        }
        headers
    }

    fn with_key() -> Credentials {
        let principal = json!({"schema": PRINCIPAL_SCHEMA, "principal_id": "p", "credential_id": "c",
            "credential_version": "1", "scope": "s", "site_id": "site"});
        file(&json!({"jwk": jwk("site-key"), "principal": principal}).to_string()).unwrap()
    }

    fn judge(method: &str, headers: &HeaderMap, body: &[u8]) -> Result<Option<Known>, VerifyError> {
        with_key().verify(&Received { method, url: URL, headers, body }, NOW).map(Option::<&Known>::cloned)
    }

    #[test]
    fn a_signature_stands_for_the_principal_of_its_key() {
        let known = Known::Principal { scope: "s".into(), site_id: "site".into() };
        let post = signed("POST", b"{}", WITH_BODY, TAG);
        assert_eq!(judge("POST", &post, b"{}"), Ok(Some(known.clone())));
        let get = signed("GET", b"", &["@method", "@target-uri", "@authority", "content-digest"], TAG);
        assert_eq!(judge("GET", &get, b""), Ok(Some(known)));
        assert_eq!(Credentials::default().recognise(Some(b"Bearer site-key")), None);
        assert_eq!(with_key().recognise(Some(b"Bearer site-key")), None);
    }

    #[test]
    fn a_signature_of_less_or_for_something_else_stands_for_nobody() {
        let post = signed("POST", b"{}", WITH_BODY, TAG);
        assert_eq!(judge("POST", &post, b"{ }"), Err(VerifyError::DigestMismatch));
        assert_eq!(judge("PUT", &post, b"{}"), Err(VerifyError::Invalid));
        for (at, left_out) in WITH_BODY.iter().enumerate() {
            let mut covered = WITH_BODY.to_vec();
            covered.remove(at);
            let less = judge("POST", &signed("POST", b"{}", &covered, TAG), b"{}");
            assert_eq!(less, Err(VerifyError::ComponentsIncomplete), "{left_out}");
        }
        let undigested = signed("GET", b"", &["@method", "@target-uri", "@authority"], TAG);
        assert_eq!(judge("GET", &undigested, b""), Err(VerifyError::ComponentsIncomplete));
        // What the very same key signed for webhooks is worth nothing here.
        let webhook = signed("POST", b"{}", WITH_BODY, "adcp/webhook-signing/v1");
        assert_eq!(judge("POST", &webhook, b"{}"), Err(VerifyError::TagInvalid));
        let stranger = file("").unwrap();
        let request = Received { method: "POST", url: URL, headers: &post, body: b"{}" };
        assert_eq!(stranger.verify(&request, NOW), Err(VerifyError::KeyUnknown));
        assert_eq!(with_key().verify(&request, NOW + 301), Err(VerifyError::WindowInvalid));
    }

    #[test]
    fn a_key_that_nobody_could_be_known_by_is_refused_and_so_is_a_private_one() {
        let entry = |jwk: Value| json!({ "jwk": jwk }).to_string();
        let twice = [entry(jwk("a")), entry(jwk("a"))].join(",");
        assert_eq!(file(&twice).unwrap_err(), "entry 2: its key id stands in the file twice");
        for (member, value) in [
            ("kid", json!("")),
            ("kid", Value::Null),
            ("x", json!("AAAA")),
            ("crv", json!("P-256")),
            ("key_ops", json!(["sign"])),
            ("adcp_use", Value::Null),
            ("d", json!("hush")),
        ] {
            let mut spoilt = jwk("a");
            spoilt[member] = value;
            let refused = file(&entry(spoilt)).unwrap_err();
            assert!(refused.starts_with("entry 1: jwk is no public key"), "{member}: {refused}");
        }
        let both = json!({"jwk": jwk("a"), "token_sha256": sha256(b"t")}).to_string();
        for neither_or_both in ["{}", &both] {
            let refused = file(neither_or_both).unwrap_err();
            assert_eq!(refused, "entry 1: has not exactly one of token_sha256 and jwk");
        }
    }
}
