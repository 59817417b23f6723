//! Every major version that is supported, from an empty database to a webhook that was received: the migrations, the host's
//! functions, the daemon, the inbox. Debian's version has all the other tests.

use super::Scene;
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::history::{Commit, Enqueued};
use crate::support::host::{Host, Registration};
use crate::support::seal::Draft;
use crate::support::server::Server;
use crate::webhooks::{bodies, inbox, knowing, receive};

async fn the_whole_works_on(major: u32) {
    let server = Server::of_major(major).await;
    let mut scene = Scene::on(server.database("app").await).await;
    let database = &scene.world.database;
    let version: String = database.value("SHOW server_version", &[]).await;
    assert_eq!(version.split('.').next(), Some(major.to_string().as_str()));
    for words in [&["migrate"][..], &["migrate", "--check"]] {
        let config = Config::empty().set("database.url", server.url("app"));
        let ended = Daemon::command(&config, words).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(0), "{}", ended.output);
    }

    // What is received lies in the same database.
    let (listening, origin) = inbox(&server.url("app"));
    let inbox = receive(&knowing(listening, &[&scene.world.signer])).await;
    let daemon = Daemon::start(&scene.config()).await;
    let mut drafts = Draft::many(&scene.world.receiver.url("/hooks"), 20);
    scene.history.enqueued.extend(drafts.iter().map(|draft| Enqueued::of(draft, Commit::Known)));
    let received = Draft::many(&format!("{origin}/webhook"), 20);
    drafts.extend(received.clone());
    scene.world.database.insert(&scene.world.seal(drafts)).await;
    eventually("the inbox has its part", async || match bodies(&scene.world.database).await {
        bodies if bodies == received.iter().map(Draft::body).collect() => Ok(()),
        other => Err(format!("{} bodies\n{}", other.len(), inbox.text())),
    })
    .await;
    scene.world.all_are("delivered").await;

    let host = Host::on(&scene.world.database).await;
    let registration = Registration::to(scene.world.receiver.url("/composed"));
    let task = host.issue(&scene.world.key, "create_media_buy", &registration).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    scene.world.all_are("delivered").await;
    let composed = scene.world.receiver.received().iter().filter(|request| request.target == "/composed").count();
    assert_eq!(composed, 1);
    assert_eq!(daemon.get("/readyz").await.expect("it answers"), (200, "ok\n".to_string()), "{}", daemon.text());
}

#[tokio::test]
async fn on_postgres_14() {
    the_whole_works_on(14).await;
}

#[tokio::test]
async fn on_postgres_16() {
    the_whole_works_on(16).await;
}

#[tokio::test]
async fn on_postgres_17() {
    the_whole_works_on(17).await;
}

#[tokio::test]
async fn on_postgres_18() {
    the_whole_works_on(18).await;
}
