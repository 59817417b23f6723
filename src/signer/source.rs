//! Where a key of a scope comes from, and until when: a private JWK in the scope's file, or a key file beside it. Reading
//! and parsing are apart, since parsing costs more and is done once for the same bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ring::digest::Context;
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::directory::ScopeFault;
use super::keys::{TimedKey, Window, parse_moment};
use crate::secret::{Secret, passphrase, read_secret_file};
use crate::signature::{KeyError, PrivateJwk, SigningKey};

/// One of a scope's `keys`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyEntry {
    jwk: Option<PrivateJwk>,
    key_file: Option<PathBuf>,
    key_id: Option<String>,
    passphrase_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "moment")]
    not_before: Option<SystemTime>,
    #[serde(default, deserialize_with = "moment")]
    not_after: Option<SystemTime>,
}

fn moment<'de, D: Deserializer<'de>>(input: D) -> Result<Option<SystemTime>, D::Error> {
    let text = String::deserialize(input)?;
    parse_moment(&text).map(Some).ok_or_else(|| serde::de::Error::custom("no moment"))
}

/// What a key is made of.
pub(super) struct KeySource {
    material: Material,
    window: Window,
}

enum Material {
    Jwk(PrivateJwk),
    File { content: Zeroizing<Vec<u8>>, kid: Option<String>, passphrase: Option<Secret> },
}

impl KeyEntry {
    /// A key that signs for ever, as a scope file that has but one describes it in its own members.
    pub(super) fn lasting(
        jwk: Option<PrivateJwk>,
        key_file: Option<PathBuf>,
        key_id: Option<String>,
        passphrase_file: Option<PathBuf>,
    ) -> KeyEntry {
        KeyEntry { jwk, key_file, key_id, passphrase_file, not_before: None, not_after: None }
    }

    pub(super) fn read(self, dir: &Path) -> Result<KeySource, ScopeFault> {
        let window = Window { not_before: self.not_before, not_after: self.not_after };
        let material = match (self.jwk, self.key_file) {
            (Some(jwk), None) if self.key_id.is_none() && self.passphrase_file.is_none() => Material::Jwk(jwk),
            (None, Some(file)) => {
                let content = read_secret_file(&dir.join(file)).map_err(ScopeFault::KeyFile)?;
                let beside = self.passphrase_file.map(|file| read_secret_file(&dir.join(file))).transpose();
                let beside = beside.map_err(ScopeFault::PassphraseFile)?;
                let passphrase = beside.map(|text| passphrase(&text));
                Material::File { content, kid: self.key_id, passphrase }
            }
            _ => return Err(ScopeFault::Incomplete),
        };
        Ok(KeySource { material, window })
    }
}

impl KeySource {
    /// What of it is not in the scope's own file.
    pub(super) fn hash_into(&self, context: &mut Context) {
        let Material::File { content, passphrase, .. } = &self.material else { return };
        for part in [Some(content.as_slice()), passphrase.as_ref().map(Secret::expose)] {
            let part = part.unwrap_or_default();
            context.update(&part.len().to_be_bytes());
            context.update(part);
        }
    }

    pub(super) fn parse(self) -> Result<TimedKey, KeyError> {
        let key = match self.material {
            Material::Jwk(jwk) => SigningKey::from_private_jwk(jwk)?,
            Material::File { content, kid, passphrase } => {
                SigningKey::read(&content, kid.as_deref(), passphrase.as_ref().map(Secret::expose))?
            }
        };
        Ok(TimedKey { key: Arc::new(key), window: self.window })
    }
}
