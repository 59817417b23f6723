//! Writes verdicts back: gathers what is there, one fenced statement per kind, again until the lease ends. Judges nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::claim::{Lease, Slot, Times};
use crate::envelope::Announced;
use crate::history::{Record, Status};
use crate::store::{
    Delivered, GivenBack, Lost, NewAttempt, Quarantined, Retried, RowState, Settled, Store, StoreError,
};
use crate::telemetry::health::{Health, Loop};
use crate::telemetry::meter::Meter;
use crate::verdict::Verdict;

/// Rows per statement; past a few hundred a larger batch saves nothing more.
const BATCH: usize = 500;
/// While many rows are under way, a verdict waits so long for those of others, since a batch costs Postgres little more than
/// a single row; or until there are as many as one in this many of all that are under way. Where few are, nothing waits.
const GATHER: Duration = Duration::from_millis(10);
const GATHER_STEP: Duration = Duration::from_millis(1);
const GATHER_SHARE: usize = 8;
const BEAT: Duration = Duration::from_secs(2);
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// A judged row on its way to the database. Its slot is held until it is there.
pub(crate) struct Judged {
    pub(crate) lease: Lease,
    pub(crate) times: Times,
    pub(crate) verdict: Verdict,
    /// What is kept of the attempt; none where none was made, or nothing is kept.
    pub(crate) record: Option<Box<Record>>,
    /// Freed by being dropped.
    pub(crate) slot: Slot,
}

pub(crate) type Sender = mpsc::UnboundedSender<Judged>;

/// The queue is bounded by the slots: a row enters it only with the slot it holds.
pub(crate) fn channel() -> (Sender, mpsc::UnboundedReceiver<Judged>) {
    mpsc::unbounded_channel()
}

/// Settles until every sender is gone and the queue is empty.
pub(crate) async fn run(store: Arc<Store>, mut queue: mpsc::UnboundedReceiver<Judged>, health: Arc<Health>) {
    let mut gathered = Vec::with_capacity(BATCH);
    loop {
        health.beat(Loop::Settle);
        match tokio::time::timeout(BEAT, queue.recv_many(&mut gathered, BATCH)).await {
            Err(_) => continue,
            Ok(0) => return,
            Ok(_) => {}
        }
        gather(&mut gathered, &mut queue).await;
        let mut batches: [Vec<Judged>; 4] = Default::default();
        for judged in gathered.drain(..) {
            batches[Kind::of(&judged.verdict) as usize].push(judged);
        }
        let [delivered, retried, quarantined, given_back] = batches;
        tokio::join!(
            settle(&store, Kind::Delivered, delivered, &health),
            settle(&store, Kind::Retried, retried, &health),
            settle(&store, Kind::Quarantined, quarantined, &health),
            settle(&store, Kind::GivenBack, given_back, &health),
        );
    }
}

/// Adds what comes meanwhile, in steps and not at each arrival: under load those would be thousands a second.
async fn gather(gathered: &mut Vec<Judged>, queue: &mut mpsc::UnboundedReceiver<Judged>) {
    let Some(first) = gathered.first() else { return };
    let wanted = (first.slot.in_flight() / GATHER_SHARE).min(BATCH);
    let until = Instant::now() + GATHER;
    while gathered.len() + queue.len() < wanted && Instant::now() < until {
        tokio::time::sleep(GATHER_STEP).await;
    }
    if !queue.is_empty() {
        queue.recv_many(gathered, BATCH - gathered.len().min(BATCH)).await;
    }
}

/// The kinds of verdict, each with a statement of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Delivered,
    Retried,
    Quarantined,
    GivenBack,
}

impl Kind {
    fn of(verdict: &Verdict) -> Kind {
        match verdict {
            Verdict::Delivered { .. } => Kind::Delivered,
            Verdict::Retry { .. } => Kind::Retried,
            Verdict::Quarantine { .. } => Kind::Quarantined,
            Verdict::GiveBack { .. } => Kind::GivenBack,
        }
    }

    /// Whether a row in this state, and not held by us, is what this settle was to bring about.
    fn made(self, state: RowState) -> bool {
        match self {
            Kind::Delivered => state == RowState::Delivered,
            Kind::Quarantined => state == RowState::Invalid,
            Kind::Retried => matches!(state, RowState::Pending | RowState::Expired),
            Kind::GivenBack => state == RowState::Pending,
        }
    }
}

async fn settle(store: &Store, kind: Kind, mut batch: Vec<Judged>, health: &Health) {
    // Rows are written in one order everywhere, so that two batches that share a row cannot wait for each other.
    batch.sort_unstable_by_key(|judged| judged.lease.held.id);
    let mut pause = PAUSE_FIRST;
    let mut outcome_unknown = false;
    while !batch.is_empty() {
        health.beat(Loop::Settle);
        let error = match write(store, kind, &batch, &health.meter).await {
            Ok(settled) => {
                killpoint!("k10");
                return report(store, kind, &batch, &settled, outcome_unknown, &health.meter).await;
            }
            Err(error) => error,
        };
        // The statement may have been committed although its answer was lost. Written again under the same token it
        // changes nothing, so it is repeated for as long as the lease is ours.
        outcome_unknown = true;
        tracing::warn!(error = %error, rows = batch.len(), "settling failed; trying again while the leases last");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
        let now = Instant::now();
        let before = batch.len();
        batch.retain(|judged| judged.lease.ends > now);
        health.meter.settle_abandoned(before - batch.len());
    }
}

