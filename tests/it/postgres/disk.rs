//! The file system that the outbox lies on is full: hosts get their error, the daemon waits for room.

use std::time::Instant;

use nix::sys::signal::Signal;

use super::Scene;
use crate::support::cluster::TABLE;
use crate::support::daemon::Daemon;
use crate::support::history::moment;
use crate::support::server::Server;

const MEBIBYTES: u32 = 24;

#[tokio::test]
async fn p1_a_full_disk_is_named_and_waited_for() {
    let server = Server::with_space(MEBIBYTES).await;
    let mut scene = Scene::on(server.database("app").await).await;
    let database = &scene.world.database;
    let space = format!("create tablespace small location '{}'", server.space().display());
    database.client.batch_execute(&space).await.expect("the directory is the server's");
    // Pages without room, so that each update needs a new one.
    let settings = ["set tablespace small", "set (fillfactor = 100)", "set (autovacuum_enabled = off)"];
    for setting in settings {
        database.execute(&format!("alter table {TABLE} {setting}"), &[]).await;
    }
    database.execute("create table filler (n int, text text) tablespace small", &[]).await;
    // Rows that are claimed and settled one by one find room on the pages that there are, and leave it to the next.
    let daemon = Daemon::start(&scene.config().set("delivery.slots", 64)).await;
    scene.deliver(20).await;
    scene.all_end().await;

    let from = moment();
    // It sees these rows when there is no room for what it would write about them.
    daemon.signal(Signal::SIGSTOP);
    scene.insert(300).await;
    let mut rows = 4096;
    while rows > 0 {
        let fill = "insert into filler select n, repeat(md5(n::text), 30) from generate_series(1, $1::int) as n";
        if let Err(error) = scene.world.database.client.execute(fill, &[&rows]).await {
            assert_eq!(error.code().map(|code| code.code()), Some("53100"), "{error:?}");
            rows /= 2;
        }
    }
    daemon.signal(Signal::SIGCONT);
    let readiness = scene.is_red(&daemon, "out of disk").await;
    scene.stays_red(&daemon).await;
    scene.world.database.execute("drop table filler", &[]).await;
    let back = Instant::now();
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken("disk full", from);
    scene.judged("disk full", &readiness, recovery).await;
}
