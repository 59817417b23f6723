//! Every attempt leaves a record beside the row's settle, in the form that the protocol shows to buyers; and no row's delivery
//! depends on it.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::receiver::Answer;
use crate::support::seal::Draft;
use crate::support::world::World;

const ATTEMPTS: &str = "adcp_task_webhook_outbox_attempts";
const SCHEMAS: &str = "target/venv/lib/python3.11/site-packages/adcp/_schemas/3.2";

/// What the host would return for the account of all drafts.
async fn activity(world: &World, notification_type: Option<&str>) -> Vec<Value> {
    let sql = "select coalesce(jsonb_agg(record), '[]')::text \
               from outboxd.webhook_activity('acc_1', 200, null, $1) as record";
    let text: String = world.database.value(sql, &[&notification_type]).await;
    serde_json::from_str(&text).expect("the view makes JSON")
}

fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCHEMAS).join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("the package's schema is JSON")
}

/// The record against the package's own schema: every member known and of its type, and none missing that is required.
fn assert_is_a_record(record: &Value) {
    let form = schema("core/webhook-activity-record.json");
    for required in form["required"].as_array().expect("a list") {
        assert!(record.get(required.as_str().expect("a name")).is_some(), "no {required} in {record}");
    }
    for (name, value) in record.as_object().expect("a record is an object") {
        let member = form["properties"].get(name).unwrap_or_else(|| panic!("{name} is not of the form: {record}"));
        let own = schema("enums/notification-type.json");
        let member = if name == "notification_type" { &own } else { member };
        let kind = match value {
            Value::Null => "null",
            Value::String(_) => "string",
            Value::Number(number) if number.is_u64() => "integer",
            _ => "another",
        };
        let kinds = member["type"].as_array().cloned().unwrap_or_else(|| vec![member["type"].clone()]);
        assert!(kinds.iter().any(|allowed| allowed == kind), "{name} is {value}, not {kinds:?}");
        if let Some(allowed) = member["enum"].as_array() {
            assert!(allowed.contains(value), "{name} is {value}");
        }
        if let (Some(number), Some(least)) = (value.as_u64(), member["minimum"].as_u64()) {
            assert!(number >= least && number <= member["maximum"].as_u64().unwrap_or(u64::MAX), "{name} is {number}");
        }
        if let Some(moment) = value.as_str().filter(|_| member["format"] == "date-time") {
            assert!(humantime::parse_rfc3339(moment).is_ok(), "{name} is {moment}");
        }
    }
}

/// A delivery report, whose payload names a type and a number.
fn report(url: &str) -> Draft {
    let mut draft = Draft::to(url);
    draft.task_type = "media_buy_delivery".into();
    draft.result = json!({"notification_type": "scheduled", "sequence_number": 7, "media_buy_deliveries": []});
    draft
}

#[tokio::test]
async fn each_attempt_is_a_record_in_the_protocols_own_form() {
    let world = World::new().await;
    let secret = "6f1ed002-ab5d-4b0e-9c3f-7c1d9b0ec0de";
    let draft = report(&world.receiver.url(&format!("/hooks/{secret}?token=hidden")));
    let (key, size) = (draft.idempotency_key.clone(), draft.body().len());
    world.receiver.answer(|_, nth| Answer::status(if nth == 0 { 503 } else { 204 }));
    world.database.insert(&world.seal(vec![draft])).await;
    let daemon = Daemon::start(&world.config().set("retry.base", "100ms")).await;
    world.all_are("delivered").await;
    let records = activity(&world, None).await;
    let [second, first] = records.as_slice() else { panic!("one record for each attempt: {records:?}") };
    records.iter().for_each(assert_is_a_record);
    for (record, attempt) in [(first, 1), (second, 2)] {
        assert_eq!(record["idempotency_key"], key.as_str());
        assert_eq!(record["attempt"], attempt);
        assert_eq!(record["notification_type"], "scheduled");
        assert_eq!(record["sequence_number"], 7);
        assert_eq!(record["payload_size_bytes"], size);
        let url = record["url"].as_str().expect("a text");
        assert!(url.ends_with("/hooks/redacted"), "{url}");
        assert!(record["completed_at"].as_str() >= record["fired_at"].as_str(), "{record}");
        assert!(record["response_time_ms"].is_u64(), "{record}");
    }
    assert_eq!(first["status"], "failed");
    assert_eq!(first["http_status_code"], 503);
    assert_eq!(first["error_message"], "http_server_error");
    assert_eq!(second["status"], "success");
    assert_eq!(second["http_status_code"], 204);
    assert_eq!(second["error_message"], Value::Null);
    let kept: String =
        world.database.value(&format!("select string_agg(a::text, ' ') from {ATTEMPTS} as a"), &[]).await;
    assert!(!kept.contains(secret) && !kept.contains("hidden"), "{kept}");
    assert!(activity_of_another(&world).await.is_empty(), "another account's attempts are its own");
    assert_eq!(daemon.metrics().await.total("outboxd_attempts_unrecorded_total", &[]), 0.0);
}

