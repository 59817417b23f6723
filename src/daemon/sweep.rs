//! Expires and purges what is past its horizon, in small batches that leave the database at least half of the time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::loops::jittered;
use super::outage::{Outage, Pause};
use crate::config;
use crate::store::{Kind, Store, StoreError, Swept, Watermark};
use crate::telemetry::health::{Condition, Health, Loop};

/// A batch is as large as it may be to take about this long: a claim that comes meanwhile hardly notices, and a row that is
/// locked by it is passed over.
const BATCH_TAKES: Duration = Duration::from_millis(50);
const SMALLEST: u32 = 50;
const LARGEST: u32 = 5000;
/// After each batch the sweep rests for as long as the batch took, and at least this long.
const REST: Duration = Duration::from_millis(5);
const STEP: Duration = Duration::from_secs(1);

/// One of the two questions: when it is asked next, and from where on.
struct Pass {
    interval: Duration,
    due: Instant,
    limit: u32,
    from: Option<Watermark>,
    /// Since the pass began.
    rows: u64,
}

impl Pass {
    fn new(interval: Duration) -> Pass {
        Pass { interval, due: Instant::now(), limit: 1000, from: None, rows: 0 }
    }

    /// A batch came back. The number of rows of the whole pass, where it is over.
    fn took(&mut self, swept: Swept, took: Duration, now: Instant) -> Option<u64> {
        let full = swept.rows >= self.limit;
        self.rows += u64::from(swept.rows);
        if took > BATCH_TAKES {
            self.limit = (self.limit / 2).max(SMALLEST);
        } else if full && took < BATCH_TAKES / 3 {
            self.limit = (self.limit * 2).min(LARGEST);
        }
        self.from = swept.ended_at.filter(|_| full);
        if self.from.is_some() { None } else { Some(self.end(now)) }
    }

    /// The next pass begins an interval later, and from the beginning.
    fn end(&mut self, now: Instant) -> u64 {
        self.from = None;
        self.due = now + jittered(self.interval);
        std::mem::take(&mut self.rows)
    }
}

pub(super) async fn sweep(store: Arc<Store>, times: config::Sweep, outage: Arc<Outage>) {
    let (mut expiring, mut purging) = (Pass::new(times.expire_interval), Pass::new(times.purge_interval));
    let (mut pause, mut forbidden) = (Pause::default(), false);
    loop {
        outage.health.beat(Loop::Sweep);
        let due = expiring.due.min(purging.due);
        let now = Instant::now();
        if outage.health.has(Condition::Schema) || now < due {
            // In steps, so that a long interval does not look like a stuck loop.
            tokio::time::sleep_until(due.clamp(now + REST, now + STEP)).await;
            continue;
        }
        let swept = async {
            expire(&store, &mut expiring, &outage.health).await?;
            purge(&store, times.keep_undelivered, &mut purging, &mut forbidden, &outage.health).await
        };
        let rest = match swept.await {
            Ok(()) => {
                pause.reset();
                now.elapsed().max(REST)
            }
            Err(error) => {
                outage.failed("sweep", &error);
                pause.next()
            }
        };
        tokio::time::sleep(rest).await;
    }
}

async fn expire(store: &Store, pass: &mut Pass, health: &Health) -> Result<(), StoreError> {
    let began = Instant::now();
    if began < pass.due {
        return Ok(());
    }
    let swept = store.expire_overdue(pass.limit, pass.from).await?;
    health.meter.expired(u64::from(swept.rows));
    let over = pass.took(swept, began.elapsed(), Instant::now());
    if let Some(rows @ 1..) = over {
        tracing::warn!(rows, "rows reached their retry horizon undelivered and are expired");
    }
    Ok(())
}

/// Without the right to delete, finished rows are somebody else's to purge: that is said once, and is no outage.
async fn purge(
    store: &Store,
    keep: Duration,
    pass: &mut Pass,
    forbidden: &mut bool,
    health: &Health,
) -> Result<(), StoreError> {
    let began = Instant::now();
    if began < pass.due {
        return Ok(());
    }
    match store.purge_settled(pass.limit, pass.from, keep).await {
        Ok(swept) => {
            health.meter.purged(u64::from(swept.rows));
            let over = pass.took(swept, began.elapsed(), Instant::now());
            if let Some(rows @ 1..) = over {
                tracing::debug!(rows, "finished rows past their horizon are deleted");
            }
            Ok(())
        }
        Err(error) if error.kind == Kind::Permission => {
            if !std::mem::replace(forbidden, true) {
                tracing::warn!("the database user may not delete rows; finished rows stay until somebody else does");
            }
            pass.end(Instant::now());
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(pass: &Pass) -> Swept {
        Swept { rows: pass.limit, ended_at: Some(Watermark::at(7)) }
    }

    #[test]
    fn a_batch_that_takes_long_is_followed_by_a_smaller_one_and_a_quick_one_by_a_larger() {
        let mut pass = Pass::new(Duration::from_secs(5));
        let now = pass.due;
        for expected in [500, 250, 125, 62, 50, 50] {
            assert_eq!(pass.took(full(&pass), BATCH_TAKES * 2, now), None);
            assert_eq!(pass.limit, expected);
        }
        for expected in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            assert_eq!(pass.took(full(&pass), BATCH_TAKES / 10, now), None);
            assert_eq!(pass.limit, expected);
        }
        pass.took(full(&pass), BATCH_TAKES / 2, now);
        assert_eq!(pass.limit, 5000, "it takes as long as it may");
    }

    #[test]
    fn a_pass_goes_on_where_its_last_batch_ended_and_the_next_one_begins_anew() {
        let mut pass = Pass::new(Duration::from_secs(100));
        let now = pass.due;
        assert_eq!(pass.took(full(&pass), BATCH_TAKES, now), None);
        assert_eq!((pass.due, pass.from), (now, Some(Watermark::at(7))), "due at once");
        let rest = Swept { rows: 3, ended_at: Some(Watermark::at(9)) };
        assert_eq!(pass.took(rest, BATCH_TAKES, now), Some(1003));
        assert_eq!(pass.from, None);
        assert!(pass.due >= now + Duration::from_secs(90));
        let nothing = Swept { rows: 0, ended_at: None };
        assert_eq!(pass.took(nothing, BATCH_TAKES, now), Some(0));
    }
}
