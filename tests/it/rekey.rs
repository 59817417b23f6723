//! `outboxd rekey`: everything that is sealed moves to the newest key, beside running daemons, and nothing else changes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::interop::{seller, signing};
use crate::support::cluster::{Database, TABLE};
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::host::{Host, Registration};
use crate::support::metrics::ATTEMPTS;
use crate::support::receiver::{Answer, Gate, Received, Receiver};
use crate::support::seal::{Draft, EnvelopeKey, Sealed};
use crate::support::tool::{Done, outboxd};
use crate::support::world::World;

/// What stands in one row.
struct Stored {
    task_id: String,
    sealed: Vec<u8>,
    nonce: Vec<u8>,
}

impl World {
    async fn stored(&self) -> Vec<Stored> {
        let sql = format!("select task_id, encrypted_body, envelope_nonce from {TABLE} order by id");
        let rows = self.database.client.query(&sql, &[]).await.expect("it reads");
        rows.iter().map(|row| Stored { task_id: row.get(0), sealed: row.get(1), nonce: row.get(2) }).collect()
    }

    /// How many of these rows this key opens, to the bytes that were sealed.
    async fn opened_by(&self, key: &EnvelopeKey, drafts: &[Draft]) -> usize {
        let stored = self.stored().await;
        let opens = |draft: &&Draft| {
            let row = stored.iter().find(|row| row.task_id == draft.task_id).expect("no row is lost");
            let opened = key.open(&row.nonce, &draft.aad(), &row.sealed);
            assert!(opened.as_ref().is_none_or(|opened| *opened == draft.plaintext()), "other bytes are in it now");
            opened.is_some()
        };
        drafts.iter().filter(opens).count()
    }
}

async fn rekey(config: &Config, arguments: &[&str]) -> Done {
    let all: Vec<&str> = ["rekey", "--json"].into_iter().chain(arguments.iter().copied()).collect();
    outboxd(config, &all, "").await
}

/// A number of one place's tally.
fn tally(done: &Done, place: &str, of: &str) -> u64 {
    let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    let places = report["places"].as_array().expect("there are places");
    let tally = places.iter().find(|tally| tally["place"] == place).unwrap_or_else(|| panic!("{place}: {report}"));
    tally[of].as_u64().unwrap_or_else(|| panic!("{of}: {tally}"))
}

