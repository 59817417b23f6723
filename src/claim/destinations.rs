//! What of the slots each destination holds and may hold, and which destinations are parked. Knows no rows, and asks nobody.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::accounts::of_pair;
use super::breaker::{Breaker, Probe, State};
use super::cap::Cap;
use super::outcome::{Outcome, Reason};
use crate::store::AccountRooms;

#[cfg(test)]
mod tests;

/// How long what was learned of a destination outlives its last row, and for how many it may. What is parked is kept for as
/// long as a row that waits for its next attempt may still be the probe.
const REMEMBERED: Duration = Duration::from_secs(60);
const REMEMBERED_MOST: usize = 10_000;
const PARKED_REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Who has lost a probe to another replica asks again no sooner. Where a pause is over but for so much, a probe is won.
const LOST_AT_LEAST: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Attempts at once: with which a destination begins, and the most it ever gets.
    pub(super) start: u32,
    pub(super) most: u32,
    /// Failures in a row that park it.
    pub(super) park_after: u32,
}

pub(super) struct Destinations {
    rules: Rules,
    known: HashMap<Arc<str>, Destination>,
    /// One beside each outbox, by its number. What this process finds out is told to all; what it learns from one list is not
    /// told to the others, or two lists would go on learning from each other.
    lists: Vec<List>,
}

/// What the replicas that serve one outbox share.
#[derive(Default)]
struct List {
    /// Under which name this replica shares what is parked; nothing where there is nowhere to.
    sharing: Option<Arc<str>>,
    /// Told when a destination was parked or let go.
    turned: Arc<Notify>,
    /// Whether one was let go since somebody asked.
    let_go: bool,
}

/// Where a destination stands on a list.
#[derive(Clone, Copy, Default)]
struct Entered {
    /// Up to which of the breaker's turns the other replicas know.
    told: u64,
    /// Whether it is on the list.
    listed: bool,
}

struct Destination {
    in_flight: u32,
    cap: Cap,
    breaker: Breaker,
    idle_since: Instant,
    /// By list.
    lists: Vec<Entered>,
    /// What operators allow it at most, by list.
    by_hand: Vec<Option<u32>>,
}

/// What the next claim may take, destination by destination.
pub(super) struct Rooms {
    /// Those with another room than the default: parked ones have none, half-open ones one.
    pub(super) rooms: HashMap<Arc<str>, u32>,
    pub(super) default_room: u32,
    pub(super) parked: usize,
    /// Where accounts have a share: rows then have names of destination and account.
    pub(super) accounts: Option<AccountRooms>,
}

impl Rooms {
    /// For rows of that name.
    pub(super) fn of(&self, name: &str) -> u32 {
        let (destination, account) = of_pair(name);
        let share = self.accounts.as_ref().map_or(u32::MAX, |accounts| accounts.of(account));
        self.of_destination(destination).min(share)
    }

    pub(super) fn of_destination(&self, destination: &str) -> u32 {
        self.rooms.get(destination).copied().unwrap_or(self.default_room)
    }

    /// Whether somebody has none.
    pub(super) fn any_full(&self) -> bool {
        let accounts = self.accounts.iter().flat_map(|accounts| accounts.rooms.values());
        self.rooms.values().chain(accounts).any(|room| *room == 0)
    }
}

/// When a row took its place, and whether it is the probe of a parked destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) began: Instant,
    probe: Option<Probe>,
}

/// What a report changed that an operator would want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    Parked { reason: Reason, pause: Duration, again: bool },
    LetGo,
}

/// What the others have not been told yet, as of one of the breaker's turns.
pub(super) struct Untold {
    pub(super) name: Arc<str>,
    pub(super) epoch: u64,
    pub(super) now: Standing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// For how long, why, and how often in a row.
    Parked {
        left: Duration,
        reason: Option<Reason>,
        trips: u32,
    },
    LetGo,
}

/// A parked destination as the replicas share it. Nothing is left of the pause of a half-open one.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) left: Duration,
    pub(super) reason: Option<Reason>,
    pub(super) trips: u32,
}

