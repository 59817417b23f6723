//! `outboxd status`: how an outbox stands, on one screen: what is due, what goes wrong and where, who delivers. What follows from
//! it is told in `trouble`.

mod trouble;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::outboxes::{Chosen, OutboxArgs};
use super::seal::print;
use super::table::{brief, harmless};
use super::{Failure, block_on};
use crate::config::Config;
use crate::store::{Backlog, Blocker, Replica, ShownDestination, States, StoreError};

/// Rows of a kind are counted so far; the cost does not grow with the table.
const COUNTED: u32 = 10_000;
const ATTEMPTS: u32 = 100_000;
const LOOKED_AT: u32 = 500;
/// Destinations that are shown.
const SHOWN: u32 = 10;
const ENVELOPE_KEY: &str = "envelope key";
const SIGNING_KEY: &str = "signing key";

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
Reads the database alone, which need not be on the machine of a daemon. Rows are
counted up to 10,000 of a kind. Replicas are those that wrote to the database
within the last minute.

  outboxd status
  outboxd status --json | jq -r '.trouble[]'";

/// All that was found.
struct Standing {
    answered: Duration,
    /// The database's clock less ours.
    skew: f64,
    backlog: Backlog,
    states: States,
    /// By code; none is one that was taken. Nothing where there is no history.
    recent: Option<Vec<(Option<String>, i64)>>,
    /// Those that are parked, and those that most rows wait for.
    destinations: Vec<ShownDestination>,
    /// Nothing where there is no list.
    replicas: Option<Vec<Replica>>,
    /// Who holds the oldest snapshot that is older than `sweep.snapshot_warning`, and for how long.
    holder: Option<(String, Duration)>,
    blockers: Vec<Blocker>,
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let chosen = args.outbox.open_all_to_look(config)?;
    block_on(async {
        for outbox in &chosen {
            let standing = outbox.found(look(outbox, config).await).await?;
            print(&match args.json {
                true => standing.in_json(outbox),
                false => outbox.heading() + &standing.in_words(),
            })?;
        }
        Ok(())
    })
}

async fn look(outbox: &Chosen, config: &Config) -> Result<Standing, StoreError> {
    let store = &outbox.store;
    // The first statement connects as well.
    store.probe_clock().await?;
    let asked = (SystemTime::now(), Instant::now());
    let clock = store.probe_clock().await?;
    let answered = asked.1.elapsed();
    let ours = asked.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + answered / 2;
    let (destinations, _) = match store.shares_parking().await? {
        true => store.list_destinations(LOOKED_AT, COUNTED, SHOWN).await?,
        false => Default::default(),
    };
    let snapshots = store.find_snapshots().await?;
    let longest = config.settings.sweep.snapshot_warning;
    let holder = snapshots.holders.into_iter().find_map(|holder| {
        let since = holder.since.filter(|since| *since > longest)?;
        let pid = holder.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
        let user = holder.user.map(|user| format!(" of user {user}")).unwrap_or_default();
        Some((format!("{}{pid}{user}", holder.kind.label()), since))
    });
    Ok(Standing {
        answered,
        skew: clock - ours.as_secs_f64(),
        backlog: store.sample_backlog(COUNTED, &[]).await?,
        states: store.count_states(COUNTED).await?,
        recent: store.count_recent(ATTEMPTS).await?,
        destinations,
        replicas: store.list_replicas().await?,
        holder,
        blockers: store.find_blockers().await?,
    })
}

impl Standing {
    fn in_words(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, told: String| text += &format!("{what:<12} {}\n", harmless(&told));
        let ms = self.answered.as_secs_f64() * 1000.0;
        line("database", format!("answers in {ms:.1} ms, its clock is {:+.3} s off this machine's", self.skew));
        let oldest = match self.backlog.due {
            0 => String::new(),
            _ => format!(", the oldest for {}", brief(self.backlog.oldest)),
        };
        line("due", format!("{}{oldest}", counted(self.backlog.due as i64)));
        let States { waiting, held, invalid, expired } = self.states;
        line("waiting", format!("{} for a later time", counted(waiting)));
        line("in flight", counted(held));
        line("undelivered", format!("{} quarantined, {} expired", counted(invalid), counted(expired)));
        line("last minute", self.recent_in_words());
        for shown in &self.destinations {
            line("destination", destination_in_words(shown));
        }
        match &self.replicas {
            None => line("replicas", "there is no list of them: run `outboxd migrate`".into()),
            Some(replicas) if replicas.is_empty() => line("replicas", "none".into()),
            Some(replicas) => {
                for one in replicas {
                    let seen = brief(Duration::from_secs_f64(one.seconds_unseen.max(0.0)));
                    line("replica", format!("{} ({}), seen {seen} ago", one.replica, one.version));
                }
            }
        }
        for (kind, key, holders) in self.keys() {
            let replicas = self.replicas.as_ref().map_or(0, Vec::len);
            line(kind, format!("{key} on {holders} of {replicas}"));
        }
        for trouble in self.trouble() {
            line("TROUBLE", trouble);
        }
        text
    }

