//! The private key that signs webhooks: read from PEM or JWK, or made anew, and checked against itself. It does not know
//! where key files are.

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::Value;
use zeroize::Zeroizing;

use super::algorithm::Algorithm;
use super::der::{self, RawKey};
use super::encrypted;
use super::jwk::{PrivateJwk, PublicKey, Purpose, coordinate};
use super::pem::{self, Block};

/// A signing key and the name that receivers find its public half under. The bytes it was read from are wiped; ring
/// keeps its own copy for as long as the key lives and does not wipe it.
pub(crate) struct SigningKey {
    kid: String,
    purpose: Purpose,
    pair: Pair,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("it holds no PEM private key (PKCS#8 `PRIVATE KEY` or SEC1 `EC PRIVATE KEY`)")]
    Pem,
    #[error("the private key is encrypted, and no file with its passphrase is named (passphrase_file)")]
    Encrypted,
    #[error("the passphrase does not open the private key")]
    Passphrase,
    #[error("a passphrase is given for a private key that is not encrypted")]
    NotEncrypted,
    #[error(
        "the private key is encrypted the old way of PEM (Proc-Type); `openssl pkcs8 -topk8 -in FILE` writes it as PKCS#8"
    )]
    LegacyEncryption,
    #[error(
        "the private key is encrypted by a scheme that is not taken; taken are PBES2 with PBKDF2 (HMAC-SHA-2) or scrypt, \
         and AES: `openssl pkcs8 -topk8 -v2 aes-256-cbc -in FILE` writes it"
    )]
    EncryptionUnsupported,
    #[error(
        "opening the private key would take more work than any honest file asks for (PBKDF2 iterations or scrypt cost)"
    )]
    EncryptionCost,
    #[error("the private key is not well-formed DER")]
    Der,
    #[error("the private key is neither Ed25519 nor EC P-256")]
    Unsupported,
    #[error("the EC private key comes without its public point; `openssl ec -in FILE` writes it with one")]
    PublicMissing,
    #[error("it is not a private JWK with the string members kty, crv, alg, kid and d")]
    Jwk,
    #[error("JWK member `{0}` is not 32 bytes in unpadded base64url")]
    Coordinate(&'static str),
    #[error("JWK member `adcp_use` is neither webhook-signing nor request-signing")]
    Purpose,
    #[error("the key is of another algorithm than its description says")]
    AlgorithmMismatch,
    #[error("the public and the private half of the key do not belong together")]
    Inconsistent,
    #[error("the key id is empty or has a character outside printable ASCII")]
    Kid,
    #[error("a PEM key needs the key id under which its public half is published")]
    KidMissing,
    #[error("the JWK's own kid is another; leave the key id empty")]
    KidDiffers,
    #[error("the system's random generator failed")]
    Random,
}

impl SigningKey {
    /// What a key file holds: a private JWK, which names itself, or a PEM, which `kid` names and `passphrase` opens if it
    /// is encrypted.
    pub(crate) fn read(content: &[u8], kid: Option<&str>, passphrase: Option<&[u8]>) -> Result<Self, KeyError> {
        if !content.trim_ascii_start().starts_with(b"{") {
            return SigningKey::from_block(&pem::read(content)?, kid.ok_or(KeyError::KidMissing)?, passphrase);
        }
        if passphrase.is_some() {
            return Err(KeyError::NotEncrypted);
        }
        let key = SigningKey::from_jwk(content)?;
        if kid.is_some_and(|kid| kid != key.kid) { Err(KeyError::KidDiffers) } else { Ok(key) }
    }

    /// `expected`, where given, must be the algorithm of the key that is found.
    pub(crate) fn from_pem(pem: &[u8], kid: &str, expected: Option<Algorithm>) -> Result<Self, KeyError> {
        let key = SigningKey::from_block(&pem::read(pem)?, kid, None)?;
        match expected {
            Some(expected) if expected != key.algorithm() => Err(KeyError::AlgorithmMismatch),
            _ => Ok(key),
        }
    }

    fn from_block(block: &Block, kid: &str, passphrase: Option<&[u8]>) -> Result<Self, KeyError> {
        let pair = with_raw(block, passphrase, |raw| match raw {
            RawKey::Ed25519 { seed } => ed25519(seed, None),
            RawKey::P256 { scalar, point } => p256(scalar, point),
        })?;
        SigningKey::new(kid.to_owned(), Purpose::WebhookSigning, pair)
    }

    pub(crate) fn from_jwk(json: &[u8]) -> Result<Self, KeyError> {
        SigningKey::from_private_jwk(PrivateJwk::parse(json)?)
    }

    /// Every member that says what the key is must say the same: the reference lets some disagree until it signs.
    pub(crate) fn from_private_jwk(jwk: PrivateJwk) -> Result<Self, KeyError> {
        let purpose = jwk.adcp_use.as_deref().and_then(Purpose::parse).ok_or(KeyError::Purpose)?;
        let algorithm = Algorithm::from_curve(&jwk.kty, &jwk.crv).ok_or(KeyError::Unsupported)?;
        if Algorithm::from_jwk_name(&jwk.alg) != Some(algorithm) {
            return Err(KeyError::AlgorithmMismatch);
        }
        let d = coordinate(&jwk.d).ok_or(KeyError::Coordinate("d"))?;
        let required =
            |member: &Option<String>, name| member.as_deref().and_then(coordinate).ok_or(KeyError::Coordinate(name));
        let pair = match algorithm {
            Algorithm::Ed25519 => {
                let x = jwk.x.is_some().then(|| required(&jwk.x, "x")).transpose()?;
                ed25519(&*d, x.as_ref().map(|x| x.as_slice()))?
            }
            Algorithm::EcdsaP256Sha256 => {
                let (x, y) = (required(&jwk.x, "x")?, required(&jwk.y, "y")?);
                p256(&*d, &[&[4], x.as_slice(), y.as_slice()].concat())?
            }
        };
        SigningKey::new(jwk.kid, purpose, pair)
    }

