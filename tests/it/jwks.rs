//! The JWKS listener: what a receiver finds there, when it changes, and what hostile clients cannot do to it.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::deliver::{add_scope, scope_file, scoped};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually, within};
use crate::support::keys::SigningKey;
use crate::support::signing::{lasting, seconds, with_keys};
use crate::support::world::World;

pub const ALL: &str = "/.well-known/jwks.json";

/// What a client was told.
pub struct Told {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Told {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn keys(&self) -> Vec<Value> {
        let set: Value = serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body));
        set["keys"].as_array().expect("a set has keys").clone()
    }

    fn kids(&self) -> Vec<String> {
        self.keys().iter().map(|key| key["kid"].as_str().expect("a key has a name").to_string()).collect()
    }
}

/// Where the daemon listens: the last that it said.
pub fn listener(daemon: &Daemon) -> Option<SocketAddr> {
    let lines = daemon.lines();
    let (_, line) = lines.iter().rev().find(|(_, line)| line.contains("jwks listening"))?;
    let line: Value = serde_json::from_str(line).expect("the log is JSON");
    line["addr"].as_str()?.parse().ok()
}

async fn say(address: SocketAddr, request: &[u8]) -> std::io::Result<Told> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request).await?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await?;
    let reply = String::from_utf8_lossy(&reply);
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Ok(Told { status, head: head.to_string(), body: body.to_string() })
}

async fn ask(daemon: &Daemon, method: &str, path: &str, headers: &str) -> Told {
    let address = listener(daemon).expect("it listens");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: seller.example\r\nConnection: close\r\n{headers}\r\n");
    within(PATIENCE, "an answer", say(address, request.as_bytes())).await.expect("it answers")
}

pub async fn get(daemon: &Daemon, path: &str) -> Told {
    ask(daemon, "GET", path, "").await
}

pub async fn kids(daemon: &Daemon) -> Vec<String> {
    get(daemon, ALL).await.kids()
}

/// The key ids of a key set.
pub async fn published(daemon: &Daemon, path: &str) -> Vec<String> {
    get(daemon, path).await.kids()
}

pub fn publishing(config: Config) -> Config {
    config.set("jwks.listen", "127.0.0.1:0")
}

#[tokio::test]
async fn receivers_find_the_public_halves_of_all_keys_and_are_told_what_they_hold() {
    let world = World::new().await;
    let (old, new) = (SigningKey::ed25519("old"), SigningKey::p256("new"));
    let keys = [lasting(&old).until(seconds(3600)), lasting(&new).from(seconds(1800))];
    let daemon = Daemon::start(&publishing(with_keys(world.config(), &keys))).await;
    let told = get(&daemon, ALL).await;
    assert_eq!(told.status, 200);
    assert_eq!(told.keys(), [new.public_jwk(), old.public_jwk()]);
    for key in told.keys() {
        let members: BTreeSet<&str> = key.as_object().unwrap().keys().map(String::as_str).collect();
        let public = BTreeSet::from(["adcp_use", "alg", "crv", "key_ops", "kid", "kty", "use", "x", "y"]);
        assert!(members.is_subset(&public) && members.len() >= 8, "{members:?}");
    }
    assert_eq!(told.header("content-type"), Some("application/jwk-set+json"));
    assert_eq!(told.header("cache-control"), Some("public, max-age=300"));
    assert!(told.header("date").is_some());
    let tag = told.header("etag").expect("it has a tag").to_string();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");

    let head = ask(&daemon, "HEAD", ALL, "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for name in ["etag", "content-length", "content-type", "cache-control"] {
        assert_eq!(head.header(name), told.header(name), "{name}");
    }
    for method in ["GET", "HEAD"] {
        let held = ask(&daemon, method, ALL, &format!("If-None-Match: \"x\", W/{tag}\r\n")).await;
        assert_eq!((held.status, held.body.as_str(), held.header("etag")), (304, "", Some(tag.as_str())));
    }
    assert_eq!(ask(&daemon, "GET", ALL, "If-None-Match: \"other\"\r\n").await.body, told.body);
    assert_eq!(get(&daemon, "/scopes/a/jwks.json").await.status, 404);
    assert_eq!(ask(&daemon, "POST", ALL, "Content-Length: 0\r\n").await.status, 405);
    let metrics = daemon.metrics().await;
    assert_eq!(metrics.total("outboxd_jwks_keys", &[]), 2.0);
    for (result, count) in [("sent", 3.0), ("not_modified", 2.0), ("not_found", 1.0), ("not_allowed", 1.0)] {
        assert_eq!(metrics.total("outboxd_jwks_requests_total", &[("result", result)]), count, "{result}");
    }
}

