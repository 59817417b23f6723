//! Who we are to a receiver that demands a client certificate. It is shown to nobody who does not ask.

use std::fmt;
use std::sync::Arc;

use ring::digest::{Context, SHA256};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

use super::{CertificateFault, certified, earliest_expiry};

/// A certificate chain and its private key.
pub(crate) struct ClientIdentity {
    id: IdentityId,
    certified: Arc<CertifiedKey>,
}

/// Tells identities apart: the hash of the chain. Two files with the same certificates are the same identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct IdentityId([u8; 32]);

impl ClientIdentity {
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CertificateFault> {
        let certified = certified(certificate, key)?;
        let mut hash = Context::new(&SHA256);
        for certificate in &certified.cert {
            hash.update(&certificate.len().to_be_bytes());
            hash.update(certificate);
        }
        let mut id = [0; 32];
        id.copy_from_slice(hash.finish().as_ref());
        Ok(ClientIdentity { id: IdentityId(id), certified: Arc::new(certified) })
    }

    pub(crate) fn id(&self) -> IdentityId {
        self.id
    }

    /// When the first certificate of the chain expires, in Unix seconds.
    pub(crate) fn expires(&self) -> Option<u64> {
        earliest_expiry(&self.certified.cert)
    }
}

impl ResolvesClientCert for ClientIdentity {
    /// Whatever authorities the receiver names: many name none, or the wrong ones, and it is theirs to refuse.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientIdentity").field(&crate::hex::encode(&self.id.0[..6])).finish()
    }
}
