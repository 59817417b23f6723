//! A small world: one row, a few workers, a database, a receiver, and time. What may happen in it next, and what may never.
//! Every step of the row is made by `life::step`, and every decision of a worker by `life::Hold`; a mistake is put in here.

use std::fmt::Write;

use stateright::{Model, Path, Property};

use crate::life::{Event, Hold, Row, Settle, State, step};

/// Counted from now, which is `NOW` at all times; what is past is as good as now. Worlds that differ in their age alone are one,
/// which is why there are so few.
type Moment = u8;
/// Numbered anew after each step: only which are the same matters.
type Token = u8;

const NOW: Moment = 1;
/// How long a lease lasts, and how much of it an attempt and its settling need.
const LEASE: Moment = 2;
const ATTEMPT: Moment = 1;
/// How long a failed row waits.
const DELAY: Moment = 1;

pub const P2: &str = "P2 delivered means that a receiver took it";
pub const P3: &str = "P3 only the holder settles";
pub const P4: &str = "P4 one live grant at a time";
pub const P6: &str = "P6 no duplicate without a cause";
pub const P9: &str = "P9 neither grant nor attempt past the horizon";
pub const P10: &str = "P10 no end under a live lease";
pub const P11: &str = "P11 nothing leaves an end";
pub const P12: &str = "P12 every row comes to an end";
pub const COUNTED: &str = "the row counts its attempts";
pub const FOUND: &str = "a settle whose answer was lost is found again";

/// What cannot be ruled out, and is reached: at-least-once is all that there is to be had.
pub const EXAMPLES: [&str; 3] =
    ["a receiver takes it twice", "taken, and recorded as expired", "about to send under a lease that has lapsed"];

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub workers: usize,
    pub crashes: u8,
    /// Settles that are lost on the way to the database, or whose answers are.
    pub lost_settles: u8,
    /// By how much the database's clock may leap ahead.
    pub leaps: u8,
    /// Rows that workers keep until it is too late for an attempt.
    pub give_backs: u8,
    /// From the first attempt.
    pub horizon: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A delivery is recorded without looking at the token.
    UnfencedAck,
    /// So is a failure, and a row that is given back.
    UnfencedRelease,
    ExpiryOfLiveLeases,
    /// One worker judges by its own clock, which is ahead, what is due.
    WorkerClock,
    AckBeforeSend,
    AttemptPastHorizon,
    ForgetfulGiveBack,
    /// Nobody ends what is past its horizon.
    NoSweep,
}

/// The rules.
pub struct World {
    limits: Limits,
    mistake: Option<Mistake>,
}

