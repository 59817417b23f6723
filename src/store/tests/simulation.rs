//! Random lives of a few rows, lived twice: by the real statements on real Postgres, and by `life::step`. After every step both
//! tell the same of every row; at the end the history is held against the promises. `OUTBOXD_SIMULATION=1000` lives more of them.
//!
//! Time is made to pass by moving every row's times into the past. All times are multiples of a unit that is much longer than a
//! whole case takes, so that no comparison hangs on how fast the machine is.

#[path = "../../../tests/support/history.rs"]
mod history;
#[path = "../../../tests/support/moment.rs"]
mod moment;
#[path = "../../../tests/support/recorder.rs"]
mod recorder;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::history::{Commit, Enqueued, Fault, History, Receipt, fingerprint, moment as now};
use super::*;
use crate::life::{self, Event, Hold, Settle, State, step};
use crate::verdict::{
    Attempt, Backoff, Cause, Class, Facts, Failure, Fault as NetworkFault, Reply, Sent, StatusPolicy, Verdict,
    classify, schedule,
};

const UNIT: Duration = Duration::from_secs(100);
/// In units: a lease, what an attempt needs of it, the horizon that the table allows at least.
const LEASE: i64 = 6;
const ATTEMPT: i64 = 2;
const HORIZON: i64 = 864;
const WORKERS: usize = 3;
/// Envelope keys, of which each worker holds some.
const KEYS: u8 = 2;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Sealed under one of the keys; a composed row waits and is leased in columns of its own.
    Enqueue {
        key: u8,
        composed: bool,
    },
    Claim {
        worker: usize,
        look: Look,
    },
    /// A worker of the SDK takes the first row, and is not heard of again. Its lease is in one column alone: a row that it holds
    /// looks due.
    SdkClaim,
    Attempt {
        worker: usize,
        nth: usize,
        reply: Answered,
    },
    /// Without an answer, the worker does not learn what became of it, and may settle again.
    Settle {
        worker: usize,
        nth: usize,
        answered: bool,
    },
    Crash {
        worker: usize,
    },
    Pass {
        units: i64,
    },
    Expire,
    Purge,
    /// A key is added or taken away, and loaded.
    Reload {
        worker: usize,
        key: u8,
        held: bool,
    },
    Migrate,
}

