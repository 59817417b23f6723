//! TLS to Postgres: turns libpq's sslmode and sslrootcert into a rustls configuration. It opens no socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::dsn::SslMode;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("sslrootcert {path}: {why}")]
    RootFile { path: PathBuf, why: String },
    #[error("the system has no root certificates: apt-get install ca-certificates, or set sslrootcert")]
    NoSystemRoots,
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
}

/// In place of a file.
pub(super) const SYSTEM_ROOTS: &str = "system";

/// How far the server's certificate is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Anyone,
    Chain,
    ChainAndName,
}

pub(super) fn client_config(mode: SslMode, root_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let trust = match (mode, root_file) {
        (SslMode::VerifyFull, _) => Trust::ChainAndName,
        // As libpq: a root file makes `require` mean verify-ca.
        (SslMode::VerifyCa, _) | (SslMode::Require, Some(_)) => Trust::Chain,
        _ => Trust::Anyone,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let mut config = match trust {
        Trust::ChainAndName => builder.with_root_certificates(roots(root_file)?).with_no_client_auth(),
        Trust::Chain => {
            let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(root_file)?), provider.clone())
                .build()
                .map_err(|_| TlsError::NoSystemRoots)?;
            let verifier = Verifier { chain: Some(chain), provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
        Trust::Anyone => {
            let verifier = Verifier { chain: None, provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    };
    // Postgres 17 demands it for sslnegotiation=direct; older servers ignore it.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    match file.filter(|file| *file != Path::new(SYSTEM_ROOTS)) {
        Some(path) => {
            let failed = |why: String| TlsError::RootFile { path: path.to_owned(), why };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))? {
                let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                store.add(certificate).map_err(|error| failed(error.to_string()))?;
            }
            if store.is_empty() {
                return Err(failed("no certificate in it".into()));
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                return Err(TlsError::NoSystemRoots);
            }
        }
    }
    Ok(store)
}

/// For the modes that do not compare the host's name (`chain`), or look at nothing at all (no `chain`). The
/// handshake's own signature is checked in each.
#[derive(Debug)]
struct Verifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is compared after the chain has been verified, so a wrong name means a good chain.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
