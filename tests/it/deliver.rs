//! Rows reach the receiver: signed, verbatim, by every kind of authentication, over reused connections.

use std::collections::{HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::dns::Dns;
use crate::support::eventually::eventually;
use crate::support::keys::{SigningKey, hex};
use crate::support::metrics::{ATTEMPTS, CONNECTIONS};
use crate::support::receiver::Answer;
use crate::support::seal::Draft;
use crate::support::verify::assert_signed;
use crate::support::world::World;

async fn everything_arrives_signed(world: World) {
    let url = world.receiver.url("/hooks/adcp?tenant=7");
    let mut drafts = Draft::many(&url, 40);
    drafts[1].token = Some("a token of a buyer, echoed".into());
    drafts[2].result = json!({"name": "Zoë 😀 \u{7f}\u{2028} \"quoted\" back\\slash", "n": -0.5});
    drafts[3].terminal_status = "failed".into();
    drafts[4].account_id = "he said \"hi\" \\ \n\t / é 😀".into();
    let bodies: HashMap<String, Vec<u8>> = drafts.iter().map(|d| (d.idempotency_key.clone(), d.body())).collect();
    world.database.insert(&world.seal(drafts)).await;
    let daemon = Daemon::start(&world.config()).await;
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| (row.attempt_count, row.last_http_status) == (1, Some(200))), "{rows:?}");
    assert!(rows.iter().all(|row| row.last_error.is_none() && row.lease_token.is_none()), "{rows:?}");
    let received = world.receiver.received();
    assert_eq!(received.len(), 40);
    for request in &received {
        world.assert_signed(request);
        assert_eq!(bodies.get(&request.idempotency_key()), Some(&request.body));
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/hooks/adcp?tenant=7"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("accept-encoding").unwrap_or("identity"), "identity");
        let agent = request.header("user-agent").expect("every request names its sender");
        assert_eq!(agent, concat!("outboxd/", env!("CARGO_PKG_VERSION")));
    }
    let metrics = daemon.metrics().await;
    assert_eq!(metrics.total(ATTEMPTS, &[("code", "delivered")]), 40.0, "{}", metrics.text);
}

#[tokio::test]
async fn rows_arrive_verbatim_and_signed_with_ed25519() {
    everything_arrives_signed(World::new().await).await;
}

#[tokio::test]
async fn rows_arrive_verbatim_and_signed_with_p256() {
    everything_arrives_signed(World::with_signer(SigningKey::p256("test-p256-1")).await).await;
}

/// RFC 3986 unreserved characters stay, the rest is %XX.
pub fn scope_file(scope: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{}", hex(&[other]).to_uppercase()),
    };
    format!("scopes/{}.json", scope.bytes().map(escape).collect::<String>())
}

pub fn add_scope(config: &Config, scope: &str, key: &SigningKey) {
    let content = json!({"scope": scope, "algorithms": [key.algorithm.name()], "jwk": key.private_jwk()});
    config.file(&scope_file(scope), content.to_string());
}

pub fn scoped(config: Config) -> Config {
    let directory = text(&config.path("scopes"));
    config.set("signing.scopes_dir", directory)
}

#[tokio::test]
async fn every_scope_signs_with_its_own_key_and_each_failing_one_says_why() {
    let world = World::new().await;
    let (alpha, beta) = (SigningKey::ed25519("alpha-1"), SigningKey::p256("beta-1"));
    let config = scoped(world.unsigned_config()).set("signing.default_scope", "tenant:alpha/1");
    add_scope(&config, "tenant:alpha/1", &alpha);
    add_scope(&config, "tenant:bêta", &beta);
    config.file(&scope_file("gone"), json!({"scope": "gone", "decommissioned": true}).to_string());
    let unadvertised = json!({"scope": "other", "algorithms": ["ecdsa-p256-sha256"], "jwk": alpha.private_jwk()});
    config.file(&scope_file("other"), unadvertised.to_string());
    let to = |target: &str| Draft::to(world.receiver.url(target));
    let drafts = vec![
        to("/alpha").scope("tenant:alpha/1"),
        to("/beta").scope("tenant:bêta"),
        to("/default"),
        to("/gone").scope("gone"),
        to("/unknown").scope("nobody:knows"),
        to("/other").scope("other"),
    ];
    let ids: Vec<String> = drafts.iter().map(|draft| draft.task_id.clone()).collect();
    world.database.insert(&world.seal(drafts)).await;
    let _daemon = Daemon::start(&config).await;
    for request in world.receiver.wait_for(3).await {
        assert_signed(&request, if request.target == "/beta" { &beta } else { &alpha });
    }
    let expected = [
        ("delivered", None),
        ("delivered", None),
        ("delivered", None),
        ("invalid", Some("scope_decommissioned")),
        ("pending", Some("scope_unknown")),
        ("pending", Some("signing_key_refused")),
    ];
    for (id, (state, error)) in ids.iter().zip(expected) {
        eventually(&format!("{id} is {state} for {error:?}"), async || match world.database.row(id).await {
            row if row.state == state && row.last_error.as_deref() == error => Ok(()),
            row => Err(row),
        })
        .await;
    }
}

