//! The two signature algorithms of the profile and sets of them. It knows names only, no keys.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A signature algorithm, by its RFC 9421 name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Algorithm {
    #[serde(rename = "ed25519")]
    Ed25519,
    #[serde(rename = "ecdsa-p256-sha256")]
    EcdsaP256Sha256,
}

impl Algorithm {
    pub(crate) const ALL: [Algorithm; 2] = [Algorithm::Ed25519, Algorithm::EcdsaP256Sha256];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Algorithm::Ed25519 => "ed25519",
            Algorithm::EcdsaP256Sha256 => "ecdsa-p256-sha256",
        }
    }

    /// The name in a JWK's `alg` member.
    pub(super) fn jose_name(self) -> &'static str {
        match self {
            Algorithm::Ed25519 => "EdDSA",
            Algorithm::EcdsaP256Sha256 => "ES256",
        }
    }

    /// A JWK may name its algorithm in either register, as the reference's keys do.
    pub(super) fn from_jwk_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| name == algorithm.jose_name() || name == algorithm.name())
    }

    /// The algorithm that a JWK's key type and curve stand for.
    pub(super) fn from_curve(kty: &str, crv: &str) -> Option<Self> {
        match (kty, crv) {
            ("OKP", "Ed25519") => Some(Algorithm::Ed25519),
            ("EC", "P-256") => Some(Algorithm::EcdsaP256Sha256),
            _ => None,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a signature algorithm of this profile (it has ed25519 and ecdsa-p256-sha256)")]
pub(crate) struct UnknownAlgorithm;

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| name == algorithm.name()).ok_or(UnknownAlgorithm)
    }
}

/// The algorithms that the seller has told its buyers to expect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<Algorithm>")]
pub(crate) struct Algorithms {
    ed25519: bool,
    p256: bool,
}

impl Algorithms {
    #[cfg(test)]
    pub(crate) fn all() -> Self {
        Algorithm::ALL.into_iter().collect()
    }

    pub(crate) fn contains(self, algorithm: Algorithm) -> bool {
        match algorithm {
            Algorithm::Ed25519 => self.ed25519,
            Algorithm::EcdsaP256Sha256 => self.p256,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        !self.ed25519 && !self.p256
    }
}

impl FromIterator<Algorithm> for Algorithms {
    fn from_iter<I: IntoIterator<Item = Algorithm>>(algorithms: I) -> Self {
        let mut set = Algorithms::default();
        for algorithm in algorithms {
            match algorithm {
                Algorithm::Ed25519 => set.ed25519 = true,
                Algorithm::EcdsaP256Sha256 => set.p256 = true,
            }
        }
        set
    }
}

impl From<Vec<Algorithm>> for Algorithms {
    fn from(algorithms: Vec<Algorithm>) -> Self {
        algorithms.into_iter().collect()
    }
}
