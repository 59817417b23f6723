//! The profile behind the real server, on real sockets and a real Postgres; only the clock is the test's.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::NoTls;

use super::*;
use crate::config::{Listen, Sources};
use crate::demo::postgres::{Options, Throwaway};
use crate::receive::Profile;
use crate::receive::server::{Listener, Server};
use crate::secret::Secret;
use crate::signature::{Algorithm, Moment, Scheme, SigningKey, sign};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/adcp/webhook-signing");
const ORIGIN: &str = "https://buyer.example.com";
const WHSEC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const REFERENCE_NOW: i64 = 1_776_520_800;

fn reference_now() -> i64 {
    REFERENCE_NOW
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(format!("{VECTORS}/{path}")).unwrap()).unwrap()
}

/// The vectors of one kind, by file name.
fn vectors(kind: &str) -> Vec<(String, Value)> {
    let entries = std::fs::read_dir(format!("{VECTORS}/{kind}")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), read(&format!("{kind}/{name}")))).collect()
}

fn cluster() -> &'static Throwaway {
    static CLUSTER: OnceLock<Throwaway> = OnceLock::new();
    CLUSTER.get_or_init(|| Throwaway::start(&Options::default()).expect("Postgres is installed"))
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the cluster answers");
    tokio::spawn(connection);
    client
}

/// A receiver of one test, its database and its files.
struct Bench {
    address: SocketAddr,
    profile: Arc<Profile>,
    database: tokio_postgres::Client,
    directory: tempfile::TempDir,
    settings: Vec<String>,
    url: String,
}

