//! Which rows the next claim looks at, and what of them is known to be left: the head of all due rows while that is cheap and
//! nobody is without room, and otherwise only what is new, and what has room. Pure: time and answers are handed in.
//!
//! A look from the head reads what it takes and no more, as long as it may take what it finds. Rows of a destination that has
//! all it may have, or is parked, stay at the head, and so do versions of rows that are dead but that some old snapshot may
//! still see; reading past them again and again would make each claim dearer the more there are. So then
//!
//! - a **pass** goes over the rows in their order, some at a time, from a little before the moment that the last pass began:
//!   what was due then has been taken, or is known to be left;
//! - destinations **left behind** with rows due are looked at by name, each from its own first row on, when they have room;
//! - a **list** of all destinations that have rows due is made now and then, beside the claims. It finds whatever a pass could
//!   not see: rows that became visible long after the moment they are due from, or were locked as the pass came by.
//!
//! Where accounts have a share of the slots too, all of this is by an account's rows for a destination: the rows of one name
//! then all have room, or none has, and no row of a name has to be passed over in order to get at another.
//!
//! What is left is put down by name, so that a pass never waits: everything due is in front of the pass, is put down
//! as left behind, or is found by the next list.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::behind::Behind;
use super::destinations::Rooms;
use crate::store::{Around, DatabaseTime, Listed, Position, Seen};

/// How long before the last pass the next one begins: a row is due from the beginning of the transaction that inserts it and
/// visible only from its end. One that takes longer is found by the list.
const SLACK: Duration = Duration::from_secs(1);
/// A look from the head takes well under a millisecond; what takes this long reads through what it cannot take.
const DEAR: Duration = Duration::from_millis(10);
/// How often destinations are listed, and how small a part of the time that may take.
const LIST_EVERY: Duration = Duration::from_secs(2);
const LIST_PART: u32 = 20;
/// What one destination may cost a list.
const LISTING_ONE: Duration = Duration::from_micros(50);
/// Destinations looked at by name in one claim.
const NAMED: usize = 64;
/// Rows read in their order in one claim: so many, doubled while they are all passed over.
const STRIDE: u32 = 100;
const LONGEST_STRIDE: u32 = 800;
/// Looks of one pass that came to nothing before a list is asked to help: it skips a destination's rows in one step.
const BARREN: u32 = 2;

pub(super) struct Looks {
    /// Who may have rows due that no pass will come by again.
    behind: Behind,
    /// Looked at by name last; the next round begins after it.
    last_named: Arc<str>,
    pass: Option<Pass>,
    /// Everything that was due at this moment has been taken, or is behind.
    covered: Option<DatabaseTime>,
    stride: u32,
    barren: u32,
    /// Whether looks from the head read through what they cannot take.
    dear: bool,
    /// The quickest answer ever, which tells what the network takes.
    quickest: Duration,
    list: List,
    outlook: Outlook,
    /// Whether destinations have room that the look under way leaves unused.
    sparing: bool,
    /// Whether nothing is known of what is left since it cannot be looked at by name, and something may be.
    blind: bool,
}

struct Pass {
    after: Position,
    /// When its first look was made.
    began: Option<DatabaseTime>,
}

#[derive(Default)]
struct List {
    running: bool,
    /// No sooner than its cost allows, and no later than is due.
    may_begin: Option<Instant>,
    due: Option<Instant>,
    /// Where the next one begins, if the last found more than one can hold.
    from: Arc<str>,
    /// What came and is not put down yet: between a look's question and its answer, which is of an older state, is no time
    /// for it.
    came: Option<Came>,
}

struct Came {
    listing: Listing,
    whole: bool,
    cheap: bool,
}

/// What a list came to.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// In the order of their names.
    pub(super) destinations: Vec<Listed>,
    /// Whether there are no others after them.
    pub(super) ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    Head,
    Around {
        around: Around,
        /// How much of its room each destination that is named may use.
        each: u32,
    },
}

/// What the last look promises of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// There is more to look at, or probably so.
    More,
    /// What is left has no room: worth a look when some was made.
    Left,
    /// Nothing.
    Nothing,
}

impl Looks {
    pub(super) fn new() -> Looks {
        Looks {
            behind: Behind::default(),
            last_named: Arc::default(),
            pass: None,
            covered: None,
            stride: STRIDE,
            barren: 0,
            dear: false,
            quickest: Duration::MAX,
            list: List::default(),
            outlook: Outlook::More,
            sparing: false,
            blind: false,
        }
    }

    pub(super) fn outlook(&self) -> Outlook {
        self.outlook
    }

    /// How many destinations have rows due that wait for room.
    pub(super) fn behind(&self) -> usize {
        self.behind.len()
    }

    /// Whether room for this destination, or for this account, is a reason to look.
    pub(super) fn waits_for(&self, destination: &str, account: &str) -> bool {
        self.blind || self.behind.concerns(destination, account)
    }

    /// What a claim of up to so many rows looks at. `by_name`: whether rows can be looked at so at all.
    pub(super) fn next(&mut self, rooms: &Rooms, rows: u32, by_name: bool) -> Look {
        self.put_down_what_came();
        let any_full = rooms.any_full();
        self.blind = !by_name && any_full;
        if !by_name || (self.behind.is_empty() && !any_full && !self.dear) {
            self.behind.clear();
            (self.pass, self.covered, self.barren) = (None, None, 0);
            return Look::Head;
        }
        let named = self.choose(|name| rooms.of(name) > 0);
        // Twice the even share, since some will have less.
        let each = (rows * 2).div_ceil(named.len().max(1) as u32);
        self.sparing = named.len() == NAMED || named.iter().any(|(name, _)| rooms.of(name) > each);
        let begins = self.covered.map_or(Position::HEAD, |covered| Position::before(covered.less(SLACK)));
        let pass = self.pass.get_or_insert(Pass { after: begins, began: None });
        Look::Around { around: Around { after: pass.after, most: self.stride.max(rows), named }, each }
    }

