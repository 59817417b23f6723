//! AES-256-GCM as the outbox stores it: ciphertext, then the tag; the nonce beside it. It knows nothing of what is
//! sealed.

use std::mem;

use ring::aead::{AES_256_GCM, Aad as RingAad, LessSafeKey, Nonce};
use zeroize::Zeroizing;

use super::aad::Aad;
use super::key::{EnvelopeKey, Keyring};
use crate::secret::reserve;

pub(crate) const NONCE_LEN: usize = ring::aead::NONCE_LEN;
pub(crate) const TAG_LEN: usize = 16;

/// Seals in place; the buffer comes back as ciphertext with its tag. The nonce must be fresh for this key.
pub(crate) fn seal(aad: &Aad, key: &EnvelopeKey, nonce: [u8; NONCE_LEN], plaintext: Vec<u8>) -> Vec<u8> {
    debug_assert_eq!(AES_256_GCM.tag_len(), TAG_LEN);
    let mut sealed = Zeroizing::new(plaintext);
    // The tag may make the buffer move, which would leave the plaintext behind.
    reserve(&mut sealed, TAG_LEN);
    let nonce = Nonce::assume_unique_for_key(nonce);
    // ring refuses only beyond 64 GiB, which no buffer of a row comes near.
    key.cipher()
        .seal_in_place_append_tag(nonce, RingAad::from(aad.as_bytes()), &mut *sealed)
        .expect("an outbox body is far below 64 GiB");
    mem::take(&mut *sealed)
}

/// Opens in place under the first key that fits, and says which of the ring it is; or gives nothing back.
///
/// ring blanks the buffer when a tag does not fit, so every key but the last works on a copy: none with one key held,
/// one where the newest of several fits.
pub(super) fn unseal(
    sealed: Vec<u8>,
    aad: &Aad,
    nonce: [u8; NONCE_LEN],
    ring: &Keyring,
) -> Option<(usize, Zeroizing<Vec<u8>>)> {
    let mut sealed = Zeroizing::new(sealed);
    let (last, earlier) = ring.last_and_earlier();
    if !earlier.is_empty() {
        let mut copy = Zeroizing::new(Vec::with_capacity(sealed.len()));
        for (nth, key) in earlier.iter().enumerate() {
            copy.clear();
            copy.extend_from_slice(&sealed);
            if open_in_place(&key.cipher(), aad, nonce, &mut copy) {
                return Some((nth, copy));
            }
        }
    }
    open_in_place(&last.cipher(), aad, nonce, &mut sealed).then_some((earlier.len(), sealed))
}

fn open_in_place(cipher: &LessSafeKey, aad: &Aad, nonce: [u8; NONCE_LEN], buffer: &mut Vec<u8>) -> bool {
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = cipher.open_in_place(nonce, RingAad::from(aad.as_bytes()), buffer).map(|plaintext| plaintext.len());
    if let Ok(len) = opened {
        buffer.truncate(len);
    }
    opened.is_ok()
}
