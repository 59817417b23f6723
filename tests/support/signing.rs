//! `[[signing.keys]]` for a daemon under test: files for keys, and the lines that name them with their windows.

use std::time::{Duration, SystemTime};

use super::config::{Config, text};
use super::keys::SigningKey;

#[derive(Clone)]
pub struct Listed<'a> {
    pub key: &'a SigningKey,
    pub not_before: Option<SystemTime>,
    pub not_after: Option<SystemTime>,
}

/// A key whose window is open at both ends.
pub fn lasting(key: &SigningKey) -> Listed<'_> {
    Listed { key, not_before: None, not_after: None }
}

impl<'a> Listed<'a> {
    pub fn from(self, first: SystemTime) -> Listed<'a> {
        Listed { not_before: Some(first), ..self }
    }

    pub fn until(self, last: SystemTime) -> Listed<'a> {
        Listed { not_after: Some(last), ..self }
    }
}

/// Seconds from now, or before it.
pub fn seconds(from_now: i64) -> SystemTime {
    let distance = Duration::from_secs(from_now.unsigned_abs());
    if from_now < 0 { SystemTime::now() - distance } else { SystemTime::now() + distance }
}

/// The configuration with these keys in place of others.
pub fn with_keys(config: Config, keys: &[Listed<'_>]) -> Config {
    let mut lines = String::new();
    for listed in keys {
        let file = config.file(&format!("{}.pem", listed.key.kid), listed.key.pem());
        lines += &format!("[[signing.keys]]\nkey_file = \"{}\"\nkey_id = \"{}\"\n", text(&file), listed.key.kid);
        for (name, moment) in [("not_before", listed.not_before), ("not_after", listed.not_after)] {
            if let Some(moment) = moment {
                lines += &format!("{name} = \"{}\"\n", humantime::format_rfc3339(moment));
            }
        }
    }
    config.unset("signing.key_file").unset("signing.key_id").unset("signing.algorithms").extra(&lines)
}
