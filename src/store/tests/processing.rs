//! The receiver contract's scenarios (`tests/vectors/cms/processing.json`), each step through the doors and the host's
//! functions, under a clock that the test sets. What differs is a decision, and each is listed with its reason.

use serde_json::{Map, Value, json};
use tokio_postgres::error::SqlState;

use super::inbox::{Sample, UNGUARD, inbox};
use super::*;

const SCENARIOS: &str = include_str!("../../../tests/vectors/cms/processing.json");

/// The clock of a scenario, in place of the database's.
const CLOCK: &str = "create table public.test_clock (now double precision); insert into public.test_clock values (0); \
     create or replace function outboxd._inbox_clock() returns double precision language sql volatile as \
     $$ select now from public.test_clock $$";

/// Where we end otherwise than the reference, by the reason for it.
const DECISIONS: &str = include_str!("../../../tests/vectors/cms/processing-decisions.txt");

/// A result, or what was said instead of one.
type Outcome = Result<Value, String>;

struct Run {
    db: Database,
    claims: Map<String, Value>,
    tokens: Vec<String>,
    max_attempts: i32,
    base_delay: Value,
    max_delay: Value,
}

impl Run {
    async fn new() -> Run {
        let db = inbox().await;
        db.run(CLOCK).await;
        let (claims, tokens) = (Map::new(), Vec::new());
        Run { db, claims, tokens, max_attempts: 5, base_delay: json!(5), max_delay: json!(300) }
    }

    async fn step(&mut self, step: &Value) -> Outcome {
        if let Some(now) = step.get("now") {
            self.set_clock(now).await;
        }
        match step["op"].as_str().expect("every step has an operation") {
            "open" => self.open(&step["config"]).await,
            "accept" => self.accept(step).await,
            "processing_status" => self.processing_status(step).await,
            "status" => self.status(step).await,
            "health" => self.health().await,
            "claim" => {
                let claim = self.claim(step).await?;
                if let (Some(name), false) = (step["as"].as_str(), claim.is_null()) {
                    self.claims.insert(name.to_owned(), claim.clone());
                }
                Ok(self.shown(claim))
            }
            "forge" => Ok(self.forge(step)),
            "complete" => {
                let claim = self.claims[step["claim"].as_str().expect("a claim's name")].clone();
                let answer = response(&claim, &step["response"]);
                self.complete(&claim, answer).await
            }
            "retry" | "fail" => {
                let claim = self.claims[step["claim"].as_str().expect("a claim's name")].clone();
                self.give_up(step["op"] == "retry", &claim, &step["code"]).await
            }
            "run_next" => self.run_next(step).await,
            "sql" => self.sql(step["sql"].as_str().expect("SQL")).await,
            // The reference's own process and its own database file.
            "foreign_process" | "guard_fails" => Err("not ours".into()),
            other => panic!("there is no operation {other}"),
        }
    }

    /// What is no number by itself becomes no time at all.
    async fn set_clock(&self, now: &Value) {
        let now = match now["special"].as_str() {
            Some("nan") => Some(f64::NAN),
            Some("inf") => Some(f64::INFINITY),
            Some(_) => None,
            None => now.as_f64(),
        };
        self.db.client.execute("update public.test_clock set now = $1", &[&now]).await.expect("the clock is set");
    }

