//! Signing keys as a host has them: PKCS#8 PEM, private JWK, public JWK. Made with ring, not with the crate.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Ed25519,
    EcdsaP256Sha256,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Ed25519 => "ed25519",
            Algorithm::EcdsaP256Sha256 => "ecdsa-p256-sha256",
        }
    }
}

#[derive(Clone)]
pub struct SigningKey {
    pub kid: String,
    pub algorithm: Algorithm,
    /// 32 bytes of Ed25519, or the uncompressed point of P-256.
    pub public: Vec<u8>,
    private: Vec<u8>,
    pkcs8: Vec<u8>,
}

/// RFC 8410 section 7: the version 1 form that OpenSSL and Python write, a fixed head before the seed.
const ED25519_PKCS8_V1_HEAD: &str = "302e020100300506032b657004220420";
/// Where ring's P-256 template has the scalar.
const P256_SCALAR: std::ops::Range<usize> = 36..68;

impl SigningKey {
    pub fn ed25519(kid: &str) -> SigningKey {
        let seed = random::<32>();
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("any 32 bytes are a seed");
        let mut pkcs8 = unhex(ED25519_PKCS8_V1_HEAD);
        pkcs8.extend_from_slice(&seed);
        SigningKey {
            kid: kid.into(),
            algorithm: Algorithm::Ed25519,
            public: pair.public_key().as_ref().to_vec(),
            private: seed.to_vec(),
            pkcs8,
        }
    }

    pub fn p256(kid: &str) -> SigningKey {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("ring has P-256");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .expect("ring reads what it wrote");
        SigningKey {
            kid: kid.into(),
            algorithm: Algorithm::EcdsaP256Sha256,
            public: pair.public_key().as_ref().to_vec(),
            private: document.as_ref()[P256_SCALAR].to_vec(),
            pkcs8: document.as_ref().to_vec(),
        }
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self.algorithm {
            Algorithm::Ed25519 => {
                let pair = Ed25519KeyPair::from_seed_unchecked(&self.private).expect("it was one before");
                pair.sign(message).as_ref().to_vec()
            }
            Algorithm::EcdsaP256Sha256 => {
                let random = SystemRandom::new();
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.pkcs8, &random);
                let pair = pair.expect("it was one before");
                pair.sign(&random, message).expect("the system has randomness").as_ref().to_vec()
            }
        }
    }

    pub fn pem(&self) -> String {
        let text = STANDARD.encode(&self.pkcs8);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("base64 is ASCII")).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }

    pub fn public_jwk(&self) -> Value {
        let mut jwk = json!({"kid": self.kid, "use": "sig", "key_ops": ["verify"], "adcp_use": "webhook-signing"});
        match self.algorithm {
            Algorithm::Ed25519 => {
                jwk["kty"] = "OKP".into();
                jwk["crv"] = "Ed25519".into();
                jwk["alg"] = "EdDSA".into();
                jwk["x"] = URL_SAFE_NO_PAD.encode(&self.public).into();
            }
            Algorithm::EcdsaP256Sha256 => {
                jwk["kty"] = "EC".into();
                jwk["crv"] = "P-256".into();
                jwk["alg"] = "ES256".into();
                jwk["x"] = URL_SAFE_NO_PAD.encode(&self.public[1..33]).into();
                jwk["y"] = URL_SAFE_NO_PAD.encode(&self.public[33..65]).into();
            }
        }
        jwk
    }

    pub fn private_jwk(&self) -> Value {
        let mut jwk = self.public_jwk();
        jwk["key_ops"] = json!(["sign"]);
        jwk["d"] = URL_SAFE_NO_PAD.encode(&self.private).into();
        jwk
    }
}

pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits")).collect()
}