/// The statements that claim: all rows in their order, the same around those without room, and by their destination's name.
#[derive(Clone, Copy, Debug)]
enum Look {
    Due,
    Around,
    Named,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answered {
    RequestLost,
    ReplyLost,
    With(u16),
}

fn any_op() -> impl Strategy<Value = Op> {
    let worker = 0..WORKERS;
    let look = prop_oneof![Just(Look::Due), Just(Look::Around), Just(Look::Named)];
    let reply = prop_oneof![
        Just(Answered::RequestLost),
        Just(Answered::ReplyLost),
        prop_oneof![4 => Just(200), 3 => Just(503), 1 => Just(410), 1 => Just(404)].prop_map(Answered::With),
    ];
    let units = prop_oneof![6 => 1i64..12, 2 => Just(40), 1 => Just(HORIZON), 1 => Just(HORIZON / 2)];
    prop_oneof![
        4 => (0..KEYS, any::<bool>()).prop_map(|(key, composed)| Op::Enqueue { key, composed }),
        8 => (worker.clone(), look).prop_map(|(worker, look)| Op::Claim { worker, look }),
        2 => Just(Op::SdkClaim),
        10 => (worker.clone(), 0usize..4, reply).prop_map(|(worker, nth, reply)| Op::Attempt { worker, nth, reply }),
        10 => (worker.clone(), 0usize..4, prop::bool::weighted(0.8))
            .prop_map(|(worker, nth, answered)| Op::Settle { worker, nth, answered }),
        1 => worker.clone().prop_map(|worker| Op::Crash { worker }),
        7 => units.prop_map(|units| Op::Pass { units }),
        2 => Just(Op::Expire),
        1 => Just(Op::Purge),
        1 => (worker, 0..KEYS, any::<bool>()).prop_map(|(worker, key, held)| Op::Reload { worker, key, held }),
        1 => Just(Op::Migrate),
    ]
}

/// One row as it should be.
struct Twin {
    id: i64,
    composed: bool,
    key: String,
    body: Vec<u8>,
    sealed_under: u8,
    life: life::Row<i64, u32>,
    purged: bool,
}

struct Worker {
    store: Store,
    keys: BTreeSet<u8>,
    held: Vec<Held>,
}

struct Held {
    twin: usize,
    lease: Lease,
    token: u32,
    hold: Hold<i64>,
    attempts: i32,
    verdict: Option<Verdict>,
    /// It was settled once, and the answer was lost.
    unsure: bool,
}

struct Simulation {
    database: Database,
    workers: Vec<Worker>,
    twins: Vec<Twin>,
    /// In units since the beginning, which was then by the database's clock.
    clock: i64,
    began: f64,
    tokens: u32,
    history: History,
}

fn name(worker: usize) -> String {
    format!("worker-{worker}")
}

fn units(time: Duration) -> i64 {
    time.as_secs_f64().div_euclid(UNIT.as_secs_f64()) as i64 + i64::from(time.as_secs_f64() % UNIT.as_secs_f64() > 0.0)
}

fn span(units: i64) -> Duration {
    UNIT * u32::try_from(units.max(0)).expect("a case is not that long")
}

fn known(state: RowState) -> State {
    match state {
        RowState::Pending => State::Pending,
        RowState::InFlight => State::InFlight,
        RowState::Delivered => State::Delivered,
        RowState::Expired => State::Expired,
        RowState::Invalid => State::Invalid,
        RowState::Unknown => panic!("the table has states of its own"),
    }
}

fn is_open(state: State) -> bool {
    matches!(state, State::Pending | State::InFlight)
}

impl Simulation {
    /// On a table that the SDK made, as every migration must find it.
    async fn new() -> Simulation {
        let database = Database::new(Schema::Sdk).await;
        recorder::record(&database.client, TABLE).await;
        let worker = |nth| Worker {
            store: Store::open(&config(&format!("{}&application_name={}", database.url, name(nth))), silent())
                .expect("a good configuration"),
            keys: (0..KEYS).collect(),
            held: Vec::new(),
        };
        let workers = (0..WORKERS).map(worker).collect();
        let began = database.text("select extract(epoch from clock_timestamp())::text", &[]).await;
        let began = began.parse().expect("a number of seconds");
        let history = History::default();
        Simulation { database, workers, twins: Vec::new(), clock: 0, began, tokens: 0, history }
    }

    async fn live(ops: &[Op]) {
        let mut simulation = Simulation::new().await;
        for op in ops {
            simulation.act(*op).await;
            simulation.compare(op).await;
        }
        simulation.settle_everything().await;
    }

    async fn act(&mut self, op: Op) {
        match op {
            Op::Enqueue { key, composed } => self.enqueue(key, composed).await,
            Op::Claim { worker, look } => self.claim(worker, look).await,
            Op::SdkClaim => self.claim_as_the_sdk().await,
            Op::Attempt { worker, nth, reply } => self.attempt(worker, nth, reply),
            Op::Settle { worker, nth, answered } => self.settle(worker, nth, answered).await,
            Op::Crash { worker } => {
                self.history.faults.push(Fault::kill(&name(worker)));
                self.workers[worker].held.clear();
            }
            Op::Pass { units } => self.pass(units).await,
            Op::Expire => self.expire().await,
            Op::Purge => self.purge().await,
            Op::Reload { worker, key, held } => {
                let keys = &mut self.workers[worker].keys;
                if held {
                    keys.insert(key)
                } else {
                    keys.remove(&key)
                };
            }
            Op::Migrate => {
                let patience = Duration::from_secs(60);
                self.database.store.migrate(patience, |_| {}).await.expect("the migrations apply");
                // Which finds that attempts can be written down from now on.
                self.database.store.preflight().await.expect("it answers");
            }
        }
    }

