//! What each function does, and each refusal that it documents.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

use crate::support::cluster::{Database, TABLE};
use crate::support::host::{Host, Registration};
use crate::support::keys::random;
use crate::support::runtime::servers;
use crate::support::seal::{Draft, EnvelopeKey};

const URL: &str = "https://buyer.example/hooks";

async fn issue(host: &Host, task_type: &str) -> String {
    host.call("outboxd.issue_task('acc_1', $1)", &[&task_type]).await.expect("it is issued")
}

/// One task as get_task gives it.
async fn task(host: &Host, id: &str) -> Value {
    let call = "(select to_json(t)::text from outboxd.get_task($1, 'acc_1') as t)";
    let text: Option<String> = host.call(call, &[&id]).await.expect("it answers");
    text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("it is JSON"))
}

#[tokio::test]
async fn a_task_ends_once_and_an_equal_repeat_changes_nothing() {
    let database = Database::new().await;
    let host = Host::on(&database).await;
    let id = issue(&host, "create_media_buy").await;
    assert!(id.len() == 21 && id.starts_with("task_"), "{id}");
    let progress = "outboxd.update_progress($1, $2::text::jsonb)";
    assert_eq!(host.call(progress, &[&id, &"{\"done\": 1}"]).await, Ok(true));
    assert_eq!(task(&host, &id).await["state"], "working");
    assert_eq!(host.complete(&id, r#"{"a": 1.0, "b": [null]}"#).await, Ok(true));
    let ended = task(&host, &id).await;
    assert_eq!(host.complete(&id, r#"{ "b":[null], "a":1 }"#).await, Ok(false));
    assert_eq!(host.complete(&id, "{}").await, Err("OD002".into()));
    assert_eq!(host.fail(&id, "{}").await, Err("OD004".into()));
    assert_eq!(host.call(progress, &[&id, &"{}"]).await, Ok(false));
    assert_eq!(task(&host, &id).await, ended, "nothing touches an ended task");
    let id = issue(&host, "create_media_buy").await;
    assert_eq!(host.fail(&id, r#"{"code": "X"}"#).await, Ok(true));
    assert_eq!(host.fail(&id, r#"{"code":"X"}"#).await, Ok(false));
    assert_eq!(host.fail(&id, r#"{"code": "Y"}"#).await, Err("OD003".into()));
    assert_eq!(host.complete(&id, "{}").await, Err("OD004".into()));
    let other: Option<String> =
        host.call("(select state from outboxd.get_task($1, 'acc_2'))", &[&id]).await.expect("ok");
    assert_eq!(other, None, "another account sees nothing");
    assert_eq!(host.call("outboxd.discard_task($1)", &[&id]).await, Ok(true));
    assert_eq!(host.call("outboxd.discard_task($1)", &[&id]).await, Ok(false));
    assert_eq!(host.complete(&id, "{}").await, Err("OD001".into()));
    assert_eq!(host.call(progress, &[&id, &"{}"]).await, Ok(false));
    assert_eq!(database.rows().await, [], "tasks without registration owe no webhook");
}

#[tokio::test]
async fn an_end_moves_the_registration_into_the_outbox() {
    let (database, key) = (Database::new().await, EnvelopeKey::new());
    let host = Host::on(&database).await;
    let id = host.issue(&key, "create_media_buy", &Registration::to(URL)).await;
    assert_eq!(task(&host, &id).await["has_webhook"], true);
    assert_eq!(host.complete(&id, r#"{ "n": 1.50 }"#).await, Ok(true));
    assert_eq!(task(&host, &id).await["has_webhook"], false);
    let sql = format!(
        "select concat_ws(' ', terminal_status, url, '[' || operation_id || ']', state, retry_horizon_seconds, result) \
         from {TABLE} join {TABLE}_composed using (task_id) where task_id = $1 and not exists (select from {TABLE}_hints)"
    );
    let stored: String = database.value(&sql, &[&id]).await;
    assert_eq!(stored, format!("completed {URL} [] in_flight 86400 {{ \"n\": 1.50 }}"));
    let keys: String = database.value(&format!("select idempotency_key from {TABLE}"), &[]).await;
    let form = "select $1 ~ '^whk_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'";
    assert!(database.value::<bool>(form, &[&keys]).await, "{keys}");
    // Deliveries as an operator sees them: nothing sealed, nothing of the URL but its host.
    let listed = "select concat_ws(' ', kind, destination, state) from outboxd.list_deliveries()";
    assert_eq!(database.value::<String>(listed, &[]).await, "composed buyer.example pending");
}

#[tokio::test]
async fn each_refusal_has_its_own_state_and_writes_nothing() {
    let (database, key) = (Database::new().await, EnvelopeKey::new());
    let host = Host::on(&database).await;
    let refused = async |state: &str, call: &str| {
        let outcome = host.call::<Option<String>>(&format!("({call})::text"), &[]).await;
        assert_eq!(outcome, Err(state.to_owned()), "{call}");
    };
    for account in ["''", "'  '", "'<unset>'", "null"] {
        refused("OD010", &format!("outboxd.issue_task({account}, 'create_media_buy')")).await;
    }
    refused("OD011", "outboxd.issue_task('a', '')").await;
    refused("OD013", "outboxd.issue_task('a', 't', '[]')").await;
    let sealed = "decode(repeat('00', 40), 'hex')";
    let nonce = "decode(repeat('00', 12), 'hex')";
    refused("OD012", &format!("outboxd.issue_task('a', 'create_media_buy', null, {sealed})")).await;
    refused("OD012", &format!("outboxd.issue_task('a', 'create_media_buy', null, {sealed}, '\\x00', 't')")).await;
    refused("OD012", &format!("outboxd.issue_task('a', 'create_media_buy', null, {sealed}, {nonce})")).await;
    refused("OD012", "outboxd.issue_task('a', 'create_media_buy', p_url => 'https://x/')").await;
    refused("OD011", &format!("outboxd.issue_task('a', 'no_such', null, {sealed}, {nonce}, 't')")).await;
    refused("OD011", &format!("outboxd.issue_task('a', 'get_rights', null, {sealed}, {nonce}, 'a b')")).await;
    refused("OD018", &format!("outboxd.issue_task('a', 'get_rights', null, {sealed}, {nonce}, 't', null, 60)")).await;
    let id = issue(&host, "create_media_buy").await;
    refused("OD005", &format!("outboxd.issue_task('a', 'create_media_buy', p_task_id => '{id}')")).await;
    refused("OD001", "outboxd.complete_task('unknown', '{}')").await;
    refused("OD001", "outboxd.fail_task(null, '{}')").await;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
    let bad = [
        "[]",
        "1",
        "null",
        r#"{"a":1,"a":1}"#,
        r#"{"a":[{"b":1,"\u0062":{"c":":"}}]}"#,
        r#"{"a":"\u0000"}"#,
        r#"{"a":"\\\u0000"}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":1e999}"#,
        r#"{"a":-1E+0400}"#,
        &deep,
    ];
    for document in bad {
        assert_eq!(host.complete(&id, document).await, Err("OD013".into()), "{document}");
        assert_eq!(host.fail(&id, document).await, Err("OD013".into()), "{document}");
    }
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(10 * 1024 * 1024));
    assert_eq!(host.complete(&id, &large).await, Err("OD014".into()));
    assert_eq!(task(&host, &id).await["state"], "submitted");
    // A task that the SDK issued with what no body can carry, or whose row was changed by hand.
    let broken = host.issue(&key, "create_media_buy", &Registration::to(URL)).await;
    let end = async |change: &str| {
        database.execute(&format!("update decisioning_tasks set {change} where task_id = $1"), &[&broken]).await;
        host.complete(&broken, "{}").await
    };
    assert_eq!(end("task_type = 'no_such'").await, Err("OD011".into()));
    assert_eq!(end("task_type = 'create_media_buy', webhook_registration_nonce = null").await, Err("OD012".into()));
    assert_eq!(task(&host, &broken).await["state"], "submitted");
    let twice = host.issue(&key, "create_media_buy", &Registration::to(URL)).await;
    database.insert(&[Draft { task_id: twice.clone(), ..Draft::to(URL) }.seal(&key)]).await;
    assert_eq!(host.complete(&twice, "{}").await, Err("OD015".into()));
    assert_eq!(database.rows().await.len(), 1);
}

#[tokio::test]
async fn what_strict_receivers_take_is_taken_in_its_own_spelling() {
    let (database, key) = (Database::new().await, EnvelopeKey::new());
    let host = Host::on(&database).await;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(99), "}".repeat(99));
    let good = [
        "{}",
        "  { } ",
        r#"{"a":"\\u0000","b":"\ud83d\ude00","c":1e308,"d":"1e999","e":-0.0}"#,
        r#"{"a":{"a":{"a":":"}},"b":[{"a":1},{"a":1}],"":{"":0}}"#,
        r#"{"quote\"":"\":","b\\":1}"#,
        &deep,
    ];
    for document in good {
        let id = host.issue(&key, "get_products", &Registration::to(URL)).await;
        assert_eq!(host.complete(&id, document).await, Ok(true), "{document}");
        let sql = format!("select result from {TABLE}_composed where task_id = $1");
        assert_eq!(database.value::<String>(&sql, &[&id]).await, document);
    }
}

#[tokio::test]
async fn stripping_takes_credentials_out_and_leaves_the_rest_as_it_was_spelt() {
    let (database, key) = (Database::new().await, EnvelopeKey::new());
    let host = Host::on(&database).await;
    let given = r#"{"z": 1.50, "billing_entity" : {"legal_name": "A\/B", "bank": {"iban": "x"}, "tax": [ 1 ]},
        "list": [{"governance_agents": [{"url": "u", "authentication": {"credentials": "s"}}, 7]}, { "plain" : [1,  2] }],
        "notification_configs": [{"authentication": {"schemes": ["Bearer"], "credentials": "s"}, "n": 1e3}],
        "authorization": {"allowed_tasks": ["t"], "token": "s", "read_only": null},
        "errors": [{"code": "X", "details": {"kept":  1}}, {"code": 1, "details": {"gone": 1}}, "text"],
        "adcp_error": {"code": "AUTHORIZATION_REQUIRED", "message": "m", "details": {"secret": 1,
            "missing_connections": [{"provider": "p", "secret": 1, "resource_ref": {"handle": "h", "secret": 1}}, {"secret": 1}]}},
        "details": {"bank": 1}, "a": {"authorization": "s"}}"#;
    let id = host.issue(&key, "create_media_buy", &Registration::to(URL)).await;
    assert_eq!(host.complete(&id, given).await, Ok(true));
    let stored: String = database.value(&format!("select result from {TABLE}_composed"), &[]).await;
    let expected = concat!(
        r#"{"z":1.50,"billing_entity":{"legal_name":"A\/B","tax":[ 1 ]},"#,
        r#""list":[{"governance_agents":[{"url":"u"},7]},{ "plain" : [1,  2] }],"#,
        r#""notification_configs":[{"authentication":{"schemes":["Bearer"]},"n":1e3}],"#,
        r#""authorization":{"allowed_tasks":["t"]},"#,
        r#""errors":[{"code": "X", "details": {"kept":  1}},{"code":1},"text"],"#,
        r#""adcp_error":{"code":"AUTHORIZATION_REQUIRED","message":"m","#,
        r#""details":{"missing_connections":[{"provider":"p","resource_ref":{"handle":"h"}}]}},"#,
        r#""details":{"bank": 1},"a":{}}"#,
    );
    assert_eq!(stored, expected);
    assert_eq!(host.complete(&id, given).await, Ok(false), "a repeat is compared as it would be stored");
    let id = host.issue(&key, "get_products", &Registration::to(URL)).await;
    assert_eq!(host.complete(&id, given).await, Ok(true));
    let sql = format!("select result from {TABLE}_composed where task_id = $1");
    assert_eq!(database.value::<String>(&sql, &[&id]).await, given, "this type's results hold none");
}

#[tokio::test]
async fn a_sealed_row_is_enqueued_once_and_refused_with_what_to_fix() {
    let (database, key) = (Database::new().await, EnvelopeKey::new());
    let host = Host::on(&database).await;
    let call = "outboxd.enqueue_sealed($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let enqueue = async |row: &crate::support::seal::Sealed| {
        let draft = &row.draft;
        host.call::<i64>(
            call,
            &[
                &draft.task_id,
                &draft.account_id,
                &draft.task_type,
                &draft.terminal_status,
                &draft.url,
                &draft.operation_id,
                &draft.idempotency_key,
                &row.encrypted_body,
                &row.envelope_nonce,
                &draft.signing_scope_id,
            ],
        )
        .await
    };
    let good = Draft::to(URL).scope("tenant:alpha/1 é").seal(&key);
    let id = enqueue(&good).await.expect("it is taken");
    assert_eq!(enqueue(&good).await, Ok(id), "a repeat is the same row");
    let again = Draft { task_id: good.draft.task_id.clone(), ..Draft::to(URL) }.seal(&key);
    assert_eq!(enqueue(&again).await, Err("OD015".into()));
    let again = Draft { idempotency_key: good.draft.idempotency_key.clone(), ..Draft::to(URL) }.seal(&key);
    assert_eq!(enqueue(&again).await, Err("OD015".into()));
    let issued = issue(&host, "create_media_buy").await;
    let other = Draft { task_id: issued, account_id: "acc_2".into(), ..Draft::to(URL) };
    let with = |change: fn(&mut Draft)| {
        let mut draft = Draft::to(URL);
        change(&mut draft);
        draft
    };
    let refused = [
        ("OD017", other),
        ("OD010", with(|draft| draft.account_id = " ".into())),
        ("OD011", with(|draft| draft.task_type = "no_such".into())),
        ("OD011", with(|draft| draft.task_id = "a b".into())),
        ("OD017", with(|draft| draft.terminal_status = "canceled".into())),
        ("OD017", with(|draft| draft.url = "http://buyer.example/".into())),
        ("OD017", with(|draft| draft.url = "https://u:p@buyer.example/".into())),
        ("OD017", with(|draft| draft.url = "https:///x".into())),
        ("OD017", with(|draft| draft.operation_id.clear())),
        ("OD017", with(|draft| draft.idempotency_key = "short".into())),
        ("OD017", with(|draft| draft.signing_scope_id = Some(String::new()))),
        ("OD017", with(|draft| draft.signing_scope_id = Some("a\nb".into()))),
    ];
    for (state, draft) in refused {
        assert_eq!(enqueue(&draft.seal(&key)).await, Err(state.into()));
    }
    let mut short = Draft::to(URL).seal(&key);
    short.envelope_nonce = random::<11>().to_vec();
    assert_eq!(enqueue(&short).await, Err("OD017".into()));
    short = Draft::to(URL).seal(&key);
    short.encrypted_body.truncate(17);
    assert_eq!(enqueue(&short).await, Err("OD017".into()));
    let horizon = "outboxd.enqueue_sealed('t', 'a', 'get_rights', 'completed', 'https://x/', 'o', 'whk_0123456789abcdef', \
                   decode(repeat('00', 40), 'hex'), decode(repeat('00', 12), 'hex'), null, 86399)";
    assert_eq!(host.call::<i64>(horizon, &[]).await, Err("OD018".into()));
    assert_eq!(database.rows().await.len(), 1);
}

#[tokio::test]
async fn pages_by_keyset_give_every_task_once_whatever_is_issued_between() {
    let database = Database::new().await;
    let host = Host::on(&database).await;
    let mut expected = BTreeSet::new();
    for nth in 0..23 {
        let task_type = ["create_media_buy", "sync_creatives", "get_signals", "get_rights"][nth % 4];
        let id = issue(&host, task_type).await;
        if task_type != "get_rights" {
            expected.insert(id);
        }
    }
    let list = async |filters: Value, sort: Value, pagination: Value| {
        let call = "outboxd.list_tasks('acc_1', $1::text::jsonb, $2::text::jsonb, $3::text::jsonb)::text";
        let text = [filters, sort, pagination].map(|value| value.to_string());
        let answer: Result<String, String> = host.call(call, &[&text[0], &text[1], &text[2]]).await;
        answer.map(|text| serde_json::from_str::<Value>(&text).expect("it is JSON"))
    };
    for field in ["created_at", "updated_at", "status", "task_type", "protocol"] {
        for direction in ["asc", "desc"] {
            let sort = json!({"field": field, "direction": direction});
            let (mut seen, mut pagination) = (Vec::new(), json!({"max_results": 5}));
            loop {
                let page = list(json!({}), sort.clone(), pagination.clone()).await.expect("it lists");
                let ids = page["tasks"]
                    .as_array()
                    .expect("a list")
                    .iter()
                    .map(|task| task["task_id"].as_str().expect("text"));
                seen.extend(ids.map(str::to_owned));
                let Some(cursor) = page["pagination"].get("cursor") else { break };
                pagination["cursor"] = cursor.clone();
                issue(&host, "get_rights").await;
            }
            assert_eq!(seen.len(), expected.len(), "{sort}");
            assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected, "{sort}");
        }
    }
    let first = list(json!({}), json!({}), json!({"max_results": 5})).await.expect("it lists");
    let cursor = &first["pagination"]["cursor"];
    let refused = [
        (json!({"colour": "red"}), json!({}), json!({})),
        (json!({"status": 1}), json!({}), json!({})),
        (json!({"statuses": "working"}), json!({}), json!({})),
        (json!({"has_webhook": "yes"}), json!({}), json!({})),
        (json!({"created_after": "2026-01-01"}), json!({}), json!({})),
        (json!({"created_after": "2026-02-30T00:00:00Z"}), json!({}), json!({})),
        (json!([]), json!({}), json!({})),
        (json!({}), json!({"field": "colour"}), json!({})),
        (json!({}), json!({"direction": "up"}), json!({})),
        (json!({}), json!({}), json!({"max_results": 0})),
        (json!({}), json!({}), json!({"max_results": 101})),
        (json!({}), json!({}), json!({"max_results": 1.5})),
        (json!({}), json!({}), json!({"cursor": "nonsense"})),
        (json!({"status": "working"}), json!({}), json!({"cursor": cursor})),
    ];
    for (filters, sort, pagination) in refused {
        let what = format!("{filters} {sort} {pagination}");
        assert_eq!(list(filters, sort, pagination).await, Err("OD016".into()), "{what}");
    }
    let error =
        host.client.query_one("select outboxd.list_tasks('acc_1', '{\"x\": 1}')", &[]).await.expect_err("refused");
    let detail: Value = serde_json::from_str(error.as_db_error().expect("Postgres says").detail().expect("it has one"))
        .expect("DETAIL is JSON");
    assert_eq!(detail, json!({"code": "INVALID_REQUEST", "recovery": "correctable", "field": "filters"}));
}

#[tokio::test]
async fn changes_are_told_after_the_commit_and_only_then() {
    let (database, key) = (Database::new().await, EnvelopeKey::new());
    let (client, mut connection) = tokio_postgres::connect(&database.url, NoTls).await.expect("it connects");
    let (told, mut heard) = mpsc::unbounded_channel();
    servers().spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = told.send((notification.channel().to_owned(), notification.payload().to_owned()));
            }
        }
    });
    client.batch_execute("listen outboxd_wake; listen tasks").await.expect("it listens");
    let host = Host::on(&database).await;
    host.client.batch_execute("set outboxd.lifecycle_channel = 'tasks'").await.expect("a setting");
    host.client.batch_execute("begin").await.expect("a transaction");
    host.issue(&key, "create_media_buy", &Registration::to(URL)).await;
    host.client.batch_execute("rollback").await.expect("it ends");
    let id = host.issue(&key, "create_media_buy", &Registration::to(URL)).await;
    for _ in 0..2 {
        let _: bool = host.call("outboxd.update_progress($1, '{}')", &[&id]).await.expect("it works");
    }
    host.complete(&id, "{}").await.expect("it completes");
    host.complete(&id, "{}").await.expect("it is a repeat");
    let _: bool = host.call("outboxd.discard_task($1)", &[&id]).await.expect("it is discarded");
    let mut events = Vec::new();
    while events.len() < 5 {
        let (channel, payload) = heard.recv().await.expect("the connection lives");
        if channel == "outboxd_wake" {
            events.push("wake".to_owned());
            continue;
        }
        let event: Value = serde_json::from_str(&payload).expect("payloads are JSON");
        assert_eq!((&event["task_id"], &event["account_id"]), (&json!(id), &json!("acc_1")));
        events.push(event["event"].as_str().expect("text").to_owned());
    }
    assert_eq!(events, ["submitted", "working", "wake", "completed", "discarded"]);
    // Both are switched off by settings, for the session or the database.
    host.client.batch_execute("set outboxd.lifecycle_channel = ''; set outboxd.wake = 'off'").await.expect("settings");
    let quiet = host.issue(&key, "create_media_buy", &Registration::to(URL)).await;
    host.complete(&quiet, "{}").await.expect("it completes");
    client.batch_execute("notify tasks, 'last'").await.expect("it notifies");
    assert_eq!(heard.recv().await.map(|(_, payload)| payload).as_deref(), Some("last"));
}

#[tokio::test]
async fn a_host_reaches_no_table_and_no_sealed_byte() {
    let database = Database::new().await;
    let host = Host::on(&database).await;
    for table in
        ["decisioning_tasks", TABLE, &format!("{TABLE}_composed"), &format!("{TABLE}_hints"), "outboxd.migrations"]
    {
        let error = host.client.query(&format!("select * from {table}"), &[]).await.expect_err("it may not");
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{table}");
    }
    let internal = host.call::<String>("outboxd._strip('{}')::text", &[]).await;
    assert_eq!(internal, Err("42501".into()));
    let deliveries = host.call::<i64>("count(*) from outboxd.list_deliveries()", &[]).await;
    assert_eq!(deliveries, Err("42501".into()), "it tells of every account");
    // A schema of the caller's own, in front, changes nothing for a function that runs with another's rights.
    database.client.batch_execute("create schema lure authorization outboxd_host").await.expect("a schema");
    host.client
        .batch_execute("create table lure.decisioning_tasks (like pg_class); set search_path = lure, public")
        .await
        .expect("a table");
    assert_eq!(issue(&host, "create_media_buy").await.len(), 21);
    let sql = "select count(*) from pg_proc where pronamespace = 'outboxd'::regnamespace and prosecdef \
               and proconfig is distinct from array['search_path=public, pg_temp']";
    assert_eq!(database.value::<i64>(sql, &[]).await, 0);
    let public =
        "select count(*) from pg_proc, aclexplode(proacl) where pronamespace = 'outboxd'::regnamespace and grantee = 0";
    assert_eq!(database.value::<i64>(public, &[]).await, 0);
}

#[tokio::test]
async fn sixty_four_clients_that_end_the_same_tasks_make_one_row_each() {
    const CLIENTS: usize = 64;
    const TASKS: usize = 500;
    let (database, key) = (Database::new().await, EnvelopeKey::new());
    let host = Host::on(&database).await;
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        tasks.push(host.issue(&key, "create_media_buy", &Registration::to(URL)).await);
    }
    let clients = join_all((0..CLIENTS).map(|_| Host::on(&database))).await;
    let outcomes = join_all(clients.iter().enumerate().map(|(number, client)| {
        let tasks = &tasks;
        async move {
            let statement =
                client.client.prepare("select outboxd.complete_task($1, $2::text::json)").await.expect("it prepares");
            // Two of three agree on the result; the third is late whatever it does.
            let result = json!({"n": number % 3 / 2}).to_string();
            let (mut won, mut repeated, mut late) = (0, 0, 0);
            for nth in 0..TASKS {
                let task = &tasks[(nth + number % 2 * TASKS / 2) % TASKS];
                match client.client.query_one(&statement, &[task, &result]).await {
                    Ok(row) if row.get(0) => won += 1,
                    Ok(_) => repeated += 1,
                    Err(error) => {
                        assert_eq!(error.code().map(|code| code.code()), Some("OD002"), "{error:?}");
                        late += 1;
                    }
                }
            }
            (won, repeated, late)
        }
    }))
    .await;
    assert_eq!(outcomes.iter().map(|(won, _, _)| won).sum::<usize>(), TASKS);
    assert_eq!(outcomes.iter().map(|(w, r, l)| w + r + l).sum::<usize>(), TASKS * CLIENTS);
    let sql =
        format!("select count(*) || ' ' || count(distinct task_id) from {TABLE} join {TABLE}_composed using (task_id)");
    assert_eq!(database.value::<String>(&sql, &[]).await, format!("{TASKS} {TASKS}"));
}
