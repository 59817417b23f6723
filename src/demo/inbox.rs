//! `outboxd receive --demo`: the real receiver over a throwaway Postgres, senders that repeat themselves, one that changes
//! its mind, and a kill in the middle. Counts what was promised. Leaves nothing behind.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::{Home, host, migrate, say, start, start_postgres, stop};
use crate::hex;

const PATH: &str = "/v1/localization/terminal-notifications";
const PATIENCE: Duration = Duration::from_secs(30);
const SENDERS: usize = 16;
const NOTIFICATIONS: usize = 400;
/// Every so many notifications, one comes back changed under the same event.
const CHANGED_EVERY: usize = 10;

pub(crate) async fn run() -> anyhow::Result<()> {
    println!(
        "outboxd receive --demo: a throwaway Postgres, the real receiver and {SENDERS} senders; all removed at the end.\n"
    );
    let home = Home::new()?;
    let postgres = start_postgres().await?;
    let binary = std::env::current_exe().context("cannot find the outboxd binary")?;
    let sender = Sender::new(&home.0);
    host::write_private(&home.0.join("credentials.json"), sender.credentials().as_bytes())?;
    let config = home.0.join("outboxd.toml");
    host::write_private(&config, settings(&postgres.url("postgres"), &home.0).as_bytes())?;
    migrate(&binary, &config).await?;
    say("tables", "made by outboxd migrate");
    let outcome = play(&binary, &home.0, &config, sender).await;
    tokio::task::spawn_blocking(move || drop(postgres)).await?;
    let sums = match outcome {
        Ok(sums) => sums,
        Err(error) => bail!("{error:#}\n{}", home.tail("receive")),
    };
    println!("\n{}", sums.page());
    if sums.kept() { Ok(()) } else { bail!("a promise was not kept; see the figures above") }
}

async fn play(binary: &Path, home: &Path, config: &Path, mut sender: Sender) -> anyhow::Result<Sums> {
    let mut receiver = start(binary, home, "receive", config)?;
    sender.discover().await?;
    say("receiver", "outboxd receive on a unix socket; its capabilities are known to the senders");
    let began = Instant::now();
    let events: Vec<String> = (0..NOTIFICATIONS).map(|n| format!("event-{n}")).collect();
    let mut sums = Sums::default();
    let (before, behind) = events.split_at(NOTIFICATIONS / 2);
    sender.send_all(before, &mut sums).await;
    // The next ones are on their way when it goes.
    let kill = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        receiver.start_kill()
    };
    let ((), killed) = futures_util::future::join(sender.send_all(behind, &mut sums), kill).await;
    killed?;
    receiver.wait().await?;
    say("kill -9", &format!("{} acknowledged by then, {} without an answer", sums.acks.len(), sums.unanswered));
    receiver = start(binary, home, "receive", config)?;
    sender.discover().await?;
    // All of them again: what was stored converges, what was not is stored now.
    let acknowledged = sums.acks.len();
    sender.send_all(&events, &mut sums).await;
    say("again", &format!("all {NOTIFICATIONS}, of which {acknowledged} had been acknowledged before"));
    for event in events.iter().step_by(CHANGED_EVERY) {
        let (status, _) = sender.send(&body(event, "another-plan")).await?;
        sums.changed_refused += u64::from(status == 409);
    }
    sums.took = began.elapsed();
    stop(&mut receiver).await?;
    Ok(sums)
}

#[derive(Default)]
struct Sums {
    /// The first acknowledgement of each event.
    acks: HashMap<String, Bytes>,
    converged: u64,
    differing: u64,
    unanswered: u64,
    changed_refused: u64,
    took: Duration,
}

impl Sums {
    fn count(&mut self, event: &str, answer: anyhow::Result<(u16, Bytes)>) {
        let Ok((200, ack)) = answer else {
            self.unanswered += 1;
            return;
        };
        match self.acks.get(event) {
            None => drop(self.acks.insert(event.to_owned(), ack)),
            Some(first) if *first == ack => self.converged += 1,
            Some(_) => self.differing += 1,
        }
    }

    fn lost(&self) -> usize {
        NOTIFICATIONS - self.acks.len()
    }

    fn kept(&self) -> bool {
        self.lost() == 0 && self.differing == 0 && self.changed_refused == (NOTIFICATIONS / CHANGED_EVERY) as u64
    }

    fn page(&self) -> String {
        format!(
            "  notifications   {NOTIFICATIONS} sent, {lost} lost, in {took:.1} s and through one kill -9\n\
             \x20 replays         {converged} converged on the very same bytes, {differing} did not\n\
             \x20 changed data    {refused} of {changed} refused with 409\n",
            lost = self.lost(),
            took = self.took.as_secs_f64(),
            converged = self.converged,
            differing = self.differing,
            refused = self.changed_refused,
            changed = NOTIFICATIONS / CHANGED_EVERY,
        )
    }
}

