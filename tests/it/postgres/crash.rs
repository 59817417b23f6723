//! The server goes away and comes back: in order, by a crash, or only for those who were connected.

use std::time::Instant;

use nix::sys::signal::Signal;

use super::Scene;
use crate::support::daemon::Daemon;
use crate::support::history::moment;
use crate::support::server::Server;

async fn goes_and_comes(fault: &str, signal: Signal) {
    let mut server = Server::start(&[]).await;
    let mut scene = Scene::on(server.database("app").await).await;
    let daemon = Daemon::start(&scene.config()).await;
    let feed = scene.feed(vec![server.url("app")]);
    scene.delivers(20).await;
    let from = moment();
    server.stop(signal);
    let readiness = scene.is_red(&daemon, "the database is not available").await;
    server.restart().await;
    let back = Instant::now();
    scene.world.database = server.open("app").await;
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken(fault, from);
    scene.delivers(20).await;
    scene.ended(feed).await;
    scene.judged(fault, &readiness, recovery).await;
}

#[tokio::test]
async fn p1_p12_a_server_that_is_restarted_is_waited_for() {
    goes_and_comes("restart", Signal::SIGINT).await;
}

#[tokio::test]
async fn p1_p12_a_server_that_crashes_is_waited_for() {
    goes_and_comes("kill -9 of the postmaster", Signal::SIGKILL).await;
}

#[tokio::test]
async fn p1_p6_a_daemon_whose_every_backend_is_terminated_again_and_again_goes_on() {
    let mut scene = Scene::shared().await;
    let daemon = Daemon::start(&scene.config()).await;
    let feed = scene.feed(vec![scene.world.database.url.clone()]);
    let from = moment();
    let (mut back, mut ended) = (Instant::now(), 0);
    for _ in 0..5 {
        scene.delivers(10).await;
        let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                      WHERE datname = current_database() AND application_name = 'daemon'";
        ended += scene.world.database.value::<i64>(others, &[]).await;
        back = Instant::now();
    }
    assert!(ended >= 10, "{ended} backends");
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken("backends terminated", from);
    scene.ended(feed).await;
    scene.judged("every backend terminated, five times", "ok, or red until the next claim", recovery).await;
}
