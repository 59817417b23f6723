//! The sender's key set: held from a file, or fetched from its URL over the pinned client and kept for a while. It
//! verifies nothing, and hands out nothing that is older than it may be.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::address::{Destination, pin};
use crate::deliver::Way;
use crate::signature::{KEY_SET_BYTES, key_set};

/// How long a fetched set is used (wire contract, section 3.4): a key that was withdrawn is trusted no longer.
const MAX_AGE: Duration = Duration::from_secs(1800);
/// How soon a set may be fetched again because it lacks a key id, so that unknown ids cost the sender's server nothing.
const COOLDOWN: Duration = Duration::from_secs(30);
/// The same where there is no set to go on with.
const COOLDOWN_EMPTY: Duration = Duration::from_secs(5);
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct KeySet {
    pub(super) jwks: Value,
    fetched: Instant,
}

impl KeySet {
    fn is_usable(&self) -> bool {
        self.fetched.elapsed() < MAX_AGE
    }
}

/// A key set behind a URL.
pub(super) struct FetchedKeys {
    destination: Destination,
    way: Way,
    held: ArcSwapOption<KeySet>,
    /// When a fetch was last begun. Whoever holds it fetches; the others wait and take what came.
    last: Mutex<Option<Instant>>,
}

impl FetchedKeys {
    pub(super) fn new(destination: Destination, way: Way) -> FetchedKeys {
        FetchedKeys { destination, way, held: ArcSwapOption::empty(), last: Mutex::new(None) }
    }

    /// A set that may be used now; none if none can be had.
    pub(super) async fn current(&self) -> Option<Arc<KeySet>> {
        match self.usable() {
            Some(held) => Some(held),
            None => self.fetch(None).await,
        }
    }

    /// A set that is newer than `lacking`, if there is one or one may be fetched.
    pub(super) async fn newer(&self, lacking: &Arc<KeySet>) -> Option<Arc<KeySet>> {
        self.fetch(Some(lacking)).await.filter(|held| !Arc::ptr_eq(held, lacking))
    }

    fn usable(&self) -> Option<Arc<KeySet>> {
        self.held.load_full().filter(|held| held.is_usable())
    }

    async fn fetch(&self, lacking: Option<&Arc<KeySet>>) -> Option<Arc<KeySet>> {
        let mut last = self.last.lock().await;
        // Somebody may have fetched while we waited.
        let held = self.usable();
        let wanted = |held: &Arc<KeySet>| lacking.is_none_or(|lacking| !Arc::ptr_eq(held, lacking));
        if held.as_ref().is_some_and(wanted) {
            return held;
        }
        let cooldown = if held.is_some() { COOLDOWN } else { COOLDOWN_EMPTY };
        if last.is_some_and(|last| last.elapsed() < cooldown) {
            return held;
        }
        *last = Some(Instant::now());
        match self.fetch_once().await {
            Ok(jwks) => {
                let fetched = Arc::new(KeySet { jwks, fetched: Instant::now() });
                self.held.store(Some(fetched.clone()));
                Some(fetched)
            }
            Err(problem) => {
                tracing::warn!(problem, "the key set could not be fetched");
                held
            }
        }
    }

    async fn fetch_once(&self) -> Result<Value, String> {
        let deadline = Instant::now() + FETCH_TIMEOUT;
        let pinning = pin(&self.destination, &self.way.policy, &self.way.resolver);
        let pinned = tokio::time::timeout_at(deadline, pinning).await;
        let pinned = pinned.map_err(|_| "the name was not looked up in time")?.map_err(|error| error.to_string())?;
        let document = self.way.client.fetch(&pinned, self.destination.target(), KEY_SET_BYTES, deadline).await;
        key_set(&document.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }
}
