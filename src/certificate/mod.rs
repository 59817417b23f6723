//! Certificates as files hold them: a chain with its key for either end of a handshake, and when certificates expire. It reads
//! no file, opens no connection, and leaves it to TLS whether a certificate is to be trusted.

mod expiry;
mod identity;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::{Zeroize, Zeroizing};

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

/// The chain and the key of two files, or of one twice, as one PEM text with nothing else in it.
pub(crate) fn bundle(certificate: &[u8], key: &[u8]) -> Result<Zeroizing<Vec<u8>>, CertificateFault> {
    let chain = chain(certificate)?;
    let mut private = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateFault::NoKey)?;
    let kind = match &private {
        PrivateKeyDer::Pkcs8(_) => "PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        _ => return Err(CertificateFault::Unusable),
    };
    let bytes = private.secret_der().len() + chain.iter().map(|certificate| certificate.len()).sum::<usize>();
    // Base64, line ends and marks take less than this: the text never grows, so that no copy of the key stays behind.
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes + 128 * (chain.len() + 1)));
    for certificate in &chain {
        block("CERTIFICATE", certificate, &mut text);
    }
    block(kind, private.secret_der(), &mut text);
    private.zeroize();
    Ok(Zeroizing::new(std::mem::take(&mut *text).into_bytes()))
}

fn block(kind: &str, der: &[u8], text: &mut String) {
    text.extend(["-----BEGIN ", kind, "-----\n"]);
    for line in der.chunks(48) {
        STANDARD.encode_string(line, text);
        text.push('\n');
    }
    text.extend(["-----END ", kind, "-----\n"]);
}

#[cfg(test)]
mod tests;
