//! SIGHUP takes keys and egress policy anew as one checked snapshot, or keeps the old one.

use nix::sys::signal::Signal;

use crate::support::config::text;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::keys::SigningKey;
use crate::support::verify::assert_signed;
use crate::support::world::World;

#[tokio::test]
async fn a_new_signing_key_signs_from_the_reload_on() {
    let world = World::new().await;
    let next = SigningKey::p256("test-p256-2");
    let daemon = Daemon::start(&world.config()).await;
    world.insert("/before", 1).await;
    world.all_are("delivered").await;
    let pem = daemon.config().file("next.pem", next.pem());
    let reloaded = daemon.config().clone().set("signing.key_file", text(&pem)).set("signing.key_id", next.kid.as_str());
    reloaded.set("signing.algorithms", vec![next.algorithm.name()]).write();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    world.insert("/after", 1).await;
    let received = world.receiver.wait_for(2).await;
    world.assert_signed(&received[0]);
    assert_signed(&received[1], &next);
    assert_ne!(received[0].connection, received[1].connection, "a connection outlived the reload");
}

#[tokio::test]
async fn a_bad_reload_is_reported_and_changes_nothing() {
    let world = World::new().await;
    let daemon = Daemon::start(&world.config()).await;
    let good = daemon.config().clone();
    let bad = [
        (good.clone().set("egress.alow", vec!["10.0.0.0/8"]), "alow"),
        (good.clone().set("egress.deny", vec!["not a network"]), "egress.deny"),
        (good.clone().set("envelope.key_files", vec![text(&good.file("short.key", "00"))]), "envelope.key_files"),
        (good.clone().set("signing.key_file", text(&good.path("absent.pem"))), "signing.key_file"),
        (good.clone().extra("[delivery\n"), "outboxd.toml"),
    ];
    for (nth, (config, named)) in bad.into_iter().enumerate() {
        // Another change rides along, to see that none of a bad snapshot is taken.
        config.set("egress.allow", Vec::<String>::new()).write();
        let from = daemon.lines().len();
        daemon.signal(Signal::SIGHUP);
        daemon.line(from, &["reload", named]).await;
        world.insert("/still", 1).await;
        let received = world.receiver.wait_for(nth + 1).await;
        world.assert_signed(&received[nth]);
    }
    world.all_are("delivered").await;
    daemon.ready().await;
}

#[tokio::test]
async fn a_network_that_is_no_longer_allowed_is_not_reached_over_a_kept_connection() {
    let world = World::new().await;
    let daemon = Daemon::start(&world.config()).await;
    world.insert("/before", 1).await;
    world.all_are("delivered").await;
    daemon.config().clone().unset("egress.allow").write();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    let after = world.insert("/after", 1).await;
    eventually("the row is refused", async || match world.database.row(&after[0].task_id).await {
        row if row.last_error.as_deref() == Some("literal_forbidden") => Ok(()),
        row => Err(row),
    })
    .await;
    assert_eq!(world.receiver.received().len(), 1);
}
