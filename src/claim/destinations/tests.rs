use super::*;

const SECOND: Duration = Duration::from_secs(1);
const EVEN: f64 = 0.5;
const RULES: Rules = Rules { start: 8, most: 64, park_after: 5 };
const ACCEPTED: Outcome = Outcome::Accepted;
const REFUSED: Outcome = Outcome::Failed(Reason::Connect);

/// One replica's view, driven by hand.
struct Replica {
    destinations: Destinations,
    name: Arc<str>,
}

impl Replica {
    fn new() -> Replica {
        Replica { destinations: Destinations::new(RULES, 1), name: "buyer.example.com".into() }
    }

    fn room(&mut self, now: Instant) -> u32 {
        self.destinations.rooms(now).of(&self.name)
    }

    /// One row, from its place to its end.
    fn attempt(&mut self, outcome: Outcome, asked: Option<Duration>, now: Instant) -> Turn {
        let entry = self.destinations.entered(&self.name, now);
        let turn = self.destinations.report(&self.name, entry, outcome, asked, now, EVEN);
        self.destinations.left(&self.name, entry, now);
        turn
    }

    fn parked(&mut self, now: Instant) {
        let turns: Vec<Turn> = (1..=5).map(|ms| self.attempt(REFUSED, None, now + Duration::from_millis(ms))).collect();
        assert_eq!(turns[3..], [Turn::None, Turn::Parked { reason: Reason::Connect, pause: SECOND, again: false }]);
    }

    /// Tells what there is to tell, as the list would have it.
    fn tell(&mut self, now: Instant) -> Vec<Standing> {
        let untold = self.destinations.untold(0, now);
        self.destinations.told(0, &untold);
        untold.into_iter().map(|one| one.now).collect()
    }

    fn adopt(&mut self, left: Option<Duration>, now: Instant) {
        let listed = |left| Listed { name: self.name.to_string(), left, reason: Some(Reason::Timeout), trips: 3 };
        let list: Vec<Listed> = left.map(listed).into_iter().collect();
        self.destinations.adopt(0, &list, true, now, now);
    }
}

#[test]
fn rows_take_room_and_give_it_back() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    assert_eq!(replica.room(now), 8);
    let entries: Vec<Entry> = (0..8).map(|_| replica.destinations.entered(&replica.name.clone(), now)).collect();
    assert_eq!(replica.room(now), 0);
    assert_eq!(replica.destinations.in_flight(&replica.name), 8);
    for entry in entries {
        replica.destinations.left(&replica.name.clone(), entry, now);
    }
    assert_eq!(replica.room(now), 8);
}

#[test]
fn a_destination_that_fails_has_no_room_then_room_for_one_and_then_few() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.parked(now);
    assert_eq!((replica.room(now + SECOND / 2), replica.destinations.parked(now + SECOND / 2)), (0, 1));
    let now = now + 2 * SECOND;
    assert_eq!(replica.room(now), 1);
    let probe = replica.destinations.entered(&replica.name.clone(), now);
    assert_eq!(replica.room(now), 0);
    let turn = replica.destinations.report(&replica.name.clone(), probe, ACCEPTED, None, now, EVEN);
    assert_eq!((turn, replica.destinations.take_let_go(0)), (Turn::LetGo, true));
    assert_eq!(replica.room(now), 0, "the probe holds the only place until it is settled");
    replica.destinations.left(&replica.name.clone(), probe, now);
    assert_eq!(replica.room(now), 1);
    assert_eq!(replica.attempt(ACCEPTED, None, now), Turn::None);
    assert_eq!(replica.room(now), 2);
}

#[test]
fn a_probe_that_ends_without_a_word_leaves_room_for_another() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.parked(now);
    let now = now + 2 * SECOND;
    let probe = replica.destinations.entered(&replica.name.clone(), now);
    replica.destinations.left(&replica.name.clone(), probe, now);
    assert_eq!(replica.room(now), 1);
    assert_eq!(replica.attempt(Outcome::Unknown, None, now), Turn::None);
    assert_eq!(replica.room(now), 1);
}

