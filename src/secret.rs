//! Secret values that are wiped when dropped and never print themselves, and the files they come from. Of what may be in
//! one, it knows the spelling that Standard Webhooks gives to a shared secret, since two rooms read that.
//!
//! What stays in memory all the same, because it is not ours to wipe: what ring keeps of a key (the pair that signs, for
//! as long as it is held; AES and HMAC states, on the stack, until the next call lies over them), the head of an HTTP
//! request in the HTTP library's buffer and with it a bearer token, a TLS library's session keys, the password inside the
//! Postgres client, what a JSON string with escapes was unescaped in, and the environment of the process. URLs, with what
//! may be in their path, are not treated as secrets in memory, only in what is shown. For all of these the process is
//! closed to others and leaves no core (`cli::harden`).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

/// Bytes that must not be shown: no `Display`, no `Serialize`, and a `Debug` that says nothing.
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Secret(Zeroizing::new(bytes))
    }

    /// The only way to the content, named so that a reader of the call notices.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

/// Issuers differ in whether they pad, and stray bits at the end change no byte.
const WHSEC_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// Standard Webhooks 1.0, “Signature scheme”: 192 to 512 bits.
const WHSEC_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The key that `whsec_` and base64 stand for. The text itself is never the key.
pub(crate) fn from_whsec(text: &[u8]) -> Option<Secret> {
    let encoded = text.strip_prefix(b"whsec_").filter(|encoded| encoded.len() <= 96)?;
    let mut key = Zeroizing::new(vec![0; base64::decoded_len_estimate(encoded.len())]);
    let length = WHSEC_BASE64.decode_slice(encoded, &mut key).ok()?;
    key.truncate(length);
    WHSEC_BYTES.contains(&length).then(|| Secret(key))
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret::new(text.into_bytes())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// Appends without leaving the content behind, unwiped, where the buffer has to move.
pub(crate) fn append(buffer: &mut Zeroizing<Vec<u8>>, data: &[u8]) {
    if buffer.capacity() - buffer.len() < data.len() {
        // By doubling, so that many small pieces are not copied over and over.
        reserve(buffer, data.len().max(buffer.len()));
    }
    buffer.extend_from_slice(data);
}

/// Makes room for so many bytes more, and wipes where the content was before.
pub(crate) fn reserve(buffer: &mut Zeroizing<Vec<u8>>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        let mut larger = Zeroizing::new(Vec::with_capacity(buffer.len() + more));
        larger.extend_from_slice(buffer);
        *buffer = larger;
    }
}

/// Fresh random bytes from the operating system; never from a generator that a snapshot of this machine would repeat.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    // getrandom(2) does not fail once the kernel has booted; without randomness no key or nonce would be safe.
    filled.expect("the operating system gives random bytes");
    bytes
}

/// A random number in [0, 1), for jitter.
pub(crate) fn random_unit() -> f64 {
    (u64::from_le_bytes(random()) >> 11) as f64 / (1u64 << 53) as f64
}

/// A passphrase as a file holds it: the line end after it is none of it.
pub(crate) fn passphrase(file: &[u8]) -> Secret {
    let line = file.strip_suffix(b"\n").unwrap_or(file);
    Secret::new(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
}

/// No key, password or token comes near it; whatever does is the wrong file.
const MAX_SECRET_FILE: usize = 64 * 1024;

/// Why a file is not taken for a secret. The caller adds which file it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretFileError {
    #[error("it cannot be read ({0})")]
    Unreadable(std::io::ErrorKind),
    #[error("it is not a regular file")]
    NotRegular,
    #[error("everybody on this machine may use it (mode {0:04o}); take the rights of others away: chmod o-rwx")]
    OpenToOthers(u32),
    #[error("it is larger than {MAX_SECRET_FILE} bytes")]
    TooLarge,
}

impl From<std::io::Error> for SecretFileError {
    fn from(error: std::io::Error) -> Self {
        SecretFileError::Unreadable(error.kind())
    }
}

