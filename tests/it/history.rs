//! The history checker itself: each breach is found in a record that has it, and a real record without one passes.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::cluster::TABLE;
use crate::support::daemon::Daemon;
use crate::support::history::{Commit, Enqueued, Fault, History, Moment, Receipt, Report, Row, Side, Step, moment};
use crate::support::receiver::{Answer, Gate};
use crate::support::world::World;

const LEASE: Moment = 60.0;
const HORIZON: Moment = 1000.0;
const KEY: &str = "key";

/// One row's record, told step by step.
struct Tale {
    history: History,
    now: Side,
}

impl Tale {
    /// The row is committed.
    fn new() -> Tale {
        let now = Side {
            state: "pending".into(),
            token: None,
            lease_until: None,
            attempts: 0,
            error: None,
            retry_until: None,
        };
        let mut tale = Tale { history: History::default(), now };
        tale.history.enqueued.push(Enqueued { key: KEY.into(), body: [1; 32], commit: Commit::Known });
        let after = Some(tale.now.clone());
        tale.push(0.0, "host", false, None, after);
        tale
    }

    fn push(&mut self, at: Moment, worker: &str, fenced: bool, before: Option<Side>, after: Option<Side>) {
        let (key, worker) = (KEY.to_string(), worker.to_string());
        self.history.steps.push(Step { key, worker, asked: at, at, fenced, before, after });
    }

    fn change(mut self, at: Moment, worker: &str, fenced: bool, change: impl FnOnce(&mut Side)) -> Tale {
        let before = self.now.clone();
        change(&mut self.now);
        let after = self.now.clone();
        self.push(at, worker, fenced, Some(before), Some(after));
        self
    }

    fn claim(self, at: Moment, worker: &str) -> Tale {
        self.change(at, worker, true, |row| {
            row.state = "in_flight".into();
            row.token = Some(format!("{worker} {at}"));
            row.lease_until = Some(at + LEASE);
            row.attempts += 1;
            row.retry_until.get_or_insert(at + HORIZON);
        })
    }

    fn settle(self, at: Moment, worker: &str, state: &str, error: Option<&str>) -> Tale {
        self.change(at, worker, true, |row| settle(row, state, error))
    }

    fn sent(mut self, at: Moment, answered: Option<u16>) -> Tale {
        self.history.receipts.push(Receipt { key: KEY.into(), body: [1; 32], at, answered });
        self
    }

    fn fault(mut self, fault: Fault) -> Tale {
        self.history.faults.push(fault);
        self
    }

    /// What is found at the end, with the row as it was left.
    fn told(mut self) -> Report {
        self.history.rows.push(Row { key: KEY.into(), state: self.now.state.clone() });
        self.history.check()
    }

    fn breaches(self) -> Vec<String> {
        self.told().breaches()
    }
}

fn settle(row: &mut Side, state: &str, error: Option<&str>) {
    row.state = state.into();
    row.token = None;
    row.lease_until = None;
    row.error = error.map(Into::into);
}

fn delivered() -> Tale {
    Tale::new().claim(1.0, "a").sent(2.0, Some(200)).settle(3.0, "a", "delivered", None)
}

/// A first try that its receiver took, without a word of it.
fn taken_and_lapsed() -> Tale {
    Tale::new().claim(1.0, "a").sent(2.0, Some(200)).claim(70.0, "b").sent(71.0, Some(200)).settle(
        72.0,
        "b",
        "delivered",
        None,
    )
}

fn kill(worker: &str, at: Moment) -> Fault {
    Fault::between("kill", Some(worker), at, at)
}

#[test]
fn what_went_well_is_sound_and_settled() {
    let report = delivered().told();
    report.assert_settled();
    assert_eq!((report.enqueued, report.delivered, report.accepted, report.grants), (1, 1, 1, 1));
    let failed_first = Tale::new()
        .claim(1.0, "a")
        .sent(2.0, Some(503))
        .settle(3.0, "a", "pending", Some("http_server_error"))
        .claim(5.0, "b")
        .sent(6.0, Some(200))
        .settle(7.0, "b", "delivered", None);
    let report = failed_first.told();
    report.assert_settled();
    assert_eq!((report.receipts, report.accepted, report.duplicated()), (2, 1, 0));
}

#[test]
fn p1_what_was_committed_and_is_gone_is_lost() {
    let mut tale = Tale::new();
    tale.history.steps.clear();
    assert_eq!(tale.history.check().lost, ["key: committed, and gone"]);
    tale.history.enqueued[0].commit = Commit::Unknown;
    assert!(tale.history.check().breaches().is_empty(), "nobody was told that it is there");
}