impl Destination {
    fn new(name: &str, rules: Rules, lists: usize) -> Destination {
        // Where a composed row goes may be known only to its registration: such rows are of no one destination, so that
        // nothing is learned from them and none of them is left behind for another's sake.
        let start = if name.is_empty() { rules.most } else { rules.start };
        Destination {
            in_flight: 0,
            cap: Cap::new(start, rules.most),
            breaker: Breaker::new(rules.park_after),
            idle_since: Instant::now(),
            lists: vec![Entered::default(); lists],
            by_hand: vec![None; lists],
        }
    }

    fn room(&self, now: Instant) -> u32 {
        match self.breaker.state(now) {
            State::Closed => self.cap.room(self.in_flight),
            State::HalfOpen => 1,
            State::Parked { .. } | State::Probing => 0,
        }
    }

    fn limit(&mut self, list: usize, cap: Option<u32>, most: u32) {
        if self.by_hand[list] != cap {
            self.by_hand[list] = cap;
            self.cap.limit_to(self.by_hand.iter().flatten().copied().fold(most, u32::min));
        }
    }

    fn is_told(&self, list: usize) -> bool {
        self.lists[list].told == self.breaker.epoch()
    }

    /// As a list has it, which is news to no list.
    fn adopt(&mut self, until: Instant, reason: Option<Reason>, trips: u32, now: Instant) {
        self.breaker.adopt(until, reason, trips, now);
        let epoch = self.breaker.epoch();
        self.lists.iter_mut().for_each(|entered| entered.told = epoch);
    }

    fn let_go(&mut self, now: Instant) {
        self.breaker.close(now);
        self.cap.restart();
    }

    fn is_worth_keeping(&self, now: Instant, remembered: Duration) -> bool {
        let idle = now.saturating_duration_since(self.idle_since);
        self.in_flight > 0
            // Forgotten, it would begin anew with more than it is allowed.
            || self.by_hand.iter().any(Option::is_some)
            || self.lists.iter().any(|entered| entered.listed && entered.told != self.breaker.epoch())
            || match self.breaker.state(now) {
                State::Parked { .. } => true,
                State::HalfOpen | State::Probing => idle < PARKED_REMEMBERED,
                State::Closed => idle < remembered,
            }
    }
}

impl Destinations {
    pub(super) fn new(rules: Rules, lists: usize) -> Destinations {
        let rules = Rules { start: rules.start.min(rules.most), ..rules };
        Destinations { rules, known: HashMap::new(), lists: (0..lists).map(|_| List::default()).collect() }
    }

    pub(super) fn entered(&mut self, name: &Arc<str>, now: Instant) -> Entry {
        let destination = self.known(name);
        destination.in_flight += 1;
        Entry { began: now, probe: destination.breaker.entered(now) }
    }

    pub(super) fn left(&mut self, name: &Arc<str>, entry: Entry, now: Instant) {
        let Some(destination) = self.known.get_mut(name) else { return };
        destination.in_flight -= 1;
        destination.idle_since = now;
        // One that ended without a report, as in a panic.
        if let Some(probe) = entry.probe {
            destination.breaker.probe_unused(probe);
        }
    }

    /// What the attempt of a row that entered has told, and how long it was asked to leave the destination alone.
    pub(super) fn report(
        &mut self,
        name: &Arc<str>,
        entry: Entry,
        outcome: Outcome,
        asked: Option<Duration>,
        now: Instant,
        jitter: f64,
    ) -> Turn {
        let Some(destination) = self.known.get_mut(name).filter(|_| !name.is_empty()) else { return Turn::None };
        let Destination { breaker, cap, in_flight, .. } = destination;
        let mut turn = Turn::None;
        let mut answered = |cap: &mut Cap, breaker: &mut Breaker| {
            let let_go = breaker.answered(entry.probe, now);
            if let_go {
                cap.restart();
                turn = Turn::LetGo;
            }
            let_go
        };
        match outcome {
            Outcome::Unknown => {
                if let Some(probe) = entry.probe {
                    breaker.probe_unused(probe);
                }
            }
            Outcome::Answered => {
                answered(cap, breaker);
            }
            Outcome::Accepted => {
                if !answered(cap, breaker) {
                    cap.succeeded(*in_flight);
                }
            }
            Outcome::Throttled => {
                answered(cap, breaker);
                cap.strained(entry.began, now);
            }
            Outcome::Failed(reason) => {
                if reason.is_strain() {
                    cap.strained(entry.began, now);
                }
                if let Some(pause) = breaker.failed(reason, entry.probe, entry.began, now, jitter) {
                    turn = Turn::Parked { reason, pause, again: breaker.trips() > 1 };
                }
            }
        }
        if let Some(pause) = asked {
            let (again, before) = (matches!(breaker.state(now), State::Parked { .. }), breaker.epoch());
            breaker.park(now + pause, now);
            if breaker.epoch() != before {
                turn = Turn::Parked { reason: Reason::RetryAfter, pause, again };
            }
        }
        for list in &mut self.lists {
            list.let_go |= turn == Turn::LetGo;
            if turn != Turn::None {
                list.turned.notify_one();
            }
        }
        turn
    }

