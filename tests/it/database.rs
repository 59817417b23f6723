//! A database that is late, lost, or read-only is waited for quietly, and nothing is lost meanwhile.

use std::time::{Duration, Instant, SystemTime};

use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::link::Link;
use crate::support::receiver::{Answer, Gate};
use crate::support::world::World;

const LINES_A_SECOND: usize = 5;

fn over(link: &Link, world: &World) -> Config {
    world.hasty_config().set("database.url", link.url(&world.database.name)).set("log.filter", "info")
}

async fn is_red(daemon: &Daemon) {
    eventually("readyz is red", async || match daemon.get("/readyz").await {
        Ok((503, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// When it says that it printed this: a busy machine reads lines of many seconds at once.
fn printed(line: &str) -> SystemTime {
    let line: serde_json::Value = serde_json::from_str(line).expect("the log is JSON");
    humantime::parse_rfc3339(line["timestamp"].as_str().expect("a line has its time")).expect("it is one")
}

/// In no second did it print more than it may.
fn assert_quiet(daemon: &Daemon, from: usize) {
    let lines: Vec<(SystemTime, String)> =
        daemon.lines()[from..].iter().map(|(_, line)| (printed(line), line.clone())).collect();
    for (first, (at, line)) in lines.iter().enumerate() {
        let second = *at..*at + Duration::from_secs(1);
        let within = lines[first..].iter().take_while(|(later, _)| second.contains(later));
        assert!(within.count() <= LINES_A_SECOND, "too much from here on: {line}\n{}", daemon.text());
    }
}

/// Twenty knocks on a closed door: a busy loop is through with them in no time, a patient daemon is not.
async fn it_waits_patiently(daemon: &Daemon, link: &Link) {
    let (from, began) = (daemon.lines().len(), Instant::now());
    link.refused(20).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "twenty connections within {:?}", began.elapsed());
    assert_quiet(daemon, from);
    assert!(daemon.is_running(), "{}", daemon.text());
}

#[tokio::test]
async fn it_starts_before_its_database_does() {
    let world = World::new().await;
    let link = Link::down();
    let daemon = Daemon::spawn(&over(&link, &world));
    is_red(&daemon).await;
    world.insert("/hooks", 3).await;
    it_waits_patiently(&daemon, &link).await;
    link.mend();
    daemon.ready().await;
    world.all_are("delivered").await;
}

#[tokio::test]
async fn a_database_that_went_away_is_waited_for_and_every_row_ends_delivered() {
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |target, _| match target {
        "/under-way" => Answer::status(200).when(&held),
        _ => Answer::status(200),
    });
    let link = Link::down();
    link.mend();
    let daemon = Daemon::start(&over(&link, &world)).await;
    world.insert("/before", 3).await;
    world.receiver.wait_for(3).await;
    world.insert("/under-way", 2).await;
    world.receiver.wait_for(5).await;
    link.cut();
    gate.open();
    world.insert("/meanwhile", 3).await;
    is_red(&daemon).await;
    it_waits_patiently(&daemon, &link).await;
    link.mend();
    daemon.ready().await;
    world.all_are("delivered").await;
}

#[tokio::test]
async fn a_database_that_turned_read_only_is_left_and_found_again() {
    let world = World::new().await;
    let daemon = Daemon::start(&world.hasty_config()).await;
    let name = &world.database.name;
    let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    world.database.execute(&set, &[]).await;
    world.database.execute(others, &[]).await;
    is_red(&daemon).await;
    // Its connections of this time stay read-only for their whole life, so it must drop them by itself.
    world.database.execute(&format!("ALTER DATABASE {name} RESET default_transaction_read_only"), &[]).await;
    daemon.ready().await;
    world.insert("/hooks", 3).await;
    world.all_are("delivered").await;
}

#[tokio::test]
async fn no_connection_is_held_while_http_is_in_flight() {
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(200).when(&held));
    let config = world
        .config()
        .set("egress.attempt_timeout", "20s")
        .set("delivery.slots", 50)
        .set("delivery.per_destination_start", 50);
    let daemon = Daemon::start(&config).await;
    world.insert("/slow", 50).await;
    world.receiver.wait_for(50).await;
    let idle_in_transaction = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                               AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'";
    // What some other loop does meanwhile may be seen in the middle of it; what were held would stay.
    eventually("no connection is held", async || match world.database.value::<i64>(idle_in_transaction, &[]).await {
        0 => Ok(()),
        held => Err(held),
    })
    .await;
    daemon.ready().await;
    gate.open();
    world.all_are("delivered").await;
}
