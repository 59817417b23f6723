//! The contract's cases over real HTTP against the binary and Postgres: the rules of the vectors' own replay, and no
//! mismatch but those that are listed here with what we answer.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::cluster::{self, Database};
use crate::support::config::Config;
use crate::support::inbox::{self, Answer, Inbox, sha256};
use crate::support::keys::{self, SigningKey};
use crate::support::link::Link;

const CASES: &str = include_str!("../vectors/cms/cases.json");
const FIXED_HEADERS: [(&str, &str); 4] = [
    ("content-type", "application/json; charset=utf-8"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
];

/// Marked cases that we answer otherwise than the reference's harness, and why that is right.
const ANSWERED_OTHERWISE: &[(&str, &str, &str)] = &[
    // Repeated fields are not joined here, so that the rule of one value for each name shows.
    ("headers/80-repeats-of-one-name", "400 headers_invalid", "one value for each name"),
    ("headers/duplicate-sha", "400 headers_invalid", "one value for each name"),
    ("headers/duplicate-capabilities", "400 headers_invalid", "one value for each name"),
    ("headers/duplicate-content-type", "400 headers_invalid", "one value for each name"),
    ("headers/duplicate-content-length", "400 headers_invalid", "one value for each name, also where both are equal"),
    ("binding/underscore-name", "400 header_binding_invalid", "a name with _ is another name"),
    // Not HTTP: refused by the server with a bare 400 before any profile sees them.
    ("headers/content-length/plus-sign", "400", "no length"),
    ("headers/content-length/minus", "400", "no length"),
    ("headers/content-length/hex", "400", "no length"),
    ("headers/content-length/float", "400", "no length"),
    ("headers/content-length/comma", "400", "no length"),
    ("headers/content-length/word", "400", "no length"),
    ("headers/content-length/underscore", "400", "no length"),
    ("headers/content-length/superscript-two", "400", "no length"),
    ("headers/obs-fold", "400", "RFC 9112 5.2: a server must refuse it"),
    ("headers/control-char-value", "400", "RFC 9110 5.5: invalid and dangerous"),
    // Quirks that are mended.
    ("semantics/terminal-status/empty-list", "400 request_invalid", "a body that is wrong for ever is no 503"),
    ("semantics/terminal-status/object", "400 request_invalid", "a body that is wrong for ever is no 503"),
];

/// What a bad row would do to the others in the reference, and does not do here.
const UNRELATED: [&str; 2] =
    ["storage/app-inbox-row-tampered#2-unrelated-blocked", "storage/app-processing-row-forged#2-unrelated-blocked"];

fn vectors() -> Value {
    serde_json::from_str(CASES).expect("the vectors are JSON")
}

fn configured(vectors: &Value, database_url: &str) -> Config {
    let tokens = vectors["meta"]["tokens"].as_object().expect("a table");
    let tokens: Vec<(&str, Option<Value>)> = tokens
        .iter()
        .map(|(token, principal)| {
            // What throws in the harness is an entry that says nobody here.
            (token.as_str(), Some(principal.clone()).filter(|principal| principal.get("__raise__").is_none()))
        })
        .collect();
    inbox::with_tokens(inbox::config(database_url), &tokens)
}

/// As the vectors write requests: every character a byte of the same number.
fn written(case: &Value) -> Vec<u8> {
    let text = |name: &str| case[name].as_str().unwrap_or_default();
    let query = match text("query") {
        "" => String::new(),
        query => format!("?{query}"),
    };
    let target = case["target"].as_str().map_or_else(|| format!("{}{query}", text("path")), str::to_string);
    let mut head = format!("{} {target} HTTP/1.1\r\n", text("method"));
    for pair in case["headers"].as_array().expect("a list") {
        head += &format!("{}: {}\r\n", pair[0].as_str().expect("a name"), pair[1].as_str().expect("a value"));
    }
    head += "\r\n";
    let mut bytes: Vec<u8> = head.chars().map(|char| u8::try_from(char).expect("latin-1")).collect();
    bytes.extend(base64::engine::general_purpose::STANDARD.decode(text("body_b64")).expect("base64"));
    bytes
}

/// What is not as the case has it.
fn problems(case: &Value, answer: &Answer) -> Vec<String> {
    let want = &case["expect"];
    let mut problems = Vec::new();
    if u64::from(answer.status) != want["status"].as_u64().expect("a status") {
        problems.push(format!("status {} instead of {}", answer.status, want["status"]));
    }
    for (name, value) in FIXED_HEADERS {
        if answer.header(name) != Some(value) {
            problems.push(format!("{name} is {:?}", answer.header(name)));
        }
    }
    for (name, _) in &answer.headers {
        let fixed = FIXED_HEADERS.iter().any(|(fixed, _)| fixed == name);
        if !fixed && !["content-length", "connection"].contains(&name.as_str()) {
            problems.push(format!("there is a field {name}"));
        }
    }
    if case["method"] == "HEAD" {
        return problems;
    }
    if answer.header("content-length") != Some(&answer.body.len().to_string()) {
        problems.push(format!("content-length is {:?} for {}", answer.header("content-length"), answer.body.len()));
    }
    let body = String::from_utf8_lossy(&answer.body);
    if want["openapi_sha256"].is_string() {
        problems.extend(openapi_problems(&answer.json()));
    } else if let Some(exact) = want["ack"].as_str().or_else(|| want["error_code"].as_str().and(want["body"].as_str()))
    {
        if body != exact {
            problems.push(format!("{body:.300} instead of {exact}"));
        }
    } else {
        let wanted = want["body"].as_str().expect("a body");
        let volatile: Vec<&str> = case["volatile"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (mut have, mut parsed) = (answer.json(), serde_json::from_str::<Value>(wanted).expect("JSON"));
        let mut ignored = false;
        for value in [&mut have, &mut parsed] {
            if let Some(members) = value.as_object_mut() {
                let before = members.len();
                // The reference's clock stands still; ours is the database's.
                members.retain(|name, _| !volatile.contains(&name.as_str()) && !name.ends_with("_at"));
                ignored |= members.len() != before;
            }
        }
        if have != parsed || (!ignored && body != wanted) {
            problems.push(format!("{body:.600} instead of {wanted}"));
        }
    }
    problems
}

/// The prose of the document is ours, and so is its digest: it must only agree with itself.
fn openapi_problems(envelope: &Value) -> Vec<String> {
    let document = &envelope["openapi"];
    let members: Vec<&str> = envelope.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let checks = [
        ("envelope", members == ["capabilities_sha256", "openapi", "openapi_sha256", "schema"]),
        ("digest", envelope["openapi_sha256"] == sha256(document.to_string().as_bytes())),
        ("version", document["openapi"] == "3.1.0"),
        ("schema", document["x-schema"] == "blun.cms-terminal-receiver-openapi.v2"),
        ("binding", document["x-capabilities-sha256"] == envelope["capabilities_sha256"]),
    ];
    checks.iter().filter(|(_, holds)| !holds).map(|(what, _)| format!("openapi {what}")).collect()
}

/// What a replay came to.
#[derive(Default)]
struct Outcome {
    ran: usize,
    /// By name: what was answered, of marked cases that were answered otherwise.
    otherwise: BTreeMap<String, String>,
    wrong: Vec<String>,
}

impl Outcome {
    fn judge(&mut self, case: &Value, answer: Option<&Answer>, received: i64) {
        self.ran += 1;
        let name = case["name"].as_str().expect("a name");
        let Some(answer) = answer else {
            self.wrong.push(format!("{name}: no answer"));
            return;
        };
        let problems = problems(case, answer);
        if problems.is_empty() {
            return;
        }
        if case["transport"].is_string() {
            // The vectors' rule: any 4xx with nothing stored.
            if (400..500).contains(&answer.status) && received == 0 {
                self.otherwise.insert(name.into(), answer.summary());
                return;
            }
        } else if case["quirk"].is_string() {
            self.otherwise.insert(name.into(), answer.summary());
            return;
        }
        self.wrong.push(format!("{name}: {}", problems.join("; ")));
    }
}

/// Every case of a configuration, in the order of the file, on one inbox. `between` runs after the first case of each
/// group.
async fn replay(vectors: &Value, config: &str, inbox: &Inbox, between: &[&str]) -> Outcome {
    let mut outcome = Outcome::default();
    for case in vectors["cases"].as_array().expect("a list").iter().filter(|case| case["config"] == config) {
        let before = inbox.received().await;
        let answer = inbox.ask(&written(case)).await;
        outcome.judge(case, answer.as_ref(), inbox.received().await - before);
        if case["index"] == 0 {
            for sql in between {
                inbox.database.execute(sql, &[]).await;
            }
        }
    }
    outcome
}

#[tokio::test]
async fn every_case_is_answered_as_the_contract_has_it() {
    let vectors = vectors();
    let database = Database::new().await;
    let config = configured(&vectors, &database.url);
    let inbox = Inbox::over(database, &config).await;
    let outcome = replay(&vectors, "default", &inbox, &[]).await;
    assert!(outcome.wrong.is_empty(), "{} of {}:\n{}", outcome.wrong.len(), outcome.ran, outcome.wrong.join("\n"));
    let listed: BTreeMap<String, String> =
        ANSWERED_OTHERWISE.iter().map(|(name, answer, _)| (name.to_string(), answer.to_string())).collect();
    assert_eq!(outcome.otherwise, listed);
    assert_eq!(outcome.ran, 484);
}

/// A configuration on an inbox of its own, with every case as the contract has it.
async fn holds(name: &str, cases: usize, change: impl FnOnce(Config) -> Config, between: &[&str]) {
    let vectors = vectors();
    let database = Database::new().await;
    let config = change(configured(&vectors, &database.url));
    let inbox = Inbox::over(database, &config).await;
    let mut outcome = replay(&vectors, name, &inbox, between).await;
    outcome.wrong.retain(|wrong| !UNRELATED.iter().any(|mended| wrong.starts_with(&format!("{mended}: status 200"))));
    assert!(outcome.wrong.is_empty(), "{name}: {}", outcome.wrong.join("\n"));
    assert!(outcome.otherwise.is_empty(), "{name}: {:?}", outcome.otherwise);
    assert_eq!(outcome.ran, cases, "{name}");
}

#[tokio::test]
async fn plain_text_is_refused_where_https_is_required() {
    holds("https-required", 4, |config| config.set("receive.terminal.require_https", true), &[]).await;
}

#[tokio::test]
async fn control_paths_stay_where_they_are_when_intake_moves() {
    let moved = |config: Config| config.set("receive.terminal.intake_path", "/receiver/v2/terminal");
    holds("custom-path", 3, moved, &[]).await;
}

#[tokio::test]
async fn a_failed_notification_is_shown_by_health_and_closes_nothing() {
    let fail = "UPDATE cms_terminal_notification_processing \
                SET status = 'failed', attempts = 1, last_error_code = 'handler.rejected'";
    holds("inbox-one-failed-unmanaged", 7, |config| config, &[fail]).await;
}

#[tokio::test]
async fn a_damaged_row_answers_for_itself_and_not_for_others() {
    let constraint = |table: &str, name: &str| format!("ALTER TABLE {table} DROP CONSTRAINT {table}_{name}");
    let open = constraint("cms_terminal_notification_inbox", "bound");
    let tamper = "UPDATE cms_terminal_notification_inbox SET site_id = 'tampered'";
    holds("app-inbox-row-tampered", 3, |config| config, &[&open, tamper]).await;
    let open = constraint("cms_terminal_notification_processing", "lawful");
    let forge = "UPDATE cms_terminal_notification_processing SET last_error_code = 'forged.error'";
    holds("app-processing-row-forged", 3, |config| config, &[&open, forge]).await;
}

fn case<'a>(vectors: &'a Value, name: &str) -> &'a Value {
    let mut cases = vectors["cases"].as_array().expect("a list").iter();
    cases.find(|case| case["name"] == name).unwrap_or_else(|| panic!("there is no case {name}"))
}