#[tokio::test]
async fn each_form_moves_to_the_newest_key_with_its_own_binding_and_finished_rows_stay() {
    let world = World::new().await;
    let (new, lost) = (EnvelopeKey::new(), EnvelopeKey::new());
    let to = || Draft::to(world.receiver.url("/hooks"));
    let mut drafts = vec![to(), to().scope("tenant:alpha/1"), to().scope("")];
    drafts.push(to().authentication("Bearer", "b".repeat(40).as_str()));
    drafts.push(to().authentication("HMAC-SHA256", "h".repeat(40).as_str()));
    drafts.push(Draft { account_id: "a \"quoted\" \\ ü\u{7}".into(), ..to() });
    let host = Host::on(&world.database).await;
    let registration = Registration::to(world.receiver.url("/composed"));
    let waiting = host.issue(&world.key, "create_media_buy", &registration).await;
    let ended = host.issue(&world.key, "create_media_buy", &registration).await;
    assert_eq!(host.complete(&ended, "{\"n\": 1.0}").await, Ok(true));
    let (finished, foreign, current) = (to(), to(), to());
    let sealed: Vec<Sealed> = drafts.iter().cloned().map(|draft| draft.seal(&world.key)).collect();
    world.database.insert(&sealed).await;
    let others = [finished.clone().seal(&world.key), foreign.clone().seal(&lost), current.clone().seal(&new)];
    world.database.insert(&others).await;
    let end = format!("update {TABLE} set state = 'delivered' where task_id = $1");
    world.database.execute(&end, &[&finished.task_id]).await;
    let columns = format!(
        "select md5(string_agg((to_jsonb(o) - 'encrypted_body' - 'envelope_nonce')::text, '' order by id)) from {TABLE} as o"
    );
    let before: String = world.database.value(&columns, &[]).await;

    let config = world.config().envelope_keys(&[&new, &world.key]);
    let counted = rekey(&config, &["--dry-run"]).await;
    assert_eq!((counted.code, tally(&counted, "outbox", "resealed")), (Some(0), 7), "{counted:?}");
    assert_eq!(world.opened_by(&world.key, &drafts).await, drafts.len(), "a dry run changed something");
    let done = rekey(&config, &[]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let outbox = |of| tally(&done, "outbox", of);
    assert_eq!((outbox("resealed"), outbox("current"), outbox("unopenable"), outbox("held")), (7, 1, 1, 0));
    assert_eq!(tally(&done, "registrations", "resealed"), 1);
    let id: i64 =
        world.database.value(&format!("select id from {TABLE} where task_id = $1"), &[&foreign.task_id]).await;
    let named = format!("\"first_unopenable\":[\"{id}\"]");
    assert!(done.stdout.contains(&named), "{}", done.stdout);

    assert_eq!(world.opened_by(&new, &drafts).await, drafts.len());
    assert_eq!(world.opened_by(&world.key, &drafts).await, 0);
    assert_eq!(world.opened_by(&world.key, &[finished]).await, 1, "a finished row was touched");
    assert_eq!(world.opened_by(&lost, &[foreign]).await, 1, "what no key opens was touched");
    assert_eq!(world.database.value::<String>(&columns, &[]).await, before, "another column was touched");
    let again = rekey(&config, &[]).await;
    assert_eq!((again.code, tally(&again, "outbox", "resealed"), tally(&again, "outbox", "current")), (Some(0), 0, 8));

    // The composed row, and the registration that waited, under the new key alone.
    let scoped = format!("delete from {TABLE} where signing_scope_id is not null or url not like '%composed%'");
    world.database.execute(&scoped, &[]).await;
    assert_eq!(host.complete(&waiting, "{\"n\": 2.0}").await, Ok(true));
    let _daemon = Daemon::start(&world.config().envelope_keys(&[&new])).await;
    for request in world.receiver.wait_for(2).await {
        let (task, result) = if request.json()["task_id"] == ended.as_str() {
            (&ended, "{\"n\": 1.0}")
        } else {
            (&waiting, "{\"n\": 2.0}")
        };
        Host::assert_body(&request.body, task, &registration, "completed", result);
    }
    world.all_are("delivered").await;
}

#[tokio::test]
async fn deliveries_go_on_while_everything_is_sealed_again() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let host = Host::on(&world.database).await;
    let backlog = world.insert("/backlog", 600).await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(200).when(&held));
    let daemon = Daemon::start(&config).await;
    let delivering = async {
        for _ in 0..10 {
            world.insert("/beside", 40).await;
            let task = host.issue(&world.key, "create_media_buy", &Registration::to(world.receiver.url("/c"))).await;
            assert_eq!(host.complete(&task, "{}").await, Ok(true));
        }
    };
    let sealing = async {
        let mut resealed = 0;
        for _ in 0..5 {
            let done = rekey(&config, &["--batch", "50"]).await;
            assert_eq!(done.code, Some(0), "{done:?}");
            resealed += tally(&done, "outbox", "resealed");
        }
        resealed
    };
    // What is in flight is held back until the run has begun, however fast the daemon is.
    let releasing = async {
        eventually("some are sealed again", async || match world.opened_by(&new, &backlog).await {
            0 => Err("none yet"),
            _ => Ok(()),
        })
        .await;
        gate.open();
    };
    let ((), resealed, ()) = tokio::join!(delivering, sealing, releasing);
    let rows = world.all_are("delivered").await;
    assert_eq!(rows.len(), 1010);
    assert!(resealed > 0);
    assert!(rows.iter().all(|row| row.attempt_count == 1), "an attempt was disturbed");
    let metrics = daemon.metrics().await;
    assert_eq!(metrics.total(ATTEMPTS, &[]), metrics.total(ATTEMPTS, &[("code", "delivered")]), "{}", metrics.text);
    assert!(world.receiver.tally().values().all(|times| *times == 1));
}