#[test]
fn what_is_asked_for_parks_once_however_often_it_is_said() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    let pause = 60 * SECOND;
    let first = replica.attempt(Outcome::Throttled, Some(pause), now);
    assert_eq!(first, Turn::Parked { reason: Reason::RetryAfter, pause, again: false });
    assert_eq!(replica.attempt(Outcome::Throttled, Some(SECOND), now), Turn::None);
    assert_eq!((replica.room(now + 59 * SECOND), replica.room(now + pause)), (0, 1));
}

#[test]
fn rows_of_no_known_destination_share_the_limit_and_are_never_parked() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.name = "".into();
    assert_eq!(replica.room(now), 64);
    for _ in 0..100 {
        assert_eq!(replica.attempt(REFUSED, Some(SECOND), now), Turn::None);
    }
    assert_eq!(replica.room(now), 64);
}

#[test]
fn what_was_learned_is_kept_for_a_while_and_what_is_parked_for_longer() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    let began = now - SECOND;
    let entry = Entry { began, ..replica.destinations.entered(&replica.name.clone(), now) };
    replica.destinations.report(&replica.name.clone(), entry, Outcome::Throttled, None, now, EVEN);
    replica.destinations.left(&replica.name.clone(), entry, now);
    assert_eq!((replica.room(now + 59 * SECOND), replica.room(now + 61 * SECOND)), (4, 8));
    replica.parked(now);
    assert_eq!((replica.room(now + 3500 * SECOND), replica.room(now + 3700 * SECOND)), (1, 8));
}

#[test]
fn each_turn_is_told_once_and_a_pause_that_is_over_is_none() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    assert!(replica.tell(now).is_empty());
    replica.parked(now);
    let told = replica.tell(now + Duration::from_millis(5));
    assert_eq!(told, [Standing::Parked { left: SECOND, reason: Some(Reason::Connect), trips: 1 }]);
    assert!(replica.tell(now).is_empty());
    assert_eq!(replica.attempt(ACCEPTED, None, now + 2 * SECOND), Turn::LetGo);
    assert_eq!(replica.tell(now + 2 * SECOND), [Standing::LetGo]);
    assert!(replica.tell(now + 2 * SECOND).is_empty());
}

#[test]
fn a_turn_while_the_others_were_being_told_is_told_after_it() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.parked(now);
    let untold = replica.destinations.untold(0, now);
    assert_eq!(
        replica.attempt(REFUSED, None, now + 2 * SECOND),
        Turn::Parked { reason: Reason::Connect, pause: 2 * SECOND, again: true }
    );
    replica.destinations.told(0, &untold);
    assert_eq!(replica.tell(now + 2 * SECOND).len(), 1);
}

#[test]
fn another_replicas_word_counts_unless_ours_is_newer() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.adopt(Some(10 * SECOND), now);
    assert_eq!((replica.room(now), replica.room(now + 10 * SECOND)), (0, 1));
    assert!(replica.tell(now).is_empty(), "the list has it");
    replica.adopt(None, now);
    assert_eq!(replica.room(now), 1, "it was let go, and begins with one");
    assert!(replica.destinations.take_let_go(0));

    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.parked(now);
    replica.adopt(None, now);
    assert_eq!(replica.room(now), 0, "what the list does not have yet is not gone from it");
    replica.tell(now);
    replica.adopt(None, now);
    assert_eq!(replica.room(now), 1);
}

#[test]
fn a_list_that_was_not_read_to_its_end_lets_nothing_go() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.adopt(Some(10 * SECOND), now);
    replica.destinations.adopt(0, &[], false, now, now);
    assert_eq!(replica.room(now), 0);
}

#[test]
fn the_same_list_again_changes_nothing_and_leaves_a_probe_its_say() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.adopt(Some(SECOND), now);
    let later = now + 2 * SECOND;
    let probe = replica.destinations.entered(&replica.name.clone(), later);
    // The list may have the pause end a little later than the replica does that began it.
    for left in [Duration::ZERO, Duration::from_millis(200)] {
        replica.adopt(Some(left), later);
        assert_eq!(replica.room(later + left), 0, "it is on its way");
    }
    let turn = replica.destinations.report(&replica.name.clone(), probe, ACCEPTED, None, later, EVEN);
    assert_eq!(turn, Turn::LetGo);
}