    async fn enqueue(&mut self, sealed_under: u8, composed: bool) {
        let key = format!("key-{}", self.twins.len());
        let body = format!("{key} under {sealed_under}").into_bytes();
        let sql = format!(
            "insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, \
             encrypted_body, envelope_nonce, retry_horizon_seconds, state, lease_expires_at) \
             values ($1, 'account', 'create_media_buy', 'completed', 'https://a.example/hook', 'op', $1, $2, \
             convert_to('twelve bytes', 'UTF8'), 86400, case when $3 then 'in_flight' else 'pending' end, \
             case when $3 then timestamptz '9999-01-01 00:00:00+00' end) returning id"
        );
        let row = self.database.client.query_one(&sql, &[&key, &body, &composed]).await.expect("the table takes it");
        let life = life::Row {
            state: State::Pending,
            token: None,
            lease_until: None,
            due: self.clock,
            attempts: 0,
            horizon: None,
        };
        let commit = Commit::Known;
        self.history.enqueued.push(Enqueued { key: key.clone(), body: fingerprint(&body), commit });
        self.twins.push(Twin { id: row.get(0), composed, key, body, sealed_under, life, purged: false });
    }

    async fn claim(&mut self, worker: usize, look: Look) {
        self.tokens += 1;
        let token = self.tokens;
        let lease_token = LeaseToken::new(u128::from(token).to_be_bytes());
        let request = ClaimRequest { token: lease_token, lease: span(LEASE), ..request(0) };
        let store = &self.workers[worker].store;
        let head = Around { after: Position::HEAD, most: 100, named: Vec::new() };
        let claimed = match look {
            Look::Due => store.claim_due(&request).await.expect("it claims").rows,
            Look::Around => store.claim_around(&request, &head, u32::MAX).await.expect("it claims").0,
            Look::Named => {
                let named = Around { most: 0, named: vec![("a.example".into(), Position::HEAD)], ..head };
                store.claim_around(&request, &named, u32::MAX).await.expect("it claims").0
            }
        };
        let (now, lease_until, first_horizon) = (self.clock, self.clock + LEASE, self.clock + HORIZON);
        let event = Event::Claim { token, now, lease_until, first_horizon };
        let mut granted = BTreeSet::new();
        for (nth, twin) in self.twins.iter_mut().enumerate().filter(|(_, twin)| !twin.purged) {
            let Some(after) = step(&twin.life, &event) else { continue };
            twin.life = after;
            granted.insert(twin.id);
            let found = claimed.iter().find(|claimed| claimed.lease().id == twin.id);
            let Some(Claimed::Whole { lease, row, .. }) = found else { panic!("{} should be claimed", twin.key) };
            assert_eq!((row.attempt_count.cast_unsigned(), &row.encrypted_body), (twin.life.attempts, &twin.body));
            assert_eq!(row.idempotency_key, twin.key);
            let hold = Hold { until: lease_until, horizon: twin.life.horizon.expect("it is counted from now") };
            let (lease, attempts) = (lease.clone(), row.attempt_count);
            let held = Held { twin: nth, lease, token, hold, attempts, verdict: None, unsure: false };
            self.workers[worker].held.push(held);
        }
        let ids: BTreeSet<i64> = claimed.iter().map(|claimed| claimed.lease().id).collect();
        assert_eq!(ids, granted, "claimed, and claimable");
    }

