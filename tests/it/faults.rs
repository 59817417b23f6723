//! Faults of the reference (reliability.md section 0) that show only in the whole: here they do not happen.

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::metrics::STATEMENTS;
use crate::support::receiver::{Answer, Gate, Receiver};
use crate::support::seal::Draft;
use crate::support::world::World;

/// F5: a row whose horizon passes while it is being delivered still ends as what became of it.
#[tokio::test]
async fn p10_expiry_never_touches_a_live_lease() {
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(200).when(&held));
    world.insert("/hooks", 1).await;
    let config = world.config().set("sweep.expire_interval", "100ms").set("egress.attempt_timeout", "30s");
    let daemon = Daemon::start(&config).await;
    world.receiver.wait_for(1).await;
    let over = "UPDATE adcp_task_webhook_outbox SET first_attempt_at = now() - interval '2 days', \
                retry_until = now() - interval '1 day'";
    assert_eq!(world.database.execute(over, &[]).await, 1);
    let sweeps = async || daemon.metrics().await.total(STATEMENTS, &[("statement", "outbox/expire_overdue")]);
    let before = sweeps().await;
    eventually("three more sweeps", async || match sweeps().await {
        now if now >= before + 3.0 => Ok(()),
        now => Err(now),
    })
    .await;
    assert_eq!(world.database.count("in_flight").await, 1);
    gate.open();
    let rows = world.all_are("delivered").await;
    assert_eq!(rows[0].last_http_status, Some(200));
}

/// The other half of F5: once nobody holds it, it does expire, and is not attempted again.
#[tokio::test]
async fn p9_a_row_past_its_horizon_expires_when_its_attempt_failed() {
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(503).when(&held));
    world.insert("/hooks", 1).await;
    let daemon = Daemon::start(&world.config().set("retry.base", "10ms")).await;
    world.receiver.wait_for(1).await;
    eventually("the purge that follows a start is over, so that it cannot take the row", async || {
        match daemon.metrics().await.total(STATEMENTS, &[("statement", "outbox/purge_settled")]) {
            0.0 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    let over = "UPDATE adcp_task_webhook_outbox SET first_attempt_at = now() - interval '2 days', \
                retry_until = now() - interval '1 day'";
    assert_eq!(world.database.execute(over, &[]).await, 1);
    gate.open();
    let rows = world.all_are("expired").await;
    assert_eq!((rows[0].last_http_status, rows[0].last_error.as_deref()), (Some(503), Some("http_server_error")));
    assert_eq!(world.receiver.received().len(), 1);
}

/// F9: a URL that no parser takes ends its row at once and stalls nobody.
#[tokio::test]
async fn a_corrupt_url_is_quarantined_after_one_look() {
    let world = World::new().await;
    let corrupt = [
        "https://[::1/x",
        "https://bad host/x",
        "https://a:b:c/x",
        "https://example.com:99999/x",
        "https:///x",
        "https://user@example.com/x",
        "ftp://example.com/x",
        "https://ex%61mple.com\u{1}/x",
        "not a url",
        "",
    ];
    world.insert("/before", 20).await;
    world.database.insert(&world.seal(corrupt.iter().map(|url| Draft::to(*url)).collect())).await;
    world.insert("/after", 20).await;
    let _daemon = Daemon::start(&world.config()).await;
    eventually("every row has its end", async || {
        let ends = (world.database.count("delivered").await, world.database.count("invalid").await);
        if ends == (40, corrupt.len()) { Ok(()) } else { Err(format!("{ends:?}")) }
    })
    .await;
    for row in world.database.rows().await.iter().filter(|row| row.state == "invalid") {
        assert_eq!((row.last_error.as_deref(), row.attempt_count), (Some("url_refused"), 1), "{row}");
    }
}

/// F10: a destination that hangs holds its own share of the slots and no more.
#[tokio::test]
async fn p13_a_destination_that_hangs_costs_the_others_nothing() {
    let world = World::new().await;
    let never = Gate::closed();
    world.receiver.answer(move |_, _| Answer::status(200).when(&never));
    let healthy = Receiver::start().await;
    world.insert("/hangs", 300).await;
    world.database.insert(&world.seal(Draft::many(&healthy.url("/hooks"), 100))).await;
    let config = world
        .config()
        .set("delivery.slots", 16)
        .set("delivery.per_destination", 8)
        .set("delivery.claim_batch", 16)
        .set("egress.attempt_timeout", "50s");
    let _daemon = Daemon::start(&config).await;
    healthy.wait_for(100).await;
    eventually("the healthy ones are settled", async || match world.database.count("delivered").await {
        100 => Ok(()),
        other => Err(other),
    })
    .await;
    // The first eight still hang: their attempt is longer than this test may take.
    assert_eq!(world.receiver.received().len(), 8);
    assert_eq!(world.database.count("pending").await, 292);
}
