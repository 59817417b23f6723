//! Destinations that fail are left alone and come back by one probe; the replicas share what they know, and an operator sees
//! and ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpSocket;

use crate::support::daemon::{Daemon, Ended};
use crate::support::eventually::{eventually, eventually_within};
use crate::support::metrics::PARKED;
use crate::support::receiver::{Answer, Gate, Receiver};
use crate::support::seal::Draft;
use crate::support::world::World;

const SOON: Duration = Duration::from_secs(20);
const TABLE: &str = "adcp_task_webhook_outbox_parked";
/// How many rows are tried at once where nothing is known of their destination.
const START: usize = 8;

async fn is_parked(daemon: &Daemon, parked: bool) {
    eventually(&format!("one destination is parked: {parked}"), async || {
        match daemon.metrics().await.total(PARKED, &[]) {
            count if (count > 0.0) == parked => Ok(()),
            count => Err(count),
        }
    })
    .await;
}

/// Rows for somebody else are delivered: whatever was to be claimed until then has been.
async fn overtaken(world: &World, elsewhere: &Receiver, times: usize) {
    for _ in 0..times {
        let before = elsewhere.received().len();
        world.database.insert(&world.seal(vec![Draft::to(elsewhere.url("/free"))])).await;
        elsewhere.wait_for(before + 1).await;
    }
}

/// A receiver that answers 503 while it is down; once up, it holds back every reply until the gate opens.
struct Outage {
    up: Arc<AtomicBool>,
    /// Requests since it is up.
    tried: Arc<AtomicUsize>,
    gate: Gate,
}

impl Outage {
    fn of(receiver: &Receiver) -> Outage {
        let outage = Outage { up: Arc::default(), tried: Arc::default(), gate: Gate::closed() };
        let (up, tried, gate) = (outage.up.clone(), outage.tried.clone(), outage.gate.clone());
        receiver.answer(move |_, _| match up.load(Ordering::SeqCst) {
            false => Answer::status(503),
            true => {
                tried.fetch_add(1, Ordering::SeqCst);
                Answer::status(200).when(&gate)
            }
        });
        outage
    }

    /// Once the destination is parked: of those that were tried together some may still be on their way to it.
    async fn end(&self, world: &World) {
        eventually("nothing is under way", async || match world.database.count("in_flight").await {
            0 => Ok(()),
            rows => Err(rows),
        })
        .await;
        self.up.store(true, Ordering::SeqCst);
    }

    async fn is_tried(&self) {
        eventually("a row is tried", async || match self.tried.load(Ordering::SeqCst) {
            0 => Err("none is"),
            _ => Ok(()),
        })
        .await;
    }
}

async fn command(daemon: &Daemon, arguments: &[&str]) -> Ended {
    Daemon::command(daemon.config(), arguments).wait_exit(SOON).await
}

#[tokio::test]
async fn rows_of_a_destination_that_is_down_wait_uncounted_and_nobody_else_waits() {
    let world = World::new().await;
    // Bound, so that nobody else gets the port, and not listening.
    let closed = TcpSocket::new_v4().expect("a socket can be had");
    closed.bind(([127, 0, 0, 1], 0).into()).expect("a port is free");
    let nobody = closed.local_addr().expect("it is bound");
    world.database.insert(&world.seal(Draft::many(&format!("https://{nobody}/hooks"), 300))).await;
    let healthy = world.insert("/hooks", 100).await.len();
    let daemon = Daemon::start(&world.config().set("delivery.per_destination_start", START)).await;
    eventually("the others are delivered", async || match world.database.count("delivered").await {
        count if count == healthy => Ok(()),
        count => Err(count),
    })
    .await;
    is_parked(&daemon, true).await;
    let rows = world.database.rows().await;
    let attempted = rows.iter().filter(|row| row.state != "delivered" && row.attempt_count > 0).count();
    // START at first, of which each may have been tried again by now, and a probe a second at most.
    assert!((5..30).contains(&attempted), "{attempted} rows were tried at a closed door");
    let line = daemon.line(0, &["the destination is parked", "connect"]).await;
    assert!(line.contains(&nobody.to_string()), "{line}");
}

