//! Several outboxes served by one process: databases and schemas, one of which may be down, slow or wrong without the others
//! noticing, with one set of slots and destinations that they share by weight.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;

use crate::jwks::{ALL, published, publishing};
use crate::support::cluster::{Database, TABLE, connect};
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::keys::SigningKey;
use crate::support::link::Link;
use crate::support::metrics::{ATTEMPTS, Metrics};
use crate::support::receiver::{Answer, Gate};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::tool::{Done, outboxd};
use crate::support::verify::assert_signed;
use crate::support::world::World;

const EX_USAGE: i32 = 64;
const EX_UNAVAILABLE: i32 = 69;
const EX_TEMPFAIL: i32 = 75;
const EX_CONFIG: i32 = 78;

/// An entry of the list; `more` is what it has besides its place.
fn entry(name: &str, url: &str, more: &str) -> String {
    format!("[[outboxes]]\nname = \"{name}\"\nurl = \"{url}\"\n{more}")
}

/// `eu`, the world's own database, and `us`, wherever that is.
pub fn two(world: &World, config: Config, us: &str) -> Config {
    config.unset("database.url").extra(&entry("eu", &world.database.url, "")).extra(&entry("us", us, ""))
}

async fn insert(world: &World, into: &Database, target: &str, count: usize) {
    let drafts = Draft::many(&world.receiver.url(target), count);
    into.insert(&world.seal(drafts)).await;
}

async fn all_delivered(database: &Database, count: usize) {
    eventually(&format!("{count} rows are delivered"), async || match database.count("delivered").await {
        delivered if delivered == count => Ok(()),
        delivered => Err(delivered),
    })
    .await;
}

/// What `/readyz` says when it is red.
async fn red(daemon: &Daemon, part: &str) -> String {
    eventually(&format!("readyz says {part}"), async || match daemon.get("/readyz").await {
        Ok((503, text)) if text.contains(part) => Ok(text),
        other => Err(format!("{other:?}")),
    })
    .await
}

fn seen(world: &World, target: &str) -> usize {
    world.receiver.received().iter().filter(|request| request.target == target).count()
}

#[tokio::test]
async fn rows_of_two_databases_and_of_two_schemas_of_one_are_delivered_by_one_process() {
    let (world, second) = (World::new().await, Database::new().await);
    let tenant = second.schema("tenant").await;
    let config = two(&world, world.config(), &second.url).extra(&entry("tenant", &tenant.url, "weight = 2\n"));
    let missing = outboxd(&config, &["migrate", "--check"], "").await;
    assert_eq!(missing.code, Some(EX_CONFIG), "{missing:?}");
    let migrated = outboxd(&config, &["migrate", "--outbox", "tenant"], "").await;
    assert_eq!((migrated.code, migrated.stdout.lines().next()), (Some(0), Some("outbox tenant")), "{migrated:?}");
    assert_eq!(outboxd(&config, &["migrate", "--check"], "").await.code, Some(0));

    let daemon = Daemon::start(&config).await;
    for (database, target) in [(&world.database, "/eu"), (&second, "/us"), (&tenant, "/tenant")] {
        insert(&world, database, target, 20).await;
    }
    for database in [&world.database, &second, &tenant] {
        all_delivered(database, 20).await;
    }
    assert!(world.receiver.tally().values().all(|times| *times == 1));
    for name in ["eu", "us", "tenant"] {
        assert_eq!(seen(&world, &format!("/{name}")), 20);
        let of = async |metric: &str, labels: &[(&str, &str)]| {
            daemon.metrics().await.total(metric, &[labels, &[("outbox", name)]].concat())
        };
        assert_eq!(of(ATTEMPTS, &[("code", "delivered")]).await, 20.0, "{name}");
        assert_eq!(of("outboxd_outbox_ready", &[]).await, 1.0, "{name}");
        // A row is settled before it is counted.
        eventually("the settled are counted", async || {
            match of("outboxd_settled_rows_total", &[("verdict", "delivered")]).await {
                20.0 => Ok(()),
                other => Err(format!("{other} of {name}")),
            }
        })
        .await;
    }

    // Each knows this process, by one name, until it stops.
    let listed = format!("select coalesce(min(replica), '') from {TABLE}_replicas");
    let (mut replicas, all) = (BTreeSet::new(), [&world.database, &second, &tenant]);
    for database in all {
        replicas.insert(database.value::<String>(&listed, &[]).await);
    }
    assert!(replicas.len() == 1 && !replicas.contains(""), "{replicas:?}");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_exit(PATIENCE).await.code, Some(0));
    for database in all {
        assert_eq!(database.value::<String>(&listed, &[]).await, "");
    }
}

