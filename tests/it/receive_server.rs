//! What the network can do to the receiver, and what it cannot: half-open connections, endless bodies, floods of frames,
//! compressed bodies; TLS, its renewal, HTTP/2, unix sockets, trusted proxies, and the drain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::sys::signal::Signal;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::certs::{Authority, Leaf};
use crate::support::cluster::Database;
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually, within};
use crate::support::inbox::{self, Inbox, exchange};

fn with_tls(config: Config, leaf: &Leaf) -> Config {
    let certificate = config.file("tls.pem", &leaf.certificate_pem);
    let key = config.file("tls.key", &leaf.key_pem);
    config.set("receive.tls_cert_file", text(&certificate)).set("receive.tls_key_file", text(&key))
}

async fn tls(inbox: &Inbox, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(Authority::shared().pem().as_bytes()).expect("PEM")).expect("a CA");
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks both")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, inbox.connect().await);
    within(PATIENCE, "a handshake", connecting).await.expect("the handshake works")
}

/// The certificate that a new connection is shown.
async fn shown(inbox: &Inbox) -> Vec<u8> {
    let stream = tls(inbox, b"http/1.1").await;
    stream.get_ref().1.peer_certificates().expect("there is one")[0].to_vec()
}

async fn over_tls() -> Inbox {
    Inbox::start(|config| {
        with_tls(config, &Authority::shared().receiver_leaf()).set("receive.terminal.require_https", true)
    })
    .await
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_tls_and_the_first_is_https() {
    let inbox = over_tls().await;
    let answer = exchange(tls(&inbox, b"http/1.1").await, &inbox::notification("event-1")).await.expect("an answer");
    assert_eq!(answer.summary(), "200");

    let stream = TokioIo::new(tls(&inbox, b"h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.expect("h2");
    tokio::spawn(connection);
    for (event, status) in [("event-2", 200), ("event-1", 200)] {
        let body = inbox::body(event, "plan");
        let id = serde_json::from_str::<serde_json::Value>(&body).expect("JSON")["notification_id"].clone();
        let id = id.as_str().expect("an id");
        let request = http::Request::post(format!("https://localhost{}", inbox::DEFAULT_PATH))
            .header("authorization", "Bearer token")
            .header("content-type", "application/json; charset=utf-8")
            .header("content-length", body.len())
            .header("idempotency-key", id)
            .header("x-localization-terminal-notification-id", id)
            .header("x-localization-terminal-notification-sha256", inbox::sha256(body.as_bytes()))
            .header("x-localization-capabilities-sha256", inbox::CAPABILITIES_SHA256)
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let reply = within(PATIENCE, "an answer", sender.send_request(request)).await.expect("an answer");
        assert_eq!(reply.status(), status);
        assert_eq!(reply.headers().len(), 5, "{:?}", reply.headers());
        let ack = reply.into_body().collect().await.expect("a body").to_bytes();
        assert!(ack.starts_with(format!("{{\"event_id\":\"{event}\"").as_bytes()));
    }
    assert_eq!(inbox.received().await, 2);
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart_and_half_of_one_is_not() {
    let inbox = over_tls().await;
    let config = inbox.daemon.config();
    let first = shown(&inbox).await;
    let leaf = Authority::shared().receiver_leaf();
    let from = inbox.daemon.lines().len();
    // A certificate without its key, as between the two writes of a renewal.
    config.file("tls.pem", &leaf.certificate_pem);
    inbox.daemon.signal(Signal::SIGHUP);
    inbox.daemon.line(from, &["reload failed", "tls_key_file"]).await;
    assert_eq!(shown(&inbox).await, first);
    config.file("tls.key", &leaf.key_pem);
    // Noticed by itself.
    let second = eventually("the new certificate is shown", async || match shown(&inbox).await {
        same if same == first => Err("the old one"),
        new => Ok(new),
    })
    .await;
    assert_ne!(second, first);
    // rcgen's leaves end in the year 4096.
    let ends = [("kind", "receive_certificate")];
    let ends = inbox.daemon.metrics().await.total("outboxd_earliest_expiry_timestamp_seconds", &ends);
    assert!(ends > 6e10, "{ends}");
}

#[tokio::test]
async fn credentials_are_read_again_and_a_broken_file_changes_nothing() {
    let inbox = Inbox::start(|config| config).await;
    let config = inbox.daemon.config();
    let from = inbox.daemon.lines().len();
    config.file("credentials.json", "{\"credentials\": [{\"token\": \"hush\"}]}");
    inbox.daemon.signal(Signal::SIGHUP);
    let line = inbox.daemon.line(from, &["reload failed", "credentials_file"]).await;
    assert!(!line.contains("hush"), "{line}");
    assert_eq!(inbox.ask(&inbox::notification("event-1")).await.expect("an answer").summary(), "200");
    let from = inbox.daemon.lines().len();
    config.file("credentials.json", "{\"credentials\": []}");
    inbox.daemon.signal(Signal::SIGHUP);
    inbox.daemon.line(from, &["reloaded"]).await;
    let refused = inbox.ask(&inbox::notification("event-1")).await.expect("an answer");
    assert_eq!(refused.summary(), "401 authentication_failed");
}

#[tokio::test]
async fn only_a_trusted_proxys_word_makes_plain_text_secure() {
    let secure = |more: &str| inbox::request(&inbox::body("event-1", "plan"), &format!("Connection: close\r\n{more}"));
    let required = |config: Config| config.set("receive.terminal.require_https", true);
    let untrusting = Inbox::start(required).await;
    let answer = untrusting.ask(&secure("X-Forwarded-Proto: https\r\n")).await.expect("an answer");
    assert_eq!(answer.summary(), "400 https_required");
    let trusting = Inbox::start(|config| required(config).set("receive.trusted_proxies", vec!["127.0.0.0/8"])).await;
    for (said, summary) in [
        ("", "400 https_required"),
        ("X-Forwarded-Proto: http\r\n", "400 https_required"),
        ("X-Forwarded-Proto: https, http\r\n", "400 https_required"),
        ("X-Forwarded-Proto: https\r\nX-Forwarded-Proto: https\r\n", "400 https_required"),
        ("X-Forwarded-Proto: https\r\n", "200"),
    ] {
        assert_eq!(trusting.ask(&secure(said)).await.expect("an answer").summary(), summary, "{said}");
    }
}

#[tokio::test]
async fn a_unix_socket_is_served_and_what_a_killed_process_left_is_replaced() {
    let database = Database::new().await;
    let config = inbox::with_writer(inbox::config(&database.url));
    let path = config.path("inbox.sock");
    let config = config.set("receive.listen", format!("unix:{}", path.display()));
    for event in ["event-1", "event-2"] {
        let daemon = Daemon::command(&config, &["receive"]);
        daemon.ready().await;
        daemon.line(0, &["receiving", "inbox.sock"]).await;
        let stream = UnixStream::connect(&path).await.expect("it listens");
        let answer = exchange(stream, &inbox::notification(event)).await.expect("an answer");
        assert_eq!(answer.summary(), "200");
        daemon.kill().await;
        assert!(path.exists());
    }
    let daemon = Daemon::command(&config, &["receive"]);
    daemon.line(0, &["receiving", "inbox.sock"]).await;
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_exit(PATIENCE).await.code, Some(0));
    assert!(!path.exists());
}

#[tokio::test]
async fn settings_that_cannot_be_received_with_are_refused_by_name() {
    let database = Database::new().await;
    let good = inbox::with_writer(inbox::config(&database.url));
    let open = good.file_with_mode("open.json", "{\"credentials\": []}", 0o644);
    let cases = [
        (good.clone().unset("receive.profile"), "receive.profile"),
        (good.clone().set("receive.profile", "letters"), "receive.profile"),
        (good.clone().set("receive.listen", "0.0.0.0:0"), "receive.listen"),
        (good.clone().set("receive.listen", "somewhere"), "receive.listen"),
        (good.clone().set("receive.tls_cert_file", "/nowhere.pem"), "receive.tls_key_file"),
        (good.clone().set("receive.trusted_proxies", vec!["proxy"]), "receive.trusted_proxies"),
        (good.clone().set("receive.max_connections", 0), "receive.max_connections"),
        (good.clone().set("receive.terminal.origin", "http://cms"), "receive.terminal.origin"),
        (good.clone().set("receive.terminal.intake_path", "nowhere"), "receive.terminal.intake_path"),
        (good.clone().set("receive.terminal.max_attempts", 21), "receive.terminal.max_attempts"),
        (good.clone().unset("receive.terminal.credentials_file"), "receive.terminal.credentials_file"),
        (good.clone().set("receive.terminal.credentials_file", text(&open)), "receive.terminal.credentials_file"),
    ];
    for (config, key) in cases {
        let ended = Daemon::command(&config, &["receive"]).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(78), "{key}: {}", ended.output);
        assert_eq!(ended.output.lines().filter(|line| line.contains(key)).count(), 1, "{key}: {}", ended.output);
    }
}

/// How long a good sender's request takes on a connection of its own.
async fn took(inbox: &Inbox, event: &str) -> Duration {
    let request = inbox::notification(event);
    let began = Instant::now();
    let answer = inbox.ask(&request).await.expect("an answer");
    assert_eq!(answer.summary(), "200");
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test]
async fn thousands_of_half_open_connections_cost_a_good_sender_nothing() {
    const HALF_OPEN: usize = 5000;
    let (soft, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("it is told");
    assert!(hard > 3 * HALF_OPEN as u64, "this test needs {} descriptors, and {hard} are allowed", 3 * HALF_OPEN);
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, soft.max(hard), hard).expect("within");
    // Nothing times out while the test runs: the crowd alone must make room.
    let inbox = Inbox::start(|config| config.set("receive.head_timeout", "10m")).await;
    let quiet = Inbox::start(|config| config).await;
    let mut open = Vec::new();
    for number in 0..HALF_OPEN {
        let mut stream = inbox.connect().await;
        // Some say nothing, some begin a head, some begin a body.
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"POST / HTTP/1.1\r\nHost: a\r\nX-",
            _ => &inbox::notification("never")[..900],
        };
        let _ = stream.write_all(begun).await;
        open.push(stream);
    }
    // In turns, so that whatever else this machine does it does to both.
    let (mut alone, mut crowded) = (Vec::new(), Vec::new());
    for number in 0..51 {
        alone.push(took(&quiet, &format!("event-{number}")).await);
        crowded.push(took(&inbox, &format!("event-{number}")).await);
    }
    let (alone, crowded) = (median(alone), median(crowded));
    assert!(crowded < alone * 2, "{crowded:?} among {HALF_OPEN}, {alone:?} alone");
    let metrics = inbox.daemon.metrics().await;
    assert!(metrics.text.contains("reason=\"made_room\""), "{}", metrics.text);
}

#[tokio::test]
async fn heads_and_bodies_that_do_not_come_are_not_waited_for() {
    let inbox = Inbox::start(|config| config.set("receive.head_timeout", "2s").set("receive.body_timeout", "2s")).await;
    let mut half_head = inbox.connect().await;
    half_head.write_all(b"POST / HTTP/1.1\r\nHost: a\r\n").await.expect("it listens");
    let mut rest = Vec::new();
    let _ = within(PATIENCE, "the end of a half head", half_head.read_to_end(&mut rest)).await;

    let request = inbox::notification("event-1");
    let mut half_body = inbox.connect().await;
    half_body.write_all(&request[..request.len() - 1]).await.expect("it listens");
    let mut rest = Vec::new();
    let _ = within(PATIENCE, "the end of a half body", half_body.read_to_end(&mut rest)).await;
    // We did not wait, so that the sender is to try again.
    assert_eq!(inbox::parse(&rest).expect("an answer").summary(), "503 runtime_unavailable");
    assert_eq!(inbox.received().await, 0);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_unread_and_an_endless_one_is_cut() {
    let inbox = Inbox::start(|config| config).await;
    let head = |framing: &str| {
        format!(
            "POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json;charset=utf-8\r\n{framing}\r\n\r\n",
            inbox::DEFAULT_PATH
        )
    };
    let mut declared = inbox.connect().await;
    declared.write_all(head("Content-Length: 2147483648").as_bytes()).await.expect("it listens");
    let mut rest = Vec::new();
    let _ = within(PATIENCE, "an answer", declared.read_to_end(&mut rest)).await;
    assert_eq!(inbox::parse(&rest).expect("an answer").summary(), "413 body_too_large");

    let (mut read, mut write) = inbox.connect().await.into_split();
    write.write_all(head("Transfer-Encoding: chunked").as_bytes()).await.expect("it listens");
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
    let sending = tokio::spawn(async move {
        let mut sent = 0u64;
        while sent < 2 << 30 && write.write_all(&chunk).await.is_ok() {
            sent += chunk.len() as u64;
        }
        sent
    });
    let mut rest = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = within(PATIENCE, "an answer", read.read(&mut piece)).await {
        rest.extend_from_slice(&piece[..length]);
    }
    assert_eq!(inbox::parse(&rest).expect("an answer").summary(), "400 framing_invalid");
    let sent = within(PATIENCE, "the cut", sending).await.expect("no panic");
    assert!(sent < 64 << 20, "{sent} bytes of an endless body were taken");
}

#[tokio::test]
async fn compressed_bodies_and_header_bombs_are_refused() {
    let inbox = Inbox::start(|config| config).await;
    let body = inbox::body("event-1", "plan");
    // As if it were compressed: the digest of what was sent is that of what was sent.
    let plain =
        String::from_utf8(inbox::request(&body, "Connection: close\r\nContent-Encoding: gzip\r\n")).expect("ASCII");
    let (head, _) = plain.split_once("\r\n\r\n").expect("it has a head");
    let zipped = [b"\x1f\x8b\x08\x00".as_slice(), &vec![0; body.len() - 4]].concat();
    let answer = inbox.ask(&[head.as_bytes(), b"\r\n\r\n", &zipped].concat()).await.expect("an answer");
    assert_eq!(answer.summary(), "400 json_invalid");

    let many: String = (0..5000).map(|n| format!("X-{n}: 1\r\n")).collect();
    let large = format!("X-Large: {}\r\n", "x".repeat(1 << 20));
    for bomb in [many, large] {
        let request = format!("POST {} HTTP/1.1\r\nHost: a\r\n{bomb}\r\n", inbox::DEFAULT_PATH);
        let answer = inbox.ask(request.as_bytes()).await;
        assert!(answer.as_ref().is_none_or(|answer| answer.status == 431), "{answer:?}");
    }
    assert_eq!(inbox.ask(&inbox::notification("event-1")).await.expect("an answer").summary(), "200");
    assert_eq!(inbox.received().await, 1);
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

/// One HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn floods_of_http2_frames_end_the_connection_that_sends_them() {
    let inbox = over_tls().await;
    // A request as static table entries: GET, https, /.
    let request = [0x82, 0x87, 0x84];
    let endless_head = frame(HEADERS, 0x1, 1, &request);
    type Flood<'a> = (&'a str, Vec<u8>, Box<dyn Fn(u32) -> Vec<u8> + Send + 'a>);
    let floods: Vec<Flood<'_>> = vec![
        ("pings", Vec::new(), Box::new(|_| frame(PING, 0, 0, &[0; 8]).repeat(1000))),
        ("settings", Vec::new(), Box::new(|_| frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(1000))),
        ("continuations", endless_head, Box::new(|_| frame(CONTINUATION, 0, 1, &[b'x'; 16000]))),
        (
            "resets",
            Vec::new(),
            Box::new(move |round| {
                let streams = (0..500).map(|n| 2 * (round * 500 + n) + 1);
                streams
                    .flat_map(|id| [frame(HEADERS, 0x5, id, &request), frame(RESET, 0, id, &[0, 0, 0, 8])].concat())
                    .collect()
            }),
        ),
    ];
    for (name, begin, piece) in floods {
        let (mut read, mut write) = tokio::io::split(tls(&inbox, b"h2").await);
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(SETTINGS, 0, 0, &[]), &begin].concat();
        write.write_all(&preface).await.expect("it listens");
        let reading = tokio::spawn(async move {
            let mut piece = vec![0; 65536];
            while let Ok(1..) = read.read(&mut piece).await {}
        });
        let flood = async {
            let (mut sent, mut round) = (0usize, 0);
            loop {
                let bytes = piece(round);
                // The last write may wait for a reader that has gone without a word.
                match tokio::time::timeout(Duration::from_secs(5), write.write_all(&bytes)).await {
                    Ok(Ok(())) => sent += bytes.len(),
                    _ => return sent,
                }
                round += 1;
                assert!(sent < 256 << 20, "{name}: {sent} bytes and no end");
            }
        };
        let sent = within(PATIENCE, name, flood).await;
        reading.abort();
        assert!(sent < 64 << 20, "{name}: {sent} bytes were taken");
        let answer = exchange(tls(&inbox, b"http/1.1").await, &inbox::notification(name)).await.expect("an answer");
        assert_eq!(answer.summary(), "200", "after {name}");
    }
    let resident = inbox.daemon.resident();
    assert!(resident < 256 << 20, "{resident} bytes are held after the floods");
}