impl Bench {
    /// `settings` are `key=value` of `[receive.webhook]`; a value that begins with `file:` becomes a file of that content.
    async fn new(settings: &[(&str, String)]) -> Bench {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("webhook_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        connect(&cluster().url("postgres")).await.batch_execute(&format!("create database {name}")).await.unwrap();
        let url = cluster().url(&name);
        let directory = tempfile::tempdir().unwrap();
        let mut all = vec![
            format!("database.url={url}"),
            "receive.profile=adcp-webhook".into(),
            format!("receive.webhook.origin={ORIGIN}"),
            "receive.webhook.sender=seller-1".into(),
        ];
        for (key, value) in settings {
            let value = match value.strip_prefix("file:") {
                Some(content) => file(directory.path(), key, content),
                None => value.clone(),
            };
            all.push(format!("receive.webhook.{key}={value}"));
        }
        let database = connect(&url).await;
        let mut bench = Bench {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            profile: Arc::new(Profile::Webhook(Box::new(webhook(&all, now)))),
            database,
            directory,
            settings: all,
            url,
        };
        bench.webhook().store.migrate(std::time::Duration::from_secs(60), |_| {}).await.expect("the migrations apply");
        bench.address = serve(bench.profile.clone()).await;
        bench
    }

    fn webhook(&self) -> &Webhook {
        match self.profile.as_ref() {
            Profile::Webhook(webhook) => webhook,
            Profile::Terminal(_) => unreachable!("it was made above"),
        }
    }

    /// How many rows there are of deliveries and of nonces.
    async fn rows(&self) -> (i64, i64) {
        let sql = "select (select count(*) from adcp_webhook_inbox), (select count(*) from adcp_webhook_inbox_nonces)";
        let row = self.database.query_one(sql, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

fn file(directory: &Path, name: &str, content: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path.display().to_string()
}

fn webhook(sets: &[String], clock: fn() -> i64) -> Webhook {
    let config = Config::load(&Sources { sets: sets.to_vec(), ..Sources::default() }).expect("good settings");
    let store = Store::open(&config.store().unwrap(), Arc::new(|_| {})).unwrap();
    Webhook { unix_seconds: clock, ..Webhook::load(&config, Arc::new(store)).expect("good settings") }
}

async fn serve(profile: Arc<Profile>) -> SocketAddr {
    let config = Config::load(&Sources::default()).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = Listener::bind(&Listen::Tcp(free)).await.unwrap();
    let server = Server::new((&config.settings.receive).into(), None, profile, Phases::new());
    tokio::spawn(Arc::new(server).run(listener));
    free
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn challenge(&self) -> Option<&str> {
        let line = self.head.lines().find(|line| line.starts_with("www-authenticate: "))?;
        line.strip_prefix("www-authenticate: Signature error=\"")?.strip_suffix('"')
    }

    fn code(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        body["error"].as_str().or(body["status"].as_str()).unwrap_or_default().to_owned()
    }
}

async fn send_raw(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // A body that is refused by its length need not be taken.
    let _ = stream.write_all(body).await;
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    Answer {
        status: head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(),
        head: head.replace("\r\n", "\n"),
        body: body.to_owned(),
    }
}

async fn send(address: SocketAddr, url: &str, headers: &[(String, String)], body: &[u8]) -> Answer {
    let (_, rest) = url.split_once("://").unwrap();
    let slash = rest.find('/').unwrap();
    let mut head = format!("POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", &rest[slash..], &rest[..slash]);
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    send_raw(address, &head, body).await
}

fn of_vector(vector: &Value) -> (String, Vec<(String, String)>, Vec<u8>) {
    let request = &vector["request"];
    let headers = request["headers"].as_object().unwrap().iter();
    let headers = headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    (request["url"].as_str().unwrap().to_owned(), headers, request["body"].as_str().unwrap().as_bytes().to_vec())
}

/// A receiver with the keys and the state that a vector asks for.
async fn runner(bench: &Bench, vector: &Value) -> SocketAddr {
    assert_eq!(vector["reference_now"], REFERENCE_NOW);
    let document = read("keys.json");
    let wanted = vector["jwks_ref"].as_array().unwrap();
    let keys = document["keys"].as_array().unwrap().iter().filter(|key| wanted.contains(&key["kid"]));
    let keys: Vec<Value> = keys
        .map(|key| match vector["jwks_override"].get(key["kid"].as_str().unwrap()) {
            Some(instead) => instead.clone(),
            None => key.clone(),
        })
        .collect();
    let state = &vector["test_harness_state"];
    let directory = bench.directory.path();
    let mut sets = bench.settings.clone();
    let set =
        |key: &str, content: Value| format!("receive.webhook.{key}={}", file(directory, key, &content.to_string()));
    sets.push(set("jwks_file", json!({"keys": keys})));
    let revoked = state["revoked_kids"].as_array().cloned().unwrap_or_default();
    let list = match state["revocation_list_stale_seconds"].as_i64() {
        // Its next one was due in January.
        Some(_) => json!({"revoked_kids": revoked, "next_update": "2026-01-01T00:00:00Z"}),
        None => json!({"revoked_kids": revoked}),
    };
    sets.push(set("revocation_file", list));
    sets.push("receive.webhook.nonces_per_key=2".into());
    bench.database.batch_execute("truncate adcp_webhook_inbox, adcp_webhook_inbox_nonces").await.unwrap();
    let remember = "insert into adcp_webhook_inbox_nonces values ($1, $2, to_timestamp(1776521160))";
    for entry in state["replay_cache_entries"].as_array().into_iter().flatten() {
        let (keyid, nonce) = (entry["keyid"].as_str(), entry["nonce"].as_str());
        bench.database.execute(remember, &[&keyid, &nonce]).await.unwrap();
    }
    if let Some(keyid) = state["per_keyid_cap_filled_for"].as_str() {
        for nonce in ["one", "two"] {
            bench.database.execute(remember, &[&keyid, &nonce]).await.unwrap();
        }
    }
    let webhook = webhook(&sets, reference_now);
    webhook.nonces.saw(webhook.store.sample_webhook_nonces().await.unwrap());
    serve(Arc::new(Profile::Webhook(Box::new(webhook)))).await
}

#[tokio::test]
async fn every_positive_vector_is_taken_once() {
    let bench = Bench::new(&[("bearer_file", "file:unused-token".into())]).await;
    let vectors = vectors("positive");
    assert_eq!(vectors.len(), 8);
    for (name, vector) in vectors {
        let address = runner(&bench, &vector).await;
        let (url, headers, body) = of_vector(&vector);
        let first = send(address, &url, &headers, &body).await;
        // This one shows that a signature is one thing and a payload another.
        let keyless = name.starts_with("007");
        let expected = if keyless { (400, "idempotency_key_missing") } else { (200, "stored") };
        assert_eq!((first.status, first.code().as_str()), expected, "{name}: {first:?}");
        assert_eq!(bench.rows().await, (if keyless { 0 } else { 1 }, 1), "{name}");
        let again = send(address, &url, &headers, &body).await;
        assert_eq!((again.status, again.challenge()), (401, Some("webhook_signature_replayed")), "{name}");
        if !keyless {
            let kept: Vec<u8> =
                bench.database.query_one("select body from adcp_webhook_inbox", &[]).await.unwrap().get(0);
            assert_eq!(kept, body, "{name}: the very bytes are kept");
        }
    }
}

#[tokio::test]
async fn every_negative_vector_earns_its_code_and_writes_nothing() {
    let bench = Bench::new(&[("bearer_file", "file:unused-token".into())]).await;
    let vectors = vectors("negative");
    assert_eq!(vectors.len(), 21);
    for (name, vector) in vectors {
        let address = runner(&bench, &vector).await;
        let before = bench.rows().await;
        let (url, headers, body) = of_vector(&vector);
        let answer = send(address, &url, &headers, &body).await;
        let expected = vector["expected_outcome"]["error_code"].as_str();
        assert_eq!((answer.status, answer.challenge()), (401, expected), "{name}: {answer:?}");
        assert_eq!(bench.rows().await, before, "{name}");
    }
}

/// A sender with a key of its own.
struct Sender {
    key: SigningKey,
}

impl Sender {
    fn new() -> Sender {
        let random = ring::rand::SystemRandom::new();
        let (key, _) = SigningKey::generate(Algorithm::Ed25519, Some("sender-1"), &random).unwrap();
        Sender { key }
    }

    fn jwks(&self) -> String {
        format!("file:{}", json!({"keys": [self.key.public_jwk()]}))
    }

    fn headers(&self, url: &str, body: &[u8]) -> Vec<(String, String)> {
        let moment = Moment { unix_seconds: now(), nonce: crate::secret::random() };
        let target = Target::parse(url).unwrap();
        let signed = sign(Scheme::Rfc9421(&self.key), &target, Bytes::copy_from_slice(body), moment).unwrap();
        let headers = signed.headers.iter().filter(|(name, _)| *name != http::header::HOST);
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    async fn deliver(&self, address: SocketAddr, body: &[u8]) -> Answer {
        let url = format!("{ORIGIN}/hooks/a%2fb?x=1");
        send(address, &url, &self.headers(&url, body), body).await
    }
}

fn body(key: &str, members: Value) -> Vec<u8> {
    let mut body = json!({"idempotency_key": key, "task_type": "create_media_buy", "status": "working"});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    serde_json::to_vec(&body).unwrap()
}

const KEY: &str = "whk_0123456789abcdef";

#[tokio::test]
async fn a_repeated_delivery_is_a_duplicate_in_any_spelling_and_another_payload_a_conflict() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks())]).await;
    let first = br#"{"idempotency_key":"whk_0123456789abcdef","n":1.50,"s":"\u00e9"}"#.as_slice();
    let again = "{ \"s\": \"\u{e9}\", \"n\": 15e-1, \"idempotency_key\": \"whk_0123456789abcdef\" }".as_bytes();
    let other = br#"{"idempotency_key":"whk_0123456789abcdef","n":1.51,"s":"\u00e9"}"#.as_slice();
    for (body, expected) in [
        (first, (200, "stored")),
        (first, (200, "duplicate")),
        (again, (200, "duplicate")),
        (other, (409, "idempotency_conflict")),
    ] {
        let answer = sender.deliver(bench.address, body).await;
        assert_eq!((answer.status, answer.code().as_str()), expected);
    }
    assert_eq!(bench.rows().await, (1, 4));
    let kept: Vec<u8> = bench.database.query_one("select body from adcp_webhook_inbox", &[]).await.unwrap().get(0);
    assert_eq!(kept, first);
    assert_eq!(
        bench.database.query_one("select sender from adcp_webhook_inbox", &[]).await.unwrap().get::<_, String>(0),
        "seller-1"
    );
}

#[tokio::test]
async fn the_end_of_a_task_is_told_once() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks())]).await;
    let end = |key: &str, time: &str, result: i32| {
        body(key, json!({"task_id": "t1", "status": "completed", "timestamp": time, "result": {"n": result}}))
    };
    for (body, expected) in [
        (end(KEY, "2026-01-01T00:00:00Z", 1), (200, "stored")),
        (end("whk_second_key_000", "2026-01-01T00:00:09Z", 1), (200, "duplicate")),
        (end("whk_third_key_0000", "2026-01-01T00:00:09Z", 2), (409, "idempotency_conflict")),
    ] {
        let answer = sender.deliver(bench.address, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), expected);
    }
    let due = "select count(*) from outboxd.claim_webhooks('host', 10)";
    assert_eq!(bench.database.query_one(due, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test]
async fn sixty_four_senders_at_once_get_exact_answers() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks())]).await;
    let bodies: Vec<Vec<u8>> = (0..64).map(|n| body(KEY, json!({"n": if n % 2 == 0 { 0 } else { n }}))).collect();
    let answers = join_all(bodies.iter().map(|body| sender.deliver(bench.address, body))).await;
    let count = |status: u16, code: &str| answers.iter().filter(|a| a.status == status && a.code() == code).count();
    assert_eq!(count(200, "stored"), 1);
    assert_eq!(count(200, "stored") + count(200, "duplicate") + count(409, "idempotency_conflict"), 64, "{answers:?}");
    let equal = answers.iter().step_by(2).filter(|answer| answer.status == 200).count();
    assert!(equal == 32 || equal == 0, "all equal ones are answered alike: {equal}");
    assert_eq!(bench.rows().await, (1, 64));
}

