//! What a sender is known by, as the files say it: keys, revocations, shared secrets. All of it is read together, so that
//! a broken file leaves what was held before.

use std::path::Path;

use http::HeaderMap;
use ring::hmac;
use serde_json::{Value, json};

use crate::config::{WebhookSettings, secret_file};
use crate::receive::ProfileError;
use crate::secret::{Secret, from_whsec};
use crate::signature::{KEY_SET_BYTES, RevocationList, key_set, verify_hmac, verify_standard};

pub(super) struct Credentials {
    jwks: Value,
    revocation: Option<RevocationList>,
    hmac: Vec<Secret>,
    standard: Vec<Secret>,
    /// Tags of the tokens under `token_key`: comparing tags tells nothing about how much of a token was right.
    bearer: Vec<hmac::Tag>,
    token_key: hmac::Key,
}

impl Credentials {
    pub(super) fn load(settings: &WebhookSettings) -> Result<Credentials, ProfileError> {
        let token_key = hmac::Key::new(hmac::HMAC_SHA256, &crate::secret::random::<32>());
        let jwks = match is_set(&settings.jwks_file) {
            None => json!({"keys": []}),
            Some(path) => {
                let key = "receive.webhook.jwks_file";
                key_set(&read(key, path)?).map_err(|error| fault(key, path, &error))?
            }
        };
        let revocation = match is_set(&settings.revocation_file) {
            None => None,
            Some(path) => {
                let key = "receive.webhook.revocation_file";
                Some(RevocationList::parse(&read(key, path)?).map_err(|error| fault(key, path, &error))?)
            }
        };
        let bearer = secrets("receive.webhook.bearer_file", &settings.bearer_file)?;
        Ok(Credentials {
            jwks,
            revocation,
            hmac: secrets("receive.webhook.hmac_secret_file", &settings.hmac_secret_file)?,
            standard: standard_secrets(&settings.standard_webhooks_secret_file)?,
            bearer: bearer.iter().map(|token| hmac::sign(&token_key, token.expose())).collect(),
            token_key,
        })
    }

    /// Nobody could be vouched for.
    pub(super) fn is_empty(&self) -> bool {
        let keys = self.jwks["keys"].as_array().map_or(0, Vec::len);
        keys == 0 && self.hmac.is_empty() && self.standard.is_empty() && self.bearer.is_empty()
    }

    pub(super) fn jwks(&self) -> &Value {
        &self.jwks
    }

    pub(super) fn revocation(&self) -> Option<&RevocationList> {
        self.revocation.as_ref()
    }

    pub(super) fn takes_hmac(&self) -> bool {
        !self.hmac.is_empty()
    }

    pub(super) fn takes_standard(&self) -> bool {
        !self.standard.is_empty()
    }

    pub(super) fn takes_bearer(&self) -> bool {
        !self.bearer.is_empty()
    }

    pub(super) fn verify_hmac(&self, headers: &HeaderMap, body: &[u8], unix_seconds: i64) -> bool {
        self.hmac.iter().any(|secret| verify_hmac(secret, headers, body, unix_seconds).is_ok())
    }

    pub(super) fn verify_standard(&self, headers: &HeaderMap, body: &[u8], unix_seconds: i64) -> bool {
        self.standard.iter().any(|key| verify_standard(key, headers, body, unix_seconds).is_ok())
    }

    pub(super) fn verify_bearer(&self, token: &[u8]) -> bool {
        self.bearer.iter().any(|tag| hmac::verify(&self.token_key, token, tag.as_ref()).is_ok())
    }
}

fn is_set(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}

fn fault(key: &'static str, path: &Path, problem: &dyn std::fmt::Display) -> ProfileError {
    ProfileError::File { key, path: path.to_owned(), problem: problem.to_string() }
}

/// Public documents, so that anybody may read the file; but not one of any size.
fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, ProfileError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| fault(key, path, &error.kind()))?;
    file.take(KEY_SET_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| fault(key, path, &error.kind()))?;
    if bytes.len() > KEY_SET_BYTES {
        return Err(fault(key, path, &format!("is larger than {KEY_SET_BYTES} bytes")));
    }
    Ok(bytes)
}

fn standard_secrets(path: &Path) -> Result<Vec<Secret>, ProfileError> {
    let key = "receive.webhook.standard_webhooks_secret_file";
    let decoded = secrets(key, path)?.iter().map(|line| from_whsec(line.expose())).collect::<Option<Vec<Secret>>>();
    decoded.ok_or_else(|| fault(key, path, &"has a line that is not whsec_ and 24 to 64 bytes in base64"))
}

/// One a line; blank lines separate nothing.
fn secrets(key: &'static str, path: &Path) -> Result<Vec<Secret>, ProfileError> {
    let Some(path) = is_set(path) else { return Ok(Vec::new()) };
    let file = secret_file(key, path)?;
    let lines = file.expose().split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let secrets: Vec<Secret> = lines.map(|line| Secret::new(line.to_vec())).collect();
    if secrets.is_empty() {
        return Err(fault(key, path, &"holds no secret"));
    }
    Ok(secrets)
}
