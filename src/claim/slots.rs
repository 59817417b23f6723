//! The slots of this process: who holds them, and when one comes free. Several outboxes share them, each by a view of its
//! own. Asks no database.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::accounts::Accounts;
use super::destinations::{Destinations, Entry, Rooms, Rules, Turn};
use super::looks::{Looks, Outlook};
use super::offers::Offers;
use super::outcome::Outcome;
use super::shares::Shares;
use crate::telemetry::metrics;

/// How long a claim waits for more free slots, or for more room where it was waited for, once there is some: a batch costs
/// Postgres little more than a single row.
const GATHER: Duration = Duration::from_millis(10);
/// How long one wait may last before the loop shows that it lives.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most sealed bytes of one claim, but for a single row, however many may be held in all: what an answer brings lies in
/// memory twice until it is read. Batches of bodies up to 80 KiB stay whole.
const CLAIM_BYTES: usize = 16 << 20;

/// Parked destinations that a sample of the backlog leaves aside.
const NAMES: usize = 2000;

/// The slots as one outbox has them.
pub(crate) struct Slots {
    house: Arc<House>,
    /// Which outbox of the house it is.
    own: usize,
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

/// What one outbox knows of its rows, and where it waits.
struct Door {
    looks: Mutex<Looks>,
    /// Where accounts have a share.
    accounts: Option<Mutex<Accounts>>,
    /// Rows that ended since the last claim although others of their destination wait, or as good as that.
    room_made: AtomicUsize,
    more_room: Notify,
    /// There is the room that it waits for.
    room: Notify,
    /// A row has left its slot, whosever it was.
    freed: Notify,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) slots: usize,
    /// Rows of one destination at once: with how many it begins, and the most that it gets.
    pub(crate) per_destination_start: usize,
    pub(crate) per_destination: usize,
    /// Failures in a row that park a destination; 0: none do.
    pub(crate) park_after: u32,
    /// Rows of one account at once, where accounts have a share.
    pub(crate) account_rows: Option<usize>,
    /// The longest that one attempt may take.
    pub(crate) attempt: Duration,
    pub(crate) claim_batch: usize,
    pub(crate) max_in_flight_bytes: usize,
    pub(crate) lease: Duration,
}

/// Free slots and bytes, taken for a claim that is about to be made.
pub(crate) struct Room {
    pub(super) permits: Vec<Permit>,
    pub(super) bytes: Promise,
    tentative: bool,
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

impl Room {
    /// How many rows may come.
    pub(crate) fn rows(&self) -> usize {
        self.permits.len()
    }

    /// Whether fewer rows are asked for than might be, since the last claim failed: that one comes says little about the
    /// next batch.
    pub(crate) fn is_tentative(&self) -> bool {
        self.tentative
    }
}

/// A row whose verdict is not in the database yet; to be dropped when it is.
pub(crate) struct Unsettled {
    slots: Arc<Slots>,
    /// Where too many wait like it.
    kept: Option<Slot>,
}

impl Unsettled {
    /// How many rows of its outbox are under way or unsettled, this one among them.
    pub(crate) fn among(&self) -> usize {
        self.slots.house.shares().unsettled(self.slots.own)
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        if self.kept.is_none() {
            let house = &self.slots.house;
            let mut shares = house.shares();
            shares.end_settling(self.slots.own);
            house.tell_if_empty(&shares);
        }
    }
}

/// One row's place among the slots; dropping it makes room.
pub(crate) struct Slot {
    destination: Arc<str>,
    account: Arc<str>,
    entry: Entry,
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
        slots.destinations().left(&self.destination, self.entry, Instant::now());
        if let Some(accounts) = &slots.door().accounts {
            lock(accounts).left(&self.account);
        }
        for (number, door) in slots.house.doors.iter().enumerate() {
            door.freed.notify_one();
            // Another outbox's account of that name is another.
            let account = if number == slots.own { &*self.account } else { "" };
            if lock(&door.looks).waits_for(&self.destination, account) {
                door.make_room(1);
            }
        }
    }
}

