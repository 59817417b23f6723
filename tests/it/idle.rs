//! What a daemon without work costs: its database a few statements, and its machine next to nothing.

use std::time::Duration;

use crate::support::cluster::{connect, url};
use crate::support::daemon::Daemon;
use crate::support::eventually::{eventually, eventually_within};
use crate::support::world::World;

/// Long enough for each of its loops to have come round, and for what they cost to be told from noise.
const WINDOW: f64 = 12.0;
const WINDOW_PATIENCE: Duration = Duration::from_secs(75);
const STATEMENTS_A_SECOND: f64 = 4.0;
const OF_A_CORE: f64 = 0.005;

/// Transactions of the database, as the server counts them whoever made them, and the moment.
async fn transactions(watcher: &tokio_postgres::Client, database: &str) -> (i64, f64) {
    let sql = "select xact_commit + xact_rollback, extract(epoch from clock_timestamp())::float8 \
                 from pg_stat_database where datname = $1";
    let row = watcher.query_one(sql, &[&database]).await.expect("the server counts");
    (row.get(0), row.get(1))
}

/// Seconds that its threads have run.
fn cpu(daemon: &Daemon) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("it runs");
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}

#[tokio::test]
async fn an_idle_daemon_costs_next_to_nothing() {
    let world = World::new().await;
    // The defaults, but for what lets a test see it.
    let daemon = Daemon::start(&world.config().unset("delivery.poll_interval").set("log.filter", "info")).await;
    daemon.line(0, &["wake-ups are heard"]).await;
    // From another database, whose own count the watching adds to.
    let watcher = connect(&url("postgres")).await;
    let name = world.database.name.clone();
    let mut before = None;
    // The first windows hold what its start cost, and each statement once more for each connection that prepared it.
    let window = async || {
        let (count, at) = transactions(&watcher, &name).await;
        let used = cpu(&daemon);
        let (first, began, used_before) = *before.get_or_insert((count, at, used));
        if at - began < WINDOW {
            return Err(format!("{:.0} s of {WINDOW}", at - began));
        }
        before = Some((count, at, used));
        let (rate, share) = ((count - first) as f64 / (at - began), (used - used_before) / (at - began));
        let text = format!("{rate:.2} transactions/s, {:.3} % of a core", share * 100.0);
        eprintln!("idle: {text}");
        if count > first && rate < STATEMENTS_A_SECOND && share < OF_A_CORE { Ok(()) } else { Err(text) }
    };
    eventually_within(WINDOW_PATIENCE, "a window in which it idles as cheaply as it should", window).await;
    // It was awake all the time.
    world.insert("/hooks", 1).await;
    world.all_are("delivered").await;
    eventually("it looked by itself", async || {
        let metrics = daemon.metrics().await;
        if metrics.total("outboxd_claims_total", &[]) > WINDOW / 2.5 { Ok(()) } else { Err(metrics.text) }
    })
    .await;
}