    /// A new key and its PKCS#8 PEM. Without a `kid` it is named by its RFC 7638 thumbprint.
    pub(crate) fn generate(
        algorithm: Algorithm,
        kid: Option<&str>,
        random: &dyn SecureRandom,
    ) -> Result<(SigningKey, Zeroizing<String>), KeyError> {
        let pem = match algorithm {
            Algorithm::Ed25519 => {
                let mut seed = Zeroizing::new([0; 32]);
                random.fill(&mut *seed).map_err(|_| KeyError::Random)?;
                pem::write_pkcs8(&der::ed25519_pkcs8(&seed))
            }
            Algorithm::EcdsaP256Sha256 => {
                // ring hands the document out in memory of its own, which it does not wipe.
                let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, random)
                    .map_err(|_| KeyError::Random)?;
                pem::write_pkcs8(document.as_ref())
            }
        };
        let mut key = SigningKey::from_pem(pem.as_bytes(), kid.unwrap_or("unnamed"), Some(algorithm))?;
        if kid.is_none() {
            key.kid = key.public().thumbprint();
        }
        Ok((key, pem))
    }

    fn new(kid: String, purpose: Purpose, pair: Pair) -> Result<Self, KeyError> {
        // RFC 8941 section 3.3.3: an sf-string holds nothing else.
        if kid.is_empty() || !kid.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
            return Err(KeyError::Kid);
        }
        Ok(SigningKey { kid, purpose, pair })
    }

    pub(crate) fn kid(&self) -> &str {
        &self.kid
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.pair {
            Pair::Ed25519(_) => Algorithm::Ed25519,
            Pair::P256(_) => Algorithm::EcdsaP256Sha256,
        }
    }

    /// The RFC 7638 thumbprint of the public half: equal for equal keys, whatever their names.
    pub(crate) fn thumbprint(&self) -> String {
        self.public().thumbprint()
    }

    /// The public half as a receiver's key set holds it.
    pub(crate) fn public_jwk(&self) -> Value {
        self.public().document(&self.kid, self.purpose)
    }

    fn public(&self) -> PublicKey<'_> {
        let bytes = match &self.pair {
            Pair::Ed25519(pair) => pair.public_key().as_ref(),
            Pair::P256(pair) => pair.public_key().as_ref(),
        };
        PublicKey { algorithm: self.algorithm(), bytes }
    }

    /// 64 bytes for either algorithm; ECDSA as r and s of fixed width. Only ECDSA draws randomness: ring demands its
    /// own generator for the per-signature scalar, so it cannot be an argument.
    pub(super) fn sign(&self, message: &[u8]) -> Result<ring::signature::Signature, KeyError> {
        match &self.pair {
            Pair::Ed25519(pair) => Ok(pair.sign(message)),
            Pair::P256(pair) => pair.sign(&SystemRandom::new(), message).map_err(|_| KeyError::Random),
        }
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm())
            .finish_non_exhaustive()
    }
}

/// Hands the bare key of a PEM block over. They are wiped when that has ended.
pub(super) fn with_raw<T>(
    block: &Block,
    passphrase: Option<&[u8]>,
    take: impl FnOnce(RawKey<'_>) -> Result<T, KeyError>,
) -> Result<T, KeyError> {
    match (block, passphrase) {
        (Block::Pkcs8(der), None) => take(der::pkcs8(der)?),
        (Block::Sec1(der), None) => take(der::sec1(der)?),
        (Block::Pkcs8(_) | Block::Sec1(_), Some(_)) => Err(KeyError::NotEncrypted),
        (Block::EncryptedPkcs8(_), None) => Err(KeyError::Encrypted),
        (Block::EncryptedPkcs8(der), Some(passphrase)) => {
            let opened = encrypted::open(der, passphrase)?;
            // One wrong passphrase in 256 leaves bytes that look padded; they are still no key.
            take(der::pkcs8(&opened).map_err(|error| match error {
                KeyError::Der => KeyError::Passphrase,
                other => other,
            })?)
        }
    }
}

fn ed25519(seed: &[u8], public: Option<&[u8]>) -> Result<Pair, KeyError> {
    if seed.len() != 32 {
        return Err(KeyError::Der);
    }
    let pair = match public {
        Some(public) => Ed25519KeyPair::from_seed_and_public_key(seed, public),
        None => Ed25519KeyPair::from_seed_unchecked(seed),
    };
    pair.map(Pair::Ed25519).map_err(|_| KeyError::Inconsistent)
}

fn p256(scalar: &[u8], point: &[u8]) -> Result<Pair, KeyError> {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, scalar, point, &SystemRandom::new())
        .map(Pair::P256)
        .map_err(|_| KeyError::Inconsistent)
}

#[cfg(test)]
mod tests;