#[tokio::test]
async fn what_no_body_could_mend_is_refused_before_any_cryptography() {
    let sender = Sender::new();
    let bench = Bench::new(&[
        ("jwks_file", sender.jwks()),
        ("max_body_bytes", "2048".into()),
        ("path_prefix", "/hooks".into()),
    ])
    .await;
    let url = format!("{ORIGIN}/hooks");
    let good = body(KEY, json!({}));
    let headers = sender.headers(&url, &good);
    let with = |name: &str, value: &str| {
        let mut headers: Vec<_> = headers.iter().filter(|(own, _)| own != name).cloned().collect();
        headers.push((name.to_owned(), value.to_owned()));
        headers
    };
    for (headers, status, code) in [
        (with("content-type", "text/plain"), 415, "content_type_invalid"),
        (with("content-encoding", "gzip"), 415, "content_encoding_invalid"),
    ] {
        let answer = send(bench.address, &url, &headers, &good).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
    }
    let answer = send(bench.address, &format!("{ORIGIN}/elsewhere"), &headers, &good).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    // Its signature is worth nothing, and nobody looks.
    let large = vec![b' '; 2049];
    let answer = send(bench.address, &url, &headers, &large).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    let chunked = "POST /hooks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(4096));
    let answer = send_raw(bench.address, chunked, chunk.as_bytes()).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    let get = "GET /hooks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = send_raw(bench.address, get, b"").await;
    assert_eq!(answer.status, 405);
    assert!(answer.head.contains("allow: POST"), "{}", answer.head);
    assert_eq!(bench.rows().await, (0, 0), "nothing is written for what nobody vouches for");
}

