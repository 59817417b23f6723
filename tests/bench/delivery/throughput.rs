//! Deliveries a second out of a backlog, and what each costs: contenders in turns, the same rows in every turn.
//!
//! Times and processors are read over a window in the middle of a turn; commits and WAL over the whole of it, since Postgres
//! tells commits exactly only when a contender's connections have ended.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Bed;
use super::contenders::{Contender, Running, bare_connections, concurrency, sdk_tasks, slots};
use super::figures::{Spread, table};
use super::outcome::{Demand, Outcome};
use super::processes::Cpu;
use super::support::seal::Sealed;

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
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Kind::Outboxd, Kind::Bare])]
    contenders: Vec<Kind>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Kind {
    Outboxd,
    /// outboxd with its default settings.
    Defaults,
    /// outboxd without a history of attempts.
    Unrecorded,
    Bare,
    Sdk,
    /// The SDK with all the authorities that Debian trusts.
    SdkFullStore,
    /// The SDK on a table as it makes it, without our storage settings and indexes.
    SdkOwnTable,
    Graphile,
    /// With its local queue and batched completion.
    GraphileTuned,
}

#[derive(Serialize, Deserialize)]
struct Throughput {
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
pub struct Turn {
    /// Deliveries in the window, and a second.
    deliveries: u64,
    pub rate: f64,
    /// CPU milliseconds for one delivery.
    pub own_ms: f64,
    pub postgres_ms: f64,
    pub receiver_ms: f64,
    /// Cores that were busy with none of these three.
    pub elsewhere: f64,
    /// For one delivery.
    commits: f64,
    wal_bytes: f64,
    peak_mib: f64,
    connections: u64,
}

pub async fn run(bed: &mut Bed, arguments: &Arguments) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for delay_ms in &arguments.delay_ms {
        let delay = Duration::from_millis(*delay_ms);
        let mut lines: Vec<Line> =
            line_up(arguments, delay).into_iter().map(|contender| Line { contender, turns: Vec::new() }).collect();
        let count = lines.iter().map(|line| wanted(&line.contender, delay, arguments.window)).max().unwrap_or_default();
        let rows = bed.outbox.seal((0..count).map(|row| bed.receiver.url(row)));
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
        outcomes.push(Outcome {
            name: format!("throughput-{delay_ms}ms"),
            text: throughput.table(),
            demands: throughput.demands(),
            figures: serde_json::to_value(&throughput).expect("figures are JSON"),
        });
    }
    outcomes
}

fn line_up(arguments: &Arguments, delay: Duration) -> Vec<Contender> {
    let slots = arguments.slots.unwrap_or_else(|| slots(delay));
    let sdk = |full_store, own_table| Contender::Sdk {
        processes: 2,
        tasks: sdk_tasks(delay, full_store),
        full_store,
        own_table,
    };
    let graphile = |tuned| Contender::Graphile { concurrency: concurrency(delay), tuned };
    let of_kind = |kind: &Kind| match kind {
        Kind::Outboxd => {
            arguments.processes.iter().map(|processes| Contender::Outboxd { processes: *processes, slots }).collect()
        }
        Kind::Defaults => vec![Contender::Defaults],
        Kind::Unrecorded => vec![Contender::Unrecorded { slots }],
        Kind::Bare => vec![Contender::Bare { connections: bare_connections(delay), batch: 100 }],
        Kind::Sdk => vec![sdk(false, false)],
        Kind::SdkFullStore => vec![sdk(true, false)],
        Kind::SdkOwnTable => vec![sdk(false, true)],
        Kind::Graphile => vec![graphile(false)],
        Kind::GraphileTuned => vec![graphile(true)],
    };
    arguments.contenders.iter().flat_map(of_kind).collect()
}

/// Rows that a contender does not get to the end of in one turn.
pub fn wanted(contender: &Contender, delay: Duration, window: f64) -> usize {
    let at_once = contender.at_once() as f64;
    let fastest = contender.fastest().min(at_once / delay.as_secs_f64());
    ((warm_up(contender, delay).as_secs_f64() + window + MARGIN) * fastest + at_once) as usize
        + contender.start_up() as usize
}

pub async fn turn(bed: &mut Bed, contender: &Contender, delay: Duration, window: f64, rows: &[Sealed]) -> Turn {
    let rows = &rows[..wanted(contender, delay, window).min(rows.len())];
    match contender {
        Contender::Graphile { .. } => {
            bed.with_jobs();
            bed.outbox.refill_jobs(rows).await;
        }
        Contender::Sdk { own_table: true, .. } => {
            let mut own = bed.sdk_outbox().await;
            std::mem::swap(&mut bed.outbox, &mut own);
            bed.outbox.refill(rows).await;
            let turn = measured(bed, contender, delay, window, rows).await;
            // Or an autovacuum would take its turn beside others.
            bed.outbox.empty().await;
            std::mem::swap(&mut bed.outbox, &mut own);
            bed.sdk_outbox = Some(own);
            return turn;
        }
        _ => bed.outbox.refill(rows).await,
    }
    measured(bed, contender, delay, window, rows).await
}

