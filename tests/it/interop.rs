//! outboxd between the real SDK's writer and the real SDK's receiver, and beside the real SDK's worker.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::deliver::{add_scope, scoped};
use crate::support::certs::Authority;
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::keys::SigningKey;
use crate::support::peer::Peer;
use crate::support::receiver::{Answer, Gate};
use crate::support::seal::Draft;
use crate::support::world::World;

const HMAC_SECRET: &str = "hmac-secret-0123456789abcdef01234567";
pub(crate) const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BEARER: &str = "bearer-0123456789abcdef0123456789abcdef";

/// A seller on the world's database.
pub(crate) async fn seller(world: &World, files: &Config, how: Value) -> Peer {
    let seller = Peer::seller().await;
    let ca = files.file("peer-ca.pem", Authority::shared().pem());
    let mut open = json!({"dsn": world.database.url, "key": world.key.hex(), "ca": text(&ca)});
    for (name, value) in how.as_object().expect("options are an object") {
        open[name] = value.clone();
    }
    seller.call("open", open).await;
    seller
}

pub(crate) fn signing(key: &SigningKey) -> Value {
    json!({"pem": key.pem(), "kid": key.kid, "algorithm": key.algorithm.name()})
}

/// A receiver that knows these keys, and the origin it listens on.
pub(crate) async fn buyer(files: &Config, keys: &[&SigningKey]) -> (Peer, String) {
    buyer_with(files, keys.iter().map(|key| key.public_jwk()).collect()).await
}

/// The same with a key set as it was published.
pub(crate) async fn buyer_with(files: &Config, jwks: Vec<Value>) -> (Peer, String) {
    let buyer = Peer::receiver().await;
    let leaf = Authority::shared().receiver_leaf();
    let listen = json!({
        "certificate": text(&files.file("peer-leaf.pem", &leaf.certificate_pem)),
        "private_key": text(&files.file("peer-leaf.key", &leaf.key_pem)),
        "jwks": jwks,
        "hmac_secret": HMAC_SECRET,
        "standard_secret": WHSEC,
    });
    let port = buyer.call("listen", listen).await;
    (buyer, format!("https://127.0.0.1:{port}"))
}