#[tokio::test]
async fn a_payload_is_judged_after_its_signature_and_uses_it_up() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks())]).await;
    let url = format!("{ORIGIN}/hooks");
    for (body, code) in [
        (r#"{"idempotency_key":"whk_0123456789abcdef","a":1,"a":2}"#, "body_invalid_json"),
        (r#"{"idempotency_key":"whk_0123456789abcdef","n":9007199254740993}"#, "payload_not_i_json"),
        (r#"{"idempotency_key":"short"}"#, "idempotency_key_invalid"),
    ] {
        let headers = sender.headers(&url, body.as_bytes());
        let answer = send(bench.address, &url, &headers, body.as_bytes()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, code));
        let again = send(bench.address, &url, &headers, body.as_bytes()).await;
        assert_eq!((again.status, again.challenge()), (401, Some("webhook_signature_replayed")));
        let bare = [("content-type".to_owned(), "application/json".to_owned())];
        let unsigned = send(bench.address, &url, &bare, body.as_bytes()).await;
        assert_eq!((unsigned.status, unsigned.code().as_str()), (401, "signature_missing"));
        assert_eq!(unsigned.challenge(), Some("webhook_signature_header_malformed"));
    }
    assert_eq!(bench.rows().await, (0, 3));
}

#[tokio::test]
async fn a_delivery_to_another_receiver_cannot_be_passed_on_to_this_one() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks())]).await;
    let url = "https://other.example.com/hooks";
    let body = body(KEY, json!({}));
    let answer = send(bench.address, url, &sender.headers(url, &body), &body).await;
    assert_eq!((answer.status, answer.challenge()), (401, Some("webhook_signature_invalid")));
    assert_eq!(bench.rows().await, (0, 0));
}

