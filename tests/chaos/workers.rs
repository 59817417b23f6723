//! The workers: each `outboxd` under a keeper that starts it again whenever it ends, and the SDK's beside them. A process that
//! ends without anybody's doing is told of.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::proxy::Proxy;
use crate::support::config::{Config, text};
use crate::support::eventually::{PATIENCE, eventually, within};
use crate::support::peer::Peer;
use crate::support::runtime;
use crate::{SKEWED, pause};

/// Where the package `libfaketime` of Debian keeps it, below the directory of the architecture.
const FAKETIME: &str = "faketime/libfaketime.so.1";

/// One process of a worker. Its sessions at the database have its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    pub name: String,
    pub pid: Pid,
    pub since: Instant,
}

impl Life {
    /// One that cannot start says so and ends; one that serves goes on.
    pub fn is_starting(&self) -> bool {
        self.since.elapsed() < Duration::from_secs(15)
    }

    /// Whether SIGTERM has its handler, by the kernel's word.
    fn listens(&self) -> Result<(), String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).map_err(|error| error.to_string())?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).ok_or("no mask")?.trim();
        let mask = u64::from_str_radix(caught, 16).map_err(|error| error.to_string())?;
        if mask >> (Signal::SIGTERM as u32 - 1) & 1 == 1 { Ok(()) } else { Err(format!("it catches {caught}")) }
    }
}

/// How the next process is started.
#[derive(Clone, Default)]
pub struct Start {
    pub kill_at: Option<String>,
    pub logs_full: bool,
}

#[derive(Clone)]
pub struct Daemon {
    pub proxy: Proxy,
    shared: Arc<Shared>,
}

struct Shared {
    number: usize,
    config: Config,
    url: String,
    /// The way to the database.
    _directory: TempDir,
    now: watch::Sender<Option<Life>>,
    /// Those that were, and are.
    lives: Mutex<Vec<Life>>,
    next: Mutex<Start>,
    /// Whose end is somebody's doing.
    excused: Mutex<HashSet<String>>,
    strange: Mutex<Vec<String>>,
    over: watch::Sender<bool>,
}

impl Daemon {
    /// `way` is where its socket to the database is.
    pub fn keep(number: usize, config: Config, proxy: Proxy, way: TempDir) -> Daemon {
        let url = format!("postgresql://postgres@/chaos?host={}", way.path().display());
        config.file("clock", "+0");
        let shared = Arc::new(Shared {
            number,
            config,
            url,
            _directory: way,
            now: watch::Sender::new(None),
            lives: Mutex::default(),
            next: Mutex::default(),
            excused: Mutex::default(),
            strange: Mutex::default(),
            over: watch::Sender::new(false),
        });
        tokio::spawn(keeper(shared.clone()));
        Daemon { proxy, shared }
    }

    /// The process of now, once there is one.
    pub async fn life(&self) -> Life {
        let mut now = self.shared.now.subscribe();
        let life = within(PATIENCE, "a daemon runs", now.wait_for(Option::is_some)).await;
        life.expect("the keeper lives").clone().expect("it was waited for")
    }

    /// All that were since this one.
    pub fn lives_since(&self, first: &Life) -> Vec<String> {
        let lives = self.shared.lives.lock().expect("no holder panics");
        lives.iter().skip_while(|life| *life != first).map(|life| life.name.clone()).collect()
    }

    /// It may end now, by whatever was done to it.
    pub fn excuse(&self, life: &Life) {
        self.shared.excused.lock().expect("no holder panics").insert(life.name.clone());
    }

    pub fn signal(&self, life: &Life, signal: Signal) {
        if *self.shared.now.borrow() == Some(life.clone()) {
            let _ = kill(life.pid, signal);
        }
    }

    /// Waits for its end, but not for ever.
    pub async fn ended(&self, life: &Life, limit: Duration) -> bool {
        let mut now = self.shared.now.subscribe();
        let ended = now.wait_for(|now| now.as_ref() != Some(life));
        tokio::time::timeout(limit, ended).await.is_ok()
    }

    /// Ends it and starts it so.
    pub async fn begin_anew(&self, how: Start) -> Life {
        let life = self.life().await;
        *self.shared.next.lock().expect("no holder panics") = how;
        self.excuse(&life);
        self.signal(&life, Signal::SIGTERM);
        if !self.ended(&life, Duration::from_secs(10)).await {
            self.signal(&life, Signal::SIGKILL);
        }
        self.ended(&life, PATIENCE).await;
        self.life().await
    }

    /// Of this process; its clock is looked at every second.
    pub fn set_clock(&self, seconds: i64) {
        self.shared.config.file("clock", format!("{seconds:+}"));
    }

