//! Files that change under a running daemon: taken up without a signal when they are whole, and not before.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nix::sys::signal::Signal;

use crate::support::config::text;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::keys::SigningKey;
use crate::support::receiver::Received;
use crate::support::verify::assert_signed;
use crate::support::world::World;

const RELOADS: &str = "outboxd_config_reloads_total";
const FAILED: &str = "outboxd_config_reload_failed";

/// The signer of the next delivery.
async fn deliver(world: &World) -> Received {
    let before = world.receiver.received().len();
    world.insert("/hooks", 1).await;
    world.receiver.wait_for(before + 1).await.remove(before)
}

async fn reloaded(daemon: &Daemon, times: f64) {
    eventually("a reload", async || match daemon.metrics().await {
        metrics if metrics.total(RELOADS, &[("result", "ok")]) >= times => Ok(()),
        metrics => Err(metrics.total(RELOADS, &[])),
    })
    .await;
    assert_eq!(daemon.metrics().await.total(FAILED, &[]), 0.0);
}

async fn refused(daemon: &Daemon, from: usize, words: &[&str]) {
    let line = daemon.line(from, &[&["reload failed"], words].concat()).await;
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(daemon.metrics().await.total(FAILED, &[]), 1.0);
}

#[tokio::test]
async fn a_changed_configuration_is_taken_up_without_a_signal() {
    let world = World::new().await;
    let next = SigningKey::ed25519("test-ed25519-2");
    let daemon = Daemon::start(&world.config()).await;
    world.assert_signed(&deliver(&world).await);
    let pem = daemon.config().file("next.pem", next.pem());
    daemon.config().clone().set("signing.key_file", text(&pem)).set("signing.key_id", next.kid.as_str()).write();
    reloaded(&daemon, 1.0).await;
    assert_signed(&deliver(&world).await, &next);
}

#[tokio::test]
async fn a_key_file_is_taken_up_when_it_is_whole_and_readable_by_nobody_else() {
    let world = World::new().await;
    let next = SigningKey::p256("test-p256-2");
    let daemon = Daemon::start(&world.config().unset("signing.algorithms")).await;
    let config = daemon.config().clone();
    let path = config.path("next.pem");

    let from = daemon.lines().len();
    config.clone().set("signing.key_file", text(&path)).set("signing.key_id", next.kid.as_str()).write();
    refused(&daemon, from, &["signing.key_file", "next.pem", "cannot be read"]).await;
    world.assert_signed(&deliver(&world).await);

    let pem = next.pem();
    let from = daemon.lines().len();
    config.file("next.pem", &pem[..pem.len() / 2]);
    refused(&daemon, from, &["next.pem", "holds no PEM private key"]).await;
    world.assert_signed(&deliver(&world).await);

    let from = daemon.lines().len();
    config.file_with_mode("next.pem", &pem, 0o644);
    refused(&daemon, from, &["next.pem", "chmod o-rwx"]).await;
    world.assert_signed(&deliver(&world).await);

    // Not a byte is written: rights alone make it good.
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    reloaded(&daemon, 1.0).await;
    assert_signed(&deliver(&world).await, &next);
    world.all_are("delivered").await;
    daemon.ready().await;
}

#[tokio::test]
async fn another_key_under_a_known_key_id_is_refused_and_the_one_from_before_goes_on() {
    let world = World::new().await;
    let daemon = Daemon::start(&world.config()).await;
    world.assert_signed(&deliver(&world).await);
    let other = SigningKey::ed25519(&world.signer.kid);
    let from = daemon.lines().len();
    daemon.config().file("signing.pem", other.pem());
    refused(&daemon, from, &["signing.key_file", "stands for another key", "new key id"]).await;
    world.assert_signed(&deliver(&world).await);

    // A signal asks for the same and is told the same.
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    refused(&daemon, from, &["stands for another key"]).await;

    daemon.config().clone().set("signing.key_id", "renamed").write();
    reloaded(&daemon, 1.0).await;
    let mut renamed = other.clone();
    renamed.kid = "renamed".into();
    assert_signed(&deliver(&world).await, &renamed);
    // And the first name still stands for the first key, though it was out of use.
    let from = daemon.lines().len();
    daemon.config().clone().set("signing.key_id", world.signer.kid.as_str()).write();
    refused(&daemon, from, &["stands for another key"]).await;
}

