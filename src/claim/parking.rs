//! Shares with the other replicas which destinations are parked, through a narrow table beside the outbox and off the
//! delivery path; and lets one replica alone probe each. Without the table each replica goes by what it sees itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::Slots;
use super::destinations::{Listed, Standing, Untold};
use super::outcome::Reason;
use crate::store::{Claimed, GivenBack, NewParked, Store, StoreError};
use crate::telemetry::metrics;

/// How often the list is read: what a replica parks or lets go is known to the others by then.
const WHILE_PARKED: Duration = Duration::from_secs(1);
const OTHERWISE: Duration = Duration::from_secs(5);
/// How often it is looked whether there is a list, where there was none.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// What turns together is told together.
const GATHER: Duration = Duration::from_millis(20);
/// Probes that fall due together are claimed together.
const PROBES_TOGETHER: Duration = Duration::from_millis(100);
/// A list longer than this is not read to its end. Destinations beyond it are parked by each replica for itself.
const LIST: u32 = 2_000;
const FORGET_EVERY: Duration = Duration::from_secs(600);
/// How long a claim waits to hear whether a row of it is the probe. The row is one that may be sent either way.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a probe's holder has beyond the longest attempt: for the claim's end, and for telling what came of it.
const PROBE_MARGIN: Duration = Duration::from_secs(5);

/// The loop that keeps the list and the destinations of this process in step.
pub(crate) struct Parking {
    slots: Arc<Slots>,
    store: Arc<Store>,
    /// By which name the others know this process.
    replica: Arc<str>,
    /// Told when a destination that was parked may be claimed of.
    wake: Arc<Notify>,
    /// Of pauses that ended by then it was told.
    rung_at: Instant,
    read_at: Instant,
    look_at: Instant,
    forget_at: Instant,
    /// Whether there is a list of what operators allow; looked for now and then.
    caps: bool,
}

impl Parking {
    pub(crate) fn new(slots: Arc<Slots>, store: Arc<Store>, replica: Arc<str>, wake: Arc<Notify>) -> Parking {
        let now = Instant::now();
        let forget_at = now + FORGET_EVERY;
        Parking { slots, store, replica, wake, rung_at: now, read_at: now, look_at: now, forget_at, caps: false }
    }

    /// What the others know already, before anything is claimed. Unread, it is read by the loop.
    pub(crate) async fn learn(&mut self) {
        if let Ok(Err(error)) = timeout(PATIENCE, self.keep_in_step()).await {
            tracing::debug!(%error, "what is parked could not be read yet");
        }
    }

    /// Until the process ends.
    pub(crate) async fn share(mut self) {
        let turned = self.slots.destinations().turned(self.slots.own());
        loop {
            let (probe, sharing) = {
                let destinations = self.slots.destinations();
                (destinations.next_probe(self.rung_at), destinations.sharing(self.slots.own()).is_some())
            };
            let next = if sharing { self.read_at } else { self.look_at };
            // One whose pause ended while the list was read is still to be told of; without any there is nothing to tell.
            let bell = probe.unwrap_or(next) + PROBES_TOGETHER;
            tokio::select! {
                () = turned.notified() => tokio::time::sleep(GATHER).await,
                () = sleep_until(next) => {}
                () = sleep_until(bell), if probe.is_some() => {
                    self.rung_at = Instant::now();
                    self.wake.notify_one();
                }
            }
            if let Err(error) = self.keep_in_step().await {
                // An outage is told by the loops that cannot do without the database.
                tracing::debug!(%error, "what is parked could not be shared just now");
                self.read_at = Instant::now() + WHILE_PARKED;
                tokio::time::sleep(WHILE_PARKED).await;
            }
            let (parked, lowest_cap, let_go) = {
                let mut destinations = self.slots.destinations();
                let parked = destinations.parked(Instant::now());
                (parked, destinations.lowest_cap(), destinations.take_let_go(self.slots.own()))
            };
            metrics::destinations_parked(parked);
            metrics::lowest_cap(lowest_cap);
            if let_go {
                self.wake.notify_one();
            }
        }
    }

    async fn keep_in_step(&mut self) -> Result<(), StoreError> {
        let list = self.slots.own();
        if self.slots.destinations().sharing(list).is_none() {
            if Instant::now() < self.look_at {
                return Ok(());
            }
            self.look_at = Instant::now() + LOOK_AGAIN;
            if !self.store.shares_parking().await? {
                return Ok(());
            }
            self.caps = self.store.shares_caps().await?;
            self.slots.destinations().share_as(list, Some(&self.replica));
        }
        let mut kept = self.tell().await;
        if kept.is_ok() && Instant::now() >= self.read_at {
            kept = self.read().await;
        }
        if kept.is_err() {
            // It may be gone: an older schema was restored, or a right taken away.
            self.slots.destinations().share_as(list, None);
            self.look_at = Instant::now() + WHILE_PARKED;
        }
        kept
    }

