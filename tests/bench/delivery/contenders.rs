//! Who delivers: each contender, how it is set up to be at its best, and how it is started. What it does is its own affair.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::Bed;
use super::outbox::Outbox;
use super::peers::{Sdk, graphile};
use super::processes::{Cpu, Process, is_running, peak_memory};
use super::support::certs::Authority;
use super::support::keys::SigningKey;

/// What Debian's package `ca-certificates` installs.
const DEBIAN_STORE: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Contender {
    /// `outboxd run`, so many processes, each with so many slots, all of which one destination may take from the start.
    Outboxd {
        processes: usize,
        slots: usize,
    },
    /// `outboxd run` with no setting of its own for speed.
    Defaults,
    /// One of `Outboxd`, without a history of its attempts.
    Unrecorded {
        slots: usize,
    },
    Bare {
        connections: usize,
        batch: usize,
    },
    Sdk {
        processes: usize,
        tasks: usize,
        full_store: bool,
        /// A table as the SDK makes it, instead of ours.
        own_table: bool,
    },
    Graphile {
        concurrency: usize,
        tuned: bool,
    },
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Outboxd { processes: 1, slots } => write!(f, "outboxd, {slots} slots, all for one destination"),
            Contender::Outboxd { processes, slots } => write!(f, "outboxd, {processes} processes of {slots} slots"),
            Contender::Defaults => f.write_str("outboxd, default settings"),
            Contender::Unrecorded { slots } => write!(f, "outboxd, {slots} slots, no history of attempts"),
            Contender::Bare { connections, batch } => {
                write!(f, "bare loop, {connections} connections, batches of {batch}")
            }
            Contender::Sdk { processes, tasks, full_store, own_table } => {
                let store = if *full_store { "Debian's trust store" } else { "one CA" };
                let table = if *own_table { ", the SDK's own table" } else { "" };
                write!(f, "SDK worker, {processes} processes of {tasks} tasks, {store}{table}")
            }
            Contender::Graphile { concurrency, tuned } => {
                let how = if *tuned { "local queue, batched completion" } else { "default" };
                write!(f, "graphile-worker, {concurrency} jobs at once, {how}")
            }
        }
    }
}

/// The files that every contender reads: keys, and the authority that the receiver's certificate is of.
pub struct Keys {
    pub home: TempDir,
    pub signing: SigningKey,
    envelope: PathBuf,
    pub pem: PathBuf,
    pub ca: PathBuf,
    /// That authority among all that Debian trusts.
    pub full_store: PathBuf,
}

impl Keys {
    pub fn new(outbox: &Outbox) -> Keys {
        let home = TempDir::new().expect("the temp directory takes another");
        let signing = SigningKey::ed25519("bench-key");
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::write(&path, text).expect("our directory is ours");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our file is ours");
            path
        };
        let envelope = write("envelope.key", &outbox.key.hex());
        let pem = write("signing.pem", &signing.pem());
        let ca = write("ca.pem", Authority::shared().pem());
        let debian = fs::read_to_string(DEBIAN_STORE).expect("tests/needs.sh installs ca-certificates");
        let full_store = write("store.pem", &(debian + Authority::shared().pem()));
        Keys { home, signing, envelope, pem, ca, full_store }
    }
}

/// A contender at work.
pub struct Running {
    processes: Vec<Process>,
    /// Of the SDK's process; their ids.
    forks: Option<(Rc<RefCell<Sdk>>, Vec<i32>)>,
}

impl Contender {
    /// How many rows it may have under way.
    pub fn at_once(&self) -> usize {
        match *self {
            Contender::Outboxd { processes, slots } => processes * slots,
            Contender::Unrecorded { slots } => slots,
            Contender::Defaults => 256,
            Contender::Bare { connections, .. } => connections,
            Contender::Sdk { processes, tasks, .. } => processes * tasks,
            // It fetches ahead.
            Contender::Graphile { concurrency, .. } => 3 * concurrency,
        }
    }

    /// Rows that have come, and time that has passed after them, before it has found its pace: what the SDK does first, it does
    /// slowly.
    pub fn start_up(&self) -> u64 {
        match self {
            Contender::Sdk { processes, tasks, .. } => 2 * (processes * tasks) as u64,
            _ => 1,
        }
    }

    pub fn warm_up(&self) -> Duration {
        Duration::from_secs(if matches!(self, Contender::Sdk { .. }) { 4 } else { 1 })
    }

    /// More deliveries a second than it will ever make here: rows for so many are there, so that it never runs out of them.
    pub fn fastest(&self) -> f64 {
        match self {
            Contender::Outboxd { .. } | Contender::Defaults | Contender::Unrecorded { .. } | Contender::Bare { .. } => {
                20_000.0
            }
            Contender::Graphile { .. } => 12_000.0,
            Contender::Sdk { .. } => 600.0,
        }
    }

