//! `outboxd tail`: attempts as they are written down, one line each. It reads the history, and so sees what every replica does.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::outboxes::OutboxArgs;
use super::seal::print;
use super::table::harmless;
use super::{Failure, block_on};
use crate::config::Config;
use crate::store::{Followed, KeptAttempt, Store};

const EVERY: Duration = Duration::from_millis(500);
/// An attempt may become visible a little after one that was written down later.
const OVERLAP: f64 = 5.0;
/// And no later than this: its statement would have been given up.
const LATEST: f64 = 30.0;
/// How far is looked back for the first lines: where much happens, they are found in the last seconds.
const BEFORE: [f64; 4] = [5.0, 60.0, 600.0, 3600.0];
/// In one look; more than that nobody reads.
const AT_ONCE: u32 = 2_000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Attempts for this account.
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// Attempts that ended with this code.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Only attempts that were not taken.
    #[arg(long)]
    failed: bool,
    /// How many of the last hour's attempts to begin with.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: u32,
    /// End after those.
    #[arg(long)]
    no_follow: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
Reads the history that every replica writes (history.enabled). Until it is broken off.

  outboxd tail --failed
  outboxd tail --account acc_1 --json | jq -r .code";

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let store = args.outbox.open_one_to_look(config)?;
    block_on(follow(args, &store))
}

async fn follow(args: &Args, store: &Store) -> Result<(), Failure> {
    let followed = Followed { account: args.account.clone(), code: args.code.clone(), failed: args.failed };
    let now = store.probe_clock().await?;
    let begun = Instant::now();
    let mut seen: HashMap<(i64, i32), f64> = HashMap::new();
    let mut last = now;
    let mut first = true;
    loop {
        let looked = match std::mem::take(&mut first) {
            true => look_back(store, now, &followed, args.lines).await,
            false => look(store, last - OVERLAP, &followed, AT_ONCE).await,
        };
        match looked {
            Ok(found) => {
                let mut lines = String::new();
                // The newest come first, and the last one is to stand at the bottom.
                for attempt in found.iter().rev() {
                    if seen.insert((attempt.row, attempt.attempt), attempt.settled_at).is_some() {
                        continue;
                    }
                    lines += &if args.json { in_json(attempt) } else { in_words(attempt) };
                    last = last.max(attempt.settled_at);
                }
                print(&lines)?;
            }
            Err(failure) if args.no_follow => return Err(failure),
            Err(failure) => eprintln!("outboxd: {}", failure.message()),
        }
        if args.no_follow {
            return Ok(());
        }
        // Where nothing comes, what is looked through must not grow.
        last = last.max(now + begun.elapsed().as_secs_f64() - LATEST);
        seen.retain(|_, settled_at| *settled_at > last - 2.0 * OVERLAP);
        tokio::time::sleep(EVERY).await;
    }
}

/// The last ones of before.
async fn look_back(store: &Store, now: f64, followed: &Followed, most: u32) -> Result<Vec<KeptAttempt>, Failure> {
    let mut found = Vec::new();
    for before in BEFORE {
        found = look(store, now - before, followed, most).await?;
        if found.len() >= most as usize {
            break;
        }
    }
    Ok(found)
}

async fn look(store: &Store, since: f64, followed: &Followed, most: u32) -> Result<Vec<KeptAttempt>, Failure> {
    store.tail_attempts(since, followed, most).await?.ok_or_else(|| {
        Failure::config(
            "there is no history that this user may read: run `outboxd migrate`, or grant it outboxd_daemon or outboxd_reader"
                .into(),
        )
    })
}

fn in_words(attempt: &KeptAttempt) -> String {
    let status = attempt.status.as_deref().unwrap_or("not_fired");
    let answer = attempt.http_status.map_or("-".to_owned(), |status| status.to_string());
    let code = attempt.code.as_deref().unwrap_or("-");
    let line = format!(
        "{}  {status:<16} {answer:>3}  {code:<22} {:>6} ms  attempt {:<3} {}  {}  {}",
        moment(attempt.fired_at),
        attempt.took_ms,
        attempt.attempt,
        attempt.account,
        attempt.url,
        attempt.task
    );
    harmless(&line) + "\n"
}

/// RFC 3339 in UTC, to the millisecond.
pub(super) fn moment(seconds: f64) -> String {
    let since = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

fn in_json(attempt: &KeptAttempt) -> String {
    format!("{}\n", object(attempt))
}

/// The same names as in the table of attempts.
pub(super) fn object(attempt: &KeptAttempt) -> serde_json::Value {
    json!({
        "fired_at": moment(attempt.fired_at), "took_ms": attempt.took_ms, "outbox_id": attempt.row,
        "attempt": attempt.attempt, "status": attempt.status, "http_status": attempt.http_status, "code": attempt.code,
        "payload_bytes": attempt.payload_bytes, "account_id": attempt.account, "task_id": attempt.task,
        "task_type": attempt.task_type, "idempotency_key": attempt.key, "url": attempt.url,
    })
}