    /// Tells the others what has turned here.
    async fn tell(&self) -> Result<(), StoreError> {
        let untold = self.slots.destinations().untold(self.slots.own(), Instant::now());
        let (mut parked, mut let_go) = (Vec::new(), Vec::new());
        for Untold { name, now, .. } in &untold {
            match *now {
                Standing::Parked { left, reason, trips } => parked.push(NewParked {
                    destination: name,
                    seconds: left.as_secs_f64(),
                    reason: reason.map_or("unknown", Reason::code),
                    trips: trips.min(i32::MAX as u32) as i32,
                }),
                Standing::LetGo => let_go.push(&**name),
            }
        }
        self.store.park_destinations(&parked, &self.replica).await?;
        self.store.let_go_destinations(&let_go, &self.replica).await?;
        self.slots.destinations().told(self.slots.own(), &untold);
        Ok(())
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let asked = Instant::now();
        if asked >= self.forget_at {
            self.forget_at = asked + FORGET_EVERY;
            self.store.forget_parked().await?;
            self.caps = self.store.shares_caps().await?;
        }
        let list = self.store.read_parked(LIST, &self.replica).await?;
        let whole = list.len() < LIST as usize;
        let list: Vec<Listed> = list
            .into_iter()
            .map(|parked| Listed {
                reason: Reason::of_code(&parked.reason),
                trips: parked.trips.unsigned_abs(),
                name: parked.destination,
                left: parked.left,
            })
            .collect();
        if self.caps {
            let caps = self.store.read_caps(LIST).await?;
            let caps: Vec<(String, u32)> = caps.into_iter().map(|cap| (cap.destination, cap.most)).collect();
            self.slots.destinations().adopt_caps(self.slots.own(), &caps);
        }
        let now = Instant::now();
        self.slots.destinations().adopt(self.slots.own(), &list, whole, asked, now);
        self.read_at = now + if list.is_empty() { OTHERWISE } else { WHILE_PARKED };
        Ok(())
    }
}

/// Of a batch's rows that would be probes, keeps those whose destination no other replica probes, and gives back the rest
/// unattempted. Asks nothing where there is no probe among them, which is nearly always.
pub(super) async fn keep_probes(slots: &Slots, store: &Store, batch: Vec<Claimed>) -> Vec<Claimed> {
    let asked_at = Instant::now();
    let (probes, replica) = {
        let destinations = slots.destinations();
        let named = batch.iter().filter_map(destination).filter(|name| destinations.is_half_open(name, asked_at));
        let probes: HashSet<String> = named.map(str::to_owned).collect();
        (Vec::from_iter(probes), destinations.sharing(slots.own()))
    };
    let Some(replica) = replica.filter(|_| !probes.is_empty()) else { return batch };
    let lasts = slots.limits().attempt + PROBE_MARGIN;
    let answers = match timeout(PATIENCE, store.claim_probes(&probes, &replica, lasts)).await {
        Ok(Ok(answers)) => answers,
        // Each for itself, as without the list: two probes at a time do no harm, and none for ever would.
        Ok(Err(_)) | Err(_) => return batch,
    };
    let lost: HashSet<String> = {
        let mut destinations = slots.destinations();
        let lost = answers.into_iter().filter(|answer| !answer.won);
        lost.map(|answer| {
            destinations.lost_probe(slots.own(), &answer.destination, asked_at + answer.left, asked_at);
            answer.destination
        })
        .collect()
    };
    let is_lost = |claimed: &Claimed| destination(claimed).is_some_and(|name| lost.contains(name));
    let (theirs, ours): (Vec<Claimed>, Vec<Claimed>) = batch.into_iter().partition(is_lost);
    let given_back: Vec<GivenBack> =
        theirs.iter().map(|claimed| GivenBack { lease: claimed.lease().clone(), delay: Duration::ZERO }).collect();
    if let Err(error) = store.give_back(&given_back).await {
        tracing::warn!(%error, rows = given_back.len(), "rows of a parked destination wait for their leases' end");
    }
    ours
}

fn destination(claimed: &Claimed) -> Option<&str> {
    match claimed {
        Claimed::Whole { facts, .. } => Some(&facts.destination),
        Claimed::Broken { .. } => None,
    }
}