/// As a receiver with one of the project's libraries: nothing of the crate, and the whole message by hand.
#[tokio::test]
async fn a_standard_webhooks_registration_is_signed_under_one_id_for_all_its_attempts() {
    let world = World::new().await;
    let key: Vec<u8> = (1..=32).collect();
    let secret = format!("whsec_{}", STANDARD.encode(&key));
    world.receiver.answer(|_, nth| Answer::status(if nth == 0 { 503 } else { 200 }));
    let draft = Draft::to(world.receiver.url("/hooks")).authentication("Standard-Webhooks", &secret);
    let (body, id) = (draft.body(), draft.idempotency_key.clone());
    let mut dotted = Draft::to(world.receiver.url("/dotted")).authentication("Standard-Webhooks", &secret);
    dotted.idempotency_key = "whk.0123456789abcdef".into();
    let weak = Draft::to(world.receiver.url("/weak")).authentication("Standard-Webhooks", "whsec_c2hvcnQ=");
    let refused = [(dotted.task_id.clone(), "row_malformed"), (weak.task_id.clone(), "envelope_malformed")];
    world.database.insert(&world.seal(vec![draft.clone(), dotted, weak])).await;
    // Also where HMAC-SHA256 is switched off: this is another scheme.
    let daemon = Daemon::start(&world.retrying_config()).await;
    let received = world.receiver.wait_for(2).await;
    for request in &received {
        for absent in ["signature", "signature-input", "content-digest", "authorization", "x-adcp-signature"] {
            assert_eq!(request.header(absent), None);
        }
        let timestamp = request.header("webhook-timestamp").expect("it is signed");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_secs();
        let age = now.saturating_sub(timestamp.parse().expect("Unix seconds"));
        assert!(age < 60, "{age}");
        let message = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &body].concat();
        let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key), &message);
        let expected = format!("v1,{}", STANDARD.encode(tag.as_ref()));
        assert_eq!((request.header("webhook-id"), &request.body), (Some(id.as_str()), &body));
        assert_eq!(request.header("webhook-signature"), Some(expected.as_str()));
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
    for (task_id, code) in refused {
        eventually(&format!("{task_id} is quarantined as {code}"), async || match world.database.row(&task_id).await {
            row if row.state == "invalid" && row.last_error.as_deref() == Some(code) => Ok(()),
            row => Err(row),
        })
        .await;
    }
    assert!(!daemon.text().contains(&secret[6..]), "the secret is in the log");
}

#[tokio::test]
async fn legacy_registrations_get_their_bearer_and_their_hmac_and_no_signature() {
    let world = World::new().await;
    let secret = "hmac-secret-0123456789abcdef01234é";
    let drafts = vec![
        Draft::to(world.receiver.url("/bearer")).authentication("Bearer", "bearer-0123456789abcdef"),
        Draft::to(world.receiver.url("/hmac")).authentication("HMAC-SHA256", secret),
    ];
    world.database.insert(&world.seal(drafts)).await;
    let _daemon = Daemon::start(&world.config().set("envelope.legacy_hmac", true)).await;
    world.all_are("delivered").await;
    for request in world.receiver.received() {
        for absent in ["signature", "signature-input", "content-digest"] {
            assert_eq!(request.header(absent), None, "{}", request.target);
        }
        if request.target == "/bearer" {
            assert_eq!(request.header("authorization"), Some("Bearer bearer-0123456789abcdef"));
            continue;
        }
        let timestamp = request.header("x-adcp-timestamp").expect("HMAC covers a timestamp");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let tag = ring::hmac::sign(&key, &[timestamp.as_bytes(), b".", &request.body].concat());
        assert_eq!(request.header("x-adcp-signature"), Some(format!("sha256={}", hex(tag.as_ref())).as_str()));
        assert_eq!(request.header("x-adcp-key-id"), Some("adcp-task-registration"));
        assert_eq!(request.header("authorization"), None);
    }
}

