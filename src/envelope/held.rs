//! What daemons keep sealed for themselves: signing keys and client certificates. What the bytes are is nobody's business
//! here.

use zeroize::Zeroizing;

use super::aad::Aad;
use super::key::Keyring;
use super::reseal::try_open;
use super::seal::{NONCE_LEN, TAG_LEN, seal};

/// Under the newest key. The nonce must be fresh.
pub(crate) fn seal_held(plaintext: &[u8], aad: &Aad, ring: &Keyring, nonce: [u8; NONCE_LEN]) -> Vec<u8> {
    // With room for the tag: growing would leave a copy of the plaintext behind.
    let mut buffer = Vec::with_capacity(plaintext.len() + TAG_LEN);
    buffer.extend_from_slice(plaintext);
    seal(aad, ring.newest(), nonce, buffer)
}

/// Nothing where no held key fits, or what is given cannot be an envelope.
pub(crate) fn open_held(sealed: Vec<u8>, nonce: &[u8], aad: &Aad, ring: &Keyring) -> Option<Zeroizing<Vec<u8>>> {
    try_open(sealed, nonce, aad, ring).map(|opened| opened.plaintext)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::EnvelopeKey;

    fn ring(bytes: &[u8]) -> Keyring {
        Keyring::new(bytes.iter().map(|byte| EnvelopeKey::parse(&[*byte; 32]).unwrap()).collect()).unwrap()
    }

    #[test]
    fn what_is_held_opens_as_what_it_is_and_as_nothing_else() {
        let nonce = [7; NONCE_LEN];
        let aad = Aad::signing_key("tenant:alpha", "k1");
        assert_eq!(aad.as_bytes(), br#"["signing-scope-v1","tenant:alpha","k1"]"#);
        let sealed = seal_held(b"secret", &aad, &ring(&[1]), nonce);
        let open = |aad: &Aad, nonce: &[u8], keys: &[u8]| {
            open_held(sealed.clone(), nonce, aad, &ring(keys)).map(|plaintext| plaintext.to_vec())
        };
        assert_eq!(open(&aad, &nonce, &[2, 1]).as_deref(), Some(&b"secret"[..]));
        assert_eq!(open(&aad, &nonce, &[2]), None);
        assert_eq!(open(&aad, &[8; NONCE_LEN], &[1]), None);
        assert_eq!(open(&aad, &[7; 11], &[1]), None);
        for other in [
            Aad::signing_key("tenant:beta", "k1"),
            Aad::signing_key("tenant:alpha", "k2"),
            Aad::client_certificate("tenant:alpha"),
            Aad::registration("signing-scope-v1", "tenant:alpha", "k1"),
        ] {
            assert_eq!(open(&other, &nonce, &[1]), None);
        }
        assert_eq!(Aad::client_certificate("a").as_bytes(), br#"["signing-scope-client-v1","a"]"#);
        assert!(open_held(vec![0; 15], &nonce, &aad, &ring(&[1])).is_none());
    }
}
