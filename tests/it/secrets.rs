//! What must stay secret appears nowhere that an operator, a collector or a later reader of the table looks.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::cluster::OutboxRow;
use crate::support::config::text;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::receiver::Answer;
use crate::support::seal::Draft;
use crate::support::world::World;

/// Each stands for a kind of secret, and is long enough never to occur by chance.
const TOKEN: &str = "canary-token-5d1f0c5e";
const BODY: &str = "canary-body-93ab11d0";
const PATH: &str = "canary-path-77e0a1b2";
const QUERY: &str = "canary-query-0b9c8d7e";
const BEARER: &str = "canary-bearer-c0ffee12";
const HMAC: &str = "canary-hmac-1badb002";
const PASSWORD: &str = "canary-password-8badf00d";
/// Said by the receiver.
const REPLY_BODY: &str = "canary-reply-body-deadbeef";
const REPLY_HEADER: &str = "canary-reply-header-feedface";
const REASON: &str = "canary_challenge_0ddba11";

pub fn canaries(world: &World) -> Vec<String> {
    let mut all: Vec<String> =
        [TOKEN, BODY, PATH, QUERY, BEARER, HMAC, PASSWORD, REPLY_BODY, REPLY_HEADER, REASON].map(String::from).into();
    all.push(world.key.hex());
    all.push(STANDARD.encode(world.key.0));
    all.push(URL_SAFE_NO_PAD.encode(world.key.0));
    all.push(world.signer.private_jwk()["d"].as_str().expect("a private key has d").to_string());
    all.push(world.signer.pem().lines().nth(1).expect("PEM has a second line").to_string());
    let jwk = world.signer.private_jwk();
    let seed = URL_SAFE_NO_PAD.decode(jwk["d"].as_str().expect("a private key has d")).expect("base64url");
    for bytes in [world.key.0.as_slice(), &seed] {
        all.push(hex(bytes));
        // As a derived Debug would print them.
        let list = format!("{:?}", &bytes[..8]);
        all.push(list.trim_matches(['[', ']']).to_owned());
    }
    all
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn assert_clean(canaries: &[String], place: &str, text: &str) {
    for canary in canaries {
        let line = text.lines().find(|line| line.contains(canary.as_str()));
        assert_eq!(line, None, "{canary} is in {place}");
    }
}

/// Deliveries, refusals, quarantines and failures of every stage, with secrets in all that rows hold and the receiver says.
/// So many rows.
pub async fn insert_secrets(world: &World) -> usize {
    world.receiver.answer(|target, _| {
        let reply = |status| Answer::status(status).header("X-Reply", REPLY_HEADER).body(REPLY_BODY);
        match target {
            target if target.contains("/gone") => reply(410),
            target if target.contains("/unauthorized") => {
                reply(401).header("WWW-Authenticate", &format!("Signature error=\"{REASON}\""))
            }
            target if target.contains("/moved") => reply(302).header("Location", &format!("https://x/{REPLY_HEADER}")),
            target if target.contains("/garbage") => {
                Answer::Garbage(format!("{REPLY_HEADER}\r\n{REPLY_BODY}\r\n\r\n").into())
            }
            target if target.contains("/close") => Answer::Close,
            _ => reply(200),
        }
    });
    let drafts = drafts(world);
    let count = drafts.len();
    let mut sealed = world.seal(drafts);
    sealed.last_mut().expect("there are rows").encrypted_body[0] ^= 1;
    world.database.insert(&sealed).await;
    count
}

/// Each of them once.
pub async fn all_attempted(world: &World) -> Vec<OutboxRow> {
    eventually("every row was attempted or settled", async || {
        let rows = world.database.rows().await;
        match rows.iter().find(|row| row.state == "in_flight" || (row.state == "pending" && !row.attempted)) {
            None => Ok(rows),
            Some(row) => Err(row.clone()),
        }
    })
    .await
}

fn drafts(world: &World) -> Vec<Draft> {
    let to = |kind: &str| {
        let mut draft = Draft::to(world.receiver.url(&format!("/{PATH}/{kind}?q={QUERY}")));
        draft.token = Some(TOKEN.into());
        draft.result = json!({"secret": BODY});
        draft
    };
    let elsewhere = |url: String| Draft { url, ..to("elsewhere") };
    vec![
        to("ok"),
        to("gone"),
        to("unauthorized"),
        to("garbage"),
        to("close"),
        to("moved"),
        to("ok").authentication("Bearer", BEARER),
        to("unauthorized").authentication("Bearer", &format!("{BEARER}é")),
        to("ok").authentication("HMAC-SHA256", HMAC),
        elsewhere(format!("https://absent.example.com/{PATH}?{QUERY}")),
        elsewhere(format!("https://user:{PASSWORD}@127.0.0.1/{PATH}")),
        elsewhere(format!("https://[::1/{PATH}")),
        elsewhere(format!("https://10.0.0.1/{PATH}?{QUERY}")),
        elsewhere(format!("https://127.0.0.1:9/{PATH}?{QUERY}")),
    ]
}

#[tokio::test]
async fn p14_no_secret_is_in_any_log_line_metric_or_last_error() {
    for format in ["text", "json"] {
        let world = World::new().await;
        let canaries = canaries(&world);
        let count = insert_secrets(&world).await;
        let config = world.config();
        let password = config.file("password", PASSWORD);
        let config = config
            .set("database.password_file", text(&password))
            .set("envelope.legacy_hmac", true)
            .set("log.filter", "trace")
            .set("log.format", format)
            .set("retry.base", "1m");
        let daemon = Daemon::start(&config).await;
        let rows = all_attempted(&world).await;
        assert_eq!(rows.len(), count);
        let errors: Vec<String> = rows.into_iter().filter_map(|row| row.last_error).collect();
        assert!(errors.len() >= 10, "{errors:?}");
        assert_clean(&canaries, "last_error", &errors.join("\n"));
        assert_clean(&canaries, "a metric", &daemon.metrics().await.text);
        for path in ["/readyz", "/livez"] {
            assert_clean(&canaries, path, &daemon.get(path).await.expect("the admin listener answers").1);
        }
        daemon.signal(Signal::SIGHUP);
        daemon.signal(Signal::SIGTERM);
        let ended = daemon.wait_exit(PATIENCE).await;
        assert!(ended.output.contains("DEBUG"), "no attempt was logged: {}", ended.output);
        assert_clean(&canaries, "the log", &ended.output);
    }
}

#[tokio::test]
async fn no_secret_is_in_an_error_message_about_itself() {
    let world = World::new().await;
    let canaries = canaries(&world);
    let good = world.config();
    let broken_pem = world.signer.pem().replace("-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nx");
    let short = good.file("short.key", &world.key.hex()[..62]);
    let key = good.file("twice.key", format!("{}{}", world.key.hex(), world.key.hex()));
    let pem = good.file("broken.pem", broken_pem);
    let url = format!("postgresql://postgres:{PASSWORD}@localhost:no-port/none");
    let mut canaries = canaries;
    canaries.push(world.key.hex()[..62].to_string());
    let cases = [
        good.clone().set("envelope.key_files", vec![text(&short)]),
        good.clone().set("envelope.key_files", vec![text(&key)]),
        good.clone().set("signing.key_file", text(&pem)),
        good.clone().environment("OUTBOXD_ENVELOPE__KEYS", &format!("{},{TOKEN}", world.key.hex())),
        good.clone().environment("OUTBOXD_DATABASE__URL", &url),
        good.clone().set("database.url", format!("postgresql://postgres:{PASSWORD}@/none?host=/tmp")),
    ];
    for config in cases {
        for command in ["run", "check"] {
            let ended = Daemon::command(&config, &[command]).wait_exit(PATIENCE).await;
            assert!(ended.code.is_some_and(|code| code > 0), "{command} took it: {}", ended.output);
            assert_clean(&canaries, command, &ended.output);
        }
    }
}
