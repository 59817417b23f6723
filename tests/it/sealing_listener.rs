//! The sealing listener of a running daemon: who is let in, what is answered, and how it goes.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::sealing::{lines, registration};
use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::PATIENCE;
use crate::support::seal::EnvelopeKey;
use crate::support::tool::outboxd;
use crate::support::world::World;

const TOKEN: &str = "canary-seal-token-0ddba11c0ffee";
const WRONG: &str = "canary-seal-token-0ddba11c0ffef";
const URL: &str = "https://buyer.example.com/canary-path-77e0a1b2";

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// The head of a request for `length` bytes.
fn head(line: &str, token: Option<&str>, length: usize) -> String {
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}Content-Length: {length}\r\n\r\n"
    )
}

async fn reply(stream: &mut impl Stream) -> Reply {
    let mut reply = Vec::new();
    // A refusal may come, and the connection go, before all of a body was sent.
    let _ = stream.read_to_end(&mut reply).await;
    let reply = String::from_utf8(reply).expect("an answer is text");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {reply:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
    Reply { status, head: head.to_ascii_lowercase(), body: body.to_string() }
}

async fn ask(mut stream: impl Stream, line: &str, token: Option<&str>, body: &str) -> Reply {
    let request = head(line, token, body.len()) + body;
    let _ = stream.write_all(request.as_bytes()).await;
    reply(&mut stream).await
}

async fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).await.expect("the listener is there")
}

fn on_socket(config: Config) -> (Config, PathBuf) {
    let path = config.path("seal.sock");
    (config.set("sealing.listen", format!("unix:{}", text(&path))), path)
}

#[tokio::test]
async fn a_sidecar_seals_on_the_socket_and_the_command_opens_it() {
    let world = World::new().await;
    let (config, path) = on_socket(world.config());
    let daemon = Daemon::start(&config).await;
    let found = std::fs::symlink_metadata(&path).expect("the socket is there");
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o660);
    let item = registration(URL);
    let one = ask(connect(&path).await, "POST /seal", None, &item.to_string()).await;
    assert_eq!((one.status, &one.json()["kind"]), (200, &json!("registration")), "{one:?}");
    assert!(one.head.contains("content-type: application/json") && one.head.contains("cache-control: no-store"));
    let mut row = item.clone();
    row.as_object_mut().expect("an object").extend(one.json().as_object().expect("an object").clone());
    let opened = outboxd(&config, &["open"], row.to_string()).await;
    assert_eq!((opened.code, &lines(&opened.stdout)[0]["key"]), (Some(0), &one.json()["key"]), "{opened:?}");

    let mut bad = item.clone();
    bad["url"] = "https://10.0.0.1/canary-path-77e0a1b2".into();
    let items = format!("{item}\n{bad}\n{item}\n");
    let refused = ask(connect(&path).await, "POST /seal", None, &items).await;
    assert_eq!(refused.status, 422);
    assert_eq!(refused.json()["errors"][0]["index"], 1);
    assert_eq!(refused.json()["errors"][0]["code"], "literal_forbidden");
    let partial = ask(connect(&path).await, "POST /seal?partial=true", None, &items).await;
    assert!(partial.status == 200 && partial.head.contains("application/x-ndjson"), "{partial:?}");
    let sealed: Vec<bool> = lines(&partial.body).iter().map(|answer| answer["nonce"].is_string()).collect();
    assert_eq!(sealed, [true, false, true]);

    for (line, body, status) in [
        ("GET /seal", "", 405),
        ("POST /other", "{}", 404),
        ("POST /seal?partial=maybe", "{}", 400),
        ("POST /seal", "", 400),
        ("POST /seal", "{\"canary", 400),
    ] {
        let reply = ask(connect(&path).await, line, None, body).await;
        assert_eq!(reply.status, status, "{line}: {reply:?}");
        assert!(reply.json()["error"]["code"].is_string() && !reply.body.contains("canary"), "{reply:?}");
    }
    let mut stream = connect(&path).await;
    stream.write_all(head("POST /seal", None, (16 << 20) + 1).as_bytes()).await.expect("the head is read");
    assert_eq!(reply(&mut stream).await.status, 413);
    let metrics = daemon.metrics().await;
    for (result, count) in [("sealed", 1.0), ("refused", 1.0), ("partial", 1.0), ("malformed", 3.0), ("elsewhere", 2.0)]
    {
        assert_eq!(metrics.total("outboxd_sealing_requests_total", &[("result", result)]), count, "{result}");
    }
    assert_eq!(metrics.total("outboxd_sealed_items_total", &[("kind", "registration")]), 3.0);
}

