//! The metrics of one outbox. Where several are served, each of these series has its outbox's name as label; where there is
//! one, there is no such label.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Histogram, Label, SharedString, counter, gauge, histogram};

use super::metrics::{
    ATTEMPT_DURATION, ATTEMPTS, BACKLOG, CLAIMED_ROWS, CLAIMS, CLOCK_SKEW, CONNECTION_WAIT, DATABASE_CONNECTIONS,
    ENVELOPE_CENSUS_AGE, ENVELOPE_ROWS, EXPIRED_ROWS, HEARING, IN_FLIGHT, LEASES_LOST, OLDEST_CLAIMABLE, OLDEST_DUE,
    OLDEST_SNAPSHOT, OUTBOX_READY, PURGED_ROWS, REPLICAS, SETTLED_ROWS, SETTLES_ABANDONED, STATEMENT_DURATION,
    STATEMENT_ERRORS, UNRECORDED, VISIBLE_TO_SETTLED, WAKE_UPS,
};
use crate::store::{Backlog, Observation};

/// The code and the verdict of nearly every row.
const DELIVERED: &str = "delivered";

#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    outbox: Option<SharedString>,
    kept: Arc<Kept>,
}

/// What every delivery moves is looked up once: finding a metric by its name and labels costs more than to move it.
#[derive(Debug, Default)]
struct Kept {
    attempts: OnceLock<Counter>,
    attempt_duration: OnceLock<Histogram>,
    settled_rows: OnceLock<Counter>,
    visible_to_settled: OnceLock<Histogram>,
}

impl Meter {
    pub(crate) fn new(outbox: Option<Arc<str>>) -> Meter {
        Meter { outbox: outbox.map(SharedString::from), kept: Arc::default() }
    }

    fn labels<const N: usize>(&self, own: [(&'static str, &'static str); N]) -> Vec<Label> {
        let own = own.into_iter().map(|(name, value)| Label::from_static_parts(name, value));
        own.chain(self.outbox.iter().map(|outbox| Label::new("outbox", outbox.clone()))).collect()
    }

    pub(crate) fn attempt(&self, code: &'static str, duration: Option<Duration>) {
        let attempts = || counter!(ATTEMPTS, self.labels([("code", code)]));
        match code {
            DELIVERED => self.kept.attempts.get_or_init(attempts).increment(1),
            _ => attempts().increment(1),
        }
        if let Some(duration) = duration {
            let durations = self.kept.attempt_duration.get_or_init(|| histogram!(ATTEMPT_DURATION));
            durations.record(duration.as_secs_f64());
        }
    }

    pub(crate) fn claimed(&self, result: &'static str, rows: usize) {
        counter!(CLAIMS, self.labels([("result", result)])).increment(1);
        counter!(CLAIMED_ROWS, self.labels([])).increment(rows as u64);
    }

    pub(crate) fn settled(&self, verdict: &'static str, waited: Duration) {
        let rows = || counter!(SETTLED_ROWS, self.labels([("verdict", verdict)]));
        let times = || histogram!(VISIBLE_TO_SETTLED, self.labels([("verdict", verdict)]));
        let waited = waited.as_secs_f64();
        if verdict == DELIVERED {
            self.kept.settled_rows.get_or_init(rows).increment(1);
            self.kept.visible_to_settled.get_or_init(times).record(waited);
        } else {
            rows().increment(1);
            times().record(waited);
        }
    }

    pub(crate) fn lease_lost(&self, code: &'static str) {
        counter!(LEASES_LOST, self.labels([("code", code)])).increment(1);
    }

    pub(crate) fn settle_abandoned(&self, rows: usize) {
        counter!(SETTLES_ABANDONED, self.labels([])).increment(rows as u64);
    }

    /// Attempts whose rows were settled, and of which no record could be kept.
    pub(crate) fn unrecorded(&self, attempts: usize) {
        counter!(UNRECORDED, self.labels([])).increment(attempts as u64);
    }

    pub(crate) fn in_flight(&self, rows: usize) {
        gauge!(IN_FLIGHT, self.labels([])).set(rows as f64);
    }

