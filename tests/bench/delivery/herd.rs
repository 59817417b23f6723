//! What a destination gets to bear that comes back: rows that have waited for it are spread over time, and no more of them are
//! under way at once than its cap.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Bed;
use super::contenders::Running;
use super::feed::wait_for;
use super::figures::table;
use super::outcome::{Demand, Outcome};
use super::receiver::DOWN;

/// The default of `delivery.per_destination`.
const CAP: f64 = 64.0;
/// A destination that is parked is probed each half minute.
const PROBED_BY: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(300);

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// Seconds for which it refuses connections.
    #[arg(long, default_value_t = 600.0)]
    down: f64,
    /// Milliseconds that it takes to answer afterwards.
    #[arg(long, default_value_t = 50)]
    delay_ms: u64,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Outcome {
    bed.receiver.reset(arguments.rows, Duration::from_millis(arguments.delay_ms));
    let rows = bed.outbox.seal((0..arguments.rows).map(|row| bed.receiver.url_at(DOWN, row)));
    bed.outbox.refill(&rows).await;
    let mut running = Running::outboxd(bed, "");
    tokio::time::sleep(Duration::from_secs_f64(arguments.down)).await;
    let attempts = bed.outbox.number("select sum(attempt_count)::bigint from adcp_task_webhook_outbox").await;
    bed.receiver.open();
    let opened = Instant::now();
    wait_for(bed, &mut running, 1, PROBED_BY).await;
    let noticed = opened.elapsed().as_secs_f64();
    wait_for(bed, &mut running, arguments.rows as u64, LONGEST).await;
    running.assert_running();
    let peak = bed.receiver.report().peaks[DOWN];
    let mut times = bed.receiver.times();
    running.stop();
    times.retain(|time| *time > 0);
    times.sort_unstable();
    let buckets = buckets(&times);
    let mean = times.len() as f64 / buckets.len() as f64;
    let most = buckets.iter().copied().max().unwrap_or_default() as f64;
    let missing = arguments.rows - times.len();
    let demands = vec![
        Demand::at_most(
            "no second after recovery holds more than 3 times the mean",
            3.0,
            most / mean,
            "times the mean",
        ),
        Demand::at_most("peak concurrency within its cap of 64", CAP, peak as f64, ""),
        Demand::at_most("every row is delivered", 0.0, missing as f64, "missing"),
    ];
    let row = vec![
        format!("{attempts}"),
        format!("{noticed:.1}"),
        buckets.len().to_string(),
        format!("{mean:.0}"),
        format!("{most:.0}"),
        peak.to_string(),
    ];
    let head =
        ["attempts while down", "s until noticed", "s until all came", "mean in a s", "most in a s", "peak at once"];
    let text = format!(
        "{} due rows for a destination that refused connections for {} s, and then answers after {} ms; default settings.\n\n{}",
        arguments.rows,
        arguments.down,
        arguments.delay_ms,
        table(&head, &[row])
    );
    let figures =
        json!({"attempts": attempts, "noticed": noticed, "buckets": buckets, "peak": peak, "missing": missing});
    Outcome { name: "herd".into(), text, demands, figures }
}

/// How many came in each second from the first one's arrival to the last one's; of sorted microseconds.
fn buckets(times: &[u64]) -> Vec<u64> {
    let mut buckets = Vec::new();
    for time in times {
        let second = ((time - times[0]) / 1_000_000) as usize;
        if buckets.len() <= second {
            buckets.resize(second + 1, 0);
        }
        buckets[second] += 1;
    }
    buckets
}
