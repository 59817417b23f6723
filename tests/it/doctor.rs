//! `outboxd doctor`: an incident is named, and so is what to do about it, by the command's words alone.

use crate::support::cluster::TABLE;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::receiver::Answer;
use crate::support::seal::EnvelopeKey;
use crate::support::tool::outboxd;
use crate::support::world::World;

#[tokio::test]
async fn a_healthy_outbox_needs_nothing() {
    let world = World::new().await;
    let config = world.config();
    let _daemon = Daemon::start(&config).await;
    world.insert("/hooks", 3).await;
    world.all_are("delivered").await;
    let told = outboxd(&config, &["doctor"], "").await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stdout.contains("ok    database"), "{told:?}");
    let object = outboxd(&config, &["doctor", "--json"], "").await;
    let object: serde_json::Value = serde_json::from_str(&object.stdout).expect("it is one object");
    assert_eq!((&object["ready"], &object["outboxes"][0]["replicas"]), (&true.into(), &1.into()), "{object}");
    assert!(object["findings"].as_array().is_some_and(|all| all.iter().any(|one| one["about"] == "database")));
    assert_eq!(object["outboxes"][0]["last_hour"][0]["rows"], 3);
    let object = outboxd(&config, &["check", "--json"], "").await;
    assert!(
        object.code == Some(0) && object.stdout.starts_with("{") && object.stdout.contains("\"ready\":true"),
        "{object:?}"
    );
    assert!(told.stdout.contains("\ndelivered     3"), "{}", told.stdout);
    assert!(
        told.stdout.contains("nothing is due") && told.stdout.ends_with("what to do\nnothing\n"),
        "{}",
        told.stdout
    );
}

#[tokio::test]
async fn a_dead_destination_a_missing_key_and_a_refusal_are_told_apart_with_what_to_do() {
    let world = World::new().await;
    world.receiver.answer(|target, _| Answer::status(if target == "/gone" { 410 } else { 503 }));
    let config = world.config();
    let _daemon = Daemon::start(&config).await;
    world.insert("/gone", 2).await;
    world.insert_under(&EnvelopeKey::new(), "/lost", 1).await;
    let failed = async |code: &str| {
        let sql = format!("select count(*) from {TABLE} where last_error = $1");
        world.database.value::<i64>(&sql, &[&code]).await
    };
    eventually("the two kinds have failed", async || {
        match (failed("http_gone").await, failed("envelope_unopenable").await) {
            (2, 1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.insert("/down", 1).await;
    eventually("the receiver is down", async || match failed("http_server_error").await {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    let told = outboxd(&config, &["doctor"], "").await.stdout;
    for words in [
        "2 rows invalid (most for 127.0.0.1",
        "Ask the receiver. Once that is mended: `outboxd requeue --code http_gone`.",
        "1 row pending",
        "Compare `outboxd keys` with the key that the host seals with.",
        "Not to wait for the next try then: `outboxd requeue --state pending --code envelope_unopenable`.",
        "its rows wait, and are tried again by themselves.",
    ] {
        assert!(told.contains(words), "{words} is not in\n{told}");
    }
}

#[tokio::test]
async fn an_outbox_that_nobody_delivers_from_is_told_of_first() {
    let world = World::new().await;
    world.insert("/hooks", 4).await;
    let late = format!("update {TABLE} set available_at = now() - interval '10 minutes'");
    world.database.execute(&late, &[]).await;
    let told = outboxd(&world.config(), &["doctor"], "").await;
    assert!(told.stdout.contains("4 due, the oldest for 10m"), "{}", told.stdout);
    assert!(told.stdout.contains("1. nobody delivers from this outbox"), "{}", told.stdout);
}

#[tokio::test]
async fn what_check_finds_wrong_is_said_and_is_the_exit_code() {
    let world = World::new().await;
    let config = world
        .config()
        .set("database.url", "postgresql://nobody@127.0.0.1:1/none")
        .set("database.connect_timeout", "1s");
    let told = Daemon::command(&config, &["doctor"]).wait_exit(PATIENCE).await;
    assert_eq!(told.code, Some(69), "{}", told.output);
    assert!(told.output.contains("FAIL  database"), "{}", told.output);
}
