//! Deliveries a second out of a backlog, and what each costs: contenders in turns, the same rows in every turn.
//!
//! Times and processors are read over a window in the middle of a turn; commits and WAL over the whole of it, since Postgres
//! tells commits exactly only when a contender's connections have ended.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Bed;
use super::contenders::{Contender, Running, concurrency};
use super::figures::{Spread, table};
use super::processes::Cpu;
use super::support::seal::Sealed;

const WARM_UP: Duration = Duration::from_secs(1);
/// Rows for so many a second are there in every turn, so that each contender finds the same.
const FASTEST: f64 = 12_000.0;
/// Seconds that starting and reading may take beyond the window.
const MARGIN: f64 = 0.5;
/// Of what came, one in so many may be unsettled when a contender is stopped, besides what was under way: settling is work,
/// and not to be put off.
const UNSETTLED: u64 = 20;
/// A contender that delivers nothing for so long will not deliver.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Arguments {
    /// Milliseconds that the receiver takes to answer; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 50])]
    delay_ms: Vec<u64>,
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Seconds that are measured in each turn.
    #[arg(long, default_value_t = 5.0)]
    window: f64,
    /// outboxd's slots; by default what suits the delay.
    #[arg(long)]
    slots: Option<usize>,
    /// outboxd in so many processes; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    processes: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
pub struct Throughput {
    delay_ms: u64,
    lines: Vec<Line>,
}

/// One contender's turns, in their order.
#[derive(Serialize, Deserialize)]
struct Line {
    contender: Contender,
    turns: Vec<Turn>,
}

