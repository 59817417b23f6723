//! Writes verdicts back: gathers what is there, one fenced statement per kind, again until the lease ends. Judges nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::claim::{Lease, Times, Unsettled};
use crate::envelope::Announced;
use crate::history::{Record, Status};
use crate::life::{Settle, State};
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

/// A judged row on its way to the database.
pub(crate) struct Judged {
    pub(crate) lease: Lease,
    pub(crate) times: Times,
    pub(crate) verdict: Verdict,
    /// What is kept of the attempt; none where none was made, or nothing is kept.
    pub(crate) record: Option<Box<Record>>,
    /// Dropped when the verdict is there.
    pub(crate) unsettled: Unsettled,
}

pub(crate) type Sender = mpsc::UnboundedSender<Judged>;

/// The queue is bounded by the slots: past as many rows as there are of these, each keeps its own until it is settled.
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
            batches[kind(&judged.verdict) as usize].push(judged);
        }
        // In the order of `Settle`.
        let [delivered, retried, quarantined, given_back] = batches;
        tokio::join!(
            settle(&store, Settle::Delivered, delivered, &health),
            settle(&store, Settle::Retried, retried, &health),
            settle(&store, Settle::Quarantined, quarantined, &health),
            settle(&store, Settle::GivenBack, given_back, &health),
        );
    }
}

/// Adds what comes meanwhile, in steps and not at each arrival: under load those would be thousands a second.
async fn gather(gathered: &mut Vec<Judged>, queue: &mut mpsc::UnboundedReceiver<Judged>) {
    let Some(first) = gathered.first() else { return };
    let wanted = (first.unsettled.among() / GATHER_SHARE).min(BATCH);
    let until = Instant::now() + GATHER;
    while gathered.len() + queue.len() < wanted && Instant::now() < until {
        tokio::time::sleep(GATHER_STEP).await;
    }
    if !queue.is_empty() {
        queue.recv_many(gathered, BATCH - gathered.len().min(BATCH)).await;
    }
}

/// What a verdict does to its row; each kind has a statement of its own.
fn kind(verdict: &Verdict) -> Settle {
    match verdict {
        Verdict::Delivered { .. } => Settle::Delivered,
        Verdict::Retry { .. } => Settle::Retried,
        Verdict::Quarantine { .. } => Settle::Quarantined,
        Verdict::GiveBack { .. } => Settle::GivenBack,
    }
}

/// `None` for a state that is none of ours.
fn known(state: RowState) -> Option<State> {
    match state {
        RowState::Pending => Some(State::Pending),
        RowState::InFlight => Some(State::InFlight),
        RowState::Delivered => Some(State::Delivered),
        RowState::Expired => Some(State::Expired),
        RowState::Invalid => Some(State::Invalid),
        RowState::Unknown => None,
    }
}

async fn settle(store: &Store, how: Settle, mut batch: Vec<Judged>, health: &Health) {
    // Rows are written in one order everywhere, so that two batches that share a row cannot wait for each other.
    batch.sort_unstable_by_key(|judged| judged.lease.held.id);
    let mut pause = PAUSE_FIRST;
    let mut outcome_unknown = false;
    while !batch.is_empty() {
        health.beat(Loop::Settle);
        let error = match write(store, how, &batch, &health.meter).await {
            Ok(settled) => {
                killpoint!("k10");
                return report(store, how, &batch, &settled, outcome_unknown, &health.meter).await;
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
        batch.retain(|judged| judged.lease.hold.lasts(now));
        health.meter.settle_abandoned(before - batch.len());
    }
}

/// With records of the attempts where there are any. For want of a record no verdict may be lost: where they cannot be
/// written, the rows are settled without.
async fn write(store: &Store, how: Settle, batch: &[Judged], meter: &Meter) -> Result<Vec<Settled>, StoreError> {
    let records = batch.iter().filter(|judged| judged.record.is_some()).count();
    if records == 0 {
        return write_with(store, how, batch, None).await;
    }
    if store.takes_attempts() {
        let attempts: Vec<NewAttempt<'_>> = batch.iter().map(new_attempt).collect();
        let error = match write_with(store, how, batch, Some(&attempts)).await {
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
    let answer = write_with(store, how, batch, None).await;
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
    how: Settle,
    batch: &[Judged],
    attempts: Option<&[NewAttempt<'_>]>,
) -> Result<Vec<Settled>, StoreError> {
    match how {
        Settle::Delivered => {
            let row = |one: &Judged| Delivered {
                lease: one.lease.held.clone(),
                http_status: one.verdict.status().unwrap_or_default(),
            };
            store.settle_delivered(&batch.iter().map(row).collect::<Vec<_>>(), attempts).await
        }
        Settle::Retried => {
            let row = |one: &Judged| Retried {
                lease: one.lease.held.clone(),
                delay: one.verdict.delay(),
                http_status: one.verdict.status(),
                error: one.verdict.last_error().unwrap_or_default(),
            };
            store.settle_retried(&batch.iter().map(row).collect::<Vec<_>>(), attempts).await
        }
        Settle::Quarantined => {
            let row = |one: &Judged| Quarantined {
                lease: one.lease.held.clone(),
                http_status: one.verdict.status(),
                error: one.verdict.last_error().unwrap_or_default(),
            };
            store.settle_quarantined(&batch.iter().map(row).collect::<Vec<_>>(), attempts).await
        }
        Settle::GivenBack => {
            let row = |one: &Judged| GivenBack { lease: one.lease.held.clone(), delay: one.verdict.delay() };
            store.give_back(&batch.iter().map(row).collect::<Vec<_>>()).await
        }
    }
}

/// Counts what was settled, and finds out about what was not: its lease is lost, unless an earlier try of this very
/// settle had been committed and only its answer was lost.
async fn report(
    store: &Store,
    how: Settle,
    batch: &[Judged],
    settled: &[Settled],
    outcome_unknown: bool,
    meter: &Meter,
) {
    let now = Instant::now();
    for one in settled {
        if let Ok(index) = batch.binary_search_by_key(&one.id, |judged| judged.lease.held.id) {
            meter.settled(state_label(how, one.state), batch[index].times.visible_for(now));
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
        let by_us =
            outcome_unknown && now_is.and_then(|lost| known(lost.state)).is_some_and(|state| how.may_have_made(state));
        if by_us {
            meter.settled(state_label(how, RowState::Unknown), judged.times.visible_for(now));
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

fn state_label(how: Settle, state: RowState) -> &'static str {
    match (how, state) {
        (Settle::Retried, RowState::Expired) => "expired",
        (Settle::Delivered, _) => "delivered",
        (Settle::Retried, _) => "retried",
        (Settle::Quarantined, _) => "quarantined",
        (Settle::GivenBack, _) => "given_back",
    }
}
