//! What is looked at next, against a table that is a list: it answers as the statements do.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;
use crate::claim::given::{Given, MOST};

/// A row is due and visible from moments of its own, in microseconds; nobody sees it who looks while it is locked.
#[derive(Debug, Clone)]
struct Row {
    destination: String,
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

impl Model {
    fn new(default_room: u32) -> Model {
        Model {
            rows: Vec::new(),
            now: 1000 * SECOND,
            held: HashMap::new(),
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
        let id = self.rows.len() as i64 + 1;
        self.rows.push(Row { destination: destination.into(), due, visible, locked_until: 0, id });
    }

    fn rooms(&self) -> Rooms {
        let room = |name: &str| match self.parked.contains(name) {
            true => 0,
            false => self.default_room.saturating_sub(self.held.get(name).copied().unwrap_or(0)),
        };
        let known: BTreeSet<&String> = self.held.keys().chain(&self.parked).collect();
        let rooms = known.into_iter().map(|name| (name.as_str().into(), room(name))).collect();
        Rooms { rooms, default_room: self.default_room, parked: self.parked.len() }
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
        let room = |name: &str| told.get(name).copied().unwrap_or(given.others);
        assert!(!self.by_destination || told.len() <= MOST + NAMED, "{} names", told.len());
        let taken = match look {
            Look::Head => {
                let open: Vec<Row> = self.due().filter(|row| room(&row.destination) > 0).cloned().collect();
                let (taken, _) = self.grant(open.into_iter().take(wanted as usize).collect(), wanted, &room);
                let cost = Duration::from_millis(1) + self.dead;
                self.looks.saw_head(None, Duration::from_millis(1), 0);
                self.looks.saw_head(None, cost, taken.len() as u32);
                taken
            }
            Look::Around { around, .. } => {
                let is_named = |name: &str| around.named.iter().any(|(named, _)| &**named == name);
                let scanned: Vec<Row> = self
                    .due()
                    .filter(|row| Model::place(row) > around.after)
                    .take(around.most as usize)
                    .cloned()
                    .collect();
                let mut found: Vec<Row> = Vec::new();
                for (name, after) in &around.named {
                    let of_it = self.due().filter(|row| row.destination == **name && Model::place(row) > *after);
                    found.extend(of_it.take(room(name) as usize + 1).cloned());
                }
                found.extend(scanned.iter().filter(|row| !is_named(&row.destination)).cloned());
                self.read += found.len() + scanned.len();
                let (taken, left) = self.grant(found, wanted, &room);
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
        for name in &taken {
            *self.held.entry(name.clone()).or_default() += 1;
        }
        self.now += 2000;
        taken
    }

    fn grant(
        &mut self,
        found: Vec<Row>,
        wanted: u32,
        room: &impl Fn(&str) -> u32,
    ) -> (Vec<String>, Vec<(String, Position)>) {
        let mut places: HashMap<String, u32> = HashMap::new();
        let mut ranked: Vec<(u32, Row)> = Vec::new();
        let mut sorted = found;
        sorted.sort_by_key(|row| (row.due, row.id));
        for row in sorted {
            let place = places.entry(row.destination.clone()).or_default();
            *place += 1;
            ranked.push((*place, row));
        }
        let held = |name: &str| self.held.get(name).copied().unwrap_or(0);
        ranked.sort_by_key(|(place, row)| {
            (*place > room(&row.destination), held(&row.destination) + place, row.due, row.id)
        });
        let (mut taken, mut left) = (Vec::new(), BTreeMap::new());
        for (turn, (place, row)) in ranked.into_iter().enumerate() {
            if place > room(&row.destination) || turn >= wanted as usize {
                let first = left.entry(row.destination.clone()).or_insert(Model::place(&row));
                *first = Model::place(&row).min(*first);
            } else if row.locked_until <= self.now {
                self.rows.retain(|other| other.id != row.id);
                taken.push(row.destination);
            }
        }
        (taken, left.into_iter().collect())
    }

    fn list(&mut self) {
        let began = self.instant();
        let Some(from) = self.looks.begin_list(began) else { return };
        self.lists += 1;
        let looked_at = DatabaseTime::at(self.now);
        let names: BTreeSet<&String> =
            self.rows.iter().map(|row| &row.destination).filter(|name| ***name >= *from).collect();
        let destinations = names.into_iter().map(|name| Listed {
            destination: name.clone(),
            first_due: self.due().find(|row| row.destination == *name).map(Model::place),
            looked_at,
        });
        let listing = Listing { destinations: destinations.collect(), ended: true };
        let ended = began + Duration::from_millis(1) + self.dead;
        self.looks.listed(began, ended, Some(listing));
    }

    /// Every row in flight ends.
    fn release(&mut self) {
        self.held.clear();
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
    assert!(model.looks.waits_for("full") && !model.looks.waits_for("other"));
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
    assert!(model.looks.waits_for("anything"), "what is left is not known");
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
    let rooms = Rooms { rooms: [("full".into(), 0)].into(), default_room: 10, parked: 0 };
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
    let rooms = Rooms { rooms: [("full".into(), 0)].into(), default_room: 10, parked: 0 };
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
    fn no_row_is_ever_forgotten(events in prop::collection::vec(event(), 1..60), cap in 1..20_u32) {
        let mut model = Model::new(cap);
        for event in events {
            match event {
                Event::Insert { destination, count, ago, late } => for _ in 0..count {
                    model.insert_late(&format!("d{destination}"), model.now - ago, model.now - ago + late);
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
        }
        model.parked.clear();
        model.wait(Duration::from_secs(10));
        for _ in 0..(model.rows.len() / cap as usize + 200) {
            model.release();
            model.claim_all(50);
            model.wait(Duration::from_millis(50));
        }
        prop_assert!(model.rows.is_empty(), "{:?}", model.rows);
    }
}