    /// One value from one of the host's functions. Numbers and strings that are not of the parameter's type go in as a
    /// host would write them, so that the type can refuse them.
    async fn call(&self, function: &str, arguments: &[String]) -> Outcome {
        let sql = format!("select outboxd.{function}({})::text", arguments.join(", "));
        match self.db.client.query_one(&sql, &[]).await {
            Ok(row) => {
                let text: Option<String> = row.get(0);
                Ok(text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("jsonb is JSON")))
            }
            Err(error) => {
                let error = error.as_db_error().expect("the server answered");
                Err(match *error.code() {
                    SqlState::UNDEFINED_FUNCTION | SqlState::INVALID_TEXT_REPRESENTATION => "refused by type".into(),
                    _ => error.message().to_owned(),
                })
            }
        }
    }

    async fn open(&mut self, config: &Value) -> Outcome {
        let setting = |name: &str, default: Value| config.get(name).cloned().unwrap_or(default);
        let budget = setting("processing_max_attempts", json!(5));
        self.base_delay = setting("processing_base_delay_seconds", json!(5));
        self.max_delay = setting("processing_max_delay_seconds", json!(300));
        let lawful =
            "select cms_terminal_notification_lawful('pending', 0, $1, 0, null, null, null, null, null, 0, 0)::text";
        let fits = match budget.as_i64() {
            Some(budget) => self.db.text(lawful, &[&i32::try_from(budget).expect("small")]).await == "true",
            None => false,
        };
        if !fits {
            return Err("python:ValueError".into());
        }
        self.max_attempts = i32::try_from(budget.as_i64().expect("it fits")).expect("it fits");
        // The delays are arguments here, and are judged before the claim, which is none.
        let delays = [literal(&self.base_delay), literal(&self.max_delay)];
        let [base, max] = delays;
        match self.call("retry_notification", &["null".into(), "'x'".into(), base, max]).await {
            Err(code) if code == "notification_receiver.processing_claim_invalid" => Ok(json!("ok")),
            other => other,
        }
    }

    async fn accept(&self, step: &Value) -> Outcome {
        let sample = Sample::parse(step["body"].as_str().expect("a body"));
        let new = NewNotification { max_attempts: self.max_attempts, ..sample.new_notification() };
        match self.db.store.accept_notification(&new).await.map_err(code)? {
            Accepted::Collision => Err("notification_receiver.idempotency_collision".into()),
            Accepted::Fresh | Accepted::Converged => Ok(json!({
                "schema": "blun.cms-source-terminal-notification-ack.v1",
                "notification_id": new.notification_id,
                "event_id": new.event_id,
                "site_id": new.site_id,
                "status": "accepted",
                "notification_sha256": new.payload_sha256,
            })),
        }
    }

    async fn processing_status(&self, step: &Value) -> Outcome {
        let event = token(&step["event"])?;
        // A library in a process asks its clock first.
        self.call("inbox_clock", &[]).await?;
        let status = self.db.store.read_notification(event).await.map_err(code)?;
        let status = status.ok_or("notification_receiver.not_found")?;
        Ok(json!({
            "notification_id": status.notification_id,
            "event_id": status.event_id,
            "site_id": status.site_id,
            "terminal_status": status.terminal_status,
            "payload_sha256": status.payload_sha256,
            "status": status.processing_status,
            "attempts": status.attempts,
            "max_attempts": status.max_attempts,
            "next_attempt_at": status.next_attempt_at,
            "lease_expires_at": status.lease_expires_at,
            "lease_expired": status.lease_expired,
            "last_error_code": status.last_error_code,
            "processed_at": status.processed_at,
        }))
    }

    /// The receipt alone, which has no door: no operation on the wire tells it.
    async fn status(&self, step: &Value) -> Outcome {
        let event = token(&step["event"])?;
        let sql = "select coalesce(nullif(damage, 'processing_state_invalid'), 'sound'), json_build_object('notification_id', \
             notification_id, 'event_id', event_id, 'site_id', site_id, 'terminal_status', terminal_status, \
             'payload_sha256', payload_sha256, 'received_at', received_at)::text \
             from cms_terminal_notifications where event_id = $1";
        let row = self.db.client.query_opt(sql, &[&event]).await.expect("the view answers");
        let row = row.ok_or("notification_receiver.not_found")?;
        match row.get(0) {
            "sound" => Ok(serde_json::from_str(row.get(1)).expect("JSON")),
            damage => Err(format!("notification_receiver.{damage}")),
        }
    }

    async fn health(&self) -> Outcome {
        self.db.store.sweep_notifications("", 1000).await.map_err(code)?;
        let health = self.db.store.inbox_health().await.map_err(code)?;
        if health.bad_rows > 0 {
            return Err("notification_receiver.processing_state_invalid".into());
        }
        let [pending, leased, retry_wait, succeeded, failed] = health.counts;
        Ok(json!({
            "status": if health.expired > 0 || failed > 0 { "blocked" } else { "ok" },
            "received": health.received,
            "counts": {
                "pending": pending, "leased": leased, "retry_wait": retry_wait, "succeeded": succeeded, "failed": failed,
            },
            "due": health.due,
            "expired_leases": health.expired,
            "failed": failed,
        }))
    }

    async fn claim(&mut self, step: &Value) -> Outcome {
        let mut arguments = vec![literal(&step["worker"])];
        arguments.extend(step.get("lease").map(literal));
        let claim = self.call("claim_notification", &arguments).await?;
        if let Some(token) = claim["lease_token"].as_str() {
            assert_eq!(token.len(), 43, "32 bytes as base64url");
            self.tokens.push(token.to_owned());
        }
        Ok(claim)
    }

    fn forge(&mut self, step: &Value) -> Value {
        let mut claim = self.claims[step["from"].as_str().expect("a claim's name")].clone();
        for (field, value) in step["set"].as_object().expect("what to forge") {
            claim[field] = value.clone();
            if field == "payload" {
                // Shown as an object, but carried as the text that it is; only some of its fields are forged.
                let text = self.claims[step["from"].as_str().expect("a name")]["payload"].as_str().expect("text");
                let mut payload: Value = serde_json::from_str(text).expect("JSON");
                payload.as_object_mut().expect("an object").extend(value.as_object().expect("fields").clone());
                claim[field] = json!(payload.to_string());
            }
        }
        self.claims.insert(step["as"].as_str().expect("a name").to_owned(), claim.clone());
        self.shown(claim)
    }

    async fn complete(&self, claim: &Value, answer: String) -> Outcome {
        self.call("complete_notification", &[document(claim), answer]).await
    }

    async fn give_up(&self, may_retry: bool, claim: &Value, code: &Value) -> Outcome {
        let mut arguments = vec![document(claim), literal(code)];
        if may_retry {
            arguments.extend([literal(&self.base_delay), literal(&self.max_delay)]);
        }
        self.call(if may_retry { "retry_notification" } else { "fail_notification" }, &arguments).await
    }

    /// What a forwarder makes of its handler's outcome.
    async fn run_next(&mut self, step: &Value) -> Outcome {
        let claim = self.claim(step).await?;
        if claim.is_null() {
            return Ok(Value::Null);
        }
        let callback = step["callback"].as_str().expect("a handler");
        let (word, argument) = callback.split_once(':').unwrap_or((callback, ""));
        let invalid = "notification_receiver.processing_response_invalid";
        let ended = match word {
            "ack" | "mutates_payload" => self.complete(&claim, response(&claim, &json!("exact"))).await,
            "wrong_ack" => match self.complete(&claim, "'{}'".into()).await {
                Err(code) if code == invalid => self.give_up(false, &claim, &json!(code)).await,
                other => other,
            },
            "retryable" | "marked_retryable" => self.give_up(true, &claim, &json!(argument)).await,
            "permanent" => self.give_up(false, &claim, &json!(argument)).await,
            "marked_no_code" => self.give_up(false, &claim, &json!("processing_callback_failure")).await,
            "blocked" if argument == "processing_response_invalid" => {
                self.give_up(false, &claim, &json!(invalid)).await
            }
            "blocked" => Err(format!("notification_receiver.{argument}")),
            other => panic!("no handler is called {other}"),
        }?;
        Ok(json!({
            "notification_id": ended["notification_id"],
            "event_id": ended["event_id"],
            "status": ended["status"],
            "attempt": ended["attempts"],
            "error_code": ended["last_error_code"],
        }))
    }

    /// As the reference's operator, and where a constraint refuses, once more without constraints.
    async fn sql(&self, sql: &str) -> Outcome {
        let sql = if sql.ends_with("(x)") { sql.replace("(x)", "(x integer)") } else { sql.to_owned() };
        match self.db.client.batch_execute(&sql).await {
            Ok(()) => Ok(json!("ok")),
            Err(error) => match error.code() {
                Some(&SqlState::CHECK_VIOLATION) => Err("refused by a constraint".into()),
                Some(&SqlState::FOREIGN_KEY_VIOLATION) => Err("refused by the foreign key".into()),
                Some(&SqlState::UNDEFINED_TABLE) => Err("there is no such table".into()),
                other => panic!("{sql}: {other:?}"),
            },
        }
    }

    /// A claim as the scenarios show it: the payload as an object, the random token as a number.
    fn shown(&self, mut claim: Value) -> Value {
        if let Some(payload) = claim["payload"].as_str() {
            claim["payload"] = serde_json::from_str(payload).expect("the payload is JSON");
        }
        for (number, token) in self.tokens.iter().enumerate() {
            if claim["lease_token"] == **token {
                claim["lease_token"] = json!(format!("lease-{:04}", number + 1));
            }
        }
        claim
    }

    async fn rows(&self) -> Value {
        let sql = "select coalesce(json_agg(json_build_object('event_id', event_id, 'received_at', received_at, 'status', \
             status, 'attempts', attempts, 'max_attempts', max_attempts, 'next_attempt_at', next_attempt_at, 'lease_owner', \
             lease_owner, 'lease_token', lease_token, 'lease_expires_at', lease_expires_at, 'last_error_code', \
             last_error_code, 'processed_at', processed_at, 'created_at', created_at, 'updated_at', updated_at) \
             order by received_at, event_id), '[]')::text from cms_terminal_notifications";
        let rows: Value = serde_json::from_str(&self.db.text(sql, &[]).await).expect("JSON");
        rows.as_array().expect("rows").iter().map(|row| self.shown(row.clone())).collect()
    }
}

