//! A directory with one file per signing scope, read anew for every attempt. It writes nothing and watches nothing.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{Context, SHA256};
use serde::Deserialize;
use tokio::sync::Notify;

use super::identity::IdentityFiles;
use super::keys::{KeysError, SigningKeys, TimedKey};
use super::known::KnownKids;
use super::source::{KeyEntry, KeySource};
use super::{Found, ResolveError, Roster, Signer, scope};
use crate::certificate::CertificateFault;
use crate::secret::{SecretFileError, read_secret_file};
use crate::signature::{Algorithms, KeyError, PrivateJwk};

/// Enough for any working set; a fuller memory is emptied, which costs one parse per scope.
const MAX_REMEMBERED: usize = 20_000;
/// A directory with more files is not listed to its end.
const MAX_LISTED: usize = MAX_REMEMBERED;

#[derive(Clone)]
pub(crate) struct ScopeDirectory {
    dir: Arc<Path>,
    default_scope: Option<String>,
    memory: Arc<Memory>,
    known: Arc<KnownKids>,
    /// Told when a key was read that was not known before.
    news: Arc<Notify>,
}

/// Keys by scope, each with the hash of the bytes that it was made from: parsing costs more than reading and hashing.
#[derive(Default)]
struct Memory {
    remembered: Mutex<HashMap<String, Remembered>>,
    /// Held while bytes are parsed, so that a passphrase is worked through once and not by every attempt that waits for it.
    parsing: Mutex<()>,
}

struct Remembered {
    hash: [u8; 32],
    parsed: Result<Found, ScopeFault>,
}

/// What is wrong with the files of a scope. None of it quotes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScopeFault {
    #[error("the directory of scopes is not there, or may not be read")]
    NoDirectory,
    #[error("scope file: {0}")]
    File(SecretFileError),
    #[error("the scope file is not the JSON object that a scope file must be")]
    Malformed,
    #[error("the scope file is about another scope")]
    OtherScope,
    #[error(
        "the scope file must have a non-empty `algorithms` and either `keys`, or `jwk`, or `key_file` with `key_id`; so must \
         each of its `keys`"
    )]
    Incomplete,
    #[error("key file: {0}")]
    KeyFile(SecretFileError),
    #[error("passphrase file: {0}")]
    PassphraseFile(SecretFileError),
    #[error("signing key: {0}")]
    Key(KeyError),
    #[error("signing keys: {0}")]
    Keys(KeysError),
    #[error(
        "a key id stands for another key than before, and receivers may hold the old one; give the new key a new key id"
    )]
    KeyChanged,
    #[error("the directory has more than {MAX_LISTED} files; the others are not listed")]
    Crowded,
    #[error("the scope file must have both `client_cert_file` and `client_key_file`, or neither")]
    HalfIdentity,
    #[error("client certificate file: it cannot be read ({0})")]
    CertificateFile(ErrorKind),
    #[error("client key file: {0}")]
    ClientKeyFile(SecretFileError),
    #[error("client certificate file: it {0}")]
    Certificate(CertificateFault),
    #[error("client key file: it {0}")]
    ClientKey(CertificateFault),
    #[error("the read was abandoned")]
    Abandoned,
    #[error("the table of signing scopes cannot be read")]
    Unread,
    #[error("no held key opens what the table has sealed, or it was changed")]
    Unopenable,
    #[error("a row of the table says what its sealed key does not, or what no row may say")]
    StoredMalformed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeFile {
    scope: String,
    algorithms: Option<Algorithms>,
    keys: Option<Vec<KeyEntry>>,
    jwk: Option<PrivateJwk>,
    key_file: Option<PathBuf>,
    key_id: Option<String>,
    passphrase_file: Option<PathBuf>,
    client_cert_file: Option<PathBuf>,
    client_key_file: Option<PathBuf>,
    #[serde(default)]
    decommissioned: bool,
}

impl ScopeDirectory {
    /// `known` outlives the directory, so that a reload forgets no key id.
    pub(crate) fn new(dir: impl Into<PathBuf>, default_scope: Option<String>, known: Arc<KnownKids>) -> Self {
        ScopeDirectory { dir: dir.into().into(), default_scope, memory: Arc::default(), known, news: Arc::default() }
    }

    /// Whether rows without a scope are signed.
    pub(crate) fn has_default(&self) -> bool {
        self.default_scope.is_some()
    }

