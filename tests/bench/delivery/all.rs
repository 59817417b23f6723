//! All scenarios, each in a process of its own, so that one that fails does not keep the others from being measured. Run again,
//! it measures only what is missing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::outcome::Record;

/// The file's name, and what it is measured with.
type Step = (&'static str, &'static [&'static str]);

const EVERYONE: &str = "outboxd,unrecorded,bare,graphile-tuned,graphile,sdk,sdk-full-store,sdk-own-table,defaults";

/// In some 45 minutes on a machine with nothing else to do, but for the last two, which nothing is demanded of.
pub const FULL: &[Step] = &[
    ("throughput-0ms", &["throughput", "--delay-ms=0", "--processes=1,2", "--window=3", "--contenders", EVERYONE]),
    ("throughput-50ms", &["throughput", "--delay-ms=50", "--processes=1,2", "--window=3", "--contenders", EVERYONE]),
    ("latency", &["latency", "--seconds=40"]),
    ("fairness", &["fairness"]),
    // After its first minute a destination that is down is probed each half minute, however long it is.
    ("herd", &["herd", "--down=120"]),
    ("memory", &["memory"]),
    ("growth", &["growth"]),
    ("snapshot", &["snapshot", "--reference=60"]),
    ("replicas", &["replicas"]),
    (
        "throughput-500ms",
        &["throughput", "--delay-ms=500", "--window=5", "--contenders", "outboxd,bare,graphile-tuned,sdk"],
    ),
];

/// In under two minutes, for CI.
pub const QUICK: &[Step] = &[
    ("throughput-0ms", &["throughput", "--delay-ms=0", "--turns=2", "--window=2", "--contenders=outboxd,bare,sdk"]),
    ("latency", &["latency", "--seconds=6", "--rates=200"]),
];

pub fn names() -> Vec<&'static str> {
    FULL.iter().map(|(name, _)| *name).collect()
}

/// What this program was called with, but for where figures go and what cargo adds.
pub fn own_arguments() -> Vec<String> {
    let mut arguments = Vec::new();
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--bench" => {}
            "--out" => drop(given.next()),
            _ => arguments.push(argument),
        }
    }
    arguments
}

pub fn run(out: &Path, steps: &[Step]) {
    let began = Instant::now();
    let mut failed = Vec::new();
    for (name, arguments) in steps {
        if is_fresh(&out.join(format!("{name}.json")), arguments) {
            println!("{name} has been measured already; remove {out}/{name}.json to repeat it", out = out.display());
            continue;
        }
        println!("\n== {name}");
        // The kernel ends it with us.
        let status = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(std::env::current_exe().expect("a program has a path"))
            .args(*arguments)
            .arg("--out")
            .arg(out)
            .status()
            .expect("setpriv runs");
        if !status.success() {
            failed.push(*name);
        }
        println!("({:.0} s so far)", began.elapsed().as_secs_f64());
    }
    println!("\n{}", super::outcome::report(out, &names()));
    if !failed.is_empty() {
        eprintln!("could not be measured: {}", failed.join(", "));
        std::process::exit(1);
    }
}

/// By the same arguments, since outboxd was built.
fn is_fresh(path: &Path, arguments: &[&str]) -> bool {
    let written = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let built = written(Path::new(env!("CARGO_BIN_EXE_outboxd")));
    written(path) > built && Record::read(path).is_some_and(|record| record.arguments == arguments)
}
