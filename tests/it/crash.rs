//! A daemon that dies loses nothing and harms nobody.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::daemon::Daemon;
use crate::support::receiver::{Answer, Gate};
use crate::support::seal::Draft;
use crate::support::world::World;

const ROWS: usize = 200;
const LEASE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(500);
/// For two hundred TLS handshakes of a debug build on a shared machine.
const SLACK: Duration = Duration::from_secs(10);

#[tokio::test]
async fn p1_rows_in_flight_when_it_is_killed_are_delivered_after_the_lease() {
    let world = World::new().await;
    let gate = Gate::closed();
    let first_time = gate.clone();
    // Every row has a target of its own, so the count is the row's.
    world.receiver.answer(move |_, nth| match nth {
        0 => Answer::status(200).when(&first_time),
        _ => Answer::status(200),
    });
    let drafts: Vec<_> = (0..ROWS).map(|nth| Draft::to(world.receiver.url(&format!("/row/{nth}")))).collect();
    world.database.insert(&world.seal(drafts.clone())).await;
    let config = world
        .config()
        .set("egress.attempt_timeout", "15s")
        .set("delivery.lease", format!("{}s", LEASE.as_secs()))
        .set("delivery.poll_interval", format!("{}ms", POLL.as_millis()))
        .set("delivery.slots", ROWS)
        .set("delivery.per_destination", ROWS)
        .set("delivery.per_destination_start", ROWS);
    let daemon = Daemon::start(&config).await;
    world.receiver.wait_for(ROWS).await;
    daemon.signal(Signal::SIGKILL);
    let killed = Instant::now();
    let _heir = Daemon::start(&config).await;
    let rows = world.all_are_within(LEASE + POLL + SLACK, "delivered").await;
    assert!(killed.elapsed() <= LEASE + POLL + SLACK, "it took {:?}", killed.elapsed());
    assert!(rows.iter().all(|row| row.attempt_count == 2), "{rows:?}");
    gate.open();
    let tally = world.receiver.tally();
    assert_eq!(tally.len(), ROWS);
    assert!(tally.values().all(|times| *times == 2), "each was in flight once and delivered once: {tally:?}");
    for request in world.receiver.received() {
        let draft = drafts.iter().find(|draft| draft.idempotency_key == request.idempotency_key());
        assert_eq!(draft.expect("it was ours").body(), request.body);
        world.assert_signed(&request);
    }
}