#[tokio::test]
async fn a_loopback_address_lets_in_only_who_has_the_token() {
    let world = World::new().await;
    let config = world.config().set("log.filter", "trace");
    let token = config.file("seal.token", format!("{TOKEN}\n"));
    let config = config.set("sealing.listen", "127.0.0.1:0").set("sealing.token_file", text(&token));
    let daemon = Daemon::start(&config).await;
    let line = daemon.line(0, &["sealing listening", "127.0.0.1:"]).await;
    let port: String =
        line.split("127.0.0.1:").nth(1).expect("it was looked for").chars().take_while(char::is_ascii_digit).collect();
    let address = format!("127.0.0.1:{port}");
    let post = async |token: Option<&str>| {
        let stream = TcpStream::connect(&address).await.expect("the listener is there");
        ask(stream, "POST /seal", token, &registration(URL).to_string()).await
    };
    assert_eq!(post(Some(TOKEN)).await.status, 200);
    for token in [None, Some(WRONG), Some(""), Some(&TOKEN[1..])] {
        let reply = post(token).await;
        assert_eq!(reply.status, 401, "{reply:?}");
        assert!(reply.head.contains("www-authenticate: bearer"), "{reply:?}");
    }
    config.file("seal.token", WRONG);
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    assert_eq!((post(Some(TOKEN)).await.status, post(Some(WRONG)).await.status), (401, 200));
    // A reload that takes the token away shuts everybody out.
    config.clone().unset("sealing.token_file").unset("sealing.listen").write();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    assert_eq!((post(Some(WRONG)).await.status, post(None).await.status), (401, 401));
    let metrics = daemon.metrics().await;
    assert_eq!(metrics.total("outboxd_sealing_requests_total", &[("result", "unauthorized")]), 7.0);
    daemon.signal(Signal::SIGTERM);
    let ended = daemon.wait_exit(PATIENCE).await;
    for canary in [TOKEN, WRONG, "canary", &world.key.hex()] {
        assert!(!ended.output.contains(canary) && !metrics.text.contains(canary), "{canary} got out");
    }
}

#[tokio::test]
async fn a_reloaded_key_seals_from_then_on() {
    let world = World::new().await;
    let (config, path) = on_socket(world.config());
    let daemon = Daemon::start(&config).await;
    let post = async || ask(connect(&path).await, "POST /seal", None, &registration(URL).to_string()).await.json();
    let before = post().await;
    let next = config.file("next.key", EnvelopeKey::new().hex());
    let config = config.clone().set("envelope.key_files", vec![text(&next), text(&config.path("envelope.key"))]);
    config.write();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    let after = post().await;
    assert_ne!(before["key"], after["key"]);
    for (answer, place) in [(&before, 2), (&after, 1)] {
        let mut row = registration(URL);
        row.as_object_mut().expect("an object").extend(answer.as_object().expect("an object").clone());
        let opened = outboxd(&config, &["open"], row.to_string()).await;
        assert_eq!(lines(&opened.stdout)[0]["key_place"], place);
    }
}

#[tokio::test]
async fn the_drain_ends_the_listener_but_not_an_answer_that_is_under_way() {
    let world = World::new().await;
    let (config, path) = on_socket(world.config());
    let daemon = Daemon::start(&config).await;
    let item = registration(URL).to_string();
    let mut stream = connect(&path).await;
    // The interim answer shows that the request is being read, and not only that it was sent.
    let expecting = head("POST /seal", None, item.len()).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    stream.write_all(expecting.as_bytes()).await.expect("the head is taken");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.expect("an interim answer");
    assert!(interim.starts_with(b"HTTP/1.1 100 Continue"));
    let idle = connect(&path).await;
    daemon.signal(Signal::SIGTERM);
    daemon.line(0, &["draining"]).await;
    stream.write_all(item.as_bytes()).await.expect("the body is taken");
    let reply = reply(&mut stream).await;
    assert_eq!((reply.status, &reply.json()["kind"]), (200, &json!("registration")), "{reply:?}");
    let ended = daemon.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    assert!(!path.exists(), "the socket's file was left behind");
    drop(idle);
}

#[tokio::test]
async fn a_socket_that_a_killed_daemon_left_is_replaced_and_one_in_use_is_not() {
    let world = World::new().await;
    let (config, path) = on_socket(world.config());
    let daemon = Daemon::start(&config).await;
    let second = Daemon::spawn(&config).wait_exit(PATIENCE).await;
    assert_eq!(second.code, Some(71), "{}", second.output);
    assert!(second.output.contains("sealing.listen") && second.output.contains("another process"), "{}", second.output);
    daemon.kill().await;
    assert!(path.exists());
    let _daemon = Daemon::start(&config).await;
    assert_eq!(ask(connect(&path).await, "POST /seal", None, &registration(URL).to_string()).await.status, 200);
    let occupied = config.file("occupied", "not a socket");
    let other = config.clone().set("sealing.listen", format!("unix:{}", text(&occupied)));
    let refused = Daemon::spawn(&other).wait_exit(PATIENCE).await;
    assert!(refused.code == Some(71) && refused.output.contains("something else"), "{}", refused.output);
    assert_eq!(std::fs::read(&occupied).expect("it is still there"), b"not a socket");
}

#[tokio::test]
async fn a_token_that_is_none_is_refused_at_the_start() {
    let world = World::new().await;
    let config = world.config();
    for (name, content) in [("short", "canary-short"), ("spaced", "canary token of two words"), ("empty", "\n")] {
        let token = config.file(name, content);
        let config = config.clone().set("sealing.token_file", text(&token));
        let ended = Daemon::command(&config, &["run"]).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(78), "{}", ended.output);
        assert!(ended.output.contains("sealing.token_file") && !ended.output.contains("canary"), "{}", ended.output);
    }
}
