//! `outboxd receive` with the webhook profile, fed by `outboxd run` and by the SDK's own sender: what was committed on one
//! side has its effect on the other exactly once, whoever dies in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use outboxd::demo::postgres::{Options, Throwaway};
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use crate::support::certs::Authority;
use crate::support::cluster::Database;
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::keys::SigningKey;
use crate::support::loopback::address_of_its_own;
use crate::support::peer::Peer;
use crate::support::receiver::{Answer, Receiver};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::world::World;

const HMAC_SECRET: &str = "hmac-secret-0123456789abcdef01234567";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BEARER: &str = "bearer-0123456789abcdef0123456789abcdef";

/// An inbox's configuration, and the origin that it listens on, which is chosen here, since a restart keeps it.
pub fn inbox(database: &str) -> (Config, String) {
    let address = address_of_its_own();
    let (listen, origin) = (address.to_string(), format!("https://{address}"));
    let config = Config::empty();
    let leaf = Authority::shared().leaf(&[&address.ip().to_string()]);
    let certificate = config.file("leaf.pem", &leaf.certificate_pem);
    let key = config.file("leaf.key", &leaf.key_pem);
    let config = config
        .set("database.url", database)
        .set("admin.listen", "127.0.0.1:0")
        .set("log.filter", "info,outboxd=debug")
        .set("receive.profile", "adcp-webhook")
        .set("receive.listen", listen)
        .set("receive.tls_cert_file", text(&certificate))
        .set("receive.tls_key_file", text(&key))
        .set("receive.webhook.origin", origin.as_str())
        .set("receive.webhook.sender", "seller-1");
    (config, origin)
}

pub fn knowing(config: Config, keys: &[&SigningKey]) -> Config {
    let keys: Vec<Value> = keys.iter().map(|key| key.public_jwk()).collect();
    let path = config.file_with_mode("jwks.json", json!({"keys": keys}).to_string(), 0o644);
    config.set("receive.webhook.jwks_file", text(&path))
}

pub async fn receive(config: &Config) -> Daemon {
    let daemon = Daemon::command(config, &["receive"]);
    daemon.ready().await;
    daemon
}