#[tokio::test]
async fn after_an_outage_one_row_goes_first_and_alone() {
    let world = World::new().await;
    let outage = Outage::of(&world.receiver);
    let elsewhere = Receiver::start().await;
    world.insert("/hooks", 200).await;
    let daemon = Daemon::start(&world.config().set("delivery.per_destination_start", START)).await;
    is_parked(&daemon, true).await;
    outage.end(&world).await;
    outage.is_tried().await;
    overtaken(&world, &elsewhere, 5).await;
    assert_eq!(
        outage.tried.load(Ordering::SeqCst),
        1,
        "rows went to a destination of which nobody knows yet whether it is there"
    );
    outage.gate.open();
    let rows = world.all_are("delivered").await;
    let again = rows.iter().filter(|row| row.attempt_count > 1).count();
    assert!(again < 30, "{again} of 200 rows were tried in vain");
    is_parked(&daemon, false).await;
    eventually("the list is empty", async || {
        match world.database.value::<i64>(&format!("select count(*) from {TABLE}"), &[]).await {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;
}

#[tokio::test]
async fn when_the_pause_is_over_a_row_is_tried_at_once_however_seldom_the_daemon_looks() {
    let world = World::new().await;
    let outage = Outage::of(&world.receiver);
    outage.gate.open();
    world.insert("/hooks", 100).await;
    let daemon = Daemon::start(&world.config().set("delivery.poll_interval", "60s")).await;
    is_parked(&daemon, true).await;
    outage.end(&world).await;
    // All but those that were tried in vain, which wait for a time of their own.
    eventually_within(2 * SOON, "they are delivered", async || match world.database.count("delivered").await {
        70.. => Ok(()),
        count => Err(count),
    })
    .await;
}

#[tokio::test]
async fn replicas_share_what_is_parked_and_one_of_them_probes() {
    let world = World::new().await;
    let outage = Outage::of(&world.receiver);
    let elsewhere = Receiver::start().await;
    let first = Daemon::start(&world.config()).await;
    world.insert("/hooks", 100).await;
    is_parked(&first, true).await;
    // Rows are left that nobody tries now, and the second one learns of it before it has tried any.
    let second = Daemon::start(&world.config()).await;
    is_parked(&second, true).await;
    let of = |daemon: &Daemon| daemon.text().matches("the destination is parked").count();
    assert_eq!((of(&first), of(&second)), (1, 0));
    outage.end(&world).await;
    outage.is_tried().await;
    overtaken(&world, &elsewhere, 10).await;
    assert_eq!(outage.tried.load(Ordering::SeqCst), 1, "two replicas probe");
    let shown = command(&first, &["destinations", "--json"]).await;
    let shown: Value = serde_json::from_str(shown.output.trim()).expect("one JSON object");
    let parked = &shown["destinations"][0]["parked"];
    assert_eq!((&parked["state"], &parked["reason"]), (&"probing".into(), &"unavailable".into()), "{shown}");
    outage.gate.open();
    world.all_are("delivered").await;
    is_parked(&first, false).await;
    is_parked(&second, false).await;
}

#[tokio::test]
async fn an_operator_sees_what_is_parked_and_lets_it_go() {
    let world = World::new().await;
    world.receiver.answers(vec![Answer::status(429).header("Retry-After", "600"), Answer::status(200)]);
    world.insert("/hooks", 1).await;
    let daemon = Daemon::start(&world.config()).await;
    is_parked(&daemon, true).await;
    world.insert("/hooks", 20).await;
    let name = world.receiver.address.to_string();
    eventually("the command shows it", async || {
        let shown = command(&daemon, &["destinations"]).await;
        let wanted = [&*name, "20 due, the oldest for ", "parked for 9m ", "retry_after, since ", "seen by "];
        if wanted.iter().all(|part| shown.output.contains(part)) { Ok(()) } else { Err(shown.output) }
    })
    .await;
    let unknown = command(&daemon, &["destinations", "--release", "nobody.example.com"]).await;
    assert_eq!(unknown.code, Some(66), "{}", unknown.output);
    assert_eq!(world.receiver.received().len(), 1);
    let released = command(&daemon, &["destinations", "--release", &name]).await;
    assert_eq!(released.code, Some(0), "{}", released.output);
    world.receiver.wait_for(21).await;
    let shown = command(&daemon, &["destinations", "--json"]).await;
    assert!(!shown.output.contains("retry_after"), "{}", shown.output);
}

#[tokio::test]
async fn without_the_list_each_replica_parks_for_itself() {
    let world = World::new().await;
    world.database.execute(&format!("drop table {TABLE}"), &[]).await;
    let outage = Outage::of(&world.receiver);
    outage.gate.open();
    world.insert("/hooks", 50).await;
    let daemon = Daemon::start(&world.config()).await;
    daemon.line(0, &["run `outboxd migrate`"]).await;
    is_parked(&daemon, true).await;
    outage.end(&world).await;
    world.all_are("delivered").await;
    let shown = command(&daemon, &["destinations"]).await;
    assert_eq!(shown.code, Some(78), "{}", shown.output);
}
