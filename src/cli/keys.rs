//! `outboxd keys`: which envelope keys there are, who holds them, what needs each, and whether one can be dropped. It
//! changes nothing, and shows no key but by its fingerprint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::outboxes::{Chosen, OutboxArgs};
use super::rekey::Display;
use super::seal::print;
use super::{Failure, block_on};
use crate::config::Config;
use crate::deliver::{keyring, provider};
use crate::envelope::Keyring;
use crate::rekey::{Objection, Pace, PlaceCount, census, objections};
use crate::signer::Provider;
use crate::store::{Access, Replica};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Whether the key with this fingerprint can be dropped: exit code 0 if so, 75 and the reasons if not yet.
    #[arg(long, value_name = "FINGERPRINT")]
    may_drop: Option<String>,
    /// With --may-drop: for how long no row may have appeared under the key, such as 1h or 30m.
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration, value_name = "TIME")]
    quiet: Duration,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
Every open row and registration is tried with the keys of envelope.key_files and
counted under the newest that opens it; finished rows need no key. Replicas are
those that wrote to the database within the last minute.

  outboxd keys
  outboxd keys --may-drop 3f2a9c01d4e5 && echo safe";

/// All that was found.
struct Found {
    fingerprints: Vec<String>,
    counts: Vec<PlaceCount>,
    /// Nothing on a schema without the list.
    replicas: Option<Vec<Replica>>,
    kids: BTreeMap<String, String>,
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let ring = Arc::new(keyring(config)?);
    let fingerprints = ring.fingerprints();
    let asked = match &args.may_drop {
        None => None,
        Some(wanted) => Some(fingerprints.iter().position(|held| held == wanted).ok_or_else(|| {
            Failure::data(format!(
                "no key with fingerprint {wanted} is in envelope.key_files, so what needs it cannot be told; held here: {}",
                fingerprints.join(" ")
            ))
        })?),
    };
    let chosen = args.outbox.open_all(config)?;
    block_on(async {
        let mut needed = None;
        for outbox in &chosen {
            let told = tell(args, asked, outbox, config, &ring).await;
            needed = told.map_err(|failure| failure.about(&outbox.title()))?.or(needed);
        }
        match needed {
            Some(fingerprint) => Err(Failure::not_yet(format!("key {fingerprint} cannot be dropped yet"))),
            None => Ok(()),
        }
    })
}

/// Prints what is found in one outbox; the answer is the key that cannot be dropped for its sake.
async fn tell(
    args: &Args,
    asked: Option<usize>,
    outbox: &Chosen,
    config: &Config,
    ring: &Arc<Keyring>,
) -> Result<Option<String>, Failure> {
    let store = &outbox.store;
    let replicas = store.list_replicas().await?;
    let mut display = Display::new();
    let counts = census(store, ring, Pace::new(None), |rows| display.say(|| format!("{rows} looked at"))).await?;
    display.clear();
    let against = match asked {
        None => Vec::new(),
        Some(key) => objections(store, ring, key, &counts, replicas.as_deref(), args.quiet).await?,
    };
    // A host may keep the signing key where this command is not run.
    let provider = provider(config, &Arc::default(), ring, std::slice::from_ref(store));
    let kids = provider.map(|provider| standings(&provider)).unwrap_or_default();
    let found = Found { fingerprints: ring.fingerprints(), counts, replicas, kids };
    let verdict = asked.map(|key| (found.fingerprints[key].as_str(), against.as_slice()));
    print(&match args.json {
        true => in_json(outbox, &found, verdict),
        false => outbox.heading() + &in_words(&found, verdict),
    })?;
    Ok(verdict.filter(|(_, against)| !against.is_empty()).map(|(fingerprint, _)| fingerprint.to_owned()))
}

