//! The same operations through the SDK's registry and through our functions: equal outcomes and equal rows, apart and
//! mixed on one schema.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::interop::signing;
use crate::support::cluster::{Database, TABLE};
use crate::support::host::{Host, Registration};
use crate::support::keys::SigningKey;
use crate::support::peer::Peer;
use crate::support::seal::EnvelopeKey;

const OPERATIONS: usize = 2_000;
const SEED: u64 = 0x0a11_ce5e_ed00_0003;
/// Operations that reach the SDK in one message, while no list of pages hangs on the ids between.
const BATCH: usize = 250;

/// SplitMix64: the same numbers for the same seed, for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.roll() % limit as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A document in which whatever could be a credential is likely.
    fn document(&mut self, depth: usize) -> Value {
        const KEYS: [&str; 26] = [
            "governance_agents",
            "authentication",
            "credentials",
            "billing_entity",
            "invoice_recipient",
            "bank",
            "notification_configs",
            "authorization",
            "allowed_tasks",
            "scope_name",
            "token",
            "errors",
            "adcp_error",
            "code",
            "details",
            "missing_connections",
            "required_connections",
            "resource_ref",
            "handle",
            "provider",
            "authorization_url",
            "legal_name",
            "a",
            "b",
            "é \"q\" \\",
            "n",
        ];
        let mut object = Map::new();
        for _ in 0..self.below(5) {
            object.insert((*self.pick(&KEYS)).into(), self.value(depth));
        }
        Value::Object(object)
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 10 }) {
            0 => json!(self.below(1000)),
            1 => json!(self.below(1000) as f64 / 8.0),
            2 => json!(*self.pick(&["", "text", "AUTHORIZATION_REQUIRED", "Zoë 😀", "RATE_LIMITED"])),
            3 => Value::Null,
            4 => json!("true"),
            5 | 6 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => self.document(depth - 1),
        }
    }

    fn operation(&mut self, issued: &mut usize, past: &[Value]) -> Value {
        let account = *self.pick(&["acc_1", "acc_2"]);
        let task = if *issued == 0 { 0 } else { issued.saturating_sub(1 + self.below(12)) };
        match self.below(20) {
            0..5 => self.issue(issued, account),
            5..8 => json!({"do": "progress", "task": task, "document": self.document(1)}),
            8..12 => json!({"do": "complete", "task": task, "document": self.document(4)}),
            12..14 => json!({"do": "fail", "task": task, "document": self.document(2)}),
            // An end once more: equal, or over a task that another operation ended meanwhile.
            14..16 => {
                match past.iter().rev().filter(|one| one["do"] == "complete" || one["do"] == "fail").nth(self.below(3))
                {
                    Some(end) => end.clone(),
                    None => json!({"do": "complete", "task": "unknown", "document": {}}),
                }
            }
            16 => json!({"do": "discard", "task": if self.below(3) == 0 { task } else { task + 1_000_000 }}),
            17 => json!({"do": "list", "arguments": self.list(account)}),
            _ => json!({"do": "get", "task": task, "account": account}),
        }
    }

    fn issue(&mut self, issued: &mut usize, account: &str) -> Value {
        const TYPES: [&str; 8] = [
            "create_media_buy",
            "update_media_buy",
            "sync_accounts",
            "sync_creatives",
            "get_products",
            "get_signals",
            "get_rights",
            "build_creative",
        ];
        let account = if self.below(20) == 0 { *self.pick(&["", "  ", "<unset>"]) } else { account };
        let mut arguments = json!({"account_id": account, "task_type": self.pick(&TYPES)});
        if self.below(2) == 0 {
            arguments["request_context"] = self.document(1);
        }
        if self.below(2) == 0 {
            arguments["webhook_url"] = "https://buyer.example/hooks".into();
            arguments["webhook_operation_id"] = "op_1".into();
        }
        let task = *issued;
        if !account.trim().is_empty() && account != "<unset>" {
            *issued += 1;
        }
        json!({"do": "issue", "task": task, "arguments": arguments})
    }

    fn list(&mut self, account: &str) -> Value {
        let mut filters = Map::new();
        for _ in 0..self.below(3) {
            let (name, value) = match self.below(8) {
                0 => ("status", json!(self.pick(&["submitted", "working", "completed", "failed"]))),
                1 => ("statuses", json!(["working", "failed"])),
                2 => ("protocol", json!(self.pick(&["media-buy", "creative", "governance"]))),
                3 => ("task_types", json!(["sync_creatives", "get_signals", "get_rights"])),
                4 => ("has_webhook", json!(self.below(2) == 0)),
                5 => ("context_contains", json!(self.pick(&["a", "text", "\"b\": ", "bank"]))),
                6 => ("created_after", json!(self.pick(&["2020-01-01T00:00:00Z", "2999-01-01T00:00:00+02:00"]))),
                _ => (*self.pick(&["colour", "updated_before"]), json!("2999-01-01T00:00:00Z")),
            };
            filters.insert(name.into(), value);
        }
        let sort = json!({"field": self.pick(&["created_at", "updated_at"]), "direction": self.pick(&["asc", "desc"])});
        json!({"account_id": account, "filters": filters, "sort": sort,
               "pagination": {"max_results": self.pick(&[0, 1, 7, 50, 100])}})
    }
}