    /// By the SDK's own conditions and order: one row, and never a composed one.
    async fn claim_as_the_sdk(&mut self) {
        self.tokens += 1;
        let token = self.tokens;
        let sql = format!(
            "update {TABLE} set state = 'in_flight', lease_token = $1, lease_expires_at = now() + $2 * interval '1 second', \
             attempt_count = attempt_count + 1, first_attempt_at = coalesce(first_attempt_at, now()), \
             retry_until = coalesce(retry_until, now() + retry_horizon_seconds * interval '1 second'), updated_at = now() \
             where id = (select id from {TABLE} where (retry_until is null or retry_until > now()) \
             and (state = 'pending' and available_at <= now() or state = 'in_flight' and lease_expires_at <= now()) \
             order by available_at, id limit 1 for update skip locked) returning id"
        );
        let spelt = LeaseToken::new(u128::from(token).to_be_bytes());
        let seconds = span(LEASE).as_secs_f64();
        let taken = self.database.client.query_opt(&sql, &[&spelt.as_str(), &seconds]).await.expect("it claims");
        let (now, lease_until, first_horizon) = (self.clock, self.clock + LEASE, self.clock + HORIZON);
        let event = Event::Claim { token, now, lease_until, first_horizon };
        let claimable = self.twins.iter_mut().filter(|twin| !twin.purged && !twin.composed);
        let claimable = claimable.filter_map(|twin| step(&twin.life, &event).map(|after| (twin, after)));
        let mut claimable: Vec<(&mut Twin, life::Row<i64, u32>)> = claimable.collect();
        let first = claimable.iter().map(|(twin, _)| twin.life.due).min();
        let taken: Option<i64> = taken.map(|row| row.get(0));
        let twin = claimable.iter_mut().find(|(twin, _)| Some(twin.id) == taken);
        // Of those that are due at the same time by units, the milliseconds decide.
        assert_eq!(
            (taken.is_some(), twin.as_ref().map(|(twin, _)| twin.life.due)),
            (first.is_some(), first),
            "the first"
        );
        if let Some((twin, after)) = twin {
            twin.life = life::Row { due: twin.life.due, ..after.clone() };
        }
    }

    /// As `deliver` goes about it, from the lease to the verdict.
    fn attempt(&mut self, worker: usize, nth: usize, reply: Answered) {
        let Worker { keys, held, .. } = &mut self.workers[worker];
        let Some(held) = held.iter_mut().filter(|held| held.verdict.is_none()).nth(nth) else { return };
        let twin = &self.twins[held.twin];
        let policy = StatusPolicy::Default;
        let mut status = None;
        let (class, cause) = if !held.hold.admits(self.clock, self.clock + ATTEMPT) {
            (Class::GiveBack, Cause::LeaseShort)
        } else if !keys.contains(&twin.sealed_under) {
            (Cause::EnvelopeUnopenable.class(policy), Cause::EnvelopeUnopenable)
        } else {
            let attempt = match reply {
                Answered::With(code) => {
                    status = Some(code);
                    Attempt::Replied(Reply { status: code, request_sent: true, retry_after: None, challenge: None })
                }
                _ => Attempt::Failed(Failure { fault: NetworkFault::ReplyTimeout, sent: Sent::Perhaps }),
            };
            if reply != Answered::RequestLost {
                let (key, body, at) = (twin.key.clone(), fingerprint(&twin.body), now());
                self.history.receipts.push(Receipt { key, body, at, answered: Some(status.unwrap_or(200)) });
            }
            classify(&attempt, policy)
        };
        let facts = Facts {
            attempt_count: held.attempts,
            since_first_attempt: span(self.clock - (held.hold.horizon - HORIZON)),
            horizon_left: span(held.hold.horizon - self.clock),
            retry_after: None,
            status,
            challenge: None,
        };
        let backoff = Backoff {
            base: UNIT,
            cap: 9 * UNIT,
            slow_base: 4 * UNIT,
            slow_cap: 30 * UNIT,
            retry_after_cap: UNIT,
            unopenable_grace: 50 * UNIT,
            policy,
        };
        held.verdict = Some(schedule(class, cause, &facts, &backoff, 0.5));
    }

