//! What destinations that do not answer cost the others: fifty that do, alone, and then behind backlogs of one that never
//! answers and one that takes longer than any attempt may.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Bed;
use super::contenders::Running;
use super::feed::{CELLS, Delays, Feed, ready, wait_for};
use super::figures::table;
use super::outcome::{Demand, Outcome};

const SILENT: (usize, usize) = (1, 10_000);
const SLOW: (usize, usize) = (2, 5_000);
const SLOWNESS: Duration = Duration::from_secs(14);
const HEALTHY: std::ops::Range<usize> = 3..53;
/// Rows a second for each of these.
const RATE: f64 = 4.0;
/// Rows that come so long after the last one was given still count as delivered.
const LATE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct Arguments {
    /// How long rows come in each of the two parts.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
}

#[derive(Serialize, Deserialize)]
struct Part {
    delays: Delays,
    /// Of what was given.
    delivered: f64,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Outcome {
    let alone = part(bed, arguments, false).await;
    let among = part(bed, arguments, true).await;
    let demands = vec![
        Demand::at_most(
            "healthy destinations' p95 within 2 times that of an empty system",
            2.0,
            among.delays.p95 / alone.delays.p95,
            "times",
        ),
        Demand::at_least(
            "healthy throughput at least 95 % of that of an empty system",
            95.0,
            100.0 * among.delivered / alone.delivered,
            "%",
        ),
    ];
    let head: Vec<&str> = ["healthy destinations"].into_iter().chain(CELLS).chain(["delivered"]).collect();
    let row = |what: &str, part: &Part| {
        let delivered = format!("{:.2} %", 100.0 * part.delivered);
        [vec![what.into()], part.delays.cells(), vec![delivered]].concat()
    };
    let rows = [row("alone", &alone), row("behind the backlogs", &among)];
    let text = format!(
        "50 healthy destinations at {RATE} rows/s each for {} s, behind {} due rows for a destination that never answers and {} \
         for one that takes 14 s; default settings.\n\n{}",
        arguments.seconds,
        SILENT.1,
        SLOW.1,
        table(&head, &rows)
    );
    let figures = serde_json::to_value([alone, among]).expect("figures are JSON");
    Outcome { name: "fairness".into(), text, demands, figures }
}

async fn part(bed: &mut Bed, arguments: &Arguments, backlogs: bool) -> Part {
    const MOST: usize = 1_000_000;
    let first = SILENT.1 + SLOW.1;
    bed.outbox.empty().await;
    bed.receiver.reset(MOST, Duration::ZERO);
    bed.receiver.behave(SILENT.0, None);
    bed.receiver.behave(SLOW.0, Some(SLOWNESS));
    if backlogs {
        let silent = (0..SILENT.1).map(|row| bed.receiver.url_at(SILENT.0, row));
        let slow = (SILENT.1..first).map(|row| bed.receiver.url_at(SLOW.0, row));
        bed.outbox.add(&bed.outbox.seal(silent.chain(slow))).await;
        bed.outbox.execute("vacuum analyze adcp_task_webhook_outbox").await;
    }
    let mut feed = Feed::new(bed, first, true).await;
    let mut running = Running::outboxd(bed, "");
    match backlogs {
        true => super::throughput::under_way(bed, &mut running, 1).await,
        false => ready(bed, &mut running, &mut feed).await,
    }
    let from = feed.sent();
    let ports: Vec<usize> = HEALTHY.collect();
    feed.steadily(bed, RATE * ports.len() as f64, &ports, Duration::from_secs_f64(arguments.seconds)).await;
    tokio::time::sleep(LATE).await;
    let came = feed.came(&bed.receiver.times());
    let delivered = came as f64 / feed.sent() as f64;
    // What is later still is in the delays.
    let behind = (feed.sent() - came) as u64;
    let count = bed.receiver.count() + behind;
    if behind > 0 {
        wait_for(bed, &mut running, count, Duration::from_secs(30)).await;
    }
    let delays = feed.delays(&bed.receiver.times(), from);
    running.stop();
    Part { delays, delivered }
}
