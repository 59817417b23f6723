//! A scripted incident (a receiver that is down, a row under a key that nobody holds, a database in which somebody holds locks
//! or a snapshot) is told by `status`, `why` and `tail` alone, in words that name the cause.

use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::receiver::Answer;
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::tool::{Done, outboxd};
use crate::support::world::World;

async fn run(world: &World, arguments: &[&str]) -> Done {
    let done = outboxd(&world.config(), arguments, "").await;
    assert!(done.code == Some(0) || done.code == Some(66), "{arguments:?}: {done:?}");
    done
}

/// Until the command's output holds all of these.
async fn tells(world: &World, arguments: &[&str], words: &[&str]) -> String {
    eventually(&format!("{arguments:?} tells {words:?}"), async || {
        let told = run(world, arguments).await.stdout;
        match words.iter().all(|word| told.contains(word)) {
            true => Ok(told),
            false => Err(told),
        }
    })
    .await
}

#[tokio::test]
async fn a_dead_destination_and_a_bad_key_are_told_by_their_causes() {
    let world = World::new().await;
    let dead = Draft::many("https://127.0.0.1:9/hooks", 20);
    let sealed = Draft::to(world.receiver.url("/hooks"));
    let (down, unopenable) = (dead[7].clone(), sealed.clone());
    world.database.insert(&world.seal(dead)).await;
    world.database.insert(&[sealed.seal(&EnvelopeKey::new())]).await;
    let daemon = Daemon::start(&world.config()).await;
    tells(&world, &["status"], &["TROUBLE", "destination 127.0.0.1:9 fails since", "connect"]).await;
    let told = tells(&world, &["status"], &["envelope_unopenable", "for the operator to mend"]).await;
    assert!(told.contains("envelope key") && told.contains(" on 1 of 1"), "{told}");
    let told = run(&world, &["why", &down.idempotency_key]).await.stdout;
    assert!(told.contains("parked") || told.contains("connect_failed"), "{told}");
    let told = run(&world, &["why", &unopenable.task_id]).await.stdout;
    for words in ["envelope_unopenable", "No held key opens the envelope", "it is tried again in", "operator"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    daemon.kill().await;
    world
        .database
        .execute("update adcp_task_webhook_outbox_replicas set seen_at = seen_at - interval '2 minutes'", &[])
        .await;
    tells(&world, &["status"], &["nobody delivers", "start `outboxd run`"]).await;
}

#[tokio::test]
async fn a_stuck_database_is_told_by_who_holds_it() {
    let world = World::new().await;
    let holder = crate::support::cluster::connect(&world.database.url).await;
    holder
        .batch_execute("begin isolation level repeatable read; select 1 from adcp_task_webhook_outbox")
        .await
        .expect("it reads");
    let config = world.config().set("sweep.snapshot_warning", "1s");
    eventually("the holder is told", async || {
        let told = outboxd(&config, &["status"], "").await.stdout;
        match told.contains("holds a snapshot since") && told.contains("session") {
            true => Ok(()),
            false => Err(told),
        }
    })
    .await;
}

#[tokio::test]
async fn a_row_is_told_from_its_first_attempt_to_its_end() {
    let world = World::new().await;
    world.receiver.answer(|_, nth| Answer::status(if nth == 0 { 503 } else { 410 }));
    let draft = world.insert("/hooks", 1).await.remove(0);
    let waiting = run(&world, &["why", &draft.idempotency_key]).await.stdout;
    assert!(waiting.contains("no attempt so far") && waiting.contains("now   due for"), "{waiting}");
    let _daemon = Daemon::start(&world.config().set("retry.base", "100ms")).await;
    world.all_are("invalid").await;
    let told = run(&world, &["why", &draft.idempotency_key]).await.stdout;
    for words in ["http_server_error", "503", "quarantined", "http_gone", "410", "outboxd requeue", "receiver"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let json = run(&world, &["why", &draft.task_id, "--json"]).await.stdout;
    let json: Value = serde_json::from_str(&json).expect("one object");
    assert_eq!(json["row"]["state"], "invalid", "{json}");
    let statuses: Vec<&Value> = json["attempts"].as_array().expect("a list").iter().map(|one| &one["code"]).collect();
    assert_eq!(statuses, ["http_server_error", "http_gone"], "in their order");
    // The row's number is a name for it too.
    let by_id = run(&world, &["why", &json["row"]["id"].to_string(), "--json"]).await.stdout;
    assert!(by_id.contains(&draft.idempotency_key), "{by_id}");
}

#[tokio::test]
async fn a_row_that_is_gone_is_told_from_its_attempts_and_an_unknown_one_is_absent() {
    let world = World::new().await;
    let draft = world.insert("/hooks", 1).await.remove(0);
    let _daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    let told = run(&world, &["why", &draft.idempotency_key]).await.stdout;
    assert!(told.contains("delivered") && told.contains("answered with 200"), "{told}");
    world.database.execute("delete from adcp_task_webhook_outbox", &[]).await;
    let told = run(&world, &["why", &draft.idempotency_key]).await.stdout;
    assert!(told.contains("its row is deleted") && told.contains("success"), "{told}");
    let unknown = run(&world, &["why", "whk_nobody"]).await;
    assert_eq!(unknown.code, Some(66), "{unknown:?}");
}

#[tokio::test]
async fn a_lease_that_is_over_is_told() {
    let world = World::new().await;
    let draft = world.insert("/hooks", 1).await.remove(0);
    let sql = "update adcp_task_webhook_outbox set state = 'in_flight', lease_token = 'x', attempt_count = 1, \
               first_attempt_at = now(), retry_until = now() + interval '1 day', \
               lease_expires_at = now() - interval '1 minute', available_at = now() - interval '1 minute'";
    world.database.execute(sql, &[]).await;
    let told = run(&world, &["why", &draft.task_id]).await.stdout;
    assert!(told.contains("its lease is over since 1m") && told.contains("the next claim takes it up"), "{told}");
    assert!(told.contains("none of which left a record"), "{told}");
}

#[tokio::test]
async fn attempts_are_shown_as_they_happen() {
    let world = World::new().await;
    world.receiver.answer(|_, nth| Answer::status(if nth == 0 { 500 } else { 200 }));
    let daemon = Daemon::start(&world.config().set("retry.base", "100ms")).await;
    let tail = Daemon::command(&world.config(), &["tail", "--json"]);
    let failed = Daemon::command(&world.config(), &["tail", "--failed"]);
    let draft = world.insert("/hooks?token=hidden", 1).await.remove(0);
    let line = tail.line(0, &["\"success\"", &draft.idempotency_key]).await;
    let line: Value = serde_json::from_str(&line).expect("one object a line");
    assert_eq!(line["attempt"], 2, "{line}");
    failed.line(0, &["http_server_error", "500", "attempt 1"]).await;
    assert!(!failed.text().contains("success") && !tail.text().contains("hidden"), "{}", failed.text());
    let past = run(&world, &["tail", "--no-follow", "-n", "1"]).await.stdout;
    assert_eq!(past.lines().count(), 1, "{past}");
    assert!(past.contains("success") && past.contains(&draft.task_id), "{past}");
    drop(daemon);
}

#[tokio::test]
async fn a_table_that_only_the_sdk_made_is_told_of_as_well() {
    let world = World::new().await;
    let draft = world.insert("/hooks", 1).await.remove(0);
    world
        .database
        .client
        .batch_execute(
            "drop table adcp_task_webhook_outbox_attempts, adcp_task_webhook_outbox_parked, \
             adcp_task_webhook_outbox_replicas cascade",
        )
        .await
        .expect("they are there");
    let told = run(&world, &["why", &draft.task_id]).await.stdout;
    assert!(told.contains("no history of attempts") && told.contains("due for"), "{told}");
    let told = run(&world, &["status"]).await.stdout;
    assert!(told.contains("run `outboxd migrate`"), "{told}");
    let tail = outboxd(&world.config(), &["tail", "--no-follow"], "").await;
    assert_eq!(tail.code, Some(78), "{tail:?}");
}