#[tokio::test]
async fn a_run_that_is_killed_leaves_every_row_whole_and_the_next_goes_on() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let drafts = world.insert("/hooks", 400).await;
    let run = Daemon::command(&config, &["rekey", "--batch", "20", "--rate", "50"]);
    eventually("some are done", async || match world.opened_by(&new, &drafts).await {
        0..60 => Err("not yet"),
        _ => Ok(()),
    })
    .await;
    run.kill().await;
    let done = world.opened_by(&new, &drafts).await;
    assert!((60..400).contains(&done), "{done}");
    assert_eq!(world.opened_by(&world.key, &drafts).await, 400 - done, "a row is under neither key");
    let rest = rekey(&config, &[]).await;
    assert_eq!(rest.code, Some(0), "{rest:?}");
    assert_eq!(
        (tally(&rest, "outbox", "current"), tally(&rest, "outbox", "resealed")),
        (done as u64, 400 - done as u64)
    );
    assert_eq!(world.opened_by(&new, &drafts).await, 400);
    // Nothing that is left says which key the rows had; that rows had it lately was kept.
    let early = outboxd(&config, &["keys", "--may-drop", &world.key.fingerprint()], "").await;
    assert_eq!(early.code, Some(75), "{early:?}");
    assert_eq!(early.stdout.matches("not yet").count(), 1, "{early:?}");
    assert!(early.stdout.contains("a row was sealed under it"), "{early:?}");
    let soon = outboxd(&config, &["keys", "--may-drop", &world.key.fingerprint(), "--quiet", "0s"], "").await;
    assert_eq!(soon.code, Some(0), "{soon:?}");
}

#[tokio::test]
async fn two_runs_at_a_time_share_the_rows() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let drafts = world.insert("/hooks", 300).await;
    let slowly = ["--batch", "10", "--rate", "300"];
    let (one, other) = tokio::join!(rekey(&config, &slowly), rekey(&config, &slowly));
    assert_eq!((one.code, other.code), (Some(0), Some(0)), "{one:?} {other:?}");
    assert_eq!(tally(&one, "outbox", "resealed") + tally(&other, "outbox", "resealed"), 300, "{one:?} {other:?}");
    assert_eq!(world.opened_by(&new, &drafts).await, 300);
}

#[tokio::test]
async fn a_replica_that_comes_up_without_the_key_ends_the_run() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let sealed: Vec<Sealed> = world.seal(Draft::many(&world.receiver.url("/later"), 2000));
    world.database.insert_for_later(&sealed).await;
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let run = Daemon::command(&config, &["rekey", "--batch", "10", "--rate", "50"]);
    let begun = format!("select count(*) from {TABLE}_keys");
    eventually("it has begun", async || match world.database.value::<i64>(&begun, &[]).await {
        0 => Err(0),
        _ => Ok(()),
    })
    .await;
    let late = Daemon::start(&world.config()).await;
    let ended = run.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(75), "{}", ended.output);
    assert!(ended.output.contains(&format!("/{}/", late.pid())), "{}", ended.output);
    assert!(ended.output.contains("sealed again, 0 under the newest key before"), "{}", ended.output);
}

