//! Certificates as files hold them: a chain with its key for either end of a handshake, and when certificates expire. It reads
//! no file, opens no connection, and leaves it to TLS whether a certificate is to be trusted.

mod expiry;
mod identity;

use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroize;

pub(crate) use expiry::earliest_expiry;
pub(crate) use identity::{ClientIdentity, IdentityId};

/// What is wrong with a certificate file or the key file beside it. None of it quotes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateFault {
    #[error("is not PEM")]
    NotPem,
    #[error("holds no certificate; expected PEM blocks of the kind CERTIFICATE")]
    NoCertificate,
    #[error("certificate or key is of a kind that cannot be used")]
    Unusable,
    #[error("holds no private key in PEM")]
    NoKey,
    #[error("does not belong to the certificate")]
    KeyOfAnother,
}

impl CertificateFault {
    /// Whether it is the key file that has to be mended, and not the certificate's.
    pub(crate) fn is_about_key(self) -> bool {
        matches!(self, CertificateFault::NoKey | CertificateFault::KeyOfAnother)
    }
}

/// The certificates of a PEM file, at least one, in their order.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|_| CertificateFault::NotPem)?;
    if chain.is_empty() { Err(CertificateFault::NoCertificate) } else { Ok(chain) }
}

/// A chain, leaf first, with the private key that belongs to its leaf.
pub(crate) fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, CertificateFault> {
    let chain = chain(certificate)?;
    let mut private = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateFault::NoKey)?;
    let signing = rustls::crypto::ring::sign::any_supported_type(&private);
    private.zeroize();
    let certified = CertifiedKey::new(chain, signing.map_err(|_| CertificateFault::Unusable)?);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(CertificateFault::KeyOfAnother),
        // A leaf that does not parse, or whose key cannot be compared.
        Err(_) => Err(CertificateFault::Unusable),
    }
}

#[cfg(test)]
mod tests;
