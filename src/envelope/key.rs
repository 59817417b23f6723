//! The envelope keys that this process holds. It reads no file, and never shows a key.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::digest::{Context, SHA256};
use thiserror::Error;
use zeroize::Zeroizing;

const KEY_LEN: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum KeyError {
    #[error("an envelope key is 32 raw bytes, 64 hex digits, or base64 of 32 bytes; {bytes} bytes were given")]
    Unrecognised { bytes: usize },
    #[error("no envelope key was given")]
    NoKey,
    /// Which of the two places counts cannot be told, and an operator who removes one would believe the key gone.
    #[error("the keys number {first} and {second} are the same key; name it once")]
    Twice { first: usize, second: usize },
}

/// One AES-256-GCM key. The raw bytes stay in one place, since moving would leave them behind, and are wiped when it is
/// dropped; the key schedule is not (ring has no way to), so it is made afresh for each use and lives no longer than that.
pub(crate) struct EnvelopeKey(Box<Zeroizing<[u8; KEY_LEN]>>);

impl EnvelopeKey {
    /// Takes 32 raw bytes, 64 hex digits, or base64 or base64url of 32 bytes, each with at most one newline after it.
    pub(crate) fn parse(given: &[u8]) -> Result<Self, KeyError> {
        // Exactly 32 bytes are a raw key, even where the last of them happens to be a newline.
        if let Some(key) = Self::from_raw(given) {
            return Ok(key);
        }
        let text = given.strip_suffix(b"\n").map_or(given, |line| line.strip_suffix(b"\r").unwrap_or(line));
        let raw = given.strip_suffix(b"\n").and_then(Self::from_raw);
        raw.or_else(|| Self::from_hex(text))
            .or_else(|| Self::from_base64(text))
            .ok_or(KeyError::Unrecognised { bytes: given.len() })
    }

    fn from_raw(raw: &[u8]) -> Option<Self> {
        let raw: &[u8; KEY_LEN] = raw.try_into().ok()?;
        let mut key = Box::new(Zeroizing::new([0; KEY_LEN]));
        key.copy_from_slice(raw);
        Some(EnvelopeKey(key))
    }

    fn from_hex(text: &[u8]) -> Option<Self> {
        if text.len() != 2 * KEY_LEN {
            return None;
        }
        let mut key = Box::new(Zeroizing::new([0; KEY_LEN]));
        for (byte, pair) in key.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(EnvelopeKey(key))
    }

    fn from_base64(text: &[u8]) -> Option<Self> {
        [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD].into_iter().find_map(|engine| {
            // One byte more than a key: decoding 43 or 44 characters may ask for 33.
            let mut decoded = Zeroizing::new([0; KEY_LEN + 1]);
            let len = engine.decode_slice(text, decoded.as_mut_slice()).ok()?;
            Self::from_raw(&decoded[..len])
        })
    }

    /// Enough of a hash to tell held keys apart and to compare with another machine's; of 256 random bits it gives
    /// nothing away.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Context::new(&SHA256);
        hash.update(b"outboxd envelope key\0");
        hash.update(self.0.as_slice());
        crate::hex::encode(&hash.finish().as_ref()[..6])
    }

    pub(super) fn cipher(&self) -> LessSafeKey {
        // The length is the only thing that ring checks, and the type fixes it at 32.
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, self.0.as_slice()).expect("32 bytes are an AES-256 key"))
    }
}

/// The held keys, newest first, never none. A row does not name its key, so each is tried in turn.
pub(crate) struct Keyring {
    newest_first: Vec<EnvelopeKey>,
}

impl Keyring {
    pub(crate) fn new(newest_first: Vec<EnvelopeKey>) -> Result<Self, KeyError> {
        if newest_first.is_empty() {
            return Err(KeyError::NoKey);
        }
        for (second, key) in newest_first.iter().enumerate() {
            let same = |earlier: &EnvelopeKey| earlier.fingerprint() == key.fingerprint();
            if let Some(first) = newest_first[..second].iter().position(same) {
                return Err(KeyError::Twice { first: first + 1, second: second + 1 });
            }
        }
        Ok(Keyring { newest_first })
    }

