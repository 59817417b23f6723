//! `outboxd demo`: the whole system on one machine in half a minute, through the same doors that anyone uses: the real
//! binary, real Postgres, real TLS. Leaves nothing behind.

mod host;
pub(crate) mod inbox;
mod ledger;
pub mod postgres;
mod receiver;

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::process::{Child, Command};

use crate::signature::verify::{Knowledge, Received, Revocation, verify};
use host::Host;
use ledger::{Line, Sums};
use postgres::Throwaway;
use receiver::{Buyers, Character, Check};

/// Past this the demo says what is missing instead of waiting on.
const PATIENCE: Duration = Duration::from_secs(60);

const BUYERS: [(&str, Character, u32); 6] = [
    ("buyer one, steady", Character::Steady, 30),
    ("buyer two, steady", Character::Steady, 25),
    ("buyer three, steady", Character::Steady, 25),
    ("buyer four, fails twice first", Character::FailsTwice, 10),
    ("buyer five, answers 410 Gone", Character::Gone, 5),
    ("buyer six, dead", Character::Dead, 5),
];

/// A buyer's door: where it is, and how many webhooks go there.
struct Door {
    name: &'static str,
    character: Character,
    url: String,
    rows: u64,
}

pub(crate) async fn run(rows: u32) -> anyhow::Result<()> {
    println!("outboxd demo: a throwaway Postgres and six buyers on loopback; everything is removed at the end.\n");
    let home = Home::new()?;
    let step = Steps::new();
    let postgres = step.done("Postgres", start_postgres().await?, "running in a directory of its own");
    let binary = std::env::current_exe().context("cannot find the outboxd binary")?;
    let host = Host::new(&postgres.url("postgres"), &home.0)?;
    let buyers = Buyers::new(check_against(host.jwks.clone()))?;
    let doors = open_doors(&buyers, rows).await?;
    host::write_private(&home.0.join("ca.pem"), buyers.ca_pem.as_bytes())?;
    let migrated =
        Command::new(&binary).args(["migrate", "--config"]).arg(home.0.join("outboxd.toml")).output().await?;
    if !migrated.status.success() {
        bail!("outboxd migrate failed: {}", String::from_utf8_lossy(&migrated.stderr));
    }
    step.say("tables", "made by outboxd migrate");
    let mut daemon = start_daemon(&binary, &home.0)?;
    step.say("daemon", "outboxd run, with keys made for this demo");

    let began = Instant::now();
    let committed = host.enqueue(&doors).await?;
    step.say("host", &format!("{rows} webhooks sealed and committed in {:.1} s", began.elapsed().as_secs_f64()));
    let outcome = watch(&host, &doors, rows, began).await;
    let stopped = stop(&mut daemon).await;
    let (lines, took) = match outcome {
        Ok(outcome) => outcome,
        Err(error) => bail!("{error:#}\n--- the daemon's last lines:\n{}", home.tail("outboxd.log")),
    };
    stopped?;
    let sums = sum(&buyers, &committed, took);
    println!("\n{}", ledger::page(&lines, &sums));
    tokio::task::spawn_blocking(move || drop(postgres)).await?;
    judge(&lines, &sums)
}

async fn start_postgres() -> anyhow::Result<Throwaway> {
    Ok(tokio::task::spawn_blocking(|| Throwaway::start(&postgres::Options::default())).await??)
}

/// The check that each buyer makes: the AdCP webhook profile against the seller's published key.
fn check_against(jwks: serde_json::Value) -> Arc<Check> {
    Arc::new(move |parts, url, body| {
        let received = Received { method: parts.method.as_str(), url, headers: &parts.headers, body };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
        let knowledge =
            Knowledge { jwks: &jwks, revocation: Revocation::NotTracked, crowded: &|_| false, unix_seconds: now };
        verify(&received, &knowledge).is_ok()
    })
}