#[tokio::test]
async fn a_signal_ends_a_run_after_its_batch_and_the_next_goes_on() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let drafts = world.insert("/hooks", 400).await;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let before = world.opened_by(&new, &drafts).await;
        let run = Daemon::command(&config, &["rekey", "--batch", "20", "--rate", "40"]);
        eventually("some are done", async || match world.opened_by(&new, &drafts).await {
            done if done < before + 40 => Err(done),
            _ => Ok(()),
        })
        .await;
        run.signal(signal);
        let ended = run.wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(75), "{}", ended.output);
        assert!(ended.output.contains("run it again to go on"), "{}", ended.output);
        let done = world.opened_by(&new, &drafts).await;
        assert_eq!(done % 20, 0, "a batch was cut in two");
        let told = format!("outbox         {} sealed again, {before} under the newest key before", done - before);
        assert!(ended.output.contains(&told), "{told}: {}", ended.output);
    }
    assert_eq!(rekey(&config, &[]).await.code, Some(0));
    assert_eq!(world.opened_by(&new, &drafts).await, 400);
}

#[tokio::test]
async fn a_row_under_a_live_lease_is_waited_for() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let drafts = world.insert("/hooks", 3).await;
    let lease = format!(
        "update {TABLE} set state = 'in_flight', lease_token = 't', lease_expires_at = clock_timestamp() + interval '4 s', \
         available_at = clock_timestamp() + interval '4 s' where task_id = $1"
    );
    world.database.execute(&lease, &[&drafts[0].task_id]).await;
    let run = Daemon::command(&world.config().envelope_keys(&[&new, &world.key]), &["rekey"]);
    eventually("the others are done", async || match world.opened_by(&new, &drafts[1..]).await {
        2 => Ok(()),
        other => Err(other),
    })
    .await;
    let live = format!("select lease_expires_at > clock_timestamp() from {TABLE} where task_id = $1");
    if world.database.value(&live, &[&drafts[0].task_id]).await {
        let opened = world.opened_by(&world.key, &drafts[..1]).await;
        // The lease may have ended between the two questions.
        assert!(opened == 1 || !world.database.value::<bool>(&live, &[&drafts[0].task_id]).await);
    }
    assert_eq!(run.wait_exit(PATIENCE).await.code, Some(0));
    assert_eq!(world.opened_by(&new, &drafts).await, 3);
}

#[tokio::test]
async fn a_registration_whose_task_is_ending_is_waited_for_and_met_in_the_outbox() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let host = Host::on(&world.database).await;
    let registration = Registration::to(world.receiver.url("/composed"));
    let ending = host.issue(&world.key, "create_media_buy", &registration).await;
    let waiting = host.issue(&world.key, "create_media_buy", &registration).await;
    host.client.batch_execute("begin").await.expect("it begins");
    assert_eq!(host.complete(&ending, "{}").await, Ok(true));
    let nonce = "select webhook_registration_nonce from decisioning_tasks where task_id = $1";
    let before: Vec<u8> = world.database.value(nonce, &[&waiting]).await;
    let run = Daemon::command(&world.config().envelope_keys(&[&new, &world.key]), &["rekey", "--json"]);
    eventually("the other one is done", async || match world.database.value::<Vec<u8>>(nonce, &[&waiting]).await {
        same if same == before => Err("not yet"),
        _ => Ok(()),
    })
    .await;
    host.client.batch_execute("commit").await.expect("it commits");
    let ended = run.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let done = Done { code: ended.code, stdout: ended.output, stderr: String::new() };
    assert_eq!((tally(&done, "registrations", "ended"), tally(&done, "outbox", "resealed")), (1, 1), "{done:?}");
    assert_eq!(host.complete(&waiting, "{}").await, Ok(true));
    let _daemon = Daemon::start(&world.config().envelope_keys(&[&new])).await;
    assert_eq!(world.all_are("delivered").await.len(), 2);
}