fn in_words(found: &Found, verdict: Option<(&str, &[Objection])>) -> String {
    let mut text = String::new();
    for (at, fingerprint) in found.fingerprints.iter().enumerate() {
        let part = if at == 0 { "seals and opens" } else { "opens" };
        text += &format!("key {fingerprint}  {part}; {}", held_by(found, fingerprint));
        for count in &found.counts {
            text += &match count.access {
                Access::Absent => continue,
                Access::Forbidden => format!("; {}: not to be read by this user", count.place),
                Access::Readable | Access::Writable => in_place(count, at),
            };
        }
        text += "\n";
    }
    for count in found.counts.iter().filter(|count| count.unopenable > 0) {
        let more = if count.unopenable > count.first_unopenable.len() as u64 { " ..." } else { "" };
        let named = count.first_unopenable.join(" ");
        text += &format!("no key held here opens {} of {}: {named}{more}\n", count.unopenable, count.place);
    }
    for replica in found.replicas.iter().flatten() {
        let Replica { replica, version, envelope_keys, seconds_unseen, .. } = replica;
        let keys = envelope_keys.join(" ");
        text += &format!("replica {replica}  {version}, seen {seconds_unseen:.0} s ago, newest first: {keys}\n");
    }
    if found.replicas.is_none() {
        text += "replicas are not listed by this schema: run `outboxd migrate`\n";
    }
    for kid in signing(found) {
        let words = found.kids.get(kid).map(|words| format!("  {words}")).unwrap_or_default();
        text += &format!("signing key {kid}{words}\n");
    }
    match verdict {
        None => {}
        Some((fingerprint, [])) => {
            text += &format!(
                "safe: nothing needs {fingerprint}; take it out of envelope.key_files everywhere and reload\n"
            );
        }
        Some((fingerprint, against)) => {
            for objection in against {
                text += &format!("not yet: {fingerprint}: {objection}\n");
            }
        }
    }
    text
}

fn held_by(found: &Found, fingerprint: &str) -> String {
    match &found.replicas {
        None => "by whom it is held is not listed".into(),
        Some(replicas) => {
            let holding =
                replicas.iter().filter(|replica| replica.envelope_keys.iter().any(|held| held == fingerprint));
            format!("held by {} of {} replicas", holding.count(), replicas.len())
        }
    }
}

fn in_place(count: &PlaceCount, key: usize) -> String {
    let rows = count.keys[key].rows;
    match count.keys[key].newest_seconds_old {
        None => format!("; {}: {rows}", count.place),
        Some(age) => {
            let age = humantime::format_duration(Duration::from_secs(age.clamp(0.0, 1e9) as u64));
            format!("; {}: {rows}, the newest {age} old", count.place)
        }
    }
}

/// The keys of this configuration by their ids, and what each does now.
fn standings(provider: &Provider) -> BTreeMap<String, String> {
    let told = provider.fixed().into_iter().flat_map(|keys| keys.told(SystemTime::now()));
    told.map(|(timed, words)| (timed.key.kid().to_owned(), words)).collect()
}

/// Those of the replicas and of this configuration, each once.
fn signing(found: &Found) -> Vec<&str> {
    let theirs = found.replicas.iter().flatten().flat_map(|replica| &replica.signing_kids);
    let mut kids: Vec<&str> = theirs.chain(found.kids.keys()).map(String::as_str).collect();
    kids.sort_unstable();
    kids.dedup();
    kids
}

fn in_json(outbox: &Chosen, found: &Found, verdict: Option<(&str, &[Objection])>) -> String {
    let counted = |count: &PlaceCount| matches!(count.access, Access::Readable | Access::Writable);
    let keys: Vec<Value> = found
        .fingerprints
        .iter()
        .enumerate()
        .map(|(at, fingerprint)| {
            let places = found.counts.iter().filter(|count| counted(count)).map(|count| {
                let key = count.keys[at];
                (count.place.to_owned(), json!({"rows": key.rows, "newest_seconds_old": key.newest_seconds_old}))
            });
            json!({
                "fingerprint": fingerprint,
                "seals": at == 0,
                "replicas": found.replicas.as_ref().map(|replicas| {
                    replicas.iter().filter(|replica| replica.envelope_keys.contains(fingerprint)).count()
                }),
                "places": places.collect::<serde_json::Map<_, _>>(),
            })
        })
        .collect();
    let unopenable: serde_json::Map<String, Value> = found
        .counts
        .iter()
        .filter(|count| counted(count))
        .map(|count| (count.place.to_owned(), json!({"rows": count.unopenable, "first": count.first_unopenable})))
        .collect();
    let replicas = found.replicas.as_ref().map(|replicas| {
        let one = |replica: &Replica| {
            json!({
                "replica": replica.replica,
                "version": replica.version,
                "envelope_keys": replica.envelope_keys,
                "signing_kids": replica.signing_kids,
                "seconds_unseen": replica.seconds_unseen,
            })
        };
        replicas.iter().map(one).collect::<Vec<_>>()
    });
    let may_drop = verdict.map(|(fingerprint, against)| {
        let reasons: Vec<String> = against.iter().map(ToString::to_string).collect();
        json!({"fingerprint": fingerprint, "safe": against.is_empty(), "reasons": reasons})
    });
    let mut all = json!({
        "keys": keys,
        "unopenable": unopenable,
        "replicas": replicas,
        "signing_kids": signing(found),
        "may_drop": may_drop,
    });
    outbox.put_name(&mut all);
    format!("{all}\n")
}