/// A SQL literal, or the word that a host would write for what is none.
fn literal(value: &Value) -> String {
    match value["special"].as_str() {
        Some("nan") => "'NaN'".into(),
        Some("inf") => "'Infinity'".into(),
        Some("true") => "true".into(),
        Some("null") => "null".into(),
        Some(_) => "'text'".into(),
        None => match value {
            Value::String(text) => format!("'{}'", text.replace('\'', "''")),
            other => other.to_string(),
        },
    }
}

fn document(value: &Value) -> String {
    literal(&json!(value.to_string()))
}

fn response(claim: &Value, given: &Value) -> String {
    let mut exact = json!({
        "schema": "blun.cms-terminal-notification-processing-ack.v1",
        "notification_id": claim["notification_id"],
        "event_id": claim["event_id"],
        "site_id": claim["site_id"],
        "status": "processed",
        "notification_sha256": claim["payload_sha256"],
    });
    match given.as_str() {
        Some("exact") => {}
        Some("null") => return "null".into(),
        Some("list") => return "'[]'".into(),
        // What a serialiser that does not refuse would write.
        Some("unserialisable") => return "'<object>'".into(),
        Some("nan") => return "'{\"status\": NaN}'".into(),
        Some(other) => panic!("no answer is called {other}"),
        None => {
            for (field, value) in given["set"].as_object().into_iter().flatten() {
                exact[field] = value.clone();
            }
            for field in given["drop"].as_array().into_iter().flatten() {
                exact.as_object_mut().expect("an object").remove(field.as_str().expect("a name"));
            }
        }
    }
    document(&exact)
}