fn settings(database_url: &str, home: &Path) -> String {
    let home = home.display();
    format!(
        "[database]\nurl = {database_url:?}\n\
         [receive]\nprofile = \"terminal-notification\"\nlisten = \"unix:{home}/inbox.sock\"\n\
         [receive.terminal]\norigin = \"https://demo.invalid\"\nrequire_https = false\n\
         credentials_file = \"{home}/credentials.json\"\n\
         [admin]\nlisten = \"\"\n[log]\nformat = \"text\"\n"
    )
}

/// A source CMS, with a token for each of the two operations that it asks for.
struct Sender {
    socket: PathBuf,
    tokens: [String; 2],
    capabilities_sha256: String,
}

impl Sender {
    fn new(home: &Path) -> Sender {
        let token = || hex::encode(&crate::secret::random::<32>());
        Sender { socket: home.join("inbox.sock"), tokens: [token(), token()], capabilities_sha256: String::new() }
    }

    fn credentials(&self) -> String {
        let scopes = ["terminal-notification:write", "terminal-notification-capabilities:read"];
        let entries = self.tokens.iter().zip(scopes).map(|(token, scope)| {
            json!({"token_sha256": sha256(token.as_bytes()), "principal": {
                "schema": "blun.cms-source-terminal-notification-principal.v1", "principal_id": "demo-cms",
                "credential_id": "demo-key", "credential_version": "v1", "scope": scope, "site_id": "demo-site",
            }})
        });
        json!({ "credentials": entries.collect::<Vec<Value>>() }).to_string()
    }

    /// Waits until the receiver answers, and learns what it can do.
    async fn discover(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let request = http::Request::get(format!("{PATH}/capabilities"))
                .header("authorization", format!("Bearer {}", self.tokens[1]))
                .body(Full::default())?;
            match self.ask(request).await {
                Ok((200, body)) => {
                    let value: Value = serde_json::from_slice(&body)?;
                    let digest = value["capabilities"]["sha256"].as_str().context("capabilities without a digest")?;
                    digest.clone_into(&mut self.capabilities_sha256);
                    return Ok(());
                }
                Ok((status, _)) => bail!("the receiver answers {status} to discovery"),
                Err(error) if began.elapsed() > PATIENCE => return Err(error.context("the receiver does not answer")),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn send_all(&self, events: &[String], sums: &mut Sums) {
        for batch in events.chunks(SENDERS) {
            let bodies: Vec<String> = batch.iter().map(|event| body(event, "plan")).collect();
            let answers = join_all(bodies.iter().map(|body| self.send(body))).await;
            for (event, answer) in batch.iter().zip(answers) {
                sums.count(event, answer);
            }
        }
    }

    async fn send(&self, body: &str) -> anyhow::Result<(u16, Bytes)> {
        let value: Value = serde_json::from_str(body)?;
        let id = value["notification_id"].as_str().context("a notification without an id")?;
        let request = http::Request::post(PATH)
            .header("authorization", format!("Bearer {}", self.tokens[0]))
            .header("content-type", "application/json; charset=utf-8")
            .header("content-length", body.len())
            .header("idempotency-key", id)
            .header("x-localization-terminal-notification-id", id)
            .header("x-localization-terminal-notification-sha256", sha256(body.as_bytes()))
            .header("x-localization-capabilities-sha256", &self.capabilities_sha256)
            .body(Full::new(Bytes::from(body.to_owned())))?;
        self.ask(request).await
    }

    async fn ask(&self, mut request: http::Request<Full<Bytes>>) -> anyhow::Result<(u16, Bytes)> {
        request.headers_mut().insert("host", http::HeaderValue::from_static("demo.invalid"));
        let stream = TokioIo::new(UnixStream::connect(&self.socket).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        tokio::spawn(connection);
        let reply = sender.send_request(request).await?;
        Ok((reply.status().as_u16(), reply.into_body().collect().await?.to_bytes()))
    }
}

/// serde_json sorts names and writes no blanks, which for ASCII is the canonical form.
fn body(event: &str, plan: &str) -> String {
    let mut value = json!({
        "schema": "blun.cms-source-terminal-notification.v1", "event_id": event, "site_id": "demo-site",
        "plan_id": plan, "website_version": "release-1", "source_sequence": 1, "job_count": 1,
        "change_sha256": "a".repeat(64), "lifecycle_binding_sha256": "b".repeat(64),
        "terminal_status": "published", "lifecycle_sha256": "c".repeat(64),
    });
    value["notification_id"] = format!("terminal-{}", sha256(value.to_string().as_bytes())).into();
    value.to_string()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}