impl Slot {
    pub(super) fn new(destination: Arc<str>, account: Arc<str>, bytes: usize, mut permit: Permit) -> Slot {
        permit.slots.house.shares().take(permit.slots.own, 0, bytes);
        permit.bytes = bytes;
        let entry = permit.slots.destinations().entered(&destination, Instant::now());
        if let Some(accounts) = &permit.slots.door().accounts {
            lock(accounts).entered(&account);
        }
        Slot { destination, account, entry, permit }
    }

    /// Host and port; empty where they are known to the row's registration alone.
    pub(crate) fn destination(&self) -> &Arc<str> {
        &self.destination
    }

    /// Its attempt is over, and the slot is for the next, while the verdict is on its way to the database.
    pub(crate) fn over(self) -> Unsettled {
        let slots = self.permit.slots.clone();
        let kept = match slots.house.shares().begin_settling(slots.own) {
            true => None,
            false => Some(self),
        };
        Unsettled { slots, kept }
    }

    pub(super) fn bytes(&self) -> usize {
        self.permit.bytes
    }

    /// What this row's attempt has told of its destination, and how long the receiver asked to be left alone.
    pub(crate) fn report(&self, outcome: Outcome, asked: Option<Duration>) {
        let now = Instant::now();
        // Randomness is asked of the system, and nothing but a pause is to be spread.
        let jitter = if matches!(outcome, Outcome::Failed(_)) { crate::secret::random_unit() } else { 0.0 };
        let turn = self.permit.slots.destinations().report(&self.destination, self.entry, outcome, asked, now, jitter);
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

/// A panic while one of these is held leaves counters that are at worst too high; going on is better than stopping.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Door {
    fn new(limits: &Limits) -> Door {
        Door {
            looks: Mutex::new(Looks::new()),
            accounts: limits.account_rows.map(|rows| Mutex::new(Accounts::new(rows))),
            room_made: AtomicUsize::new(0),
            more_room: Notify::new(),
            room: Notify::new(),
            freed: Notify::new(),
        }
    }

    fn make_room(&self, rows: usize) {
        self.room_made.fetch_add(rows, Ordering::Relaxed);
        self.more_room.notify_one();
    }
}

impl House {
    fn shares(&self) -> MutexGuard<'_, Shares> {
        lock(&self.shares)
    }

    fn leave(&self, own: usize, slots: usize, bytes: usize) {
        let mut shares = self.shares();
        shares.leave(own, slots, bytes);
        self.tell_if_empty(&shares);
        self.serve(&shares);
    }

    fn tell_if_empty(&self, shares: &Shares) {
        if shares.all_unsettled() == 0 {
            self.emptied.notify_waiters();
        }
    }

    /// Wakes those who may go on after a change.
    fn serve(&self, shares: &Shares) {
        shares.served().for_each(|own| self.doors[own].room.notify_one());
    }
}

impl Slots {
    /// A view for each outbox, by their weights.
    pub(crate) fn of_outboxes(limits: Limits, weights: &[u32]) -> Vec<Arc<Slots>> {
        let rules = Rules {
            start: limits.per_destination_start as u32,
            most: limits.per_destination as u32,
            park_after: limits.park_after,
        };
        let house = Arc::new(House {
            limits,
            shares: Mutex::new(Shares::new(limits.slots, limits.max_in_flight_bytes, weights)),
            destinations: Mutex::new(Destinations::new(rules, weights.len())),
            offers: Mutex::new(Offers::new(weights)),
            doors: weights.iter().map(|_| Door::new(&limits)).collect(),
            emptied: Notify::new(),
        });
        let view = |own| Slots { house: house.clone(), own, failing: AtomicBool::new(false) };
        (0..weights.len()).map(|own| Arc::new(view(own))).collect()
    }

    /// The number of its outbox, and of the list that its replicas share.
    pub(super) fn own(&self) -> usize {
        self.own
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
        let accounts = self.door().accounts.as_ref().map(|accounts| lock(accounts).rooms());
        Rooms { accounts, ..offers.offer(self.own, there, now) }
    }

    fn door(&self) -> &Door {
        &self.house.doors[self.own]
    }

    /// Destinations that were left with rows due, over all outboxes.
    pub(super) fn behind(&self) -> usize {
        self.house.doors.iter().map(|door| lock(&door.looks).behind()).sum()
    }

