//! Being told to end: finish what fits, give back the rest, exit 0.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::daemon::Daemon;
use crate::support::eventually::PATIENCE;
use crate::support::receiver::{Answer, Gate};
use crate::support::world::World;

const ATTEMPT: Duration = Duration::from_secs(20);

/// More rows than slots, with every attempt held at the receiver.
async fn held(world: &World, gate: &Gate, drain: &str) -> Daemon {
    let answer = Answer::status(200).when(gate);
    world.receiver.answer(move |_, _| answer.clone());
    world.insert("/slow", 60).await;
    let config = world
        .config()
        .set("delivery.slots", 8)
        .set("delivery.per_destination", 8)
        .set("delivery.drain_timeout", drain)
        .set("egress.attempt_timeout", format!("{}s", ATTEMPT.as_secs()));
    let daemon = Daemon::start(&config).await;
    world.receiver.wait_for(8).await;
    daemon
}

async fn nothing_is_in_flight(world: &World) {
    let rows = world.database.rows().await;
    let held = rows.iter().filter(|row| row.state == "in_flight" || row.lease_token.is_some()).count();
    assert_eq!(held, 0, "{rows:?}");
}

/// All are due again. What the receiver saw was an attempt, however it ended; the rest was none, and has no
/// horizon yet.
async fn everything_is_given_back(world: &World) {
    nothing_is_in_flight(world).await;
    let seen: HashSet<String> =
        world.receiver.received().iter().map(|request| request.json()["task_id"].to_string()).collect();
    for row in world.database.rows().await {
        assert_eq!(row.state, "pending", "{row}");
        let attempted = seen.contains(&format!("{:?}", row.task_id));
        assert_eq!((row.attempt_count, row.attempted), (i32::from(attempted), attempted), "{row}");
    }
}

#[tokio::test]
async fn attempts_under_way_are_finished_and_unattempted_rows_keep_their_count() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let world = World::new().await;
        let gate = Gate::closed();
        let daemon = held(&world, &gate, "15s").await;
        let from = daemon.lines().len();
        daemon.signal(signal);
        daemon.line(from, &["draining"]).await;
        gate.open();
        let ended = daemon.wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(0), "{}", ended.output);
        nothing_is_in_flight(&world).await;
        let tally = world.receiver.tally();
        let rows = world.database.rows().await;
        let delivered = rows.iter().filter(|row| row.state == "delivered").count();
        assert_eq!((delivered, tally.len()), (8, 8), "claiming went on after the signal");
        let unattempted = rows.iter().filter(|row| row.state == "pending" && row.attempt_count == 0).count();
        assert_eq!(unattempted, 52, "{rows:?}");
    }
}

#[tokio::test]
async fn what_does_not_fit_into_the_drain_time_is_given_back() {
    let world = World::new().await;
    let never = Gate::closed();
    let daemon = held(&world, &never, "1s").await;
    daemon.drains(Duration::from_secs(1 + 5)).await;
    everything_is_given_back(&world).await;
}

#[tokio::test]
async fn a_second_signal_gives_back_at_once() {
    let world = World::new().await;
    let never = Gate::closed();
    let daemon = held(&world, &never, "19s").await;
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGTERM);
    daemon.line(from, &["draining"]).await;
    daemon.signal(Signal::SIGTERM);
    let ended = daemon.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    everything_is_given_back(&world).await;
}