    pub(super) fn in_flight(&self, name: &str) -> u32 {
        self.known.get(name).map_or(0, |destination| destination.in_flight)
    }

    pub(super) fn rooms(&mut self, now: Instant) -> Rooms {
        self.forget(now);
        let Rules { start, most, .. } = self.rules;
        let mut rooms: HashMap<Arc<str>, u32> = self
            .known
            .iter()
            .map(|(name, destination)| (name, destination.room(now)))
            .filter(|(_, room)| *room != start)
            .map(|(name, room)| (name.clone(), room))
            .collect();
        if start != most && !self.known.contains_key("") {
            rooms.insert("".into(), most);
        }
        Rooms { rooms, default_room: start, parked: self.parked(now), accounts: None }
    }

    pub(super) fn parked(&self, now: Instant) -> usize {
        let is_parked = |one: &&Destination| matches!(one.breaker.state(now), State::Parked { .. });
        self.known.values().filter(is_parked).count()
    }

    pub(super) fn parked_names(&self, now: Instant, most: usize) -> Vec<String> {
        let is_parked = |one: &(&Arc<str>, &Destination)| matches!(one.1.breaker.state(now), State::Parked { .. });
        self.known.iter().filter(is_parked).map(|(name, _)| name.to_string()).take(most).collect()
    }

    /// The smallest cap that a destination has now.
    pub(super) fn lowest_cap(&self) -> u32 {
        self.known.values().map(|destination| destination.cap.allowed()).min().unwrap_or(self.rules.start)
    }

    fn known(&mut self, name: &Arc<str>) -> &mut Destination {
        let (rules, lists) = (self.rules, self.lists.len());
        self.known.entry(name.clone()).or_insert_with(|| Destination::new(name, rules, lists))
    }

    fn forget(&mut self, now: Instant) {
        let remembered = if self.known.len() > REMEMBERED_MOST { Duration::ZERO } else { REMEMBERED };
        self.known.retain(|_, destination| destination.is_worth_keeping(now, remembered));
    }
}

/// What the replicas share, on the list with a number.
impl Destinations {
    pub(super) fn turned(&self, list: usize) -> Arc<Notify> {
        self.lists[list].turned.clone()
    }

    /// Whether one was let go since this was asked last.
    pub(super) fn take_let_go(&mut self, list: usize) -> bool {
        std::mem::take(&mut self.lists[list].let_go)
    }

    pub(super) fn share_as(&mut self, list: usize, replica: Option<&Arc<str>>) {
        self.lists[list].sharing = replica.cloned();
    }

    pub(super) fn sharing(&self, list: usize) -> Option<Arc<str>> {
        self.lists[list].sharing.clone()
    }

    /// When the next pause ends of those that end after a moment, whether or not it is over by now.
    pub(super) fn next_probe(&self, after: Instant) -> Option<Instant> {
        self.known
            .values()
            .filter_map(|destination| destination.breaker.pause_ends())
            .filter(|ends| *ends > after)
            .min()
    }

    /// Whether a row of it would be the probe.
    pub(super) fn is_half_open(&self, name: &str, now: Instant) -> bool {
        self.known.get(name).is_some_and(|destination| destination.breaker.state(now) == State::HalfOpen)
    }