    fn recent_in_words(&self) -> String {
        let Some(recent) = &self.recent else {
            return "there is no history of attempts: run `outboxd migrate`".into();
        };
        let all: i64 = recent.iter().map(|(_, attempts)| attempts).sum();
        let told: Vec<String> = recent
            .iter()
            .map(|(code, attempts)| format!("{attempts} {}", code.as_deref().unwrap_or("delivered")))
            .collect();
        match all {
            0 => "no attempt".into(),
            _ => format!("{all} attempts: {}", told.join(", ")),
        }
    }

    /// Which keys how many of the replicas hold.
    fn keys(&self) -> Vec<(&'static str, &str, usize)> {
        let mut held = BTreeMap::new();
        for replica in self.replicas.iter().flatten() {
            let keys = replica.envelope_keys.iter().map(|key| (ENVELOPE_KEY, key.as_str()));
            for key in keys.chain(replica.signing_kids.iter().map(|kid| (SIGNING_KEY, kid.as_str()))) {
                *held.entry(key).or_insert(0) += 1;
            }
        }
        held.into_iter().map(|((kind, key), holders)| (kind, key, holders)).collect()
    }

    fn in_json(&self, outbox: &Chosen) -> String {
        let States { waiting, held, invalid, expired } = self.states;
        let recent = self.recent.as_ref().map(|recent| {
            let each = recent
                .iter()
                .map(|(code, attempts)| (code.clone().unwrap_or_else(|| "delivered".into()), Value::from(*attempts)));
            Value::Object(each.collect())
        });
        let destination = |shown: &ShownDestination| {
            json!({
                "destination": shown.destination, "due": shown.due,
                "oldest_due_seconds": shown.due_for.map(|oldest| oldest.as_secs_f64()),
                "parked_for_seconds": shown.parked.as_ref().map(|parked| parked.left.as_secs_f64()),
                "reason": shown.parked.as_ref().map(|parked| &parked.reason),
            })
        };
        let replica = |one: &Replica| {
            json!({
                "replica": one.replica, "version": one.version, "seconds_unseen": one.seconds_unseen,
                "envelope_keys": one.envelope_keys, "signing_kids": one.signing_kids,
            })
        };
        let mut all = json!({
            "answered_seconds": self.answered.as_secs_f64(), "clock_skew_seconds": self.skew,
            "due": self.backlog.due, "oldest_due_seconds": self.backlog.oldest.as_secs_f64(),
            "waiting": waiting, "in_flight": held, "quarantined": invalid, "expired": expired,
            "last_minute": recent,
            "destinations": self.destinations.iter().map(destination).collect::<Vec<_>>(),
            "replicas": self.replicas.as_ref().map(|all| all.iter().map(replica).collect::<Vec<_>>()),
            "trouble": self.trouble(),
        });
        outbox.put_name(&mut all);
        format!("{all}\n")
    }
}

fn counted(rows: i64) -> String {
    match rows >= i64::from(COUNTED) {
        true => format!("{rows} or more"),
        false => rows.to_string(),
    }
}

fn destination_in_words(shown: &ShownDestination) -> String {
    let name = if shown.destination.is_empty() { "(known to their registrations)" } else { &shown.destination };
    let due = match shown.due_for {
        Some(oldest) => format!("{} due, the oldest for {}", counted(shown.due as i64), brief(oldest)),
        None => "none due".into(),
    };
    match &shown.parked {
        None => format!("{name}: {due}"),
        Some(parked) if parked.left.is_zero() => format!("{name}: {due}; parked, being tried again: {}", parked.reason),
        Some(parked) => format!("{name}: {due}; parked for {} more: {}", brief(parked.left), parked.reason),
    }
}
