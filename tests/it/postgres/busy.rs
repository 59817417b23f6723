//! Others use the database as they please: transactions that are rolled back, snapshots that are held, indexes that are built
//! anew. None of it is an outage.

use std::time::{Duration, Instant};

use super::Scene;
use crate::support::cluster::{TABLE, connect, insert_by};
use crate::support::daemon::Daemon;
use crate::support::history::{Commit, Enqueued};
use crate::support::seal::Draft;

#[tokio::test]
async fn p1_rows_of_transactions_that_were_rolled_back_are_never_sent() {
    let mut scene = Scene::shared().await;
    let daemon = Daemon::start(&scene.config()).await;
    let host = connect(&scene.world.database.url).await;
    for nth in 0..10 {
        let drafts = Draft::many(&scene.world.receiver.url("/hooks"), 3);
        let sealed = scene.world.seal(drafts.clone());
        host.batch_execute("begin").await.expect("it begins");
        insert_by(&host, &sealed[..1]).await.expect("it is inserted");
        host.batch_execute("savepoint a").await.expect("it is set");
        insert_by(&host, &sealed[1..2]).await.expect("it is inserted");
        host.batch_execute("rollback to savepoint a").await.expect("it goes back");
        insert_by(&host, &sealed[2..]).await.expect("it is inserted");
        let commits = nth % 2 == 0;
        if commits {
            host.batch_execute("commit").await.expect("it commits");
        } else {
            host.batch_execute("select 1/0").await.expect_err("it is aborted");
            host.batch_execute("commit").await.expect("which rolls it back");
        }
        let commit = |nth: usize| if commits && nth != 1 { Commit::Known } else { Commit::RolledBack };
        let enqueued = drafts.iter().enumerate().map(|(nth, draft)| Enqueued::of(draft, commit(nth)));
        scene.history.enqueued.extend(enqueued);
    }
    let recovery = scene.recovers(&daemon, Instant::now()).await;
    let report = scene.judged("aborted transactions", "ok", recovery).await;
    assert_eq!((report.enqueued, report.receipts), (11, 11), "{report}");
}

#[tokio::test]
async fn p12_a_snapshot_that_is_held_stops_nothing() {
    let mut scene = Scene::shared().await;
    let reader = connect(&scene.world.database.url).await;
    let begin = format!("begin isolation level repeatable read; select count(*) from {TABLE}");
    reader.batch_execute(&begin).await.expect("it begins");
    let daemon = Daemon::start(&scene.config()).await;
    for _ in 0..4 {
        scene.deliver(100).await;
        assert_eq!(daemon.get("/readyz").await.expect("it answers").0, 200);
    }
    let recovery = scene.recovers(&daemon, Instant::now()).await;
    reader.batch_execute("commit").await.expect("it ends");
    scene.judged("a snapshot that is held", "ok", recovery).await;
}

#[tokio::test]
async fn p12_indexes_that_are_built_anew_under_load_stop_nothing() {
    let mut scene = Scene::shared().await;
    let daemon = Daemon::start(&scene.config()).await;
    let feed = scene.feed(vec![scene.world.database.url.clone()]);
    scene.delivers(10).await;
    let began = Instant::now();
    let mut rounds = 0;
    while rounds < 5 || began.elapsed() < Duration::from_secs(2) {
        scene.world.database.execute(&format!("REINDEX TABLE CONCURRENTLY {TABLE}"), &[]).await;
        assert_eq!(daemon.get("/readyz").await.expect("it answers").0, 200, "{}", daemon.text());
        rounds += 1;
    }
    let recovery = scene.recovers(&daemon, Instant::now()).await;
    scene.ended(feed).await;
    assert!(!daemon.text().contains("does not work"), "{}", daemon.text());
    scene.judged("REINDEX TABLE CONCURRENTLY, again and again", "ok", recovery).await;
}