#[test]
fn p2_a_delivery_that_nobody_took_is_lost() {
    let never = Tale::new().claim(1.0, "a").settle(2.0, "a", "delivered", None);
    let refused = Tale::new().claim(1.0, "a").sent(1.5, Some(503)).settle(2.0, "a", "delivered", None);
    let later = Tale::new().claim(1.0, "a").settle(2.0, "a", "delivered", None).sent(3.0, Some(200));
    for tale in [never, refused, later] {
        assert_eq!(tale.told().lost, ["key: delivered, and nobody had taken it"]);
    }
}

#[test]
fn p3_a_settle_by_somebody_else_or_without_a_token_is_found() {
    let other = taken_and_lapsed().change(73.0, "a", true, |_| {});
    assert!(other.told().settled_by_others.is_empty(), "nothing changed");
    let other = Tale::new().claim(1.0, "a").sent(2.0, Some(200)).settle(3.0, "b", "delivered", None);
    assert_eq!(other.told().settled_by_others, ["key: delivered by b, held by a"]);
    let unfenced =
        Tale::new().claim(1.0, "a").sent(2.0, Some(200)).change(3.0, "a", false, |row| settle(row, "delivered", None));
    assert_eq!(unfenced.told().settled_by_others, ["key: delivered by a, which showed no token"]);
    let unheld = Tale::new().sent(2.0, None).settle(3.0, "a", "invalid", Some("http_gone"));
    assert_eq!(unheld.told().settled_by_others, ["key: invalid by a, held by nobody"]);
}

#[test]
fn p4_p9_p10_p11_each_unlawful_step_is_found() {
    let twice = Tale::new().claim(1.0, "a").claim(2.0, "b");
    assert_eq!(twice.told().unlawful, ["key: granted while somebody held it"]);
    let late = Tale::new().claim(1.0, "a").claim(1.0 + HORIZON, "b");
    assert_eq!(late.told().unlawful, ["key: granted past its horizon"]);
    let end = |tale: Tale, at| tale.change(at, "sweep", false, |row| settle(row, "expired", None)).told().unlawful;
    assert_eq!(end(Tale::new().claim(1.0, "a"), 2.0), ["key: expired by sweep under a live lease"]);
    assert!(end(Tale::new().claim(1.0, "a"), 1.0 + LEASE).is_empty());
    let again = delivered().change(5.0, "a", true, |row| row.state = "pending".into());
    assert_eq!(again.told().unlawful, ["key: from delivered to pending"]);
}

#[test]
fn only_what_ended_long_ago_may_be_deleted() {
    let delete = |mut tale: Tale, at| {
        let before = Some(tale.now.clone());
        tale.push(at, "sweep", false, before, None);
        tale.history.check()
    };
    let early = delete(delivered(), 5.0);
    assert_eq!(early.unlawful, ["key: deleted before its horizon"]);
    let lawful = delete(delivered(), 1.0 + HORIZON);
    lawful.assert_settled();
    assert_eq!(lawful.delivered, 1);
    let open = delete(Tale::new(), 5.0);
    assert_eq!(open.unlawful, ["key: deleted while pending"]);
    assert_eq!(open.lost, ["key: committed, and gone"]);
}

#[test]
fn p6_each_duplicate_is_put_down_to_its_cause() {
    let cause = |tale: Tale| tale.told().duplicates.into_iter().collect::<Vec<_>>();
    assert_eq!(cause(taken_and_lapsed().fault(kill("a", 2.5))), [("kill".to_string(), 1)]);
    let database = Fault::between("database cut", None, 3.0, 90.0);
    assert_eq!(cause(taken_and_lapsed().fault(database)), [("database cut".to_string(), 1)]);
    let reply_lost = Tale::new()
        .claim(1.0, "a")
        .sent(2.0, Some(200))
        .settle(3.0, "a", "pending", Some("reply_timeout"))
        .claim(5.0, "a")
        .sent(6.0, Some(204))
        .settle(7.0, "a", "delivered", None);
    assert_eq!(cause(reply_lost), [("reply_timeout".to_string(), 1)]);
    // Stopped before it sent, and sent when it was let go on: after the other had delivered.
    let late = Tale::new()
        .claim(1.0, "a")
        .claim(70.0, "b")
        .sent(71.0, Some(200))
        .settle(72.0, "b", "delivered", None)
        .sent(80.0, Some(200))
        .fault(Fault::between("stop", Some("a"), 1.5, 79.0));
    assert_eq!(cause(late), [("stop".to_string(), 1)]);
}