#[tokio::test]
async fn a_schema_without_the_list_of_replicas_is_refused_and_one_without_tasks_is_not() {
    let world = World {
        database: Database::empty().await,
        receiver: Receiver::start().await,
        key: EnvelopeKey::new(),
        signer: crate::support::keys::SigningKey::ed25519("test-ed25519-1"),
    };
    world.database.client.batch_execute(include_str!("../vectors/sdk_schema.sql")).await.expect("it applies");
    let new = EnvelopeKey::new();
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let drafts = world.insert("/hooks", 3).await;
    let refused = rekey(&config, &[]).await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.stderr.contains("outboxd migrate"), "{refused:?}");
    assert_eq!(world.opened_by(&world.key, &drafts).await, 3);
    let keys = outboxd(&config, &["keys"], "").await;
    assert_eq!(keys.code, Some(0), "{keys:?}");
    assert!(keys.stdout.contains("outbox: 3") && keys.stdout.contains("outboxd migrate"), "{}", keys.stdout);
    let unsure = outboxd(&config, &["keys", "--may-drop", &world.key.fingerprint()], "").await;
    assert_eq!(unsure.code, Some(75), "{unsure:?}");

    let migrated = outboxd(&config, &["migrate"], "").await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    world.database.client.batch_execute("drop table decisioning_tasks cascade").await.expect("it drops");
    let done = rekey(&config, &[]).await;
    assert_eq!((done.code, tally(&done, "outbox", "resealed")), (Some(0), 3), "{done:?}");
    assert!(!done.stdout.contains("registrations"), "{}", done.stdout);
}

#[tokio::test]
async fn the_keys_are_told_with_who_holds_them_and_what_needs_them() {
    let world = World::new().await;
    let (new, lost) = (EnvelopeKey::new(), EnvelopeKey::new());
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let daemon = Daemon::start(&world.config()).await;
    let later = |key: &EnvelopeKey, count| -> Vec<Sealed> {
        Draft::many(&world.receiver.url("/later"), count).into_iter().map(|draft| draft.seal(key)).collect()
    };
    for (key, count) in [(&world.key, 3), (&new, 2), (&lost, 12)] {
        world.database.insert_for_later(&later(key, count)).await;
    }
    let host = Host::on(&world.database).await;
    host.issue(&world.key, "create_media_buy", &Registration::to(world.receiver.url("/c"))).await;
    let told = outboxd(&config, &["keys", "--json"], "").await;
    assert_eq!(told.code, Some(0), "{told:?}");
    let told: Value = serde_json::from_str(&told.stdout).expect("it is JSON");
    let key = |nth: usize| &told["keys"][nth];
    assert_eq!((&key(0)["fingerprint"], &key(0)["seals"]), (&new.fingerprint().into(), &true.into()));
    assert_eq!((&key(0)["replicas"], &key(1)["replicas"]), (&0.into(), &1.into()));
    let rows = |nth: usize, place: &str| key(nth)["places"][place]["rows"].as_u64();
    assert_eq!((rows(0, "outbox"), rows(1, "outbox"), rows(1, "registrations")), (Some(2), Some(3), Some(1)));
    assert!(key(1)["places"]["outbox"]["newest_seconds_old"].as_f64().is_some_and(|age| (0.0..60.0).contains(&age)));
    assert_eq!(told["unopenable"]["outbox"]["rows"], 12);
    assert_eq!(told["unopenable"]["outbox"]["first"].as_array().map(Vec::len), Some(10));
    assert_eq!(told["signing_kids"], json!([world.signer.kid]));
    let replica = told["replicas"][0]["replica"].as_str().expect("it is listed");
    assert!(replica.contains(&format!("/{}/", daemon.pid())), "{replica}");

    let words = outboxd(&config, &["keys"], "").await.stdout;
    for part in [
        format!(
            "key {}  seals and opens; held by 0 of 1 replicas; registrations: 0; outbox: 2, the newest ",
            new.fingerprint()
        ),
        format!("key {}  opens; held by 1 of 1 replicas; registrations: 1, the newest ", world.key.fingerprint()),
        "no key held here opens 12 of outbox: ".to_owned(),
        format!("replica {replica}  "),
        format!("signing key {}", world.signer.kid),
    ] {
        assert!(words.contains(&part), "{part}: {words}");
    }
    let drop = async |fingerprint: &str| outboxd(&config, &["keys", "--json", "--may-drop", fingerprint], "").await;
    let sealing = drop(&new.fingerprint()).await;
    assert_eq!(sealing.code, Some(75), "{sealing:?}");
    assert!(sealing.stdout.contains("it is the newest key here"), "{}", sealing.stdout);
    let needed = drop(&world.key.fingerprint()).await;
    assert_eq!(needed.code, Some(75), "{needed:?}");
    for part in
        ["1 of registrations need it", "3 of outbox need it", "the newest key of replica", "a row was sealed under it"]
    {
        assert!(needed.stdout.contains(part), "{part}: {}", needed.stdout);
    }
    let unknown = drop(&lost.fingerprint()).await;
    assert_eq!(unknown.code, Some(65), "{unknown:?}");
    assert!(unknown.stderr.contains("is in envelope.key_files"), "{unknown:?}");

    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_exit(PATIENCE).await.code, Some(0));
    let left: i64 = world.database.value(&format!("select count(*) from {TABLE}_replicas"), &[]).await;
    assert_eq!(left, 0, "it left without a word");
}

