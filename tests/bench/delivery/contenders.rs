//! Who delivers: each contender, how it is set up to be at its best, and how it is started. What it does is its own affair.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::outbox::Outbox;
use super::processes::{Cpu, Process, peak_memory};
use super::support::certs::Authority;
use super::support::keys::SigningKey;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Contender {
    /// `outboxd run`, so many processes, each with so many slots, all of which one destination may take.
    Outboxd {
        processes: usize,
        slots: usize,
    },
    Bare {
        connections: usize,
        batch: usize,
    },
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Outboxd { processes: 1, slots } => write!(f, "outboxd, {slots} slots"),
            Contender::Outboxd { processes, slots } => write!(f, "outboxd, {processes} processes of {slots} slots"),
            Contender::Bare { connections, batch } => {
                write!(f, "bare loop, {connections} connections, batches of {batch}")
            }
        }
    }
}

/// The files that every contender reads: keys, and the one authority that the receiver's certificate is of.
pub struct Keys {
    pub home: TempDir,
    pub signing: SigningKey,
    envelope: PathBuf,
    pem: PathBuf,
    ca: PathBuf,
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
        Keys { home, signing, envelope, pem, ca }
    }
}

/// A contender at work.
pub struct Running(Vec<Process>);

impl Contender {
    /// How many rows it may have under way.
    pub fn at_once(&self) -> usize {
        match *self {
            Contender::Outboxd { processes, slots } => processes * slots,
            Contender::Bare { connections, .. } => connections,
        }
    }

    pub fn start(&self, outbox: &Outbox, keys: &Keys) -> Running {
        match *self {
            Contender::Outboxd { processes, slots } => {
                let settings = daemon_settings(outbox, keys, slots);
                let start = |nth| daemon(&settings, &keys.home.path().join(format!("outboxd-{nth}.toml")));
                Running((0..processes).map(start).collect())
            }
            Contender::Bare { connections, batch } => {
                let mut command = Process::ourselves("bare");
                command.arg("--database").arg(&outbox.url).arg("--envelope-key").arg(&keys.envelope);
                command.arg("--signing-key").arg(&keys.pem).arg("--ca").arg(&keys.ca);
                command.args(["--key-id", &keys.signing.kid, "--poll-ms", "500"]);
                command.args(["--connections", &connections.to_string(), "--batch", &batch.to_string()]);
                Running(vec![Process::start("bare loop", &command)])
            }
        }
    }
}

/// As an operator would write it who has one large destination: its share of the slots is all of them.
fn daemon_settings(outbox: &Outbox, keys: &Keys, slots: usize) -> String {
    let name = |path: &Path| path.display().to_string();
    format!(
        "[database]\nurl = {:?}\n[envelope]\nkey_files = [{:?}]\n\
         [signing]\nkey_file = {:?}\nkey_id = {:?}\n\
         [egress]\nallow = [\"127.0.0.1/32\"]\ntrust_anchors = [{:?}]\nsystem_roots = false\n\
         [delivery]\nslots = {slots}\nper_destination = {slots}\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n",
        outbox.url,
        name(&keys.envelope),
        name(&keys.pem),
        keys.signing.kid,
        name(&keys.ca),
    )
}

fn daemon(settings: &str, file: &Path) -> Process {
    fs::write(file, settings).expect("our directory is ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
    command.args(["run", "--config"]).arg(file);
    Process::start("outboxd", &command)
}

impl Running {
    pub fn cpu(&self) -> Cpu {
        self.0.iter().map(|process| Cpu::of(process.pid())).sum()
    }

    /// The largest process's.
    pub fn peak_memory(&self) -> u64 {
        self.0.iter().map(|process| peak_memory(process.pid())).max().unwrap_or_default()
    }

    /// The last of it.
    pub fn said(&self) -> String {
        self.0.iter().map(Process::said).collect()
    }

    pub fn assert_running(&mut self) {
        self.0.iter_mut().for_each(Process::assert_running);
    }

    pub fn stop(self) {
        self.0.into_iter().for_each(Process::stop);
    }
}

/// Attempts at once that keep everyone busy although each takes this long.
pub fn concurrency(delay: Duration) -> usize {
    match delay.as_millis() {
        0 => 64,
        1..100 => 256,
        _ => 1024,
    }
}
