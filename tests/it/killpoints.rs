//! A daemon that is killed at any of the points K1 to K13 of one delivery, and of the work around it, loses nothing: the next one
//! delivers what it held, with the same bytes, and sends twice only what may have left already.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::cluster::{OutboxRow, TABLE};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::receiver::{Answer, Gate};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::world::World;

/// What a daemon does when it reaches the point for the nth time: `k4:kill:1`.
fn ordered(config: &Config, orders: &str) -> Config {
    config.clone().environment("KILLPOINTS", orders)
}

/// The daemon's end by its own hand.
async fn killed(daemon: &Daemon) {
    let ended = daemon.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(-(Signal::SIGKILL as i32)), "{}", ended.output);
}

/// As though the leases of the dead had run out: nobody is left who would count on them.
async fn let_leases_lapse(world: &World) {
    let sql = format!("UPDATE {TABLE} SET lease_expires_at = clock_timestamp() WHERE state = 'in_flight'");
    world.database.execute(&sql, &[]).await;
}

/// One row, a daemon that dies at the point, and one that takes over. How often the row had come whole when the first was dead,
/// and what became of it.
async fn one_row(point: &str) -> (World, usize, OutboxRow) {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let (before, row) = die_and_take_over(&world, point).await;
    (world, before, row)
}

async fn die_and_take_over(world: &World, point: &str) -> (usize, OutboxRow) {
    let config = world.hasty_config();
    killed(&Daemon::spawn(&ordered(&config, &format!("{point}:kill:1")))).await;
    let before = world.receiver.received().len();
    let_leases_lapse(world).await;
    let _heir = Daemon::start(&config).await;
    let rows = world.all_are("delivered").await;
    (before, rows[0].clone())
}

/// The row had not left when its holder died, and is sent once, as its second attempt.
async fn sent_by_the_heir_alone(point: &str) {
    let (world, before, row) = one_row(point).await;
    assert_eq!((before, row.attempt_count), (0, 2), "{row}");
    assert_eq!(world.receiver.tally().values().collect::<Vec<_>>(), [&1]);
    world.assert_signed(&world.receiver.received()[0]);
}

/// The row had left, and its holder could not say so any more: it comes twice with the same bytes, and no third time.
async fn sent_twice(point: &str) {
    let (world, _, row) = one_row(point).await;
    assert_eq!(row.attempt_count, 2, "{row}");
    assert_eq!(world.receiver.tally().values().collect::<Vec<_>>(), [&2]);
    for request in world.receiver.received() {
        world.assert_signed(&request);
    }
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
    let world = World::new().await;
    world.receiver.answers(vec![Answer::Unread, Answer::status(200)]);
    let mut draft = Draft::to(world.receiver.url("/hooks"));
    draft.result = json!({ "text": "a".repeat(9 << 20) });
    world.database.insert(&world.seal(vec![draft.clone()])).await;
    let (before, row) = die_and_take_over(&world, "k6").await;
    assert_eq!((before, row.attempt_count), (0, 2), "{row}");
    let received = world.receiver.received();
    assert_eq!(received.len(), 1);
    assert!(received[0].body == draft.body(), "the heir sent other bytes");
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
    let (world, before, row) = one_row("outbox/settle_delivered").await;
    assert_eq!((before, row.attempt_count), (1, 1), "{row}");
    assert_eq!(world.receiver.tally().values().collect::<Vec<_>>(), [&1]);
}

