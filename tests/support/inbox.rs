//! `outboxd receive` over a database of its own, and requests to it written byte for byte.
//! It deliberately has no HTTP client: what a test sends is what it says.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::cluster::Database;
use super::config::{Config, text};
use super::daemon::Daemon;
use super::eventually::{PATIENCE, within};

pub const DEFAULT_PATH: &str = "/v1/localization/terminal-notifications";
pub const CAPABILITIES_SHA256: &str = "56487bdc181c35bacc01f5009ec22ac80fc579cd2a70952eb2a0879acb72b283";

pub struct Inbox {
    pub database: Database,
    pub daemon: Daemon,
    pub address: SocketAddr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The status and, where it is one, the error's code without its prefix.
    pub fn summary(&self) -> String {
        let value = self.json();
        let code = value["error_code"].as_str().unwrap_or_default();
        format!("{} {}", self.status, code.trim_start_matches("notification_receiver.")).trim().to_string()
    }
}

/// Everything but profile and credentials.
pub fn config(database_url: &str) -> Config {
    Config::empty()
        .set("database.url", database_url)
        .set("admin.listen", "127.0.0.1:0")
        .set("log.filter", "info,outboxd=debug")
        .set("receive.listen", "127.0.0.1:0")
        .set("receive.profile", "terminal-notification")
        .set("receive.terminal.origin", "https://cms.example.test")
        .set("receive.terminal.require_https", false)
}

/// With a credentials file that knows these tokens; a token without a principal is one whose entry has none.
pub fn with_tokens(config: Config, tokens: &[(&str, Option<Value>)]) -> Config {
    let entries: Vec<Value> = tokens
        .iter()
        .map(|(token, principal)| {
            let mut entry = json!({ "token_sha256": sha256(token.as_bytes()) });
            if let Some(principal) = principal {
                entry["principal"] = principal.clone();
            }
            entry
        })
        .collect();
    let file = config.file("credentials.json", json!({ "credentials": entries }).to_string());
    config.set("receive.terminal.credentials_file", text(&file))
}

pub fn principal(scope: &str, site: &str) -> Value {
    json!({
        "schema": "blun.cms-source-terminal-notification-principal.v1", "principal_id": "website-cms",
        "credential_id": "cms-key", "credential_version": "v1", "scope": scope, "site_id": site,
    })
}

/// One writer of `public-site`, `token`.
pub fn with_writer(config: Config) -> Config {
    with_tokens(config, &[("token", Some(principal("terminal-notification:write", "public-site")))])
}

impl Inbox {
    pub async fn start(change: impl FnOnce(Config) -> Config) -> Inbox {
        let database = Database::new().await;
        let config = change(with_writer(config(&database.url)));
        Inbox::over(database, &config).await
    }

    pub async fn over(database: Database, config: &Config) -> Inbox {
        let daemon = Daemon::command(config, &["receive"]);
        daemon.ready().await;
        let address = listening(&daemon).await;
        Inbox { database, daemon, address }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// On a connection of its own, whose sending side is closed after the request.
    pub async fn ask(&self, request: &[u8]) -> Option<Answer> {
        exchange(self.connect().await, request).await
    }

    pub async fn received(&self) -> i64 {
        self.database.value("SELECT count(*) FROM cms_terminal_notification_inbox", &[]).await
    }
}

pub async fn listening(daemon: &Daemon) -> SocketAddr {
    let line = daemon.line(0, &["receiving", "127.0.0.1:"]).await;
    let (_, rest) = line.split_once("127.0.0.1:").expect("it was looked for");
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    SocketAddr::from(([127, 0, 0, 1], port.parse().expect("the port is a number")))
}

/// A valid notification of `public-site` for this event, as a request that closes the connection.
pub fn notification(event: &str) -> Vec<u8> {
    let body = body(event, "plan");
    request(&body, "Connection: close\r\n")
}

pub fn request(body: &str, more: &str) -> Vec<u8> {
    let value: Value = serde_json::from_str(body).expect("a body is JSON");
    let id = value["notification_id"].as_str().expect("it has an id");
    format!(
        "POST {DEFAULT_PATH} HTTP/1.1\r\nHost: receiver.test\r\n{more}Authorization: Bearer token\r\n\
         Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\nIdempotency-Key: {id}\r\n\
         X-Localization-Terminal-Notification-Id: {id}\r\nX-Localization-Terminal-Notification-Sha256: {}\r\n\
         X-Localization-Capabilities-SHA256: {CAPABILITIES_SHA256}\r\n\r\n{body}",
        body.len(),
        sha256(body.as_bytes()),
    )
    .into_bytes()
}

/// serde_json's objects are sorted by name and written without blanks, which for ASCII is the canonical form.
pub fn body(event: &str, plan: &str) -> String {
    let mut value = json!({
        "schema": "blun.cms-source-terminal-notification.v1", "event_id": event, "site_id": "public-site",
        "plan_id": plan, "website_version": "release-42", "source_sequence": 42, "job_count": 23,
        "change_sha256": "a".repeat(64), "lifecycle_binding_sha256": "b".repeat(64),
        "terminal_status": "published", "lifecycle_sha256": "c".repeat(64),
    });
    value["notification_id"] = format!("terminal-{}", sha256(value.to_string().as_bytes())).into();
    value.to_string()
}

pub fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// None where the connection ended without an answer.
pub async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, request: &[u8]) -> Option<Answer> {
    // A server may answer and close before it has read all.
    let _ = stream.write_all(request).await;
    let _ = stream.shutdown().await;
    let mut raw = Vec::new();
    let reading = async {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut piece).await {
            raw.extend_from_slice(&piece[..read]);
        }
    };
    within(PATIENCE, "the end of the answer", reading).await;
    parse(&raw)
}

/// The first final answer in these bytes.
pub fn parse(raw: &[u8]) -> Option<Answer> {
    let end = raw.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = (String::from_utf8_lossy(&raw[..end]).into_owned(), &raw[end + 4..]);
    let mut lines = head.split("\r\n");
    let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    if status < 200 {
        return parse(body);
    }
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
        .collect();
    Some(Answer { status, headers, body: body.to_vec() })
}