pub async fn bodies(database: &Database) -> BTreeSet<Vec<u8>> {
    let rows = database.client.query("SELECT body FROM adcp_webhook_inbox", &[]).await.expect("the inbox is there");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn all_are(database: &Database, state: &str, count: i64) {
    eventually(&format!("{count} messages are {state}"), async || {
        let sql = "SELECT coalesce(string_agg(state || ' ' || n, ', '), 'none') FROM \
                   (SELECT state, count(*) AS n FROM adcp_webhook_inbox GROUP BY state) AS counted";
        match database.value::<String>(sql, &[]).await {
            found if found == format!("{state} {count}") => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

#[tokio::test]
async fn what_the_outbox_delivers_stands_in_the_inbox_as_it_was_sealed() {
    let world = World::with_signer(SigningKey::p256("e2e-es256")).await;
    let (config, origin) = inbox(&world.database.url);
    let bearer = config.file("bearer", BEARER);
    let hmac = config.file("hmac", HMAC_SECRET);
    let whsec = config.file("whsec", WHSEC);
    let config = knowing(config, &[&world.signer])
        .set("receive.webhook.bearer_file", text(&bearer))
        .set("receive.webhook.hmac_secret_file", text(&hmac))
        .set("receive.webhook.standard_webhooks_secret_file", text(&whsec));
    let _inbox = receive(&config).await;
    let drafts = vec![
        Draft::to(format!("{origin}/hooks")),
        Draft::to(format!("{origin}/hooks//%7euser/caf%c3%a9?q=%e2%9c%93&empty=")),
        Draft::to(format!("{}/Hooks/a/./b/../c?", origin.replace("https", "HTTPS"))),
        Draft::to(format!("{origin}/hooks")).authentication("HMAC-SHA256", HMAC_SECRET),
        Draft::to(format!("{origin}/hooks")).authentication("Standard-Webhooks", WHSEC),
        Draft::to(format!("{origin}/hooks")).authentication("Bearer", BEARER),
    ];
    world.database.insert(&world.seal(drafts.clone())).await;
    let _daemon = Daemon::start(&world.config().set("envelope.legacy_hmac", true)).await;
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| row.attempt_count == 1 && row.last_http_status == Some(200)), "{rows:?}");
    assert_eq!(bodies(&world.database).await, drafts.iter().map(Draft::body).collect());
    let nonces: i64 = world.database.value("SELECT count(*) FROM adcp_webhook_inbox_nonces", &[]).await;
    assert_eq!(nonces, 3, "one for each signature");
}

#[tokio::test]
async fn the_sdk_delivers_to_the_inbox() {
    let world = World::new().await;
    let (config, origin) = inbox(&world.database.url);
    let hmac = config.file("hmac", HMAC_SECRET);
    let config = knowing(config, &[&world.signer]).set("receive.webhook.hmac_secret_file", text(&hmac));
    let inbox = receive(&config).await;
    let seller = Peer::seller().await;
    let ca = config.file("peer-ca.pem", Authority::shared().pem());
    let signing = json!({
        "pem": world.signer.pem(), "kid": world.signer.kid, "algorithm": world.signer.algorithm.name(),
    });
    let open = json!({
        "dsn": world.database.url, "key": world.key.hex(), "ca": text(&ca), "signing": signing, "legacy_hmac": true,
    });
    seller.call("open", open).await;
    let task = |target: &str| json!({"url": format!("{origin}{target}"), "operation_id": "op_1"});
    let mut tasks =
        vec![task("/hooks"), task("/hooks?tenant=7&x=%C3%A9"), task("/hooks"), task("/hooks"), task("/hooks")];
    tasks[1]["token"] = "a token of the buyer".into();
    tasks[2]["result"] =
        json!({"name": "Zoë 😀 \u{7f}\u{2028}\u{10ffff} \"q\" \\", "n": [1.0, -0.5, 1e22, null, true]});
    tasks[3]["error"] = json!({"code": "INTERNAL_ERROR", "message": "no luck: ü", "recovery": "terminal"});
    tasks[4]["authentication"] = json!(["HMAC-SHA256", HMAC_SECRET]);
    let emitted = seller.call("emit", json!({"tasks": tasks})).await;
    seller.call("work", json!({"workers": 2})).await;
    let sealed: BTreeSet<Vec<u8>> = emitted
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| STANDARD.decode(task["body"].as_str().expect("text")).expect("base64"))
        .collect();
    eventually("every body is in the inbox", async || match bodies(&world.database).await {
        found if found == sealed => Ok(()),
        other => Err(format!("{} bodies\n{}", other.len(), inbox.text())),
    })
    .await;
    world.all_are("delivered").await;
    seller.call("rest", json!({})).await;
}

#[tokio::test]
async fn the_sdks_sender_of_standard_webhooks_delivers_to_the_inbox() {
    let world = World::new().await;
    let (config, origin) = inbox(&world.database.url);
    let whsec = config.file("whsec", WHSEC);
    let config = config.set("receive.webhook.standard_webhooks_secret_file", text(&whsec));
    let _inbox = receive(&config).await;
    let seller = Peer::seller().await;
    let ca = config.file("peer-ca.pem", Authority::shared().pem());
    let signing = json!({
        "pem": world.signer.pem(), "kid": world.signer.kid, "algorithm": world.signer.algorithm.name(),
    });
    let open = json!({"dsn": world.database.url, "key": world.key.hex(), "ca": text(&ca), "signing": signing});
    seller.call("open", open).await;
    let other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    for (secret, key, status) in [(WHSEC, "whk_standard_webhooks_1", 200), (other, "whk_standard_webhooks_2", 401)] {
        let send = json!({"url": format!("{origin}/hooks"), "secret": secret, "idempotency_key": key});
        assert_eq!(seller.call("send_standard", send).await, status);
    }
    assert_eq!(bodies(&world.database).await.len(), 1);
}

#[tokio::test]
async fn a_key_set_is_fetched_once_for_many_deliveries_and_not_again_for_unknown_keys() {
    let world = World::new().await;
    let stranger = SigningKey::ed25519("stranger-1");
    let jwks = json!({"keys": [world.signer.public_jwk()]}).to_string();
    world.receiver.answer(move |_, _| Answer::Reply { status: 200, headers: Vec::new(), body: jwks.clone().into() });
    let (config, origin) = inbox(&world.database.url);
    let anchor = config.file_with_mode("ca.pem", Authority::shared().pem(), 0o644);
    let config = config
        .set("egress.allow", vec!["127.0.0.0/8"])
        .set("egress.trust_anchors", vec![text(&anchor)])
        .set("egress.system_roots", false)
        .set("receive.webhook.jwks_url", world.receiver.url("/.well-known/jwks.json"));
    let _inbox = receive(&config).await;
    world.database.insert(&world.seal(Draft::many(&format!("{origin}/hooks"), 20))).await;
    let daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    daemon.kill().await;
    let fetched = world.receiver.received();
    assert_eq!(fetched.len(), 1);
    assert_eq!((fetched[0].method.as_str(), fetched[0].target.as_str()), ("GET", "/.well-known/jwks.json"));
    world.database.insert(&world.seal(Draft::many(&format!("{origin}/hooks"), 3))).await;
    let config = world.config().set("signing.key_id", stranger.kid.as_str());
    let pem = config.file("stranger.pem", stranger.pem());
    let _stranger = Daemon::start(&config.set("signing.key_file", text(&pem))).await;
    eventually("the stranger is refused", async || {
        let refused = world.database.rows().await.iter().filter(|row| row.last_http_status == Some(401)).count();
        if refused == 3 { Ok(()) } else { Err(refused) }
    })
    .await;
    assert!(world.receiver.received().len() <= 2, "unknown keys made it fetch again and again");
}

#[tokio::test]
async fn a_forwarded_message_reaches_the_program_and_is_done_with() {
    let world = World::new().await;
    let (config, origin) = inbox(&world.database.url);
    let out = config.path("handed-over");
    // It refuses each message once, as a host that is not ready does.
    let script = format!(
        "body=$(cat); test \"$OUTBOXD_ATTEMPT\" -gt 1 || exit 75; printf '%s\\n' \"$body\" >> {}",
        out.display()
    );
    let config = knowing(config, &[&world.signer])
        .set("receive.forward.command", vec!["/bin/sh", "-c", &script])
        .set("receive.forward.base_delay", "10ms");
    let inbox = receive(&config).await;
    let drafts = Draft::many(&format!("{origin}/hooks"), 5);
    world.database.insert(&world.seal(drafts.clone())).await;
    let _daemon = Daemon::start(&world.config()).await;
    all_are(&world.database, "succeeded", 5).await;
    let handed: BTreeSet<Vec<u8>> = std::fs::read(&out)
        .expect("the program wrote it")
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(handed, drafts.iter().map(Draft::body).collect());
    let metrics = inbox.metrics().await.text;
    assert!(metrics.contains("outboxd_forwarded_messages_total{result=\"taken\"} 5"), "{metrics}");
}

/// A host that takes messages by SQL: the effect and the acknowledgement are one transaction. Whatever breaks, it starts
/// over.
async fn host(url: String, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let connection = tokio::spawn(connection);
        while !stop.load(Ordering::SeqCst) && work(&client).await.is_ok() {}
        connection.abort();
    }
}

async fn work(client: &Client) -> Result<(), tokio_postgres::Error> {
    let claim = "SELECT id, idempotency_key, lease_token FROM outboxd.claim_webhooks('host', 3, interval '5 seconds')";
    for row in client.query(claim, &[]).await? {
        let (id, key, token): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
        client.batch_execute("BEGIN").await?;
        client.execute("INSERT INTO effects (key) VALUES ($1)", &[&key]).await?;
        client.execute("SELECT outboxd.complete_webhook($1, $2)", &[&id, &token]).await?;
        client.batch_execute("COMMIT").await?;
    }
    Ok(())
}

async fn effects(url: &str) -> i64 {
    let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await else { return 0 };
    let connection = tokio::spawn(connection);
    let count = client.query_one("SELECT count(*) FROM effects", &[]).await.map_or(0, |row| row.get(0));
    connection.abort();
    count
}

#[tokio::test]
async fn each_effect_happens_once_while_both_ends_are_killed_and_postgres_crashes() {
    const ROWS: usize = 400;
    // A cluster of its own, since it is going to crash; durable, since what was acknowledged must survive that.
    let cluster = Throwaway::start(&Options { durable: true, ..Options::default() }).expect("Postgres is installed");
    let url = cluster.url("postgres");
    let migrated = Daemon::command(&Config::empty().set("database.url", url.as_str()), &["migrate"]);
    assert_eq!(migrated.wait_exit(PATIENCE).await.code, Some(0));
    let client = crate::support::cluster::connect(&url).await;
    client.batch_execute("CREATE TABLE effects (key text NOT NULL)").await.expect("a fresh database takes a table");
    let world = World {
        database: Database { name: "postgres".into(), url: url.clone(), client },
        receiver: Receiver::start().await,
        key: EnvelopeKey::new(),
        signer: SigningKey::ed25519("e2e-ed25519"),
    };
    let (config, origin) = inbox(&url);
    let receiving = knowing(config, &[&world.signer]);
    let sending = world.hasty_config().set("delivery.slots", 8).set("retry.cap", "1s");
    let drafts = Draft::many(&format!("{origin}/hooks"), ROWS);
    world.database.insert(&world.seal(drafts.clone())).await;
    let stop = Arc::new(AtomicBool::new(false));
    let host = tokio::spawn(host(url.clone(), stop.clone()));
    let (mut inbox, mut outbox) = (receive(&receiving).await, Daemon::start(&sending).await);
    let reached = async |count: usize| {
        eventually(&format!("{count} effects"), async || match effects(&url).await {
            found if found >= count as i64 => Ok(()),
            other => Err(other),
        })
        .await;
    };
    let part = ROWS / 8;
    reached(part).await;
    inbox.kill().await;
    inbox = receive(&receiving).await;
    reached(2 * part).await;
    outbox.kill().await;
    outbox = Daemon::start(&sending).await;
    reached(3 * part).await;
    // One killed backend makes Postgres end all of them and recover from its log.
    let backend: i32 = world.database.value("SELECT pg_backend_pid()", &[]).await;
    kill(Pid::from_raw(backend), Signal::SIGKILL).expect("it runs");
    reached(4 * part).await;
    inbox.kill().await;
    outbox.kill().await;
    inbox = receive(&receiving).await;
    outbox = Daemon::start(&sending).await;
    reached(ROWS).await;
    let world = World {
        database: Database { client: crate::support::cluster::connect(&url).await, ..world.database },
        ..world
    };
    world.all_are("delivered").await;
    all_are(&world.database, "succeeded", ROWS as i64).await;
    stop.store(true, Ordering::SeqCst);
    host.await.expect("the host does not panic");
    let keys: Vec<String> = world
        .database
        .client
        .query("SELECT key FROM effects", &[])
        .await
        .expect("it answers")
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(keys.len(), ROWS, "an effect happened twice");
    assert_eq!(
        keys.into_iter().collect::<BTreeSet<_>>(),
        drafts.iter().map(|draft| draft.idempotency_key.clone()).collect()
    );
    assert_eq!(bodies(&world.database).await, drafts.iter().map(Draft::body).collect());
    drop((inbox, outbox));
}
