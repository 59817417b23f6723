//! The slots of this process: who holds them, and when one comes free. Asks no database.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::destinations::Destinations;

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
    pub(crate) per_destination: usize,
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
    bytes: usize,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.slots.destinations().left(&self.destination);
        self.slots.freed.notify_one();
    }
}

impl Slot {
    pub(super) fn new(slots: Arc<Slots>, destination: Arc<str>, bytes: usize, permit: OwnedSemaphorePermit) -> Slot {
        slots.bytes.fetch_add(bytes, Ordering::Relaxed);
        slots.destinations().entered(&destination);
        Slot { slots, destination, bytes, _permit: permit }
    }

    /// Host and port; empty where they are known to the row's registration alone.
    pub(crate) fn destination(&self) -> &Arc<str> {
        &self.destination
    }

    /// Leaves this row's destination out of every claim for a while, as its Retry-After asked.
    pub(crate) fn park(&self, until: Instant) {
        // Where a composed row goes may be known only to its registration; all such rows would be parked for one's sake.
        if self.destination.is_empty() {
            return;
        }
        self.slots.destinations().park(&self.destination, until);
    }
}

impl Slots {
    pub(crate) fn new(limits: Limits) -> Arc<Slots> {
        Arc::new(Slots {
            limits,
            free: Arc::new(Semaphore::new(limits.slots)),
            bytes: AtomicUsize::new(0),
            destinations: Mutex::new(Destinations::new(limits.per_destination)),
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
        if !self.limited.load(Ordering::Relaxed) {
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