#[tokio::test]
async fn a_key_that_used_up_its_share_is_refused_until_there_is_room() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks()), ("nonces_per_key", "2".into())]).await;
    let key = |n: u8| body(&format!("whk_0123456789abcde{n}"), json!({}));
    for n in [1, 2] {
        assert_eq!(sender.deliver(bench.address, &key(n)).await.status, 200);
    }
    let answer = sender.deliver(bench.address, &key(3)).await;
    assert_eq!((answer.status, answer.challenge()), (401, Some("webhook_signature_rate_abuse")));
    // Another replica that has not looked yet asks the table.
    let other = serve(Arc::new(Profile::Webhook(Box::new(webhook(&bench.settings, now))))).await;
    let answer = sender.deliver(other, &key(3)).await;
    assert_eq!((answer.status, answer.challenge()), (401, Some("webhook_signature_rate_abuse")));
    assert_eq!(bench.rows().await, (2, 2));
    bench
        .database
        .batch_execute("update adcp_webhook_inbox_nonces set expires_at = now() - interval '10 minutes'")
        .await
        .unwrap();
    bench.webhook().purge().await;
    bench.webhook().nonces.saw(bench.webhook().store.sample_webhook_nonces().await.unwrap());
    assert_eq!(sender.deliver(bench.address, &key(3)).await.status, 200);
}

#[tokio::test]
async fn legacy_credentials_are_taken_where_they_are_set_and_never_beside_a_signature() {
    let sender = Sender::new();
    let bench = Bench::new(&[
        ("jwks_file", sender.jwks()),
        ("hmac_secret_file", "file:old-secret\nnew-secret\n".into()),
        ("standard_webhooks_secret_file", format!("file:whsec_{}\n\n{WHSEC}\n", "A".repeat(32))),
        ("bearer_file", "file:the-token\n".into()),
    ])
    .await;
    let url = format!("{ORIGIN}/hooks");
    let json_type = ("content-type".to_owned(), "application/json".to_owned());
    let by = |scheme: Scheme<'_>, body: &[u8]| {
        let moment = Moment { unix_seconds: now(), nonce: [0; 16] };
        let target = Target::parse(&url).unwrap();
        let signed = sign(scheme, &target, Bytes::copy_from_slice(body), moment).unwrap();
        let headers = signed.headers.iter().filter(|(name, _)| *name != http::header::HOST);
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect::<Vec<_>>()
    };
    let hmac = |secret: &str, body: &[u8]| by(Scheme::HmacSha256(&Secret::from(secret.to_owned())), body);
    let standard = |secret: &str, body: &[u8]| {
        let key = crate::secret::from_whsec(secret.as_bytes()).unwrap();
        by(Scheme::StandardWebhooks { key: &key, id: "msg_1" }, body)
    };
    let bearer = |token: &str| vec![json_type.clone(), ("authorization".to_owned(), format!("Bearer {token}"))];
    let body = |n: u8| body(&format!("whk_0123456789abcde{n}"), json!({}));
    for (headers, body, status, code) in [
        (hmac("old-secret", &body(1)), body(1), 200, "stored"),
        (hmac("new-secret", &body(1)), body(1), 200, "duplicate"),
        (hmac("other-secret", &body(2)), body(2), 401, "signature_legacy_failed"),
        (hmac("old-secret", &body(3)), body(2), 401, "signature_legacy_failed"),
        (standard(WHSEC, &body(8)), body(8), 200, "stored"),
        (standard(WHSEC, &body(8)), body(9), 401, "signature_legacy_failed"),
        (standard(&WHSEC.replace('w', "x").replacen('x', "w", 1), &body(9)), body(9), 401, "signature_legacy_failed"),
        (bearer("the-token"), body(4), 200, "stored"),
        (bearer("the-toker"), body(5), 401, "signature_legacy_failed"),
        (bearer(""), body(5), 401, "signature_missing"),
        (vec![json_type.clone()], body(5), 401, "signature_missing"),
    ] {
        let answer = send(bench.address, &url, &headers, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
    }
    // A broken signature is not made good by a credential beside it.
    let mut headers = sender.headers(&url, &body(6));
    headers.push(("authorization".into(), "Bearer the-token".into()));
    let answer = send(bench.address, &url, &headers, &body(7)).await;
    assert_eq!((answer.status, answer.challenge()), (401, Some("webhook_signature_digest_mismatch")));
    assert_eq!(bench.rows().await, (3, 0));
}