#[tokio::test]
async fn an_outbox_whose_database_is_down_stops_itself_alone() {
    let (world, second, link) = (World::new().await, Database::new().await, Link::down());
    insert(&world, &world.database, "/eu", 10).await;
    insert(&world, &second, "/us", 10).await;
    // Down from the beginning.
    let daemon = Daemon::spawn(&two(&world, world.config(), &link.url(&second.name)));
    all_delivered(&world.database, 10).await;
    let page = red(&daemon, "outbox us: database: ").await;
    assert!(!page.contains("outbox eu"), "{page}");
    let metrics = daemon.metrics().await;
    let ready = |metrics: &Metrics, name| metrics.total("outboxd_outbox_ready", &[("outbox", name)]);
    assert_eq!((ready(&metrics, "eu"), ready(&metrics, "us")), (1.0, 0.0));
    assert_eq!((metrics.total("outboxd_ready", &[]), seen(&world, "/us")), (0.0, 0));
    let line = daemon.line(0, &["the database does not work"]).await;
    assert!(line.contains("us") && !line.contains("eu"), "a line that does not say which: {line}");

    link.mend();
    daemon.ready().await;
    all_delivered(&second, 10).await;

    // And while it runs.
    link.cut();
    red(&daemon, "outbox us: database: ").await;
    insert(&world, &world.database, "/eu", 10).await;
    insert(&world, &second, "/us", 10).await;
    all_delivered(&world.database, 20).await;
    assert_eq!(seen(&world, "/us"), 10);
    link.mend();
    daemon.ready().await;
    all_delivered(&second, 20).await;
}

#[tokio::test]
async fn an_outbox_whose_statements_hang_keeps_no_slot_and_no_time_from_the_others() {
    let (world, second) = (World::new().await, Database::new().await);
    let config = world
        .config()
        .set("delivery.slots", 8)
        .set("delivery.claim_batch", 100)
        .set("database.statement_timeout", "2s");
    let daemon = Daemon::start(&two(&world, config, &second.url)).await;
    second
        .client
        .batch_execute(&format!("begin; lock table {TABLE} in access exclusive mode"))
        .await
        .expect("it locks");
    red(&daemon, "outbox us: database: ").await;
    let gate = Gate::closed();
    let held = Answer::status(200).when(&gate);
    world.receiver.answer(move |_, _| held.clone());
    insert(&world, &world.database, "/eu", 30).await;
    // All slots but the one with which the other asks whether its database works again.
    world.receiver.wait_for(7).await;
    gate.open();
    all_delivered(&world.database, 30).await;
    red(&daemon, "outbox us: database: ").await;
    second.client.batch_execute("commit").await.expect("it ends");
    daemon.ready().await;
    insert(&world, &second, "/us", 5).await;
    all_delivered(&second, 5).await;
}

