//! Bytes in the spellings that hosts use: base64, and the hex that Postgres reads and prints for `bytea`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

pub(super) fn from_base64(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    // Room for all at once: growing would leave unwiped pieces behind.
    let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(text.len())]);
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// `\x0a1b`
pub(super) fn to_bytea(bytes: &[u8]) -> String {
    format!("\\x{}", crate::hex::encode(bytes))
}

/// `\x0a1b`, or base64.
pub(super) fn from_either(text: &str) -> Option<Vec<u8>> {
    let Some(hex) = text.strip_prefix("\\x") else { return STANDARD.decode(text).ok() };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_either_spelling() {
        let all: Vec<u8> = (0..=255).collect();
        assert!(to_bytea(&all).starts_with("\\x000102"));
        for text in [to_bytea(&all), to_base64(&all), to_bytea(&all).to_uppercase().replacen('X', "x", 1)] {
            assert_eq!(from_either(&text).as_deref(), Some(all.as_slice()), "{text}");
        }
        assert_eq!(from_either("\\x"), Some(vec![]));
        for bad in ["\\x0", "\\x0g", "\\xé", "a", "a===", "_-8="] {
            assert_eq!(from_either(bad), None, "{bad}");
        }
        assert_eq!(from_base64("YWJj").as_deref().map(Vec::as_slice), Some(&b"abc"[..]));
    }
}