#[tokio::test]
async fn storage_that_is_locked_or_away_is_a_503_and_a_replay_converges() {
    let vectors = vectors();
    let database = Database::new().await;
    let link = Link::down();
    link.mend();
    let config = configured(&vectors, &link.url(&database.name)).set("database.statement_timeout", "3s");
    let inbox = Inbox::over(database, &config).await;

    let locked = case(&vectors, "storage/app-db-locked");
    let other = cluster::connect(&inbox.database.url).await;
    other.batch_execute("BEGIN; LOCK TABLE cms_terminal_notification_inbox").await.expect("nobody else has it");
    let answer = inbox.ask(&written(locked)).await.expect("an answer");
    assert_eq!(problems(locked, &answer), Vec::<String>::new());
    other.batch_execute("ROLLBACK").await.expect("it is open");
    assert_eq!(inbox.ask(&written(locked)).await.expect("an answer").status, 200);

    link.cut();
    // The harness answers `internal` for it: one of the quirks, and the same status.
    let closed = inbox.ask(&written(case(&vectors, "storage/app-db-closed"))).await.expect("an answer");
    assert_eq!(closed.summary(), "503 storage_unavailable");
    let unknown = case(&vectors, "storage/unauthenticated-before-storage");
    let answer = inbox.ask(&written(unknown)).await.expect("an answer");
    assert_eq!(problems(unknown, &answer), Vec::<String>::new());
    link.mend();
    inbox.daemon.ready().await;
    assert_eq!(inbox.ask(&written(case(&vectors, "storage/app-db-closed"))).await.expect("an answer").status, 200);
    assert_eq!(inbox.received().await, 2);
}