#[tokio::test]
async fn an_outbox_whose_schema_is_wrong_is_named_and_left_out_until_it_is_right() {
    let (world, second) = (World::new().await, Database::new().await);
    second.execute(&format!("ALTER TABLE {TABLE} RENAME COLUMN url TO address"), &[]).await;
    let daemon = Daemon::spawn(&two(&world, world.config(), &second.url));
    insert(&world, &world.database, "/eu", 10).await;
    all_delivered(&world.database, 10).await;
    let page = red(&daemon, "outbox us: schema: ").await;
    assert!(page.contains("column url is missing") && !page.contains("outbox eu"), "{page}");
    let line = daemon.line(0, &["this outbox cannot be used as it is"]).await;
    assert!(line.contains("us") && line.contains("column url is missing"), "{line}");
    second.execute(&format!("ALTER TABLE {TABLE} RENAME COLUMN address TO url"), &[]).await;
    daemon.ready().await;
    insert(&world, &second, "/us", 5).await;
    all_delivered(&second, 5).await;

    // Where none can be used there is nothing to run for.
    for database in [&world.database, &second] {
        database.execute(&format!("ALTER TABLE {TABLE} RENAME COLUMN url TO address"), &[]).await;
    }
    let ended = Daemon::spawn(&two(&world, world.config(), &second.url)).wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(EX_CONFIG), "{}", ended.output);
    for name in ["eu", "us"] {
        assert!(ended.output.contains(&format!("outbox {name}: ")), "{}", ended.output);
    }
}

