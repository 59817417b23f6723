//! The TLS settings of every delivery: who is trusted and what is spoken. Opens no connection and has no way to switch verification off.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;

/// Why there is no usable TLS configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("no trust anchor: the system has no usable root certificate and none is configured")]
    NoAnchor,
    #[error("configured trust anchor number {index} cannot be used")]
    Anchor {
        /// Counted from one, in the order given.
        index: usize,
        source: rustls::Error,
    },
    #[error("TLS 1.2 and 1.3 are not available")]
    Versions(#[source] rustls::Error),
}

/// TLS 1.2 and later, HTTP/1.1 only, by ring. A configured anchor that cannot be used is an error; a system root
/// that cannot be is passed over, since stores in the wild hold some.
pub(crate) fn tls_config(extra_anchors: &[CertificateDer<'_>], system_roots: bool) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    if system_roots {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    for (position, anchor) in extra_anchors.iter().enumerate() {
        roots
            .add(anchor.clone().into_owned())
            .map_err(|source| TlsError::Anchor { index: position.saturating_add(1), source })?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoAnchor);
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session skips both certificates. Every new connection is to verify the receiver's anew, and to be asked
    // for its own identity's.
    config.resumption = Resumption::disabled();
    Ok(config)
}
