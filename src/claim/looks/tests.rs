//! What is looked at next, against a table that is a list: it answers as the statements do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;
use crate::claim::accounts::pair;
use crate::claim::given::{Given, MOST};
use crate::store::AccountRooms;

/// A row is due and visible from moments of its own, in microseconds; nobody sees it who looks while it is locked.
#[derive(Debug, Clone)]
struct Row {
    destination: String,
    account: String,
    due: i64,
    visible: i64,
    locked_until: i64,
    id: i64,
}

/// The table, its clock, and who holds how many rows.
struct Model {
    rows: Vec<Row>,
    now: i64,
    held: HashMap<String, u32>,
    held_by_account: HashMap<String, u32>,
    /// Rows that each account may have, where that is limited.
    share: Option<u32>,
    default_room: u32,
    parked: BTreeSet<String>,
    looks: Looks,
    by_destination: bool,
    /// Rows that looks read, and the lists made.
    read: usize,
    lists: usize,
    /// What a look from the head costs beside what it takes.
    dead: Duration,
    base: Instant,
}

const SECOND: i64 = 1_000_000;

/// What a claim is told that rows may take.
struct Told<'a> {
    destination: &'a dyn Fn(&str) -> u32,
    account: &'a dyn Fn(&str) -> u32,
}

impl Told<'_> {
    fn of(&self, row: &Row) -> u32 {
        (self.destination)(&row.destination).min((self.account)(&row.account))
    }
}

impl Model {
    fn new(default_room: u32) -> Model {
        Model {
            rows: Vec::new(),
            now: 1000 * SECOND,
            held: HashMap::new(),
            held_by_account: HashMap::new(),
            share: None,
            default_room,
            parked: BTreeSet::new(),
            looks: Looks::new(),
            by_destination: true,
            read: 0,
            lists: 0,
            dead: Duration::ZERO,
            base: Instant::now(),
        }
    }

    /// Rows that have been due for a second each longer than the next.
    fn insert(&mut self, destination: &str, count: usize) {
        for _ in 0..count {
            self.insert_late(destination, self.now, self.now);
        }
    }

    fn insert_late(&mut self, destination: &str, due: i64, visible: i64) {
        self.insert_of("", destination, due, visible);
    }

    fn insert_of(&mut self, account: &str, destination: &str, due: i64, visible: i64) {
        let id = self.rows.len() as i64 + 1;
        let (destination, account) = (destination.into(), account.into());
        self.rows.push(Row { destination, account, due, visible, locked_until: 0, id });
    }

    /// By which it is left behind, listed and looked at.
    fn name(&self, row: &Row) -> String {
        match self.share {
            None => row.destination.clone(),
            Some(_) => pair(&row.destination, &row.account),
        }
    }

    fn rooms(&self) -> Rooms {
        let room = |name: &str| match self.parked.contains(name) {
            true => 0,
            false => self.default_room.saturating_sub(self.held.get(name).copied().unwrap_or(0)),
        };
        let known: BTreeSet<&String> = self.held.keys().chain(&self.parked).collect();
        let rooms = known.into_iter().map(|name| (name.as_str().into(), room(name))).collect();
        let accounts = self.share.map(|share| AccountRooms {
            rooms: self.held_by_account.iter().map(|(name, held)| (name.as_str().into(), share - held)).collect(),
            others: share,
        });
        Rooms { rooms, default_room: self.default_room, parked: self.parked.len(), accounts }
    }

    fn instant(&self) -> Instant {
        self.base + Duration::from_micros(self.now.unsigned_abs())
    }

    fn due(&self) -> impl Iterator<Item = &Row> {
        let mut due: Vec<&Row> =
            self.rows.iter().filter(|row| row.due <= self.now && row.visible <= self.now).collect();
        due.sort_by_key(|row| (row.due, row.id));
        due.into_iter()
    }

    fn place(row: &Row) -> Position {
        Position { at: DatabaseTime::at(row.due), id: row.id }
    }