#[tokio::test]
async fn a_standard_webhooks_file_without_a_secret_of_its_form_is_refused_and_changes_nothing() {
    let bench = Bench::new(&[("standard_webhooks_secret_file", format!("file:{WHSEC}"))]).await;
    for content in ["whsec_c2hvcnQ=", &WHSEC[6..], ""] {
        file(bench.directory.path(), "standard_webhooks_secret_file", content);
        let error = bench.webhook().reload().unwrap_err().to_string();
        assert!(error.contains("receive.webhook.standard_webhooks_secret_file"), "{error}");
        assert!(!error.contains("c2hvcnQ") && bench.webhook().credentials.load().takes_standard(), "{error}");
    }
}

#[tokio::test]
async fn a_delivery_that_another_replica_is_keeping_is_asked_to_come_again() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks())]).await;
    let other = connect(&bench.url).await;
    let insert = format!(
        "begin; insert into adcp_webhook_inbox (sender, idempotency_key, payload_sha256, body, max_attempts) \
         values ('seller-1', '{KEY}', decode(repeat('01', 32), 'hex'), 'x', 3)"
    );
    other.batch_execute(&insert).await.unwrap();
    let answer = sender.deliver(bench.address, &body(KEY, json!({}))).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "in_progress"));
    assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
    other.batch_execute("rollback").await.unwrap();
    assert_eq!(sender.deliver(bench.address, &body(KEY, json!({}))).await.status, 200);
}

#[tokio::test]
async fn without_a_database_nothing_is_acknowledged() {
    let sender = Sender::new();
    let bench = Bench::new(&[("jwks_file", sender.jwks())]).await;
    bench.database.batch_execute("alter table adcp_webhook_inbox rename to away").await.unwrap();
    let answer = sender.deliver(bench.address, &body(KEY, json!({}))).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "store_unavailable"));
    assert!(answer.head.contains("retry-after: "), "{}", answer.head);
    bench.database.batch_execute("alter table away rename to adcp_webhook_inbox").await.unwrap();
    assert_eq!(sender.deliver(bench.address, &body(KEY, json!({}))).await.code(), "stored");
}

#[tokio::test]
async fn changed_files_count_from_the_reload_and_a_broken_one_changes_nothing() {
    let (old, new) = (Sender::new(), Sender::new());
    let bench = Bench::new(&[("jwks_file", old.jwks())]).await;
    let key = |n: u8| body(&format!("whk_0123456789abcde{n}"), json!({}));
    file(bench.directory.path(), "jwks_file", "{}");
    assert!(bench.profile.reload().is_err());
    assert_eq!(old.deliver(bench.address, &key(1)).await.status, 200);
    file(bench.directory.path(), "jwks_file", &new.jwks()["file:".len()..]);
    bench.profile.reload().unwrap();
    let answer = old.deliver(bench.address, &key(2)).await;
    assert_eq!((answer.status, answer.challenge()), (401, Some("webhook_signature_invalid")));
    assert_eq!(new.deliver(bench.address, &key(2)).await.status, 200);
}