    pub fn start(&self, bed: &mut Bed) -> Running {
        let processes = match *self {
            Contender::Outboxd { processes, slots } => {
                (0..processes).map(|nth| daemon(&bed.outbox, &bed.keys, nth, &all_for_one(slots))).collect()
            }
            Contender::Defaults => vec![daemon(&bed.outbox, &bed.keys, 0, "")],
            Contender::Unrecorded { slots } => {
                let settings = all_for_one(slots) + "[history]\nenabled = false\n";
                vec![daemon(&bed.outbox, &bed.keys, 0, &settings)]
            }
            Contender::Bare { connections, batch } => {
                let keys = &bed.keys;
                let mut command = Process::ourselves("bare");
                command.arg("--database").arg(&bed.outbox.url).arg("--envelope-key").arg(&keys.envelope);
                command.arg("--signing-key").arg(&keys.pem).arg("--ca").arg(&keys.ca);
                command.args(["--key-id", &keys.signing.kid, "--poll-ms", "500"]);
                command.args(["--connections", &connections.to_string(), "--batch", &batch.to_string()]);
                vec![Process::start("bare loop", &command)]
            }
            Contender::Graphile { concurrency, tuned } => vec![graphile(&bed.outbox, &bed.keys, concurrency, tuned)],
            Contender::Sdk { processes, tasks, full_store, .. } => {
                let sdk = bed.sdk();
                let pids = sdk.borrow_mut().work(&bed.outbox, &bed.keys, processes, tasks, full_store);
                return Running { processes: Vec::new(), forks: Some((sdk, pids)) };
            }
        };
        Running { processes, forks: None }
    }
}

fn all_for_one(slots: usize) -> String {
    format!("slots = {slots}\nper_destination = {slots}\nper_destination_start = {slots}\n")
}

/// `outboxd run` with these lines in its section `delivery`.
fn daemon(outbox: &Outbox, keys: &Keys, nth: usize, delivery: &str) -> Process {
    let name = |path: &Path| path.display().to_string();
    let settings = format!(
        "[database]\nurl = {:?}\n[envelope]\nkey_files = [{:?}]\n\
         [signing]\nkey_file = {:?}\nkey_id = {:?}\n\
         [egress]\nallow = [\"127.0.0.1/32\"]\ntrust_anchors = [{:?}]\n\
         [delivery]\n{delivery}\
         [admin]\nlisten = \"127.0.0.1:0\"\n",
        outbox.url,
        name(&keys.envelope),
        name(&keys.pem),
        keys.signing.kid,
        name(&keys.ca),
    );
    let file = keys.home.path().join(format!("outboxd-{nth}.toml"));
    fs::write(&file, settings).expect("our directory is ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
    command.args(["run", "--config"]).arg(file);
    // As the unit and the image have it.
    command.env("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1048576");
    Process::start("outboxd", &command)
}

impl Running {
    /// One `outboxd` with these lines in its section `delivery`.
    pub fn outboxd(bed: &Bed, delivery: &str) -> Running {
        Running { processes: vec![daemon(&bed.outbox, &bed.keys, 0, delivery)], forks: None }
    }

    fn pids(&self) -> impl Iterator<Item = i32> {
        let forks = self.forks.iter().flat_map(|(_, pids)| pids.iter().copied());
        self.processes.iter().map(Process::pid).chain(forks)
    }

    pub fn cpu(&self) -> Cpu {
        self.pids().map(Cpu::of).sum()
    }

    /// The largest process's, in MiB.
    pub fn peak_mib(&self) -> f64 {
        let most = self.pids().map(peak_memory).max().unwrap_or_default();
        most as f64 / f64::from(1 << 20)
    }

    /// The last of it.
    pub fn said(&self) -> String {
        let forks = self.forks.iter().map(|(sdk, _)| sdk.borrow().said());
        self.processes.iter().map(Process::said).chain(forks).collect()
    }

    pub fn assert_running(&mut self) {
        self.processes.iter_mut().for_each(Process::assert_running);
        if let Some((sdk, pids)) = &self.forks {
            sdk.borrow_mut().assert_running();
            assert!(pids.iter().copied().all(is_running), "a worker of the SDK ended\n{}", sdk.borrow().said());
        }
    }

    pub fn stop(self) {
        if let Some((sdk, _)) = &self.forks {
            sdk.borrow_mut().rest();
        }
        self.processes.into_iter().for_each(Process::stop);
    }
}

/// Attempts at once that keep everyone busy although each takes this long.
pub fn concurrency(delay: Duration) -> usize {
    match delay.as_millis() {
        0 => 64,
        1..100 => 512,
        _ => 1024,
    }
}

/// Slots hold what is claimed and not posted yet, and decide how many rows share a statement.
pub fn slots(delay: Duration) -> usize {
    match delay.as_millis() {
        0 => 512,
        1..100 => 768,
        _ => 2048,
    }
}

/// The bare loop claims ahead of its connections. Where waiting is all, it has as many of them as outboxd has slots.
pub fn bare_connections(delay: Duration) -> usize {
    if delay.is_zero() { concurrency(delay) } else { slots(delay) }
}

/// The SDK's tasks in each of two processes: more is slower, until they only wait. Where they read Debian's store for every
/// attempt they never only wait, and more of them run into their own deadline.
pub fn sdk_tasks(delay: Duration, full_store: bool) -> usize {
    if full_store || delay.as_millis() < 100 { 16 } else { 40 }
}
