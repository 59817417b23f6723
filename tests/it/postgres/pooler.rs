//! PgBouncer in transaction mode, which closes each of its server connections after five seconds.

use std::collections::BTreeSet;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::Scene;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::history::moment;
use crate::support::pooler::Pooler;
use crate::support::server::Server;

#[tokio::test]
async fn p1_p12_a_pooler_that_recycles_its_connections_and_a_restart_behind_it_are_survived() {
    let mut server = Server::start(&[]).await;
    let mut scene = Scene::on(server.database("app").await).await;
    let pooler = Pooler::before(server.directory(), "server_lifetime = 5\nserver_login_retry = 1\n").await;
    let config = scene.at(&pooler.url("app")).set("database.prepared_statements", false);
    let daemon = Daemon::start(&config).await;
    let feed = scene.feed(vec![server.url("app")]);
    let mut backends = BTreeSet::new();
    // Three generations at least of each: a daemon has four loops.
    eventually("its connections are recycled", async || {
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'daemon'";
        let rows = scene.world.database.client.query(sql, &[]).await.expect("it answers");
        backends.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        assert_eq!(daemon.get("/readyz").await.expect("it answers").0, 200, "{}", daemon.text());
        if backends.len() >= 12 { Ok(()) } else { Err(format!("{} backends", backends.len())) }
    })
    .await;
    let from = moment();
    server.stop(Signal::SIGINT);
    let readiness = scene.is_red(&daemon, "database").await;
    server.restart().await;
    let back = Instant::now();
    scene.world.database = server.open("app").await;
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken("restart behind the pooler", from);
    scene.delivers(20).await;
    scene.ended(feed).await;
    scene.judged("restart behind PgBouncer, server_lifetime 5 s", &readiness, recovery).await;
}
