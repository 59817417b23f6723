//! The server is there and does not get to it: locks that others hold, limits on time, no connection to spare.

use std::time::Instant;

use super::Scene;
use crate::support::cluster::{TABLE, connect, try_connect};
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::history::moment;
use crate::support::server::Server;

#[tokio::test]
async fn p1_a_table_that_is_locked_is_waited_for() {
    let mut scene = Scene::shared().await;
    // The server gives up first, at nine tenths of it, by its own lock_timeout and statement_timeout.
    let daemon = Daemon::start(&scene.config().set("database.statement_timeout", "1s")).await;
    scene.deliver(20).await;
    let holder = connect(&scene.world.database.url).await;
    let from = moment();
    let lock = format!("begin; lock table {TABLE} in access exclusive mode");
    holder.batch_execute(&lock).await.expect("it can be locked");
    let readiness = scene.is_red(&daemon, "no answer within").await;
    scene.stays_red(&daemon).await;
    holder.batch_execute("rollback").await.expect("it ends");
    let back = Instant::now();
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken("table locked", from);
    scene.judged("table locked, statements time out", &readiness, recovery).await;
}

#[tokio::test]
async fn p1_a_server_without_a_connection_to_spare_is_waited_for() {
    let server = Server::start(&["max_connections=12"]).await;
    let mut scene = Scene::on(server.database("app").await).await;
    let daemon = Daemon::start(&scene.config()).await;
    scene.deliver(20).await;
    let from = moment();
    let mut hogs = Vec::new();
    let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'daemon'";
    let readiness = eventually("the daemon finds no connection", async || {
        while let Ok(hog) = try_connect(&server.url("postgres")).await {
            hogs.push(hog);
        }
        match daemon.get("/readyz").await {
            Ok((503, page)) if page.contains("no connection to spare") => return Ok(page.trim().to_string()),
            _ => {}
        }
        let ended: i64 = scene.world.database.value(others, &[]).await;
        Err(format!("{ended} of its backends terminated, {} taken", hogs.len()))
    })
    .await;
    hogs.clear();
    let back = Instant::now();
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken("too many connections", from);
    scene.judged("too many connections", &readiness, recovery).await;
}