#[test]
fn p6_a_duplicate_without_a_cause_is_a_breach() {
    let nothing_broken = taken_and_lapsed();
    assert_eq!(nothing_broken.told().unexplained, ["key: a let its lease lapse after sending, and nothing was broken"]);
    for other in [kill("b", 2.5), kill("a", 0.5), kill("a", 71.0)] {
        assert_eq!(taken_and_lapsed().fault(other).told().unexplained.len(), 1);
    }
    let twice =
        Tale::new().claim(1.0, "a").sent(2.0, Some(200)).sent(2.5, Some(200)).settle(3.0, "a", "delivered", None);
    assert_eq!(twice.told().unexplained, ["key: sent twice under one grant of a"]);
    let contradicted = Tale::new()
        .claim(1.0, "a")
        .sent(2.0, Some(200))
        .settle(3.0, "a", "pending", Some("http_server_error"))
        .claim(5.0, "a")
        .sent(6.0, Some(200))
        .settle(7.0, "a", "delivered", None);
    assert_eq!(contradicted.told().unexplained, ["key: answered with 200, and taken by a for http_server_error"]);
    let given_back = Tale::new().claim(1.0, "a").sent(2.0, Some(503)).change(3.0, "a", true, |row| {
        settle(row, "pending", None);
        row.attempts -= 1;
    });
    assert_eq!(given_back.told().unexplained, ["key: a gave the row back after it had been sent"]);
}

#[test]
fn p7_other_bytes_and_unknown_keys_are_found() {
    let mut other = delivered();
    other.history.receipts[0].body = [2; 32];
    assert_eq!(other.told().wrong_bytes, [KEY]);
    let mut unknown = delivered();
    unknown.history.receipts.push(Receipt { key: "else".into(), body: [1; 32], at: 4.0, answered: Some(200) });
    assert_eq!(unknown.breaches(), ["unexpected: else: never enqueued, and received"]);
    let mut rolled_back = delivered();
    rolled_back.history.enqueued[0].commit = Commit::RolledBack;
    assert_eq!(rolled_back.told().unexpected.len(), 2);
    let early = Tale::new().sent(0.5, Some(200)).claim(1.0, "a");
    assert_eq!(early.told().unexpected, ["key: received before anybody held it"]);
}

#[test]
fn p12_an_open_row_is_no_breach_and_not_settled() {
    let report = Tale::new().claim(1.0, "a").told();
    report.assert_sound();
    assert_eq!(report.unsettled, ["key is in_flight"]);
    let mut recovered = delivered();
    recovered.history.enqueued[0].commit = Commit::Unknown;
    assert_eq!(recovered.told().recovered, 1);
    let otherwise = Tale::new()
        .claim(1.0, "a")
        .sent(2.0, Some(200))
        .fault(kill("a", 2.0))
        .change(2.0 + HORIZON, "sweep", false, |row| settle(row, "expired", None))
        .told();
    otherwise.assert_settled();
    assert_eq!((otherwise.accepted_otherwise, otherwise.duplicated()), (1, 0));
}

/// Two daemons, one of which is killed with every reply outstanding; then what only a hand could do.
#[tokio::test]
async fn a_real_record_is_sound_and_a_hand_in_it_is_found() {
    let world = World::new().await;
    History::record(&world.database).await;
    let gate = Gate::closed();
    let first = gate.clone();
    world.receiver.answer(move |_, nth| match nth {
        0 => Answer::status(200).when(&first),
        1 => Answer::status(503),
        _ => Answer::status(200),
    });
    let mut drafts = Vec::new();
    for nth in 0..5 {
        drafts.extend(world.insert(&format!("/row/{nth}"), 1).await);
    }
    let named = |name: &str| format!("{}&application_name={name}", world.database.url);
    let killed = Daemon::start(&world.hasty_config().set("database.url", named("killed"))).await;
    world.receiver.wait_for(5).await;
    let fault = Fault::kill("killed");
    killed.signal(Signal::SIGKILL);
    killed.wait_exit(Duration::from_secs(10)).await;
    // Taken, each of them, by a receiver that says so too late.
    gate.open();
    let _heir = Daemon::start(&world.hasty_config().set("database.url", named("heir"))).await;
    world.all_are("delivered").await;

    let mut history = History { faults: vec![fault], ..History::default() };
    history.enqueued = drafts.iter().map(|draft| Enqueued::of(draft, Commit::Known)).collect();
    history.receipts = world.receiver.received().iter().map(Receipt::of).collect();
    history.read(&world.database).await;
    let report = history.check();
    report.assert_settled();
    assert_eq!((report.enqueued, report.delivered), (5, 5), "{report}");
    assert_eq!((report.grants, report.receipts, report.accepted), (15, 15, 10), "{report}");
    assert_eq!(report.duplicates, [("kill".to_string(), 5)].into(), "{report}");

    let hand = format!("UPDATE {TABLE} SET state = 'pending' WHERE idempotency_key = $1");
    world.database.execute(&hand, &[&drafts[0].idempotency_key]).await;
    history.read(&world.database).await;
    assert!(history.check().unlawful.iter().any(|breach| breach.ends_with("from delivered to pending")));
    assert!(history.steps.iter().all(|step| step.at <= moment()));
}