#[tokio::test]
async fn a_reload_publishes_the_new_keys_moves_the_listener_and_closes_it() {
    let world = World::new().await;
    let (one, two) = (SigningKey::ed25519("one"), SigningKey::ed25519("two"));
    let daemon = Daemon::start(&with_keys(world.config(), &[lasting(&one)])).await;
    assert_eq!(listener(&daemon), None);
    let reload = async |config: &Config| {
        config.write();
        let from = daemon.lines().len();
        daemon.signal(Signal::SIGHUP);
        daemon.line(from, &["reloaded"]).await;
    };
    reload(&publishing(with_keys(world_of(&daemon), &[lasting(&one)]))).await;
    let first = listener(&daemon).expect("it listens now");
    let before = get(&daemon, ALL).await;
    assert_eq!(before.kids(), ["one"]);
    // The same listener, with what is newly loaded: a key is published although it does not sign yet.
    let both = [lasting(&one), lasting(&two).from(seconds(3600))];
    reload(&publishing(with_keys(world_of(&daemon), &both))).await;
    assert_eq!(listener(&daemon), Some(first));
    let after = get(&daemon, ALL).await;
    assert_eq!(after.kids(), ["one", "two"]);
    assert_ne!(after.header("etag"), before.header("etag"));
    // To an address that is taken it does not move, and nothing of that configuration is taken up.
    let taken = TcpStream::connect(first).await.unwrap().peer_addr().unwrap();
    let occupied = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused =
        with_keys(world_of(&daemon), &[lasting(&two)]).set("jwks.listen", occupied.local_addr().unwrap().to_string());
    refused.write();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reload failed", "jwks.listen"]).await;
    assert_eq!((get(&daemon, ALL).await.kids(), listener(&daemon)), (after.kids(), Some(taken)));
    drop(occupied);
    // Moved, and closed.
    reload(&with_keys(world_of(&daemon), &both).set("jwks.listen", "127.0.0.2:0")).await;
    assert_ne!(listener(&daemon), Some(first));
    eventually("the old listener is closed", async || match TcpStream::connect(first).await {
        Ok(_) => Err("it is open"),
        Err(_) => Ok(()),
    })
    .await;
    let second = listener(&daemon).unwrap();
    reload(&with_keys(world_of(&daemon), &both)).await;
    eventually("the listener is closed", async || match TcpStream::connect(second).await {
        Ok(_) => Err("it is open"),
        Err(_) => Ok(()),
    })
    .await;
}

/// The daemon's configuration without its keys and without a listener for them.
fn world_of(daemon: &Daemon) -> Config {
    daemon.config().clone().without_extra()
}

#[tokio::test]
async fn scopes_are_published_each_by_itself_and_a_broken_file_takes_no_key_down() {
    let world = World::new().await;
    let (alpha, beta) = (SigningKey::ed25519("alpha-1"), SigningKey::p256("beta-1"));
    let config = publishing(scoped(world.unsigned_config()));
    add_scope(&config, "tenant:alpha/1", &alpha);
    add_scope(&config, "tenant:bêta", &beta);
    config.file(&scope_file("gone"), json!({"scope": "gone", "decommissioned": true}).to_string());
    let daemon = Daemon::start(&config).await;
    assert_eq!(get(&daemon, ALL).await.kids(), ["alpha-1", "beta-1"]);
    assert_eq!(get(&daemon, "/scopes/tenant%3Aalpha%2F1/jwks.json").await.keys(), [alpha.public_jwk()]);
    assert_eq!(get(&daemon, "/scopes/tenant%3Ab%C3%AAta/jwks.json").await.keys(), [beta.public_jwk()]);
    for scope in ["gone", "tenant%3Aalpha", "..%2F..%2Fsigning"] {
        assert_eq!(get(&daemon, &format!("/scopes/{scope}/jwks.json")).await.status, 404);
    }
    // Half of a file.
    let from = daemon.lines().len();
    fs::write(config.path(&scope_file("tenant:bêta")), "{\"scope\": \"ten").unwrap();
    let line = daemon.line(from, &["not published as it should be", "tenant%3Ab%C3%AAta.json"]).await;
    assert!(line.contains("is not the JSON object"), "{line}");
    assert_eq!(get(&daemon, ALL).await.kids(), ["alpha-1", "beta-1"]);
    assert_eq!(daemon.metrics().await.total("outboxd_jwks_faults", &[]), 1.0);
    // Whole again, with one key more.
    let next = SigningKey::p256("beta-2");
    let entry = json!({"jwk": next.private_jwk(), "not_before": humantime::format_rfc3339(seconds(3600)).to_string()});
    let both = json!({
        "scope": "tenant:bêta", "algorithms": ["ecdsa-p256-sha256"], "keys": [{"jwk": beta.private_jwk()}, entry],
    });
    config.file(&scope_file("tenant:bêta"), both.to_string());
    eventually("both keys are published", async || match get(&daemon, ALL).await.kids() {
        kids if kids == ["alpha-1", "beta-1", "beta-2"] => Ok(()),
        kids => Err(format!("{kids:?}")),
    })
    .await;
    assert_eq!(daemon.metrics().await.total("outboxd_jwks_faults", &[]), 0.0);
    // A file that is taken away takes its keys with it: a key that was lost must not stay.
    fs::remove_file(config.path(&scope_file("tenant:alpha/1"))).unwrap();
    eventually("its keys are gone", async || match get(&daemon, ALL).await.kids() {
        kids if kids == ["beta-1", "beta-2"] => Ok(()),
        kids => Err(format!("{kids:?}")),
    })
    .await;
}