    /// One claim of up to so many rows: their destinations.
    fn claim(&mut self, wanted: u32) -> Vec<String> {
        let rooms = self.rooms();
        let look = self.looks.next(&rooms, wanted, self.by_destination);
        self.list();
        let given = Given::of(&rooms, self.by_destination).with_named(&rooms, &look);
        let told: HashMap<&str, u32> = given.rooms.iter().map(|(name, room)| (&**name, *room)).collect();
        let rooms_told = Told {
            destination: &|name| told.get(name).copied().unwrap_or(given.others),
            account: &|account| rooms.accounts.as_ref().map_or(u32::MAX, |accounts| accounts.of(account)),
        };
        assert!(!self.by_destination || told.len() <= MOST + NAMED, "{} names", told.len());
        let taken = match look {
            Look::Head => {
                let open: Vec<Row> = self.due().filter(|row| rooms_told.of(row) > 0).cloned().collect();
                let first = open.into_iter().take(wanted as usize).map(|row| (row, u32::MAX)).collect();
                let (taken, _) = self.grant(first, wanted, &rooms_told);
                let cost = Duration::from_millis(1) + self.dead;
                self.looks.saw_head(None, Duration::from_millis(1), 0);
                self.looks.saw_head(None, cost, taken.len() as u32);
                taken
            }
            Look::Around { around, each } => {
                let is_named = |name: &str| around.named.iter().any(|(named, _)| &**named == name);
                let scanned: Vec<Row> = self
                    .due()
                    .filter(|row| Model::place(row) > around.after)
                    .take(around.most as usize)
                    .cloned()
                    .collect();
                let mut found: Vec<(Row, u32)> = Vec::new();
                for (name, after) in &around.named {
                    let mut of_it =
                        self.due().filter(|row| self.name(row) == **name && Model::place(row) > *after).peekable();
                    let room = of_it.peek().map_or(0, |row| rooms_told.of(row).min(each));
                    found.extend(of_it.take(room as usize + 1).map(|row| (row.clone(), each)));
                }
                let others = scanned.iter().filter(|row| !is_named(&self.name(row)));
                found.extend(others.map(|row| (row.clone(), u32::MAX)));
                self.read += found.len() + scanned.len();
                let (taken, left) = self.grant(found, wanted, &rooms_told);
                let seen = Seen {
                    looked_at: DatabaseTime::at(self.now),
                    looking: match around.after {
                        Position::HEAD => Duration::from_millis(1) + self.dead,
                        _ => Duration::from_millis(1),
                    },
                    scanned: scanned.len() as u32,
                    last: scanned.last().map(Model::place),
                    left,
                };
                let has_more = |name: &str| given.understates(rooms.of(name));
                self.looks.saw_around(&around, &seen, (wanted, taken.len() as u32), has_more);
                taken
            }
        };
        for row in &taken {
            *self.held.entry(row.destination.clone()).or_default() += 1;
            *self.held_by_account.entry(row.account.clone()).or_default() += 1;
        }
        self.now += 2000;
        taken.into_iter().map(|row| row.destination).collect()
    }

