//! Others that deliver webhooks: the SDK's worker and graphile-worker, as `tests/needs.sh bench` installed them.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};

use serde_json::{Value, json};

use super::contenders::Keys;
use super::outbox::Outbox;
use super::processes::Process;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn script(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/bench/delivery/peers").join(name)
}

/// Something of `target` that `tests/needs.sh bench` makes.
fn installed(name: &str) -> PathBuf {
    let path = Path::new(ROOT).join("target").join(name);
    assert!(path.exists(), "{} is missing: run `sh tests/needs.sh bench`", path.display());
    path
}

/// The SDK, imported once, which takes half a minute; it forks workers as they are asked for.
pub struct Sdk {
    process: Process,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Sdk {
    pub fn import() -> Sdk {
        println!("importing the SDK");
        let mut command = Command::new(installed("venv/bin/python"));
        command.arg(script("sdk.py"));
        let (process, orders, answers) = Process::talking("SDK", &command);
        let mut sdk = Sdk { process, orders, answers };
        sdk.pids();
        sdk
    }

    /// So many processes of so many tasks, which trust our authority, alone or among all that Debian trusts; none of earlier ones.
    pub fn work(&mut self, outbox: &Outbox, keys: &Keys, processes: usize, tasks: usize, full_store: bool) -> Vec<i32> {
        self.order(&json!({
            "database": outbox.url, "processes": processes, "tasks": tasks, "pem": keys.pem, "kid": keys.signing.kid,
            "key": outbox.key.hex(), "ca": if full_store { &keys.full_store } else { &keys.ca },
        }))
    }

    /// The outbox's table, as the SDK makes it.
    pub fn create_schema(&mut self, outbox: &Outbox, keys: &Keys) {
        self.order(&json!({
            "database": outbox.url, "create_schema": true, "tasks": 1, "pem": keys.pem, "kid": keys.signing.kid,
            "key": outbox.key.hex(), "ca": keys.ca,
        }));
    }

    pub fn rest(&mut self) {
        self.order(&json!({}));
    }

    pub fn assert_running(&mut self) {
        self.process.assert_running();
    }

    pub fn said(&self) -> String {
        self.process.said()
    }

    fn order(&mut self, order: &Value) -> Vec<i32> {
        writeln!(self.orders, "{order}").expect("the SDK's process lives");
        self.pids()
    }

    fn pids(&mut self) -> Vec<i32> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the SDK's process lives");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the SDK's process ended\n{}", self.process.said()))
    }
}

pub fn graphile(outbox: &Outbox, keys: &Keys, concurrency: usize, tuned: bool) -> Process {
    let order = json!({
        "database": outbox.url, "pem": keys.pem, "kid": keys.signing.kid, "ca": keys.ca,
        "concurrency": concurrency, "tuned": tuned,
    });
    Process::start("graphile-worker", &node(&order))
}

/// Its tables.
pub fn migrate_graphile(outbox: &Outbox) {
    let done = node(&json!({"database": outbox.url, "migrate": true})).output().expect("node runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn node(order: &Value) -> Command {
    let mut command = Command::new("node");
    command.arg(script("graphile.mjs")).arg(order.to_string()).env("MODULES", installed("peers"));
    command
}