/// The same while the statement still waits: the server ends what a dead client asked for.
#[tokio::test]
async fn k9_killed_while_the_settle_waits_it_is_made_by_the_database_alone() {
    let world = World::new().await;
    let lock = "CREATE FUNCTION wait_for_the_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                PERFORM pg_advisory_xact_lock(78); RETURN NEW; END $$";
    world.database.execute(lock, &[]).await;
    let trigger = format!(
        "CREATE TRIGGER gate BEFORE UPDATE ON {TABLE} FOR EACH ROW WHEN (NEW.state = 'delivered') \
         EXECUTE FUNCTION wait_for_the_gate()"
    );
    world.database.execute(&trigger, &[]).await;
    world.database.execute("SELECT pg_advisory_lock(78)", &[]).await;
    world.insert("/hooks", 1).await;
    let config = world.hasty_config();
    let daemon = Daemon::start(&config).await;
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
    eventually("the settle waits", async || match world.database.value::<i64>(waiting, &[]).await {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    daemon.kill().await;
    world.database.execute("SELECT pg_advisory_unlock(78)", &[]).await;
    let _heir = Daemon::start(&config).await;
    let rows = world.all_are("delivered").await;
    assert_eq!(rows[0].attempt_count, 1, "{}", rows[0]);
    assert_eq!(world.receiver.tally().values().collect::<Vec<_>>(), [&1]);
}

#[tokio::test]
async fn k10_killed_after_the_settle_nothing_comes_twice() {
    let (world, before, row) = one_row("k10").await;
    assert_eq!((before, row.attempt_count), (1, 1), "{row}");
    assert_eq!(world.receiver.tally().values().collect::<Vec<_>>(), [&1]);
}

/// Rows whose horizon ended a day ago.
async fn past(world: &World, state: &str, rows: usize) {
    let drafts = world.seal(Draft::many(&world.receiver.url("/past"), rows));
    let tasks: Vec<String> = drafts.iter().map(|sealed| sealed.draft.task_id.clone()).collect();
    world.database.insert_for_later(&drafts).await;
    let sql = format!(
        "UPDATE {TABLE} SET state = $1, first_attempt_at = now() - interval '3 days', \
         retry_until = now() - interval '1 day' WHERE task_id = any($2)"
    );
    world.database.execute(&sql, &[&state, &tasks]).await;
}

/// Sweeps often enough for a test. A finished row's horizon ends a day from now at the earliest, so that none of the test's own is
/// purged.
fn sweeping(world: &World) -> Config {
    world.hasty_config().set("sweep.expire_interval", "100ms").set("sweep.purge_interval", "100ms")
}

async fn none_is_left_in(world: &World, state: &str) {
    eventually("the heir goes on with the sweep", async || match world.database.count(state).await {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}

#[tokio::test]
async fn k11_killed_during_expiry_what_is_overdue_expires_and_the_rest_is_delivered() {
    let world = World::new().await;
    past(&world, "pending", 300).await;
    let config = sweeping(&world).set("sweep.purge_interval", "1h");
    killed(&Daemon::spawn(&ordered(&config, "outbox/expire_overdue:kill:1"))).await;
    world.insert("/hooks", 3).await;
    let_leases_lapse(&world).await;
    let _heir = Daemon::start(&config).await;
    none_is_left_in(&world, "pending").await;
    none_is_left_in(&world, "in_flight").await;
    assert_eq!(world.database.count("delivered").await, 3);
    let received = world.receiver.received();
    assert!(received.iter().all(|request| request.target == "/hooks"), "an overdue row was sent");
}

#[tokio::test]
async fn k12_killed_during_the_purge_only_finished_rows_past_their_horizon_are_gone() {
    let world = World::new().await;
    for state in ["delivered", "expired", "invalid"] {
        past(&world, state, 100).await;
    }
    let config = sweeping(&world);
    killed(&Daemon::spawn(&ordered(&config, "outbox/purge_settled:kill:1"))).await;
    world.insert("/hooks", 3).await;
    let _heir = Daemon::start(&config).await;
    none_is_left_in(&world, "invalid").await;
    none_is_left_in(&world, "expired").await;
    eventually("what is delivered stays until its horizon", async || match world.database.count("delivered").await {
        3 => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(world.receiver.tally().len(), 3);
}

#[tokio::test]
async fn k13_killed_between_two_sets_of_keys_rows_of_both_are_delivered() {
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |target, nth| match (target, nth) {
        ("/held", 0) => Answer::status(200).when(&held),
        _ => Answer::status(200),
    });
    let new = EnvelopeKey::new();
    let config = world.hasty_config();
    world.insert("/held", 1).await;
    let daemon = Daemon::start(&ordered(&config, "k13:kill:1")).await;
    world.receiver.wait_for(1).await;
    let both = config.envelope_keys(&[&new, &world.key]);
    both.write();
    daemon.signal(Signal::SIGHUP);
    killed(&daemon).await;
    gate.open();
    world.insert_under(&new, "/new", 2).await;
    let_leases_lapse(&world).await;
    let _heir = Daemon::start(&both).await;
    let rows = world.all_are("delivered").await;
    assert_eq!(rows.len(), 3);
    assert_eq!(world.receiver.tally().len(), 3);
}

/// Every point on the way of a row, one after the other, over the same rows.
#[tokio::test]
async fn p6_p12_p18_whatever_point_it_is_killed_at_every_row_ends_delivered() {
    const POINTS: [&str; 9] = ["k1", "k2", "k3", "k4", "k5", "k7", "k8", "outbox/settle_delivered", "k10"];
    let world = World::new().await;
    let config = world.hasty_config();
    let mut drafts = Vec::new();
    for point in POINTS {
        drafts.extend(world.insert("/hooks", 6).await);
        // A few rows are on their way to it, side by side.
        killed(&Daemon::spawn(&ordered(&config, &format!("{point}:kill:{}", if point == "k1" { 1 } else { 3 })))).await;
        let_leases_lapse(&world).await;
    }
    let _heir = Daemon::start(&config).await;
    world.all_are_within(Duration::from_secs(30), "delivered").await;
    let tally = world.receiver.tally();
    assert_eq!(tally.len(), drafts.len());
    for draft in &drafts {
        let (sent, row) = (tally[&draft.idempotency_key], world.database.row(&draft.task_id).await);
        assert!(sent <= row.attempt_count.cast_unsigned() as usize, "it came {sent} times: {row}");
    }
}
