//! A process that stands still for longer than its leases (SIGSTOP, a frozen machine) finds out before it sends, and where it
//! was stopped too late for that, its late word counts for nothing.

use nix::sys::signal::Signal;

use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::metrics::{ATTEMPTS, LEASES_LOST};
use crate::support::receiver::Answer;
use crate::support::world::World;

/// A daemon that has stopped itself by these orders, its lease over, and the row delivered by another meanwhile.
async fn stopped_past_its_lease(world: &World, orders: &str) -> Daemon {
    let config = world.hasty_config();
    world.insert("/hooks", 1).await;
    let daemon = Daemon::spawn(&config.clone().environment("KILLPOINTS", orders));
    eventually("it stands still", async || match daemon.proc("stat").rsplit_once(") ") {
        Some((_, rest)) if rest.starts_with('T') => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let heir = Daemon::start(&config).await;
    let rows = world.all_are("delivered").await;
    assert_eq!(rows[0].attempt_count, 2, "{}", rows[0]);
    heir.signal(Signal::SIGTERM);
    heir.wait_exit(PATIENCE).await;
    daemon
}

/// What it makes of its row when it goes on, one of these, and that the row stays as it is.
async fn goes_on(world: &World, daemon: &Daemon, codes: &[&str]) {
    let before = world.database.rows().await;
    daemon.signal(Signal::SIGCONT);
    eventually("it finds its lease lost", async || {
        let metrics = daemon.metrics().await;
        let of = |metric| codes.iter().map(|code| metrics.total(metric, &[("code", code)])).sum::<f64>();
        if (of(LEASES_LOST), of(ATTEMPTS)) == (1.0, 1.0) { Ok(()) } else { Err(metrics.text) }
    })
    .await;
    assert_eq!(world.database.rows().await, before);
}

#[tokio::test]
async fn p5_stopped_before_the_lease_check_it_does_not_begin_once_its_lease_is_over() {
    let world = World::new().await;
    // If it opened the row all the same, that would be its end.
    let daemon = stopped_past_its_lease(&world, "k1:stop:1,k2:kill:1").await;
    goes_on(&world, &daemon, &["lease_short"]).await;
    assert_eq!(world.receiver.received().len(), 1);
}

#[tokio::test]
async fn p5_stopped_while_it_prepared_it_sends_nothing_once_its_lease_is_over() {
    let world = World::new().await;
    let daemon = stopped_past_its_lease(&world, "k3:stop:1").await;
    goes_on(&world, &daemon, &["lease_short"]).await;
    assert_eq!(world.receiver.received().len(), 1);
}

/// The one send that no check can keep back begins where its deadline is over already.
#[tokio::test]
async fn p5_stopped_after_the_last_check_its_late_word_is_not_taken() {
    let world = World::new().await;
    let daemon = stopped_past_its_lease(&world, "k4:stop:1").await;
    // The kernel may have connected it before it looks at the time.
    goes_on(&world, &daemon, &["connect_timeout", "tls_timeout"]).await;
    assert!(world.receiver.received().len() <= 2, "more than one late send");
}

#[tokio::test]
async fn p3_stopped_with_the_request_sent_its_late_word_is_not_taken() {
    let world = World::new().await;
    world.receiver.answers(vec![Answer::Silent, Answer::status(200)]);
    let daemon = stopped_past_its_lease(&world, "k7:stop:1").await;
    goes_on(&world, &daemon, &["reply_timeout"]).await;
    assert_eq!(world.receiver.tally().values().collect::<Vec<_>>(), [&2]);
}

#[tokio::test]
async fn p3_stopped_with_the_reply_in_hand_its_late_word_is_not_taken() {
    let world = World::new().await;
    world.receiver.answers(vec![Answer::status(410), Answer::status(200)]);
    let daemon = stopped_past_its_lease(&world, "k8:stop:1").await;
    goes_on(&world, &daemon, &["http_gone"]).await;
    assert_eq!(world.receiver.tally().values().collect::<Vec<_>>(), [&2]);
}
