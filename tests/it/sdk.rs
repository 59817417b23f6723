//! The other side alone: the SDK's seller, worker and receiver agree with our oracles before outboxd is asked to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::certs::Authority;
use crate::support::cluster::Database;
use crate::support::config::{Config, text};
use crate::support::eventually::eventually;
use crate::support::keys::SigningKey;
use crate::support::peer::Peer;
use crate::support::receiver::Receiver;
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::verify::assert_signed;

/// Also shows that what our sealing oracle makes is opened by the SDK, and that our verifier accepts its signatures.
#[tokio::test]
async fn the_sdk_worker_delivers_its_own_rows_and_ours() {
    let (seller, buyer) = tokio::join!(Peer::seller(), Peer::receiver());
    let (database, plain) = (Database::new().await, Receiver::start().await);
    let (key, signer) = (EnvelopeKey::new(), SigningKey::ed25519("sdk-1"));
    let files = Config::empty();
    let leaf = Authority::shared().receiver_leaf();
    let port = buyer
        .call(
            "listen",
            json!({
                "certificate": text(&files.file("leaf.pem", &leaf.certificate_pem)),
                "private_key": text(&files.file("leaf.key", &leaf.key_pem)),
                "jwks": [signer.public_jwk()],
            }),
        )
        .await;
    let signing = json!({"pem": signer.pem(), "kid": signer.kid, "algorithm": signer.algorithm.name()});
    let ca = text(&files.file("ca.pem", Authority::shared().pem()));
    let open = json!({"dsn": database.url, "key": key.hex(), "signing": signing, "ca": ca});
    seller.call("open", open).await;
    let url = format!("https://127.0.0.1:{port}/hooks");
    let emitted = seller
        .call("emit", json!({"tasks": [{"url": url, "operation_id": "op_1", "result": {"name": "Zoë 😀"}}]}))
        .await;
    let ours = Draft::to(plain.url("/ours"));
    let body = ours.body();
    database.insert(&[ours.seal(&key), Draft::to(url).seal(&key)]).await;
    seller.call("work", json!({"workers": 2})).await;
    let records = buyer.call("wait", json!({"count": 2})).await;
    let bodies: Vec<&Value> = records.as_array().expect("a list").iter().map(|record| &record["body"]).collect();
    assert!(bodies.contains(&&emitted[0]["body"]), "{bodies:?}");
    for record in records.as_array().expect("a list") {
        assert_eq!((&record["status"], &record["reason"]), (&json!(200), &Value::Null), "{record}");
    }
    let received = plain.wait_for(1).await;
    assert_eq!(STANDARD.encode(&received[0].body), STANDARD.encode(body));
    assert_signed(&received[0], &signer);
    eventually("the worker settled them", async || match database.count("delivered").await {
        3 => Ok(()),
        other => Err(other),
    })
    .await;
    seller.call("rest", json!({})).await;
}