#[tokio::test]
async fn a_key_that_is_named_twice_is_refused() {
    let world = World::new().await;
    let config = world.config();
    let [one, other] = ["one.key", "other.key"].map(|name| text(&config.file(name, world.key.hex())));
    let refused = outboxd(&config.set("envelope.key_files", vec![one, other]), &["keys"], "").await;
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.stderr.contains("envelope.key_files: the keys number 1 and 2 are the same key"), "{refused:?}");
}

/// The SDK knows one key. What it sealed under the old one, bodies and a registration, it reads under the new one after.
#[tokio::test]
async fn what_the_sdk_sealed_is_read_by_the_sdk_with_the_new_key_after() {
    let world = World::new().await;
    let new = EnvelopeKey::new();
    let config = world.config().envelope_keys(&[&new, &world.key]);
    let how = |key: &EnvelopeKey| json!({"key": key.hex(), "signing": signing(&world.signer), "legacy_hmac": true});
    let before = seller(&world, &config, how(&world.key)).await;
    let secret = "s".repeat(40);
    let tasks = json!({"tasks": [
        {"url": world.receiver.url("/plain"), "operation_id": "op_1", "account_id": "he said \"hi\" \\ é 😀"},
        {"url": world.receiver.url("/bearer"), "operation_id": "op_2", "authentication": ["Bearer", secret]},
        {"url": world.receiver.url("/hmac"), "operation_id": "op_3", "authentication": ["HMAC-SHA256", secret]},
    ]});
    let emitted = before.call("emit", tasks).await;
    let task = json!({"url": world.receiver.url("/later"), "operation_id": "op_4", "token": "a token of the buyer"});
    let waiting = before.call("register", json!({"tasks": [task]})).await;
    let done = rekey(&config, &[]).await;
    assert_eq!((done.code, tally(&done, "outbox", "resealed")), (Some(0), 3), "{done:?}");
    assert_eq!(tally(&done, "registrations", "resealed"), 1);
    let after = seller(&world, &config, how(&new)).await;
    for task in emitted.as_array().expect("a list") {
        assert_eq!(after.call("sealed_body", json!({"task_id": task["task_id"]})).await, task["body"]);
    }
    after.call("complete", json!({"task_id": waiting[0]})).await;
    after.call("work", json!({"workers": 1})).await;
    world.all_are("delivered").await;
    after.call("rest", json!({})).await;
    let received = world.receiver.received();
    for task in emitted.as_array().expect("a list") {
        let same = |request: &Received| task["body"] == STANDARD.encode(&request.body);
        assert_eq!(received.iter().filter(|request| same(request)).count(), 1);
    }
    assert!(received.iter().any(|request| request.json()["token"] == "a token of the buyer"));
}
