//! The slots of this process: who holds them, and when one comes free. Several outboxes share them, each by a view of its
//! own. Asks no database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::destinations::{Destinations, Rooms};
use super::offers::Offers;
use super::shares::Shares;

/// How long a claim waits for more free slots once one is free: a batch costs Postgres little more than a single row.
const GATHER: Duration = Duration::from_millis(10);
/// How long one wait may last before the loop shows that it lives.
const PATIENCE: Duration = Duration::from_secs(2);

/// The slots as one outbox has them.
pub(crate) struct Slots {
    house: Arc<House>,
    /// Which outbox of the house it is.
    own: usize,
    /// Whether the last claim left rows behind only because their destination had its share.
    limited: AtomicBool,
    /// Whether the last claim failed.
    failing: AtomicBool,
}

/// What all outboxes have together.
struct House {
    limits: Limits,
    shares: Mutex<Shares>,
    destinations: Mutex<Destinations>,
    /// What claims that are under way may bring. Locked before `destinations`.
    offers: Mutex<Offers>,
    doors: Vec<Door>,
    emptied: Notify,
}

/// Where one outbox waits.
#[derive(Default)]
struct Door {
    /// There is the room that it waits for.
    room: Notify,
    /// A row has left its slot, whosever it was.
    freed: Notify,
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
    pub(super) permits: Vec<Permit>,
    pub(super) bytes: Promise,
}

/// One slot that is taken; dropping it makes room.
pub(super) struct Permit {
    slots: Arc<Slots>,
    bytes: usize,
}

/// Bytes that a claim may bring, taken from the others until it has.
pub(super) struct Promise {
    slots: Arc<Slots>,
    pub(super) bytes: usize,
}

/// One row's place among the slots; dropping it makes room.
pub(crate) struct Slot {
    destination: Arc<str>,
    permit: Permit,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.slots.house.leave(self.slots.own, 1, self.bytes);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.slots.house.leave(self.slots.own, 0, self.bytes);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let slots = &self.permit.slots;
        slots.destinations().left(&self.destination);
        slots.house.doors.iter().for_each(|door| door.freed.notify_one());
    }
}

impl Slot {
    pub(super) fn new(destination: Arc<str>, bytes: usize, mut permit: Permit) -> Slot {
        permit.slots.house.shares().take(permit.slots.own, 0, bytes);
        permit.bytes = bytes;
        permit.slots.destinations().entered(&destination);
        Slot { destination, permit }
    }

    /// Host and port; empty where they are known to the row's registration alone.
    pub(crate) fn destination(&self) -> &Arc<str> {
        &self.destination
    }

    pub(super) fn bytes(&self) -> usize {
        self.permit.bytes
    }

    /// Leaves this row's destination out of every claim for a while, as its Retry-After asked.
    pub(crate) fn park(&self, until: Instant) {
        // Where a composed row goes may be known only to its registration; all such rows would be parked for one's sake.
        if self.destination.is_empty() {
            return;
        }
        self.permit.slots.destinations().park(&self.destination, until);
    }
}

/// A panic while one of these is held leaves counters that are at worst too high; going on is better than stopping.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl House {
    fn shares(&self) -> MutexGuard<'_, Shares> {
        lock(&self.shares)
    }

    fn leave(&self, own: usize, slots: usize, bytes: usize) {
        let mut shares = self.shares();
        shares.leave(own, slots, bytes);
        if shares.all_held() == 0 {
            self.emptied.notify_waiters();
        }
        self.serve(&shares);
    }

    /// Wakes those who may go on after a change.
    fn serve(&self, shares: &Shares) {
        shares.served().for_each(|own| self.doors[own].room.notify_one());
    }
}

impl Slots {
    /// A view for each outbox, by their weights.
    pub(crate) fn of_outboxes(limits: Limits, weights: &[u32]) -> Vec<Arc<Slots>> {
        let house = Arc::new(House {
            limits,
            shares: Mutex::new(Shares::new(limits.slots, limits.max_in_flight_bytes, weights)),
            destinations: Mutex::new(Destinations::new(limits.per_destination)),
            offers: Mutex::new(Offers::new(weights)),
            doors: weights.iter().map(|_| Door::default()).collect(),
            emptied: Notify::new(),
        });
        let view =
            |own| Slots { house: house.clone(), own, limited: AtomicBool::new(false), failing: AtomicBool::new(false) };
        (0..weights.len()).map(|own| Arc::new(view(own))).collect()
    }

