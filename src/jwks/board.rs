//! What is published now, kept in step with the keys in use: after every reload, when a scope's file was read that was not
//! known before, and by the clock, which alone takes old keys down. What cannot be read stays as it was.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::publication::{Publication, Signers};
use crate::deliver::Snapshot;
use crate::signer::Roster;
use crate::telemetry::metrics;

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Of the time, no more than one part in so many is spent on looking.
const IDLE_PARTS: u32 = 20;
/// Faults that are told one by one.
const TOLD: usize = 20;

pub(super) struct Board {
    published: ArcSwap<Publication>,
    held: Mutex<Held>,
    /// Held from the moment at which the keys in use are asked for, so that later ones are not taken down by earlier ones.
    turn: tokio::sync::Mutex<()>,
    again: Notify,
}

/// What the publication was made of.
#[derive(Default)]
struct Held {
    signers: Signers,
    complaints: Vec<String>,
}

impl Board {
    pub(super) async fn new(snapshot: &ArcSwap<Snapshot>) -> Board {
        let (empty, _) = Publication::of(&Signers::new(), SystemTime::now(), None);
        let board = Board {
            published: ArcSwap::from_pointee(empty),
            held: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            again: Notify::new(),
        };
        board.renew(snapshot).await;
        board
    }

    pub(super) fn published(&self) -> Arc<Publication> {
        self.published.load_full()
    }

    /// The keys of this moment are published when this returns.
    pub(super) async fn renew(&self, snapshot: &ArcSwap<Snapshot>) {
        let _turn = self.turn.lock().await;
        let current = snapshot.load_full();
        self.take(current.provider.roster().await, SystemTime::now());
    }

    /// There is a snapshot whose scopes are to be heard of.
    pub(super) fn listen_anew(&self) {
        self.again.notify_one();
    }

    pub(super) async fn keep(self: Arc<Self>, snapshot: Arc<ArcSwap<Snapshot>>) {
        loop {
            let (current, began) = (snapshot.load_full(), Instant::now());
            self.renew(&snapshot).await;
            let rest = began.elapsed() * IDLE_PARTS;
            tokio::time::sleep(rest).await;
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.again.notified() => {}
                () = current.provider.news() => {}
            }
        }
    }

    fn take(&self, roster: Roster, now: SystemTime) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut signers: Signers = roster.signers.iter().cloned().collect();
        // A half-written file takes nobody's keys down.
        for (scope, keys) in &held.signers {
            if scope.as_deref().is_some_and(|scope| roster.is_in_doubt(scope)) {
                // The scope may have keys in another place too, which can be read.
                let kept = signers.get(scope).map_or_else(|| keys.clone(), |known| known.joined(keys));
                signers.insert(scope.clone(), kept);
            }
        }
        let (publication, conflicts) = Publication::of(&signers, now, Some(&self.published.load()));
        let faults = roster.faults.iter().map(|(name, fault)| format!("{name}: {fault}"));
        let complaints: Vec<String> = faults.chain(conflicts.iter().map(ToString::to_string)).collect();
        metrics::jwks_published(publication.keys(), complaints.len());
        if complaints != held.complaints {
            for complaint in complaints.iter().take(TOLD) {
                tracing::error!(
                    complaint,
                    "a key set is not published as it should be; what was published before stays"
                );
            }
        }
        *held = Held { signers, complaints };
        self.published.store(Arc::new(publication));
    }
}