/// All at one moment, and below the line what only an onlooker knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Now {
    /// Its moments are the database's.
    row: Row<Moment, Token>,
    /// Theirs are those of a clock that no one sets.
    workers: Vec<Worker>,

    /// Grants that were not given back.
    counted: u32,
    given_back: u8,
    /// Whether a receiver took it, and whether again.
    taken: bool,
    taken_twice: bool,
    /// How often a 2xx arrived, less those of which there is a reason why nobody recorded it.
    owed: i8,
    delivered_under: Option<Token>,
    crashes: u8,
    lost_settles: u8,
    leaps: u8,
    /// The promise that a step broke.
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Worker {
    Idle,
    /// With a row, and no attempt begun.
    Claimed(Lease),
    /// Told to go ahead; it may be stopped right here.
    Admitted(Lease),
    /// It knows how to settle the row.
    Judged {
        lease: Lease,
        how: Verdict,
        /// Whether it has a receiver's 2xx.
        heard: bool,
        /// Whether an earlier try to settle came to an unknown end.
        unsure: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Lease {
    token: Token,
    until: Moment,
    horizon: Moment,
}

/// As `Settle`, in some order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Verdict {
    Delivered,
    Retried,
    Quarantined,
    GivenBack,
}

impl Verdict {
    fn settle(self) -> Settle {
        match self {
            Verdict::Delivered => Settle::Delivered,
            Verdict::Retried => Settle::Retried,
            Verdict::Quarantined => Settle::Quarantined,
            Verdict::GivenBack => Settle::GivenBack,
        }
    }
}

impl Lease {
    fn hold(self) -> Hold<Moment> {
        Hold { until: self.until, horizon: self.horizon }
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    RequestLost,
    Taken,
    TakenAndReplyLost,
    Failed,
    Refused,
}

const REPLIES: [Reply; 5] = [Reply::RequestLost, Reply::Taken, Reply::TakenAndReplyLost, Reply::Failed, Reply::Refused];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Tick,
    Leap,
    /// Asked now, or a moment ago: an answer takes its time.
    Claim {
        worker: usize,
        asked_ago: Moment,
    },
    Check {
        worker: usize,
    },
    Send {
        worker: usize,
        reply: Reply,
    },
    Settle {
        worker: usize,
        committed: bool,
        answered: bool,
    },
    Abandon {
        worker: usize,
    },
    Crash {
        worker: usize,
    },
    Expire,
}

fn is_end(state: State) -> bool {
    matches!(state, State::Delivered | State::Expired | State::Invalid)
}

fn earlier(moment: Moment) -> Moment {
    (moment - 1).max(NOW)
}

impl World {
    pub fn new(limits: Limits, mistake: Option<Mistake>) -> World {
        World { limits, mistake }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Time goes on for as long as that makes a difference. A row that nobody has claimed yet is claimed at once, and one that
    /// was given back too often does not have to wait for its worker again.
    fn tick(&self, now: &mut Now) -> bool {
        let before = now.clone();
        let idle = now.workers.iter().all(|worker| *worker == Worker::Idle);
        let waits = now.workers.iter().any(|worker| matches!(worker, Worker::Claimed(_)));
        let over = is_end(now.row.state) && idle;
        if over || now.row.horizon.is_none() || waits && now.given_back >= self.limits.give_backs {
            return false;
        }
        now.age_row();
        for lease in now.workers.iter_mut().filter_map(Worker::lease) {
            lease.until = earlier(lease.until);
            lease.horizon = earlier(lease.horizon);
        }
        *now != before
    }

    /// The one door to the row. Notes what the step broke.
    fn change(&self, now: &mut Now, mut event: Event<Moment, Token>) -> bool {
        let before = now.row.clone();
        let is_live = before.token.is_some() && before.lease_until.is_some_and(|until| until > NOW);
        let (mut row, mut shown) = (before.clone(), None);
        match &mut event {
            Event::Settle { token, how, .. } => {
                shown = Some(*token);
                let unfenced = match how {
                    Settle::Delivered => self.makes(Mistake::UnfencedAck),
                    Settle::Retried | Settle::GivenBack => self.makes(Mistake::UnfencedRelease),
                    Settle::Quarantined => false,
                };
                *token = before.token.filter(|_| unfenced).unwrap_or(*token);
            }
            Event::Expire { .. } if self.makes(Mistake::ExpiryOfLiveLeases) => row.lease_until = None,
            Event::Claim { .. } | Event::Expire { .. } => {}
        }
        let Some(mut after) = step(&row, &event) else { return false };
        match event {
            Event::Claim { .. } => {
                now.counted += 1;
                if is_live {
                    now.broken = Some(P4);
                } else if before.horizon.is_some_and(|horizon| horizon <= NOW) {
                    now.broken = Some(P9);
                }
            }
            Event::Settle { how, .. } => {
                if before.token != shown {
                    now.broken = Some(P3);
                }
                if how == Settle::Delivered {
                    now.delivered_under = shown;
                }
                if how == Settle::GivenBack {
                    now.given_back += 1;
                    now.counted -= 1;
                    after.attempts += u32::from(self.makes(Mistake::ForgetfulGiveBack));
                }
            }
            Event::Expire { .. } if is_live => now.broken = Some(P10),
            Event::Expire { .. } => {}
        }
        if is_end(before.state) && after.state != before.state {
            now.broken = Some(P11);
        }
        now.row = after;
        true
    }

    fn claim(&self, now: &mut Now, worker: usize, asked_ago: Moment) -> bool {
        let moment = NOW + u8::from(self.makes(Mistake::WorkerClock) && worker == 0);
        let token = now.unused_token();
        let (lease_until, first_horizon) = (moment + LEASE, moment + self.limits.horizon);
        if !self.change(now, Event::Claim { token, now: moment, lease_until, first_horizon }) {
            return false;
        }
        let left = now.row.horizon.map_or(0, |horizon| horizon.saturating_sub(moment));
        let (until, horizon) = (NOW + LEASE - asked_ago, (NOW + left - asked_ago).max(NOW));
        now.workers[worker] = Worker::Claimed(Lease { token, until, horizon });
        true
    }

    fn check(&self, now: &mut Now, worker: usize) -> bool {
        let Worker::Claimed(lease) = now.workers[worker] else { return false };
        let mut hold = lease.hold();
        if self.makes(Mistake::AttemptPastHorizon) {
            hold.horizon = Moment::MAX;
        }
        now.workers[worker] = if hold.admits(NOW, NOW + ATTEMPT) {
            let is_past = now.row.token == Some(lease.token) && now.row.horizon.is_some_and(|it| it <= NOW);
            // Of a leap that nobody has told it of it can know nothing.
            if is_past && now.leaps == 0 {
                now.broken = Some(P9);
            }
            Worker::Admitted(lease)
        } else {
            Worker::Judged { lease, how: Verdict::GivenBack, heard: false, unsure: false }
        };
        true
    }

    fn send(&self, now: &mut Now, worker: usize, reply: Reply) -> bool {
        let Worker::Admitted(lease) = now.workers[worker] else { return false };
        if self.makes(Mistake::AckBeforeSend) {
            self.change(now, Event::Settle { token: lease.token, now: NOW, how: Settle::Delivered, due: NOW });
        }
        let taken = matches!(reply, Reply::Taken | Reply::TakenAndReplyLost);
        now.taken_twice |= now.taken && taken;
        now.taken |= taken;
        let how = match reply {
            Reply::Taken => Verdict::Delivered,
            Reply::RequestLost | Reply::Failed | Reply::TakenAndReplyLost => Verdict::Retried,
            Reply::Refused => Verdict::Quarantined,
        };
        let heard = reply == Reply::Taken;
        now.owed += i8::from(heard);
        now.workers[worker] = Worker::Judged { lease, how, heard, unsure: false };
        true
    }

    fn settle(&self, now: &mut Now, worker: usize, committed: bool, answered: bool) -> bool {
        let Worker::Judged { lease, how, heard, unsure } = now.workers[worker] else { return false };
        if unsure && !lease.hold().lasts(NOW) {
            return false;
        }
        let due = if how == Verdict::GivenBack { NOW } else { NOW + DELAY };
        let done =
            committed && self.change(now, Event::Settle { token: lease.token, now: NOW, how: how.settle(), due });
        if !answered {
            now.lost_settles += 1;
            now.workers[worker] = Worker::Judged { lease, how, heard, unsure: true };
            return true;
        }
        if !done {
            let was_ours = heard && now.delivered_under == Some(lease.token);
            if was_ours && !how.settle().may_have_made(now.row.state) {
                now.broken = Some(FOUND);
            }
            now.excuse(worker);
        }
        now.forget(worker);
        true
    }

    fn leave(now: &mut Now, worker: usize) -> bool {
        now.excuse(worker);
        now.forget(worker);
        true
    }
}

impl Worker {
    fn lease(&mut self) -> Option<&mut Lease> {
        match self {
            Worker::Idle => None,
            Worker::Claimed(lease) | Worker::Admitted(lease) | Worker::Judged { lease, .. } => Some(lease),
        }
    }
}

impl Now {
    fn age_row(&mut self) {
        let Row { due, lease_until, horizon, .. } = &mut self.row;
        *due = earlier(*due);
        *lease_until = lease_until.map(earlier);
        *horizon = horizon.map(earlier);
    }

    /// All that are named, in an order that does not depend on their numbers.
    fn tokens(&mut self) -> Vec<&mut Token> {
        let of_workers = self.workers.iter_mut().filter_map(Worker::lease).map(|lease| &mut lease.token);
        self.row.token.iter_mut().chain(self.delivered_under.iter_mut()).chain(of_workers).collect()
    }

    fn unused_token(&mut self) -> Token {
        self.tokens().into_iter().max().map_or(0, |token| *token + 1)
    }

    /// The same world under its one name: of tokens and counts only so much is kept as can still make a difference.
    fn normal(&mut self, limits: &Limits) {
        let mut order: Vec<Token> = Vec::new();
        for token in self.tokens() {
            let place = order.iter().position(|one| one == token).unwrap_or_else(|| {
                order.push(*token);
                order.len() - 1
            });
            *token = place as Token;
        }
        // Giving back asks whether it was the first attempt, and no more are given back than this.
        let most = u32::from(limits.give_backs) + 2;
        if self.counted == self.row.attempts && self.counted > most {
            (self.counted, self.row.attempts) = (most, most);
        }
    }

    /// The worker's 2xx will never be recorded under its lease.
    fn excuse(&mut self, worker: usize) {
        if self.is_unrecorded(&self.workers[worker]) {
            self.owed -= 1;
        }
    }

    fn is_unrecorded(&self, worker: &Worker) -> bool {
        matches!(worker, Worker::Judged { lease, heard: true, .. } if self.delivered_under != Some(lease.token))
    }

    fn forget(&mut self, worker: usize) {
        self.workers[worker] = Worker::Idle;
    }

    /// How many 2xx there should be: the one that is recorded, and those that workers have in hand.
    fn expected(&self) -> i8 {
        let in_hand = self.workers.iter().filter(|worker| self.is_unrecorded(worker)).count() as i8;
        i8::from(self.delivered_under.is_some()) + in_hand
    }

    /// Whether somebody may send under a lease that has lapsed, since it was stopped right after it had looked.
    fn is_late(&self) -> bool {
        self.workers.iter().any(|worker| matches!(worker, Worker::Admitted(lease) if !lease.hold().lasts(NOW)))
    }
}

impl Model for World {
    type State = Now;
    type Action = Act;

    fn init_states(&self) -> Vec<Now> {
        vec![Now {
            row: Row { state: State::Pending, token: None, lease_until: None, due: NOW, attempts: 0, horizon: None },
            workers: vec![Worker::Idle; self.limits.workers],
            counted: 0,
            given_back: 0,
            taken: false,
            taken_twice: false,
            owed: 0,
            delivered_under: None,
            crashes: 0,
            lost_settles: 0,
            leaps: 0,
            broken: None,
        }]
    }

    fn actions(&self, now: &Now, acts: &mut Vec<Act>) {
        acts.push(Act::Tick);
        if !self.makes(Mistake::NoSweep) {
            acts.push(Act::Expire);
        }
        if now.leaps < self.limits.leaps {
            acts.push(Act::Leap);
        }
        for (worker, doing) in now.workers.iter().enumerate() {
            match doing {
                // Of workers that do nothing, one will do.
                Worker::Idle if self.mistake.is_none() && now.workers[..worker].contains(&Worker::Idle) => {}
                Worker::Idle => {
                    // Who asks late again and again gives back again and again, until the horizon.
                    let late = now.given_back < self.limits.give_backs;
                    let ages = 0..=Moment::from(late);
                    acts.extend(ages.map(|asked_ago| Act::Claim { worker, asked_ago }));
                }
                Worker::Claimed(_) => acts.push(Act::Check { worker }),
                Worker::Admitted(_) => acts.extend(REPLIES.map(|reply| Act::Send { worker, reply })),
                Worker::Judged { lease, unsure, .. } => {
                    acts.push(Act::Settle { worker, committed: true, answered: true });
                    if now.lost_settles < self.limits.lost_settles {
                        let lost = [true, false];
                        acts.extend(lost.map(|committed| Act::Settle { worker, committed, answered: false }));
                    }
                    if *unsure && !lease.hold().lasts(NOW) {
                        acts.push(Act::Abandon { worker });
                    }
                }
            }
            if *doing != Worker::Idle && now.crashes < self.limits.crashes {
                acts.push(Act::Crash { worker });
            }
        }
    }

    fn next_state(&self, last: &Now, act: Act) -> Option<Now> {
        let mut now = last.clone();
        let changed = match act {
            Act::Tick => self.tick(&mut now),
            Act::Leap => {
                now.leaps += 1;
                now.age_row();
                now.row != last.row
            }
            Act::Claim { worker, asked_ago } => self.claim(&mut now, worker, asked_ago),
            Act::Check { worker } => self.check(&mut now, worker),
            Act::Send { worker, reply } => self.send(&mut now, worker, reply),
            Act::Settle { worker, committed, answered } => self.settle(&mut now, worker, committed, answered),
            Act::Abandon { worker } => World::leave(&mut now, worker),
            Act::Crash { worker } => {
                now.crashes += 1;
                World::leave(&mut now, worker)
            }
            Act::Expire => self.change(&mut now, Event::Expire { now: NOW }),
        };
        // Workers have no names, but for the one whose clock is wrong.
        if !self.makes(Mistake::WorkerClock) {
            now.workers.sort_unstable();
        }
        now.normal(&self.limits);
        changed.then_some(now)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always(P2, |_, now: &Now| now.row.state != State::Delivered || now.taken),
            Property::always(P3, |_, now: &Now| now.broken != Some(P3)),
            Property::always(P4, |_, now: &Now| now.broken != Some(P4)),
            Property::always(P6, |_, now: &Now| now.owed == now.expected()),
            Property::always(P9, |_, now: &Now| now.broken != Some(P9)),
            Property::always(P10, |_, now: &Now| now.broken != Some(P10)),
            Property::always(P11, |_, now: &Now| now.broken != Some(P11)),
            Property::always(COUNTED, |_, now: &Now| now.row.attempts == now.counted),
            Property::always(FOUND, |_, now: &Now| now.broken != Some(FOUND)),
            Property::eventually(P12, |_, now: &Now| is_end(now.row.state)),
            Property::sometimes(EXAMPLES[0], |_, now: &Now| now.taken_twice),
            Property::sometimes(EXAMPLES[1], |_, now: &Now| now.row.state == State::Expired && now.taken),
            Property::sometimes(EXAMPLES[2], |_, now: &Now| now.is_late()),
        ]
    }
}

/// A way through the world, a line for each step.
pub fn told(path: Path<Now, Act>) -> String {
    let (mut text, mut ticks) = (String::new(), 0);
    for (now, act) in path.into_vec() {
        if let Some(act) = act {
            ticks += i32::from(act == Act::Tick);
            let _ = writeln!(text, "  at {ticks}, row {:?}, attempts {}: {act:?}", now.row.state, now.row.attempts);
        }
    }
    text
}
