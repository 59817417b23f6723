//! The slots of this process: who holds them, and when one comes free. Asks no database.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::destinations::{Destinations, Entry, Rules, Turn};
use super::outcome::Outcome;
use crate::telemetry::metrics;

/// How long a claim waits for more free slots once one is free: a batch costs Postgres little more than a single row.
const GATHER: Duration = Duration::from_millis(10);
/// How long one wait may last before the loop shows that it lives.
const PATIENCE: Duration = Duration::from_secs(2);

/// The slots of this process, and who holds them.
pub(crate) struct Slots {
    limits: Limits,
    free: Arc<Semaphore>,
    bytes: AtomicUsize,
    destinations: Mutex<Destinations>,
    freed: Notify,
    /// Whether the last claim left rows behind only because their destination had its share.
    limited: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) slots: usize,
    /// Rows of one destination at once: with how many it begins, and the most that it gets.
    pub(crate) per_destination_start: usize,
    pub(crate) per_destination: usize,
    /// Failures in a row that park a destination; 0: none do.
    pub(crate) park_after: u32,
    /// The longest that one attempt may take.
    pub(crate) attempt: Duration,
    pub(crate) claim_batch: usize,
    pub(crate) max_in_flight_bytes: usize,
    pub(crate) lease: Duration,
}

/// Free slots and bytes, taken for a claim that is about to be made.
pub(crate) struct Room {
    pub(super) permits: Vec<OwnedSemaphorePermit>,
    pub(super) bytes: usize,
}

impl Room {
    /// How many rows may come.
    pub(crate) fn rows(&self) -> usize {
        self.permits.len()
    }
}

/// One row's place among the slots; dropping it makes room.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    destination: Arc<str>,
    entry: Entry,
    bytes: usize,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.slots.destinations().left(&self.destination, self.entry, Instant::now());
        self.slots.freed.notify_one();
    }
}

impl Slot {
    pub(super) fn new(slots: Arc<Slots>, destination: Arc<str>, bytes: usize, permit: OwnedSemaphorePermit) -> Slot {
        slots.bytes.fetch_add(bytes, Ordering::Relaxed);
        let entry = slots.destinations().entered(&destination, Instant::now());
        Slot { slots, destination, entry, bytes, _permit: permit }
    }

    /// Host and port; empty where they are known to the row's registration alone.
    pub(crate) fn destination(&self) -> &Arc<str> {
        &self.destination
    }

    /// What this row's attempt has told of its destination, and how long the receiver asked to be left alone.
    pub(crate) fn report(&self, outcome: Outcome, asked: Option<Duration>) {
        let (now, jitter) = (Instant::now(), crate::secret::random_unit());
        let turn = self.slots.destinations().report(&self.destination, self.entry, outcome, asked, now, jitter);
        // Rows were sent there, so that it is host and port as an accepted URL writes them.
        let destination = &*self.destination;
        match turn {
            Turn::None => {}
            Turn::LetGo => {
                tracing::info!(destination, "the destination answers again and gets deliveries, few at first")
            }
            Turn::Parked { reason, pause, again } => {
                metrics::destination_parked(reason.code());
                let (reason, seconds) = (reason.code(), pause.as_secs_f64());
                match again {
                    false => tracing::warn!(
                        destination,
                        reason,
                        seconds,
                        "the destination is parked; its rows wait, uncounted"
                    ),
                    true => tracing::debug!(destination, reason, seconds, "the destination stays parked"),
                }
            }
        }
    }
}

impl Slots {
    pub(crate) fn new(limits: Limits) -> Arc<Slots> {
        Arc::new(Slots {
            limits,
            free: Arc::new(Semaphore::new(limits.slots)),
            bytes: AtomicUsize::new(0),
            destinations: Mutex::new(Destinations::new(Rules {
                start: limits.per_destination_start as u32,
                most: limits.per_destination as u32,
                park_after: limits.park_after,
            })),
            freed: Notify::new(),
            limited: AtomicBool::new(false),
        })
    }

    pub(super) fn destinations(&self) -> MutexGuard<'_, Destinations> {
        // A panic while it is held leaves counters that are at worst too high; going on is better than stopping.
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// To be called after each claim, when its rows have their slots.
    pub(super) fn note_limited(&self) {
        let limited = self.destinations().any_full();
        self.limited.store(limited, Ordering::Relaxed);
    }

    /// Whether the last claim may have left due rows behind, since a destination has all that it may have.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.limits.slots - self.free.available_permits()
    }

    /// Resolves when every slot is free.
    pub(crate) async fn drained(&self) {
        let all = u32::try_from(self.limits.slots).unwrap_or(u32::MAX);
        let _ = self.free.acquire_many(all).await;
    }

    pub(crate) fn limit(&self) -> usize {
        self.limits.slots
    }

    /// Resolves when a destination that was at its cap has room again; never if none was. Without this a backlog for
    /// one destination would move only as often as an idle daemon polls.
    pub(crate) async fn room_made(&self) {
        if !self.is_limited() {
            std::future::pending::<()>().await;
        }
        self.freed.notified().await;
    }

    /// Room for up to one batch: waits for the first free slot, then briefly for more. `None` if none came free in time.
    pub(crate) async fn room(&self) -> Option<Room> {
        let held = self.bytes.load(Ordering::Relaxed);
        let bytes = self.limits.max_in_flight_bytes.saturating_sub(held);
        if bytes == 0 {
            let _ = tokio::time::timeout(PATIENCE, self.freed.notified()).await;
            return None;
        }
        let first = tokio::time::timeout(PATIENCE, self.free.clone().acquire_owned()).await.ok()?.ok()?;
        let batch = self.limits.claim_batch.min(self.limits.slots);
        let wanted = batch.min(self.limits.slots.div_ceil(4));
        if self.free.available_permits() + 1 < wanted {
            let _ = tokio::time::timeout(GATHER, self.free.acquire_many(wanted as u32 - 1)).await;
        }
        let mut permits = vec![first];
        while permits.len() < batch {
            let Ok(permit) = self.free.clone().try_acquire_owned() else { break };
            permits.push(permit);
        }
        Some(Room { permits, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slot_that_is_given_back_leaves_its_destination_all_its_room() {
        let limits = Limits {
            slots: 2,
            per_destination_start: 1,
            per_destination: 1,
            park_after: 5,
            attempt: Duration::from_secs(10),
            claim_batch: 1,
            max_in_flight_bytes: 1,
            lease: Duration::from_secs(60),
        };
        let slots = Slots::new(limits);
        let Room { mut permits, .. } = slots.room().await.unwrap();
        let slot = Slot::new(slots.clone(), "a".into(), 1, permits.pop().unwrap());
        assert_eq!(slots.destinations().rooms(Instant::now()).rooms, [("a".to_owned(), 0)]);
        drop(slot);
        assert!(slots.destinations().rooms(Instant::now()).rooms.is_empty(), "it has the default room again");
        assert_eq!((slots.in_flight(), slots.bytes.load(Ordering::Relaxed)), (0, 0));
    }
}