/// One turn on rows that are there.
pub async fn measured(bed: &mut Bed, contender: &Contender, delay: Duration, window: f64, rows: &[Sealed]) -> Turn {
    let is_jobs = matches!(contender, Contender::Graphile { .. });
    if matches!(contender, Contender::Sdk { .. }) {
        bed.sdk();
    }
    let before = if is_jobs { 0 } else { bed.outbox.delivered().await };
    bed.receiver.reset(rows.len(), delay);
    let work = bed.outbox.work().await;
    let mut running = contender.start(bed);
    under_way(bed, &mut running, contender.start_up()).await;
    tokio::time::sleep(warm_up(contender, delay)).await;
    let first = Reading::take(bed, &running);
    tokio::time::sleep(Duration::from_secs_f64(window)).await;
    let last = Reading::take(bed, &running);
    running.assert_running();
    assert!(last.count < rows.len() as u64, "{contender} ran out of {} rows", rows.len());
    assert!(last.count > first.count, "{contender} delivered {} rows and then none\n{}", first.count, running.said());
    let peak_mib = running.peak_mib();
    running.stop();
    let work = bed.outbox.work().await - work;
    let report = bed.receiver.report();
    report.assert_sound(&bed.keys.signing);
    let delivered = match is_jobs {
        true => rows.len() as u64 - bed.outbox.jobs_left().await,
        false => bed.outbox.delivered().await - before,
    };
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
        peak_mib,
        connections: report.connections,
    }
}

/// Rows that are all answered after half a second go out in waves, which need some rounds to spread.
fn warm_up(contender: &Contender, delay: Duration) -> Duration {
    contender.warm_up() + if delay < Duration::from_millis(100) { Duration::ZERO } else { 8 * delay }
}

/// Until so many rows have come.
pub async fn under_way(bed: &mut Bed, running: &mut Running, rows: u64) {
    let began = Instant::now();
    while bed.receiver.count() < rows {
        running.assert_running();
        assert!(began.elapsed() < PATIENCE, "not even {rows} rows are delivered\n{}", running.said());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All that is counted, at one moment.
pub struct Reading {
    pub at: Instant,
    pub count: u64,
    own: Cpu,
    postgres: Cpu,
    receiver: Cpu,
    all: Cpu,
}

impl Reading {
    pub fn take(bed: &mut Bed, running: &Running) -> Reading {
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

    fn line(&self, wanted: impl Fn(&Contender) -> bool) -> Option<&Line> {
        self.lines.iter().find(|line| wanted(&line.contender))
    }

    /// What is promised of one process; nothing where the receiver is slow.
    fn demands(&self) -> Vec<Demand> {
        let ours = self.line(|contender| matches!(contender, Contender::Outboxd { processes: 1, .. }));
        let Some(ours) = ours.filter(|_| self.delay_ms <= 50) else { return Vec::new() };
        let bare = self.line(|contender| matches!(contender, Contender::Bare { .. }));
        let sdk =
            self.line(|contender| matches!(contender, Contender::Sdk { full_store: false, own_table: false, .. }));
        let own_table = self.line(|contender| matches!(contender, Contender::Sdk { own_table: true, .. }));
        let full_store = self.line(|contender| matches!(contender, Contender::Sdk { full_store: true, .. }));
        let tuned = self.line(|contender| matches!(contender, Contender::Graphile { tuned: true, .. }));
        let mut demands = Vec::new();
        let at = format!("receiver at {} ms", self.delay_ms);
        let rates = [
            (sdk, 30.0, "30 times the SDK worker at its best"),
            (full_store, 40.0, "40 times the SDK worker with Debian's trust store"),
            (tuned, 2.0, "2 times graphile-worker tuned"),
            (bare, 0.85, "0.85 of the bare loop"),
        ];
        for (other, least, of) in rates {
            let Some(other) = other else { continue };
            let what = format!("{at}: at least {of}");
            demands.push(Demand::at_least(&what, least, self.ratio(ours, other).median, "times"));
        }
        let median = |line: &Line, figure: fn(&Turn) -> f64| line.spread(figure).median;
        if let Some(sdk) = sdk {
            let times = median(sdk, |turn| turn.own_ms) / median(ours, |turn| turn.own_ms);
            demands.push(Demand::at_least(
                &format!("{at}: CPU at most 1/60 of the SDK worker's"),
                60.0,
                times,
                "times less",
            ));
        }
        for (sdk, of) in [(own_table, "the SDK worker's on its own table"), (sdk, "what it writes on ours")] {
            let Some(sdk) = sdk else { continue };
            let share = median(ours, |turn| turn.wal_bytes) / median(sdk, |turn| turn.wal_bytes);
            demands.push(Demand::at_most(&format!("{at}: WAL at most {of}"), 1.0, share, "of it"));
        }
        let commits = median(ours, |turn| turn.commits);
        demands.push(Demand::at_most(&format!("{at}: at most 0.05 commits for a delivery"), 0.05, commits, ""));
        let memory = median(ours, |turn| turn.peak_mib);
        demands.push(Demand::at_most(&format!("{at}: memory at most 64 MiB"), 64.0, memory, "MiB"));
        demands
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
