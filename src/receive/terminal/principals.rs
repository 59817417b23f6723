//! Who may do what: a file of hashed bearer tokens, each standing for one principal with one scope and one site. The
//! file holds nothing that a request could be made with.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::capabilities::PRINCIPAL_SCHEMA;
use super::notification::is_token;
use crate::secret::read_secret_file;

const FIELDS: [&str; 6] = ["schema", "principal_id", "credential_id", "credential_version", "scope", "site_id"];

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("receive.terminal.credentials_file: {path}: {problem}", path = path.display())]
pub(crate) struct CredentialsError {
    path: PathBuf,
    problem: String,
}

#[derive(Debug, Default)]
pub(super) struct Credentials(Vec<(Digest, Known)>);

type Digest = [u8; 32];

/// Whom a token stands for. An entry with a slip in it takes out its own token and no other.
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
    token_sha256: String,
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
        for (number, (_, known)) in credentials.0.iter().enumerate() {
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
        let mut known: Vec<(Digest, Known)> = Vec::with_capacity(file.credentials.len());
        for (number, entry) in file.credentials.into_iter().enumerate() {
            let number = number + 1;
            let digest = unhex(&entry.token_sha256)
                .ok_or_else(|| format!("entry {number}: token_sha256 is not 64 lower-case hex digits"))?;
            if known.iter().any(|(other, _)| *other == digest) {
                return Err(format!("entry {number}: its token stands in the file twice"));
            }
            known.push((digest, judge(entry.principal)));
        }
        Ok(Credentials(known))
    }

    /// Whom the request's Authorization stands for. Takes as long for a token that is known as for one that is not.
    pub(super) fn recognise(&self, authorization: Option<&[u8]>) -> Option<&Known> {
        let token = authorization?.strip_prefix(b"Bearer ")?;
        let digest = ring::digest::digest(&ring::digest::SHA256, token);
        let mut found = None;
        for (known, whom) in &self.0 {
            let differs = known.iter().zip(digest.as_ref()).fold(0, |differs, (a, b)| differs | (a ^ b));
            if std::hint::black_box(differs) == 0 {
                found = Some(whom);
            }
        }
        found
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
}