/// With records of the attempts where there are any. For want of a record no verdict may be lost: where they cannot be
/// written, the rows are settled without.
async fn write(store: &Store, kind: Kind, batch: &[Judged], meter: &Meter) -> Result<Vec<Settled>, StoreError> {
    let records = batch.iter().filter(|judged| judged.record.is_some()).count();
    if records == 0 {
        return write_with(store, kind, batch, None).await;
    }
    if store.takes_attempts() {
        let attempts: Vec<NewAttempt<'_>> = batch.iter().map(new_attempt).collect();
        let error = match write_with(store, kind, batch, Some(&attempts)).await {
            Err(error) if !error.is_transient() => error,
            answer => return answer,
        };
        store.suspend_attempts();
        tracing::warn!(error = %error, "attempts cannot be written down; rows are settled without, for a minute");
        // Whether it was done is not known then, which only the next try may look into.
        if error.is_timeout() {
            return Err(error);
        }
    }
    let answer = write_with(store, kind, batch, None).await;
    if answer.is_ok() {
        meter.unrecorded(records);
    }
    answer
}

fn new_attempt(judged: &Judged) -> NewAttempt<'_> {
    let Some(record) = &judged.record else { return NewAttempt::default() };
    let Announced { notification_type, notification_id, sequence_number } = &record.announced;
    NewAttempt {
        fired_ago: record.fired.elapsed().as_secs_f64(),
        took: record.took,
        status: record.status.map(Status::label),
        payload_bytes: record.payload_bytes,
        url: &record.url,
        notification_type: notification_type.as_deref(),
        notification_id: notification_id.as_deref(),
        sequence_number: *sequence_number,
    }
}

/// `attempts` has one for each row, or there are none.
async fn write_with(
    store: &Store,
    kind: Kind,
    batch: &[Judged],
    attempts: Option<&[NewAttempt<'_>]>,
) -> Result<Vec<Settled>, StoreError> {
    match kind {
        Kind::Delivered => {
            let row = |one: &Judged| Delivered {
                lease: one.lease.held.clone(),
                http_status: one.verdict.status().unwrap_or_default(),
            };
            store.settle_delivered(&batch.iter().map(row).collect::<Vec<_>>(), attempts).await
        }
        Kind::Retried => {
            let row = |one: &Judged| Retried {
                lease: one.lease.held.clone(),
                delay: one.verdict.delay(),
                http_status: one.verdict.status(),
                error: one.verdict.last_error().unwrap_or_default(),
            };
            store.settle_retried(&batch.iter().map(row).collect::<Vec<_>>(), attempts).await
        }
        Kind::Quarantined => {
            let row = |one: &Judged| Quarantined {
                lease: one.lease.held.clone(),
                http_status: one.verdict.status(),
                error: one.verdict.last_error().unwrap_or_default(),
            };
            store.settle_quarantined(&batch.iter().map(row).collect::<Vec<_>>(), attempts).await
        }
        Kind::GivenBack => {
            let row = |one: &Judged| GivenBack { lease: one.lease.held.clone(), delay: one.verdict.delay() };
            store.give_back(&batch.iter().map(row).collect::<Vec<_>>()).await
        }
    }
}

/// Counts what was settled, and finds out about what was not: its lease is lost, unless an earlier try of this very
/// settle had been committed and only its answer was lost.
async fn report(
    store: &Store,
    kind: Kind,
    batch: &[Judged],
    settled: &[Settled],
    outcome_unknown: bool,
    meter: &Meter,
) {
    let now = Instant::now();
    for one in settled {
        if let Ok(index) = batch.binary_search_by_key(&one.id, |judged| judged.lease.held.id) {
            meter.settled(state_label(kind, one.state), batch[index].times.visible_for(now));
        }
    }
    if settled.len() == batch.len() {
        return;
    }
    let done: HashSet<i64> = settled.iter().map(|one| one.id).collect();
    let missing: Vec<&Judged> = batch.iter().filter(|judged| !done.contains(&judged.lease.held.id)).collect();
    let leases: Vec<_> = missing.iter().map(|judged| judged.lease.held.clone()).collect();
    let found = store.read_lost(&leases).await.unwrap_or_default();
    for judged in missing {
        let now_is = found.iter().find(|lost| lost.id == judged.lease.held.id);
        let by_us = outcome_unknown && now_is.is_some_and(|lost| kind.made(lost.state));
        if by_us {
            meter.settled(state_label(kind, RowState::Unknown), judged.times.visible_for(now));
        } else {
            lost(judged, now_is, meter);
        }
    }
}

/// The row is left as its new holder made it.
fn lost(judged: &Judged, now_is: Option<&Lost>, meter: &Meter) {
    let (row, code) = (judged.lease.held.id, judged.verdict.cause().code());
    meter.lease_lost(code);
    let state = now_is.map_or("deleted or unknown", |lost| lost.state.label());
    tracing::warn!(
        row,
        code,
        state,
        "lease lost before the verdict was settled; the row stays as its new holder left it"
    );
}

fn state_label(kind: Kind, state: RowState) -> &'static str {
    match (kind, state) {
        (Kind::Retried, RowState::Expired) => "expired",
        (Kind::Delivered, _) => "delivered",
        (Kind::Retried, _) => "retried",
        (Kind::Quarantined, _) => "quarantined",
        (Kind::GivenBack, _) => "given_back",
    }
}