/// The request under a signature of this key in place of its token.
fn signed(key: &SigningKey, body: &str) -> Vec<u8> {
    let digest = ring::digest::digest(&ring::digest::SHA256, body.as_bytes());
    let digest = format!("sha-256=:{}:", STANDARD.encode(digest));
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is past 1970").as_secs();
    let parameters = format!(
        "(\"@method\" \"@target-uri\" \"@authority\" \"content-type\" \"content-digest\");created={created};\
         expires={};nonce=\"{}\";keyid=\"{}\";alg=\"{}\";tag=\"outboxd/terminal-notification-request/v1\"",
        created + 300,
        keys::hex(&keys::random::<16>()),
        key.kid,
        key.algorithm.name(),
    );
    let base = format!(
        "\"@method\": POST\n\"@target-uri\": https://cms.example.test{}\n\"@authority\": cms.example.test\n\
         \"content-type\": application/json; charset=utf-8\n\"content-digest\": {digest}\n\
         \"@signature-params\": {parameters}",
        inbox::DEFAULT_PATH
    );
    let headers = format!(
        "Connection: close\r\nContent-Digest: {digest}\r\nSignature-Input: sig1={parameters}\r\nSignature: sig1=:{}:\r\n",
        STANDARD.encode(key.sign(base.as_bytes())),
    );
    let request = String::from_utf8(inbox::request(body, &headers)).expect("it is ASCII");
    request.replace("Authorization: Bearer token\r\n", "").into_bytes()
}