#[tokio::test]
async fn a_drain_lets_a_request_under_way_end_and_takes_no_new_one() {
    let inbox = Inbox::start(|config| config).await;
    let request = inbox::request(&inbox::body("event-1", "plan"), "");
    let mut idle = inbox.connect().await;
    let mut under_way = inbox.connect().await;
    under_way.write_all(&request[..request.len() - 10]).await.expect("it listens");
    eventually("both are connected", async || {
        let text = inbox.daemon.metrics().await.text;
        if text.contains("outboxd_receiving_connections 2") { Ok(()) } else { Err("not yet") }
    })
    .await;
    // So that the head was read before the drain begins.
    let mut interim = inbox.connect().await;
    interim.write_all(&inbox::notification("event-0")).await.expect("it listens");
    let mut rest = Vec::new();
    interim.read_to_end(&mut rest).await.expect("an answer");
    inbox.daemon.signal(Signal::SIGTERM);
    inbox.daemon.line(0, &["draining"]).await;
    let mut rest = Vec::new();
    within(PATIENCE, "the end of an idle connection", idle.read_to_end(&mut rest)).await.expect("a clean end");
    assert!(rest.is_empty());
    eventually("it does not listen any more", async || match TcpStream::connect(inbox.address).await {
        Ok(_) => Err("it does"),
        Err(_) => Ok(()),
    })
    .await;
    under_way.write_all(&request[request.len() - 10..]).await.expect("it is still read");
    let mut rest = Vec::new();
    within(PATIENCE, "an answer", under_way.read_to_end(&mut rest)).await.expect("an answer");
    assert_eq!(inbox::parse(&rest).expect("an answer").summary(), "200");
    assert_eq!(inbox.daemon.wait_exit(PATIENCE).await.code, Some(0));
    assert_eq!(inbox.received().await, 2);
}
