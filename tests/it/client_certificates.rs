//! Receivers that demand client certificates: each scope shows its own, nobody borrows another's connection, and what
//! cannot be shown waits. Also what is said of certificates before they expire.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::deliver::scoped;
use crate::support::certs::{Authority, Leaf};
use crate::support::config::{Config, text};
use crate::support::daemon::{Daemon, Ended};
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::keys::SigningKey;
use crate::support::receiver::{Received, Receiver};
use crate::support::seal::Draft;
use crate::support::world::World;

const EX_CONFIG: i32 = 78;
const LATE: (i32, u8, u8) = (2090, 1, 1);
/// The earliest that is told of a certificate which ends with [`LATE`].
const LATE_UNIX: f64 = 3_786_912_000.0;

/// A receiver that wants certificates of an authority of its own.
async fn demanding() -> (World, Authority, Receiver) {
    let clients = Authority::new("clients");
    let receiver = Receiver::demanding(&clients).await;
    (World::new().await, clients, receiver)
}

fn add_scope(config: &Config, scope: &str, leaf: Option<&Leaf>) {
    add_scope_with(config, scope, &SigningKey::ed25519(scope), leaf);
}

fn add_scope_with(config: &Config, scope: &str, key: &SigningKey, leaf: Option<&Leaf>) {
    let mut content = json!({"scope": scope, "algorithms": ["ed25519"], "jwk": key.private_jwk()});
    if let Some(leaf) = leaf {
        config.file_with_mode(&format!("scopes/{scope}.pem"), &leaf.certificate_pem, 0o644);
        config.file(&format!("scopes/{scope}.key"), &leaf.key_pem);
        content["client_cert_file"] = format!("{scope}.pem").into();
        content["client_key_file"] = format!("{scope}.key").into();
    }
    config.file(&format!("scopes/{scope}.json"), content.to_string());
}

fn with_identity(config: Config, leaf: &Leaf) -> Config {
    let certificate = config.file_with_mode("client.pem", &leaf.certificate_pem, 0o644);
    let key = config.file("client.key", &leaf.key_pem);
    config.set("egress.client_cert_file", text(&certificate)).set("egress.client_key_file", text(&key))
}

async fn insert(world: &World, draft: Draft) -> String {
    let id = draft.task_id.clone();
    world.database.insert(&world.seal(vec![draft])).await;
    id
}

async fn waits_for(world: &World, id: &str, code: &str) {
    eventually(&format!("{id} waits for {code}"), async || match world.database.row(id).await {
        row if row.state == "pending" && row.last_error.as_deref() == Some(code) => Ok(()),
        row => Err(row),
    })
    .await;
}

fn shown(request: &Received, leaf: &Leaf) -> bool {
    request.client.as_deref() == Some(leaf.der())
}

async fn end_of(config: &Config, command: &str) -> Ended {
    Daemon::command(config, &[command]).wait_exit(PATIENCE).await
}

#[tokio::test]
async fn each_scope_shows_its_own_certificate_and_keeps_its_own_connection() {
    let (world, clients, receiver) = demanding().await;
    let (alpha, beta) = (clients.client_leaf("alpha", LATE), clients.client_leaf("beta", LATE));
    let config = scoped(world.unsigned_config()).set("retry.base", "100ms").set("retry.cap", "200ms");
    add_scope(&config, "alpha", Some(&alpha));
    add_scope(&config, "beta", Some(&beta));
    let key = SigningKey::ed25519("bare");
    add_scope_with(&config, "bare", &key, None);
    let daemon = Daemon::start(&config).await;
    let turns = ["alpha", "beta", "alpha", "beta", "beta", "alpha"];
    for (nth, scope) in turns.into_iter().enumerate() {
        insert(&world, Draft::to(receiver.url(&format!("/{scope}"))).scope(scope)).await;
        receiver.wait_for(nth + 1).await;
        world.all_are("delivered").await;
    }
    let bare = insert(&world, Draft::to(receiver.url("/bare")).scope("bare")).await;
    waits_for(&world, &bare, "tls_client_auth").await;
    let received = receiver.received();
    assert_eq!(received.len(), turns.len());
    for request in &received {
        assert!(shown(request, if request.target == "/alpha" { &alpha } else { &beta }), "{}", request.target);
    }
    // Neither had to be made anew for want of the other's: each identity has one connection as long as it is kept.
    let reused = daemon.metrics().await.total("outboxd_connections_total", &[("kind", "reused")]);
    assert!(reused >= 1.0, "no connection was ever reused, so that the separation was not tried");

    // What was missing is given: the row goes out with the next attempt.
    add_scope_with(&config, "bare", &key, Some(&alpha));
    let request = receiver.wait_for(turns.len() + 1).await.pop().expect("it was waited for");
    assert!(request.target == "/bare" && shown(&request, &alpha));
    world.all_are("delivered").await;
}

