//! Everything that takes part: a server, workers, receivers and the ways between, and how each trouble is made and mended.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::feed::Feed;
use crate::plan::{Database as Of, Event, Mood, Plan, Trouble, Weather};
use crate::proxy::Proxy;
use crate::support::certs::Authority;
use crate::support::config::{Config, text};
use crate::support::eventually::ticks;
use crate::support::history::{Enqueued, Fault, History, Receipt, Report, Side, Step, moment};
use crate::support::keys::SigningKey;
use crate::support::receiver::{Answer, Receiver};
use crate::support::seal::EnvelopeKey;
use crate::support::server::Server;
use crate::workers::{Daemon, Life, Sdk, Start};
use crate::{DAEMONS, RECEIVERS, SKEWED, pause};

pub const LEASE: Duration = Duration::from_secs(9);
const ATTEMPT: Duration = Duration::from_secs(3);
/// After the storm: leases end, back-off passes, everyone connects again.
const CALM: Duration = Duration::from_secs(60);
const DATABASE: &str = "chaos";

struct Hook {
    receiver: Receiver,
    proxy: Proxy,
    url: String,
}

pub struct Stage {
    server: AsyncMutex<Server>,
    daemons: Vec<Daemon>,
    /// Held by whoever does something to the worker itself.
    busy: Vec<AsyncMutex<()>>,
    sdk: Sdk,
    hooks: Vec<Hook>,
    key: EnvelopeKey,
    enqueued: Arc<Mutex<Vec<Enqueued>>>,
    receipts: Arc<Mutex<Vec<Receipt>>>,
    faults: Mutex<Vec<Fault>>,
    counts: Mutex<BTreeMap<&'static str, usize>>,
}

pub struct Outcome {
    report: Report,
    counts: BTreeMap<&'static str, usize>,
    /// Leases that the SDK's worker had.
    granted_to_the_sdk: usize,
    strange: Vec<String>,
    /// From the end of the last trouble until nothing was open.
    settled_after: Duration,
    logs: String,
}

