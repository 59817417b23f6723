//! What is broken when, from a seed: the same seed gives the same plan. It breaks nothing itself.

use std::time::Duration;

use crate::DAEMONS;
use crate::RECEIVERS;

/// Sebastiano Vigna's SplitMix64: small, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Between the two.
    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.next() % (to - from + 1))
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

/// How a way is, between a worker and Postgres or between everyone and a receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weather {
    Clear,
    /// Everything arrives so much later.
    Late(Duration),
    /// So many bytes a second.
    Narrow(usize),
    /// Connections stay open, and nothing goes through: half of them is gone.
    Dumb,
    /// Connections are closed, and new ones too.
    Down,
}

/// How a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mood {
    Good,
    Refuses(u16),
    Silent,
    Unread,
    Closes,
    Garbles,
    Drips,
    NeverEnds,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Database {
    Restart,
    Crash,
    Terminate,
    ReadOnly,
}

/// One thing that breaks. Numbers are of daemons and receivers; the worker after the last daemon is the SDK's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    Kill(usize),
    /// By its own hand, at a kill point that it reaches so many times.
    KillAt(usize, &'static str, usize),
    /// Stopped for longer than its leases.
    Stop(usize),
    /// Told to end, so many times in a row.
    Terminate(usize, usize),
    /// Its clock is so many seconds off.
    Skew(i64),
    /// It can open no file and no socket.
    Files(usize),
    Memory(usize),
    /// What it logs finds no room.
    Logs(usize),
    ToDatabase(usize, Weather),
    ResetDatabase(usize),
    ToReceiver(usize, Weather),
    ResetReceiver(usize),
    Receiver(usize, Mood),
    Database(Database),
}

impl Trouble {
    /// Under which it is counted, and which duplicates are put down to.
    pub fn title(&self) -> &'static str {
        match self {
            Trouble::Kill(_) => "killed",
            Trouble::KillAt(..) => "killed at a kill point",
            Trouble::Stop(_) => "stopped past the lease",
            Trouble::Terminate(..) => "told to end",
            Trouble::Skew(_) => "clock off by minutes",
            Trouble::Files(_) => "no descriptors",
            Trouble::Memory(_) => "no memory",
            Trouble::Logs(_) => "disk full for logs",
            Trouble::ToDatabase(_, weather) => match weather {
                Weather::Late(_) => "database late",
                Weather::Narrow(_) => "database narrow",
                Weather::Dumb => "database half open",
                _ => "database cut off",
            },
            Trouble::ResetDatabase(_) => "database reset",
            Trouble::ToReceiver(_, weather) => match weather {
                Weather::Late(_) => "receiver late",
                Weather::Narrow(_) => "receiver narrow",
                Weather::Dumb => "receiver half open",
                _ => "receiver cut off",
            },
            Trouble::ResetReceiver(_) => "receiver reset",
            Trouble::Receiver(..) => "receiver misbehaves",
            Trouble::Database(Database::Restart) => "postgres restarted",
            Trouble::Database(Database::Crash) => "postgres killed",
            Trouble::Database(Database::Terminate) => "postgres ends all sessions",
            Trouble::Database(Database::ReadOnly) => "postgres read-only",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    pub at: Duration,
    pub trouble: Trouble,
    pub lasts: Duration,
}

pub struct Plan {
    /// How long everything goes on.
    pub storm: Duration,
    /// Between the beginnings of two troubles, on average.
    pub gap: Duration,
    pub with_database: bool,
    pub lease: Duration,
}

/// Those that a row passes on its way, and those of the work around it.
const POINTS: [&str; 12] = [
    "k1",
    "k2",
    "k3",
    "k4",
    "k5",
    "k7",
    "k8",
    "outbox/settle_delivered",
    "outbox/settle_retried",
    "k10",
    "outbox/expire_overdue",
    "outbox/purge_settled",
];
const KINDS: usize = 22;
const OF_THE_DATABASE: usize = 4;

impl Plan {
    /// Every kind once, in an order of the seed's, then every kind again.
    pub fn events(&self, seed: u64) -> Vec<Event> {
        let mut random = Random::new(seed);
        let mut events = Vec::new();
        let mut order: Vec<usize> = Vec::new();
        let gap = self.gap.as_millis() as u64;
        let mut at = random.millis(0, gap);
        while at < self.storm {
            if order.is_empty() {
                order = (0..KINDS + if self.with_database { OF_THE_DATABASE } else { 0 }).collect();
                random.shuffle(&mut order);
            }
            let kind = order.pop().expect("it was filled");
            let (trouble, lasts) = self.trouble(kind, &mut random);
            events.push(Event { at, trouble, lasts });
            at += random.millis(gap / 2, gap * 3 / 2);
        }
        events
    }

