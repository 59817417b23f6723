//! The primary dies, hangs, or is demoted, and another takes its place: the daemon finds it by its list of hosts. Replication
//! is synchronous, since what only the dead server had is lost to everybody.

use std::time::Instant;

use nix::sys::signal::Signal;

use super::Scene;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::history::moment;
use crate::support::server::Server;

/// A standby that has to have what is committed, and for which commits wait from now on.
async fn synchronous_standby(primary: &Server) -> Server {
    let standby = primary.standby().await;
    let client = primary.client("postgres").await;
    // Its log is kept back to where the two part, which is what rewinding reads.
    let settings = ["alter system set synchronous_standby_names = '*'", "alter system set wal_keep_size = '256MB'"];
    for statement in settings.into_iter().chain(["select pg_reload_conf()"]) {
        client.batch_execute(statement).await.expect("the superuser may");
    }
    eventually("the standby is synchronous", async || {
        let sql = "select coalesce(string_agg(sync_state, ','), '') from pg_stat_replication";
        let state: String = client.query_one(sql, &[]).await.expect("it answers").get(0);
        if state == "sync" { Ok(()) } else { Err(state) }
    })
    .await;
    standby
}

/// As libpq's pairs, and as a URL.
fn pairs(hosts: &[&Server]) -> String {
    let directories: Vec<String> = hosts.iter().map(|host| host.directory().display().to_string()).collect();
    format!(
        "host={} user=postgres dbname=app application_name=daemon target_session_attrs=read-write",
        directories.join(",")
    )
}

fn url(hosts: &[&Server]) -> String {
    let directories: Vec<String> = hosts.iter().map(|host| host.directory().display().to_string()).collect();
    let list = directories.join(",");
    format!("postgresql://postgres@/app?host={list}&application_name=daemon&target_session_attrs=read-write")
}

/// There and back again: the first host of the list is the primary, then a standby, then the primary again.
#[tokio::test]
async fn p1_p3_a_standby_that_is_promoted_is_found_and_so_is_the_old_primary_when_it_is_promoted_again() {
    let mut first = Server::start(&[]).await;
    let database = first.database("app").await;
    let mut second = synchronous_standby(&first).await;
    let mut scene = Scene::on(database).await;
    let daemon = Daemon::start(&scene.config().set("database.url", pairs(&[&first, &second]))).await;
    let feed = scene.feed(vec![first.url("app"), second.url("app")]);
    scene.delivers(20).await;
    let from = moment();
    first.stop(Signal::SIGKILL);
    let readiness = scene.is_red(&daemon, "database").await;
    second.promote().await;
    let promoted = Instant::now();
    scene.world.database = second.open("app").await;
    let recovery = scene.recovers(&daemon, promoted).await;
    scene.broken("failover", from);

    // The old primary comes back as a standby, read-only and first in the list.
    first.rewind(&second).await;
    first.restart().await;
    scene.delivers(20).await;
    let from = moment();
    let client = second.client("postgres").await;
    eventually("the old primary follows", async || {
        let sql = "select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()";
        match client.query_one(sql, &[]).await.expect("it answers").get::<_, i64>(0) {
            1 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    scene.ended(feed).await;
    scene.all_end().await;
    // In order, so that all it had goes to its standby first.
    second.stop(Signal::SIGINT);
    first.promote().await;
    let promoted = Instant::now();
    scene.world.database = first.open("app").await;
    let back = scene.recovers(&daemon, promoted).await;
    scene.broken("failover back", from);
    scene.judged("failover by promotion, and back", &readiness, recovery.max(back)).await;
}

/// It accepts connections, as the kernel does for it, and answers nothing.
#[tokio::test]
async fn p1_p3_a_primary_that_hangs_does_not_keep_the_daemon_from_the_one_that_took_its_place() {
    let first = Server::start(&[]).await;
    let database = first.database("app").await;
    let second = synchronous_standby(&first).await;
    let mut scene = Scene::on(database).await;
    let config = scene.config().set("database.url", url(&[&first, &second])).set("database.statement_timeout", "3s");
    let daemon = Daemon::start(&config).await;
    scene.deliver(20).await;
    let from = moment();
    first.signal_all(Signal::SIGSTOP);
    let readiness = scene.is_red(&daemon, "database").await;
    second.promote().await;
    let promoted = Instant::now();
    scene.world.database = second.open("app").await;
    let recovery = scene.recovers(&daemon, promoted).await;
    scene.broken("primary hangs", from);
    scene.insert(20).await;
    scene.judged("primary hangs, standby promoted", &readiness, recovery).await;
}

/// As managed services do it: sessions live on, and take no writes any more.
#[tokio::test]
async fn a_server_that_turns_read_only_under_its_sessions_is_left_and_found_again() {
    let server = Server::start(&[]).await;
    let mut scene = Scene::on(server.database("app").await).await;
    let daemon = Daemon::start(&scene.config()).await;
    scene.deliver(20).await;
    let admin = server.client("postgres").await;
    let set = async |statement: &str| {
        for statement in [statement, "select pg_reload_conf()"] {
            admin.batch_execute(statement).await.expect("the superuser may");
        }
    };
    let from = moment();
    set("alter system set default_transaction_read_only = on").await;
    let readiness = scene.is_red(&daemon, "the database is read-only").await;
    set("alter system reset default_transaction_read_only").await;
    let back = Instant::now();
    scene.world.database = server.open("app").await;
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken("read-only", from);
    scene.insert(20).await;
    scene.judged("default_transaction_read_only", &readiness, recovery).await;
}
