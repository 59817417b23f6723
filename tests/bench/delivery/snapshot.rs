//! What a snapshot that is held open costs: rows come steadily for a while, and then backlogs become due all at once while the
//! same daemon goes on. First without the snapshot, for reference, and then with it, when nothing that was delivered since can
//! be vacuumed.

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::Bed;
use super::contenders::Running;
use super::feed::{CELLS, Delays, Feed, ready, wait_for};
use super::figures::{Spread, table};
use super::outcome::{Demand, Outcome};

/// No destination is at its cap: what is measured is the table.
const DELIVERY: &str = "slots = 128\nper_destination = 128\nper_destination_start = 128\n";
/// Rows of a backlog for each second that it is measured.
const FASTEST: f64 = 12_000.0;
const WARM_UP: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Arguments {
    /// How long the snapshot is held while rows come.
    #[arg(long, default_value_t = 600.0)]
    seconds: f64,
    /// How long they come without it; as long, and there are as many rows in the table.
    #[arg(long, default_value_t = 600.0)]
    reference: f64,
    /// Rows a second.
    #[arg(long, default_value_t = 800.0)]
    rate: f64,
    /// Backlogs after it, and seconds that are measured of each.
    #[arg(long, default_value_t = 3)]
    backlogs: usize,
    #[arg(long, default_value_t = 2.0)]
    window: f64,
    /// Seconds that inserting a backlog may take; it is due after that.
    #[arg(long, default_value_t = 10)]
    lead: u64,
}

#[derive(Serialize, Deserialize)]
struct Part {
    seconds: f64,
    /// A second, of what came within the time in which rows were given.
    rate: f64,
    /// Of the last tenth of the rows.
    delays: Delays,
    drains: Vec<f64>,
    own_ms: f64,
    table_mib: f64,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Outcome {
    let reference = part(bed, arguments, arguments.reference, false).await;
    let held = part(bed, arguments, arguments.seconds, true).await;
    let lost = |with: f64, without: f64| 100.0 * (1.0 - with / without);
    let median = |part: &Part| Spread::of(&part.drains).median;
    let demands = vec![
        Demand::at_most(
            &format!("a held snapshot loses under 10 % of {} rows/s", arguments.rate),
            10.0,
            lost(held.rate, reference.rate),
            "%",
        ),
        Demand::at_most(
            "and under 10 % of what a backlog is delivered at afterwards",
            10.0,
            lost(median(&held), median(&reference)),
            "%",
        ),
    ];
    let head: Vec<&str> = ["snapshot", "rows/s", "backlog/s", "table MiB"].into_iter().chain(CELLS).collect();
    let row = |what: String, part: &Part| {
        let drains = format!("{:.0}", Spread::of(&part.drains));
        let own = vec![what, format!("{:.0}", part.rate), drains, format!("{:.0}", part.table_mib)];
        [own, part.delays.cells()].concat()
    };
    let rows =
        [row(format!("none, {} s", reference.seconds), &reference), row(format!("held for {} s", held.seconds), &held)];
    let text = format!(
        "{} rows/s, and then {} backlogs that become due at once; 128 slots, all for one destination; receiver at 0 ms. \
         Times from commit to receipt are of the last tenth of the steady rows.\n\n{}",
        arguments.rate,
        arguments.backlogs,
        table(&head, &rows)
    );
    let figures = serde_json::to_value([reference, held]).expect("figures are JSON");
    Outcome { name: "snapshot".into(), text, demands, figures }
}

async fn part(bed: &mut Bed, arguments: &Arguments, seconds: f64, hold: bool) -> Part {
    let backlog = ((arguments.window + WARM_UP.as_secs_f64() + 0.5) * FASTEST) as usize;
    let most = (seconds * arguments.rate) as usize + arguments.backlogs * backlog + 10;
    bed.outbox.empty().await;
    bed.receiver.reset(most, Duration::ZERO);
    let mut feed = Feed::new(bed, 0, true).await;
    let mut running = Running::outboxd(bed, DELIVERY);
    ready(bed, &mut running, &mut feed).await;
    let holder = bed.outbox.connection().await;
    if hold {
        holder
            .batch_execute("begin isolation level repeatable read; select pg_current_snapshot()")
            .await
            .expect("it begins");
    }
    let (before, cpu, began) = (bed.receiver.count(), running.cpu(), Instant::now());
    println!("{} rows/s for {seconds} s{}", arguments.rate, if hold { " under a held snapshot" } else { "" });
    feed.steadily(bed, arguments.rate, &[0], Duration::from_secs_f64(seconds)).await;
    let (came, took) = (bed.receiver.count() - before, began.elapsed().as_secs_f64());
    let own_ms = (running.cpu() - cpu).seconds() * 1000.0 / came as f64;
    wait_for(bed, &mut running, feed.sent() as u64, Duration::from_secs(60)).await;
    let delays = feed.delays(&bed.receiver.times(), feed.sent() - feed.sent() / 10);
    let mut drains = Vec::new();
    for nth in 0..arguments.backlogs {
        let first = feed.sent() + nth * backlog;
        let rate = drain(bed, &mut running, arguments, first..first + backlog).await;
        println!("a backlog: {rate:.0}/s");
        drains.push(rate);
    }
    let bytes = bed.outbox.number("select pg_total_relation_size('adcp_task_webhook_outbox')").await;
    running.stop();
    Part { seconds, rate: came as f64 / took, delays, drains, own_ms, table_mib: bytes as f64 / f64::from(1 << 20) }
}

/// Inserts rows that become due together, and sees how many a second are delivered then.
async fn drain(bed: &mut Bed, running: &mut Running, arguments: &Arguments, rows: std::ops::Range<usize>) -> f64 {
    let target = bed.receiver.count() + rows.len() as u64;
    let rows = bed.outbox.seal(rows.map(|row| bed.receiver.url(row)));
    let lead = Duration::from_secs(arguments.lead);
    let due = Instant::now() + lead;
    bed.outbox.add_due(&rows, SystemTime::now() + lead).await;
    assert!(Instant::now() < due, "inserting a backlog took longer than {lead:?}: choose a longer --lead");
    tokio::time::sleep_until(due.into()).await;
    bed.outbox.execute("notify outboxd_wake").await;
    tokio::time::sleep(WARM_UP).await;
    let (first, began) = (bed.receiver.count(), Instant::now());
    tokio::time::sleep(Duration::from_secs_f64(arguments.window)).await;
    let (last, took) = (bed.receiver.count(), began.elapsed().as_secs_f64());
    assert!(last < target, "the backlog was over before it was measured");
    wait_for(bed, running, target, Duration::from_secs(120)).await;
    (last - first) as f64 / took
}
