//! What the loops know of the database together: one red condition, one line when it goes, one when it is back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::store::StoreError;
use crate::telemetry::health::{Condition, Health};

/// While an outage lasts it is mentioned again this often.
const REMINDER: Duration = Duration::from_secs(30);
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MOST: Duration = Duration::from_secs(5);

pub(crate) struct Outage {
    pub(crate) health: Arc<Health>,
    since: Mutex<Option<Span>>,
}

struct Span {
    began: Instant,
    mentioned: Instant,
}

impl Outage {
    pub(crate) fn new(health: Arc<Health>) -> Outage {
        Outage { health, since: Mutex::new(None) }
    }

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
        match since.as_mut() {
            None => {
                tracing::error!(step, error = %error, "the database does not work; trying again until it does");
                *since = Some(Span { began: now, mentioned: now });
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
