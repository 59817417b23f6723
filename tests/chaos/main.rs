//! Several `outboxd` and a worker of the SDK on one table, while everything around them breaks by a seed; then nothing breaks any
//! more, and everything must settle. What happened is held against what was promised by `support::history`.
//!
//! `CHAOS_SECONDS` (how long it goes on), `CHAOS_SEED` and `CHAOS_RATE` (rows a second) make a longer one: `make soak`.

mod feed;
mod plan;
mod proxy;
mod stage;
#[expect(dead_code, reason = "shared with tests/it, which uses the rest")]
#[path = "../support/mod.rs"]
mod support;
mod workers;

use std::time::Duration;

use stage::Stage;

const DAEMONS: usize = 3;
/// Whose clock can be set.
const SKEWED: usize = DAEMONS - 1;
const RECEIVERS: usize = 4;
/// Long enough for a storm in which each kind of trouble but the database's comes once.
const SHORT: u64 = 20;

/// For what happens at times of a plan, and for a way that is slow on purpose.
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

fn setting(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok().filter(|text| !text.is_empty());
    given.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, and not {text:?}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p1_p2_p3_p4_p6_p7_p10_p11_p12_hold_while_everything_breaks() -> Result<(), String> {
    let seconds = setting("CHAOS_SECONDS", SHORT);
    let (seed, rate) = (setting("CHAOS_SEED", 1), setting("CHAOS_RATE", 60));
    let is_long = seconds > SHORT;
    let plan = plan::Plan {
        storm: Duration::from_secs(seconds),
        gap: Duration::from_millis(if is_long { 2500 } else { 850 }),
        with_database: is_long,
        lease: stage::LEASE,
    };
    println!(
        "chaos: seed {seed}, {seconds} s, {rate} rows/s; the same again: CHAOS_SEED={seed} CHAOS_SECONDS={seconds}"
    );
    let stage = Stage::set().await;
    let outcome = stage.play(&plan, seed, rate as usize).await;
    println!("{outcome}");
    outcome.sound().map_err(|breaches| format!("seed {seed}: {breaches}"))
}
