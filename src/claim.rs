//! Claims due rows into free slots, batch by batch, leaving out destinations that have their share. Opens nothing,
//! posts nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::envelope::Row;
use crate::store::{self, Broken, ClaimRequest, Claimed, GivenBack, LeaseToken, ReadComposed, Store, StoreError};
use crate::telemetry::metrics;

/// How long a claim waits for more free slots once one is free: a batch costs Postgres little more than a single row.
const GATHER: Duration = Duration::from_millis(10);
/// How long one wait may last before the loop shows that it lives.
const PATIENCE: Duration = Duration::from_secs(2);

/// A row that is ours until its lease ends, and the slot that it takes up until its verdict is settled.
pub(crate) struct Claim {
    pub(crate) lease: Lease,
    pub(crate) times: Times,
    /// A row that could not be decoded can only be quarantined.
    pub(crate) row: Result<Row, Broken>,
    pub(crate) slot: Slot,
}

/// The right to settle one row. It ends by this process's monotonic clock, counted from before the claim was sent, so
/// that it never outlives the database's own end of it.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) held: store::Lease,
    pub(crate) ends: Instant,
}

impl Lease {
    /// Whether an attempt of this length, and its settling, still fit. If not, the row must be given back unattempted.
    pub(crate) fn fits(&self, now: Instant, budget: Duration) -> bool {
        now + budget + SETTLE_RESERVE <= self.ends
    }
}

/// What of a lease is kept for settling. Less than `config::LEASE_MARGIN`, so that a fresh lease always fits one attempt.
const SETTLE_RESERVE: Duration = Duration::from_secs(2);

/// The row's own times, as monotonic moments of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// When the row became due.
    pub(crate) due_for: Duration,
    pub(crate) claimed: Instant,
    pub(crate) since_first_attempt: Duration,
    /// No attempt starts after this.
    pub(crate) retry_until: Instant,
}

impl Times {
    pub(crate) fn visible_for(&self, now: Instant) -> Duration {
        self.due_for + now.saturating_duration_since(self.claimed)
    }
}

/// The slots of this process, and who holds them.
pub(crate) struct Slots {
    limits: Limits,
    free: Arc<Semaphore>,
    bytes: AtomicUsize,
    destinations: Mutex<HashMap<Arc<str>, Destination>>,
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

#[derive(Default)]
struct Destination {
    in_flight: usize,
    parked_until: Option<Instant>,
}

/// Free slots and bytes, taken for a claim that is about to be made.
pub(crate) struct Room {
    permits: Vec<OwnedSemaphorePermit>,
    bytes: usize,
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
        let mut destinations = self.slots.lock();
        if let Some(destination) = destinations.get_mut(&self.destination) {
            destination.in_flight -= 1;
            if destination.in_flight == 0 && destination.parked_until.is_none() {
                destinations.remove(&self.destination);
            }
        }
        drop(destinations);
        self.slots.freed.notify_one();
    }
}

impl Slot {
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
        let mut destinations = self.slots.lock();
        let destination = destinations.entry(self.destination.clone()).or_default();
        destination.parked_until = destination.parked_until.max(Some(until));
    }
}

