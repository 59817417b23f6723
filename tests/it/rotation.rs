//! The rotation drill: one key takes another's place under running daemons and a busy host, by the commands of the README
//! alone. No row is lost, none quarantined, no attempt fails.

use std::cell::RefCell;
use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::interop::buyer_with;
use crate::jwks::{ALL, get, publishing};
use crate::support::cluster::TABLE;
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::host::{Host, Registration};
use crate::support::keys::SigningKey;
use crate::support::metrics::ATTEMPTS;
use crate::support::seal::{Draft, EnvelopeKey, Sealed};
use crate::support::signing::{Listed, lasting, seconds, with_keys};
use crate::support::tool::{Done, outboxd};
use crate::support::world::World;

const README: &str = include_str!("../../README.md");

/// The commands of the README's section, each of which the drill runs at least once.
struct Runbook {
    commands: Vec<&'static str>,
    used: RefCell<BTreeSet<&'static str>>,
}

impl Runbook {
    fn of(section: &str) -> Runbook {
        let (_, section) = README.split_once(&format!("\n### {section}\n")).expect("the README has the section");
        let section = section.split("\n## ").next().and_then(|text| text.split("\n### ").next()).expect("it has text");
        let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = blocks.flat_map(str::lines).map(|line| line.split('#').next().unwrap_or_default().trim());
        Runbook { commands: lines.filter(|line| !line.is_empty()).collect(), used: RefCell::default() }
    }

    /// One of them, with the placeholder filled in.
    async fn run(&self, config: &Config, command: &str, given: &str) -> Done {
        self.take(command);
        let words = command
            .split(' ')
            .skip(1)
            .map(|word| if word.chars().all(|c| c.is_ascii_uppercase()) { given } else { word });
        outboxd(config, &words.collect::<Vec<&str>>(), "").await
    }

    fn take(&self, command: &str) {
        let command = self.commands.iter().find(|one| **one == command);
        let command = command.unwrap_or_else(|| panic!("{command:?} is not among {:?}", self.commands));
        self.used.borrow_mut().insert(command);
    }

    fn all_were_used(&self) {
        assert_eq!(*self.used.borrow(), self.commands.iter().copied().collect::<BTreeSet<&str>>());
    }
}

/// A replica whose configuration is changed under it.
async fn reload(runbook: &Runbook, daemon: &Daemon, keys: &[&EnvelopeKey], expected: &[&str]) -> String {
    runbook.take("systemctl reload outboxd");
    daemon.config().clone().envelope_keys(keys).write();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, expected).await
}

const RELOADED: &[&str] = &["reloaded"];

/// Rows that stay open while daemons run.
async fn insert_for_later(world: &World, key: &EnvelopeKey, count: usize) {
    let drafts = Draft::many(&world.receiver.url("/later"), count);
    let sealed: Vec<Sealed> = drafts.into_iter().map(|draft| draft.seal(key)).collect();
    world.database.insert_for_later(&sealed).await;
}

