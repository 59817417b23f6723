//! A daemon that is killed at any of the points K1 to K13 of one delivery, and of the work around it, loses nothing: the next one
//! delivers what it held, with the same bytes, and sends twice only what may have left already.

use std::sync::mpsc;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::cluster::{OutboxRow, TABLE};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::history::{Commit, Enqueued, Fault, History, Receipt, Report, moment};
use crate::support::receiver::{Answer, Gate};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::world::World;

/// A world whose every step is written down, and the faults that were made in it.
struct Scene {
    world: World,
    history: History,
}

impl Scene {
    async fn new() -> Scene {
        let world = World::new().await;
        History::record(&world.database).await;
        Scene { world, history: History::default() }
    }

    async fn insert(&mut self, rows: usize) {
        let drafts = self.world.insert("/hooks", rows).await;
        self.committed(&drafts);
    }

    fn committed(&mut self, drafts: &[Draft]) {
        self.history.enqueued.extend(drafts.iter().map(|draft| Enqueued::of(draft, Commit::Known)));
    }

    fn config(&self) -> Config {
        self.world.retrying_config()
    }

    /// Runs a daemon until it has killed itself at the point, reached for the nth time, and `meanwhile` has ended.
    async fn die_at(&mut self, config: &Config, point: &str, nth: usize, meanwhile: impl AsyncFnOnce(&World, &Daemon)) {
        let begun = moment();
        let config = named(&self.world, config, point).environment("KILLPOINTS", &format!("{point}:kill:{nth}"));
        let daemon = Daemon::spawn(&config);
        meanwhile(&self.world, &daemon).await;
        let ended = daemon.wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(-(Signal::SIGKILL as i32)), "{}", ended.output);
        self.history.faults.push(Fault::between("kill", Some(point), begun, moment()));
        // What it had asked for last is done by the server all the same: a claim of that kind would take rows after this.
        let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1";
        eventually("the server is done with the dead", async || {
            match self.world.database.value::<i64>(left, &[&point]).await {
                0 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        // As though the leases of the dead had run out: nobody is left who would count on them.
        let sql = format!(
            "UPDATE {TABLE} SET lease_expires_at = clock_timestamp(), available_at = clock_timestamp() \
             WHERE state = 'in_flight'"
        );
        self.world.database.execute(&sql, &[]).await;
    }

    async fn heir(&self, config: &Config) -> Daemon {
        Daemon::start(&named(&self.world, config, "heir")).await
    }

    /// All that was committed has ended, and nothing on the way broke a promise.
    async fn judged(&mut self) -> Report {
        self.history.receipts.extend(self.world.receiver.received().iter().map(Receipt::of));
        self.history.read(&self.world.database).await;
        let report = self.history.check();
        report.assert_settled();
        report
    }
}

/// Its sessions are told from others' by this.
fn named(world: &World, config: &Config, name: &str) -> Config {
    let url = format!("{}&application_name={}", world.database.url, name.replace('/', "%2F"));
    config.clone().set("database.url", url)
}

/// One row, a daemon that dies at the point, and one that takes over: how often the row had come whole when the first was dead,
/// and what became of all.
async fn one_row(point: &str) -> (usize, OutboxRow, Report) {
    let mut scene = Scene::new().await;
    scene.insert(1).await;
    die_and_take_over(&mut scene, point).await
}

async fn die_and_take_over(scene: &mut Scene, point: &str) -> (usize, OutboxRow, Report) {
    let config = scene.config();
    scene.die_at(&config, point, 1, async |_, _| ()).await;
    let before = scene.world.receiver.received().len();
    let _heir = scene.heir(&config).await;
    let row = scene.world.all_are("delivered").await.remove(0);
    for request in scene.world.receiver.received() {
        scene.world.assert_signed(&request);
    }
    (before, row, scene.judged().await)
}

/// The row had not left when its holder died, and is sent once, as its second attempt.
async fn sent_by_the_heir_alone(point: &str) {
    let (before, row, report) = one_row(point).await;
    assert_eq!((before, row.attempt_count, report.receipts), (0, 2, 1), "{row}\n{report}");
}

/// The row had left, and its holder could not say so any more: it comes twice with the same bytes, and no third time.
async fn sent_twice(point: &str) {
    let (_, row, report) = one_row(point).await;
    assert_eq!((row.attempt_count, report.receipts), (2, 2), "{row}\n{report}");
    assert_eq!(report.duplicates, [("kill".to_string(), 1)].into(), "{report}");
}

/// What the holder had asked for is done, and nobody sends the row again.
async fn sent_once(point: &str) {
    let (before, row, report) = one_row(point).await;
    assert_eq!((before, row.attempt_count, report.receipts), (1, 1, 1), "{row}\n{report}");
}

#[tokio::test]
async fn k1_killed_after_the_claim_nothing_was_sent() {
    sent_by_the_heir_alone("k1").await;
}

#[tokio::test]
async fn k2_killed_after_opening_nothing_was_sent() {
    sent_by_the_heir_alone("k2").await;
}

#[tokio::test]
async fn k3_killed_after_the_lookup_nothing_was_sent() {
    sent_by_the_heir_alone("k3").await;
}

#[tokio::test]
async fn k4_killed_after_the_lease_check_nothing_was_sent() {
    sent_by_the_heir_alone("k4").await;
}

#[tokio::test]
async fn k5_killed_after_the_handshake_nothing_was_sent() {
    sent_by_the_heir_alone("k5").await;
}

/// The largest body, so that the sockets between cannot hold it, and a receiver that does not read it.
#[tokio::test]
async fn k6_killed_in_the_middle_of_the_body_the_receiver_has_no_request() {
    let mut scene = Scene::new().await;
    scene.world.receiver.answers(vec![Answer::Unread, Answer::status(200)]);
    let mut draft = Draft::to(scene.world.receiver.url("/hooks"));
    draft.result = json!({ "text": "a".repeat(9 << 20) });
    scene.world.database.insert(&scene.world.seal(vec![draft.clone()])).await;
    scene.committed(&[draft]);
    let (before, row, report) = die_and_take_over(&mut scene, "k6").await;
    assert_eq!((before, row.attempt_count, report.receipts), (0, 2, 1), "{row}\n{report}");
}

#[tokio::test]
async fn k7_killed_once_the_body_had_left_the_row_comes_twice() {
    sent_twice("k7").await;
}

#[tokio::test]
async fn k8_killed_with_the_reply_in_hand_the_row_comes_twice() {
    sent_twice("k8").await;
}

/// The database has done what it was asked for, and nobody was left to hear of it.
#[tokio::test]
async fn k9_killed_before_the_settle_was_answered_it_holds_and_nothing_comes_twice() {
    sent_once("history/settle_delivered").await;
}

/// The same while the statement still waits: the server ends what a dead client asked for.
#[tokio::test]
async fn k9_killed_while_the_settle_waits_it_is_made_by_the_database_alone() {
    let mut scene = Scene::new().await;
    let gate = format!(
        "CREATE FUNCTION wait_for_the_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM pg_advisory_xact_lock(78); RETURN NEW; END $$; \
         CREATE TRIGGER gate BEFORE UPDATE ON {TABLE} FOR EACH ROW WHEN (NEW.state = 'delivered') \
         EXECUTE FUNCTION wait_for_the_gate(); SELECT pg_advisory_lock(78)"
    );
    scene.world.database.client.batch_execute(&gate).await.expect("the owner may");
    scene.insert(1).await;
    let config = scene.config();
    let daemon = Daemon::start(&named(&scene.world, &config, "killed")).await;
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
    eventually("the settle waits", async || match scene.world.database.value::<i64>(waiting, &[]).await {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    scene.history.faults.push(Fault::kill("killed"));
    daemon.kill().await;
    scene.world.database.client.batch_execute("SELECT pg_advisory_unlock(78)").await.expect("it is ours");
    let _heir = scene.heir(&config).await;
    let row = scene.world.all_are("delivered").await.remove(0);
    let report = scene.judged().await;
    assert_eq!((row.attempt_count, report.receipts), (1, 1), "{row}\n{report}");
}

#[tokio::test]
async fn k10_killed_after_the_settle_nothing_comes_twice() {
    sent_once("k10").await;
}

/// Rows whose horizon ended a month ago, from before anything was written down.
async fn with_past(states: &[&str]) -> Scene {
    let world = World::new().await;
    for state in states {
        let drafts = world.seal(Draft::many(&world.receiver.url("/past"), 100));
        let tasks: Vec<String> = drafts.iter().map(|sealed| sealed.draft.task_id.clone()).collect();
        world.database.insert_for_later(&drafts).await;
        let sql = format!(
            "UPDATE {TABLE} SET state = $1, first_attempt_at = now() - interval '32 days', \
             retry_until = now() - interval '30 days' WHERE task_id = any($2)"
        );
        world.database.execute(&sql, &[&state, &tasks]).await;
    }
    History::record(&world.database).await;
    Scene { world, history: History::default() }
}

async fn there_are(scene: &Scene, state: &str, rows: usize) {
    eventually(&format!("{rows} rows are {state}"), async || match scene.world.database.count(state).await {
        count if count == rows => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn k11_killed_during_expiry_what_is_overdue_expires_and_the_rest_is_delivered() {
    let mut scene = with_past(&["pending"]).await;
    let config = scene.config().set("sweep.expire_interval", "100ms").set("sweep.purge_interval", "1h");
    scene.die_at(&config, "outbox/expire_overdue", 1, async |_, _| ()).await;
    scene.insert(3).await;
    // The purge of the heir's start may take away what has expired before it.
    let _heir = scene.heir(&config).await;
    there_are(&scene, "delivered", 3).await;
    there_are(&scene, "pending", 0).await;
    assert_eq!(scene.judged().await.receipts, 3, "an overdue row was sent");
}

#[tokio::test]
async fn k12_killed_during_the_purge_only_finished_rows_past_their_horizon_are_gone() {
    let mut scene = with_past(&["delivered", "expired", "invalid"]).await;
    let config = scene.config().set("sweep.purge_interval", "100ms").set("sweep.keep_undelivered", "0s");
    scene.die_at(&config, "outbox/purge_settled", 1, async |_, _| ()).await;
    scene.insert(3).await;
    let _heir = scene.heir(&config).await;
    for (state, rows) in [("expired", 0), ("invalid", 0), ("pending", 0), ("in_flight", 0), ("delivered", 3)] {
        there_are(&scene, state, rows).await;
    }
    assert_eq!(scene.judged().await.receipts, 3);
}

#[tokio::test]
async fn k13_killed_between_two_sets_of_keys_rows_of_both_are_delivered() {
    let mut scene = Scene::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    scene.world.receiver.answer(move |_, nth| match nth {
        0 => Answer::status(200).when(&held),
        _ => Answer::status(200),
    });
    scene.insert(1).await;
    let new = EnvelopeKey::new();
    let one = scene.config();
    let both = one.clone().envelope_keys(&[&new, &scene.world.key]);
    let reload = async |world: &World, daemon: &Daemon| {
        world.receiver.wait_for(1).await;
        named(world, &both, "k13").write();
        daemon.signal(Signal::SIGHUP);
    };
    scene.die_at(&one, "k13", 1, reload).await;
    gate.open();
    let drafts = scene.world.insert_under(&new, "/hooks", 2).await;
    scene.committed(&drafts);
    let _heir = scene.heir(&both).await;
    scene.world.all_are("delivered").await;
    let report = scene.judged().await;
    assert_eq!((report.delivered, report.receipts), (3, 4), "{report}");
}

/// Every point on the way of a row, one after the other, over the same rows.
#[tokio::test]
async fn p6_p12_p18_whatever_point_it_is_killed_at_every_row_ends_delivered() {
    const POINTS: [&str; 9] = ["k1", "k2", "k3", "k4", "k5", "k7", "k8", "history/settle_delivered", "k10"];
    let mut scene = Scene::new().await;
    let config = scene.config();
    let (book, told) = mpsc::channel();
    scene.world.receiver.tell(move |request| {
        // It is told until the end of the test, and nobody counts what comes after.
        let _ = book.send(Receipt::of(&request));
    });
    for point in POINTS {
        scene.insert(6).await;
        // A few rows are on their way to it side by side; all of them are claimed at once.
        scene.die_at(&config, point, if point == "k1" { 1 } else { 2 }, async |_, _| ()).await;
    }
    let _heir = scene.heir(&config).await;
    scene.world.all_are("delivered").await;
    scene.history.receipts = told.try_iter().collect();
    let report = scene.judged().await;
    assert_eq!(report.delivered, 6 * POINTS.len(), "{report}");
}