    /// Another replica probes it, or has parked it again.
    pub(super) fn lost_probe(&mut self, list: usize, name: &str, until: Instant, now: Instant) {
        let Some(destination) = self.known.get_mut(name) else { return };
        let (reason, trips) = (destination.breaker.reason(), destination.breaker.trips());
        destination.adopt(until.max(now + LOST_AT_LEAST), reason, trips, now);
        destination.lists[list].listed = true;
    }

    pub(super) fn untold(&mut self, list: usize, now: Instant) -> Vec<Untold> {
        let mut untold = Vec::new();
        for (name, destination) in &mut self.known {
            if destination.is_told(list) {
                continue;
            }
            let breaker = &destination.breaker;
            let standing = match breaker.state(now) {
                State::Parked { until } => Standing::Parked {
                    left: until.saturating_duration_since(now),
                    reason: breaker.reason(),
                    trips: breaker.trips(),
                },
                // The others find out by a probe of their own what this one finds out by its.
                State::HalfOpen | State::Probing => continue,
                State::Closed if destination.lists[list].listed => Standing::LetGo,
                State::Closed => {
                    destination.lists[list].told = breaker.epoch();
                    continue;
                }
            };
            untold.push(Untold { name: name.clone(), epoch: breaker.epoch(), now: standing });
        }
        untold
    }

    pub(super) fn told(&mut self, list: usize, told: &[Untold]) {
        for Untold { name, epoch, now } in told {
            if let Some(destination) = self.known.get_mut(name) {
                destination.lists[list] = Entered { told: *epoch, listed: matches!(now, Standing::Parked { .. }) };
            }
        }
    }

    /// Takes over what operators allow. What is not named any more may have what the configuration allows.
    pub(super) fn adopt_caps(&mut self, list: usize, caps: &[(String, u32)]) {
        let most = self.rules.most;
        let named: HashSet<&str> = caps.iter().map(|(name, _)| name.as_str()).collect();
        for (_, destination) in self.known.iter_mut().filter(|(name, _)| !named.contains(&***name)) {
            destination.limit(list, None, most);
        }
        for (name, cap) in caps.iter().filter(|(name, _)| !name.is_empty()) {
            self.known(&Arc::from(name.as_str())).limit(list, Some(*cap), most);
        }
    }

    /// Takes over the list as it was when it was asked for. What the others have not been told of yet is newer than the list.
    pub(super) fn adopt(&mut self, list: usize, entries: &[Listed], whole: bool, asked: Instant, now: Instant) {
        let mut absent: Vec<Arc<str>> = Vec::new();
        if whole {
            let named: HashSet<&str> = entries.iter().map(|listed| listed.name.as_str()).collect();
            let gone =
                |name: &str, one: &Destination| one.lists[list].listed && one.is_told(list) && !named.contains(name);
            absent.extend(self.known.iter().filter(|(name, one)| gone(name, one)).map(|(name, _)| name.clone()));
        }
        for name in absent {
            let destination = self.known(&name);
            destination.lists[list].listed = false;
            // A replica's probe was answered, or an operator let it go. The other lists that have it are told.
            if destination.breaker.state(now) != State::Closed {
                destination.let_go(now);
                destination.lists[list].told = destination.breaker.epoch();
                for (other, its) in self.lists.iter_mut().enumerate() {
                    its.let_go = true;
                    if other != list {
                        its.turned.notify_one();
                    }
                }
            }
        }
        for Listed { name, left, reason, trips } in entries.iter().filter(|listed| !listed.name.is_empty()) {
            let destination = self.known(&Arc::from(name.as_str()));
            if !destination.is_told(list) {
                continue;
            }
            destination.lists[list].listed = true;
            let until = asked + *left;
            let differs = match destination.breaker.state(now) {
                State::Closed => true,
                State::Parked { until: ours } => ours.max(until) - ours.min(until) > LOST_AT_LEAST,
                // The list has a pause of ours end later than we do, by as long as it took to tell: our probe may be on its
                // way by then, and no second one is to follow it.
                State::HalfOpen | State::Probing => until > now + LOST_AT_LEAST,
            };
            if differs {
                destination.adopt(until, *reason, *trips, now);
            }
        }
    }
}