#[test]
fn a_probe_that_another_replica_won_is_waited_for() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.parked(now);
    replica.tell(now);
    let now = now + 2 * SECOND;
    assert!(replica.destinations.is_half_open("buyer.example.com", now));
    replica.destinations.lost_probe(0, "buyer.example.com", now + 15 * SECOND, now);
    assert_eq!((replica.room(now), replica.room(now + 15 * SECOND)), (0, 1));
    assert!(replica.tell(now).is_empty());
    assert_eq!(replica.destinations.next_probe(now), Some(now + 15 * SECOND));
}

fn listed(left: Duration) -> [Listed; 1] {
    [Listed { name: "buyer.example.com".into(), left, reason: Some(Reason::Connect), trips: 1 }]
}

#[test]
fn what_one_outbox_finds_out_is_told_to_the_replicas_of_all() {
    let (name, now): (Arc<str>, _) = ("buyer.example.com".into(), Instant::now());
    let mut destinations = Destinations::new(RULES, 2);
    let entry = destinations.entered(&name, now);
    destinations.report(&name, entry, Outcome::Throttled, Some(10 * SECOND), now, 0.5);
    for list in [0, 1] {
        let untold = destinations.untold(list, now);
        assert!(matches!(untold[..], [Untold { now: Standing::Parked { .. }, .. }]), "list {list}");
        destinations.told(list, &untold);
        assert!(destinations.untold(list, now).is_empty());
    }
    // A probe of the first's replicas was answered.
    destinations.adopt(0, &[], true, now, now);
    assert!(destinations.take_let_go(0) && destinations.take_let_go(1));
    assert!(destinations.untold(0, now).is_empty());
    assert!(matches!(destinations.untold(1, now)[..], [Untold { now: Standing::LetGo, .. }]));
}

/// Or each would go on telling the other, a little later each time.
#[test]
fn what_is_learned_from_one_list_is_not_told_to_another() {
    let now = Instant::now();
    let mut destinations = Destinations::new(RULES, 2);
    destinations.adopt(0, &listed(10 * SECOND), true, now, now);
    assert_eq!(destinations.parked(now), 1);
    for list in [0, 1] {
        assert!(destinations.untold(list, now).is_empty(), "list {list}");
    }
    // The other list never had it, and so cannot have lost it.
    destinations.adopt(1, &[], true, now, now);
    assert_eq!(destinations.parked(now), 1);
    destinations.adopt(0, &[], true, now, now);
    assert_eq!((destinations.parked(now), destinations.untold(1, now).len()), (0, 0));
}

#[test]
fn a_pause_that_ended_unnoticed_is_still_to_be_told_of() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    assert_eq!(replica.destinations.next_probe(now), None);
    replica.parked(now);
    let ends = replica.destinations.next_probe(now).expect("it is parked");
    replica.destinations.rooms(ends + SECOND);
    assert_eq!(replica.destinations.next_probe(now), Some(ends), "whoever looked last before it ended is told");
    assert_eq!(replica.destinations.next_probe(ends), None, "once");
}

#[test]
fn a_cap_by_hand_holds_before_the_first_row_is_kept_in_mind_and_ends_when_no_list_has_it() {
    let (mut replica, now) = (Replica::new(), Instant::now());
    replica.destinations = Destinations::new(RULES, 2);
    let named = |most| [("buyer.example.com".to_owned(), most)];
    replica.destinations.adopt_caps(0, &named(2));
    assert_eq!(replica.room(now), 2);
    assert_eq!(replica.room(now + 1000 * SECOND), 2, "it was forgotten");
    // The lower one of two outboxes counts, and growth ends there.
    replica.destinations.adopt_caps(1, &named(1));
    for ms in 1..100 {
        replica.attempt(ACCEPTED, None, now + Duration::from_millis(ms));
    }
    assert_eq!(replica.room(now), 1);
    replica.destinations.adopt_caps(1, &[]);
    assert_eq!(replica.room(now), 1, "what it lost is grown back");
    replica.attempt(ACCEPTED, None, now + SECOND);
    assert_eq!(replica.room(now + SECOND), 2);
    replica.destinations.adopt_caps(0, &[]);
    for ms in 1..10 {
        replica.attempt(ACCEPTED, None, now + SECOND + Duration::from_millis(ms));
    }
    assert!(replica.room(now + 2 * SECOND) >= 2);
}
