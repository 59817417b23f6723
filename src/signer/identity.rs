//! The client certificates of scopes, from the two files that a scope file names. It does not say when one is used.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::Context;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::ScopeFault;
use crate::certificate::{self, ClientIdentity};
use crate::secret::read_secret_file;

/// As for secret files; a chain of four certificates has some 8 KiB.
const MAX_CHAIN_FILE: u64 = 64 * 1024;

/// The two files, read but not yet parsed.
pub(super) struct IdentityFiles {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl IdentityFiles {
    /// Both or neither. Names are relative to the directory of scopes.
    pub(super) fn read(
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        dir: &Path,
    ) -> Result<Option<Self>, ScopeFault> {
        let (certificate, key) = match (certificate, key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate, key),
            _ => return Err(ScopeFault::HalfIdentity),
        };
        let certificate = read_chain(&dir.join(certificate)).map_err(ScopeFault::CertificateFile)?;
        let key = read_secret_file(&dir.join(key)).map_err(ScopeFault::ClientKeyFile)?;
        Ok(Some(IdentityFiles { certificate, key }))
    }

    pub(super) fn hash_into(&self, context: &mut Context) {
        for part in [&self.certificate, &*self.key] {
            context.update(&part.len().to_be_bytes());
            context.update(part);
        }
    }

    pub(super) fn identity(&self) -> Result<Arc<ClientIdentity>, ScopeFault> {
        let identity = ClientIdentity::from_pem(&self.certificate, &self.key);
        identity.map(Arc::new).map_err(|fault| match fault.is_about_key() {
            true => ScopeFault::ClientKey(fault),
            false => ScopeFault::Certificate(fault),
        })
    }
}

/// Of how many scope files the certificates are looked at, so that a load takes no time to speak of.
const MOST_LOOKED_AT: usize = 10_000;

/// The client certificates that the scope files of a directory name, and when each expires. Whatever cannot be read is
/// passed over: it is told where it is used.
pub(crate) fn client_certificates(dir: &Path) -> Vec<(PathBuf, Option<u64>)> {
    #[derive(Deserialize)]
    struct Names {
        client_cert_file: Option<PathBuf>,
    }
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let scope_files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let certificates = scope_files.take(MOST_LOOKED_AT).filter_map(|path| {
        let content = read_secret_file(&path).ok()?;
        let named: Names = serde_json::from_slice(&content).ok()?;
        Some(dir.join(named.client_cert_file?))
    });
    // Scopes may share one.
    let certificates: BTreeSet<PathBuf> = certificates.collect();
    let dated = certificates.into_iter().filter_map(|path| {
        let chain = certificate::chain(&read_chain(&path).ok()?).ok()?;
        Some((path, certificate::earliest_expiry(&chain)))
    });
    dated.collect()
}

fn read_chain(path: &Path) -> Result<Vec<u8>, ErrorKind> {
    // Before opening, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(|error| error.kind())?.is_file() {
        return Err(ErrorKind::InvalidInput);
    }
    let mut chain = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.kind())?;
    file.take(MAX_CHAIN_FILE + 1).read_to_end(&mut chain).map_err(|error| error.kind())?;
    if chain.len() as u64 > MAX_CHAIN_FILE { Err(ErrorKind::FileTooLarge) } else { Ok(chain) }
}