    fn trouble(&self, kind: usize, random: &mut Random) -> (Trouble, Duration) {
        let daemon = random.below(DAEMONS);
        let worker = random.below(DAEMONS + 1);
        let receiver = random.below(RECEIVERS);
        let short = random.millis(500, 3000);
        let late = Weather::Late(random.millis(50, 400));
        let narrow = Weather::Narrow(random.pick(&[8 << 10, 32 << 10]));
        let trouble = match kind {
            0 => Trouble::Kill(worker),
            1 | 2 => Trouble::KillAt(daemon, random.pick(&POINTS), 1 + random.below(4)),
            3 => return (Trouble::Stop(worker), self.lease + short),
            4 => Trouble::Terminate(daemon, 1 + random.below(4)),
            5 => return (Trouble::Skew(random.pick(&[300, -300])), 3 * short + Duration::from_secs(3)),
            6 => Trouble::Files(daemon),
            7 => Trouble::Memory(daemon),
            8 => return (Trouble::Logs(daemon), 2 * short),
            9 => Trouble::ToDatabase(worker, late),
            10 => Trouble::ToDatabase(worker, narrow),
            11 => return (Trouble::ToDatabase(worker, Weather::Dumb), 2 * short),
            12 => Trouble::ToDatabase(worker, Weather::Down),
            13 => Trouble::ResetDatabase(worker),
            14 => Trouble::ToReceiver(receiver, late),
            15 => Trouble::ToReceiver(receiver, narrow),
            16 => Trouble::ToReceiver(receiver, Weather::Dumb),
            17 => Trouble::ToReceiver(receiver, Weather::Down),
            18 => Trouble::ResetReceiver(receiver),
            19 => Trouble::Receiver(receiver, Mood::Refuses(random.pick(&[500, 503, 429]))),
            20 => Trouble::Receiver(receiver, random.pick(&[Mood::Silent, Mood::Unread, Mood::Drips])),
            21 => Trouble::Receiver(receiver, random.pick(&[Mood::Closes, Mood::Garbles, Mood::NeverEnds])),
            22 => Trouble::Database(Database::Restart),
            23 => Trouble::Database(Database::Crash),
            24 => Trouble::Database(Database::Terminate),
            _ => Trouble::Database(Database::ReadOnly),
        };
        (trouble, short)
    }
}

#[test]
fn a_seed_gives_one_plan_and_each_kind_comes_once_before_any_comes_twice() {
    let plan = Plan {
        storm: Duration::from_secs(60),
        gap: Duration::from_secs(1),
        with_database: true,
        lease: Duration::from_secs(9),
    };
    assert_eq!(plan.events(7), plan.events(7));
    assert_ne!(plan.events(7), plan.events(8));
    let mut titles: Vec<&str> =
        plan.events(7).iter().take(KINDS + OF_THE_DATABASE).map(|e| e.trouble.title()).collect();
    titles.sort_unstable();
    titles.dedup();
    // Two kinds are kill points, and three are receivers.
    assert_eq!(titles.len(), KINDS + OF_THE_DATABASE - 3, "{titles:?}");
}