    pub(crate) fn backlog(&self, backlog: &Backlog) {
        gauge!(BACKLOG, self.labels([])).set(backlog.due as f64);
        gauge!(OLDEST_DUE, self.labels([])).set(backlog.oldest.as_secs_f64());
        gauge!(OLDEST_CLAIMABLE, self.labels([])).set(backlog.oldest_claimable.as_secs_f64());
    }

    /// Those that said within a minute that they live, this one among them.
    pub(crate) fn replicas(&self, alive: u64) {
        gauge!(REPLICAS, self.labels([])).set(alive as f64);
    }

    /// A counter that appears with its first event shows no increase by it, and an alert would miss it: so all that alerts
    /// go by begin at zero.
    pub(crate) fn begin(&self, codes: impl Iterator<Item = &'static str>) {
        for code in codes {
            counter!(ATTEMPTS, self.labels([("code", code)])).increment(0);
            counter!(LEASES_LOST, self.labels([("code", code)])).increment(0);
        }
        for verdict in ["delivered", "retried", "quarantined", "expired", "given_back"] {
            counter!(SETTLED_ROWS, self.labels([("verdict", verdict)])).increment(0);
        }
        for name in [CLAIMED_ROWS, SETTLES_ABANDONED, EXPIRED_ROWS] {
            counter!(name, self.labels([])).increment(0);
        }
    }

    pub(crate) fn hearing(&self, heard: bool) {
        gauge!(HEARING, self.labels([])).set(if heard { 1.0 } else { 0.0 });
    }

    pub(crate) fn woken(&self) {
        counter!(WAKE_UPS, self.labels([])).increment(1);
    }

    /// Zero where nobody holds one.
    pub(crate) fn oldest_snapshot(&self, age: Duration) {
        gauge!(OLDEST_SNAPSHOT, self.labels([])).set(age.as_secs_f64());
    }

    pub(crate) fn expired(&self, rows: u64) {
        counter!(EXPIRED_ROWS, self.labels([])).increment(rows);
    }

    pub(crate) fn purged(&self, rows: u64) {
        counter!(PURGED_ROWS, self.labels([])).increment(rows);
    }

    pub(crate) fn statement(&self, seen: &Observation<'_>) {
        let statement = ("statement", seen.statement);
        histogram!(STATEMENT_DURATION, self.labels([statement])).record(seen.took.as_secs_f64());
        histogram!(CONNECTION_WAIT, self.labels([])).record(seen.waited.as_secs_f64());
        if let Err(kind) = seen.outcome {
            counter!(STATEMENT_ERRORS, self.labels([statement, ("kind", kind.label())])).increment(1);
        }
    }

    pub(crate) fn database_connections(&self, idle: usize, in_use: usize) {
        gauge!(DATABASE_CONNECTIONS, self.labels([("state", "idle")])).set(idle as f64);
        gauge!(DATABASE_CONNECTIONS, self.labels([("state", "in_use")])).set(in_use as f64);
    }

    pub(crate) fn clock_skew(&self, seconds: f64) {
        gauge!(CLOCK_SKEW, self.labels([])).set(seconds);
    }

    /// 1 for each outbox that is served now, where several are.
    pub(crate) fn outbox_ready(&self, ready: bool) {
        if self.outbox.is_some() {
            gauge!(OUTBOX_READY, self.labels([])).set(if ready { 1.0 } else { 0.0 });
        }
    }

    /// Places are the store's list, and keys those of the configuration, or none. No number says that it is not counted.
    pub(crate) fn envelope_rows(&self, place: &'static str, key: &str, rows: Option<u64>) {
        let mut labels = self.labels([("place", place)]);
        labels.push(Label::new("key", key.to_owned()));
        gauge!(ENVELOPE_ROWS, labels).set(rows.map_or(f64::NAN, |rows| rows as f64));
    }

    pub(crate) fn envelope_census_age(&self, age: Option<Duration>) {
        gauge!(ENVELOPE_CENSUS_AGE, self.labels([])).set(age.map_or(f64::NAN, |age| age.as_secs_f64()));
    }
}
