//! Writes verdicts back: gathers what is there, one fenced statement per kind, again until the lease ends. Judges nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::claim::{Lease, Slot, Times};
use crate::store::{Settled, Store, StoreError};
use crate::telemetry::health::{Health, Loop};
use crate::telemetry::metrics;
use crate::verdict::{Cause, Verdict};

/// Rows per statement; past a few hundred a larger batch saves nothing more.
const BATCH: usize = 500;
const BEAT: Duration = Duration::from_secs(2);
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MOST: Duration = Duration::from_secs(2);

/// A judged row on its way to the database. Its slot is held until it is there.
pub(crate) struct Judged {
    pub(crate) lease: Lease,
    pub(crate) times: Times,
    pub(crate) verdict: Verdict,
    pub(crate) cause: Cause,
    pub(crate) slot: Slot,
}

pub(crate) type Sender = mpsc::UnboundedSender<Judged>;

/// The queue is bounded by the slots: a row enters it only with the slot it holds.
pub(crate) fn channel() -> (Sender, mpsc::UnboundedReceiver<Judged>) {
    mpsc::unbounded_channel()
}

/// Settles until every sender is gone and the queue is empty.
pub(crate) async fn run(store: Store, mut queue: mpsc::UnboundedReceiver<Judged>, health: Arc<Health>) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        health.beat(Loop::Settle);
        match tokio::time::timeout(BEAT, queue.recv_many(&mut batch, BATCH)).await {
            Err(_) => continue,
            Ok(0) => return,
            Ok(_) => settle(&store, std::mem::take(&mut batch), &health).await,
        }
    }
}

async fn settle(store: &Store, mut batch: Vec<Judged>, health: &Health) {
    // Rows are written in one order everywhere, so that two batches that share a row cannot wait for each other.
    batch.sort_unstable_by_key(|judged| judged.lease.row_id);
    let mut pause = RETRY_FIRST;
    let mut outcome_unknown = false;
    while !batch.is_empty() {
        health.beat(Loop::Settle);
        let error = match write(store, &mut batch, outcome_unknown).await {
            Ok(()) => return,
            Err(error) => error,
        };
        // The statement may have been committed although its answer was lost. Written again under the same token it
        // changes nothing, so it is repeated for as long as the lease is ours.
        outcome_unknown = true;
        tracing::warn!(error = %error, rows = batch.len(), "settling failed; trying again while the leases last");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MOST);
        let now = Instant::now();
        let before = batch.len();
        batch.retain(|judged| judged.lease.ends > now);
        metrics::settle_abandoned(before - batch.len());
    }
}

/// Writes one kind after the other and takes out of `batch` what is done, so that an error leaves the rest.
async fn write(store: &Store, batch: &mut Vec<Judged>, outcome_unknown: bool) -> Result<(), StoreError> {
    while let Some(kind) = batch.first().map(|judged| judged.verdict.kind()) {
        let these: Vec<&Judged> = batch.iter().filter(|judged| judged.verdict.kind() == kind).collect();
        let settled = store.settle(&these.iter().map(|one| one.as_settlement()).collect::<Vec<_>>()).await?;
        report(store, &these, &settled, outcome_unknown).await;
        batch.retain(|judged| judged.verdict.kind() != kind);
    }
    Ok(())
}
