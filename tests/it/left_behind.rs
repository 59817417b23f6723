//! Rows of a destination that has all it may have keep no others waiting, and are taken up in batches when it has room again.

use std::time::Duration;

use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::metrics::{BEHIND, CLAIMS, STATEMENTS};
use crate::support::receiver::{Answer, Gate, Receiver};
use crate::support::seal::Draft;
use crate::support::world::World;

const BACKLOG: usize = 4000;
const CAP: usize = 8;

/// Far below the time between two looks of these tests.
const SOON: Duration = Duration::from_secs(20);
/// For the whole backlog.
const LATER: Duration = Duration::from_secs(180);

/// As many slots as are shipped, which one destination cannot fill.
fn capped(world: &World, most: usize) -> Config {
    world.config().set("delivery.slots", 256).set("delivery.per_destination", most)
}

/// A receiver that answers nobody until its gate is opened, with a backlog.
async fn stuck(world: &World) -> Gate {
    let gate = Gate::closed();
    let of_script = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(200).when(&of_script));
    world.insert("/stuck", BACKLOG).await;
    gate
}

#[tokio::test]
async fn a_row_behind_the_backlog_of_a_full_destination_goes_out_at_once() {
    let world = World::new().await;
    let gate = stuck(&world).await;
    let elsewhere = Receiver::start().await;
    let (old, new) = (Draft::many(&elsewhere.url("/old"), 3), Draft::many(&elsewhere.url("/new"), 3));
    world.database.insert(&world.seal(old)).await;
    let config = capped(&world, CAP).set("egress.attempt_timeout", "50s");
    let daemon = Daemon::start(&config).await;
    elsewhere.wait_for(3).await;
    eventually("the full destination is known of", async || {
        let metrics = daemon.metrics().await;
        match metrics.total(BEHIND, &[]) {
            1.0 => Ok(()),
            _ => Err(metrics.text),
        }
    })
    .await;
    world.database.insert(&world.seal(new)).await;
    elsewhere.wait_for(6).await;
    let attempted = "select count(*) from adcp_task_webhook_outbox where attempt_count > 0 and url like '%/stuck'";
    assert_eq!(world.database.value::<i64>(attempted, &[]).await, CAP as i64, "the full destination's share is kept");
    gate.open();
    world.all_are_within(LATER, "delivered").await;
}

#[tokio::test]
async fn rows_left_behind_are_claimed_in_batches_and_without_waiting_for_the_next_poll() {
    let world = World::new().await;
    world.insert("/hooks", 1000).await;
    let config = capped(&world, 32).set("delivery.poll_interval", "60s");
    let daemon = Daemon::start(&config).await;
    world.all_are_within(SOON, "delivered").await;
    let metrics = daemon.metrics().await;
    let claims = metrics.total(CLAIMS, &[]);
    assert!(claims <= 300.0, "{claims} claims for 1000 rows");
}

#[tokio::test]
async fn without_the_index_by_destination_all_of_it_still_works() {
    let world = World::new().await;
    world
        .database
        .client
        .batch_execute("drop index adcp_task_webhook_outbox_destination_idx")
        .await
        .expect("it is there");
    let gate = stuck(&world).await;
    let elsewhere = Receiver::start().await;
    world.database.insert(&world.seal(Draft::many(&elsewhere.url("/other"), 3))).await;
    let config = capped(&world, CAP).set("egress.attempt_timeout", "50s");
    let daemon = Daemon::start(&config).await;
    daemon.line(0, &["no index finds rows by their destination", "outboxd migrate"]).await;
    elsewhere.wait_for(3).await;
    let listed = daemon.metrics().await.total(STATEMENTS, &[("statement", "outbox/list_due")]);
    assert_eq!(listed, 0.0, "destinations were listed without an index");
    gate.open();
    world.all_are_within(LATER, "delivered").await;
}
