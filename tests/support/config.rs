//! Configuration files and key files for a daemon under test, in a directory of their own.
//! It deliberately knows only key names; what they mean is the daemon's business.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use super::seal::EnvelopeKey;

#[derive(Clone)]
pub struct Config {
    directory: Arc<TempDir>,
    sections: BTreeMap<String, BTreeMap<String, Value>>,
    /// Lines that are no `key = value` of ours, for malformed files.
    extra: String,
    pub environment: Vec<(String, String)>,
}

impl Config {
    pub fn empty() -> Config {
        let directory = TempDir::new().expect("the temp directory takes another");
        Config { directory: Arc::new(directory), sections: BTreeMap::new(), extra: String::new(), environment: vec![] }
    }

    /// `key` is `section.name`. JSON's strings, numbers, booleans and arrays are TOML's too.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Config {
        let (section, name) = key.split_once('.').expect("a key is section.name");
        self.sections.entry(section.into()).or_default().insert(name.into(), value.into());
        self
    }

    pub fn unset(mut self, key: &str) -> Config {
        let (section, name) = key.split_once('.').expect("a key is section.name");
        self.sections.entry(section.into()).or_default().remove(name);
        self
    }

    pub fn sets(&self, key: &str) -> bool {
        key.split_once('.')
            .is_some_and(|(section, name)| self.sections.get(section).is_some_and(|section| section.contains_key(name)))
    }

    /// How many outboxes it lists.
    pub fn outboxes(&self) -> usize {
        self.extra.matches("[[outboxes]]").count()
    }

    pub fn extra(mut self, text: &str) -> Config {
        self.extra.push_str(text);
        self
    }

    pub fn without_extra(mut self) -> Config {
        self.extra.clear();
        self
    }

    pub fn environment(mut self, name: &str, value: &str) -> Config {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// A file beside the configuration, readable by its owner alone.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.file_with_mode(name, content, 0o600)
    }

    pub fn file_with_mode(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("our directory is ours");
        }
        // Whole and with its rights from the first moment on: a daemon that watches it looks when it likes.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let fresh = self.path(&format!(".fresh-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::write(&fresh, content).expect("our directory is ours");
        fs::set_permissions(&fresh, fs::Permissions::from_mode(mode)).expect("our file is ours");
        fs::rename(&fresh, &path).expect("our directory is ours");
        path
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Envelope keys, newest first, in files beside the configuration.
    pub fn envelope_keys(self, newest_first: &[&EnvelopeKey]) -> Config {
        let file = |key: &&EnvelopeKey| text(&self.file(&format!("{}.key", key.fingerprint()), key.hex()));
        let files: Vec<String> = newest_first.iter().map(file).collect();
        self.set("envelope.key_files", files)
    }

    /// Writes the file as it stands now, over an earlier one, and says where it is.
    pub fn write(&self) -> PathBuf {
        let mut text = String::new();
        for (section, values) in &self.sections {
            text.push_str(&format!("[{section}]\n"));
            for (name, value) in values {
                text.push_str(&format!("{name} = {value}\n"));
            }
        }
        text.push_str(&self.extra);
        self.file("outboxd.toml", text)
    }
}

pub fn text(path: &Path) -> String {
    path.to_str().expect("temp paths are UTF-8").to_string()
}