    /// Of rows that were found, each with how many of its name may be taken: those taken, and the first left of each name.
    fn grant(&mut self, found: Vec<(Row, u32)>, wanted: u32, told: &Told<'_>) -> (Vec<Row>, Vec<(String, Position)>) {
        let mut found = found;
        found.sort_by_key(|(row, _)| (row.due, row.id));
        let (mut turns, mut places, mut shares) = (HashMap::new(), HashMap::new(), HashMap::new());
        let next = |counts: &mut HashMap<String, u32>, name: String| {
            let count = counts.entry(name).or_default();
            *count += 1;
            *count
        };
        let mut in_turn: Vec<(u32, Row, bool)> = Vec::new();
        for (row, most) in found {
            let turn = next(&mut turns, self.name(&row));
            let may = told.of(&row) > 0 && turn <= most;
            in_turn.push((turn, row, may));
        }
        in_turn.sort_by_key(|(turn, row, _)| (*turn, row.due, row.id));
        let mut placed: Vec<(u32, Row, bool)> = Vec::new();
        for (_, row, may) in in_turn {
            let place = next(&mut places, format!("{may} {}", row.destination));
            let fits = may && place <= (told.destination)(&row.destination);
            placed.push((place, row, fits));
        }
        placed.sort_by_key(|(place, row, _)| (*place, row.due, row.id));
        for (_, row, fits) in &mut placed {
            *fits = *fits && next(&mut shares, row.account.clone()) <= (told.account)(&row.account);
        }
        let held = |name: &str| self.held.get(name).copied().unwrap_or(0);
        placed.sort_by_key(|(place, row, fits)| (!fits, held(&row.destination) + place, row.due, row.id));
        let (mut taken, mut left) = (Vec::new(), BTreeMap::new());
        for (turn, (_, row, fits)) in placed.into_iter().enumerate() {
            if !fits || turn >= wanted as usize {
                let first = left.entry(self.name(&row)).or_insert(Model::place(&row));
                *first = Model::place(&row).min(*first);
            } else if row.locked_until <= self.now {
                self.rows.retain(|other| other.id != row.id);
                taken.push(row);
            }
        }
        (taken, left.into_iter().collect())
    }

    fn list(&mut self) {
        let began = self.instant();
        let Some(from) = self.looks.begin_list(began) else { return };
        self.lists += 1;
        let looked_at = DatabaseTime::at(self.now);
        let names: BTreeSet<String> =
            self.rows.iter().map(|row| self.name(row)).filter(|name| **name >= *from).collect();
        let destinations = names.into_iter().map(|name| Listed {
            first_due: self.due().find(|row| self.name(row) == name).map(Model::place),
            destination: name,
            looked_at,
        });
        let listing = Listing { destinations: destinations.collect(), ended: true };
        let ended = began + Duration::from_millis(1) + self.dead;
        self.looks.listed(began, ended, Some(listing));
    }

    /// Every row in flight ends.
    fn release(&mut self) {
        self.held.clear();
        self.held_by_account.clear();
    }

    fn wait(&mut self, time: Duration) {
        self.now += time.as_micros() as i64;
    }

    /// Claims until a look finds nothing more; rows taken, by destination.
    fn claim_all(&mut self, wanted: u32) -> HashMap<String, usize> {
        let mut all = HashMap::new();
        for _ in 0..10_000 {
            for name in self.claim(wanted) {
                *all.entry(name).or_default() += 1;
            }
            if self.looks.outlook() != Outlook::More {
                return all;
            }
        }
        panic!("it never ends");
    }
}

fn is_head(model: &mut Model) -> bool {
    let rooms = model.rooms();
    model.looks.next(&rooms, 10, model.by_destination) == Look::Head
}

#[test]
fn while_nobody_is_full_the_head_is_looked_at() {
    let mut model = Model::new(64);
    for name in ["a", "b"] {
        model.insert(name, 50);
    }
    assert_eq!(model.claim(100).len(), 100);
    assert!(is_head(&mut model));
    assert_eq!((model.lists, model.looks.behind()), (0, 0));
}

#[test]
fn a_row_behind_a_million_of_a_full_destination_is_found_at_once() {
    let mut model = Model::new(64);
    model.insert("full", 100_000);
    model.insert("other", 1);
    model.now += SECOND;
    let taken = model.claim_all(100);
    assert_eq!(taken, HashMap::from([("full".into(), 64), ("other".into(), 1)]));
    assert!(model.read < 3000, "{} rows were read", model.read);
    assert_eq!(model.looks.outlook(), Outlook::Left);
    assert!(model.looks.waits_for("full", "") && !model.looks.waits_for("other", ""));
}

#[test]
fn what_is_new_is_found_without_reading_what_is_left() {
    let mut model = Model::new(10);
    model.insert("full", 5000);
    model.now += 10 * SECOND;
    model.claim_all(100);
    let (read, lists) = (model.read, model.lists);
    for _ in 0..50 {
        model.now += SECOND / 10;
        model.insert("other", 1);
        assert_eq!(model.claim_all(100), HashMap::from([("other".into(), 1)]));
        model.held.remove("other");
    }
    assert!(model.read - read < 600, "{} rows were read", model.read - read);
    assert!(model.lists - lists <= 3, "{} lists in five seconds", model.lists - lists);
}