    /// Those left behind that have room, in turn.
    fn choose(&mut self, has_room: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Position)> {
        let last = self.last_named.clone();
        let roomy = self.behind.after(&last).filter(|(name, _)| has_room(name));
        let named: Vec<(Arc<str>, Position)> = roomy.take(NAMED).map(|(name, at)| (name.clone(), *at)).collect();
        self.last_named = named.last().map(|(name, _)| name.clone()).unwrap_or_default();
        named
    }

    /// A look from the head: how long finding took if something was, and how long the whole answer.
    pub(super) fn saw_head(&mut self, looking: Option<Duration>, answered: Duration, taken: u32) {
        self.quickest = self.quickest.min(answered);
        self.dear = looking.unwrap_or(answered - self.quickest) > DEAR;
        self.outlook = if taken > 0 { Outlook::More } else { Outlook::Nothing };
    }

    /// The answer to a look around, of which so many rows were wanted and taken. `has_more`: whether a destination has more
    /// room than the look was told of.
    pub(super) fn saw_around(
        &mut self,
        asked: &Around,
        seen: &Seen,
        (wanted, taken): (u32, u32),
        has_more: impl Fn(&str) -> bool,
    ) {
        for (name, _) in &asked.named {
            // What was looked at by name goes on from its first row that is left.
            self.behind.remove(name);
        }
        for (name, at) in &seen.left {
            self.leave_behind(name, *at);
        }
        if asked.after == Position::HEAD {
            self.dear = seen.looking > DEAR;
        }
        self.pass_on(asked, seen, taken < wanted);
        let named_left = self.sparing && asked.named.iter().any(|(name, _)| self.behind.contains(name));
        // By name it may be taken at once.
        let left_with_room = seen.left.iter().any(|(name, _)| has_more(name));
        self.outlook = match taken {
            _ if self.pass.is_some() || taken >= wanted || named_left || left_with_room => Outlook::More,
            _ if !self.behind.is_empty() => Outlook::Left,
            0 => Outlook::Nothing,
            _ => Outlook::More,
        };
    }

    fn pass_on(&mut self, asked: &Around, seen: &Seen, wanting: bool) {
        let Some(pass) = &mut self.pass else { return };
        let began = *pass.began.get_or_insert(seen.looked_at);
        match seen.last.filter(|_| seen.scanned >= asked.most) {
            Some(last) => {
                pass.after = last;
                if wanting {
                    self.barren += 1;
                    self.stride = (self.stride * 2).min(LONGEST_STRIDE);
                }
            }
            None => {
                // A clock that was set back must not leave out the rows of the time between.
                self.covered = Some(began.min(seen.looked_at));
                self.pass = None;
                self.barren = 0;
                self.stride = (self.stride / 2).max(STRIDE);
            }
        }
    }

    /// Whether it is remembered.
    fn leave_behind(&mut self, name: &str, at: Position) -> bool {
        self.behind.put(name, at.just_before())
    }

    /// From which destination on a list is to be made now, if one is.
    pub(super) fn begin_list(&mut self, now: Instant) -> Option<Arc<str>> {
        let list = &mut self.list;
        let is_past = |moment: Option<Instant>| moment.is_none_or(|moment| now >= moment);
        let wanted = is_past(list.due) || self.barren >= BARREN;
        // Looks from the head find everything.
        if self.pass.is_none() || list.running || !wanted || !is_past(list.may_begin) {
            return None;
        }
        list.running = true;
        Some(list.from.clone())
    }

    /// The list came to this; to nothing where the database did not answer. Whether something may be taken now that was not
    /// known of.
    pub(super) fn listed(&mut self, began: Instant, now: Instant, listing: Option<Listing>) -> bool {
        let list = &mut self.list;
        let took = now.saturating_duration_since(began);
        let rest = now + took * (LIST_PART - 1);
        list.running = false;
        list.may_begin = Some(rest);
        list.due = Some(rest.max(now + LIST_EVERY));
        let Some(listing) = listing else {
            list.may_begin = list.due;
            return false;
        };
        let whole = listing.ended && list.from.is_empty();
        let last = listing.destinations.last().filter(|_| !listing.ended);
        list.from = last.map(|last| last.destination.as_str().into()).unwrap_or_default();
        let cheap = took <= DEAR + LISTING_ONE * listing.destinations.len() as u32;
        let news = listing.destinations.iter().any(|one| one.first_due.is_some());
        list.came = Some(Came { listing, whole, cheap });
        news
    }

    fn put_down_what_came(&mut self) {
        let Some(Came { listing, mut whole, cheap }) = self.list.came.take() else { return };
        let looked_at = listing.destinations.first().map(|first| first.looked_at);
        for Listed { destination, first_due, .. } in listing.destinations {
            if let Some(at) = first_due {
                whole &= self.leave_behind(&destination, at);
            }
        }
        self.dear &= !cheap;
        if let (true, Some(looked_at)) = (whole, looked_at) {
            self.covered = self.covered.max(Some(looked_at));
            (self.pass, self.barren) = (None, 0);
        }
    }
}

#[cfg(test)]
mod tests;
