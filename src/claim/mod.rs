//! Claims due rows into free slots, batch by batch, leaving out destinations that have their share. Opens nothing,
//! posts nothing.

mod accounts;
mod behind;
mod breaker;
mod cap;
mod composed;
mod context;
mod destinations;
mod given;
mod list;
mod looks;
mod offers;
mod outcome;
mod parking;
mod shares;
mod slots;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::envelope::Row;
use crate::life::Hold;
use crate::store::{self, Broken, ClaimRequest, Claimed, DestinationRoom, LeaseToken, Store, StoreError};
use crate::telemetry::metrics;
use composed::fill_composed;
pub(crate) use context::TraceContext;
use context::read_contexts;
use given::Given;
use list::list_beside;
use looks::Look;
pub(crate) use outcome::{Outcome, Reason};
pub(crate) use parking::Parking;
use parking::keep_probes;
use slots::{ClaimEnd, Permit};
pub(crate) use slots::{Limits, Room, Slot, Slots, Unsettled};

/// A row that is ours until its lease ends, and the slot that it takes up until its attempt is over.
pub(crate) struct Claim {
    pub(crate) lease: Lease,
    pub(crate) times: Times,
    /// A row that could not be decoded can only be quarantined.
    pub(crate) row: Result<Row, Broken>,
    /// Where its host gave it one.
    pub(crate) context: Option<TraceContext>,
    pub(crate) slot: Slot,
}

/// The right to settle one row. It ends by this process's monotonic clock, counted from before the claim was sent, so
/// that it never outlives the database's own end of it.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) held: store::Lease,
    pub(crate) hold: Hold<Instant>,
}

impl Lease {
    /// Whether an attempt of this length may begin. If not, the row must be given back unattempted.
    pub(crate) fn admits(&self, now: Instant, budget: Duration) -> bool {
        self.hold.admits(now, now + budget + SETTLE_RESERVE)
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
}

impl Times {
    pub(crate) fn visible_for(&self, now: Instant) -> Duration {
        self.due_for + now.saturating_duration_since(self.claimed)
    }
}

impl Slots {
    /// Claims what is due and fits into the room; empty where nothing was.
    pub(crate) async fn claim(self: &Arc<Self>, store: &Arc<Store>, room: Room) -> Result<Vec<Claim>, StoreError> {
        self.claim_except(store, room, &[]).await
    }

    /// One row, and of none of these destinations.
    pub(crate) async fn claim_one(
        self: &Arc<Self>,
        store: &Arc<Store>,
        mut room: Room,
        except: &[Arc<str>],
    ) -> Result<Option<Claim>, StoreError> {
        room.permits.truncate(1);
        Ok(self.claim_except(store, room, except).await?.pop())
    }

    async fn claim_except(
        self: &Arc<Self>,
        store: &Arc<Store>,
        room: Room,
        except: &[Arc<str>],
    ) -> Result<Vec<Claim>, StoreError> {
        let Room { permits, bytes: promise, .. } = room;
        let most = permits.len();
        let claimed = self.claim_into(permits, promise.bytes, store, except).await;
        let end = match &claimed {
            Err(_) => ClaimEnd::Failed,
            Ok(claims) => {
                let bytes: usize = claims.iter().map(|claim| claim.slot.bytes()).sum();
                // A row that did not fit into the bytes is not told of; where half of them were taken there may be one.
                if claims.len() == most || bytes > promise.bytes / 2 { ClaimEnd::Filled } else { ClaimEnd::Unfilled }
            }
        };
        self.over(end);
        claimed
    }