impl Stage {
    pub async fn set() -> Stage {
        let server = Server::start(&["log_min_messages=panic"]).await;
        let database = server.database(DATABASE).await;
        History::record(&database).await;
        let (key, signer) = (EnvelopeKey::new(), SigningKey::ed25519("chaos-1"));
        let receipts = Arc::new(Mutex::new(Vec::new()));
        let mut hooks = Vec::new();
        for _ in 0..RECEIVERS {
            let receiver = Receiver::start().await;
            let book = receipts.clone();
            receiver.tell(move |request| book.lock().expect("no holder panics").push(Receipt::of(&request)));
            let (proxy, address) = Proxy::tcp(receiver.address).await;
            hooks.push(Hook { receiver, proxy, url: format!("https://{address}") });
        }
        let mut daemons = Vec::new();
        for number in 0..DAEMONS {
            let (proxy, way) = Proxy::unix(server.directory());
            daemons.push(Daemon::keep(number, config(&key, &signer), proxy, way));
        }
        let (proxy, way) = Proxy::unix(server.directory());
        let ca = Config::empty().file("ca.pem", Authority::shared().pem());
        let open = json!({
            "key": key.hex(),
            "signing": {"pem": signer.pem(), "kid": signer.kid, "algorithm": signer.algorithm.name()},
            "ca": text(&ca),
            "lease_seconds": LEASE.as_secs(),
            "timeout_seconds": ATTEMPT.as_secs_f64(),
            "retry_seconds": [0.2, 2.0],
        });
        Stage {
            server: AsyncMutex::new(server),
            daemons,
            busy: (0..=DAEMONS).map(|_| AsyncMutex::new(())).collect(),
            sdk: Sdk::new(proxy, way, open),
            hooks,
            key,
            enqueued: Arc::default(),
            receipts,
            faults: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    pub async fn play(&self, plan: &Plan, seed: u64, rate: usize) -> Outcome {
        let begun = Instant::now();
        let ends = begun + plan.storm;
        let feed = Feed {
            url: self.server.lock().await.url(DATABASE),
            key: self.key.clone(),
            receivers: self.hooks.iter().map(|hook| hook.url.clone()).collect(),
            rate,
            enqueued: self.enqueued.clone(),
        };
        let feed = tokio::spawn(feed.run(seed, plan.storm));
        let troubles = plan.events(seed).into_iter().map(|event| async move {
            pause((begun + event.at).saturating_duration_since(Instant::now())).await;
            self.make(event, begun, ends).await;
        });
        tokio::join!(self.sdk.start(), join_all(troubles));
        feed.await.expect("the feed does not panic");
        let calm = Instant::now();
        let settled_after = self.settles(calm).await;
        self.end(settled_after).await
    }

    /// How long it took until no row was open; at the limit, whatever still is.
    async fn settles(&self, calm: Instant) -> Duration {
        let client = self.server.lock().await.client(DATABASE).await;
        let open = "SELECT count(*) FROM adcp_task_webhook_outbox WHERE state IN ('pending', 'in_flight')";
        let mut ticks = ticks(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            let left: i64 = client.query_one(open, &[]).await.expect("the database answers").get(0);
            if left == 0 || calm.elapsed() > CALM {
                return calm.elapsed();
            }
        }
    }

    async fn end(&self, settled_after: Duration) -> Outcome {
        for daemon in &self.daemons {
            daemon.stop().await;
        }
        self.sdk.kill().await;
        let database = self.server.lock().await.open(DATABASE).await;
        let mut history = History {
            enqueued: std::mem::take(&mut *self.enqueued.lock().expect("no holder panics")),
            receipts: std::mem::take(&mut *self.receipts.lock().expect("no holder panics")),
            faults: std::mem::take(&mut *self.faults.lock().expect("no holder panics")),
            ..History::default()
        };
        history.read(&database).await;
        Outcome {
            report: history.check(),
            granted_to_the_sdk: history.steps.iter().filter(|step| is_granted_to_the_sdk(step)).count(),
            counts: self.counts.lock().expect("no holder panics").clone(),
            strange: self.daemons.iter().flat_map(Daemon::strange).collect(),
            settled_after,
            logs: self.daemons.iter().map(|daemon| format!("{}\n", daemon.log())).collect(),
        }
    }

    async fn make(&self, event: Event, begun: Instant, ends: Instant) {
        let Event { trouble, lasts, .. } = event;
        let worker = match trouble {
            Trouble::Kill(worker) | Trouble::Stop(worker) => Some(worker),
            Trouble::KillAt(daemon, ..) | Trouble::Terminate(daemon, _) | Trouble::Files(daemon) => Some(daemon),
            Trouble::Memory(daemon) | Trouble::Logs(daemon) => Some(daemon),
            Trouble::Skew(_) => Some(SKEWED),
            _ => None,
        };
        let _held = match worker {
            Some(worker) => Some(self.busy[worker].lock().await),
            None => None,
        };
        if Instant::now() >= ends {
            return;
        }
        println!("{:>8.1} s  {trouble:?} for {lasts:?}", begun.elapsed().as_secs_f64());
        *self.counts.lock().expect("no holder panics").entry(trouble.title()).or_default() += 1;
        let from = moment();
        let whose = self.of(trouble, lasts).await;
        let mut faults = self.faults.lock().expect("no holder panics");
        faults.extend(whose.iter().map(|name| Fault::between(trouble.title(), name.as_deref(), from, moment())));
    }

    /// Makes it and mends it, and tells whose trouble it was: of nobody is of all.
    async fn of(&self, trouble: Trouble, lasts: Duration) -> Vec<Option<String>> {
        match trouble {
            Trouble::Kill(DAEMONS) | Trouble::Stop(DAEMONS) => return self.of_the_sdk(trouble, lasts).await,
            Trouble::ToDatabase(worker, weather) => {
                let way = self.way(worker);
                way.set(weather);
                pause(lasts).await;
                way.set(Weather::Clear);
            }
            Trouble::ResetDatabase(worker) => self.way(worker).reset(),
            Trouble::ToReceiver(receiver, weather) => {
                self.hooks[receiver].proxy.set(weather);
                pause(lasts).await;
                self.hooks[receiver].proxy.set(Weather::Clear);
            }
            Trouble::ResetReceiver(receiver) => self.hooks[receiver].proxy.reset(),
            Trouble::Receiver(receiver, mood) => {
                self.hooks[receiver].receiver.answer(move |_, _| answer(mood));
                pause(lasts).await;
                self.hooks[receiver].receiver.answer(|_, _| answer(Mood::Good));
            }
            Trouble::Database(of) => self.of_the_database(of, lasts).await,
            Trouble::Kill(daemon)
            | Trouble::KillAt(daemon, ..)
            | Trouble::Stop(daemon)
            | Trouble::Terminate(daemon, _)
            | Trouble::Files(daemon)
            | Trouble::Memory(daemon)
            | Trouble::Logs(daemon) => return self.of_a_daemon(&self.daemons[daemon], trouble, lasts).await,
            Trouble::Skew(_) => return self.of_a_daemon(&self.daemons[SKEWED], trouble, lasts).await,
        }
        vec![None]
    }

    fn way(&self, worker: usize) -> &Proxy {
        self.daemons.get(worker).map_or(&self.sdk.proxy, |daemon| &daemon.proxy)
    }

    async fn of_a_daemon(&self, daemon: &Daemon, trouble: Trouble, lasts: Duration) -> Vec<Option<String>> {
        let life = daemon.life().await;
        match trouble {
            Trouble::Kill(_) => {
                daemon.excuse(&life);
                daemon.signal(&life, Signal::SIGKILL);
                daemon.ended(&life, lasts).await;
            }
            Trouble::KillAt(_, point, nth) => {
                let armed =
                    daemon.begin_anew(Start { kill_at: Some(format!("{point}:kill:{nth}")), ..Start::default() }).await;
                if !daemon.ended(&armed, 3 * lasts).await {
                    daemon.begin_anew(Start::default()).await;
                }
            }
            Trouble::Stop(_) => {
                daemon.signal(&life, Signal::SIGSTOP);
                pause(lasts).await;
                daemon.signal(&life, Signal::SIGCONT);
            }
            Trouble::Terminate(_, times) => {
                daemon.excuse(&life);
                let mut ticks = ticks(Duration::from_millis(100));
                for _ in 0..times {
                    ticks.tick().await;
                    daemon.signal(&life, Signal::SIGTERM);
                }
                daemon.ended(&life, Duration::from_secs(10)).await;
            }
            Trouble::Skew(seconds) => {
                daemon.set_clock(seconds);
                pause(lasts).await;
                daemon.set_clock(0);
            }
            Trouble::Files(_) => {
                if life.is_starting() {
                    daemon.excuse(&life);
                }
                let open = fs::read_dir(format!("/proc/{}/fd", life.pid)).map_or(3, Iterator::count);
                limit(&life, &format!("--nofile={open}:"));
                pause(lasts).await;
                limit(&life, "--nofile=1024:");
            }
            Trouble::Memory(_) => {
                daemon.excuse(&life);
                let status = fs::read_to_string(format!("/proc/{}/status", life.pid)).unwrap_or_default();
                let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap_or("0 kB");
                let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("the kernel writes a number");
                limit(&life, &format!("--as={}:", (kib << 10) + (1 << 20)));
                daemon.ended(&life, lasts).await;
                limit(&life, "--as=unlimited:");
            }
            _ => {
                daemon.begin_anew(Start { logs_full: true, ..Start::default() }).await;
                pause(lasts).await;
                daemon.begin_anew(Start::default()).await;
            }
        }
        daemon.lives_since(&life).into_iter().map(Some).collect()
    }

    async fn of_the_sdk(&self, trouble: Trouble, lasts: Duration) -> Vec<Option<String>> {
        let name = self.sdk.name();
        if !self.sdk.is_running().await {
            return Vec::new();
        }
        if let Trouble::Kill(_) = trouble {
            self.sdk.kill().await;
            self.sdk.start().await;
        } else {
            self.sdk.signal(Signal::SIGSTOP).await;
            pause(lasts).await;
            self.sdk.signal(Signal::SIGCONT).await;
        }
        vec![Some(name)]
    }

    async fn of_the_database(&self, of: Of, lasts: Duration) {
        let mut server = self.server.lock().await;
        match of {
            Of::Restart => {
                server.stop(Signal::SIGINT);
                server.restart().await;
            }
            Of::Crash => {
                server.signal_all(Signal::SIGKILL);
                server.stop(Signal::SIGKILL);
                server.restart().await;
            }
            Of::Terminate => {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
                server.client("postgres").await.batch_execute(end).await.expect("a superuser may");
            }
            Of::ReadOnly => {
                let client = server.client("postgres").await;
                for (statement, then) in
                    [("SET default_transaction_read_only = on", lasts), ("RESET ALL", Duration::ZERO)]
                {
                    client.batch_execute(&format!("ALTER SYSTEM {statement}")).await.expect("a superuser may");
                    client.batch_execute("SELECT pg_reload_conf()").await.expect("a superuser may");
                    pause(then).await;
                }
            }
        }
    }
}

fn is_granted_to_the_sdk(step: &Step) -> bool {
    let token = |side: &Option<Side>| side.as_ref().and_then(|side| side.token.clone());
    step.worker.starts_with("sdk") && token(&step.after).is_some() && token(&step.after) != token(&step.before)
}

fn config(key: &EnvelopeKey, signer: &SigningKey) -> Config {
    let config = Config::empty();
    let key = config.file("envelope.key", key.hex());
    let pem = config.file("signing.pem", signer.pem());
    let anchor = config.file_with_mode("ca.pem", Authority::shared().pem(), 0o644);
    let seconds = |time: Duration| format!("{}s", time.as_secs());
    let config = config
        .set("database.connect_timeout", "2s")
        .set("database.statement_timeout", "2s")
        .set("envelope.key_files", vec![text(&key)])
        .set("signing.key_file", text(&pem))
        .set("signing.key_id", signer.kid.as_str())
        .set("signing.algorithms", vec![signer.algorithm.name()])
        .set("egress.allow", vec!["127.0.0.0/8"])
        .set("egress.trust_anchors", vec![text(&anchor)])
        .set("egress.system_roots", false)
        .set("egress.attempt_timeout", seconds(ATTEMPT))
        .set("delivery.lease", seconds(LEASE))
        .set("delivery.poll_interval", "200ms")
        .set("delivery.drain_timeout", "3s")
        .set("delivery.slots", 64)
        .set("retry.base", "200ms")
        .set("retry.cap", "2s")
        .set("retry.slow_base", "500ms")
        .set("retry.slow_cap", "2s")
        .set("retry.retry_after_cap", "2s")
        .set("sweep.expire_interval", "1s")
        .set("sweep.purge_interval", "2s")
        .set("admin.listen", "")
        .set("log.filter", "warn");
    config.write();
    config
}

fn answer(mood: Mood) -> Answer {
    match mood {
        Mood::Good => Answer::status(200),
        Mood::Refuses(status) => Answer::status(status).header("Retry-After", "1"),
        Mood::Silent => Answer::Silent,
        Mood::Unread => Answer::Unread,
        Mood::Closes => Answer::Close,
        Mood::Garbles => Answer::Garbage(b"HTTP/1.1 banana\r\n\r\n".to_vec()),
        Mood::Drips => Answer::Drip,
        Mood::NeverEnds => Answer::EndlessBody(200),
    }
}

/// Of a running process; one that has ended meanwhile needs none.
fn limit(life: &Life, what: &str) {
    let _ = Command::new("prlimit").args(["--pid", &life.pid.to_string(), what]).output();
}

impl Outcome {
    /// What breaks a promise, a line each, after the last words of the daemons.
    pub fn sound(&self) -> Result<(), String> {
        let open = self.report.unsettled.iter().map(|one| format!("not settled: {one}"));
        let all: Vec<String> = self.report.breaches().into_iter().chain(open).chain(self.strange.clone()).collect();
        if all.is_empty() {
            return Ok(());
        }
        println!("{}", self.logs);
        Err(all.join("\n"))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, count) in &self.counts {
            writeln!(f, "{title:<34} {count:>8}")?;
        }
        writeln!(f, "\n{:<34} {:>8}", "granted to the SDK's worker", self.granted_to_the_sdk)?;
        writeln!(f, "{}settled {:.1} s after the last trouble", self.report, self.settled_after.as_secs_f64())
    }
}