    /// Names of those that are parked, or of some where there are very many.
    pub(crate) fn parked_destinations(&self) -> Vec<String> {
        self.destinations().parked_names(Instant::now(), NAMES)
    }

    /// Accounts that hold all that they may, over all outboxes.
    pub(super) fn full_accounts(&self) -> usize {
        self.house.doors.iter().filter_map(|door| Some(lock(door.accounts.as_ref()?).full())).sum()
    }

    pub(super) fn looks(&self) -> MutexGuard<'_, Looks> {
        lock(&self.door().looks)
    }

    pub(super) fn make_room(&self, rows: usize) {
        self.door().make_room(rows);
    }

    /// To be called before each claim, which uses it.
    pub(super) fn use_room(&self) {
        self.door().room_made.store(0, Ordering::Relaxed);
    }

    /// Room that is worth a claim at once.
    pub(super) fn worthwhile(&self) -> usize {
        self.limits().claim_batch.min(self.limits().per_destination).div_ceil(4)
    }

    async fn room_for(&self, rows: usize) {
        while self.door().room_made.load(Ordering::Relaxed) < rows {
            self.door().more_room.notified().await;
        }
    }

    /// To be called after each claim, when its rows have their slots.
    pub(super) fn over(&self, end: ClaimEnd) {
        lock(&self.house.offers).over(self.own);
        self.failing.store(end == ClaimEnd::Failed, Ordering::Relaxed);
        let mut shares = self.house.shares();
        shares.note_filled(self.own, end == ClaimEnd::Filled);
        self.house.serve(&shares);
    }

    /// Whether the last look left nothing behind that is due.
    pub(crate) fn took_all(&self) -> bool {
        self.looks().outlook() == Outlook::Nothing
    }

    /// Rows of this outbox.
    pub(crate) fn in_flight(&self) -> usize {
        self.house.shares().held(self.own)
    }

    /// Rows of all outboxes whose verdict is not in the database yet.
    pub(crate) fn all_unsettled(&self) -> usize {
        self.house.shares().all_unsettled()
    }

    /// Resolves when every slot is free and every verdict written.
    pub(crate) async fn drained(&self) {
        loop {
            let emptied = self.house.emptied.notified();
            if self.all_unsettled() == 0 {
                return;
            }
            emptied.await;
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.house.limits.slots
    }

    /// Whether the last look found what there is, so that the next can wait for something to happen.
    pub(crate) fn looked_through(&self) -> bool {
        self.looks().outlook() != Outlook::More
    }

    /// Resolves when enough room was made for destinations that were left with rows due, or a moment later.
    pub(crate) async fn room_gathered(&self) {
        let _ = tokio::time::timeout(GATHER, self.room_for(self.worthwhile())).await;
    }

    /// Resolves when a destination that was left with rows due has room again, and enough of it or a moment later: without
    /// this a backlog for one destination would move only as often as an idle daemon polls, and without the moment each of
    /// its rows would have a claim to itself.
    pub(crate) async fn room_made(&self) {
        self.room_for(1).await;
        self.room_gathered().await;
    }

    /// Room for up to one batch: waits for the first free slot, then briefly for more. `None` if none came free in time.
    pub(crate) async fn room(self: &Arc<Self>) -> Option<Room> {
        let limits = self.limits();
        // A database that failed is asked for one row, so that while it hangs no more is kept from the others.
        let most = limits.claim_batch.min(limits.slots);
        let tentative = self.failing.load(Ordering::Relaxed) && most > 1;
        let batch = if tentative { 1 } else { most };
        let wanted = batch.min(self.house.shares().part_of(self.own, limits.slots).div_ceil(4));
        timeout(PATIENCE, self.wait_for(1)).await.ok()?;
        let _ = timeout(GATHER, self.wait_for(wanted)).await;
        let (slots, bytes) = {
            let mut shares = self.house.shares();
            let (slots, bytes) = (shares.slots_for(self.own).min(batch), shares.bytes_for(self.own).min(CLAIM_BYTES));
            if slots == 0 || bytes == 0 {
                return None;
            }
            shares.take(self.own, slots, bytes);
            (slots, bytes)
        };
        let permits = (0..slots).map(|_| Permit { slots: self.clone(), bytes: 0 }).collect();
        Some(Room { permits, bytes: Promise { slots: self.clone(), bytes }, tentative })
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const LIMITS: Limits = Limits {
        slots: 2,
        per_destination_start: 1,
        per_destination: 1,
        park_after: 5,
        account_rows: None,
        attempt: Duration::from_secs(10),
        claim_batch: 1,
        max_in_flight_bytes: 1,
        lease: Duration::from_secs(60),
    };

    #[tokio::test]
    async fn a_slot_that_is_given_back_leaves_its_destination_all_its_room() {
        let slots = Slots::of_outboxes(LIMITS, &[1]).remove(0);
        let Room { mut permits, bytes, .. } = slots.room().await.unwrap();
        let slot = Slot::new("a".into(), "".into(), 1, permits.pop().unwrap());
        drop(bytes);
        assert_eq!(slots.destinations().rooms(Instant::now()).rooms, [("a".into(), 0)].into());
        assert_eq!((slots.in_flight(), slots.house.shares().bytes_for(0)), (1, 0));
        drop(slot);
        assert!(slots.destinations().rooms(Instant::now()).rooms.is_empty(), "it has the default room again");
        assert_eq!((slots.in_flight(), slots.house.shares().bytes_for(0)), (0, 1));
    }

    #[tokio::test]
    async fn a_row_leaves_its_slot_when_its_attempt_is_over_unless_too_many_are_unsettled() {
        let limits = Limits { per_destination_start: 2, per_destination: 2, ..LIMITS };
        let slots = Slots::of_outboxes(limits, &[1]).remove(0);
        let mut unsettled = Vec::new();
        for under_way in [0, 0, 1] {
            let Room { mut permits, .. } = slots.room().await.unwrap();
            unsettled.push(Slot::new("a".into(), "".into(), 1, permits.pop().unwrap()).over());
            assert_eq!(slots.in_flight(), under_way);
            assert_eq!(slots.destinations().in_flight("a"), under_way as u32, "nor is it its destination's any more");
            assert_eq!(slots.house.shares().bytes_for(0), 1 - under_way);
        }
        assert_eq!((unsettled[0].among(), slots.all_unsettled()), (3, 3));
        let drained = slots.drained();
        tokio::pin!(drained);
        unsettled.drain(1..);
        assert!(drained.as_mut().now_or_never().is_none(), "one verdict is not written");
        assert_eq!((slots.in_flight(), slots.all_unsettled()), (0, 1));
        unsettled.clear();
        drained.await;
    }

    #[tokio::test]
    async fn room_that_was_not_used_is_given_back_and_whoever_waits_for_it_is_woken() {
        let limits = Limits { slots: 4, claim_batch: 4, max_in_flight_bytes: 100, ..LIMITS };
        let both = Slots::of_outboxes(limits, &[1, 1]);
        let (first, second) = (both[0].room().await.unwrap(), both[1].room().await.unwrap());
        assert_eq!((first.permits.len(), second.permits.len(), both[0].all_unsettled()), (3, 1, 4));
        let waiting = tokio::spawn({
            let slots = both[1].clone();
            async move { slots.room().await.map(|room| room.permits.len()) }
        });
        let drained = both[1].drained();
        drop(first);
        assert!(waiting.await.unwrap() >= Some(1));
        drop(second);
        drained.await;
    }

    #[tokio::test]
    async fn after_a_claim_that_failed_one_slot_is_asked_for() {
        let limits = Limits { slots: 8, claim_batch: 8, max_in_flight_bytes: 100, ..LIMITS };
        let slots = Slots::of_outboxes(limits, &[1]).remove(0);
        for (end, asked_for) in [(ClaimEnd::Failed, 1), (ClaimEnd::Unfilled, 8)] {
            slots.over(end);
            let room = slots.room().await.unwrap();
            assert_eq!((room.rows(), room.is_tentative()), (asked_for, asked_for == 1));
        }
        let slots = Slots::of_outboxes(LIMITS, &[1]).remove(0);
        slots.over(ClaimEnd::Failed);
        assert!(!slots.room().await.unwrap().is_tentative(), "one row is all that is ever asked for");
    }
}