#[test]
fn room_is_used_by_the_oldest_rows_of_those_left_behind_and_shared_evenly() {
    let mut model = Model::new(10);
    for name in ["a", "b", "c"] {
        model.insert(name, 500);
        model.now += SECOND;
    }
    model.claim_all(100);
    for _ in 0..20 {
        model.release();
        let taken = model.claim_all(12);
        let each: Vec<usize> = ["a", "b", "c"].iter().map(|name| taken[*name]).collect();
        assert_eq!(each, [10, 10, 10]);
    }
    // With fewer slots than they have room for, too.
    model.release();
    let taken = model.claim(12);
    for name in ["a", "b", "c"] {
        assert_eq!(taken.iter().filter(|one| *one == name).count(), 4);
    }
}

#[test]
fn when_nothing_is_left_the_head_is_looked_at_again() {
    let mut model = Model::new(10);
    model.insert("a", 35);
    model.now += SECOND;
    for _ in 0..3 {
        model.claim_all(100);
        assert!(!is_head(&mut model));
        model.release();
    }
    model.claim_all(100);
    assert!(model.rows.is_empty() && is_head(&mut model));
}

#[test]
fn a_parked_destination_is_passed_over_and_taken_up_when_it_may_be() {
    let mut model = Model::new(10);
    model.parked.insert("parked".into());
    model.insert("parked", 200);
    model.insert("other", 3);
    assert_eq!(model.claim_all(100), HashMap::from([("other".into(), 3)]));
    model.parked.clear();
    model.release();
    assert_eq!(model.claim(100).len(), 10);
}

#[test]
fn an_account_that_has_its_share_keeps_nobody_from_a_destination_however_many_rows_it_has_there() {
    let mut model = Model::new(64);
    model.share = Some(10);
    for (account, rows) in [("big", 5000), ("small", 4)] {
        (0..rows).for_each(|_| model.insert_of(account, "a", model.now, model.now));
    }
    model.insert_of("small", "b", model.now, model.now);
    model.wait(Duration::from_secs(1));
    assert_eq!(model.claim_all(100), HashMap::from([("a".into(), 14), ("b".into(), 1)]));
    assert!(model.read < 3000, "{} rows were read", model.read);
    assert_eq!(model.looks.outlook(), Outlook::Left);
    assert!(model.looks.waits_for("c", "big") && !model.looks.waits_for("c", "small"));
    // It goes on with its share, and nobody of those that come waits for it.
    let read = model.read;
    for _ in 0..20 {
        model.release();
        model.wait(Duration::from_millis(100));
        model.insert_of("small", "a", model.now, model.now);
        assert_eq!(model.claim_all(100), HashMap::from([("a".into(), 11)]));
    }
    assert!(model.read - read < 3000, "{} rows were read", model.read - read);
}

#[test]
fn accounts_take_turns_at_a_destination() {
    let mut model = Model::new(6);
    model.share = Some(50);
    for account in ["first", "second", "third"] {
        (0..20).for_each(|_| model.insert_of(account, "a", model.now, model.now));
        model.wait(Duration::from_secs(1));
    }
    model.claim_all(100);
    for _ in 0..8 {
        model.release();
        model.claim_all(100);
        assert_eq!(model.held_by_account.values().copied().collect::<Vec<_>>(), [2, 2, 2]);
    }
}

/// So many that no claim can be told of all of them.
fn crowd() -> impl Iterator<Item = String> {
    (0..2 * MOST).map(|nth| format!("crowd-{nth}"))
}