#[tokio::test]
async fn the_default_certificate_is_swapped_by_a_reload_and_its_connections_with_it() {
    let (world, clients, receiver) = demanding().await;
    let stranger = Authority::new("strangers").client_leaf("us", LATE);
    let config = with_identity(world.config(), &stranger).set("retry.base", "100ms").set("retry.cap", "200ms");
    let daemon = Daemon::start(&config).await;
    let row = insert(&world, Draft::to(receiver.url("/fixed"))).await;
    waits_for(&world, &row, "tls_client_auth").await;

    let (first, second) = (clients.client_leaf("us", LATE), clients.client_leaf("us", LATE));
    let mut received = 0;
    for leaf in [&first, &second] {
        with_identity(config.clone(), leaf);
        let from = daemon.lines().len();
        daemon.signal(Signal::SIGHUP);
        daemon.line(from, &["reloaded"]).await;
        // A legacy registration authenticates by its credentials inside, and outside by the same certificate.
        let legacy = Draft::to(receiver.url("/legacy")).authentication("Bearer", "bearer-0123456789abcdef");
        insert(&world, legacy).await;
        world.all_are("delivered").await;
        let new = receiver.received().split_off(received);
        received += new.len();
        assert!(!new.is_empty() && new.iter().all(|request| shown(request, leaf)));
    }
    assert_eq!(received, 3);

    // A pair that does not belong together is refused, and the one from before goes on.
    config.file("client.key", &first.key_pem);
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reload failed", "egress.client_key_file", "does not belong to the certificate"]).await;
    insert(&world, Draft::to(receiver.url("/after"))).await;
    world.all_are("delivered").await;
    assert!(shown(receiver.received().last().expect("one more"), &second));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_refused_by_name() {
    let world = World::new().await;
    let authority = Authority::new("clients");
    let (leaf, other) = (authority.client_leaf("us", LATE), authority.client_leaf("them", LATE));
    let good = with_identity(world.config(), &leaf);
    let (certificate, key) = ("egress.client_cert_file", "egress.client_key_file");
    let readable = good.file_with_mode("readable.key", &leaf.key_pem, 0o644);
    let foreign = good.file("foreign.key", &other.key_pem);
    let absent = Value::from(text(&good.path("absent")));
    for (config, parts) in [
        (good.clone().unset(key), [key, "both files"]),
        (good.clone().unset(certificate), [certificate, "both files"]),
        (good.clone().set(certificate, absent.clone()), [certificate, "not found"]),
        (good.clone().set(key, absent), [key, "cannot be read"]),
        (good.clone().set(key, text(&readable)), [key, "chmod o-rwx"]),
        (good.clone().set(key, text(&foreign)), [key, "does not belong to the certificate"]),
        (good.clone().set(certificate, text(&foreign)), [certificate, "holds no certificate"]),
    ] {
        for command in ["run", "check"] {
            let ended = end_of(&config, command).await;
            let named = ended.output.lines().any(|line| parts.iter().all(|part| line.contains(part)));
            assert!(ended.code == Some(EX_CONFIG) && named, "{command} {parts:?}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn a_scope_whose_certificate_cannot_be_used_waits_and_delays_no_other() {
    let (world, clients, receiver) = demanding().await;
    let leaf = clients.client_leaf("us", LATE);
    let config = scoped(world.unsigned_config()).set("retry.base", "100ms").set("retry.cap", "200ms");
    for scope in ["good", "readable", "foreign", "half"] {
        add_scope(&config, scope, Some(&leaf));
    }
    config.file_with_mode("scopes/readable.key", &leaf.key_pem, 0o644);
    config.file("scopes/foreign.key", clients.client_leaf("them", LATE).key_pem);
    let half = json!({"scope": "half", "algorithms": ["ed25519"], "jwk": SigningKey::ed25519("half").private_jwk(),
        "client_cert_file": "half.pem"});
    config.file("scopes/half.json", half.to_string());
    let _daemon = Daemon::start(&config).await;
    let mut waiting = Vec::new();
    for scope in ["readable", "foreign", "half"] {
        waiting.push(insert(&world, Draft::to(receiver.url("/none")).scope(scope)).await);
    }
    insert(&world, Draft::to(receiver.url("/good")).scope("good")).await;
    assert_eq!(receiver.wait_for(1).await[0].target, "/good");
    for id in waiting {
        waits_for(&world, &id, "signing_unavailable").await;
    }
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn certificates_are_told_of_before_they_expire() {
    let world = World::new().await;
    let authority = Authority::new("clients");
    let (default, late) = (authority.client_leaf("us", (2020, 1, 1)), authority.client_leaf("alpha", LATE));
    let config = with_identity(scoped(world.unsigned_config()), &default);
    add_scope(&config, "alpha", Some(&late));
    let tls = Authority::shared().receiver_leaf();
    let certificate = config.file("tls.pem", &tls.certificate_pem);
    let soon = config.file_with_mode("soon.pem", soon_expiring(), 0o644);
    let tls_key = config.file("tls.key", &tls.key_pem);
    let anchor = text(&config.path("ca.pem"));
    let config = config
        .set("egress.trust_anchors", vec![text(&soon), anchor.clone()])
        .set("log.format", "text")
        .set("database.sslrootcert", anchor)
        .set("receive.tls_cert_file", text(&certificate))
        .set("receive.tls_key_file", text(&tls_key));

    let ended = end_of(&config, "check").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for parts in [
        ["warn", "egress.client_cert_file", "expired on 2020-01-01"],
        ["ok ", "scopes/alpha.pem", "days left, until 2090-01-01"],
        ["warn", "egress.trust_anchors: ", "soon.pem: 9 days left"],
        ["ok ", "egress.trust_anchors: ", "ca.pem: "],
        ["ok ", "database.sslrootcert: ", "days left"],
        ["ok ", "receive.tls_cert_file: ", "days left"],
    ] {
        let line = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(ended.output.lines().any(line), "{parts:?} in {}", ended.output);
    }

    let daemon = Daemon::start(&config).await;
    daemon.line(0, &["ERROR", "has expired", "client.pem"]).await;
    daemon.line(0, &["WARN", "expires soon", "soon.pem", "days=9"]).await;
    let gauge = "outboxd_earliest_expiry_timestamp_seconds";
    let of = async |kind| daemon.metrics().await.total(gauge, &[("kind", kind)]);
    assert_eq!(of("client_certificate").await, 1_577_836_800.0);
    assert!(of("database_ca").await > LATE_UNIX);
    assert!(of("trust_anchor").await < LATE_UNIX);
    let absent = daemon.metrics().await.text;
    assert!(!absent.contains("kind=\"receive_certificate\""), "what this process does not serve with: {absent}");

    // The expired one is replaced.
    with_identity(config, &late);
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    assert_eq!(of("client_certificate").await, LATE_UNIX);
}

/// An authority in the tenth day before its last.
fn soon_expiring() -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ends = std::time::SystemTime::now() + std::time::Duration::from_secs(10 * 86_400 - 3_600);
    params.not_after = ends.into();
    let key = rcgen::KeyPair::generate().expect("ring makes P-256 keys");
    params.self_signed(&key).expect("a CA signs itself").pem()
}
