//! `outboxd receive import`: the SQLite ledger's rows become the inbox's, each as it was, or none does.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use ring::digest::{SHA256, digest};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::cluster::Database;
use crate::support::config::Config;
use crate::support::daemon::{Daemon, Ended};
use crate::support::eventually::{PATIENCE, eventually};

const SCENARIOS: &str = include_str!("../vectors/cms/processing.json");

const V2: &str = "
    CREATE TABLE cms_terminal_notification_inbox_meta (singleton INTEGER PRIMARY KEY, schema_version INTEGER NOT NULL);
    INSERT INTO cms_terminal_notification_inbox_meta VALUES (1, 2);
    CREATE TABLE cms_terminal_notification_inbox (notification_id TEXT PRIMARY KEY, event_id TEXT NOT NULL UNIQUE,
        site_id TEXT NOT NULL, terminal_status TEXT NOT NULL, payload_sha256 TEXT NOT NULL UNIQUE,
        payload_json TEXT NOT NULL, received_at REAL NOT NULL);
    CREATE TABLE cms_terminal_notification_processing (notification_id TEXT PRIMARY KEY REFERENCES
        cms_terminal_notification_inbox (notification_id), status TEXT NOT NULL, attempts INTEGER NOT NULL,
        max_attempts INTEGER NOT NULL, next_attempt_at REAL NOT NULL, lease_owner TEXT, lease_token TEXT,
        lease_expires_at REAL, last_error_code TEXT, processed_at REAL, created_at REAL NOT NULL, updated_at REAL NOT NULL)";

/// A ledger in a directory of its own.
struct LedgerFile {
    _directory: TempDir,
    path: PathBuf,
    connection: Connection,
}

impl LedgerFile {
    fn new(sql: &str) -> LedgerFile {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("inbox.sqlite3");
        let connection = Connection::open(&path).expect("a new file");
        connection.execute_batch(sql).expect("the ledger's tables");
        LedgerFile { _directory: directory, path, connection }
    }