impl Slots {
    pub(crate) fn new(limits: Limits) -> Arc<Slots> {
        Arc::new(Slots {
            limits,
            free: Arc::new(Semaphore::new(limits.slots)),
            bytes: AtomicUsize::new(0),
            destinations: Mutex::new(HashMap::new()),
            freed: Notify::new(),
            limited: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Destination>> {
        // A panic while it is held leaves counters that are at worst too high; going on is better than stopping.
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The destinations that have less than the default room, with what they have left; parked ones have none.
    fn rooms(&self, now: Instant) -> Vec<(String, u32)> {
        let mut destinations = self.lock();
        destinations.retain(|_, destination| {
            if destination.parked_until.is_some_and(|until| until <= now) {
                destination.parked_until = None;
            }
            destination.in_flight > 0 || destination.parked_until.is_some()
        });
        metrics::destinations_parked(destinations.values().filter(|one| one.parked_until.is_some()).count());
        let room = |destination: &Destination| match destination.parked_until {
            Some(_) => 0,
            None => self.limits.per_destination.saturating_sub(destination.in_flight),
        };
        destinations.iter().map(|(name, one)| (name.to_string(), room(one) as u32)).collect()
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

    /// Claims what is due and fits into the room; empty where nothing was.
    pub(crate) async fn claim(self: &Arc<Self>, store: &Store, room: Room) -> Result<Vec<Claim>, StoreError> {
        self.claim_except(store, room, &[]).await
    }

    /// One row, and of none of these destinations.
    pub(crate) async fn claim_one(
        self: &Arc<Self>,
        store: &Store,
        mut room: Room,
        except: &[Arc<str>],
    ) -> Result<Option<Claim>, StoreError> {
        room.permits.truncate(1);
        Ok(self.claim_except(store, room, except).await?.pop())
    }

    async fn claim_except(
        self: &Arc<Self>,
        store: &Store,
        room: Room,
        except: &[Arc<str>],
    ) -> Result<Vec<Claim>, StoreError> {
        let Room { mut permits, bytes } = room;
        let asked_at = Instant::now();
        let mut rooms = self.rooms(asked_at);
        rooms.retain(|(name, _)| !except.iter().any(|one| **one == **name));
        rooms.extend(except.iter().map(|name| (name.to_string(), 0)));
        let request = ClaimRequest {
            max_rows: permits.len() as u32,
            max_bytes: bytes as u64,
            token: LeaseToken::new(crate::secret::random()),
            lease: self.limits.lease,
            rooms,
            default_room: self.limits.per_destination as u32,
        };
        let batch = store.claim_due(&request).await?;
        let batch = fill_composed(store, batch, bytes).await;
        let claims: Vec<Claim> =
            batch.into_iter().filter_map(|row| Some(self.take(row, asked_at, permits.pop()?))).collect();
        let full = |one: &Destination| one.in_flight >= self.limits.per_destination;
        self.limited.store(self.lock().values().any(full), Ordering::Relaxed);
        Ok(claims)
    }

    fn take(self: &Arc<Self>, claimed: Claimed, asked_at: Instant, permit: OwnedSemaphorePermit) -> Claim {
        let (held, row, facts) = match claimed {
            Claimed::Whole { lease, row, facts } => (lease, Ok(row), Some(facts)),
            Claimed::Broken { lease, reason } => (lease, Err(reason), None),
        };
        let destination: Arc<str> = facts.as_ref().map_or("", |facts| facts.destination.as_str()).into();
        let rendered_from = |row: &Row| row.composed.as_ref().map_or(0, |composed| composed.result.len());
        let bytes = row.as_ref().map_or(0, |row| row.encrypted_body.len() + rendered_from(row));
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.lock().entry(destination.clone()).or_default().in_flight += 1;
        // A broken row tells no times; it is quarantined whatever they are.
        let times = Times {
            due_for: facts.as_ref().map_or(Duration::ZERO, |facts| facts.due_for),
            claimed: asked_at,
            since_first_attempt: facts.as_ref().map_or(Duration::ZERO, |facts| facts.since_first_attempt),
            retry_until: asked_at + facts.as_ref().map_or(Duration::ZERO, |facts| facts.until_retry_until),
        };
        let slot = Slot { slots: self.clone(), destination, bytes, _permit: permit };
        Claim { lease: Lease { held, ends: asked_at + self.limits.lease }, times, row, slot }
    }
}

/// Reads what the composed rows of a batch are rendered from, in one question. A batch without any asks nothing, so that
/// tables which know no composed rows are served too.
async fn fill_composed(store: &Store, batch: Vec<Claimed>, room: usize) -> Vec<Claimed> {
    let tasks: Vec<String> = batch.iter().filter_map(composed_task).map(str::to_owned).collect();
    if tasks.is_empty() {
        return batch;
    }
    let mut read = match store.read_composed(&tasks, room as u64).await {
        Ok(read) => read,
        Err(error) => {
            tracing::error!(%error, rows = tasks.len(), "composed rows could not be read; they wait for their leases' end");
            return batch.into_iter().filter(|claimed| composed_task(claimed).is_none()).collect();
        }
    };
    let (mut filled, mut given_back) = (Vec::with_capacity(batch.len()), Vec::new());
    for claimed in batch {
        let (lease, mut row, facts) = match claimed {
            Claimed::Whole { lease, row, facts } if facts.composed => (lease, row, facts),
            other => {
                filled.push(other);
                continue;
            }
        };
        match read.remove(&row.task_id) {
            Some(ReadComposed::Whole(composed)) => {
                row.composed = Some(composed);
                filled.push(Claimed::Whole { lease, row, facts });
            }
            Some(ReadComposed::NoRoom) => given_back.push(GivenBack { lease, delay: Duration::ZERO }),
            None => filled.push(Claimed::Broken { lease, reason: Broken::NothingComposed }),
        }
    }
    if let Err(error) = store.give_back(&given_back).await {
        tracing::warn!(%error, rows = given_back.len(), "rows without room wait for their leases' end");
    }
    filled
}

fn composed_task(claimed: &Claimed) -> Option<&str> {
    match claimed {
        Claimed::Whole { row, facts, .. } if facts.composed => Some(&row.task_id),
        _ => None,
    }
}