/// Every attempt lasts as long as the test wants. `us` weighs three times as much as `eu`.
#[tokio::test]
async fn whoever_comes_to_full_slots_begins_at_once_and_gets_its_part_of_those_that_come_free() {
    let (world, second) = (World::new().await, Database::new().await);
    let config = world
        .config()
        .set("delivery.slots", 16)
        .set("delivery.per_destination_start", 64)
        .set("egress.attempt_timeout", "50s")
        .unset("database.url")
        .extra(&entry("eu", &world.database.url, ""))
        .extra(&entry("us", &second.url, "weight = 3\n"));
    let (first_of_eu, rest) = (Gate::closed(), Gate::closed());
    let [first, others] = [&first_of_eu, &rest].map(|gate| Answer::status(200).when(gate));
    let most = 15;
    world
        .receiver
        .answer(move |target, nth| if target == "/eu" && nth < most { first.clone() } else { others.clone() });
    let daemon = Daemon::start(&config).await;

    // Alone it has all slots but the one that the other begins with.
    insert(&world, &world.database, "/eu", 200).await;
    world.receiver.wait_for(most).await;
    insert(&world, &second, "/us", 100).await;
    world.receiver.wait_for(most + 1).await;
    assert_eq!((seen(&world, "/eu"), seen(&world, "/us")), (most, 1), "it did not begin at once");
    let in_flight = async |name| daemon.metrics().await.total("outboxd_in_flight_rows", &[("outbox", name)]);
    eventually("both hold what they have", async || match (in_flight("eu").await, in_flight("us").await) {
        (15.0, 1.0) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    // Its fifteen end, and sixteen slots are divided three to one although both have more to do.
    first_of_eu.open();
    world.receiver.wait_for(most + 16).await;
    assert_eq!((seen(&world, "/eu") - most, seen(&world, "/us")), (4, 12));
    rest.open();
    all_delivered(&world.database, 200).await;
    all_delivered(&second, 100).await;
    assert!(world.receiver.tally().values().all(|times| *times == 1));
}

/// Rows that appear while both claim: each of the claims is told of its destinations before it sees any.
#[tokio::test]
async fn a_destination_has_one_cap_over_claims_that_are_under_way_together() {
    let (world, second) = (World::new().await, Database::new().await);
    let gate = Gate::closed();
    let held = Answer::status(200).when(&gate);
    world.receiver.answer(move |_, _| held.clone());
    // Each could fill the destination with its own part.
    let config = world
        .config()
        .set("delivery.slots", 10)
        .set("delivery.per_destination", 5)
        .set("egress.attempt_timeout", "50s");
    let daemon = Daemon::start(&two(&world, config, &second.url)).await;
    let both = [&world.database, &second];
    let lock = format!("begin; lock table {TABLE} in access exclusive mode");
    for database in both {
        database.client.batch_execute(&lock).await.expect("it locks");
        insert(&world, database, "/one", 40).await;
    }
    let claims = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' \
                  and query like '-- Purpose: leases due rows%'";
    // From outside of the transactions, in which statistics stand still.
    let onlookers = [connect(&world.database.url).await, connect(&second.url).await];
    eventually("both claims are under way", async || {
        for onlooker in &onlookers {
            let waiting: i64 = onlooker.query_one(claims, &[]).await.expect("it answers").get(0);
            if waiting == 0 {
                return Err("one of them is not");
            }
        }
        Ok(())
    })
    .await;
    for database in both {
        database.client.batch_execute("commit").await.expect("it commits");
    }
    world.receiver.wait_for(5).await;
    // Both look again and again meanwhile.
    let looks = async |name| daemon.metrics().await.total("outboxd_claims_total", &[("outbox", name)]);
    let before = (looks("eu").await, looks("us").await);
    eventually("both have looked five times more", async || match (looks("eu").await, looks("us").await) {
        (eu, us) if eu >= before.0 + 5.0 && us >= before.1 + 5.0 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let in_flight = world.database.count("in_flight").await + second.count("in_flight").await;
    assert_eq!((world.receiver.received().len(), in_flight), (5, 5));
    gate.open();
    all_delivered(&world.database, 40).await;
    all_delivered(&second, 40).await;
}

/// What asked one of them to be left alone is left alone by all, and so by the other replicas of each.
#[tokio::test]
async fn a_destination_that_is_parked_is_parked_for_every_outbox() {
    let (world, second) = (World::new().await, Database::new().await);
    world.receiver.answer(|target, _| match target {
        "/first" => Answer::status(503).header("Retry-After", "600"),
        _ => Answer::status(200),
    });
    let config = two(&world, world.config(), &second.url);
    let daemon = Daemon::start(&config).await;
    insert(&world, &world.database, "/first", 1).await;
    let name = world.receiver.address.to_string();
    let shown = async |outbox: &str| {
        let done = outboxd(&config, &["destinations", "--json", "--outbox", outbox], "").await;
        let shown: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
        let mut all = shown["destinations"].as_array().expect("a list").clone().into_iter();
        all.find(|one| one["destination"] == name.as_str()).unwrap_or_default()
    };
    for outbox in ["eu", "us"] {
        eventually(&format!("{outbox} lists it"), async || match shown(outbox).await {
            one if one["parked"]["reason"] == "retry_after" => Ok(()),
            one => Err(one.to_string()),
        })
        .await;
    }
    insert(&world, &second, "/second", 3).await;
    eventually("its rows are due and wait", async || match shown("us").await {
        one if one["due"] == 3 => Ok(()),
        one => Err(one.to_string()),
    })
    .await;
    let looks = async || daemon.metrics().await.total("outboxd_claims_total", &[("outbox", "us")]);
    let before = looks().await;
    eventually("it was looked for rows", async || match looks().await {
        now if now >= before + 3.0 => Ok(()),
        now => Err(now),
    })
    .await;
    assert_eq!(seen(&world, "/second"), 0);
    let released = outboxd(&config, &["destinations", "--release", &name], "").await;
    assert_eq!(released.code, Some(0), "{released:?}");
    all_delivered(&second, 3).await;
}

#[tokio::test]
async fn a_drain_gives_back_what_each_outbox_holds() {
    let (world, second) = (World::new().await, Database::new().await);
    let never = Answer::status(200).when(&Gate::closed());
    world.receiver.answer(move |_, _| never.clone());
    for database in [&world.database, &second] {
        insert(&world, database, "/slow", 20).await;
    }
    let config = world
        .config()
        .set("delivery.slots", 8)
        .set("delivery.drain_timeout", "1s")
        .set("egress.attempt_timeout", "20s");
    let daemon = Daemon::start(&two(&world, config, &second.url)).await;
    world.receiver.wait_for(8).await;
    daemon.signal(Signal::SIGTERM);
    let ended = daemon.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    for database in [&world.database, &second] {
        let rows = database.rows().await;
        assert!(rows.iter().all(|row| row.state == "pending" && row.lease_token.is_none()), "{rows:?}");
    }
}

/// A file of keys that only one of them needs is not lost by a reload either.
#[tokio::test]
async fn a_reload_keeps_a_key_that_any_of_them_needs() {
    let (world, second) = (World::new().await, Database::new().await);
    let old = EnvelopeKey::new();
    let config = two(&world, world.config().envelope_keys(&[&world.key, &old]), &second.url);
    let daemon = Daemon::start(&config).await;
    let later: Vec<_> = Draft::many(&world.receiver.url("/us"), 3).into_iter().map(|draft| draft.seal(&old)).collect();
    second.insert_for_later(&later).await;
    let from = daemon.lines().len();
    config.clone().envelope_keys(&[&world.key]).write();
    daemon.signal(Signal::SIGHUP);
    let line = daemon.line(from, &["reload failed", "cannot go yet"]).await;
    assert!(line.contains("outbox us: ") && line.contains(&old.fingerprint()), "{line}");

    let fingerprint = old.fingerprint();
    let keys = async |arguments: &[&str]| {
        let arguments = [&["keys", "--may-drop", &fingerprint, "--quiet", "0s"], arguments].concat();
        outboxd(&config, &arguments, "").await
    };
    assert_eq!(keys(&["--outbox", "eu"]).await.code, Some(0));
    let all = keys(&[]).await;
    assert_eq!(all.code, Some(EX_TEMPFAIL), "{all:?}");
    assert!(all.stdout.contains("outbox eu\n") && all.stdout.contains("outbox us\n"), "{all:?}");
    let in_json = keys(&["--json"]).await.stdout;
    let outboxes: Vec<serde_json::Value> =
        in_json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&outboxes[0]["outbox"], &outboxes[1]["outbox"]), (&"eu".into(), &"us".into()));
    assert_eq!((&outboxes[0]["may_drop"]["safe"], &outboxes[1]["may_drop"]["safe"]), (&true.into(), &false.into()));

    let rekeyed = outboxd(&config, &["rekey"], "").await;
    assert_eq!(rekeyed.code, Some(0), "{rekeyed:?}");
    let of_us = rekeyed.stdout.split("outbox us\n").nth(1).expect("each is told of");
    assert!(of_us.contains("outbox         3 sealed again"), "{}", rekeyed.stdout);
    assert_eq!(keys(&[]).await.code, Some(0));
}

/// The same scope has a key of its own in each, and receivers find both.
#[tokio::test]
async fn rows_are_signed_by_the_scopes_beside_them() {
    let (world, second) = (World::new().await, Database::new().await);
    let config = publishing(world.unsigned_config().set("signing.scopes_table", true));
    let config = two(&world, config, &second.url);
    let keys = [("eu", SigningKey::ed25519("of-eu")), ("us", SigningKey::ed25519("of-us"))];
    for (name, key) in &keys {
        let file = text(&config.file(&format!("{name}.pem"), key.pem()));
        let put = ["scope", "put", "tenant:1", "--key", &file, "--key-id", &key.kid, "--outbox", name];
        let done = outboxd(&config, &put, "").await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let daemon = Daemon::start(&config).await;
    for (name, database) in [("eu", &world.database), ("us", &second)] {
        let draft = Draft::to(world.receiver.url(&format!("/{name}"))).scope("tenant:1");
        database.insert(&world.seal(vec![draft])).await;
    }
    for request in world.receiver.wait_for(2).await {
        let (_, key) = keys.iter().find(|(name, _)| request.target == format!("/{name}")).expect("one of the two");
        assert_signed(&request, key);
    }
    for path in [ALL, "/scopes/tenant%3A1/jwks.json"] {
        eventually("both keys are published", async || match published(&daemon, path).await {
            kids if kids == ["of-eu", "of-us"] => Ok(()),
            kids => Err(format!("{kids:?}")),
        })
        .await;
    }
}

#[tokio::test]
async fn commands_say_which_outbox_they_are_about_and_ask_where_only_one_can_be_meant() {
    let (world, second) = (World::new().await, Database::new().await);
    let config = two(&world, world.config(), &second.url);
    let run = async |arguments: &[&str]| -> Done { outboxd(&config, arguments, "").await };
    let check = run(&["check"]).await;
    assert_eq!(check.code, Some(0), "{check:?}");
    for name in ["eu", "us"] {
        assert!(check.stdout.contains(&format!("database     outbox {name}: answers")), "{}", check.stdout);
    }
    let check = run(&["check", "--outbox", "us"]).await;
    assert!(check.code == Some(0) && !check.stdout.contains("outbox eu: "), "{check:?}");
    for command in [
        &["check"][..],
        &["migrate"],
        &["keys"],
        &["rekey"],
        &["destinations"],
        &["scope", "list"],
        &["open", "--id", "1"],
    ] {
        let done = run(&[command, &["--outbox", "asia"]].concat()).await;
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(said.contains("--outbox asia: there is no such outbox; there are eu, us"), "{command:?}: {said}");
        assert_eq!(done.code, Some(EX_USAGE), "{command:?}");
    }
    for command in [&["scope", "list"][..], &["open", "--id", "1"]] {
        let done = run(command).await;
        assert!(done.stderr.contains("say which outbox is meant, by --outbox NAME: eu, us"), "{done:?}");
        assert_eq!(done.code, Some(EX_USAGE));
    }
    let shown = run(&["destinations"]).await.stdout;
    assert_eq!(shown.matches("nothing is due and nothing is parked").count(), 2, "{shown}");
    assert!(shown.starts_with("outbox eu\n") && shown.contains("outbox us\n"), "{shown}");
    let single = outboxd(&world.config(), &["keys", "--outbox", "eu"], "").await;
    assert!(single.code == Some(EX_USAGE) && single.stderr.contains("has no [[outboxes]]"), "{single:?}");
    let receive = run(&["receive", "--set", "receive.profile=adcp-webhook"]).await;
    assert!(receive.code == Some(EX_CONFIG) && receive.stderr.contains("outboxes is set"), "{receive:?}");

    let down = two(&world, world.config(), &Link::down().url(&second.name));
    for command in [&["migrate"][..], &["keys"], &["rekey"], &["destinations"]] {
        let done = outboxd(&down, command, "").await;
        assert_eq!(done.code, Some(EX_UNAVAILABLE), "{command:?}: {done:?}");
        assert!(done.stderr.contains("outboxd: outbox us: "), "{command:?}: {done:?}");
    }
}

/// Secrets of each come from a file of its own or from the environment, by its name.
#[tokio::test]
async fn places_come_from_files_and_the_environment_too() {
    let (world, second) = (World::new().await, Database::new().await);
    let config = world.config().unset("database.url");
    let file = text(&config.file("eu-url", format!("{}\n", world.database.url)));
    let config = config
        .extra(&format!("[[outboxes]]\nname = \"eu\"\nurl_file = \"{file}\"\n[[outboxes]]\nname = \"us_1\"\n"))
        .environment("OUTBOXD_OUTBOXES__US_1__URL", &second.url);
    let _daemon = Daemon::start(&config).await;
    insert(&world, &world.database, "/eu", 1).await;
    insert(&world, &second, "/us", 1).await;
    world.receiver.wait_for(2).await;
    all_delivered(&second, 1).await;
    all_delivered(&world.database, 1).await;
    let names: BTreeSet<String> = world.receiver.received().into_iter().map(|request| request.target).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["/eu", "/us"]);
}

/// An outbox is `label` of exactly those series that the README says it is.
#[tokio::test]
async fn the_series_with_the_label_are_those_of_the_readme() {
    let (world, second) = (World::new().await, Database::new().await);
    let daemon = Daemon::start(&two(&world, world.config(), &second.url)).await;
    insert(&world, &world.database, "/eu", 3).await;
    all_delivered(&world.database, 3).await;
    eventually("the backlog is sampled", async || {
        let text = daemon.metrics().await.text;
        if text.contains("outboxd_backlog_due_rows{") { Ok(()) } else { Err(text) }
    })
    .await;
    let readme = include_str!("../../README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| `outboxd_"));
    let documented = rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].trim_matches('`'), cells[3].split(", ").any(|label| label == "outbox"))
    });
    let documented: std::collections::BTreeMap<&str, bool> = documented.collect();
    let text = daemon.metrics().await.text;
    let mut labelled = 0;
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let of = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let name = of.filter(|name| documented.contains_key(name)).unwrap_or(name);
        let says = line.contains("outbox=\"");
        assert_eq!(documented.get(name).copied(), Some(says), "{line}");
        labelled += usize::from(says);
    }
    assert!(labelled > 50, "{text}");
}
