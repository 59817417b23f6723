//! What the loops know of the database together: one red condition, one line when it goes, one when it is back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::store::StoreError;
use crate::telemetry::health::{Condition, Health};

/// While an outage lasts it is mentioned again this often.
const REMINDER: Duration = Duration::from_secs(30);
/// What was not tried again for so long is not held against a database that answers: there may be no room to claim.
const UNSEEN_LASTS: Duration = Duration::from_secs(30);
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MOST: Duration = Duration::from_secs(5);

pub(crate) struct Outage {
    pub(crate) health: Arc<Health>,
    since: Mutex<Option<Span>>,
}

struct Span {
    began: Instant,
    mentioned: Instant,
    /// When a statement last failed for what a probe does not see.
    unseen: Option<Instant>,
}

impl Outage {
    pub(crate) fn new(health: Arc<Health>) -> Outage {
        Outage { health, since: Mutex::new(None) }
    }

    /// The database answers, and takes writes in general.
    pub(crate) fn answers(&self) {
        let is_unseen = |span: &Span| span.unseen.is_some_and(|at| at.elapsed() < UNSEEN_LASTS);
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = !since.as_ref().is_some_and(is_unseen);
        drop(since);
        if is_over {
            self.ok();
        }
    }

    /// What there is to do can be done.
    pub(crate) fn ok(&self) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(span) = since.take() {
            tracing::info!(outage_seconds = span.began.elapsed().as_secs(), "the database is back");
        }
        self.health.set(Condition::Database, None);
    }

    pub(crate) fn failed(&self, step: &'static str, error: &StoreError) {
        self.health.set(Condition::Database, Some(error.to_string()));
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let unseen = Some(now).filter(|_| !error.is_seen_by_probes());
        if let Some(span) = since.as_mut() {
            span.unseen = unseen.or(span.unseen);
        }
        match since.as_mut() {
            None => {
                tracing::error!(step, error = %error, "the database does not work; trying again until it does");
                *since = Some(Span { began: now, mentioned: now, unseen });
            }
            Some(span) if now - span.mentioned >= REMINDER => {
                span.mentioned = now;
                let seconds = span.began.elapsed().as_secs();
                tracing::error!(step, error = %error, outage_seconds = seconds, "the database still does not work");
            }
            Some(_) => {}
        }
    }
}

/// Growing pauses of one loop between failures, 50 to 100 % of 0.2 s doubling to 5 s, so that replicas spread.
#[derive(Default)]
pub(super) struct Pause(u32);

impl Pause {
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }

    pub(super) fn next(&mut self) -> Duration {
        let full = (PAUSE_FIRST * 2u32.pow(self.0.min(10))).min(PAUSE_MOST);
        self.0 += 1;
        full.mul_f64(0.5 + crate::secret::random_unit() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Kind;
    use crate::telemetry::health::Loop;

    #[test]
    fn what_a_probe_does_not_see_is_over_only_when_it_is_done() {
        let health = Arc::new(Health::new(Duration::from_secs(60), &Loop::ALL, &[]));
        let outage = Outage::new(health.clone());
        let failed = |kind: Kind| outage.failed("claim", &StoreError { statement: "outbox/claim_due", kind });
        failed(Kind::ReadOnly);
        outage.answers();
        assert!(!health.has(Condition::Database));
        failed(Kind::Timeout { after: Duration::from_secs(1) });
        failed(Kind::ReadOnly);
        outage.answers();
        assert!(health.has(Condition::Database), "the table may still be locked");
        outage.ok();
        assert!(!health.has(Condition::Database));
    }

    #[test]
    fn pauses_grow_to_five_seconds_and_start_anew() {
        let mut pause = Pause::default();
        let first = pause.next();
        assert!(first >= Duration::from_millis(100) && first <= Duration::from_millis(200));
        let last = (0..50).map(|_| pause.next()).last().unwrap();
        assert!(last >= Duration::from_millis(2500) && last <= Duration::from_secs(5));
        pause.reset();
        assert!(pause.next() <= Duration::from_millis(200));
    }
}