/// As a mounted Secret is: every file a link through `..data`, which is replaced by rename for all of them at once.
struct Mount<'a> {
    directory: &'a Path,
}

impl Mount<'_> {
    fn swap(&self, version: &str, files: &[(&str, String)]) {
        let target = self.directory.join(version);
        fs::create_dir(&target).unwrap();
        for (name, content) in files {
            fs::write(target.join(name), content).unwrap();
            fs::set_permissions(target.join(name), Permissions::from_mode(0o440)).unwrap();
            let link = self.directory.join(name);
            if link.symlink_metadata().is_err() {
                symlink(Path::new("..data").join(name), link).unwrap();
            }
        }
        let fresh = self.directory.join("..data_tmp");
        symlink(version, &fresh).unwrap();
        fs::rename(fresh, self.directory.join("..data")).unwrap();
    }
}

#[tokio::test]
async fn a_mounted_secret_that_is_swapped_as_a_whole_is_taken_up_as_a_whole() {
    let world = World::new().await;
    let config = world.config().unset("signing.algorithms");
    let directory = config.path("mounted");
    fs::create_dir(&directory).unwrap();
    let mount = Mount { directory: &directory };
    let listing = |key: &SigningKey| {
        let file = text(&directory.join("signing.pem"));
        let base = config.clone().set("signing.key_file", file).set("signing.key_id", key.kid.as_str());
        fs::read_to_string(base.write()).unwrap()
    };
    mount.swap("..one", &[("signing.pem", world.signer.pem()), ("outboxd.toml", listing(&world.signer))]);
    let daemon = Daemon::with_file(&config, &directory.join("outboxd.toml"), &["run"]);
    daemon.ready().await;
    world.assert_signed(&deliver(&world).await);
    for (nth, version) in ["..two", "..three"].into_iter().enumerate() {
        let next = SigningKey::ed25519(version.trim_start_matches('.'));
        mount.swap(version, &[("signing.pem", next.pem()), ("outboxd.toml", listing(&next))]);
        reloaded(&daemon, nth as f64 + 1.0).await;
        assert_signed(&deliver(&world).await, &next);
    }
    assert_eq!(daemon.metrics().await.total(RELOADS, &[("result", "failed")]), 0.0, "{}", daemon.text());
}

#[tokio::test]
async fn trust_anchors_and_envelope_keys_are_watched_too() {
    let world = World::new().await;
    let config = world.config();
    let anchors = config.file_with_mode("anchors.pem", "", 0o644);
    fs::copy(config.path("ca.pem"), &anchors).unwrap();
    let daemon = Daemon::start(&config.set("egress.trust_anchors", vec![text(&anchors)])).await;
    let from = daemon.lines().len();
    fs::write(&anchors, "-----BEGIN CERTIFICATE-----\nAAAA").unwrap();
    refused(&daemon, from, &["egress.trust_anchors"]).await;
    world.assert_signed(&deliver(&world).await);
    fs::copy(daemon.config().path("ca.pem"), &anchors).unwrap();
    reloaded(&daemon, 1.0).await;
    let from = daemon.lines().len();
    daemon.config().file("envelope.key", &world.key.hex()[..10]);
    refused(&daemon, from, &["envelope.key_files"]).await;
    daemon.config().file("envelope.key", world.key.hex());
    reloaded(&daemon, 2.0).await;
    world.assert_signed(&deliver(&world).await);
}

/// What failed for another reason than a file is tried again by itself.
#[tokio::test]
async fn a_daemon_of_scopes_takes_its_directory_up_when_it_is_mounted_again() {
    let world = World::new().await;
    let config = world.unsigned_config();
    let scopes = config.path("scopes");
    fs::create_dir(&scopes).unwrap();
    let config = config.set("signing.scopes_dir", text(&scopes));
    let daemon = Daemon::start(&config).await;
    fs::remove_dir(&scopes).unwrap();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    refused(&daemon, from, &["signing.scopes_dir", "directory"]).await;
    fs::create_dir(&scopes).unwrap();
    reloaded(&daemon, 1.0).await;
}