fn operations() -> Vec<Value> {
    let (mut dice, mut issued, mut operations) = (Dice(SEED), 0, Vec::with_capacity(OPERATIONS));
    while operations.len() < OPERATIONS {
        let operation = dice.operation(&mut issued, &operations);
        operations.push(operation);
    }
    operations
}

/// One schema under test, and the ids of its tasks by number.
struct Side {
    host: Host,
    key: EnvelopeKey,
    ids: Map<String, Value>,
}

impl Side {
    fn id(&self, operation: &Value) -> String {
        let number = operation["task"].to_string();
        self.ids.get(&number).and_then(Value::as_str).unwrap_or("task_unknown").to_owned()
    }

    /// The outcome in the SDK's terms.
    async fn apply(&mut self, operation: &Value) -> Value {
        let (id, document) = (self.id(operation), operation["document"].to_string());
        let told = |outcome: Result<bool, String>, event: &str| match outcome {
            Ok(true) => json!({"events": [event]}),
            Ok(false) => json!({"events": []}),
            Err(state) => json!({"error": state}),
        };
        match operation["do"].as_str().expect("it says what") {
            "issue" => self.issue(operation).await,
            "progress" => {
                let before = self.record(&id, None).await["state"] == "submitted";
                let call = "outboxd.update_progress($1, $2::text::jsonb)";
                let outcome = self.host.call::<bool>(call, &[&id, &document]).await;
                told(outcome.map(|done| done && before), "working")
            }
            "complete" => told(self.host.complete(&id, &document).await, "completed"),
            "fail" => told(self.host.fail(&id, &document).await, "failed"),
            "discard" => told(self.host.call("outboxd.discard_task($1)", &[&id]).await, "discarded"),
            "get" => json!({"record": self.record(&id, operation["account"].as_str()).await}),
            _ => self.list(&operation["arguments"]).await,
        }
    }

    async fn issue(&mut self, operation: &Value) -> Value {
        let arguments = &operation["arguments"];
        let text = |name: &str| arguments[name].as_str().expect("text").to_owned();
        let (account, task_type) = (text("account_id"), text("task_type"));
        let context = arguments.get("request_context").map(Value::to_string);
        let task: String = self.host.call("outboxd.new_task_id()", &[]).await.expect("ids are free");
        let sealed = arguments.get("webhook_url").map(|url| {
            let registration = Registration::to(url.as_str().expect("text"));
            registration.seal(&self.key, &account, &task, &task_type)
        });
        let (registration, nonce) = sealed.unzip();
        let call = "outboxd.issue_task($1, $2, $3::text::jsonb, $4, $5, $6)";
        match self.host.call::<String>(call, &[&account, &task_type, &context, &registration, &nonce, &task]).await {
            Ok(id) => {
                self.ids.insert(operation["task"].to_string(), id.clone().into());
                json!({"id": id})
            }
            Err(state) => json!({"error": state}),
        }
    }

