//! A directory with one file per signing scope, read anew for every attempt. It writes nothing and watches nothing.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{Context, SHA256};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::identity::IdentityFiles;
use super::{ResolveError, Signer, scope};
use crate::certificate::CertificateFault;
use crate::secret::{SecretFileError, read_secret_file};
use crate::signature::{Algorithms, KeyError, PrivateJwk, SigningKey};

/// Enough for any working set; a fuller memory is emptied, which costs one parse per scope.
const MAX_REMEMBERED: usize = 4096;

pub(crate) struct ScopeDirectory {
    dir: Arc<Path>,
    default_scope: Option<String>,
    /// Keys by scope, each with the hash of the bytes it was made from: parsing costs more than reading and hashing.
    remembered: Arc<Mutex<HashMap<String, Remembered>>>,
}

struct Remembered {
    hash: [u8; 32],
    found: Found,
}

type Found = (Signer, Algorithms);

/// What is wrong with the files of a scope. None of it quotes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScopeFault {
    #[error("the directory of scopes is not there")]
    NoDirectory,
    #[error("scope file: {0}")]
    File(SecretFileError),
    #[error("the scope file is not the JSON object that a scope file must be")]
    Malformed,
    #[error("the scope file is about another scope")]
    OtherScope,
    #[error("the scope file must have either `jwk`, or `key_file` with `key_id`, and a non-empty `algorithms`")]
    Incomplete,
    #[error("key file: {0}")]
    KeyFile(SecretFileError),
    #[error("signing key: {0}")]
    Key(KeyError),
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeFile {
    scope: String,
    algorithms: Option<Algorithms>,
    jwk: Option<PrivateJwk>,
    key_file: Option<PathBuf>,
    key_id: Option<String>,
    client_cert_file: Option<PathBuf>,
    client_key_file: Option<PathBuf>,
    #[serde(default)]
    decommissioned: bool,
}

impl ScopeDirectory {
    pub(crate) fn new(dir: impl Into<PathBuf>, default_scope: Option<String>) -> Self {
        ScopeDirectory { dir: dir.into().into(), default_scope, remembered: Arc::default() }
    }

    /// Whether rows without a scope are signed.
    pub(crate) fn has_default(&self) -> bool {
        self.default_scope.is_some()
    }

    pub(super) async fn resolve(&self, scope: Option<&str>) -> Result<Found, ResolveError> {
        let scope = scope.or(self.default_scope.as_deref()).ok_or(ResolveError::ScopeRequired)?;
        if !scope::is_scope(scope) {
            return Err(ResolveError::ScopeMalformed);
        }
        let (dir, scope) = (Arc::clone(&self.dir), scope.to_owned());
        let remembered = Arc::clone(&self.remembered);
        // One hop to a thread that may block, where tokio::fs would take one for each of its calls.
        tokio::task::spawn_blocking(move || read(&dir, scope, &remembered))
            .await
            .unwrap_or(Err(ResolveError::Unavailable(ScopeFault::Abandoned)))
    }
}

fn read(dir: &Path, scope: String, remembered: &Mutex<HashMap<String, Remembered>>) -> Result<Found, ResolveError> {
    let unavailable = ResolveError::Unavailable;
    let content = match read_secret_file(&dir.join(scope::file_name(&scope))) {
        Ok(content) => content,
        // An unmounted directory has no scopes at all, which must not look like scopes that nobody knows.
        Err(SecretFileError::Unreadable(ErrorKind::NotFound)) if dir.is_dir() => return Err(ResolveError::Unknown),
        Err(SecretFileError::Unreadable(ErrorKind::NotFound)) => return Err(unavailable(ScopeFault::NoDirectory)),
        Err(fault) => return Err(unavailable(ScopeFault::File(fault))),
    };
    // serde's message may quote the text, so it is dropped.
    let file: ScopeFile = serde_json::from_slice(&content).map_err(|_| unavailable(ScopeFault::Malformed))?;
    if file.scope != scope {
        return Err(unavailable(ScopeFault::OtherScope));
    }
    if file.decommissioned {
        return Err(ResolveError::Decommissioned);
    }
    let (source, algorithms) = Source::of(file, dir).map_err(unavailable)?;
    let hash = source.hash(&content);
    if let Some(known) = lock(remembered).get(&scope).filter(|known| known.hash == hash) {
        return Ok(known.found.clone());
    }
    let found = (source.signer().map_err(unavailable)?, algorithms);
    // Two attempts may both parse and insert: what they insert is the same, or the later bytes win at the next read.
    let mut remembered = lock(remembered);
    if remembered.len() >= MAX_REMEMBERED {
        remembered.clear();
    }
    remembered.insert(scope, Remembered { hash, found: found.clone() });
    Ok(found)
}

fn lock(remembered: &Mutex<HashMap<String, Remembered>>) -> MutexGuard<'_, HashMap<String, Remembered>> {
    // A panic while the lock is held cannot leave the map half-written.
    remembered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the signer of a scope is made of, read but not yet parsed.
struct Source {
    key: KeySource,
    identity: Option<IdentityFiles>,
}

enum KeySource {
    Jwk(PrivateJwk),
    Pem { pem: Zeroizing<Vec<u8>>, kid: String },
}

impl Source {
    fn of(file: ScopeFile, dir: &Path) -> Result<(Self, Algorithms), ScopeFault> {
        let algorithms = file.algorithms.filter(|set| !set.is_empty()).ok_or(ScopeFault::Incomplete)?;
        let key = match (file.jwk, file.key_file, file.key_id) {
            (Some(jwk), None, None) => KeySource::Jwk(jwk),
            (None, Some(path), Some(kid)) => {
                let pem = read_secret_file(&dir.join(path)).map_err(ScopeFault::KeyFile)?;
                KeySource::Pem { pem, kid }
            }
            _ => return Err(ScopeFault::Incomplete),
        };
        let identity = IdentityFiles::read(file.client_cert_file, file.client_key_file, dir)?;
        Ok((Source { key, identity }, algorithms))
    }

    /// Over everything that the signer is made of: the scope file, and the files that it names.
    fn hash(&self, scope_file: &[u8]) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(&scope_file.len().to_be_bytes());
        context.update(scope_file);
        if let KeySource::Pem { pem, .. } = &self.key {
            context.update(&pem.len().to_be_bytes());
            context.update(pem);
        }
        if let Some(identity) = &self.identity {
            identity.hash_into(&mut context);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }

    fn signer(self) -> Result<Signer, ScopeFault> {
        let key = match self.key {
            KeySource::Jwk(jwk) => SigningKey::from_private_jwk(jwk),
            KeySource::Pem { pem, kid } => SigningKey::from_pem(&pem, &kid, None),
        };
        let key = Arc::new(key.map_err(ScopeFault::Key)?);
        let identity = self.identity.map(|files| files.identity()).transpose()?;
        Ok(Signer { key, identity })
    }
}