#[tokio::test]
async fn an_envelope_key_takes_anothers_place_under_running_daemons_by_the_runbook() {
    let runbook = Runbook::of("Rotating the envelope key");
    let world = World::new().await;
    let old = world.key.clone();
    let host = Host::on(&world.database).await;
    let configs = [world.config(), world.config()].map(|config| config.envelope_keys(&[&old]));
    let (prompt, lagging) = tokio::join!(Daemon::start(&configs[0]), Daemon::start(&configs[1]));
    world.insert_under(&old, "/before", 50).await;
    insert_for_later(&world, &old, 60).await;
    let registration = Registration::to(world.receiver.url("/composed"));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(host.issue(&old, "create_media_buy", &registration).await);
    }

    // 1. A new key, at the end of the list of every replica. One of them is forgotten.
    let path = prompt.config().path("next.key");
    let made = runbook.run(&Config::empty(), "outboxd keygen envelope --out FILE", &text(&path)).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let new = EnvelopeKey::of_file(&path);
    assert!(made.stderr.contains(&new.fingerprint()), "{made:?}");
    reload(&runbook, &prompt, &[&old, &new], RELOADED).await;
    let known = runbook.run(&prompt.config().clone().envelope_keys(&[&old, &new]), "outboxd keys", "").await;
    assert!(known.stdout.contains(&format!("key {}  opens; held by 1 of 2 replicas", new.fingerprint())), "{known:?}");
    let operator = world.config().envelope_keys(&[&new, &old]);
    let refused = runbook.run(&operator, "outboxd rekey", "").await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    let named = |daemon: &Daemon| refused.stderr.contains(&format!("/{}/", daemon.pid()));
    assert!(named(&lagging) && !named(&prompt), "{refused:?}");
    let counted = runbook.run(&operator, "outboxd rekey --dry-run", "").await;
    assert_eq!(counted.code, Some(0), "{counted:?}");
    assert!(
        counted.stderr.contains("lacks the newest key") && counted.stdout.contains("3 to seal again"),
        "{counted:?}"
    );

    // 2. The forgotten one too; then it is moved to the front. The host seals under the old one all the while.
    world.insert_under(&old, "/meanwhile", 20).await;
    reload(&runbook, &lagging, &[&old, &new], RELOADED).await;
    for daemon in [&prompt, &lagging] {
        world.insert_under(&old, "/meanwhile", 20).await;
        reload(&runbook, daemon, &[&new, &old], RELOADED).await;
    }
    let known = runbook.run(&operator, "outboxd keys", "").await;
    assert!(known.stdout.contains(&format!("key {}  seals and opens; held by 2 of 2", new.fingerprint())), "{known:?}");
    let needed = async |daemon: &Daemon, key: &EnvelopeKey| {
        let labels = [("key", key.fingerprint())];
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        daemon.metrics().await.total("outboxd_envelope_rows", &labels)
    };
    eventually("the census counts what the old key is needed for", async || match needed(&prompt, &old).await {
        rows if rows >= 63.0 => Ok(()),
        rows => Err(rows),
    })
    .await;

    // 3. Everything is sealed again, while the host goes over to the new key and daemons deliver.
    let inserting = async {
        for _ in 0..10 {
            world.insert_under(&old, "/old", 5).await;
            world.insert_under(&new, "/new", 5).await;
        }
    };
    let (sealed, ()) = tokio::join!(runbook.run(&operator, "outboxd rekey", ""), inserting);
    assert_eq!(sealed.code, Some(0), "{sealed:?}");
    eventually("whatever is due is delivered", async || match world.database.count("delivered").await {
        210 => Ok(()),
        other => Err(other),
    })
    .await;

    // 4. A host was overlooked: a row under the old key comes in, and nobody may forget that key.
    insert_for_later(&world, &old, 1).await;
    let may_drop = "outboxd keys --may-drop FINGERPRINT";
    let held = runbook.run(&operator, may_drop, &old.fingerprint()).await;
    assert_eq!(held.code, Some(75), "{held:?}");
    assert!(held.stdout.contains("1 of outbox need it"), "{held:?}");
    let refusal = reload(&runbook, &prompt, &[&new], &["reload failed", "outboxd rekey"]).await;
    assert!(
        refusal.contains(&old.fingerprint()) && refusal.contains("1 open rows or registrations need it"),
        "{refusal}"
    );
    assert_eq!(prompt.metrics().await.total("outboxd_config_reload_failed", &[]), 1.0);
    assert_eq!(runbook.run(&operator, "outboxd rekey", "").await.code, Some(0));

    // 5. Nothing needs it now, but that host may still use it, until an hour has passed without.
    let recent = runbook.run(&operator, may_drop, &old.fingerprint()).await;
    assert_eq!(recent.code, Some(75), "{recent:?}");
    assert!(recent.stdout.contains("a row was sealed under it") && !recent.stdout.contains("need it"), "{recent:?}");
    an_hour_passes(&world).await;
    let safe = runbook.run(&operator, may_drop, &old.fingerprint()).await;
    assert_eq!(safe.code, Some(0), "{safe:?}");
    assert!(safe.stdout.contains("safe"), "{safe:?}");
    eventually("the census says so too", async || match needed(&lagging, &old).await {
        0.0 => Ok(()),
        rows => Err(rows),
    })
    .await;
    for daemon in [&prompt, &lagging] {
        reload(&runbook, daemon, &[&new], RELOADED).await;
    }
    runbook.all_were_used();

    // Whatever waited is delivered by daemons that have forgotten the old key.
    for task in &tasks {
        assert_eq!(host.complete(task, "{}").await, Ok(true));
    }
    world.insert_under(&new, "/after", 10).await;
    world.database.execute(&format!("update {TABLE} set available_at = now() where state = 'pending'"), &[]).await;
    let rows = world.all_are("delivered").await;
    assert_eq!(rows.len(), 50 + 60 + 60 + 100 + 1 + 3 + 10);
    assert!(rows.iter().all(|row| row.attempt_count == 1), "{rows:?}");
    let mut attempts = 0.0;
    for daemon in [&prompt, &lagging] {
        let metrics = daemon.metrics().await;
        let delivered = metrics.total(ATTEMPTS, &[("code", "delivered")]);
        assert_eq!(metrics.total(ATTEMPTS, &[]), delivered, "an attempt failed: {}", metrics.text);
        attempts += delivered;
    }
    assert_eq!(attempts, rows.len() as f64);
    assert_eq!(world.receiver.tally().len(), rows.len());
    for daemon in [prompt, lagging] {
        daemon.signal(Signal::SIGTERM);
        assert_eq!(daemon.wait_exit(PATIENCE).await.code, Some(0));
    }
}

