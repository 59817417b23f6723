//! What a delivery costs: `outboxd` and others on the same rows, keys, TLS and receiver, in one run, as ratios.
//!
//! `make bench` runs all scenarios, and `make bench SCENARIO="throughput --turns 7"` one; each prints a table, says whether it
//! meets what is demanded of it, and writes its figures as JSON into `target/bench`. The machine should have nothing else to
//! do; what it did besides is part of every table. Nothing that is started here outlives this program, however it ends.

mod all;
mod bare;
mod contenders;
mod fairness;
mod feed;
mod figures;
mod growth;
mod herd;
mod latency;
mod memory;
mod outbox;
mod outcome;
mod peers;
mod processes;
mod receiver;
mod replicas;
mod snapshot;
#[expect(dead_code, reason = "shared with tests/it, which uses the rest")]
mod support;
mod throughput;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::{Parser, Subcommand};

use contenders::Keys;
use outbox::{Outbox, fdatasync};
use outcome::{Outcome, Record};
use peers::Sdk;
use receiver::Receiver;

#[derive(Parser)]
#[command(name = "delivery", about = "What a delivery costs: outboxd and others, side by side")]
struct Cli {
    #[command(subcommand)]
    scenario: Option<Scenario>,
    /// A few of them, small, in under two minutes.
    #[arg(long)]
    quick: bool,
    /// Where figures are written.
    #[arg(long, global = true, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench"))]
    out: PathBuf,
    /// Given by `cargo bench`.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Scenario {
    /// Every scenario, one after another; without a subcommand too. Those that this binary has measured already are skipped.
    All,
    /// What has been measured, as Markdown.
    Report,
    /// Deliveries a second out of a backlog, and what each costs.
    Throughput(throughput::Arguments),
    /// From a row's commit to its receipt: idle, with polling only, and at rates.
    Latency(latency::Arguments),
    /// What a large table costs: due rows of a destination at its cap, and rows that are kept after their delivery.
    Growth(growth::Arguments),
    /// What a snapshot that is held open costs.
    Snapshot(snapshot::Arguments),
    /// What destinations that do not answer cost the others.
    Fairness(fairness::Arguments),
    /// What a destination gets to bear that comes back.
    Herd(herd::Arguments),
    /// Memory with many small bodies and with large ones.
    Memory(memory::Arguments),
    /// Many processes on one table.
    Replicas(replicas::Arguments),
    #[command(hide = true)]
    Receiver(receiver::Arguments),
    #[command(hide = true)]
    Bare(bare::Arguments),
}

/// What every scenario stands on.
struct Bed {
    outbox: Outbox,
    keys: Keys,
    receiver: Receiver,
    sdk: Option<Rc<RefCell<Sdk>>>,
    /// The SDK's own table.
    sdk_outbox: Option<Outbox>,
    has_jobs: bool,
}

impl Bed {
    async fn make() -> Bed {
        let outbox = Outbox::start().await;
        let keys = Keys::new(&outbox);
        let receiver = Receiver::start(keys.home.path());
        Bed { outbox, keys, receiver, sdk: None, sdk_outbox: None, has_jobs: false }
    }

    fn sdk(&mut self) -> Rc<RefCell<Sdk>> {
        Rc::clone(self.sdk.get_or_insert_with(|| Rc::new(RefCell::new(Sdk::import()))))
    }

    /// Taken, and to be given back.
    async fn sdk_outbox(&mut self) -> Outbox {
        if let Some(outbox) = self.sdk_outbox.take() {
            return outbox;
        }
        let outbox = self.outbox.bare().await;
        self.sdk().borrow_mut().create_schema(&outbox, &self.keys);
        outbox
    }

    /// graphile-worker's tables are there.
    fn with_jobs(&mut self) {
        if !self.has_jobs {
            peers::migrate_graphile(&self.outbox);
            self.has_jobs = true;
        }
    }
}

fn main() {
    let cli = Cli::parse();
    let out = &cli.out;
    match cli.scenario {
        None | Some(Scenario::All) => all::run(out, if cli.quick { all::QUICK } else { all::FULL }),
        Some(Scenario::Report) => print!("{}", outcome::report(out, &all::names())),
        Some(Scenario::Receiver(arguments)) => receiver::receive(arguments),
        Some(Scenario::Bare(arguments)) => bare::deliver(arguments),
        Some(Scenario::Throughput(a)) => measure(out, async |bed| throughput::run(bed, &a).await),
        Some(Scenario::Latency(a)) => measure(out, async |bed| vec![latency::run(bed, &a).await]),
        Some(Scenario::Growth(a)) => measure(out, async |bed| vec![growth::run(bed, &a).await]),
        Some(Scenario::Snapshot(a)) => measure(out, async |bed| vec![snapshot::run(bed, &a).await]),
        Some(Scenario::Fairness(a)) => measure(out, async |bed| vec![fairness::run(bed, &a).await]),
        Some(Scenario::Herd(a)) => measure(out, async |bed| vec![herd::run(bed, &a).await]),
        Some(Scenario::Memory(a)) => measure(out, async |bed| vec![memory::run(bed, &a).await]),
        Some(Scenario::Replicas(a)) => measure(out, async |bed| vec![replicas::run(bed, &a).await]),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn measure(out: &Path, scenario: impl AsyncFnOnce(&mut Bed) -> Vec<Outcome>) {
    let mut bed = Bed::make().await;
    let machine = machine(bed.keys.home.path());
    println!("{machine}\n");
    for outcome in scenario(&mut bed).await {
        println!("\n{}", outcome.to_markdown());
        Record { machine: machine.clone(), arguments: all::own_arguments(), outcome }.write(out);
    }
}

/// What the figures were measured on.
fn machine(directory: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{cores} cores shared by contender, Postgres and receiver; load {} at the start; fdatasync {:.2} ms",
        load.split(' ').next().unwrap_or_default(),
        fdatasync(directory).as_secs_f64() * 1000.0
    )
}
