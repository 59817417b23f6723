//! F7: only the database's clock decides what is due and when a horizon ends; ours signs, and is watched.

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::metrics::STATEMENTS;
use crate::support::world::World;

/// Sets the database's clock, as far as the daemon's statements ask for it, by a function that comes first.
async fn set_clock(world: &World, ahead: &str) {
    let functions = format!(
        "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
         $$ SELECT pg_catalog.clock_timestamp() + interval '{ahead}' $$"
    );
    world.database.execute(&functions, &[]).await;
    let name: String = world.database.value("SELECT current_database()::text", &[]).await;
    let path = format!("ALTER DATABASE \"{name}\" SET search_path = public, pg_catalog");
    world.database.execute(&path, &[]).await;
}

#[tokio::test]
async fn f7_horizons_are_counted_by_the_databases_clock() {
    let world = World::new().await;
    set_clock(&world, "20 seconds").await;
    world.insert("/hooks", 1).await;
    let daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    let ahead: bool = world
        .database
        .value(
            "SELECT bool_and(first_attempt_at > pg_catalog.now() + interval '10 seconds' \
             AND retry_until = first_attempt_at + retry_horizon_seconds * interval '1 second') \
             FROM adcp_task_webhook_outbox",
            &[],
        )
        .await;
    assert!(ahead, "the attempt was not stamped by the database's clock");
    eventually("the skew is shown", async || {
        let metrics = daemon.metrics().await;
        let skew = metrics.total("outboxd_database_clock_skew_seconds", &[]);
        if (15.0..25.0).contains(&skew) { Ok(()) } else { Err(metrics.text) }
    })
    .await;
}

#[tokio::test]
async fn f7_nothing_is_sent_while_the_clocks_are_more_than_thirty_seconds_apart() {
    let world = World::new().await;
    set_clock(&world, "40 seconds").await;
    let daemon = Daemon::spawn(&world.config());
    daemon.line(0, &["clock skew"]).await;
    world.insert("/hooks", 3).await;
    let probes = async || daemon.metrics().await.total(STATEMENTS, &[("statement", "outbox/probe")]);
    let before = probes().await;
    eventually("it looked at the clock twice more", async || match probes().await {
        now if now >= before + 2.0 => Ok(()),
        now => Err(now),
    })
    .await;
    assert!(world.receiver.received().is_empty(), "it sent although its signatures would be refused");
    let (status, text) = daemon.get("/readyz").await.expect("the admin listener answers");
    assert!(status == 503 && text.contains("clock"), "{status} {text}");
    set_clock(&world, "0 seconds").await;
    daemon.line(0, &["clocks agree"]).await;
    world.all_are("delivered").await;
}
