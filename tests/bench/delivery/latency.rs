//! From a row's commit to its receipt: when there is nothing else to do, with a host that wakes the daemon and with one that
//! does not, and at rates.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Bed;
use super::contenders::Running;
use super::feed::{CELLS, Delays, Feed, ready, wait_for};
use super::figures::table;
use super::outcome::{Demand, Outcome};

/// The default of `delivery.poll_interval`.
const POLL_MS: f64 = 500.0;

#[derive(clap::Args)]
pub struct Arguments {
    /// How long each part takes.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Rows a second; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [200.0, 800.0])]
    rates: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct Part {
    what: String,
    delays: Delays,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Outcome {
    let time = Duration::from_secs_f64(arguments.seconds);
    let idle = part(bed, true, async |feed, bed| feed.now_and_then(bed, 0.1..0.4, time).await).await;
    let polled = part(bed, false, async |feed, bed| feed.now_and_then(bed, 0.3..0.9, time).await).await;
    let demands = vec![
        Demand::at_most("idle, with wake-up: p50 under 10 ms", 10.0, idle.p50, "ms"),
        Demand::at_most("idle, with wake-up: p99 under 50 ms", 50.0, idle.p99, "ms"),
        Demand::at_most(
            "idle, polling only: p50 under half the poll interval + 10 ms",
            POLL_MS / 2.0 + 10.0,
            polled.p50,
            "ms",
        ),
    ];
    let mut parts = vec![
        Part { what: "idle, with wake-up".into(), delays: idle },
        Part { what: "idle, polling only".into(), delays: polled },
    ];
    for rate in &arguments.rates {
        let delays = part(bed, true, async |feed, bed| feed.steadily(bed, *rate, &[0], time).await).await;
        parts.push(Part { what: format!("{rate} rows/s"), delays });
    }
    let head: Vec<&str> = ["commit to receipt"].into_iter().chain(CELLS).collect();
    let rows: Vec<Vec<String>> =
        parts.iter().map(|part| [vec![part.what.clone()], part.delays.cells()].concat()).collect();
    let text = format!(
        "Default settings; receiver at 0 ms; {} s each, counted from before the commit is flushed.\n\n{}",
        arguments.seconds,
        table(&head, &rows)
    );
    let figures = serde_json::to_value(&parts).expect("figures are JSON");
    Outcome { name: "latency".into(), text, demands, figures }
}

async fn part(bed: &mut Bed, wake: bool, give: impl AsyncFnOnce(&mut Feed, &Bed)) -> Delays {
    const MOST: usize = 1_000_000;
    bed.outbox.empty().await;
    bed.receiver.reset(MOST, Duration::ZERO);
    let mut feed = Feed::new(bed, 0, wake).await;
    let mut running = Running::outboxd(bed, "");
    ready(bed, &mut running, &mut feed).await;
    let from = feed.sent();
    give(&mut feed, bed).await;
    wait_for(bed, &mut running, feed.sent() as u64, Duration::from_secs(30)).await;
    let delays = feed.delays(&bed.receiver.times(), from);
    running.stop();
    delays
}