    async fn record(&self, id: &str, account: Option<&str>) -> Value {
        let call = "(select to_json(t)::text from unnest(array['acc_1', 'acc_2']) as a, outboxd.get_task($1, a) as t \
                    where $2::text is null or a = $2)";
        let text: Option<String> = self.host.call(call, &[&id, &account]).await.expect("it answers");
        let Some(text) = text else { return Value::Null };
        let mut record: Value = serde_json::from_str(&text).expect("it is JSON");
        let fields = record.as_object_mut().expect("a row");
        fields.remove("has_webhook");
        match fields.remove("request_context") {
            Some(Value::Null) | None => {}
            Some(context) => drop(fields.insert("context".into(), context)),
        }
        record
    }

    async fn list(&self, arguments: &Value) -> Value {
        let text = |name: &str| arguments[name].to_string();
        let call = "outboxd.list_tasks($1, $2::text::jsonb, $3::text::jsonb, $4::text::jsonb)::text";
        let account = arguments["account_id"].as_str().expect("text");
        match self.host.call::<String>(call, &[&account, &text("filters"), &text("sort"), &text("pagination")]).await {
            Ok(page) => json!({"page": serde_json::from_str::<Value>(&page).expect("it is JSON")}),
            Err(state) => json!({"error": state}),
        }
    }
}

/// Ids become numbers, and what each side measures or mints for itself is taken out.
fn normal(mut outcome: Value, ids: &Map<String, Value>) -> Value {
    let numbers: HashMap<&str, &str> =
        ids.iter().filter_map(|(number, id)| Some((id.as_str()?, number.as_str()))).collect();
    fn walk(value: &mut Value, numbers: &HashMap<&str, &str>) {
        match value {
            Value::Object(members) => {
                for name in ["created_at", "updated_at", "completed_at", "cursor", "field"] {
                    if members.get(name).is_some_and(|value| !value.is_object() && name != "field" || value.is_string())
                    {
                        members.remove(name);
                    }
                }
                if let Some(Value::Array(applied)) = members.get_mut("filters_applied") {
                    applied.sort_by_key(Value::to_string);
                }
                members.values_mut().for_each(|value| walk(value, numbers));
            }
            Value::Array(items) => items.iter_mut().for_each(|value| walk(value, numbers)),
            Value::String(text) => {
                if let Some(number) = numbers.get(text.as_str()) {
                    *text = format!("task {number}");
                }
            }
            // 1 and 1.0 are one number; each side spells it in its own way.
            Value::Number(number) => *value = json!(number.as_f64()),
            _ => {}
        }
    }
    walk(&mut outcome, &numbers);
    outcome
}

/// The tables' rows in the order in which tasks were issued, without ids, keys, times and ciphertext.
async fn rows(database: &Database, schema: &str) -> String {
    let sql = format!(
        "with tasks as (select t.*, row_number() over (order by created_at, task_id) as nth from {schema}.decisioning_tasks as t) \
         select string_agg(concat_ws('|', t.nth, t.account_id, t.state, t.task_type, coalesce(t.progress::text, '-'), \
                coalesce(t.result, 'null')::text, coalesce(t.error::text, '-'), coalesce(t.request_context::text, '-'), \
                t.webhook_registration is null, t.webhook_registration_nonce is null, t.updated_at >= t.created_at, \
                o.account_id, o.task_type, o.terminal_status, o.retry_horizon_seconds, o.attempt_count, \
                o.signing_scope_id, o.idempotency_key ~ '^whk_[0-9a-f-]{{36}}$'), E'\\n' order by t.nth) \
         from tasks as t left join {schema}.{TABLE} as o using (task_id)"
    );
    let text: String = database.value(&sql, &[]).await;
    // jsonb keeps a number's digits: what one side wrote as 1.0 the other may have written as 1.
    text.replace(".0,", ",").replace(".0}", "}").replace(".0]", "]")
}

async fn side(database: &Database, key: &EnvelopeKey) -> Side {
    Side { host: Host::on(database).await, key: key.clone(), ids: Map::new() }
}