/// As far as the database can tell.
async fn an_hour_passes(world: &World) {
    let hour = "interval '61 minutes'";
    world.database.execute(&format!("update {TABLE} set created_at = created_at - {hour}"), &[]).await;
    world.database.execute(&format!("update {TABLE}_keys set newest_row_at = newest_row_at - {hour}"), &[]).await;
}

/// The other end is the SDK's receiver, which knows of our keys what our own listener publishes.
#[tokio::test]
async fn a_signing_key_takes_anothers_place_and_the_sdk_accepts_every_delivery() {
    let world = World::new().await;
    let (old, new) = (SigningKey::ed25519("seller-old"), SigningKey::p256("seller-new"));
    let bases = [publishing(world.config()), world.config()];
    let only_old = bases.each_ref().map(|base| with_keys(base.clone(), &[lasting(&old)]));
    let (prompt, lagging) = tokio::join!(Daemon::start(&only_old[0]), Daemon::start(&only_old[1]));
    let reload = async |daemon: &Daemon, base: &Config, keys: &[Listed<'_>]| {
        with_keys(base.clone(), keys).write();
        let from = daemon.lines().len();
        daemon.signal(Signal::SIGHUP);
        daemon.line(from, RELOADED).await;
    };
    // One replica is told of the next key, which is published before it signs. The other lags.
    let turn = seconds(3);
    reload(&prompt, &bases[0], &[lasting(&old), lasting(&new).from(turn)]).await;
    let published = get(&prompt, ALL).await.keys();
    assert_eq!(published, [new.public_jwk(), old.public_jwk()]);
    let (buyer, origin) = buyer_with(&bases[0], published.clone()).await;
    let url = format!("{origin}/hooks");
    let mut sent = 0;
    let mut deliver = async |count: usize| -> Vec<Value> {
        let drafts = Draft::many(&url, count);
        world.database.insert(&world.seal(drafts)).await;
        sent += count;
        let records = buyer.call("wait", json!({"count": sent})).await;
        let records = records.as_array().expect("a list").clone();
        assert!(records.iter().all(|record| record["status"] == 200), "{records:?}");
        records[sent - count..].iter().map(|record| record["sender"].clone()).collect()
    };
    // From the turn on both sign, each with another key, and either is accepted.
    let mut signers = BTreeSet::new();
    eventually("both keys sign", async || {
        signers.extend(deliver(20).await.into_iter().map(|signer| signer.to_string()));
        if signers.len() == 2 { Ok(()) } else { Err(format!("{signers:?}")) }
    })
    .await;
    // The other one catches up; the old key ends, and stays published for those who look later.
    reload(&lagging, &bases[1], &[lasting(&old), lasting(&new).from(turn)]).await;
    assert_eq!(
        BTreeSet::from_iter(deliver(40).await.iter().map(Value::to_string)),
        BTreeSet::from(["\"seller-new\"".into()])
    );
    for (daemon, base) in [(&prompt, &bases[0]), (&lagging, &bases[1])] {
        reload(daemon, base, &[lasting(&old).until(seconds(0)), lasting(&new).from(turn)]).await;
    }
    assert_eq!(get(&prompt, ALL).await.keys(), published);
    assert!(deliver(20).await.iter().all(|signer| *signer == "seller-new"));
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| row.attempt_count == 1), "an attempt was not the first");
    for daemon in [&prompt, &lagging] {
        let metrics = daemon.metrics().await;
        assert_eq!(metrics.total(ATTEMPTS, &[]), metrics.total(ATTEMPTS, &[("code", "delivered")]), "{}", metrics.text);
    }
}