    async fn claim_into(
        self: &Arc<Self>,
        mut permits: Vec<Permit>,
        max_bytes: usize,
        store: &Arc<Store>,
        except: &[Arc<str>],
    ) -> Result<Vec<Claim>, StoreError> {
        let asked_at = Instant::now();
        self.use_room();
        let mut rooms = self.offer(asked_at);
        metrics::destinations_parked(rooms.parked);
        rooms.rooms.extend(except.iter().map(|name| (name.clone(), 0)));
        let by_name = match rooms.accounts {
            None => store.finds_by_destination(),
            Some(_) => store.finds_by_account(),
        };
        let look = self.looks().next(&rooms, permits.len() as u32, by_name);
        list_beside(self, store);
        let given = Given::of(&rooms, by_name).with_named(&rooms, &look);
        let request = ClaimRequest {
            max_rows: permits.len() as u32,
            max_bytes: max_bytes as u64,
            token: LeaseToken::new(crate::secret::random()),
            lease: self.limits().lease,
            default_room: given.others,
            rooms: self.with_in_flight(&given),
            accounts: rooms.accounts.clone(),
        };
        let batch = match &look {
            Look::Head => {
                let found = store.claim_due(&request).await?;
                self.looks().saw_head(found.looking, asked_at.elapsed(), found.rows.len() as u32);
                found.rows
            }
            Look::Around { around, each } => {
                let (rows, seen) = store.claim_around(&request, around, *each).await?;
                let taken = (request.max_rows, rows.len() as u32);
                self.looks().saw_around(around, &seen, taken, |name| given.understates(rooms.of(name)));
                rows
            }
        };
        metrics::destinations_behind(self.behind());
        killpoint!("k1", !batch.is_empty());
        let batch = fill_composed(store, batch, max_bytes).await;
        let batch = keep_probes(self, store, batch).await;
        let mut contexts = read_contexts(store, &batch).await;
        let claims = batch.into_iter().filter_map(|row| Some(self.take(row, &mut contexts, asked_at, permits.pop()?)));
        let claims = claims.collect();
        if self.limits().account_rows.is_some() {
            metrics::accounts_full(self.full_accounts());
        }
        Ok(claims)
    }

    /// What each destination may take, and what it holds already.
    fn with_in_flight(&self, given: &Given) -> Vec<DestinationRoom> {
        let destinations = self.destinations();
        let room = |(name, room): &(Arc<str>, u32)| DestinationRoom {
            room: *room,
            in_flight: destinations.in_flight(name),
            destination: name.clone(),
        };
        given.rooms.iter().map(room).collect()
    }

    fn take(
        self: &Arc<Self>,
        claimed: Claimed,
        contexts: &mut HashMap<String, TraceContext>,
        asked_at: Instant,
        permit: Permit,
    ) -> Claim {
        let (held, row, facts) = match claimed {
            Claimed::Whole { lease, row, facts } => (lease, Ok(row), Some(facts)),
            Claimed::Broken { lease, reason } => (lease, Err(reason), None),
        };
        let destination: Arc<str> = facts.as_ref().map_or("", |facts| facts.destination.as_str()).into();
        let rendered_from = |row: &Row| row.composed.as_ref().map_or(0, |composed| composed.result.len());
        let bytes = row.as_ref().map_or(0, |row| row.encrypted_body.len() + rendered_from(row));
        // A broken row tells no times; it is quarantined whatever they are.
        let times = Times {
            due_for: facts.as_ref().map_or(Duration::ZERO, |facts| facts.due_for),
            claimed: asked_at,
            since_first_attempt: facts.as_ref().map_or(Duration::ZERO, |facts| facts.since_first_attempt),
        };
        let hold = Hold {
            until: asked_at + self.limits().lease,
            horizon: asked_at + facts.as_ref().map_or(Duration::ZERO, |facts| facts.until_retry_until),
        };
        let context = row.as_ref().ok().and_then(|row| contexts.remove(&row.task_id));
        // Where nobody asks whose rows hold slots, their accounts are not kept.
        let shares = self.limits().account_rows.is_some();
        let account = row.as_ref().ok().filter(|_| shares).map_or("", |row| accounts::cut(&row.account_id)).into();
        let slot = Slot::new(destination, account, bytes, permit);
        Claim { lease: Lease { held, hold }, times, row, context, slot }
    }
}