#[tokio::test]
async fn two_thousand_operations_end_the_same_in_sql_in_the_sdk_and_in_both_mixed() {
    let (apart, mixed) = (Database::new().await, Database::new().await);
    let (key, signer) = (EnvelopeKey::new(), SigningKey::ed25519("differential"));
    apart.client.batch_execute("create schema sdk").await.expect("a schema");
    let (pure, partner) = tokio::join!(Peer::seller(), Peer::seller());
    let open = |database: &Database, schema: &str| json!({"dsn": database.url, "key": key.hex(), "schema": schema, "signing": signing(&signer)});
    pure.call("open_tasks", open(&apart, "sdk")).await;
    partner.call("open_tasks", open(&mixed, "public")).await;
    let operations = operations();
    let mut expected = Vec::new();
    let mut sdk_ids = Map::new();
    for batch in operations.chunks(BATCH) {
        let outcomes = pure.call("apply", json!({"operations": batch, "ids": sdk_ids})).await;
        for (operation, outcome) in batch.iter().zip(outcomes.as_array().expect("a list")) {
            if let Some(id) = outcome.get("id") {
                sdk_ids.insert(operation["task"].to_string(), id.clone());
            }
            expected.push(normal(outcome.clone(), &sdk_ids));
        }
    }
    let (mut ours, mut both) = (side(&apart, &key).await, side(&mixed, &key).await);
    let mut dice = Dice(SEED ^ 1);
    for (nth, (operation, expected)) in operations.iter().zip(&expected).enumerate() {
        let outcome = ours.apply(operation).await;
        assert_eq!(&normal(outcome, &ours.ids), expected, "operation {nth}: {operation}");
        let outcome = if dice.below(2) == 0 {
            both.apply(operation).await
        } else {
            let outcome = partner.call("apply", json!({"operations": [operation], "ids": both.ids})).await[0].take();
            if let Some(id) = outcome.get("id") {
                both.ids.insert(operation["task"].to_string(), id.clone());
            }
            outcome
        };
        assert_eq!(&normal(outcome, &both.ids), expected, "mixed, operation {nth}: {operation}");
    }
    let reference = rows(&apart, "sdk").await;
    assert_eq!(rows(&apart, "public").await, reference);
    assert_eq!(rows(&mixed, "public").await, reference);
    // The random walk went where it should.
    for kind in ["\"OD001\"", "\"OD002\"", "\"OD003\"", "\"OD004\"", "\"OD010\"", "\"OD016\"", "[\"completed\"]", "[]"]
    {
        assert!(expected.iter().filter(|outcome| outcome.to_string().contains(kind)).count() >= 5, "too few {kind}");
    }
    both_read_the_same_pages(&both, &partner).await;
}

/// On one schema nothing differs between the two lists but the cursor's text.
async fn both_read_the_same_pages(both: &Side, partner: &Peer) {
    for field in ["created_at", "updated_at", "status", "task_type", "protocol"] {
        for direction in ["asc", "desc"] {
            let (mut theirs_next, mut ours_next) = (Value::Null, Value::Null);
            loop {
                let ask = |cursor: &Value| {
                    let mut pagination = json!({"max_results": 40});
                    if !cursor.is_null() {
                        pagination["cursor"] = cursor.clone();
                    }
                    json!({"account_id": "acc_1", "filters": {}, "pagination": pagination,
                           "sort": {"field": field, "direction": direction}})
                };
                let operation = json!({"do": "list", "arguments": ask(&theirs_next)});
                let mut theirs =
                    partner.call("apply", json!({"operations": [operation], "ids": {}})).await[0]["page"].take();
                let mut ours = both.list(&ask(&ours_next)).await["page"].take();
                let next = |page: &mut Value| {
                    page["pagination"].as_object_mut().expect("it has one").remove("cursor").unwrap_or_default()
                };
                (theirs_next, ours_next) = (next(&mut theirs), next(&mut ours));
                assert_eq!(ours["tasks"], theirs["tasks"], "{field} {direction}");
                assert_eq!(ours, theirs, "{field} {direction}");
                assert_eq!(ours_next.is_null(), theirs_next.is_null());
                if ours_next.is_null() {
                    break;
                }
            }
        }
    }
}
