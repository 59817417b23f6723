//! What a delivery costs: `outboxd` and others on the same rows, keys, TLS and receiver, in one run, as ratios.
//!
//! `cargo bench --bench delivery -- throughput` and other subcommands; each prints a table and writes its figures as JSON into
//! `target/bench`. Postgres' programs must be installed. The machine should have nothing else to do; what it did besides is
//! part of every table. Nothing that is started here outlives this program, however it ends.

mod bare;
mod contenders;
mod figures;
mod outbox;
mod processes;
mod receiver;
#[expect(dead_code, reason = "shared with tests/it, which uses the rest")]
mod support;
mod throughput;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

use contenders::Keys;
use outbox::{Outbox, fdatasync};
use receiver::Receiver;

#[derive(Parser)]
#[command(name = "delivery", about = "What a delivery costs: outboxd and others, side by side")]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
    /// Where figures are written.
    #[arg(long, global = true, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench"))]
    out: PathBuf,
    /// Given by `cargo bench`.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Scenario {
    /// Deliveries a second out of a backlog, and what each costs.
    Throughput(throughput::Arguments),
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
}

impl Bed {
    async fn make() -> Bed {
        let outbox = Outbox::start().await;
        let keys = Keys::new(&outbox);
        let receiver = Receiver::start(keys.home.path());
        Bed { outbox, keys, receiver }
    }
}

fn main() {
    let cli = Cli::parse();
    match cli.scenario {
        Scenario::Receiver(arguments) => receiver::receive(arguments),
        Scenario::Bare(arguments) => bare::deliver(arguments),
        Scenario::Throughput(arguments) => {
            measure(&cli.out, "throughput", async |bed| throughput::run(bed, &arguments).await)
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn measure<T: Serialize>(out: &Path, name: &str, scenario: impl AsyncFnOnce(&mut Bed) -> T) {
    let mut bed = Bed::make().await;
    let machine = machine();
    println!("{machine}\n");
    let figures = scenario(&mut bed).await;
    fs::create_dir_all(out).expect("the directory can be made");
    let path = out.join(format!("{name}.json"));
    let text =
        serde_json::to_string_pretty(&json!({"machine": machine, "figures": figures})).expect("figures are JSON");
    fs::write(&path, text).expect("the directory is ours");
    println!("figures: {}", path.display());
}

/// What the figures were measured on.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{cores} cores shared by contender, Postgres and receiver; load {} at the start; fdatasync {:.2} ms",
        load.split(' ').next().unwrap_or_default(),
        fdatasync(&std::env::temp_dir()).as_secs_f64() * 1000.0
    )
}
