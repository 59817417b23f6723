//! Our certificate: read from its two files, replaced whole or not at all, and used by every handshake from then on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::certificate::certified;

/// Why a certificate cannot be served with.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {path}: {problem}", path = path.display())]
pub(crate) struct CertificateError {
    key: &'static str,
    path: PathBuf,
    problem: String,
}

/// The certificate that handshakes are answered with now.
#[derive(Debug)]
pub(crate) struct Certificate(ArcSwap<CertifiedKey>);

impl Certificate {
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Arc<Certificate>, CertificateError> {
        Ok(Arc::new(Certificate(ArcSwap::new(read(certificate, key)?))))
    }

    /// Keeps the certificate from before if the new one is not whole.
    pub(crate) fn reload(&self, certificate: &Path, key: &Path) -> Result<(), CertificateError> {
        self.0.store(read(certificate, key)?);
        Ok(())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, CertificateError> {
    let refuse = |key, path: &Path, problem: String| CertificateError { key, path: path.to_owned(), problem };
    let no_certificate = |problem| refuse("receive.tls_cert_file", certificate, problem);
    let no_key = |problem| refuse("receive.tls_key_file", key, problem);
    let chain = std::fs::read(certificate).map_err(|error| no_certificate(error.kind().to_string()))?;
    let private = crate::secret::read_secret_file(key).map_err(|error| no_key(error.to_string()))?;
    certified(&chain, &private).map(Arc::new).map_err(|fault| match fault.is_about_key() {
        true => no_key(fault.to_string()),
        false => no_certificate(fault.to_string()),
    })
}

/// TLS 1.2 and 1.3 by ring, HTTP/2 before HTTP/1.1, no early data.
pub(super) fn acceptor(certificate: Arc<Certificate>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    // ring's provider speaks both versions: nothing is left to go wrong.
    let builder = builder.expect("ring speaks TLS 1.2 and 1.3");
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}
