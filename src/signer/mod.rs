//! Which key signs for a row: the one fixed key, or the one that the row's signing scope names at this moment. It holds no
//! policy about what happens to a row whose key cannot be had.

mod directory;
mod identity;
mod keys;
mod known;
mod scope;
mod source;
mod table;

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::{join_all, select_all};

use crate::certificate::ClientIdentity;
use crate::signature::{Algorithms, SigningKey};

pub(crate) use directory::{ScopeDirectory, ScopeFault};
pub(crate) use identity::client_certificates;
#[cfg(test)]
pub(crate) use keys::PUBLISHED_AFTER;
pub(crate) use keys::{SigningKeys, Standing, TimedKey, Window, parse_moment};
pub(crate) use known::KnownKids;
pub(crate) use scope::is_scope;
pub(crate) use table::{ScopeTable, moment, open_key};

/// Who a row is signed by at this moment, and who that is to a receiver that asks for a certificate.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    pub(crate) key: Arc<SigningKey>,
    /// Only where the scope has one of its own.
    pub(crate) identity: Option<Arc<ClientIdentity>>,
}

/// What is known of a scope, wherever it is kept.
#[derive(Clone)]
struct Found {
    keys: SigningKeys,
    advertised: Algorithms,
    identity: Option<Arc<ClientIdentity>>,
}

impl Found {
    fn signer(self) -> Result<(Signer, Algorithms), ResolveError> {
        let key = self.keys.signing_at(SystemTime::now()).ok_or(ResolveError::OutsideWindows)?;
        Ok((Signer { key: key.clone(), identity: self.identity }, self.advertised))
    }
}

pub(crate) enum Provider {
    /// The same keys for every row; a row that names a scope was meant for another daemon.
    Fixed {
        keys: SigningKeys,
        advertised: Algorithms,
    },
    Scopes(ScopeDirectory),
    /// The tables beside each outbox, in the outboxes' order; at least one.
    Tables(Vec<ScopeTable>),
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
    #[error("no key of the signer may sign at this moment (not_before, not_after)")]
    OutsideWindows,
    #[error("the row names no signing scope and no default scope is configured")]
    ScopeRequired,
    #[error("the row names a signing scope and one fixed key is configured")]
    ScopeUnexpected,
    #[error("the signing scope is not a text that a scope may have")]
    ScopeMalformed,
}

/// Whom we sign for, with the keys of each, and what keeps others from being in the list.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// The fixed keys have no scope.
    pub(crate) signers: Vec<(Option<String>, SigningKeys)>,
    /// By the file or scope that is at fault.
    pub(crate) faults: Vec<(String, ResolveError)>,
    /// Client certificates that lie in no file, by their scopes, and when each expires.
    pub(crate) certificates: Vec<(String, Option<u64>)>,
}

impl Roster {
    /// Both together. A scope that is in both has the keys of both: whichever signs, receivers must know it.
    fn joined(mut self, other: Roster) -> Roster {
        for (scope, keys) in other.signers {
            match self.signers.iter_mut().find(|(known, _)| *known == scope) {
                Some((_, known)) => *known = known.joined(&keys),
                None => self.signers.push((scope, keys)),
            }
        }
        self.faults.extend(other.faults);
        self.certificates.extend(other.certificates);
        self
    }

    /// Whether what is at fault may be this scope's: then it is not known that it has no keys.
    pub(crate) fn is_in_doubt(&self, scope: &str) -> bool {
        let file = scope::file_name(scope);
        let anybody = [ScopeFault::NoDirectory, ScopeFault::Unread].map(ResolveError::Unavailable);
        self.faults.iter().any(|(name, fault)| *name == file || *name == scope || anybody.contains(fault))
    }
}

impl Provider {
    /// The ids of the keys that are held; by scope, what is held is known only scope by scope.
    pub(crate) fn kids(&self) -> Vec<String> {
        match self {
            Provider::Fixed { keys, .. } => {
                keys.newest_first().iter().map(|timed| timed.key.kid().to_owned()).collect()
            }
            Provider::Scopes(_) | Provider::Tables(_) => Vec::new(),
        }
    }

    /// For a row of the outbox with this number. Asked afresh for every attempt, so that a rotated or withdrawn key takes
    /// effect with the next one.
    pub(crate) async fn resolve(&self, outbox: usize, scope: Option<&str>) -> Result<Signer, ResolveError> {
        let (signer, advertised) = match (self, scope) {
            (Provider::Fixed { .. }, Some(_)) => return Err(ResolveError::ScopeUnexpected),
            (Provider::Fixed { keys, advertised }, None) => {
                let key = keys.signing_at(SystemTime::now()).ok_or(ResolveError::OutsideWindows)?;
                (Signer { key: Arc::clone(key), identity: None }, *advertised)
            }
            (Provider::Scopes(directory), scope) => directory.resolve(scope).await?,
            (Provider::Tables(tables), scope) => match tables.get(outbox) {
                Some(table) => table.resolve(scope).await?,
                None => return Err(ResolveError::Unavailable(ScopeFault::Unread)),
            },
        };
        match advertised.contains(signer.key.algorithm()) {
            true => Ok(signer),
            false => Err(ResolveError::AlgorithmNotAdvertised),
        }
    }

    /// The keys that sign every row, where they do not depend on it.
    pub(crate) fn fixed(&self) -> Option<&SigningKeys> {
        match self {
            Provider::Fixed { keys, .. } => Some(keys),
            Provider::Scopes(_) | Provider::Tables(_) => None,
        }
    }

    /// Takes over what an earlier one has read, where that goes on to serve.
    pub(crate) fn inherit(&self, earlier: &Provider) {
        if let (Provider::Tables(tables), Provider::Tables(earlier)) = (self, earlier) {
            tables.iter().zip(earlier).for_each(|(table, earlier)| table.inherit(earlier));
        }
    }

    /// Everybody whom we sign for now.
    pub(crate) async fn roster(&self) -> Roster {
        match self {
            Provider::Fixed { keys, .. } => Roster { signers: vec![(None, keys.clone())], ..Roster::default() },
            Provider::Scopes(directory) => directory.roster().await,
            Provider::Tables(tables) => {
                let rosters = join_all(tables.iter().map(ScopeTable::roster)).await;
                rosters.into_iter().reduce(Roster::joined).unwrap_or_default()
            }
        }
    }

    /// Resolves when the roster may have changed before anybody looked; never where it cannot.
    pub(crate) async fn news(&self) {
        match self {
            Provider::Fixed { .. } => std::future::pending().await,
            Provider::Scopes(directory) => directory.news().await,
            Provider::Tables(tables) => {
                // Each wait is over once any of them has news; the others keep theirs.
                let news = tables.iter().map(|table| Box::pin(table.news()));
                select_all(news).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
