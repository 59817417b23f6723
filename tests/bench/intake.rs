//! What taking a notification in costs, as ratios within one run: `outboxd receive` against a bare hyper server that does
//! one durable insert of the same row per request, and 1,000,000 stored rows against 1,000.
//!
//! `cargo bench --bench intake`; Postgres' programs must be installed. Exits with 1 if a ratio is beyond what we promise
//! (at least 0.6 of the bare server's rate; at most 1.25 times the cost). It measures no TLS and no processing.

use std::convert::Infallible;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use outboxd::demo::postgres::{Options, Throwaway};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::{Client, NoTls};

const AT_LEAST: f64 = 0.6;
const AT_MOST: f64 = 1.25;

const TURNS: usize = 7;
const PER_TURN: usize = 8000;
const CONNECTIONS: usize = 32;
/// As `database.pool_size` is by default.
const POOL: usize = 8;

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
const FLAT_TURNS: usize = 7;
const PER_FLAT_TURN: usize = 1000;

const PATH: &str = "/v1/localization/terminal-notifications";
const CAPABILITIES_SHA256: &str = "56487bdc181c35bacc01f5009ec22ac80fc579cd2a70952eb2a0879acb72b283";
/// Tells this program to be the bare server, over the database named behind it.
const BARE: &str = "--bare-server";

/// The same row under the same keys. Without the inbox's checks, its second table and that table's indexes: they are part
/// of what is measured.
const BARE_TABLE: &str = "create table bare (like cms_terminal_notification_inbox including indexes)";
const BARE_INSERT: &str = "insert into bare values ($1, $2, $3, $4, $5, $6, extract(epoch from clock_timestamp()))";

/// Rows as accepting makes them, all of them waiting, which is when every index is largest. The check goes on for what
/// comes later; for these it is only slow.
const FILL: &str = r#"
alter table cms_terminal_notification_inbox drop constraint cms_terminal_notification_inbox_bound;
with fields as (
    select 'filled-' || n as event,
           '{"change_sha256":"' || repeat('a', 64) || '","event_id":"filled-' || n || '","job_count":23,'
           || '"lifecycle_binding_sha256":"' || repeat('b', 64) || '","lifecycle_sha256":"' || repeat('c', 64) || '",' as head,
           '"plan_id":"plan","schema":"blun.cms-source-terminal-notification.v1","site_id":"public-site",'
           || '"source_sequence":42,"terminal_status":"published","website_version":"release-42"}' as tail
      from generate_series(1, {rows}) as n
), identified as (
    select *, 'terminal-' || encode(sha256((head || tail)::bytea), 'hex') as id from fields
), whole as (
    select id, event, head || '"notification_id":"' || id || '",' || tail as payload from identified
)
insert into cms_terminal_notification_inbox
select id, event, 'public-site', 'published', encode(sha256(payload::bytea), 'hex'), payload, 1700000000 from whole;
insert into cms_terminal_notification_processing
       (notification_id, status, attempts, max_attempts, next_attempt_at, created_at, updated_at)
select notification_id, 'pending', 0, 5, received_at, received_at, received_at from cms_terminal_notification_inbox;
alter table cms_terminal_notification_inbox add constraint cms_terminal_notification_inbox_bound check (
    cms_terminal_notification_bound(notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json)
) not valid;
"#;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == BARE) {
        runtime.block_on(serve_bare(&arguments[at + 1]));
        return ExitCode::SUCCESS;
    }
    // Checkpoints come when asked for, and not in the one server's turn rather than in the other's.
    let settings = [("max_wal_size", "16GB"), ("checkpoint_timeout", "1h"), ("shared_buffers", "1GB")];
    let settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
    let options = Options { durable: true, settings, ..Options::default() };
    let postgres = Throwaway::start(&options).unwrap_or_else(|error| panic!("{error}"));
    let (rate, cost) = runtime.block_on(async { (rates(&postgres).await, costs(&postgres).await) });
    println!("medians: rate {rate:.2} of a bare server's (at least {AT_LEAST}), cost {cost:.2} (at most {AT_MOST})");
    if rate < AT_LEAST || cost > AT_MOST { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Ours through the bare server's, in requests a second; the median over turns that alternate and send the same.
async fn rates(postgres: &Throwaway) -> f64 {
    let url = database(postgres, "rates").await;
    let client = connect(&url).await;
    client.batch_execute(BARE_TABLE).await.expect("the inbox is there");
    let receiver = Server::receiver(&url);
    let bare = Server::bare(&url);
    // Connections, plans and caches are there before anything counts.
    for server in [&receiver, &bare] {
        send(server.port, &notifications("warm-up", PER_TURN / 4)).await;
    }
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..TURNS {
        let requests = notifications(&format!("turn-{turn}"), PER_TURN);
        let mut rates = [0.0; 2];
        // Whoever goes second does so every other time.
        for side in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let port = [receiver.port, bare.port][side];
            rates[side] = PER_TURN as f64 / send(port, &requests).await.as_secs_f64();
        }
        let [our, their] = rates;
        println!("{CONNECTIONS} connections: bare {their:.0}/s, outboxd receive {our:.0}/s, ratio {:.2}", our / their);
        ours.push(our);
        theirs.push(their);
        ratios.push(our / their);
    }
    let stored: i64 = client
        .query_one("select least((select count(*) from bare), (select count(*) from cms_terminal_notifications))", &[])
        .await
        .expect("both are there")
        .get(0);
    assert_eq!(stored as usize, TURNS * PER_TURN + PER_TURN / 4, "every answer was a stored row");
    println!("bare {}, outboxd receive {}, ratio {}", spread(&theirs), spread(&ours), spread(&ratios));
    median(&ratios)
}