#[tokio::test]
async fn a_sender_is_known_by_its_signature_and_nothing_makes_up_for_a_bad_one() {
    let (key, site) = (SigningKey::ed25519("cms-key"), SigningKey::p256("other-site"));
    let inbox = Inbox::start(|config| {
        let entry = |key: &SigningKey, site| {
            let principal = inbox::principal("terminal-notification:write", site);
            serde_json::json!({"jwk": key.public_jwk(), "principal": principal})
        };
        let writer = inbox::principal("terminal-notification:write", "public-site");
        let token = serde_json::json!({"token_sha256": sha256(b"token"), "principal": writer});
        let all = serde_json::json!({"credentials": [entry(&key, "public-site"), token, entry(&site, "other-site")]});
        config.file("credentials.json", all.to_string());
        config
    })
    .await;
    let summary = async |request: Vec<u8>| inbox.ask(&request).await.expect("an answer").summary();
    let body = inbox::body("event-1", "plan");
    assert_eq!(summary(signed(&key, &body)).await, "200");
    assert_eq!(summary(signed(&key, &body)).await, "200");
    assert_eq!(summary(signed(&site, &body)).await, "403 authorization_failed");
    assert_eq!(summary(signed(&SigningKey::ed25519("cms-key"), &body)).await, "401 authentication_failed");
    assert_eq!(summary(signed(&SigningKey::ed25519("nobody"), &body)).await, "401 authentication_failed");
    let digest = "Content-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\n";
    let bad = "Connection: close\r\nSignature-Input: sig1=()\r\nSignature: sig1=:AA==:\r\n";
    assert_eq!(summary(inbox::request(&body, &format!("{bad}{digest}"))).await, "401 authentication_failed");
    assert_eq!(summary(inbox::notification("event-2")).await, "200");
    assert_eq!(inbox.received().await, 2);
}

#[tokio::test]
async fn of_64_senders_at_once_equal_ones_get_one_row_and_colliding_ones_one_winner() {
    let inbox = Inbox::start(|config| config).await;
    let equal = inbox::notification("event-equal");
    let answers = futures_util::future::join_all((0..64).map(|_| inbox.ask(&equal))).await;
    let first = answers[0].clone().expect("an answer");
    assert_eq!(first.status, 200);
    assert!(answers.iter().all(|answer| answer.as_ref() == Some(&first)));
    assert_eq!(inbox.received().await, 1);

    let colliding: Vec<Vec<u8>> = (0..64)
        .map(|n| inbox::request(&inbox::body("event-contested", &format!("plan-{n}")), "Connection: close\r\n"))
        .collect();
    let answers = futures_util::future::join_all(colliding.iter().map(|request| inbox.ask(request))).await;
    let summaries: Vec<String> = answers.iter().flatten().map(Answer::summary).collect();
    assert_eq!(summaries.iter().filter(|summary| *summary == "200").count(), 1, "{summaries:?}");
    assert_eq!(summaries.iter().filter(|summary| *summary == "409 idempotency_collision").count(), 63, "{summaries:?}");
    assert_eq!(inbox.received().await, 2);
    let winner = summaries.iter().position(|summary| summary == "200").expect("there is one");
    assert_eq!(inbox.ask(&colliding[winner]).await, answers[winner]);
}