#[test]
fn behind_a_crowd_of_parked_destinations_the_others_are_found_and_taken_at_once() {
    let mut model = Model::new(10);
    for name in crowd() {
        model.insert(&name, 1);
        model.parked.insert(name);
    }
    model.insert("a", 25);
    model.insert("b", 3);
    model.wait(Duration::from_secs(1));
    assert_eq!(model.claim_all(100), HashMap::from([("a".into(), 10), ("b".into(), 3)]));
    assert_eq!(model.looks.outlook(), Outlook::Left);
    let read = model.read;
    for _ in 0..20 {
        model.release();
        model.wait(Duration::from_millis(100));
        model.insert("new", 1);
        model.claim_all(100);
        assert_eq!(model.looks.outlook(), Outlook::Left, "nobody is looked at without end who has no room");
    }
    assert!(model.rows.iter().all(|row| row.destination.starts_with("crowd")), "the others are all taken");
    assert!(model.read - read < 2000, "{} rows were read", model.read - read);
    model.parked.clear();
    while !model.rows.is_empty() {
        model.release();
        assert!(!model.claim_all(100).is_empty());
    }
}

#[test]
fn a_look_that_reads_through_the_dead_is_not_made_again_until_a_list_is_cheap() {
    let mut model = Model::new(64);
    model.dead = Duration::from_millis(300);
    model.insert("a", 3);
    assert_eq!(model.claim_all(100).len(), 1);
    let mut heads = 0;
    for _ in 0..100 {
        model.insert("a", 1);
        heads += usize::from(is_head(&mut model));
        assert_eq!(model.claim_all(100)["a"], 1);
        model.release();
        model.wait(Duration::from_millis(100));
    }
    assert_eq!(heads, 0);
    assert!((1..=3).contains(&model.lists), "{} lists at 300 ms in 10 s", model.lists);
    model.dead = Duration::ZERO;
    model.wait(Duration::from_secs(10));
    model.claim_all(100);
    model.claim_all(100);
    assert!(is_head(&mut model));
}

#[test]
fn without_the_index_every_look_is_from_the_head() {
    let mut model = Model::new(10);
    model.by_destination = false;
    model.insert("a", 35);
    model.insert("b", 5);
    assert_eq!(model.claim(20).len(), 10);
    assert_eq!(model.claim(20).len(), 5);
    assert!(is_head(&mut model) && model.lists == 0);
    assert!(model.looks.waits_for("anything", ""), "what is left is not known");
}

#[test]
fn a_clock_that_was_set_back_leaves_no_row_out() {
    let mut model = Model::new(10);
    model.insert("full", 100);
    model.now += SECOND;
    model.claim_all(100);
    model.now -= 500 * SECOND;
    model.claim_all(100);
    model.insert("other", 1);
    assert_eq!(model.claim_all(100), HashMap::from([("other".into(), 1)]));
}

#[test]
fn more_destinations_than_are_remembered_are_listed_bit_by_bit() {
    let mut looks = Looks::new();
    let base = Instant::now();
    let rooms = Rooms { rooms: [("full".into(), 0)].into(), default_room: 10, parked: 0, accounts: None };
    looks.next(&rooms, 10, true);
    assert_eq!(looks.begin_list(base).as_deref(), Some(""));
    assert_eq!(looks.begin_list(base), None, "one at a time");
    let at = DatabaseTime::at(5);
    let listed = |name: &str| Listed { destination: name.into(), first_due: None, looked_at: at };
    let listing = Listing { destinations: vec![listed("a"), listed("m")], ended: false };
    looks.listed(base, base + Duration::from_millis(1), Some(listing));
    looks.next(&rooms, 10, true);
    assert_eq!(looks.covered, None, "what comes after is not known of");
    let later = base + Duration::from_secs(3);
    assert_eq!(looks.begin_list(later).as_deref(), Some("m"));
    looks.listed(later, later, Some(Listing { destinations: vec![listed("m"), listed("z")], ended: true }));
    looks.next(&rooms, 10, true);
    assert_eq!(looks.covered, None, "nor is what came before, by now");
    let last = later + Duration::from_secs(3);
    assert_eq!(looks.begin_list(last).as_deref(), Some(""));
    looks.listed(last, last, Some(Listing { destinations: vec![listed("a")], ended: true }));
    looks.next(&rooms, 10, true);
    assert_eq!(looks.covered, Some(at));
}