async fn open_doors(buyers: &Buyers, rows: u32) -> anyhow::Result<Vec<Door>> {
    let mut doors = Vec::new();
    let mut left = rows;
    for (index, (name, character, share)) in BUYERS.into_iter().enumerate() {
        let last = index + 1 == BUYERS.len();
        let rows = if last { left } else { (rows * share / 100).max(1) };
        left -= rows;
        let address = buyers.open(character).await?;
        doors.push(Door { name, character, url: format!("https://{address}/webhooks/adcp"), rows: rows.into() });
    }
    Ok(doors)
}

fn start_daemon(binary: &Path, home: &Path) -> anyhow::Result<Child> {
    let log = std::fs::File::create(home.join("outboxd.log"))?;
    Command::new(binary)
        .args(["run", "--config"])
        .arg(home.join("outboxd.toml"))
        .stdout(log.try_clone()?)
        .stderr(log)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start outboxd run")
}

/// Watches the table until only the dead buyer's rows are open, and says how long that took.
async fn watch(host: &Host, doors: &[Door], rows: u32, began: Instant) -> anyhow::Result<(Vec<Line>, Duration)> {
    let style = ProgressStyle::with_template("  {bar:40} {pos}/{len} settled  {elapsed}")?;
    let bar = ProgressBar::new(rows.into()).with_style(style);
    let expected: u64 = doors.iter().filter(|door| door.character != Character::Dead).map(|door| door.rows).sum();
    loop {
        let lines = host.read_ledger(doors).await?;
        let settled = lines.iter().map(|line| line.delivered + line.quarantined).sum();
        bar.set_position(settled);
        if settled >= expected {
            bar.finish_and_clear();
            return Ok((lines, began.elapsed()));
        }
        if began.elapsed() > PATIENCE {
            bar.abandon();
            bail!("only {settled} of {expected} webhooks were settled in {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// SIGTERM, as systemd and Kubernetes do it; a clean drain exits 0.
async fn stop(daemon: &mut Child) -> anyhow::Result<()> {
    if let Some(pid) = daemon.id() {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), nix::sys::signal::Signal::SIGTERM)?;
    }
    let status =
        tokio::time::timeout(Duration::from_secs(30), daemon.wait()).await.context("the drain did not end")??;
    if !status.success() {
        bail!("the daemon ended with {status}");
    }
    Ok(())
}

fn sum(buyers: &Buyers, committed: &host::Committed, took: Duration) -> Sums {
    let ledger = buyers.ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let mut waits: Vec<Duration> = ledger
        .notifications
        .iter()
        .filter_map(|(key, receipt)| Some(receipt.first.saturating_duration_since(*committed.get(key)?)))
        .collect();
    waits.sort_unstable();
    Sums {
        took,
        p50: ledger::percentile(&waits, 0.5),
        p99: ledger::percentile(&waits, 0.99),
        verified: ledger.verified,
        refused: ledger.refused,
        duplicates: ledger.notifications.values().filter(|receipt| receipt.accepted > 1).count() as u64,
        changed_bytes: ledger.notifications.values().filter(|receipt| !receipt.same_bytes).count() as u64,
    }
}

/// The demo fails where a promise was not kept, so that its exit code means something.
fn judge(lines: &[Line], sums: &Sums) -> anyhow::Result<()> {
    let lost: u64 = lines.iter().map(ledger::lost).sum();
    if lost + sums.refused + sums.duplicates + sums.changed_bytes > 0 {
        bail!("a promise was not kept; see the ledger above");
    }
    Ok(())
}

/// A private directory that goes with the demo.
struct Home(std::path::PathBuf);

impl Home {
    fn new() -> anyhow::Result<Home> {
        use std::os::unix::fs::DirBuilderExt;
        let name: String = crate::secret::random::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("outboxd-demo-{name}"));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Home(path))
    }

    fn tail(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.0.join(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What has been done, one line each.
struct Steps;

impl Steps {
    fn new() -> Steps {
        Steps
    }

    fn say(&self, what: &str, how: &str) {
        println!("  {what:<10} {how}");
    }

    fn done<T>(&self, what: &str, value: T, how: &str) -> T {
        self.say(what, how);
        value
    }
}