    fn receive(&self, payload: &str, site_id: Option<&str>, received_at: f64) -> String {
        let fields: Value = serde_json::from_str(payload).expect("a payload is JSON");
        let field = |name: &str| fields[name].as_str().expect("text").to_owned();
        let site = site_id.map_or_else(|| field("site_id"), str::to_owned);
        let row = (
            field("notification_id"),
            field("event_id"),
            site,
            field("terminal_status"),
            sha256(payload),
            payload,
            received_at,
        );
        self.connection
            .execute("INSERT INTO cms_terminal_notification_inbox VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row)
            .expect("the ledger takes it");
        field("notification_id")
    }

    /// A row of version 2, in one of the five states.
    fn receive_in_state(&self, number: u32, state: &str) {
        // Times that only the shortest spelling of a double brings back.
        let received_at = 1_700_000_000.1 + f64::from(number) / 3.0;
        let id = self.receive(&payload(&format!("event-{number}")), None, received_at);
        let later = received_at + 0.7;
        let (attempts, lease, error, processed) = match state {
            "pending" => (0, None, None, None),
            "leased" => (1, Some(("worker", "token", later + 4e9)), None, None),
            "retry_wait" => (2, None, Some("backend.unavailable"), None),
            "succeeded" => (1, None, None, Some(later)),
            "failed" => (5, None, Some("processing_lease_expired"), None),
            other => panic!("there is no state {other}"),
        };
        let (owner, token, expires) = lease.map_or((None, None, None), |(o, t, e)| (Some(o), Some(t), Some(e)));
        self.connection
            .execute(
                "INSERT INTO cms_terminal_notification_processing VALUES (?1, ?2, ?3, 5, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?4)",
                (id, state, attempts, later, owner, token, expires, error, processed, received_at),
            )
            .expect("the ledger takes it");
    }

    /// Every row of the ledger as text, as `stored` shows the inbox's.
    fn rows(&self) -> Vec<String> {
        let mut statement = self
            .connection
            .prepare(
                "SELECT i.notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json, received_at, \
                 status, attempts, max_attempts, next_attempt_at, lease_owner, lease_token, lease_expires_at, \
                 last_error_code, processed_at, created_at, updated_at FROM cms_terminal_notification_inbox AS i \
                 JOIN cms_terminal_notification_processing AS p ON p.notification_id = i.notification_id ORDER BY 1",
            )
            .expect("its tables");
        let rows = statement
            .query_map([], |row| {
                let mut text = String::new();
                for column in 0..18 {
                    text += &match row.get_ref(column)? {
                        rusqlite::types::ValueRef::Null => "null".into(),
                        rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                        rusqlite::types::ValueRef::Real(number) => format!("{:016x}", number.to_bits()),
                        other => other.as_str()?.to_owned(),
                    };
                    text.push('|');
                }
                Ok(text)
            })
            .expect("rows");
        rows.map(|row| row.expect("a row")).collect()
    }
}

fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn payload(event: &str) -> String {
    let (a, b, c) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
    let before = format!(
        r#"{{"change_sha256":"{a}","event_id":"{event}","job_count":1,"lifecycle_binding_sha256":"{b}","lifecycle_sha256":"{c}","#
    );
    let after = concat!(
        r#""plan_id":"p","schema":"blun.cms-source-terminal-notification.v1","site_id":"site","#,
        r#""source_sequence":98765432109876543210,"terminal_status":"published","website_version":"v"}"#
    );
    let id = sha256(&format!("{before}{after}"));
    format!(r#"{before}"notification_id":"terminal-{id}",{after}"#)
}

/// The inbox's rows, each number by its bits.
async fn stored(database: &Database) -> Vec<String> {
    let bits = |column: &str| format!("encode(float8send({column}), 'hex')");
    let columns = [
        "notification_id".to_owned(),
        "event_id".into(),
        "site_id".into(),
        "terminal_status".into(),
        "payload_sha256".into(),
        "payload_json".into(),
        bits("received_at"),
        "status".into(),
        "attempts::text".into(),
        "max_attempts::text".into(),
        bits("next_attempt_at"),
        "lease_owner".into(),
        "lease_token".into(),
        bits("lease_expires_at"),
        "last_error_code".into(),
        bits("processed_at"),
        bits("created_at"),
        bits("updated_at"),
    ];
    let shown: Vec<String> = columns.iter().map(|column| format!("coalesce({column}, 'null') || '|'")).collect();
    let sql = format!("select {} from cms_terminal_notifications order by notification_id", shown.join(" || "));
    database.client.query(&sql, &[]).await.expect("the view answers").iter().map(|row| row.get(0)).collect()
}

fn command(database: &Database, file: &Path, words: &[&str]) -> Daemon {
    let config = Config::empty().set("database.url", database.url.as_str()).set("receive.terminal.max_attempts", 4);
    let file = file.to_string_lossy();
    let arguments: Vec<&str> = ["receive", "import", &file].into_iter().chain(words.iter().copied()).collect();
    Daemon::command(&config, &arguments)
}

async fn import(database: &Database, file: &Path, words: &[&str]) -> Ended {
    command(database, file, words).wait_exit(PATIENCE).await
}

async fn received(database: &Database) -> i64 {
    database.value("select count(*) from cms_terminal_notification_inbox", &[]).await
}

#[tokio::test]
async fn a_ledger_of_version_2_is_imported_bit_by_bit_once_and_again_without_effect() {
    let database = Database::new().await;
    let ledger = LedgerFile::new(V2);
    for (number, state) in
        ["pending", "leased", "retry_wait", "succeeded", "failed"].into_iter().cycle().take(450).enumerate()
    {
        ledger.receive_in_state(number as u32, state);
    }
    let ended = import(&database, &ledger.path, &["--dry-run"]).await;
    assert!(ended.code == Some(0) && ended.output.contains("450 would be imported"), "{}", ended.output);
    assert_eq!(received(&database).await, 0);
    let ended = import(&database, &ledger.path, &[]).await;
    assert!(ended.code == Some(0) && ended.output.contains("450 imported, 450 stored as in"), "{}", ended.output);
    assert_eq!(stored(&database).await, ledger.rows());
    let ended = import(&database, &ledger.path, &[]).await;
    assert!(ended.code == Some(0) && ended.output.contains("0 imported, 450 stored as in"), "{}", ended.output);
    // What has been worked on since is not put back.
    let claimed: String = database.value("select outboxd.claim_notification('w')::text", &[]).await;
    assert!(claimed.contains("event-"));
    let ended = import(&database, &ledger.path, &[]).await;
    assert!(
        ended.code == Some(0) && ended.output.contains("449 stored as in the ledger, 1 worked on"),
        "{}",
        ended.output
    );
}

#[tokio::test]
async fn an_import_that_is_killed_leaves_whole_rows_and_the_next_brings_the_rest() {
    let database = Database::new().await;
    let ledger = LedgerFile::new(V2);
    ledger.connection.execute_batch("BEGIN").expect("one transaction for all");
    for number in 0..3000 {
        ledger.receive_in_state(number, "pending");
    }
    ledger.connection.execute_batch("COMMIT").expect("it commits");
    let killed = command(&database, &ledger.path, &[]);
    eventually("a batch is stored", async || (received(&database).await > 0).then_some(()).ok_or("none is")).await;
    killed.signal(Signal::SIGKILL);
    killed.wait_exit(PATIENCE).await;
    let damaged: i64 =
        database.value("select count(*) from cms_terminal_notifications where damage is not null", &[]).await;
    assert!(damaged == 0 && received(&database).await % 200 == 0);
    let ended = import(&database, &ledger.path, &[]).await;
    assert!(ended.code == Some(0) && ended.output.contains("3000 stored as in the ledger"), "{}", ended.output);
    assert_eq!(stored(&database).await, ledger.rows());
}

#[tokio::test]
async fn one_damaged_or_colliding_row_leaves_everything_as_it_was() {
    let database = Database::new().await;
    let change = "UPDATE cms_terminal_notification_processing SET";
    for (sql, why) in [
        (format!("{change} last_error_code = 'forged' WHERE status = 'pending'"), "processing_state_invalid"),
        (format!("{change} last_error_code = x'00' WHERE status = 'pending'"), "processing_state_invalid"),
        (format!("{change} processed_at = 9e999 WHERE status = 'pending'"), "processing_state_invalid"),
        (format!("{change} attempts = 4294967297 WHERE status = 'leased'"), "processing_state_invalid"),
        (format!("{change} created_at = created_at - 1"), "processing_state_invalid"),
        (
            "DELETE FROM cms_terminal_notification_processing WHERE status = 'pending'".into(),
            "processing_state_invalid",
        ),
        (
            "UPDATE cms_terminal_notification_inbox SET payload_json = payload_json || ' '".into(),
            "stored_binding_invalid",
        ),
        ("UPDATE cms_terminal_notification_inbox SET site_id = x'ff'".into(), "stored_binding_invalid"),
        ("UPDATE cms_terminal_notification_inbox SET received_at = 'late'".into(), "stored_binding_invalid"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM cms_terminal_notification_inbox".into(), "integrity_failed"),
        ("UPDATE cms_terminal_notification_inbox_meta SET schema_version = 3".into(), "schema_altered"),
        ("ALTER TABLE cms_terminal_notification_processing ADD COLUMN injected TEXT".into(), "schema_altered"),
    ] {
        let ledger = LedgerFile::new(V2);
        ledger.receive_in_state(1, "pending");
        ledger.receive_in_state(2, "leased");
        ledger.connection.execute_batch(&sql).expect(&sql);
        let ended = import(&database, &ledger.path, &[]).await;
        assert!(ended.code == Some(65) && ended.output.contains(why), "{sql}: {:?} {}", ended.code, ended.output);
        assert_eq!(received(&database).await, 0, "{sql}");
    }
    let first = LedgerFile::new(V2);
    first.receive_in_state(1, "pending");
    assert_eq!(import(&database, &first.path, &[]).await.code, Some(0));
    let other = LedgerFile::new(V2);
    other.receive_in_state(2, "pending");
    let rival = other.receive(&payload("event-1").replace("\"p\"", "\"q\""), None, 5.0);
    other
        .connection
        .execute("DELETE FROM cms_terminal_notification_inbox WHERE notification_id = ?1", [rival])
        .expect("gone");
    let rival = payload("event-1").replace(r#""plan_id":"p""#, r#""plan_id":"q""#);
    let (before, rest) = rival.split_once(r#""notification_id":""#).expect("it has an id");
    let after = &rest[rest.find(",").expect("it goes on") + 1..];
    let id = sha256(&format!("{before}{after}"));
    other.receive(&format!(r#"{before}"notification_id":"terminal-{id}",{after}"#), None, 5.0);
    let state = "INSERT INTO cms_terminal_notification_processing SELECT notification_id, 'pending', 0, 5, 5.0, NULL, NULL, NULL, \
                 NULL, NULL, 5.0, 5.0 FROM cms_terminal_notification_inbox WHERE event_id = 'event-1'";
    other.connection.execute_batch(state).expect("the ledger takes it");
    let ended = import(&database, &other.path, &[]).await;
    assert!(ended.code == Some(65) && ended.output.contains("idempotency_collision"), "{}", ended.output);
    assert_eq!(received(&database).await, 1);
}

/// The contract's scenarios of the first version, made by the statements that they give.
#[tokio::test]
async fn ledgers_of_version_1_end_as_the_contract_says() {
    let vectors: Value = serde_json::from_str(SCENARIOS).expect("the vectors are JSON");
    let mut seen = 0;
    for scenario in vectors["scenarios"].as_array().expect("scenarios") {
        let Some(script) = scenario["v1_database"].as_array() else { continue };
        seen += 1;
        let (database, ledger) = (Database::new().await, LedgerFile::new(""));
        for line in script {
            match line.as_str() {
                Some(sql) => ledger.connection.execute_batch(sql).expect(sql),
                None => {
                    let body = line["body"].as_str().expect("a body");
                    let received_at = line["received_at"].as_f64().expect("a time");
                    drop(ledger.receive(body, line["site_id"].as_str(), received_at));
                }
            }
        }
        let ended = import(&database, &ledger.path, &[]).await;
        let step = &scenario["steps"][0];
        match step["error"].as_str() {
            None => assert_eq!(ended.code, Some(0), "{}", ended.output),
            // The reference fails on a foreign table with SQLite's own error.
            Some("python:OperationalError") => assert!(ended.output.contains("schema_altered"), "{}", ended.output),
            Some(code) => assert!(ended.output.contains(code.trim_start_matches("notification_receiver."))),
        }
        let sql = "select coalesce(json_agg(json_build_object('event_id', event_id, 'received_at', received_at, 'status', \
             status, 'attempts', attempts, 'max_attempts', max_attempts, 'next_attempt_at', next_attempt_at, 'created_at', \
             created_at, 'updated_at', updated_at) order by received_at), '[]')::text from cms_terminal_notifications";
        let rows: Vec<Value> = serde_json::from_str(&database.value::<String>(sql, &[]).await).expect("JSON");
        let wanted = step["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(rows.len(), wanted.len());
        for (row, wanted) in rows.iter().zip(wanted) {
            for (column, value) in row.as_object().expect("a row") {
                let (ours, theirs) = (value.as_f64(), wanted[column].as_f64());
                assert!(
                    if ours.is_some() { ours == theirs } else { *value == wanted[column] },
                    "{column}: {row} {wanted}"
                );
            }
        }
    }
    assert_eq!(seen, 5);
}