    async fn settle(&mut self, worker: usize, nth: usize, answered: bool) {
        let Worker { store, held, .. } = &mut self.workers[worker];
        let mut judged = held.iter_mut().enumerate().filter(|(_, held)| held.verdict.is_some());
        let Some((place, one)) = judged.nth(nth) else { return };
        if one.unsure && !one.hold.lasts(self.clock) {
            held.remove(place);
            return;
        }
        let verdict = one.verdict.clone().expect("it was looked for");
        let wait = units(verdict.delay());
        let (how, settled) = write(store, one.lease.clone(), &verdict, span(wait)).await;
        let twin = &mut self.twins[one.twin];
        let event = Event::Settle { token: one.token, now: self.clock, how, due: self.clock + wait };
        let after = step(&twin.life, &event).filter(|_| !twin.purged);
        let expected: Vec<(i64, State)> = after.iter().map(|life| (twin.id, life.state)).collect();
        let found: Vec<(i64, State)> = settled.iter().map(|one| (one.id, known(one.state))).collect();
        assert_eq!(found, expected, "{how:?} of {}, whose life is {:?}", twin.key, twin.life);
        if let Some(after) = after {
            twin.life = after;
        } else if one.unsure && twin.life.token.is_none() && !twin.purged {
            let lost = store.read_lost(std::slice::from_ref(&one.lease)).await.expect("it answers");
            let by_us = |lost: &Lost| how.may_have_made(known(lost.state));
            assert_eq!(lost.iter().any(by_us), how.may_have_made(twin.life.state));
        }
        match answered {
            true => drop(held.remove(place)),
            false => one.unsure = true,
        }
    }

    async fn pass(&mut self, units: i64) {
        let from = now();
        let sql = format!(
            "update {TABLE} set available_at = available_at - $1 * interval '1 second', \
             lease_expires_at = case when lease_expires_at = timestamptz '9999-01-01 00:00:00+00' then lease_expires_at \
             else lease_expires_at - $1 * interval '1 second' end, \
             first_attempt_at = first_attempt_at - $1 * interval '1 second', \
             retry_until = retry_until - $1 * interval '1 second'"
        );
        self.database.client.execute(&sql, &[&span(units).as_secs_f64()]).await.expect("time passes");
        self.clock += units;
        // Whoever holds a row was stopped meanwhile.
        self.history.faults.push(Fault::between("a pause", None, from, now()));
    }

    async fn expire(&mut self) {
        let swept = self.database.store.expire_overdue(1000, None).await.expect("it sweeps");
        let event = Event::Expire { now: self.clock };
        let mut rows = 0;
        for twin in self.twins.iter_mut().filter(|twin| !twin.purged) {
            if let Some(after) = step(&twin.life, &event) {
                twin.life = after;
                rows += 1;
            }
        }
        assert_eq!(swept.rows, rows, "expired");
    }

    async fn purge(&mut self) {
        let purged = self.database.store.purge_settled(1000, None, Duration::ZERO).await.expect("it purges");
        let mut rows = 0;
        for twin in self.twins.iter_mut().filter(|twin| !twin.purged && !is_open(twin.life.state)) {
            twin.purged = twin.life.horizon.is_some_and(|horizon| horizon <= self.clock);
            rows += u32::from(twin.purged);
        }
        assert_eq!(purged.rows, rows, "purged");
    }

    /// Every row as the table has it is as it should be.
    async fn compare(&self, op: &Op) {
        let sql = format!(
            "select id, \
             case when state = 'in_flight' and lease_token is null and lease_expires_at = composed then 'pending' \
             else state end, lease_token, \
             extract(epoch from case when lease_token is null then null when lease_expires_at = composed \
             then available_at else lease_expires_at end)::double precision, \
             extract(epoch from available_at)::double precision, attempt_count, \
             extract(epoch from retry_until)::double precision \
             from {TABLE}, (select timestamptz '9999-01-01 00:00:00+00') as mark (composed) order by id"
        );
        let rows = self.database.client.query(&sql, &[]).await.expect("the outbox is there");
        // Whatever the machine took since the beginning rounds off.
        let moment = |at: f64| ((at - self.began) / UNIT.as_secs_f64()).floor() as i64 + self.clock;
        let stored: Vec<(i64, life::Row<i64, String>)> = rows
            .iter()
            .map(|row| {
                let life = life::Row {
                    state: known(RowState::parse(row.get(1))),
                    token: row.get(2),
                    lease_until: row.get::<_, Option<f64>>(3).map(moment),
                    due: moment(row.get(4)),
                    attempts: row.get::<_, i32>(5).cast_unsigned(),
                    horizon: row.get::<_, Option<f64>>(6).map(moment),
                };
                (row.get(0), life)
            })
            .collect();
        let spelt = |token: u32| LeaseToken::new(u128::from(token).to_be_bytes()).as_str().to_owned();
        let should_be = self.twins.iter().filter(|twin| !twin.purged).map(|twin| {
            let life::Row { state, token, lease_until, due, attempts, horizon } = twin.life.clone();
            (twin.id, life::Row { state, token: token.map(spelt), lease_until, due, attempts, horizon })
        });
        assert_eq!(stored, should_be.collect::<Vec<_>>(), "after {op:?}");
    }

