//! JSON Web Keys (RFC 7517) as this profile uses them: private ones in, public ones out and in. It checks shapes and
//! purposes; the arithmetic is ring's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey, VerificationAlgorithm};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::algorithm::Algorithm;
use super::key::KeyError;

/// What a key may be used for, in its `adcp_use`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    WebhookSigning,
    RequestSigning,
}

impl Purpose {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "webhook-signing" => Some(Purpose::WebhookSigning),
            "request-signing" => Some(Purpose::RequestSigning),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Purpose::WebhookSigning => "webhook-signing",
            Purpose::RequestSigning => "request-signing",
        }
    }
}

/// The members of a private JWK that matter here; others are ignored. No `Debug`: it holds the key.
#[derive(Deserialize)]
pub(crate) struct PrivateJwk {
    pub(super) kty: String,
    pub(super) crv: String,
    pub(super) alg: String,
    pub(super) kid: String,
    pub(super) adcp_use: Option<String>,
    pub(super) x: Option<String>,
    pub(super) y: Option<String>,
    #[serde(deserialize_with = "wiped")]
    pub(super) d: Zeroizing<String>,
}

fn wiped<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}

impl PrivateJwk {
    pub(super) fn parse(json: &[u8]) -> Result<Self, KeyError> {
        // serde's message may quote the text, so it is dropped.
        serde_json::from_slice(json).map_err(|_| KeyError::Jwk)
    }
}

/// 32 bytes in the one spelling that RFC 7515 allows: unpadded base64url without stray bits.
pub(super) fn coordinate(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 33]);
    let written = URL_SAFE_NO_PAD.decode_slice(text, &mut *bytes).ok()?;
    let mut exact = Zeroizing::new([0; 32]);
    exact.copy_from_slice(bytes.get(..written).filter(|bytes| bytes.len() == 32)?);
    Some(exact)
}

/// The public half of a key, in ring's encoding: 32 bytes, or an uncompressed point.
pub(super) struct PublicKey<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) bytes: &'a [u8],
}

impl PublicKey<'_> {
    fn x(&self) -> String {
        URL_SAFE_NO_PAD.encode(match self.algorithm {
            Algorithm::Ed25519 => self.bytes,
            Algorithm::EcdsaP256Sha256 => &self.bytes[1..33],
        })
    }

    fn y(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.bytes[33..])
    }

    pub(super) fn document(&self, kid: &str, purpose: Purpose) -> Value {
        let (kty, crv) = kind(self.algorithm);
        let mut jwk = json!({
            "kty": kty, "crv": crv, "alg": self.algorithm.jose_name(), "use": "sig", "key_ops": ["verify"],
            "adcp_use": purpose.name(), "kid": kid, "x": self.x(),
        });
        if self.algorithm == Algorithm::EcdsaP256Sha256 {
            jwk["y"] = self.y().into();
        }
        jwk
    }

    /// RFC 7638: the SHA-256 of the required members in order, without spaces.
    pub(super) fn thumbprint(&self) -> String {
        let (kty, crv) = kind(self.algorithm);
        let members = match self.algorithm {
            Algorithm::Ed25519 => format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{}"}}"#, self.x()),
            Algorithm::EcdsaP256Sha256 => {
                format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{}","y":"{}"}}"#, self.x(), self.y())
            }
        };
        URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, members.as_bytes()))
    }
}

impl Algorithm {
    /// The algorithm of a JWK, by its key type and curve: its `alg` may be absent, and says the same where it is right.
    pub(super) fn of_jwk(jwk: &Value) -> Option<Algorithm> {
        Algorithm::from_curve(text(jwk, "kty")?, text(jwk, "crv")?)
    }
}

/// Real sets hold a few keys of some 200 bytes.
pub(crate) const KEY_SET_BYTES: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a JSON Web Key Set: a JSON object with an array `keys`")]
pub(crate) struct NotAKeySet;

/// Reads a key set, whose keys are judged when one of them is looked up.
pub(crate) fn key_set(document: &[u8]) -> Result<Value, NotAKeySet> {
    let jwks: Value = serde_json::from_slice(document).map_err(|_| NotAKeySet)?;
    if jwks.get("keys").is_some_and(Value::is_array) { Ok(jwks) } else { Err(NotAKeySet) }
}

pub(super) fn text<'a>(jwk: &'a Value, member: &str) -> Option<&'a str> {
    jwk.get(member)?.as_str()
}

/// The public half of a JWK that somebody else published.
pub(super) struct VerifyingKey {
    algorithm: Algorithm,
    /// As ring takes them: 32 bytes, or an uncompressed point.
    bytes: Vec<u8>,
}

impl VerifyingKey {
    pub(super) fn of(jwk: &Value, algorithm: Algorithm) -> Option<VerifyingKey> {
        let member = |name| text(jwk, name).and_then(coordinate);
        let bytes = match algorithm {
            Algorithm::Ed25519 => member("x")?.to_vec(),
            Algorithm::EcdsaP256Sha256 => [&[4], member("x")?.as_slice(), member("y")?.as_slice()].concat(),
        };
        Some(VerifyingKey { algorithm, bytes })
    }

    /// ECDSA as r and s of fixed width.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let scheme: &dyn VerificationAlgorithm = match self.algorithm {
            Algorithm::Ed25519 => &ED25519,
            Algorithm::EcdsaP256Sha256 => &ECDSA_P256_SHA256_FIXED,
        };
        UnparsedPublicKey::new(scheme, &self.bytes).verify(message, signature).is_ok()
    }
}

fn kind(algorithm: Algorithm) -> (&'static str, &'static str) {
    match algorithm {
        Algorithm::Ed25519 => ("OKP", "Ed25519"),
        Algorithm::EcdsaP256Sha256 => ("EC", "P-256"),
    }
}

#[cfg(test)]
mod tests;