async fn activity_of_another(world: &World) -> Vec<Value> {
    let sql = "select coalesce(jsonb_agg(record), '[]')::text from outboxd.webhook_activity('acc_2') as record";
    let text: String = world.database.value(sql, &[]).await;
    serde_json::from_str(&text).expect("the view makes JSON")
}

#[tokio::test]
async fn an_attempt_that_nobody_answered_is_told_by_how_it_ended() {
    let world = World::new().await;
    // The one is never answered; nobody listens where the other goes; the third never leaves.
    world.receiver.answer(|_, _| Answer::Unread);
    let unopenable = Draft::to(world.receiver.url("/hooks"));
    let drafts = vec![report(&world.receiver.url("/hooks")), report("https://127.0.0.1:9/hooks")];
    world.database.insert(&world.seal(drafts)).await;
    let strange = crate::support::seal::EnvelopeKey::new();
    world.database.insert(&[unopenable.seal(&strange)]).await;
    let _daemon = Daemon::start(&world.hasty_config().set("retry.base", "1h").set("retry.cap", "1h")).await;
    let count = format!("select count(*) from {ATTEMPTS}");
    eventually("three attempts are written down", async || match world.database.value::<i64>(&count, &[]).await {
        3.. => Ok(()),
        count => Err(count),
    })
    .await;
    let mut records = activity(&world, Some("impairment")).await;
    records.sort_by_key(|record| record["status"].as_str().map(str::to_owned));
    let told: Vec<(&str, &str)> = records
        .iter()
        .map(|record| (record["status"].as_str().unwrap_or(""), record["error_message"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(
        told,
        [("connection_error", "connect_failed"), ("timeout", "reply_timeout")],
        "what never left is no fire"
    );
    for record in &records {
        assert_is_a_record(record);
        assert_eq!(record["http_status_code"], Value::Null);
        assert_eq!(record["response_time_ms"], Value::Null);
    }
    let ours = format!("select code from {ATTEMPTS} where status is null");
    assert_eq!(
        world.database.value::<String>(&ours, &[]).await,
        "envelope_unopenable",
        "an operator sees it all the same"
    );
}

#[tokio::test]
async fn what_announces_no_notification_is_told_of_only_under_a_type_that_the_host_gives() {
    let world = World::new().await;
    let draft = world.insert("/hooks", 1).await.remove(0);
    let _daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    assert!(activity(&world, None).await.is_empty());
    let records = activity(&world, Some("impairment")).await;
    assert_eq!(records.len(), 1);
    assert_is_a_record(&records[0]);
    assert_eq!(records[0]["notification_id"], format!("{}.terminal", draft.task_id));
}

#[tokio::test]
async fn a_history_that_cannot_be_written_costs_no_delivery() {
    let world = World::new().await;
    let daemon = Daemon::start(&world.config()).await;
    world.insert("/hooks", 20).await;
    world.all_are("delivered").await;
    // Behind the daemon's back, between two of its looks at the schema.
    world.database.execute(&format!("drop table {ATTEMPTS}"), &[]).await;
    world.insert("/hooks", 20).await;
    let rows = world.all_are("delivered").await;
    assert!(rows.iter().all(|row| row.attempt_count == 1), "{rows:?}");
    daemon.line(0, &["attempts cannot be written down"]).await;
    // A row is settled before it is counted.
    eventually("they are counted", async || {
        match daemon.metrics().await.total("outboxd_attempts_unrecorded_total", &[]) {
            20.0.. => Ok(()),
            fewer => Err(fewer),
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_history_there_is_none() {
    let world = World::new().await;
    world.insert("/hooks", 3).await;
    let _daemon = Daemon::start(&world.config().set("history.enabled", false)).await;
    world.all_are("delivered").await;
    assert_eq!(world.database.value::<i64>(&format!("select count(*) from {ATTEMPTS}"), &[]).await, 0);
}

#[tokio::test]
async fn a_retention_of_less_than_a_day_is_refused() {
    let world = World::new().await;
    let daemon = Daemon::spawn(&world.config().set("history.retention", "1h"));
    let ended = daemon.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(78), "{}", ended.output);
    assert!(ended.output.contains("history.retention") && ended.output.contains("1day"), "{}", ended.output);
}