    /// P12: nothing goes wrong any more, and every row comes to its end.
    async fn settle_everything(&mut self) {
        for worker in 0..WORKERS {
            self.act(Op::Crash { worker }).await;
        }
        self.workers[0].keys.extend(0..KEYS);
        for _ in 0..3 {
            // Longer than any lease and any wait.
            self.pass(40).await;
            self.expire().await;
            self.claim(0, Look::Due).await;
            for _ in 0..self.workers[0].held.len() {
                self.attempt(0, 0, Answered::With(200));
                self.settle(0, 0, true).await;
            }
            self.compare(&Op::Expire).await;
        }
        let open = self.twins.iter().filter(|twin| !twin.purged && is_open(twin.life.state)).count();
        assert_eq!(open, 0, "rows that never end");
        recorder::read_into(&mut self.history, &self.database.client, TABLE).await;
        self.history.check().assert_settled();
    }
}

/// By the statement of its kind, as `settle` does.
async fn write(store: &Store, lease: Lease, verdict: &Verdict, delay: Duration) -> (Settle, Vec<Settled>) {
    let error = verdict.last_error().unwrap_or_default();
    let http_status = verdict.status();
    // With a record of the attempt and without, whichever it is.
    let recorded = [NewAttempt::default()];
    let attempts = (lease.id % 2 == 0 && store.takes_attempts()).then_some(&recorded[..]);
    let (how, settled) = match verdict {
        Verdict::Delivered { .. } => {
            let rows = [Delivered { lease, http_status: http_status.unwrap_or_default() }];
            (Settle::Delivered, store.settle_delivered(&rows, attempts).await)
        }
        Verdict::Retry { .. } => {
            (Settle::Retried, store.settle_retried(&[Retried { lease, delay, http_status, error }], attempts).await)
        }
        Verdict::Quarantine { .. } => (
            Settle::Quarantined,
            store.settle_quarantined(&[Quarantined { lease, http_status, error }], attempts).await,
        ),
        Verdict::GiveBack { .. } => (Settle::GivenBack, store.give_back(&[GivenBack { lease, delay }]).await),
    };
    (how, settled.expect("it answers"))
}

fn live(ops: &[Op]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    runtime.block_on(Simulation::live(ops));
}

#[test]
fn the_statements_do_to_rows_what_the_life_of_a_row_says() {
    let cases = std::env::var("OUTBOXD_SIMULATION").ok().map_or(24, |cases| cases.parse().expect("a number of cases"));
    let config = Config { cases, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&prop::collection::vec(any_op(), 1..60), |ops| {
            live(&ops);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

const PLAIN: Op = Op::Enqueue { key: 0, composed: false };
const COMPOSED: Op = Op::Enqueue { key: 1, composed: true };

fn claim(worker: usize) -> Op {
    Op::Claim { worker, look: [Look::Due, Look::Around, Look::Named][worker] }
}

fn attempt(worker: usize, reply: Answered) -> Op {
    Op::Attempt { worker, nth: 0, reply }
}

fn settle(worker: usize) -> Op {
    Op::Settle { worker, nth: 0, answered: true }
}

const TAKEN: Answered = Answered::With(200);
const FAILED: Answered = Answered::With(503);

/// Lives that random ones seldom come upon.
#[test]
fn a_worker_that_wakes_after_its_lease_settles_nothing() {
    for row in [PLAIN, COMPOSED] {
        let asleep = [row, claim(0), attempt(0, TAKEN), Op::Pass { units: LEASE }, claim(1), settle(0)];
        live(&[&asleep[..], &[attempt(1, FAILED), settle(1), Op::Migrate, Op::Pass { units: 9 }, claim(2)]].concat());
    }
}

#[test]
fn a_settle_whose_answer_was_lost_is_found_again() {
    let lost = Op::Settle { worker: 0, nth: 0, answered: false };
    for reply in [TAKEN, FAILED, Answered::With(410), Answered::ReplyLost] {
        live(&[PLAIN, COMPOSED, claim(0), attempt(0, reply), lost, Op::Pass { units: 1 }, settle(0), settle(0)]);
    }
}

#[test]
fn a_live_lease_outlives_the_horizon_and_a_lapsed_one_does_not() {
    let overdue = [PLAIN, COMPOSED, claim(0), attempt(0, FAILED), settle(0), attempt(0, FAILED), settle(0)];
    let late = [Op::Pass { units: HORIZON - 1 }, claim(1), Op::Pass { units: 3 }, Op::Expire];
    let settled = [attempt(1, TAKEN), settle(1), Op::Pass { units: 3 }, Op::Expire, settle(1), Op::Purge];
    live(&[&overdue[..], &late, &settled].concat());
    // In time, and settled after it.
    let late = [Op::Pass { units: HORIZON - 1 }, claim(1), attempt(1, FAILED), Op::Pass { units: 3 }, settle(1)];
    live(&[&overdue[..], &late, &[Op::Purge]].concat());
}

#[test]
fn a_row_that_was_given_back_before_its_first_attempt_has_all_its_horizon() {
    for row in [PLAIN, COMPOSED] {
        let back = [claim(0), Op::Pass { units: LEASE - 1 }, attempt(0, TAKEN), settle(0)];
        let again = [claim(1), attempt(1, FAILED), settle(1), Op::Pass { units: 1 }];
        live(&[&[row][..], &back, &back, &again, &back].concat());
    }
}

#[test]
fn what_a_worker_of_the_sdk_holds_is_claimed_after_its_lease_and_not_before() {
    let everybody = [claim(0), claim(1), claim(2)];
    let held = [&[PLAIN, Op::SdkClaim][..], &everybody, &[Op::Pass { units: LEASE - 1 }], &everybody].concat();
    live(&held);
    for look in everybody {
        live(&[&held[..], &[Op::Pass { units: 1 }, look], &everybody].concat());
    }
    live(
        &[
            &held[..],
            &[Op::Pass { units: HORIZON - LEASE }, Op::Expire, Op::SdkClaim, Op::Pass { units: LEASE }, Op::Expire],
        ]
        .concat(),
    );
}

#[test]
fn a_row_whose_key_is_missing_waits_for_it_and_is_quarantined_after_the_grace() {
    let without = Op::Reload { worker: 0, key: 1, held: false };
    let tries = [claim(0), attempt(0, TAKEN), settle(0), Op::Pass { units: 30 }];
    live(&[&[COMPOSED, without][..], &tries, &[Op::Reload { worker: 0, key: 1, held: true }], &tries].concat());
    live(&[&[COMPOSED, without][..], &tries, &tries, &tries, &[Op::Pass { units: HORIZON }, Op::Purge]].concat());
}

#[test]
fn nobody_claims_what_is_held_or_past_its_horizon() {
    let failed =
        [PLAIN, COMPOSED, claim(0), claim(1), claim(2), attempt(0, FAILED), settle(0), attempt(0, FAILED), settle(0)];
    live(&[&failed[..], &[Op::Pass { units: HORIZON }, claim(0), claim(1), claim(2)]].concat());
}