#[derive(Serialize, Deserialize)]
struct Turn {
    /// Deliveries in the window, and a second.
    deliveries: u64,
    rate: f64,
    /// CPU milliseconds for one delivery.
    own_ms: f64,
    postgres_ms: f64,
    receiver_ms: f64,
    /// Cores that were busy with none of these three.
    elsewhere: f64,
    /// For one delivery.
    commits: f64,
    wal_bytes: f64,
    peak_mib: f64,
    connections: u64,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Vec<Throughput> {
    let mut all = Vec::new();
    let count = ((WARM_UP.as_secs_f64() + arguments.window + MARGIN) * FASTEST) as usize;
    let rows = bed.outbox.seal((0..count).map(|row| bed.receiver.url(row)));
    for delay_ms in &arguments.delay_ms {
        let delay = Duration::from_millis(*delay_ms);
        let mut lines: Vec<Line> =
            line_up(arguments, delay).into_iter().map(|contender| Line { contender, turns: Vec::new() }).collect();
        for nth in 0..arguments.turns {
            // Whoever goes first does so once.
            let count = lines.len();
            for place in 0..count {
                let line = &mut lines[(nth + place) % count];
                let turn = turn(bed, &line.contender, delay, arguments.window, &rows).await;
                println!(
                    "{delay_ms} ms, turn {}: {}: {:.0}/s, {:.3} ms CPU ({:.3} in Postgres, {:.2} cores busy elsewhere)",
                    nth + 1,
                    line.contender,
                    turn.rate,
                    turn.own_ms,
                    turn.postgres_ms,
                    turn.elsewhere
                );
                line.turns.push(turn);
            }
        }
        let throughput = Throughput { delay_ms: *delay_ms, lines };
        println!("\n{}", throughput.table());
        all.push(throughput);
    }
    all
}

fn line_up(arguments: &Arguments, delay: Duration) -> Vec<Contender> {
    let slots = arguments.slots.unwrap_or(2 * concurrency(delay));
    let ours = arguments.processes.iter().map(|processes| Contender::Outboxd { processes: *processes, slots });
    ours.chain([Contender::Bare { connections: concurrency(delay), batch: 100 }]).collect()
}

async fn turn(bed: &mut Bed, contender: &Contender, delay: Duration, window: f64, rows: &[Sealed]) -> Turn {
    bed.outbox.refill(rows).await;
    bed.receiver.reset(rows.len(), delay);
    let work = bed.outbox.work().await;
    let mut running = contender.start(&bed.outbox, &bed.keys);
    under_way(bed, &mut running).await;
    tokio::time::sleep(WARM_UP).await;
    let first = Reading::take(bed, &running);
    tokio::time::sleep(Duration::from_secs_f64(window)).await;
    let last = Reading::take(bed, &running);
    running.assert_running();
    assert!(last.count < rows.len() as u64, "{contender} is faster than {FASTEST} rows a second, and ran out of them");
    assert!(last.count > first.count, "{contender} delivered {} rows and then none\n{}", first.count, running.said());
    let peak = running.peak_memory();
    running.stop();
    let work = bed.outbox.work().await - work;
    let report = bed.receiver.report();
    report.assert_sound(&bed.keys.signing);
    let delivered = bed.outbox.delivered().await;
    let unsettled = report.rows.checked_sub(delivered).expect("what is called delivered has come");
    let allowed = contender.at_once() as u64 + report.rows / UNSETTLED;
    assert!(unsettled <= allowed, "{contender} left {unsettled} of {} rows", report.rows);
    let deliveries = last.count - first.count;
    let seconds = (last.at - first.at).as_secs_f64();
    let each = |cpu: Cpu| cpu.seconds() * 1000.0 / deliveries as f64;
    let (own, postgres, receiver) =
        (last.own - first.own, last.postgres - first.postgres, last.receiver - first.receiver);
    Turn {
        deliveries,
        rate: deliveries as f64 / seconds,
        own_ms: each(own),
        postgres_ms: each(postgres),
        receiver_ms: each(receiver),
        elsewhere: ((last.all - first.all) - own - postgres - receiver).seconds() / seconds,
        commits: work.commits as f64 / report.rows as f64,
        wal_bytes: work.wal_bytes as f64 / report.rows as f64,
        peak_mib: peak as f64 / f64::from(1 << 20),
        connections: report.connections,
    }
}

/// Until the first rows have come.
async fn under_way(bed: &mut Bed, running: &mut Running) {
    let began = Instant::now();
    while bed.receiver.count() == 0 {
        running.assert_running();
        assert!(began.elapsed() < PATIENCE, "nothing is delivered");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All that is counted, at one moment.
struct Reading {
    at: Instant,
    count: u64,
    own: Cpu,
    postgres: Cpu,
    receiver: Cpu,
    all: Cpu,
}

impl Reading {
    fn take(bed: &mut Bed, running: &Running) -> Reading {
        Reading {
            at: Instant::now(),
            count: bed.receiver.count(),
            own: running.cpu(),
            postgres: bed.outbox.cpu(),
            receiver: Cpu::of(bed.receiver.process.pid()),
            all: Cpu::of_all(),
        }
    }
}

impl Line {
    fn spread(&self, figure: impl Fn(&Turn) -> f64) -> Spread {
        Spread::of(&self.turns.iter().map(figure).collect::<Vec<_>>())
    }
}

impl Throughput {
    /// How many times `other` each contender is, turn by turn.
    fn ratio(&self, line: &Line, other: &Line) -> Spread {
        let pairs = line.turns.iter().zip(&other.turns);
        Spread::of(&pairs.map(|(turn, other)| turn.rate / other.rate).collect::<Vec<_>>())
    }

    fn table(&self) -> String {
        let head = [
            "contender",
            "deliveries/s",
            "outboxd is",
            "CPU ms",
            "Postgres ms",
            "receiver ms",
            "commits",
            "WAL bytes",
            "peak MiB",
            "elsewhere",
        ];
        let first = self.lines.first();
        let rows: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| {
                vec![
                    line.contender.to_string(),
                    format!("{:.0}", line.spread(|turn| turn.rate)),
                    first.map_or_else(String::new, |first| format!("{:.2} times", self.ratio(first, line))),
                    format!("{:.3}", line.spread(|turn| turn.own_ms)),
                    format!("{:.3}", line.spread(|turn| turn.postgres_ms)),
                    format!("{:.3}", line.spread(|turn| turn.receiver_ms)),
                    format!("{:.3}", line.spread(|turn| turn.commits)),
                    format!("{:.0}", line.spread(|turn| turn.wal_bytes)),
                    format!("{:.0}", line.spread(|turn| turn.peak_mib)),
                    format!("{:.2}", line.spread(|turn| turn.elsewhere)),
                ]
            })
            .collect();
        format!(
            "Receiver answers after {} ms; medians of {} turns (least-most); CPU, commits and WAL for one delivery.\n\n{}",
            self.delay_ms,
            first.map_or(0, |line| line.turns.len()),
            table(&head, &rows)
        )
    }
}
