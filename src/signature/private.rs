//! A private key in the one form in which it is kept sealed, whatever form its file has: a private JWK with every member
//! that tells what it is. It seals nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::Value;
use zeroize::Zeroizing;

use super::der::RawKey;
use super::jwk::{PrivateJwk, coordinate};
use super::key::{KeyError, SigningKey, with_raw};
use super::pem;

#[derive(Serialize)]
struct Written<'a> {
    kty: &'a Value,
    crv: &'a Value,
    alg: &'a Value,
    kid: &'a str,
    adcp_use: &'a Value,
    x: &'a Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    y: &'a Value,
    d: &'a str,
}

/// What a key file holds (see [`SigningKey::read`]), and the same key as a private JWK.
pub(crate) fn private_jwk(
    content: &[u8],
    kid: Option<&str>,
    passphrase: Option<&[u8]>,
) -> Result<(SigningKey, Zeroizing<Vec<u8>>), KeyError> {
    let key = SigningKey::read(content, kid, passphrase)?;
    let secret = match content.trim_ascii_start().starts_with(b"{") {
        true => coordinate(&PrivateJwk::parse(content)?.d).ok_or(KeyError::Coordinate("d"))?,
        false => with_raw(&pem::read(content)?, passphrase, |raw| match raw {
            RawKey::Ed25519 { seed: secret } | RawKey::P256 { scalar: secret, .. } => {
                let mut exact = Zeroizing::new([0; 32]);
                match secret.len() == exact.len() {
                    true => exact.copy_from_slice(secret),
                    false => return Err(KeyError::Der),
                }
                Ok(exact)
            }
        })?,
    };
    // Neither buffer grows: 32 bytes are 43 characters, and the rest of a JWK is below a kilobyte beside its kid.
    let mut d = Zeroizing::new(String::with_capacity(64));
    URL_SAFE_NO_PAD.encode_string(*secret, &mut d);
    let public = key.public_jwk();
    let member = |name: &str| &public[name];
    let written = Written {
        kty: member("kty"),
        crv: member("crv"),
        alg: member("alg"),
        kid: key.kid(),
        adcp_use: member("adcp_use"),
        x: member("x"),
        y: member("y"),
        d: &d,
    };
    let mut jwk = Zeroizing::new(Vec::with_capacity(1024 + 6 * key.kid().len()));
    // Strings serialize whatever they hold, and a Vec takes every write.
    serde_json::to_writer(&mut *jwk, &written).expect("strings always serialize");
    Ok((key, jwk))
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;

    use super::*;
    use crate::signature::Algorithm;

    #[test]
    fn a_key_is_the_same_key_in_its_kept_form() {
        for algorithm in Algorithm::ALL {
            let (key, pem) = SigningKey::generate(algorithm, Some("k \"1\""), &SystemRandom::new()).unwrap();
            let (read, jwk) = private_jwk(pem.as_bytes(), Some("k \"1\""), None).unwrap();
            assert_eq!(read.public_jwk(), key.public_jwk());
            let kept = SigningKey::from_jwk(&jwk).unwrap();
            assert_eq!(kept.public_jwk(), key.public_jwk());
            // From its kept form it is kept as it is.
            let (again, same) = private_jwk(&jwk, None, None).unwrap();
            assert_eq!((again.public_jwk(), &same), (key.public_jwk(), &jwk));
            let message = b"message";
            let signed = kept.sign(message).unwrap();
            assert_eq!(signed.as_ref().len(), 64);
        }
    }

    #[test]
    fn a_key_that_a_passphrase_encrypts_is_kept_without_it() {
        let path = format!("{}/tests/vectors/keys/ed25519-pbkdf2.pem", env!("CARGO_MANIFEST_DIR"));
        let pem = std::fs::read(path).unwrap();
        assert_eq!(private_jwk(&pem, Some("k"), None).map(drop), Err(KeyError::Encrypted));
        let passphrase = b"correct horse battery staple";
        let (key, jwk) = private_jwk(&pem, Some("k"), Some(passphrase)).unwrap();
        assert_eq!(SigningKey::from_jwk(&jwk).unwrap().public_jwk(), key.public_jwk());
    }
}