    /// Resolves when a key was read that was not known before, once for each wait.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub(super) async fn resolve(&self, scope: Option<&str>) -> Result<(Signer, Algorithms), ResolveError> {
        let scope = scope::chosen(scope, self.default_scope.as_deref())?;
        let (directory, scope) = (self.clone(), scope.to_owned());
        // One hop to a thread that may block, where tokio::fs would take one for each of its calls.
        let found = tokio::task::spawn_blocking(move || directory.read(&scope))
            .await
            .unwrap_or(Err(ResolveError::Unavailable(ScopeFault::Abandoned)))?;
        found.signer()
    }

    fn read(&self, scope: &str) -> Result<Found, ResolveError> {
        match read_secret_file(&self.dir.join(scope::file_name(scope))) {
            Ok(content) => self.judge(&content, |found| found == scope).map(|(_, found)| found),
            // An unmounted directory has no scopes at all, which must not look like scopes that nobody knows.
            Err(SecretFileError::Unreadable(ErrorKind::NotFound)) if self.dir.is_dir() => Err(ResolveError::Unknown),
            Err(SecretFileError::Unreadable(ErrorKind::NotFound)) => {
                Err(ResolveError::Unavailable(ScopeFault::NoDirectory))
            }
            Err(fault) => Err(ResolveError::Unavailable(ScopeFault::File(fault))),
        }
    }

    /// The scope that a file's content is about, which must be `expected`, and its keys.
    fn judge(&self, content: &[u8], expected: impl Fn(&str) -> bool) -> Result<(String, Found), ResolveError> {
        // serde's message may quote the text, so it is dropped.
        let file: ScopeFile =
            serde_json::from_slice(content).map_err(|_| ResolveError::Unavailable(ScopeFault::Malformed))?;
        if !expected(&file.scope) {
            return Err(ResolveError::Unavailable(ScopeFault::OtherScope));
        }
        if file.decommissioned {
            return Err(ResolveError::Decommissioned);
        }
        let scope = file.scope.clone();
        let found = Source::of(file, &self.dir).and_then(|source| self.parse(&scope, source, content));
        Ok((scope, found.map_err(ResolveError::Unavailable)?))
    }

    fn parse(&self, scope: &str, source: Source, content: &[u8]) -> Result<Found, ScopeFault> {
        let hash = source.hash(content);
        if let Some(parsed) = self.memory.recall(scope, hash) {
            return parsed;
        }
        // A panic while it is held leaves nothing half-done.
        let _parsing = self.memory.parsing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parsed) = self.memory.recall(scope, hash) {
            return parsed;
        }
        let parsed = source.parse().and_then(|found| match self.known.changed(Some(scope), &found.keys) {
            Some(_) => Err(ScopeFault::KeyChanged),
            None => Ok(found),
        });
        if let Ok(found) = &parsed
            && self.known.remember(Some(scope), &found.keys)
        {
            self.news.notify_one();
        }
        // Once for these bytes: attempts that find them again only wait.
        if let Err(fault) = &parsed {
            tracing::warn!(scope, %fault, "a signing scope cannot sign; its rows wait");
        }
        self.memory.remember(scope, Remembered { hash, parsed: parsed.clone() });
        parsed
    }

    /// Every scope that has a file, with its keys or what is wrong with it.
    pub(super) async fn roster(&self) -> Roster {
        let directory = self.clone();
        tokio::task::spawn_blocking(move || directory.list()).await.unwrap_or_default()
    }

    fn list(&self) -> Roster {
        let mut roster = Roster::default();
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            roster.faults.push((self.dir.display().to_string(), ResolveError::Unavailable(ScopeFault::NoDirectory)));
            return roster;
        };
        for (nth, entry) in entries.filter_map(Result::ok).enumerate() {
            if nth == MAX_LISTED {
                roster.faults.push((self.dir.display().to_string(), ResolveError::Unavailable(ScopeFault::Crowded)));
                break;
            }
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !name.ends_with(".json") {
                continue;
            }
            let judged = match read_secret_file(&entry.path()) {
                Ok(content) => self.judge(&content, |scope| scope::is_scope(scope) && scope::file_name(scope) == name),
                Err(fault) => Err(ResolveError::Unavailable(ScopeFault::File(fault))),
            };
            match judged {
                Ok((scope, found)) => roster.signers.push((Some(scope), found.keys)),
                Err(ResolveError::Decommissioned) => {}
                Err(error) => roster.faults.push((name, error)),
            }
        }
        roster.signers.sort_by(|(one, _), (other, _)| one.cmp(other));
        roster.faults.sort_by(|(one, _), (other, _)| one.cmp(other));
        roster
    }
}

impl Memory {
    fn recall(&self, scope: &str, hash: [u8; 32]) -> Option<Result<Found, ScopeFault>> {
        self.lock().get(scope).filter(|known| known.hash == hash).map(|known| known.parsed.clone())
    }

    fn remember(&self, scope: &str, parsed: Remembered) {
        let mut remembered = self.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(scope.to_owned(), parsed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        // A panic while the lock is held cannot leave the map half-written.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the signer of a scope is made of, read but not yet parsed.
struct Source {
    keys: Vec<KeySource>,
    advertised: Algorithms,
    identity: Option<IdentityFiles>,
}

impl Source {
    fn of(file: ScopeFile, dir: &Path) -> Result<Source, ScopeFault> {
        let advertised = file.algorithms.filter(|set| !set.is_empty()).ok_or(ScopeFault::Incomplete)?;
        let alone =
            [file.jwk.is_some(), file.key_file.is_some(), file.key_id.is_some(), file.passphrase_file.is_some()];
        let entries = match file.keys {
            Some(_) if alone.contains(&true) => return Err(ScopeFault::Incomplete),
            Some(entries) => entries,
            None => vec![KeyEntry::lasting(file.jwk, file.key_file, file.key_id, file.passphrase_file)],
        };
        let keys = entries.into_iter().map(|entry| entry.read(dir)).collect::<Result<_, _>>()?;
        let identity = IdentityFiles::read(file.client_cert_file, file.client_key_file, dir)?;
        Ok(Source { keys, advertised, identity })
    }

    /// Over everything that the signer is made of: the scope file, and the files that it names.
    fn hash(&self, scope_file: &[u8]) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(&scope_file.len().to_be_bytes());
        context.update(scope_file);
        for key in &self.keys {
            key.hash_into(&mut context);
        }
        if let Some(identity) = &self.identity {
            identity.hash_into(&mut context);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }

    fn parse(self) -> Result<Found, ScopeFault> {
        let keys = self.keys.into_iter().map(KeySource::parse).collect::<Result<Vec<TimedKey>, _>>();
        let keys = SigningKeys::new(keys.map_err(ScopeFault::Key)?).map_err(ScopeFault::Keys)?;
        let identity = self.identity.map(|files| files.identity()).transpose()?;
        Ok(Found { keys, advertised: self.advertised, identity })
    }
}