/// How much longer a notification takes, new or sent again, where a thousand times as many are stored.
async fn costs(postgres: &Throwaway) -> f64 {
    let mut servers = Vec::new();
    for (name, rows) in [("few", FEW), ("many", MANY)] {
        let url = database(postgres, name).await;
        let client = connect(&url).await;
        client.batch_execute(&FILL.replace("{rows}", &rows.to_string())).await.expect("the rows are lawful");
        client.batch_execute("vacuum analyze").await.expect("it is ours");
        servers.push((Server::receiver(&url), client));
    }
    let mut streams = [open(servers[0].0.port).await, open(servers[1].0.port).await];
    for request in notifications("warm-up", PER_FLAT_TURN) {
        for stream in &mut streams {
            exchange(stream, &request).await;
        }
    }
    // From here on every page that is written to for the first time goes into the log whole: the worst for many pages.
    servers[0].1.batch_execute("checkpoint").await.expect("it is ours");
    let mut took = [Vec::new(), Vec::new()];
    for turn in 0..FLAT_TURNS {
        let requests = notifications(&format!("turn-{turn}"), PER_FLAT_TURN);
        for (what, name) in ["fresh", "again"].into_iter().enumerate() {
            // Request by request, so that whatever else this machine does it does to both.
            let mut each = [Vec::new(), Vec::new()];
            for request in &requests {
                for side in [0, 1] {
                    let began = Instant::now();
                    exchange(&mut streams[side], request).await;
                    each[side].push(began.elapsed().as_secs_f64() * 1e6);
                }
            }
            let [few, many] = each.map(|each| median(&each));
            println!("{name}: {FEW} rows stored {few:.0} us each, {MANY} rows {many:.0} us, ratio {:.2}", many / few);
            took[what].push(many / few);
        }
    }
    println!("{MANY} rows against {FEW}: fresh {}, again {}", spread(&took[0]), spread(&took[1]));
    median(&took[0]).max(median(&took[1]))
}

/// A migrated database of this name.
async fn database(postgres: &Throwaway, name: &str) -> String {
    let admin = connect(&postgres.url("postgres")).await;
    admin.batch_execute(&format!("create database {name}")).await.expect("it is a new one");
    let url = postgres.url(name);
    let migrated = Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .args(["migrate", "--set", &format!("database.url={url}")])
        .output()
        .expect("the binary runs");
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    url
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the cluster answers");
    tokio::spawn(connection);
    client
}

/// A server in a process of its own, gone with this value.
struct Server {
    child: Child,
    port: u16,
    _home: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn receiver(url: &str) -> Server {
        let home = tempfile::tempdir().expect("a temp directory");
        let credentials = json!({"credentials": [{"token_sha256": sha256(b"token"), "principal": {
            "schema": "blun.cms-source-terminal-notification-principal.v1", "principal_id": "website-cms",
            "credential_id": "cms-key", "credential_version": "v1", "scope": "terminal-notification:write",
            "site_id": "public-site",
        }}]});
        write_private(&home.path().join("credentials.json"), &credentials.to_string());
        let settings = format!(
            "[database]\nurl = {url:?}\npool_size = {POOL}\n[admin]\nlisten = \"\"\n[log]\nformat = \"text\"\n\
             [receive]\nprofile = \"terminal-notification\"\nlisten = \"127.0.0.1:0\"\n[receive.terminal]\n\
             origin = \"https://cms.example.test\"\nrequire_https = false\ncredentials_file = {:?}\n",
            home.path().join("credentials.json")
        );
        write_private(&home.path().join("outboxd.toml"), &settings);
        let mut command = Command::new(env!("CARGO_BIN_EXE_outboxd"));
        command.args(["receive", "--config"]).arg(home.path().join("outboxd.toml"));
        Server::start(&mut command, home)
    }