#[tokio::test]
async fn p7_a_retry_sends_the_same_body_under_a_fresh_signature() {
    let world = World::new().await;
    world.receiver.answers(vec![Answer::status(503), Answer::status(503), Answer::status(200)]);
    let drafts = world.insert("/flaky", 1).await;
    let _daemon = Daemon::start(&world.retrying_config()).await;
    let rows = world.all_are("delivered").await;
    assert_eq!((rows[0].attempt_count, rows[0].last_http_status), (3, Some(200)));
    let received = world.receiver.received();
    assert_eq!(received.len(), 3);
    let nonces: HashSet<String> = received.iter().map(|request| world.assert_signed(request).nonce).collect();
    assert_eq!(nonces.len(), 3, "a nonce was used twice");
    assert!(received.iter().all(|request| request.body == drafts[0].body()));
    let connections: HashSet<usize> = received.iter().map(|request| request.connection).collect();
    assert_eq!(connections.len(), 3, "an attempt after a failure reused a connection");
}

#[tokio::test]
async fn rows_for_one_destination_share_connections() {
    let world = World::new().await;
    world.insert("/hooks", 200).await;
    let daemon = Daemon::start(&world.config().set("delivery.per_destination", 4)).await;
    world.all_are("delivered").await;
    assert!(world.receiver.connections() <= 20, "{} connections for 200 rows", world.receiver.connections());
    let metrics = daemon.metrics().await;
    assert!(metrics.total(CONNECTIONS, &[("kind", "reused")]) >= 180.0, "{}", metrics.text);
}

#[tokio::test]
async fn a_name_is_resolved_checked_and_verified_against_the_certificate() {
    let world = World::new().await;
    let dns = Dns::start().await;
    dns.set("buyer.example.com", &["127.0.0.1"]);
    dns.set("other.example.com", &["127.0.0.1", "169.254.169.254"]);
    dns.set("uncertified.example.com", &["127.0.0.1"]);
    dns.set("empty.example.com", &[]);
    let to = |name: &str| Draft::to(world.receiver.url_by_name(name, "/hooks"));
    let cases = [
        (to("buyer.example.com"), "delivered", None),
        (to("other.example.com"), "pending", Some("address_forbidden")),
        (to("uncertified.example.com"), "pending", Some("tls_certificate")),
        (to("empty.example.com"), "pending", Some("dns_no_address")),
        (to("absent.example.com"), "pending", Some("dns_not_found")),
    ];
    world.database.insert(&world.seal(cases.iter().map(|(draft, ..)| draft.clone()).collect())).await;
    let config = world.config().set("egress.dns_servers", vec![dns.address.to_string()]).set("retry.base", "1m");
    let _daemon = Daemon::start(&config).await;
    for (draft, state, error) in cases {
        eventually(&format!("{} is {state} for {error:?}", draft.url), async || {
            match world.database.row(&draft.task_id).await {
                row if row.state == state && row.last_error.as_deref() == error => Ok(()),
                row => Err(row),
            }
        })
        .await;
    }
    assert_eq!(world.receiver.received().len(), 1);
    world.assert_signed(&world.receiver.received()[0]);
}

#[tokio::test]
async fn loopback_is_never_reached_unless_its_network_is_listed() {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let _daemon = Daemon::start(&world.config().unset("egress.allow")).await;
    let rows = world.all_are("invalid").await;
    assert_eq!(rows[0].last_error.as_deref(), Some("literal_forbidden"));
    assert_eq!(world.receiver.connections(), 0);
}