#[test]
fn a_list_that_failed_is_made_again_later() {
    let mut looks = Looks::new();
    let base = Instant::now();
    let rooms = Rooms { rooms: [("full".into(), 0)].into(), default_room: 10, parked: 0, accounts: None };
    looks.next(&rooms, 10, true);
    assert!(looks.begin_list(base).is_some());
    assert!(!looks.listed(base, base + Duration::from_secs(1), None));
    assert!(looks.begin_list(base + Duration::from_secs(10)).is_none(), "it cost a second");
    assert!(looks.begin_list(base + Duration::from_secs(21)).is_some());
}

#[derive(Debug, Clone)]
enum Event {
    /// How many, due how long ago and visible how much later.
    Insert {
        destination: u8,
        count: u8,
        ago: i64,
        late: i64,
    },
    /// Every row of it for a while.
    Lock {
        destination: u8,
        time: i64,
    },
    Park(u8),
    Unpark(u8),
    Release,
    Wait(i64),
    Claim {
        wanted: u32,
    },
    Dead(bool),
    /// So many are parked that no claim is told of all of them, and nobody has rows for them.
    Crowd(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..6_u8, 1..200_u8, 0..5 * SECOND, 0..5 * SECOND)
            .prop_map(|(destination, count, ago, late)| Event::Insert { destination, count, ago, late }),
        1 => (0..6_u8, 0..SECOND).prop_map(|(destination, time)| Event::Lock { destination, time }),
        1 => (0..6_u8).prop_map(Event::Park),
        2 => (0..6_u8).prop_map(Event::Unpark),
        3 => Just(Event::Release),
        2 => (0..3 * SECOND).prop_map(Event::Wait),
        8 => (1..100_u32).prop_map(|wanted| Event::Claim { wanted }),
        1 => any::<bool>().prop_map(Event::Dead),
        1 => any::<bool>().prop_map(Event::Crowd),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened: once every row is visible, unlocked and has room, a few seconds of claims take them all.
    #[test]
    fn no_row_is_ever_forgotten(
        events in prop::collection::vec(event(), 1..60),
        cap in 1..20_u32,
        share in prop::option::of(1..20_u32),
    ) {
        let mut model = Model::new(cap);
        model.share = share;
        for event in events {
            match event {
                Event::Insert { destination, count, ago, late } => for nth in 0..count {
                    let (account, due) = (format!("a{}", nth % 3), model.now - ago);
                    model.insert_of(&account, &format!("d{destination}"), due, due + late);
                },
                Event::Lock { destination, time } => {
                    let until = model.now + time;
                    let name = format!("d{destination}");
                    model.rows.iter_mut().filter(|row| row.destination == name).for_each(|row| row.locked_until = until);
                }
                Event::Park(destination) => { model.parked.insert(format!("d{destination}")); }
                Event::Unpark(destination) => { model.parked.remove(&format!("d{destination}")); }
                Event::Release => model.release(),
                Event::Wait(time) => model.now += time,
                Event::Claim { wanted } => { model.claim(wanted); }
                Event::Crowd(true) => model.parked.extend(crowd()),
                Event::Crowd(false) => model.parked.retain(|name| !name.starts_with("crowd")),
                Event::Dead(dead) => model.dead = Duration::from_millis(if dead { 30 } else { 0 }),
            }
            prop_assert!(model.held.values().all(|held| *held <= cap), "a cap is kept");
            let held = model.held_by_account.values().max().copied().unwrap_or(0);
            prop_assert!(held <= share.unwrap_or(u32::MAX), "a share is kept");
        }
        model.parked.clear();
        model.wait(Duration::from_secs(10));
        for _ in 0..(model.rows.len() / cap.min(share.unwrap_or(cap)) as usize + 200) {
            model.release();
            model.claim_all(50);
            model.wait(Duration::from_millis(50));
        }
        prop_assert!(model.rows.is_empty(), "{:?}", model.rows);
    }
}
