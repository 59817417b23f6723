//! From one key to another: opens whatever is sealed to given associated data and seals the same bytes again. What the
//! bytes are is nobody's business here.

use std::mem;

use zeroize::Zeroizing;

use super::aad::Aad;
use super::key::{EnvelopeKey, Keyring};
use super::seal::{NONCE_LEN, TAG_LEN, seal, unseal};

/// What some held key opened.
pub(crate) struct Opened {
    /// Which of the ring, the newest being 0.
    pub(crate) key: usize,
    pub(super) plaintext: Zeroizing<Vec<u8>>,
}

/// Nothing where no key fits, or what is given cannot be an envelope.
pub(crate) fn try_open(ciphertext: Vec<u8>, nonce: &[u8], aad: &Aad, ring: &Keyring) -> Option<Opened> {
    let nonce: [u8; NONCE_LEN] = nonce.try_into().ok()?;
    if ciphertext.len() < TAG_LEN {
        return None;
    }
    unseal(ciphertext, aad, nonce, ring).map(|(key, plaintext)| Opened { key, plaintext })
}

impl Opened {
    /// In the same buffer, so that no plaintext stays behind. The nonce must be fresh for this key.
    pub(crate) fn seal(mut self, aad: &Aad, key: &EnvelopeKey, nonce: [u8; NONCE_LEN]) -> Vec<u8> {
        seal(aad, key, nonce, mem::take(&mut *self.plaintext))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> EnvelopeKey {
        EnvelopeKey::parse(&[byte; 32]).unwrap()
    }

    #[test]
    fn what_is_sealed_again_opens_under_the_new_key_to_the_same_bytes_and_not_under_the_old() {
        let aad = Aad::registration("account", "task", "type");
        let sealed = seal(&aad, &key(1), [1; NONCE_LEN], b"plain".to_vec());
        let both = Keyring::new(vec![key(2), key(1)]).unwrap();
        let opened = try_open(sealed, &[1; NONCE_LEN], &aad, &both).unwrap();
        assert_eq!(opened.key, 1);
        let again = opened.seal(&aad, both.newest(), [2; NONCE_LEN]);
        let old = Keyring::new(vec![key(1)]).unwrap();
        assert!(try_open(again.clone(), &[2; NONCE_LEN], &aad, &old).is_none());
        let opened = try_open(again, &[2; NONCE_LEN], &aad, &both).unwrap();
        assert_eq!((opened.key, opened.plaintext.as_slice()), (0, &b"plain"[..]));
    }

    #[test]
    fn what_cannot_be_an_envelope_opens_under_nothing() {
        let (aad, ring) = (Aad::registration("a", "t", "t"), Keyring::new(vec![key(1)]).unwrap());
        for (ciphertext, nonce) in [(vec![], &[0; 12][..]), (vec![0; 15], &[0; 12]), (vec![0; 16], &[0; 11])] {
            assert!(try_open(ciphertext, nonce, &aad, &ring).is_none());
        }
    }
}
