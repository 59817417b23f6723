//! F7: only the database's clock decides what is due and when a horizon ends; ours signs, and is watched.

use crate::support::config::{Config, text};
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

/// A daemon whose clock is as much ahead as the file says; its monotonic clock is left alone.
fn faked(config: Config, offset: &str) -> Config {
    let libraries = std::fs::read_dir("/usr/lib").expect("it is there").flatten();
    let library = libraries.map(|entry| entry.path().join("faketime/libfaketime.so.1")).find(|path| path.exists());
    let library = library.expect("tests/needs.sh installs libfaketime");
    let file = config.file("clock", offset);
    config
        .environment("LD_PRELOAD", &text(&library))
        .environment("FAKETIME_TIMESTAMP_FILE", &text(&file))
        .environment("FAKETIME_NO_CACHE", "1")
        .environment("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .environment("DONT_FAKE_MONOTONIC", "1")
}

/// The daemon's own clock is set while it runs, as by somebody who corrects it the wrong way.
async fn a_clock_that_is_set_stops_sending_until_it_is_right(offset: &str) {
    let world = World::new().await;
    let config = faked(world.config(), "+0");
    let daemon = Daemon::start(&config).await;
    world.insert("/hooks", 1).await;
    world.all_are("delivered").await;
    config.file("clock", offset);
    world.insert("/hooks", 3).await;
    eventually("readiness says why", async || match daemon.get("/readyz").await {
        Ok((503, text)) if text.contains("clock: ") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    eventually("the gauge shows it, and nobody holds a row", async || {
        let skew = daemon.metrics().await.total("outboxd_database_clock_skew_seconds", &[]);
        let rows = world.database.rows().await;
        let waiting = rows.iter().filter(|row| row.state == "pending" && row.attempt_count == 0).count();
        if skew.abs() > 290.0 && waiting == 3 { Ok(()) } else { Err(format!("{skew} {rows:?}")) }
    })
    .await;
    assert_eq!(world.receiver.received().len(), 1, "it sent although its signatures would be refused");
    config.file("clock", "+0");
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| row.attempt_count == 1), "{rows:?}");
    daemon.ready().await;
}

#[tokio::test]
async fn f7_a_clock_that_is_set_five_minutes_ahead_stops_sending_until_it_is_right() {
    a_clock_that_is_set_stops_sending_until_it_is_right("+300").await;
}

#[tokio::test]
async fn f7_a_clock_that_is_set_five_minutes_back_stops_sending_until_it_is_right() {
    a_clock_that_is_set_stops_sending_until_it_is_right("-300").await;
}

#[tokio::test]
async fn f7_a_clock_that_is_ten_seconds_off_is_told_of_and_delivers() {
    let world = World::new().await;
    let daemon = Daemon::start(&faked(world.config(), "+10")).await;
    daemon.line(0, &["check NTP on both"]).await;
    world.insert("/hooks", 2).await;
    world.all_are("delivered").await;
}