/// The receiver refuses these before it asks the store.
fn token(event: &Value) -> Result<&str, String> {
    let text = event.as_str().expect("text");
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    let lawful = !text.is_empty() && text.len() <= 256 && text.bytes().all(legal);
    lawful.then_some(text).ok_or_else(|| "notification_receiver.request_invalid".into())
}

fn code(error: StoreError) -> String {
    match error.kind {
        Kind::Other { sqlstate } if sqlstate == "OI010" => "notification_receiver.clock_invalid".into(),
        Kind::Damaged(_) => "notification_receiver.processing_state_invalid".into(),
        kind => panic!("{kind}"),
    }
}

/// Numbers are equal by value: 100 is 100.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

/// An outcome in a few words, for the list of decisions.
fn in_short(outcome: &Outcome) -> String {
    let value = match outcome {
        Err(error) => return error.trim_start_matches("notification_receiver.").to_owned(),
        Ok(value) => value,
    };
    let word = |field: &str| value[field].as_str().map(str::to_owned);
    match (word("event_id"), word("lease_token"), word("status")) {
        (Some(event), Some(_), _) => format!("claimed {event}, attempt {}", value["attempt"]),
        (Some(event), None, Some(status)) => format!("{event} {status}"),
        (None, None, Some(status)) => format!("{status}, received {}", value["received"]),
        (Some(event), None, None) => format!("{event} told"),
        _ if value.is_null() => "nothing".into(),
        _ => value.to_string(),
    }
}

