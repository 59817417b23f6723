//! Memory: many small bodies under way at once, and few of the largest that are allowed.

use std::time::Duration;

use serde_json::json;

use super::Bed;
use super::contenders::Running;
use super::feed::wait_for;
use super::figures::table;
use super::outbox::BODY;
use super::outcome::{Demand, Outcome};
use super::support::seal::Sealed;

const SMALL: usize = 1000;
const LARGE: usize = 8;
const LARGE_BODY: usize = 10 << 20;
const MIB: usize = 1 << 20;
/// What a daemon may take besides bodies.
const BASE_MIB: usize = 64;

#[derive(clap::Args)]
pub struct Arguments {
    /// How often all slots are filled.
    #[arg(long, default_value_t = 4)]
    rounds: usize,
}

struct Part {
    slots: usize,
    at_once: u64,
    peak_mib: f64,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Outcome {
    let count = SMALL * arguments.rounds;
    let rows = bed.outbox.seal((0..count).map(|row| bed.receiver.url(row)));
    // Long enough that the handshakes of all connections are over before the first answer.
    let small = part(bed, SMALL, &rows, Duration::from_secs(5)).await;
    let count = LARGE * arguments.rounds;
    let rows: Vec<Sealed> = (0..count).map(|row| bed.outbox.seal_large(bed.receiver.url(row), LARGE_BODY)).collect();
    let large = part(bed, LARGE, &rows, Duration::from_millis(500)).await;
    let bound = BASE_MIB + LARGE * LARGE_BODY / MIB;
    let demands = vec![
        Demand::at_least("1,000 bodies of 1 KiB were under way at once", SMALL as f64, small.at_once as f64, ""),
        Demand::at_most("64 MiB with 1,000 bodies of 1 KiB under way", BASE_MIB as f64, small.peak_mib, "MiB"),
        Demand::at_most(
            &format!("64 MiB + slots x body with {LARGE} slots and bodies of 10 MiB: {bound} MiB"),
            bound as f64,
            large.peak_mib,
            "MiB",
        ),
    ];
    let row = |part: &Part, body: usize| {
        vec![part.slots.to_string(), body.to_string(), part.at_once.to_string(), format!("{:.1}", part.peak_mib)]
    };
    let head = ["slots", "body, bytes", "most under way", "peak MiB"];
    let text = format!(
        "Peak resident memory of one process.\n\n{}",
        table(&head, &[row(&small, BODY), row(&large, LARGE_BODY)])
    );
    let figures = json!({"small_mib": small.peak_mib, "large_mib": large.peak_mib, "at_once": small.at_once});
    Outcome { name: "memory".into(), text, demands, figures }
}

async fn part(bed: &mut Bed, slots: usize, rows: &[Sealed], delay: Duration) -> Part {
    bed.outbox.refill(rows).await;
    bed.receiver.reset(rows.len(), delay);
    let delivery = format!("slots = {slots}\nper_destination = {slots}\nper_destination_start = {slots}\n");
    let mut running = Running::outboxd(bed, &delivery);
    wait_for(bed, &mut running, rows.len() as u64, Duration::from_secs(120)).await;
    running.assert_running();
    let (peak_mib, at_once) = (running.peak_mib(), bed.receiver.report().peak_in_flight);
    running.stop();
    Part { slots, at_once, peak_mib }
}