    fn bare(url: &str) -> Server {
        let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
        command.args([BARE, url]);
        Server::start(&mut command, tempfile::tempdir().expect("a temp directory"))
    }

    /// Both say in a line where they listen.
    fn start(command: &mut Command, home: tempfile::TempDir) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, rest) = line.split_once("127.0.0.1:")?;
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().ok()
        });
        let port = port.expect("it says where it listens");
        // A full pipe would stop whoever writes to it.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, port, _home: home }
    }
}

fn write_private(path: &Path, text: &str) {
    use std::io::Write;
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).expect("the directory is ours");
}

async fn serve_bare(url: &str) {
    let config: tokio_postgres::Config = url.parse().expect("our own url parses");
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, NoTls, recycling);
    let pool = Pool::builder(manager).max_size(POOL).build().expect("no timeouts, no runtime");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
    println!("listening on {}", listener.local_addr().expect("it is bound"));
    loop {
        let (stream, _) = listener.accept().await.expect("descriptors are left");
        stream.set_nodelay(true).expect("it is a TCP socket");
        let pool = pool.clone();
        let service = service_fn(move |request| insert(pool.clone(), request));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn insert(pool: Pool, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("the client sends all").to_bytes();
    let header = |name: &str| head.headers[name].to_str().expect("it is ASCII");
    let (id, digest) = (header("idempotency-key"), header("x-localization-terminal-notification-sha256"));
    let payload = std::str::from_utf8(&body).expect("it is ASCII");
    let event = payload.split("\"event_id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("it has one");
    let client = pool.get().await.expect("the cluster answers");
    let statement = client.prepare_cached(BARE_INSERT).await.expect("the table is there");
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&id, &event, &"public-site", &"published", &digest, &payload];
    client.execute(&statement, &row).await.expect("it is a new row");
    Ok(Response::new(Full::new(Bytes::from_static(b"{\"status\":\"accepted\"}"))))
}

/// Distinct notifications, each a whole request.
fn notifications(prefix: &str, count: usize) -> Vec<Arc<[u8]>> {
    (0..count).map(|number| request(&format!("{prefix}-{number}")).into()).collect()
}

/// serde_json's objects are sorted by name and written without blanks, which for ASCII is the canonical form.
fn request(event: &str) -> Vec<u8> {
    let mut body: Value = json!({
        "schema": "blun.cms-source-terminal-notification.v1", "event_id": event, "site_id": "public-site",
        "plan_id": "plan", "website_version": "release-42", "source_sequence": 42, "job_count": 23,
        "change_sha256": "a".repeat(64), "lifecycle_binding_sha256": "b".repeat(64),
        "terminal_status": "published", "lifecycle_sha256": "c".repeat(64),
    });
    let id = format!("terminal-{}", sha256(body.to_string().as_bytes()));
    body["notification_id"] = id.as_str().into();
    let body = body.to_string();
    format!(
        "POST {PATH} HTTP/1.1\r\nHost: receiver.test\r\nAuthorization: Bearer token\r\n\
         Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\nIdempotency-Key: {id}\r\n\
         X-Localization-Terminal-Notification-Id: {id}\r\nX-Localization-Terminal-Notification-Sha256: {}\r\n\
         X-Localization-Capabilities-SHA256: {CAPABILITIES_SHA256}\r\n\r\n{body}",
        body.len(),
        sha256(body.as_bytes()),
    )
    .into_bytes()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All of them over as many kept connections as there are, each with one request at a time; how long it took.
async fn send(port: u16, requests: &[Arc<[u8]>]) -> Duration {
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(open(port).await);
    }
    let began = Instant::now();
    let senders: Vec<_> = streams
        .into_iter()
        .enumerate()
        .map(|(first, mut stream)| {
            let share: Vec<_> = requests.iter().skip(first).step_by(CONNECTIONS).cloned().collect();
            tokio::spawn(async move {
                for request in share {
                    exchange(&mut stream, &request).await;
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.expect("every request is taken in");
    }
    began.elapsed()
}

async fn open(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    stream.set_nodelay(true).expect("it is a TCP socket");
    stream
}

/// Answers are small: their last byte is the brace that no other byte of theirs ends a packet with.
async fn exchange(stream: &mut TcpStream, request: &[u8]) {
    stream.write_all(request).await.expect("the connection is kept");
    let (mut answer, mut length) = ([0; 4096], 0);
    while length == 0 || !answer[..length].ends_with(b"}") {
        let read = stream.read(&mut answer[length..]).await.expect("the connection is kept");
        assert!(read > 0, "the connection was closed: {}", String::from_utf8_lossy(&answer[..length]));
        length += read;
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..length]));
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn spread(values: &[f64]) -> String {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), v| (least.min(*v), most.max(*v)));
    format!("{:.2} ({least:.2} to {most:.2})", median(values))
}