fn rows_in_short(rows: &Value) -> String {
    let row = |row: &Value| {
        let (event, status) = (row["event_id"].as_str().unwrap_or("?"), row["status"].as_str().unwrap_or("?"));
        format!("{event} {status} due {} written {}", row["next_attempt_at"], row["updated_at"])
    };
    rows.as_array().into_iter().flatten().map(row).collect::<Vec<String>>().join(", ")
}

fn agree(ours: &Outcome, step: &Value) -> bool {
    match (ours, step["error"].as_str()) {
        (Ok(ours), None) => same(ours, &step["result"]),
        (Err(ours), Some("python:IntegrityError")) => ours.starts_with("refused by"),
        (Err(ours), Some(theirs)) => ours == theirs,
        _ => false,
    }
}

/// Runs one scenario and notes what ends otherwise than the reference.
async fn differences(scenario: &Value) -> Vec<String> {
    let mut run = Run::new().await;
    let mut found = Vec::new();
    let mut before = Value::Null;
    let name = scenario["name"].as_str().expect("a name");
    for (number, step) in scenario["steps"].as_array().expect("steps").iter().enumerate() {
        let op = step["do"]["op"].as_str().expect("an operation");
        let mut outcome = run.step(&step["do"]).await;
        if op == "sql" && step["error"].is_null() && outcome == Err("refused by a constraint".into()) {
            found.push(format!("{name} {number} sql: refused by a constraint"));
            run.db.run(UNGUARD).await;
            outcome = run.step(&step["do"]).await;
        }
        if !agree(&outcome, step) {
            found.push(format!("{name} {number} {op}: {}", in_short(&outcome)));
        }
        if outcome == Err("not ours".into()) {
            break;
        }
        let rows = run.rows().await;
        if rows != before && step["rows"].is_array() && !same(&rows, &step["rows"]) {
            found.push(format!("{name} {number} {op}: rows {}", rows_in_short(&rows)));
        }
        before = rows;
    }
    found
}

#[tokio::test]
async fn scenarios_of_the_contract_end_as_the_contract_says_or_as_decided() {
    let vectors: Value = serde_json::from_str(SCENARIOS).expect("the vectors are JSON");
    let scenarios = vectors["scenarios"].as_array().expect("scenarios");
    assert_eq!(scenarios.len(), 95);
    let mut found = Vec::new();
    // Those that begin with a database of the ledger's first version are importing's.
    for scenario in scenarios.iter().filter(|scenario| scenario["v1_database"].is_null()) {
        found.extend(differences(scenario).await);
    }
    let decided: Vec<&str> = DECISIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let unlisted: Vec<&String> = found.iter().filter(|one| !decided.contains(&one.as_str())).collect();
    let unseen: Vec<&&str> = decided.iter().filter(|one| !found.iter().any(|found| found == **one)).collect();
    assert_eq!((unlisted, unseen), (Vec::new(), Vec::new()));
}