/// Everything that the SDK can seal and that needs no scope.
fn kinds(origin: &str) -> Vec<Value> {
    let task = |target: &str, extra: Value| {
        let mut task = json!({"url": format!("{origin}{target}"), "operation_id": "op_1"});
        for (name, value) in extra.as_object().expect("an object") {
            task[name] = value.clone();
        }
        task
    };
    let error = json!({"code": "INTERNAL_ERROR", "message": "no luck: ü", "recovery": "terminal"});
    let unicode = json!({"name": "Zoë 😀 \u{7f}\u{2028}\u{10ffff} \"q\" \\", "n": [1.0, -0.5, 1e22, null, true]});
    let big: Value = serde_json::from_str(r#"{"big": 12345678901234567890}"#).expect("it fits into 64 bits");
    vec![
        task("/hooks", json!({})),
        task("/hooks?tenant=7&x=%C3%A9", json!({"token": "a token of the buyer"})),
        task("/hooks", json!({"result": unicode, "task_type": "sync_creatives"})),
        task("/hooks", json!({"error": error})),
        task("/hooks", json!({"account_id": "he said \"hi\" \\ / é 😀", "operation_id": "op:2.x-y"})),
        task("/hooks", json!({"authentication": ["HMAC-SHA256", HMAC_SECRET]})),
        task("/plain/bearer", json!({"authentication": ["Bearer", BEARER]})),
        task("/plain/big", json!({"result": big})),
    ]
}

/// Each body was received as it was sealed, and each request accepted as a first one.
fn assert_accepted(emitted: &Value, records: &Value) {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let received: HashMap<String, Value> = list(records)
        .into_iter()
        .map(|record| (record["body"].as_str().expect("base64").to_string(), record))
        .collect();
    assert_eq!(received.len(), list(records).len(), "a body came twice");
    assert_eq!(list(emitted).len(), list(records).len());
    for task in list(emitted) {
        let record = received.get(task["body"].as_str().expect("base64")).expect("no body arrived as it was sealed");
        assert_eq!(record["status"], 200, "{record}");
        assert_eq!(record.get("reason").unwrap_or(&Value::Null), &Value::Null, "{record}");
        assert_ne!(record.get("duplicate"), Some(&Value::Bool(true)), "{record}");
    }
}

async fn every_kind_is_accepted(signer: SigningKey) {
    let world = World::with_signer(signer).await;
    let config = world.config().set("envelope.legacy_hmac", true);
    let how = json!({"signing": signing(&world.signer), "legacy_hmac": true});
    let seller = seller(&world, &config, how).await;
    let (buyer, origin) = buyer(&config, &[&world.signer]).await;
    let kinds = kinds(&origin);
    let emitted = seller.call("emit", json!({"tasks": kinds})).await;
    let _daemon = Daemon::start(&config).await;
    let records = buyer.call("wait", json!({"count": kinds.len()})).await;
    world.all_are("delivered").await;
    assert_accepted(&emitted, &records);
    let bearer = records.as_array().expect("a list").iter().find(|record| record["target"] == "/plain/bearer");
    let headers = bearer.expect("it arrived")["headers"].as_array().expect("a list").clone();
    let authorization =
        headers.iter().find(|header| header[0].as_str().is_some_and(|n| n.eq_ignore_ascii_case("authorization")));
    assert_eq!(authorization.expect("Bearer is sent")[1], format!("Bearer {BEARER}"));
}

#[tokio::test]
async fn every_kind_that_the_sdk_seals_is_accepted_by_its_receiver_under_ed25519() {
    every_kind_is_accepted(SigningKey::ed25519("interop-ed25519")).await;
}

#[tokio::test]
async fn every_kind_that_the_sdk_seals_is_accepted_by_its_receiver_under_es256() {
    every_kind_is_accepted(SigningKey::p256("interop-es256")).await;
}

/// The SDK has the scheme, but not for its outbox: its verifier takes our deliveries, and its worker quarantines the rows.
#[tokio::test]
async fn standard_webhooks_rows_are_good_for_the_sdks_verifier_and_quarantined_by_its_worker() {
    let world = World::new().await;
    let config = world.config();
    let (buyer, origin) = buyer(&config, &[&world.signer]).await;
    let draft =
        |target: &str, secret: &str| Draft::to(format!("{origin}{target}")).authentication("Standard-Webhooks", secret);
    let good = draft("/standard", WHSEC);
    // Another secret, unpadded: the peer does judge.
    let other = draft("/standard", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA");
    world.database.insert(&world.seal(vec![good.clone(), other.clone()])).await;
    let daemon = Daemon::start(&config).await;
    let records = buyer.call("wait", json!({"count": 2})).await;
    for record in records.as_array().expect("a list") {
        let is_good = record["body"] == STANDARD.encode(good.body());
        assert_eq!(record["status"], if is_good { 200 } else { 401 }, "{record}");
    }
    eventually("the good one is delivered", async || match world.database.row(&good.task_id).await {
        row if row.state == "delivered" => Ok(()),
        row => Err(row),
    })
    .await;
    daemon.kill().await;

    let seller = seller(&world, &config, json!({"signing": signing(&world.signer)})).await;
    let row = draft("/standard", WHSEC);
    world.database.insert(&world.seal(vec![row.clone()])).await;
    seller.call("work", json!({"workers": 1})).await;
    eventually("the SDK's worker quarantines the row", async || match world.database.row(&row.task_id).await {
        row if row.state == "invalid" => Ok(()),
        row => Err(row),
    })
    .await;
    seller.call("rest", json!({})).await;
}

#[tokio::test]
async fn scoped_rows_of_the_sdk_are_accepted_under_the_key_of_their_scope() {
    let world = World::new().await;
    let (alpha, beta) = (SigningKey::ed25519("alpha-1"), SigningKey::p256("beta-1"));
    let config = scoped(world.unsigned_config());
    add_scope(&config, "tenant:alpha/1", &alpha);
    add_scope(&config, "tenant:bêta", &beta);
    let scopes = json!({"tenant:alpha/1": signing(&alpha), "tenant:bêta": signing(&beta)});
    let seller = seller(&world, &config, json!({"scopes": scopes})).await;
    let (buyer, origin) = buyer(&config, &[&alpha, &beta]).await;
    let task = |scope: Option<&str>, target: &str, authentication: Option<[&str; 2]>| {
        json!({
            "url": format!("{origin}{target}"), "operation_id": "op_1", "scope": scope, "authentication": authentication,
        })
    };
    let tasks = [
        task(Some("tenant:alpha/1"), "/alpha", None),
        task(Some("tenant:bêta"), "/beta", None),
        task(None, "/plain/bearer", Some(["Bearer", BEARER])),
    ];
    let emitted = seller.call("emit", json!({"tasks": tasks})).await;
    let _daemon = Daemon::start(&config).await;
    let records = buyer.call("wait", json!({"count": 3})).await;
    assert_accepted(&emitted, &records);
    for record in records.as_array().expect("a list") {
        match record["target"].as_str() {
            Some("/alpha") => assert_eq!(record["sender"], "alpha-1"),
            Some("/beta") => assert_eq!(record["sender"], "beta-1"),
            _ => {}
        }
    }
    world.all_are("delivered").await;
}

/// The published storyboard for senders: three refusals, one key, fresh nonces; and a replay is refused.
#[tokio::test]
async fn a_refused_delivery_is_repeated_so_that_the_sdk_takes_it_once() {
    let world = World::new().await;
    let config = world.retrying_config();
    let seller = seller(&world, &config, json!({"signing": signing(&world.signer)})).await;
    let (buyer, origin) = buyer(&config, &[&world.signer]).await;
    buyer.call("refuse", json!({"path": "/hooks", "statuses": [503, 503, 503]})).await;
    let task = json!({"url": format!("{origin}/hooks"), "operation_id": "op_1"});
    let emitted = seller.call("emit", json!({"tasks": [task]})).await;
    let _daemon = Daemon::start(&config).await;
    let records = buyer.call("wait", json!({"count": 4})).await;
    let records = records.as_array().expect("a list");
    assert!(records.iter().all(|record| record["body"] == emitted[0]["body"]));
    let statuses: Vec<&Value> = records.iter().map(|record| &record["status"]).collect();
    assert_eq!(statuses, [503, 503, 503, 200]);
    let last = &records[3];
    let host = origin.strip_prefix("https://").expect("it is HTTPS");
    let replay = json!({"target": "/hooks", "host": host, "headers": last["headers"], "body": last["body"]});
    let verdict = buyer.call("judge", replay).await;
    assert_eq!(verdict["status"], 401);
    assert!(verdict["reply_headers"].to_string().contains("webhook_signature_replayed"), "{verdict}");
    // An earlier attempt has a nonce of its own: it is the same delivery, and taken as such.
    let first = json!({"target": "/hooks", "host": host, "headers": records[0]["headers"], "body": records[0]["body"]});
    let verdict = buyer.call("judge", first).await;
    assert_eq!((&verdict["status"], &verdict["duplicate"]), (&json!(200), &json!(true)), "{verdict}");
    world.all_are("delivered").await;
}

#[tokio::test]
async fn four_sdk_workers_and_two_daemons_deliver_two_thousand_rows_once_each() {
    const BATCHES: usize = 20;
    const BATCH: usize = 100;
    let world = World::new().await;
    let config = world.config();
    let seller = seller(&world, &config, json!({"signing": signing(&world.signer)})).await;
    seller.call("work", json!({"workers": 4, "poll_interval": 0.02})).await;
    let _daemons = (Daemon::start(&config).await, Daemon::start(&config).await);
    // In batches, so that nobody takes everything at once.
    for batch in 1..=BATCHES {
        world.insert("/hooks", BATCH).await;
        world.receiver.wait_for(batch * BATCH).await;
    }
    let rows = world.all_are("delivered").await;
    assert_eq!(rows.len(), BATCHES * BATCH);
    assert!(rows.iter().all(|row| row.attempt_count == 1), "a row was claimed twice");
    let tally = world.receiver.tally();
    assert_eq!((tally.len(), tally.values().max()), (BATCHES * BATCH, Some(&1)));
    let mut by_agent: HashMap<String, usize> = HashMap::new();
    for request in world.receiver.received() {
        world.assert_signed(&request);
        let agent = request.header("user-agent").unwrap_or_default().split('/').next().unwrap_or_default().to_string();
        *by_agent.entry(agent).or_default() += 1;
    }
    assert!(by_agent.contains_key("python-httpx") && by_agent.contains_key("outboxd"), "{by_agent:?}");
    seller.call("rest", json!({})).await;
}

#[tokio::test]
async fn a_row_of_a_killed_sdk_worker_is_delivered_by_outboxd_after_the_lease() {
    let world = World::new().await;
    let config = world.config();
    let how = json!({"signing": signing(&world.signer), "lease_seconds": 6, "timeout_seconds": 1});
    let seller = seller(&world, &config, how).await;
    let task = json!({"url": world.receiver.url("/hooks"), "operation_id": "op_1"});
    let emitted = seller.call("emit", json!({"tasks": [task]})).await;
    seller.call("claim_and_hang", json!({})).await;
    seller.kill().await;
    let lease: std::time::SystemTime =
        world.database.value("SELECT lease_expires_at FROM adcp_task_webhook_outbox", &[]).await;
    let _daemon = Daemon::start(&config).await;
    let rows = world.all_are("delivered").await;
    assert_eq!(rows[0].attempt_count, 2);
    let after = "SELECT delivered_at >= $1 FROM adcp_task_webhook_outbox";
    assert!(world.database.value::<bool>(after, &[&lease]).await, "a live lease was taken");
    let received = world.receiver.received();
    assert_eq!(received.len(), 1);
    assert_eq!(emitted[0]["body"], STANDARD.encode(&received[0].body));
    world.assert_signed(&received[0]);
}

#[tokio::test]
async fn a_row_of_a_killed_outboxd_is_delivered_by_the_sdk_worker_after_the_lease() {
    let world = World::new().await;
    let never = Gate::closed();
    world.receiver.answer(move |_, nth| match nth {
        0 => Answer::status(200).when(&never),
        _ => Answer::status(200),
    });
    let config = world.hasty_config();
    let seller = seller(&world, &config, json!({"signing": signing(&world.signer)})).await;
    let daemon = Daemon::start(&config).await;
    let drafts: Vec<Draft> = world.insert("/hooks", 1).await;
    world.receiver.wait_for(1).await;
    daemon.kill().await;
    let token: Option<String> = world.database.value("SELECT lease_token FROM adcp_task_webhook_outbox", &[]).await;
    let token = token.expect("the row was in flight");
    assert!(token.len() == 32 && token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{token}");
    seller.call("work", json!({"workers": 1})).await;
    let received = world.receiver.wait_for(2).await;
    assert_eq!(received[1].body, drafts[0].body());
    assert!(received[1].at.duration_since(received[0].at) >= Duration::from_secs(5), "a live lease was taken");
    world.assert_signed(&received[1]);
    eventually("the worker settled it", async || match world.database.rows().await.remove(0) {
        row if row.state == "delivered" && row.attempt_count == 2 => Ok(()),
        row => Err(row),
    })
    .await;
    seller.call("rest", json!({})).await;
}
