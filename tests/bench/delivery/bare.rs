//! The bare loop: the least that delivers the same rows over the same wire, as the measure of what our guards cost. It claims
//! in batches under leases, opens AES-256-GCM, signs with Ed25519 as RFC 9421 has it, posts over kept connections and settles
//! in batches.
//!
//! It has no guard: no check of the body or the address, no pinning, no deadline, no retry but the lease's end, no fence, no
//! share for anyone, no metric and no log. It shares no code with the daemon.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::Ed25519KeyPair;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tokio_postgres::{Client, NoTls, Row};
use tokio_rustls::TlsConnector;

use super::support::keys::unhex;

/// How long a settle waits for others to share its commit.
const GATHER: Duration = Duration::from_millis(10);

/// The lease's end in `available_at` keeps leased rows out of later claims' sight, which costs nothing more here.
const CLAIM: &str = "
update adcp_task_webhook_outbox as o
   set state = 'in_flight', attempt_count = o.attempt_count + 1, lease_token = $2,
       lease_expires_at = now() + interval '60 s', available_at = now() + interval '60 s',
       first_attempt_at = coalesce(o.first_attempt_at, now()),
       retry_until = coalesce(o.retry_until, now() + o.retry_horizon_seconds * interval '1 s'), updated_at = now()
  from (select id from adcp_task_webhook_outbox
         where state in ('pending', 'in_flight') and available_at <= now()
         order by available_at, id limit $1 for update skip locked) as due
 where o.id = due.id
returning o.id, o.account_id, o.task_id, o.task_type, o.terminal_status, o.url, o.operation_id, o.idempotency_key,
          o.encrypted_body, o.envelope_nonce";

const SETTLE: &str = "
update adcp_task_webhook_outbox
   set state = 'delivered', delivered_at = now(), lease_token = null, lease_expires_at = null, last_http_status = 200,
       last_error = null, updated_at = now()
 where id = any($1)";

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long)]
    database: String,
    /// Files: 64 hex digits; a PKCS#8 PEM; a certificate.
    #[arg(long)]
    envelope_key: String,
    #[arg(long)]
    signing_key: String,
    #[arg(long)]
    ca: String,
    #[arg(long)]
    key_id: String,
    /// Posts at once, each over a connection of its own.
    #[arg(long)]
    connections: usize,
    #[arg(long)]
    batch: i64,
    /// How long to wait for work when there is none.
    #[arg(long)]
    poll_ms: u64,
}

/// Claimed rows that no poster has taken yet. It is never filled by more than two batches.
#[derive(Default)]
struct Queue {
    rows: RefCell<VecDeque<Row>>,
    filled: Notify,
    taken: Notify,
}

struct Keys {
    envelope: LessSafeKey,
    signing: Ed25519KeyPair,
    key_id: String,
    tls: TlsConnector,
}

/// One thread: with Postgres and the receiver on the same two cores, a second one makes it no faster.
#[tokio::main(flavor = "current_thread")]
pub async fn deliver(arguments: Arguments) {
    tokio::task::LocalSet::new().run_until(work(arguments)).await;
}

async fn work(arguments: Arguments) {
    let keys = Rc::new(Keys::read(&arguments));
    let queue = Rc::new(Queue::default());
    let (settled, delivered) = mpsc::unbounded_channel();
    for _ in 0..arguments.connections {
        spawn_local(post_all(Rc::clone(&keys), Rc::clone(&queue), settled.clone()));
    }
    spawn_local(settle_all(connect(&arguments.database).await, delivered));
    claim_all(connect(&arguments.database).await, &queue, &arguments).await;
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the cluster answers");
    spawn_local(connection);
    client
}

/// The next batch is asked for while the last one is posted.
async fn claim_all(client: Client, queue: &Queue, arguments: &Arguments) {
    let claim = client.prepare(CLAIM).await.expect("the table is there");
    loop {
        while queue.rows.borrow().len() >= arguments.batch as usize {
            queue.taken.notified().await;
        }
        let token = URL_SAFE_NO_PAD.encode(random::<16>());
        let rows = client.query(&claim, &[&arguments.batch, &token]).await.expect("the cluster answers");
        if rows.is_empty() {
            tokio::time::sleep(Duration::from_millis(arguments.poll_ms)).await;
        }
        for row in rows {
            queue.rows.borrow_mut().push_back(row);
            queue.filled.notify_one();
        }
    }
}

