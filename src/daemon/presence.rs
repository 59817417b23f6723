//! This process on an outbox's list of replicas: what it holds, written every few seconds, so that nobody seals what it could not
//! open. Who else is on the list is not its business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::loops::jittered;
use crate::deliver::Snapshot;
use crate::store::{NewReplica, Store};
use crate::telemetry::meter::Meter;

const EVERY: Duration = Duration::from_secs(10);
/// For the last word at the end of a drain.
const FAREWELL: Duration = Duration::from_secs(1);

/// What this process is called, on whichever list.
pub(super) struct Identity {
    replica: Arc<str>,
    host: String,
}

impl Identity {
    pub(super) fn new() -> Arc<Identity> {
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        // A container's process has the same number each time.
        let replica = format!("{host}/{}/{}", std::process::id(), crate::hex::encode(&crate::secret::random::<4>()));
        Arc::new(Identity { replica: replica.into(), host })
    }

    pub(super) fn replica(&self) -> &str {
        &self.replica
    }
}

pub(super) struct Presence {
    store: Arc<Store>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    identity: Arc<Identity>,
    meter: Meter,
    /// When to write next. Held while writing, so that nothing is written after the farewell.
    due: Mutex<Instant>,
    gone: AtomicBool,
    /// Whether the list was there the last time.
    listed: AtomicBool,
}

impl Presence {
    pub(super) fn new(
        store: Arc<Store>,
        snapshot: Arc<ArcSwap<Snapshot>>,
        identity: Arc<Identity>,
        meter: Meter,
    ) -> Presence {
        let (due, gone, listed) = (Mutex::new(Instant::now()), AtomicBool::new(false), AtomicBool::new(false));
        Presence { store, snapshot, identity, meter, due, gone, listed }
    }

    /// By which the other replicas know this one.
    pub(super) fn name(&self) -> Arc<str> {
        self.identity.replica.clone()
    }

    /// If it is time to.
    pub(super) async fn renew(&self) {
        let mut due = self.due.lock().await;
        if Instant::now() >= *due {
            *due = Instant::now() + jittered(EVERY);
            self.write().await;
        }
    }

    /// What is held has changed, or is to be known before anything is claimed.
    pub(super) async fn announce(&self) {
        let mut due = self.due.lock().await;
        *due = Instant::now() + jittered(EVERY);
        self.write().await;
    }

    async fn write(&self) {
        if self.gone.load(Ordering::SeqCst) {
            return;
        }
        let snapshot = self.snapshot.load_full();
        let replica = NewReplica {
            replica: &self.identity.replica,
            host: &self.identity.host,
            pid: std::process::id().cast_signed(),
            version: env!("CARGO_PKG_VERSION"),
            envelope_keys: snapshot.keyring.fingerprints(),
            signing_kids: snapshot.provider.kids(),
        };
        // Without the list, on an older schema, there is also nobody who reads it; an outage is told by the loops.
        let written = match self.listed.load(Ordering::Relaxed) {
            true => self.store.renew_replica(&replica).await.map(Some),
            false => self.store.record_replica(&replica).await,
        };
        self.listed.store(matches!(written, Ok(Some(_))), Ordering::Relaxed);
        match written {
            Ok(Some(alive)) => self.meter.replicas(alive),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "could not say which keys are held here"),
        }
    }

    pub(super) async fn leave(&self) {
        let farewell = async {
            let _due = self.due.lock().await;
            self.gone.store(true, Ordering::SeqCst);
            self.store.leave_replicas(&self.identity.replica).await
        };
        // Unsaid, it is known a minute later.
        if let Ok(Err(error)) = tokio::time::timeout(FAREWELL, farewell).await {
            tracing::debug!(%error, "could not leave the list of replicas");
        }
    }
}
