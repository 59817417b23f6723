//! Private keys that are encrypted by a passphrase (RFC 8018: PBES2 with PBKDF2 or scrypt, and AES), opened in memory that
//! is wiped. It opens none whose opening would cost absurdly much, nor by the older schemes.

use pkcs5::EncryptionScheme;
use pkcs5::pbes2::{Kdf, Parameters};
use zeroize::Zeroizing;

use super::der;
use super::key::KeyError;

/// Some seconds of one core. OpenSSL writes 2,048, and OWASP advises 600,000.
const MAX_ITERATIONS: u32 = 5_000_000;
/// scrypt holds 128 N r bytes. OpenSSL and this crate's library write 16 MiB (N = 16,384, r = 8, p = 1).
const MAX_SCRYPT_BYTES: u64 = 128 << 20;
/// It goes over them p times.
const MAX_SCRYPT_WORK: u64 = 1 << 30;

pub(super) fn open(encrypted: &[u8], passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let (algorithm, ciphertext) = der::encrypted_pkcs8(encrypted)?;
    let scheme = EncryptionScheme::try_from(algorithm).map_err(|_| KeyError::EncryptionUnsupported)?;
    let parameters = scheme.pbes2().ok_or(KeyError::EncryptionUnsupported)?;
    refuse_absurd(parameters)?;
    // One buffer that never grows: growing would leave copies that nobody wipes.
    let mut buffer = Zeroizing::new(ciphertext.to_vec());
    let length = match parameters.decrypt_in_place(passphrase, &mut buffer) {
        Ok(opened) => opened.len(),
        Err(pkcs5::Error::UnsupportedAlgorithm { .. } | pkcs5::Error::NoPbes1CryptSupport) => {
            return Err(KeyError::EncryptionUnsupported);
        }
        Err(pkcs5::Error::AlgorithmParametersInvalid { .. }) => return Err(KeyError::EncryptionUnsupported),
        Err(_) => return Err(KeyError::Passphrase),
    };
    buffer.truncate(length);
    Ok(buffer)
}

/// Whoever can change the file could otherwise make every reload take minutes.
fn refuse_absurd(parameters: &Parameters) -> Result<(), KeyError> {
    let absurd = match &parameters.kdf {
        Kdf::Pbkdf2(pbkdf2) => pbkdf2.iteration_count > MAX_ITERATIONS,
        Kdf::Scrypt(scrypt) => {
            let bytes = scrypt.cost_parameter.saturating_mul(u64::from(scrypt.block_size)).saturating_mul(128);
            bytes > MAX_SCRYPT_BYTES || bytes.saturating_mul(u64::from(scrypt.parallelization)) > MAX_SCRYPT_WORK
        }
        _ => return Err(KeyError::EncryptionUnsupported),
    };
    if absurd { Err(KeyError::EncryptionCost) } else { Ok(()) }
}