async fn post_all(keys: Rc<Keys>, queue: Rc<Queue>, settled: mpsc::UnboundedSender<i64>) {
    let mut connection: Option<(String, SendRequest<Full<Bytes>>)> = None;
    loop {
        let next = queue.rows.borrow_mut().pop_front();
        let Some(row) = next else {
            queue.filled.notified().await;
            continue;
        };
        queue.taken.notify_one();
        let url: &str = row.get("url");
        let authority = url.split('/').nth(2).expect("it is an https URL");
        let (_, path) = url["https://".len()..].split_once('/').expect("it has a path");
        let kept = connection.take().filter(|(to, sender)| to == authority && !sender.is_closed());
        let (to, mut sender) = match kept {
            Some(kept) => kept,
            None => (authority.to_owned(), keys.dial(authority).await),
        };
        let request = keys.sign(url, authority, path, keys.open(&row));
        let ready = sender.ready().await;
        if let (Ok(()), Ok(reply)) = (ready, sender.send_request(request).await) {
            let accepted = reply.status().is_success();
            if reply.into_body().collect().await.is_ok() {
                connection = Some((to, sender));
            }
            if accepted {
                settled.send(row.get("id")).expect("settling ends last");
            }
        }
    }
}

async fn settle_all(client: Client, mut delivered: mpsc::UnboundedReceiver<i64>) {
    let settle = client.prepare(SETTLE).await.expect("the table is there");
    let mut ids = Vec::new();
    while delivered.recv_many(&mut ids, 1).await > 0 {
        tokio::time::sleep(GATHER).await;
        while let Ok(id) = delivered.try_recv() {
            ids.push(id);
        }
        client.execute(&settle, &[&ids]).await.expect("the cluster answers");
        ids.clear();
    }
}

impl Keys {
    fn read(arguments: &Arguments) -> Keys {
        let text = |path: &str| fs::read_to_string(path).expect("the file is there");
        let envelope = unhex(text(&arguments.envelope_key).trim());
        let pem = PrivatePkcs8KeyDer::from_pem_slice(text(&arguments.signing_key).as_bytes()).expect("a PKCS#8 PEM");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&arguments.ca).expect("a certificate")).expect("a CA is an anchor");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Keys {
            envelope: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &envelope).expect("it has 32 bytes")),
            signing: Ed25519KeyPair::from_pkcs8_maybe_unchecked(pem.secret_pkcs8_der()).expect("an Ed25519 key"),
            key_id: arguments.key_id.clone(),
            tls: Arc::new(tls).into(),
        }
    }

    async fn dial(&self, authority: &str) -> SendRequest<Full<Bytes>> {
        let (host, _) = authority.rsplit_once(':').expect("our receivers have ports");
        let name = ServerName::try_from(host.to_owned()).expect("a host");
        let stream = TcpStream::connect(authority).await.expect("the receiver listens");
        stream.set_nodelay(true).expect("it is a TCP socket");
        let stream = self.tls.connect(name, stream).await.expect("the receiver's certificate is good");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("it speaks HTTP/1.1");
        spawn_local(connection);
        sender
    }

    fn open(&self, row: &Row) -> Bytes {
        let fields =
            ["account_id", "task_id", "task_type", "terminal_status", "url", "operation_id", "idempotency_key"];
        let bound = serde_json::to_vec(&fields.map(|field| row.get::<_, &str>(field))).expect("strings are JSON");
        let nonce = Nonce::try_assume_unique_for_key(row.get("envelope_nonce")).expect("it has 12 bytes");
        let mut body: Vec<u8> = row.get("encrypted_body");
        let opened = self.envelope.open_in_place(nonce, Aad::from(bound), &mut body).expect("it is sealed by this key");
        let length = opened.len();
        body.truncate(length);
        body.into()
    }

    fn sign(&self, url: &str, authority: &str, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_secs();
        let content_digest = format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, &body)));
        let parameters = format!(
            "(\"@method\" \"@target-uri\" \"@authority\" \"content-type\" \"content-digest\");created={created};\
             expires={};nonce=\"{}\";keyid=\"{}\";alg=\"ed25519\";tag=\"adcp/webhook-signing/v1\"",
            created + 300,
            URL_SAFE_NO_PAD.encode(random::<16>()),
            self.key_id,
        );
        let base = format!(
            "\"@method\": POST\n\"@target-uri\": {url}\n\"@authority\": {authority}\n\
             \"content-type\": application/json\n\"content-digest\": {content_digest}\n\
             \"@signature-params\": {parameters}"
        );
        let signature = URL_SAFE_NO_PAD.encode(self.signing.sign(base.as_bytes()));
        Request::post(format!("/{path}"))
            .header("host", authority)
            .header("content-type", "application/json")
            .header("content-digest", content_digest)
            .header("signature-input", format!("sig1={parameters}"))
            .header("signature", format!("sig1=:{signature}:"))
            .body(Full::new(body))
            .expect("every part is printable")
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes
}