    pub(super) fn destinations(&self) -> MutexGuard<'_, Destinations> {
        lock(&self.house.destinations)
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.house.limits
    }

    /// What a claim may take, destination by destination, until [`over`](Self::over) is said.
    pub(super) fn offer(&self, now: Instant) -> Rooms {
        let mut offers = lock(&self.house.offers);
        // Under the lock: what a claim that has ended took is counted before its offer is taken back.
        let there = self.destinations().rooms(now);
        offers.offer(self.own, there, now)
    }

    /// To be called after each claim, when its rows have their slots.
    pub(super) fn over(&self, end: ClaimEnd) {
        lock(&self.house.offers).over(self.own);
        self.limited.store(self.destinations().any_full(), Ordering::Relaxed);
        self.failing.store(end == ClaimEnd::Failed, Ordering::Relaxed);
        let mut shares = self.house.shares();
        shares.note_filled(self.own, end == ClaimEnd::Filled);
        self.house.serve(&shares);
    }

    /// Rows of this outbox.
    pub(crate) fn in_flight(&self) -> usize {
        self.house.shares().held(self.own)
    }

    pub(crate) fn all_in_flight(&self) -> usize {
        self.house.shares().all_held()
    }

    /// Resolves when every slot is free.
    pub(crate) async fn drained(&self) {
        loop {
            let emptied = self.house.emptied.notified();
            if self.all_in_flight() == 0 {
                return;
            }
            emptied.await;
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.house.limits.slots
    }

    /// Resolves when a destination that was at its cap has room again; never if none was. Without this a backlog for
    /// one destination would move only as often as an idle daemon polls.
    pub(crate) async fn room_made(&self) {
        if !self.limited.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.house.doors[self.own].freed.notified().await;
    }

    /// Room for up to one batch: waits for the first free slot, then briefly for more. `None` if none came free in time.
    pub(crate) async fn room(self: &Arc<Self>) -> Option<Room> {
        let limits = self.limits();
        // A database that failed is asked for one row, so that while it hangs no more is kept from the others.
        let batch = match self.failing.load(Ordering::Relaxed) {
            true => 1,
            false => limits.claim_batch.min(limits.slots),
        };
        let wanted = batch.min(self.house.shares().part_of(self.own, limits.slots).div_ceil(4));
        timeout(PATIENCE, self.wait_for(1)).await.ok()?;
        let _ = timeout(GATHER, self.wait_for(wanted)).await;
        let (slots, bytes) = {
            let mut shares = self.house.shares();
            let (slots, bytes) = (shares.slots_for(self.own).min(batch), shares.bytes_for(self.own));
            if slots == 0 || bytes == 0 {
                return None;
            }
            shares.take(self.own, slots, bytes);
            (slots, bytes)
        };
        let permits = (0..slots).map(|_| Permit { slots: self.clone(), bytes: 0 }).collect();
        Some(Room { permits, bytes: Promise { slots: self.clone(), bytes } })
    }

    async fn wait_for(&self, slots: usize) {
        let waiting = Waiting(self);
        loop {
            {
                let mut shares = self.house.shares();
                shares.wait(self.own, Some(slots));
                if shares.is_served(self.own, slots) {
                    break;
                }
            }
            self.house.doors[self.own].room.notified().await;
        }
        drop(waiting);
    }
}

/// Somebody waits, until this is dropped: room is kept for it meanwhile.
struct Waiting<'a>(&'a Slots);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let house = &self.0.house;
        let mut shares = house.shares();
        shares.wait(self.0.own, None);
        house.serve(&shares);
    }
}

/// How a claim came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimEnd {
    /// It brought all that there was room for.
    Filled,
    Unfilled,
    Failed,
}
