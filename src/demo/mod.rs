//! `outboxd demo`: the whole system on one machine in half a minute, through the same doors that anyone uses: the real
//! binary, real Postgres, real TLS. Leaves nothing behind.

mod host;
pub(crate) mod inbox;
mod ledger;
pub mod postgres;
mod receiver;
mod steady;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::process::{Child, Command};

use crate::signature::verify::{Knowledge, Received, Revocation, verify};
use host::Host;
use ledger::{Line, Receipt, Sums};
use postgres::Throwaway;
use receiver::{Character, Check, Scripted, member};
use steady::Steady;

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

pub(crate) async fn run(rows: u32, stay: bool) -> anyhow::Result<()> {
    println!("outboxd demo: a throwaway Postgres and six buyers on loopback; everything is removed at the end.\n");
    let home = Home::new()?;
    let postgres = start_postgres().await?;
    let outcome = play(&postgres, &home.0, rows, stay).await;
    tokio::task::spawn_blocking(move || drop(postgres)).await?;
    let sums = match outcome {
        Ok(sums) => sums,
        Err(error) => bail!("{error:#}\n{}{}", home.tail("run"), home.tail("receive")),
    };
    // So that the exit code means something.
    if sums.kept() { Ok(()) } else { bail!("a promise was not kept; see the ledger above") }
}

async fn play(postgres: &Throwaway, home: &Path, rows: u32, stay: bool) -> anyhow::Result<Sums> {
    let binary = std::env::current_exe().context("cannot find the outboxd binary")?;
    let (database, config) = (postgres.url("postgres"), home.join("outboxd.toml"));
    let host = Host::new(&database, home)?;
    migrate(&binary, &config).await?;
    say("tables", "made by outboxd migrate");
    let mut scripted = Scripted::new(home, check_against(host.jwks.clone()))?;
    host.make_room_for_buyers().await?;
    let mut steady = Steady::start(&binary, home, &postgres.url("buyers"), &host.jwks).await?;
    say("buyers", "one to three share a real outboxd receive and its own database; the others are scripted");
    let doors = open_doors(steady.address, &mut scripted, rows)?;
    let mut daemon = start(&binary, home, "run", &config)?;
    say("daemon", "outboxd run, with keys made for this demo");

    let began = Instant::now();
    let committed = host.enqueue(&doors).await?;
    say("host", &format!("{rows} webhooks sealed and committed in {:.1} s", began.elapsed().as_secs_f64()));
    let (lines, took) = watch(&host, &doors, rows, began).await?;
    let inbox = steady.received(0).await?;
    let last = inbox.last().map_or(0, |message| message.id);
    let kept = inbox.into_iter().map(|message| Receipt {
        key: message.idempotency_key,
        at: message.received_at,
        accepted: true,
        body: message.body,
    });
    let (mut verified, mut refused) = steady.signatures().await?;
    let sums = {
        let seen = scripted.seen.lock().unwrap_or_else(PoisonError::into_inner);
        verified += seen.receipts.len() as u64;
        refused += seen.refused;
        let receipts: Vec<Receipt> = kept.chain(seen.receipts.iter().cloned()).collect();
        Sums { took, verified, refused, ..Sums::of(&lines, &committed, &receipts) }
    };
    println!("\n{}", ledger::page(&lines, &sums));
    if stay {
        self::stay(&database, &config, &doors[0].url, &steady, last).await?;
    }
    stop(&mut daemon).await?;
    stop(&mut steady.receiver).await?;
    Ok(sums)
}

async fn start_postgres() -> anyhow::Result<Throwaway> {
    let postgres = tokio::task::spawn_blocking(|| Throwaway::start(&postgres::Options::default())).await??;
    say("Postgres", "running in a directory of its own");
    Ok(postgres)
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

fn open_doors(steady: SocketAddr, scripted: &mut Scripted, rows: u32) -> anyhow::Result<Vec<Door>> {
    let mut doors = Vec::new();
    let mut left = rows;
    for (index, (name, character, share)) in BUYERS.into_iter().enumerate() {
        let number = index + 1;
        let rows = if number == BUYERS.len() { left } else { (rows * share / 100).max(1) };
        left -= rows;
        let address = if character == Character::Steady { steady } else { scripted.open(character)? };
        doors.push(Door { name, character, url: format!("https://{address}/buyers/{number}"), rows: rows.into() });
    }
    Ok(doors)
}

/// Makes the tables that a configuration file's database lacks.
async fn migrate(binary: &Path, config: &Path) -> anyhow::Result<()> {
    let migrated = Command::new(binary).args(["migrate", "--config"]).arg(config).output().await?;
    if !migrated.status.success() {
        bail!("outboxd migrate failed: {}", String::from_utf8_lossy(&migrated.stderr));
    }
    Ok(())
}

/// Starts `outboxd run` or `outboxd receive`, which logs under its name in `home`.
fn start(binary: &Path, home: &Path, command: &str, config: &Path) -> anyhow::Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(home.join(format!("{command}.log")))?;
    Command::new(binary)
        .args([command, "--config"])
        .arg(config)
        .stdout(log.try_clone()?)
        .stderr(log)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start outboxd {command}"))
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

/// Lets a person try the host's side: says how to reach everything, and tells of each webhook that the inbox keeps.
async fn stay(database: &str, config: &Path, buyer: &str, steady: &Steady, last: i64) -> anyhow::Result<()> {
    let config = config.display();
    println!("staying until Ctrl-C; in another terminal:\n");
    println!("  export DATABASE_URL='{database}'\n  export OUTBOXD_CONFIG='{config}'\n  export BUYER='{buyer}'\n");
    // Rows need not appear in the order of their ids.
    let mut told = BTreeSet::new();
    let stopped = tokio::signal::ctrl_c();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            ended = &mut stopped => return Ok(ended?),
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
        for message in steady.received(last).await? {
            if told.insert(message.id) {
                let task = member(&message.body, "task_id").unwrap_or_default();
                println!("  received  {task}, signature verified");
            }
        }
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

/// A private directory that goes with the demo.
struct Home(std::path::PathBuf);

impl Home {
    fn new() -> anyhow::Result<Home> {
        use std::os::unix::fs::DirBuilderExt;
        let name = crate::hex::encode(&crate::secret::random::<8>());
        let path = std::env::temp_dir().join(format!("outboxd-demo-{name}"));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Home(path))
    }

    fn tail(&self, command: &str) -> String {
        let text = std::fs::read_to_string(self.0.join(format!("{command}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        format!("--- last lines of outboxd {command}:\n{last}\n")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What has been done, one line each.
fn say(what: &str, how: &str) {
    println!("  {what:<10} {how}");
}