    /// For good, as an operator would. Its exit status must be good: of a process that listens by now, and not of one that has hardly
    /// begun, which the signal itself would end.
    pub async fn stop(&self) {
        let listens = async || match &*self.shared.now.borrow() {
            Some(life) => life.listens(),
            None => Err("none runs".into()),
        };
        eventually("a daemon listens to SIGTERM", listens).await;
        self.shared.over.send_replace(true);
        let life = self.shared.now.borrow().clone();
        if let Some(life) = life {
            self.signal(&life, Signal::SIGTERM);
            if !self.ended(&life, PATIENCE).await {
                self.signal(&life, Signal::SIGKILL);
                self.tell(format!("{} did not end when it was told to", life.name));
            }
        }
    }

    fn tell(&self, what: String) {
        self.shared.strange.lock().expect("no holder panics").push(what);
    }

    pub fn strange(&self) -> Vec<String> {
        self.shared.strange.lock().expect("no holder panics").clone()
    }

    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.shared.config.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

async fn keeper(shared: Arc<Shared>) {
    let mut over = shared.over.subscribe();
    for incarnation in 0.. {
        if *over.borrow_and_update() {
            return;
        }
        let start = std::mem::take(&mut *shared.next.lock().expect("no holder panics"));
        let name = format!("d{}.{incarnation}", shared.number);
        let mut child = runtime::spawn(&command(&shared, &name, &start)).expect("sh is there");
        let pid = Pid::from_raw(child.id().cast_signed());
        let life = Life { name: name.clone(), pid, since: Instant::now() };
        shared.lives.lock().expect("no holder panics").push(life.clone());
        if start.kill_at.is_some() {
            shared.excused.lock().expect("no holder panics").insert(name.clone());
        }
        shared.now.send_replace(Some(life));
        let status = tokio::task::spawn_blocking(move || child.wait().expect("it is our child")).await;
        let status = status.expect("waiting does not panic");
        shared.now.send_replace(None);
        let is_excused = shared.excused.lock().expect("no holder panics").contains(&name);
        let is_well = *over.borrow() && status.success();
        if !is_excused && !is_well {
            shared.strange.lock().expect("no holder panics").push(format!("{name} ended by itself: {status}"));
        }
        pause(Duration::from_millis(200)).await;
    }
}

fn command(shared: &Shared, name: &str, start: &Start) -> Command {
    let log = if start.logs_full { PathBuf::from("/dev/full") } else { shared.config.path("log") };
    let mut command = Command::new("sh");
    let preload = if shared.number == SKEWED {
        format!("LD_PRELOAD=/usr/lib/{}-linux-gnu/{FAKETIME}", std::env::consts::ARCH)
    } else {
        String::new()
    };
    // A pipe that nobody reads would stop it when full. What is preloaded is for the daemon alone.
    let run = format!(
        "exec env {preload} {} run --config {} >>{} 2>&1",
        env!("CARGO_BIN_EXE_outboxd"),
        text(&shared.config.path("outboxd.toml")),
        text(&log)
    );
    command.args(["-c", &run]);
    command.env("OUTBOXD_DATABASE__URL", format!("{}&application_name={name}", shared.url));
    command.env("KILLPOINTS", start.kill_at.as_deref().unwrap_or_default());
    command.env("FAKETIME_TIMESTAMP_FILE", shared.config.path("clock")).env("FAKETIME_CACHE_DURATION", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    command
}

/// The SDK's worker: a fork of one process that has imported it.
pub struct Sdk {
    pub proxy: Proxy,
    url: String,
    _directory: TempDir,
    open: Value,
    peer: tokio::sync::Mutex<Option<Peer>>,
    lives: Mutex<usize>,
}

impl Sdk {
    pub fn new(proxy: Proxy, way: TempDir, open: Value) -> Sdk {
        let url = format!("postgresql://postgres@/chaos?host={}", way.path().display());
        Sdk { proxy, url, _directory: way, open, peer: tokio::sync::Mutex::new(None), lives: Mutex::new(0) }
    }

    pub fn name(&self) -> String {
        format!("sdk.{}", self.lives.lock().expect("no holder panics"))
    }

    /// Runs when the database has answered it.
    pub async fn start(&self) {
        *self.lives.lock().expect("no holder panics") += 1;
        let mut open = self.open.clone();
        open["dsn"] = format!("{}&application_name={}", self.url, self.name()).into();
        loop {
            let peer = Peer::seller().await;
            if peer.try_call("open", open.clone()).await.is_ok() {
                peer.call("work", json!({"workers": 4})).await;
                *self.peer.lock().await = Some(peer);
                return;
            }
            peer.kill().await;
        }
    }

    /// Nothing while it is not running yet.
    pub async fn signal(&self, signal: Signal) {
        if let Some(peer) = &*self.peer.lock().await {
            peer.signal(signal);
        }
    }

    pub async fn kill(&self) {
        let peer = self.peer.lock().await.take();
        if let Some(peer) = peer {
            peer.kill().await;
        }
    }

    pub async fn is_running(&self) -> bool {
        self.peer.lock().await.is_some()
    }
}