#[tokio::test]
async fn two_scopes_with_different_keys_under_one_key_id_are_told_of_by_name() {
    let world = World::new().await;
    let (first, second) = (SigningKey::ed25519("shared"), SigningKey::ed25519("shared"));
    let config = publishing(scoped(world.unsigned_config()));
    add_scope(&config, "zulu", &first);
    let daemon = Daemon::start(&config).await;
    let from = daemon.lines().len();
    add_scope(&config, "alpha", &second);
    daemon.line(from, &["alpha", "zulu", "shared", "different keys under one key id", "another key id"]).await;
    // Who was there first stays in the common set; by itself each scope is what it says. The word comes just before the keys.
    let alpha = eventually("the other scope is published", async || {
        let told = get(&daemon, "/scopes/alpha/jwks.json").await;
        if told.status == 200 { Ok(told) } else { Err(told.status) }
    })
    .await;
    assert_eq!(alpha.keys(), [second.public_jwk()]);
    assert_eq!(get(&daemon, ALL).await.keys(), [first.public_jwk()]);
    assert_eq!(get(&daemon, "/scopes/zulu/jwks.json").await.keys(), [first.public_jwk()]);
    assert_eq!(daemon.metrics().await.total("outboxd_jwks_faults", &[]), 1.0);
    let ended = Daemon::command(&config, &["check"]).wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(78), "{}", ended.output);
    let line = ended.output.lines().find(|line| line.starts_with("FAIL  jwks")).expect("a line about it");
    assert!(["\"alpha\"", "\"zulu\"", "\"shared\""].iter().all(|word| line.contains(word)), "{line}");
}

#[tokio::test]
async fn clients_that_keep_it_waiting_or_send_too_much_cost_the_others_nothing() {
    let world = World::new().await;
    let daemon = Daemon::start(&publishing(world.config())).await;
    let address = listener(&daemon).unwrap();
    let memory = daemon.resident();
    // More than it has room for, some silent, some in the middle of a head.
    let mut crowd = Vec::new();
    for nth in 0..400 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if nth % 2 == 0 {
            stream.write_all(b"GET /.well-known/jwks.json HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
        }
        crowd.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(get(&daemon, ALL).await.status, 200);
    }
    // Every one of them is ended: for a newcomer's place, or by its time.
    for mut stream in crowd {
        let mut rest = Vec::new();
        // Whether it ends by a reset or in order is all the same.
        let _ = within(PATIENCE, "the end of a slow connection", stream.read_to_end(&mut rest)).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    }
    // A head without end is cut where it is too long, whichever way it is long.
    let line = format!("GET {ALL} HTTP/1.1\r\nHost: a\r\nX-Big: {}", "a".repeat(1 << 20));
    let lines = format!("GET {ALL} HTTP/1.1\r\nHost: a\r\n{}\r\n", "X-Many: a\r\n".repeat(10_000));
    let target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(1 << 20));
    for head in [line, lines, target] {
        let status = async {
            let mut stream = TcpStream::connect(address).await?;
            // It may be reset while we send.
            let _ = stream.write_all(head.as_bytes()).await;
            let mut reply = Vec::new();
            let _ = stream.read_to_end(&mut reply).await;
            std::io::Result::Ok(String::from_utf8_lossy(&reply).split(' ').nth(1).map(str::to_owned))
        };
        let status = within(PATIENCE, "the end of a big head", status).await.unwrap();
        assert!(matches!(status.as_deref(), None | Some("400" | "414" | "431")), "{status:?}");
    }
    assert_eq!(get(&daemon, ALL).await.status, 200);
    // A body that nobody asked for is not read either.
    let posting = format!("POST {ALL} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9999999999\r\n\r\n");
    let told = within(PATIENCE, "an answer", say(address, posting.as_bytes())).await.unwrap();
    assert_eq!(told.status, 405);
    let grown = daemon.resident().saturating_sub(memory);
    assert!(grown < 64 << 20, "{grown} bytes more than before");
}

#[tokio::test]
async fn keys_are_published_to_the_end_of_the_drain() {
    use crate::support::receiver::{Answer, Gate};
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(200).when(&held));
    let daemon = Daemon::start(&publishing(world.config())).await;
    world.insert("/hooks", 1).await;
    world.receiver.wait_for(1).await;
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGTERM);
    daemon.line(from, &["draining"]).await;
    assert_eq!(get(&daemon, ALL).await.kids(), [world.signer.kid.as_str()]);
    gate.open();
    let ended = daemon.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    world.all_are("delivered").await;
}
