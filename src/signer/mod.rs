//! Which key signs for a row: the one fixed key, or the one that the row's signing scope names at this moment. It holds no
//! policy about what happens to a row whose key cannot be had.

mod directory;
mod identity;
mod scope;

use std::sync::Arc;

use crate::certificate::ClientIdentity;
use crate::signature::{Algorithms, SigningKey};

pub(crate) use directory::{ScopeDirectory, ScopeFault};
pub(crate) use identity::client_certificates;
pub(crate) use scope::is_scope;

/// Who a row is signed by at this moment, and who that is to a receiver that asks for a certificate.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    pub(crate) key: Arc<SigningKey>,
    /// Only where the scope has one of its own.
    pub(crate) identity: Option<Arc<ClientIdentity>>,
}

pub(crate) enum Provider {
    /// One key for every row; a row that names a scope was meant for another daemon.
    Fixed {
        key: Arc<SigningKey>,
        advertised: Algorithms,
    },
    Scopes(ScopeDirectory),
}

/// Why there is no key for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("the signing scope is decommissioned")]
    Decommissioned,
    #[error("the signing scope is not known here")]
    Unknown,
    #[error("the key of the signing scope cannot be had: {0}")]
    Unavailable(ScopeFault),
    #[error("the key's algorithm is not among those that are advertised")]
    AlgorithmNotAdvertised,
    #[error("the row names no signing scope and no default scope is configured")]
    ScopeRequired,
    #[error("the row names a signing scope and one fixed key is configured")]
    ScopeUnexpected,
    #[error("the signing scope is not a text that a scope may have")]
    ScopeMalformed,
}

impl Provider {
    /// The ids of the keys that are held; by scope, what is held is known only scope by scope.
    pub(crate) fn kids(&self) -> Vec<String> {
        match self {
            Provider::Fixed { key, .. } => vec![key.kid().to_owned()],
            Provider::Scopes(_) => Vec::new(),
        }
    }

    /// Asked afresh for every attempt, so that a rotated or withdrawn key takes effect with the next one.
    pub(crate) async fn resolve(&self, scope: Option<&str>) -> Result<Signer, ResolveError> {
        let (signer, advertised) = match (self, scope) {
            (Provider::Fixed { .. }, Some(_)) => return Err(ResolveError::ScopeUnexpected),
            (Provider::Fixed { key, advertised }, None) => {
                (Signer { key: Arc::clone(key), identity: None }, *advertised)
            }
            (Provider::Scopes(directory), scope) => directory.resolve(scope).await?,
        };
        match advertised.contains(signer.key.algorithm()) {
            true => Ok(signer),
            false => Err(ResolveError::AlgorithmNotAdvertised),
        }
    }
}

#[cfg(test)]
mod tests;