    pub(crate) fn len(&self) -> usize {
        self.newest_first.len()
    }

    /// The one that seals.
    pub(crate) fn newest(&self) -> &EnvelopeKey {
        &self.newest_first[0]
    }

    pub(crate) fn newest_first(&self) -> &[EnvelopeKey] {
        &self.newest_first
    }

    /// In the same order.
    pub(crate) fn fingerprints(&self) -> Vec<String> {
        self.newest_first.iter().map(EnvelopeKey::fingerprint).collect()
    }

    pub(super) fn last_and_earlier(&self) -> (&EnvelopeKey, &[EnvelopeKey]) {
        // `new` is the only way to a keyring, and it refuses an empty list.
        self.newest_first.split_last().expect("a keyring holds a key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: [u8; 32] = *b"\x00\x01\xfe\xff0123456789abcdef0123456789ab";

    fn hex(raw: &[u8], upper: bool) -> String {
        raw.iter().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
    }

    #[test]
    fn every_accepted_spelling_gives_the_same_key() {
        let spellings = [
            RAW.to_vec(),
            hex(&RAW, false).into_bytes(),
            hex(&RAW, true).into_bytes(),
            STANDARD.encode(RAW).into_bytes(),
            STANDARD_NO_PAD.encode(RAW).into_bytes(),
            URL_SAFE.encode(RAW).into_bytes(),
            URL_SAFE_NO_PAD.encode(RAW).into_bytes(),
        ];
        for spelling in spellings {
            for end in [&b""[..], b"\n", b"\r\n"] {
                let given = [&spelling, end].concat();
                if spelling.len() == 32 && end == b"\r\n" {
                    continue;
                }
                let key = EnvelopeKey::parse(&given).unwrap_or_else(|error| panic!("{given:?}: {error}"));
                assert_eq!(**key.0, RAW);
            }
        }
    }

    #[test]
    fn a_raw_key_that_ends_in_a_newline_is_kept_whole() {
        let raw = [b'\n'; 32];
        assert_eq!(**EnvelopeKey::parse(&raw).unwrap().0, raw);
    }

    #[test]
    fn anything_else_is_refused_with_its_length_only() {
        let refused = [
            Vec::new(),
            vec![7; 16],
            vec![7; 31],
            vec![7; 34],
            hex(&RAW[..31], false).into_bytes(),
            format!("{}g", &hex(&RAW, false)[..63]).into_bytes(),
            format!("{}\n\n", hex(&RAW, false)).into_bytes(),
            STANDARD.encode([7; 31]).into_bytes(),
            STANDARD.encode([7; 33]).into_bytes(),
        ];
        for given in refused {
            let refusal = EnvelopeKey::parse(&given).map(drop);
            assert_eq!(refusal, Err(KeyError::Unrecognised { bytes: given.len() }), "{given:?}");
        }
        assert_eq!(Keyring::new(Vec::new()).map(drop), Err(KeyError::NoKey));
    }

    #[test]
    fn a_key_that_is_given_twice_is_refused_however_it_is_spelt() {
        let raw = || EnvelopeKey::parse(&RAW).unwrap();
        let other = EnvelopeKey::parse(&[7; 32]).unwrap();
        let again = EnvelopeKey::parse(hex(&RAW, true).as_bytes()).unwrap();
        let refusal = Keyring::new(vec![raw(), other, again]).map(drop);
        assert_eq!(refusal, Err(KeyError::Twice { first: 1, second: 3 }));
    }

    #[test]
    fn the_first_key_is_the_newest_and_the_order_is_kept() {
        let keys = || [RAW, [7; 32], [8; 32]].map(|raw| EnvelopeKey::parse(&raw).unwrap());
        let held = Keyring::new(keys().into()).unwrap();
        assert_eq!(held.newest().fingerprint(), keys()[0].fingerprint());
        assert_eq!(held.fingerprints(), keys().map(|key| key.fingerprint()));
    }
}