/// Reads a file that holds a secret, unless users outside its owner and group have any right to it. Blocks.
pub(crate) fn read_secret_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    // Before opening, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(SecretFileError::NotRegular);
    }
    let mut file = File::open(path)?;
    // Of the open file, so that what is judged is what is read.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(SecretFileError::NotRegular);
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o007 != 0 {
        return Err(SecretFileError::OpenToOthers(mode));
    }
    // One buffer that never grows: growing would leave copies that nobody wipes.
    let mut bytes = Zeroizing::new(vec![0; MAX_SECRET_FILE + 1]);
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..]) {
            Ok(0) if length > MAX_SECRET_FILE => return Err(SecretFileError::TooLarge),
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mode: u32, content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn a_file_of_owner_and_group_is_read() {
        for mode in [0o400, 0o600, 0o640, 0o660] {
            assert_eq!(read_secret_file(file(mode, b"hush\n").path()).unwrap().as_slice(), b"hush\n");
        }
    }

    #[test]
    fn a_file_that_others_have_any_right_to_is_refused() {
        for mode in [0o644, 0o602, 0o601, 0o777] {
            assert_eq!(read_secret_file(file(mode, b"hush").path()).unwrap_err(), SecretFileError::OpenToOthers(mode));
        }
    }

    #[test]
    fn the_largest_file_is_read_and_one_byte_more_is_refused() {
        assert_eq!(read_secret_file(file(0o600, &[7; MAX_SECRET_FILE]).path()).unwrap().len(), MAX_SECRET_FILE);
        let larger = file(0o600, &[7; MAX_SECRET_FILE + 1]);
        assert_eq!(read_secret_file(larger.path()).unwrap_err(), SecretFileError::TooLarge);
    }

    #[test]
    fn directories_pipes_and_absent_files_are_told_apart_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_secret_file(dir.path()).unwrap_err(), SecretFileError::NotRegular);
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert_eq!(read_secret_file(&pipe).unwrap_err(), SecretFileError::NotRegular);
        let absent = read_secret_file(&dir.path().join("absent")).unwrap_err();
        assert_eq!(absent, SecretFileError::Unreadable(std::io::ErrorKind::NotFound));
    }

    #[test]
    fn appended_bytes_are_all_there_in_order() {
        let mut buffer = Zeroizing::new(Vec::new());
        let bytes: Vec<u8> = (0..=255).collect();
        for piece in bytes.chunks(7) {
            append(&mut buffer, piece);
        }
        append(&mut buffer, &[]);
        assert_eq!(*buffer, bytes);
    }

    /// Compiles only where the type has none of the traits: with one of them, it would be found in two ways.
    macro_rules! never {
        ($type:ty: $($bound:path),+) => {$({
            trait Found<How> { fn found() {} }
            struct Has;
            impl<T: ?Sized> Found<()> for T {}
            impl<T: ?Sized + $bound> Found<Has> for T {}
            let _ = <$type as Found<_>>::found;
        })+};
    }

    #[test]
    fn no_type_that_holds_a_secret_can_be_shown_copied_or_written_out() {
        use std::fmt::{Debug, Display};

        use serde::Serialize;

        use crate::{config, envelope, signature, store};

        never!(envelope::EnvelopeKey: Debug, Display, Clone, Serialize);
        never!(envelope::Keyring: Debug, Display, Clone, Serialize);
        never!(envelope::Composed: Debug, Display, Clone, Serialize);
        never!(envelope::Envelope: Display, Clone, Serialize);
        never!(envelope::Registration: Display, Clone, Serialize);
        never!(envelope::Row: Debug, Display, Clone, Serialize);
        never!(signature::PrivateJwk: Debug, Display, Clone, Serialize);
        never!(signature::SigningKey: Display, Clone, Serialize);
        // Copies of these are wiped as well, and their Debug says nothing.
        never!(Secret: Display, Serialize);
        never!(envelope::Authentication: Display, Serialize);
        never!(config::Sources: Display, Serialize);
        never!(config::EnvironmentSecrets: Display, Serialize);
        never!(store::StoreConfig: Display, Serialize);
    }

    #[test]
    fn a_passphrase_ends_before_its_line_end_and_not_before_its_spaces() {
        for file in ["hush hush ", "hush hush \n", "hush hush \r\n"] {
            assert_eq!(passphrase(file.as_bytes()).expose(), b"hush hush ");
        }
        assert_eq!(passphrase(b"a\n\n").expose(), b"a\n");
        assert_eq!(passphrase(b"\n").expose(), b"");
    }

    #[test]
    fn a_standard_webhooks_secret_is_24_to_64_bytes_in_base64_after_its_prefix() {
        use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
        let key: Vec<u8> = (0..64).map(|n: u8| n.wrapping_mul(7).wrapping_add(251)).collect();
        for bytes in [24, 25, 26, 32, 64] {
            for text in [STANDARD.encode(&key[..bytes]), STANDARD_NO_PAD.encode(&key[..bytes])] {
                assert_eq!(from_whsec(format!("whsec_{text}").as_bytes()).unwrap().expose(), &key[..bytes]);
                assert!(from_whsec(text.as_bytes()).is_none(), "without its prefix it is another kind of secret");
            }
        }
        let long = STANDARD.encode([7; 65]);
        let url_safe = URL_SAFE.encode([0xfb; 24]);
        for text in ["", &STANDARD.encode([7; 23]), &long, &url_safe, "AAAA AAAA", &"A".repeat(1 << 20)] {
            assert!(from_whsec(format!("whsec_{text}").as_bytes()).is_none(), "{text:.40}");
        }
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::from("hush".to_owned())), "[secret]");
    }
}
