//! The same random operations through the SDK's stores and through the host's functions: what each came to, and
//! every row at the end, must be equal; on tables of their own, and taking turns on the same ones.

use serde_json::{Value, json};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::support::cluster::{Database, migrating};
use crate::support::listener::Listener;
use crate::support::peer::Peer;
use crate::support::refusal::Refusal;

const OPERATIONS: usize = 3_000;
const SEED: u64 = 0x0dd5_eed5;

/// SplitMix64: the same operations in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits fit") % limit
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Any JSON object, with what spells differently from language to language.
    fn object(&mut self) -> Value {
        let text = r#"{"a": 1, "b": [1.0, 1.50, -0.0, 1e22, 12345678901234567890, null, true], "ü": {"": "😀\"\\/"}}"#;
        let odd: Value = serde_json::from_str(text).expect("it is JSON");
        self.one(&[json!({}), json!({"a": 1}), json!({"b": {"a": null}}), odd])
    }

    fn some_of(&mut self, from: &[&str]) -> Vec<String> {
        (0..self.below(5)).map(|_| self.one(from).to_string()).collect()
    }

    fn agent_operation(&mut self) -> Value {
        let url = self.one(&["https://a.example/", "https://A.example/", "https://b.example", "urn:ü", ""]);
        let status = self.one(&["active", "suspended", "blocked", "active", "suspended", "Active"]);
        let key = self.one(&["k1", "k2", "K2", "clé", ""]);
        match self.below(10) {
            0..4 => json!({
                "op": "upsert_agent",
                "agent_url": url,
                "display_name": self.one(&["Acme", "", "Zoë 😀 \"q\" \\"]),
                "status": status,
                "billing_capabilities": self.some_of(&["operator", "agent", "advertiser"]),
                "api_key_id": if self.once_in(2) { Value::Null } else { key.into() },
                "default_terms": self.terms(),
                "allowed_brands": if self.once_in(3) {
                    Value::Null
                } else {
                    self.some_of(&["z.example", "Z.example", "é.example", "\u{ffff}", "😀", "a"]).into()
                },
                "ext": self.object(),
            }),
            4..6 => json!({"op": "set_agent_status", "agent_url": url, "status": status}),
            6 => json!({"op": "delete_agent", "agent_url": url}),
            7..9 => json!({"op": "resolve_agent_by_credential", "api_key_id": key}),
            _ => json!({"op": "resolve_agent_by_url", "agent_url": url}),
        }
    }

    fn terms(&mut self) -> Value {
        if self.once_in(3) {
            return Value::Null;
        }
        let mut terms = json!({});
        for (name, value) in [
            ("rate_card", json!("gold")),
            ("payment_terms", json!("")),
            ("credit_limit", self.object()),
            ("billing_entity", self.object()),
        ] {
            match self.below(3) {
                0 => {}
                1 => terms[name] = Value::Null,
                _ => terms[name] = value,
            }
        }
        terms
    }

    fn proposal_operation(&mut self) -> Value {
        let account = self.one(&["acc_1", "ACC_1", ""]);
        let proposal = self.one(&["p1", "p2", "p3", "P1"]);
        let buy = self.one(&["mb_1", "mb_2", "mb_3"]);
        let named = |op: &str| json!({"op": op, "account_id": account, "proposal_id": proposal});
        match self.below(16) {
            0..3 => {
                let mut operation = named("put_draft");
                operation["recipes"] = match self.below(12) {
                    0 => json!({"p": 5}),
                    1 => json!({"p": {"text": "\u{0}"}}),
                    2 => json!({}),
                    _ => json!({"p": self.object(), "q": {"recipe_kind": "k"}}),
                };
                operation["proposal_payload"] = self.object();
                operation
            }
            3..6 => {
                let mut operation = named("commit_proposal");
                operation["expires_at"] =
                    self.one(&["2031-05-06T07:08:09.123456+00:00", "1999-01-01T00:00:00+02:00"]).into();
                operation["proposal_payload"] = self.one(&[json!({"total": 1}), json!({"total": 1.0}), json!({})]);
                operation
            }
            6..9 => named("try_reserve_consumption"),
            9..11 => {
                let mut operation = named("finalize_consumption");
                operation["media_buy_id"] = buy.into();
                operation
            }
            11 => {
                let mut operation = named("mark_consumed");
                operation["media_buy_id"] = buy.into();
                operation
            }
            12 => named("release_consumption"),
            13 => named("discard_proposal"),
            14 => named("get_proposal"),
            _ => json!({"op": "get_proposal_by_media_buy", "account_id": account, "media_buy_id": buy}),
        }
    }

    fn operations(&mut self, count: usize) -> Vec<Value> {
        (0..count).map(|_| if self.once_in(3) { self.agent_operation() } else { self.proposal_operation() }).collect()
    }
}

/// What one operation came to, in words that both sides share.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    value: Value,
    /// SQLSTATE as ours, and for proposals what the buyer may be told.
    refused: Option<(String, Value)>,
    wrote: bool,
}

const VERSIONS: &str = "SELECT concat( \
    (SELECT string_agg(ctid::text || '/' || xmin::text, ',' ORDER BY agent_url) FROM adcp_buyer_agents), ' ', \
    (SELECT string_agg(ctid::text || '/' || xmin::text, ',' ORDER BY account_id, proposal_id) FROM adcp_proposal_drafts))";

/// The columns that the SDK reads too.
const AGENT: &str = "to_jsonb(it)";
const PROPOSAL: &str = "to_jsonb(it) - 'created_at' - 'updated_at' || jsonb_build_object('expires_at', \
    to_char(it.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'))";

fn text(operation: &Value, name: &str) -> Option<String> {
    operation[name].as_str().map(str::to_string)
}

/// JSON text of a member that is not null.
fn written(operation: &Value, name: &str) -> Option<String> {
    let member = &operation[name];
    (!member.is_null()).then(|| member.to_string())
}

fn list(operation: &Value, name: &str) -> Option<Vec<String>> {
    let members = operation[name].as_array()?;
    Some(members.iter().map(|member| member.as_str().expect("lists hold text").to_string()).collect())
}

/// Through the host's functions. Their own word on whether anything changed must agree with the rows.
async fn apply(client: &Client, operation: &Value) -> Outcome {
    let op = operation["op"].as_str().expect("each has a name");
    let column = |name: &str| Box::new(text(operation, name)) as Box<dyn ToSql + Sync + Send>;
    let json = |name: &str| Box::new(written(operation, name)) as Box<dyn ToSql + Sync + Send>;
    let array = |name: &str| Box::new(list(operation, name)) as Box<dyn ToSql + Sync + Send>;
    let (placeholders, given): (&str, Vec<Box<dyn ToSql + Sync + Send>>) = match op {
        "upsert_agent" => (
            "$1, $2, $3, $4, $5, $6::text::jsonb, $7, $8::text::jsonb",
            vec![
                column("agent_url"),
                column("display_name"),
                column("status"),
                array("billing_capabilities"),
                column("api_key_id"),
                json("default_terms"),
                array("allowed_brands"),
                json("ext"),
            ],
        ),
        "set_agent_status" => ("$1, $2", vec![column("agent_url"), column("status")]),
        "delete_agent" | "resolve_agent_by_url" => ("$1", vec![column("agent_url")]),
        "resolve_agent_by_credential" => ("$1", vec![column("api_key_id")]),
        "put_draft" => (
            "$1, $2, $3::text::jsonb, $4::text::jsonb",
            vec![column("account_id"), column("proposal_id"), json("recipes"), json("proposal_payload")],
        ),
        "commit_proposal" => (
            "$1, $2, $3::text::timestamptz, $4::text::jsonb",
            vec![column("account_id"), column("proposal_id"), column("expires_at"), json("proposal_payload")],
        ),
        "finalize_consumption" | "mark_consumed" => {
            ("$1, $2, $3", vec![column("account_id"), column("proposal_id"), column("media_buy_id")])
        }
        "get_proposal_by_media_buy" => ("$1, $2", vec![column("account_id"), column("media_buy_id")]),
        _ => ("$1, $2", vec![column("account_id"), column("proposal_id")]),
    };
    let reads = match op {
        "resolve_agent_by_url" | "resolve_agent_by_credential" => Some(AGENT),
        "get_proposal" | "get_proposal_by_media_buy" | "try_reserve_consumption" => Some(PROPOSAL),
        _ => None,
    };
    let sql = match reads {
        Some(columns) => format!("SELECT (SELECT ({columns})::text FROM outboxd.{op}({placeholders}) AS it)"),
        None => format!("SELECT outboxd.{op}({placeholders})"),
    };
    let given: Vec<&(dyn ToSql + Sync)> = given.iter().map(|one| &**one as &(dyn ToSql + Sync)).collect();
    let versions = async || client.query_one(VERSIONS, &[]).await.expect("it answers").get::<_, String>(0);
    let before = versions().await;
    let answer = client.query_one(&sql, &given).await;
    let wrote = versions().await != before;
    match answer {
        Err(error) => {
            let refusal = Refusal::of(&error);
            let told = if refusal.sqlstate.starts_with("OD2") { json!(refusal.told()) } else { Value::Null };
            Outcome { value: Value::Null, refused: Some((refusal.sqlstate, told)), wrote }
        }
        Ok(row) if reads.is_some() => {
            let read: Option<String> = row.get(0);
            let value = read.map_or(Value::Null, |text| serde_json::from_str(&text).expect("it is JSON"));
            Outcome { value, refused: None, wrote }
        }
        Ok(row) => {
            // Of the first two it tells whether the row is new, and they always write.
            let said = row.get::<_, bool>(0) || ["upsert_agent", "put_draft"].contains(&op);
            assert_eq!(said, wrote, "{operation}");
            Outcome { value: Value::Null, refused: None, wrote }
        }
    }
}

/// The SDK's answer in our words.
fn of_sdk(operation: &Value, answer: &Value) -> Outcome {
    let op = operation["op"].as_str().expect("each has a name");
    let error = &answer["error"];
    let message = error["message"].as_str().unwrap_or_default();
    let ours_by_message = [
        ("not found.", "OD202"),
        ("requires a committed proposal", "OD203"),
        ("must be a Recipe", "OD201"),
        ("not in store for", "OD204"),
        ("not found for", "OD204"),
        ("already committed", "OD206"),
        ("already consumed", "OD207"),
        ("state ", "OD205"),
        ("requires CONSUMING", "OD205"),
    ];
    let refused = match error["class"].as_str() {
        None => None,
        Some("ValueError") => Some(("OD102".to_string(), Value::Null)),
        Some("AdcpError") => {
            let ours = ours_by_message.iter().find(|(part, _)| message.contains(part));
            let (_, sqlstate) = ours.unwrap_or_else(|| panic!("{operation}: {message}"));
            Some((sqlstate.to_string(), error["told"].clone()))
        }
        // The SDK lets it through, and its dispatch makes an internal error of it.
        Some(_) if error["sqlstate"] == "23505" && op == "upsert_agent" => Some(("OD103".to_string(), Value::Null)),
        Some(_) if error["sqlstate"] == "23505" => {
            Some(("OD208".to_string(), json!(["INTERNAL_ERROR", "terminal", null])))
        }
        Some(_) => Some((error["sqlstate"].as_str().expect("the server refused").to_string(), Value::Null)),
    };
    Outcome { value: answer["value"].clone(), refused, wrote: answer["wrote"].as_bool().expect("it says") }
}

async fn through_sdk(peer: &Peer, operations: &[Value]) -> Vec<Outcome> {
    let answers = peer.call("apply", json!({"operations": operations})).await;
    let answers = answers.as_array().expect("a list").clone();
    operations.iter().zip(&answers).map(|(operation, answer)| of_sdk(operation, answer)).collect()
}

/// Every row as text, without the two times that no two runs share; those are compared with each other.
async fn rows(client: &Client, schema: &str) -> Vec<String> {
    let sql = format!(
        "SELECT (to_jsonb(t) - 'created_at' - 'updated_at')::text || (created_at < updated_at)::text \
         FROM {schema}.adcp_buyer_agents AS t UNION ALL \
         SELECT (to_jsonb(t) - 'created_at' - 'updated_at')::text || (created_at < updated_at)::text \
         FROM {schema}.adcp_proposal_drafts AS t ORDER BY 1"
    );
    client.query(&sql, &[]).await.expect("it answers").iter().map(|row| row.get(0)).collect()
}

/// Columns, constraints and indexes of both tables, in words without the schema.
async fn definitions(client: &Client, schema: &str) -> Vec<String> {
    let sql = format!(
        "WITH ours AS (SELECT oid, relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace \
                       AND relname IN ('adcp_buyer_agents', 'adcp_proposal_drafts')) \
         SELECT concat_ws(' ', relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, \
                          attcollation::regcollation, pg_get_expr(adbin, adrelid)) \
           FROM ours JOIN pg_attribute ON attrelid = ours.oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum \
          WHERE attnum > 0 AND NOT attisdropped \
          UNION ALL SELECT concat_ws(' ', relname, conname, pg_get_constraintdef(c.oid)) \
           FROM ours JOIN pg_constraint AS c ON conrelid = ours.oid \
          UNION ALL SELECT replace(indexdef, ' ON {schema}.', ' ON ') FROM pg_indexes \
          WHERE schemaname = '{schema}' AND tablename IN (SELECT relname FROM ours) ORDER BY 1"
    );
    client.query(&sql, &[]).await.expect("it answers").iter().map(|row| row.get(0)).collect()
}

fn compare(operations: &[Value], theirs: &[Outcome], ours: &[Outcome]) {
    assert_eq!(theirs.len(), ours.len());
    for (number, operation) in operations.iter().enumerate() {
        assert_eq!(theirs[number], ours[number], "operation {number}, the SDK's outcome first: {operation}");
    }
}

/// A test of nothing would pass too.
fn assert_varied(operations: &[Value], outcomes: &[Outcome]) {
    let mut kinds: Vec<String> = operations
        .iter()
        .zip(outcomes)
        .map(|(operation, outcome)| {
            let end = outcome.refused.as_ref().map_or(if outcome.wrote { "wrote" } else { "wrote nothing" }, |r| &r.0);
            format!("{} {end}", operation["op"].as_str().expect("each has a name"))
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in [
        "upsert_agent wrote",
        "upsert_agent OD102",
        "upsert_agent OD103",
        "set_agent_status wrote nothing",
        "delete_agent wrote nothing",
        "put_draft 22P05",
        "put_draft OD201",
        "put_draft OD205",
        "commit_proposal wrote nothing",
        "commit_proposal OD204",
        "commit_proposal OD205",
        "commit_proposal OD206",
        "try_reserve_consumption OD202",
        "try_reserve_consumption OD203",
        "finalize_consumption wrote nothing",
        "finalize_consumption OD204",
        "finalize_consumption OD205",
        "finalize_consumption OD207",
        "finalize_consumption OD208",
        "release_consumption wrote nothing",
        "release_consumption OD205",
        "mark_consumed wrote",
        "mark_consumed OD208",
        "discard_proposal wrote",
    ] {
        assert!(kinds.iter().any(|it| it == kind), "no {kind} among {kinds:#?}");
    }
}

#[tokio::test]
async fn the_functions_do_what_the_sdk_does_beside_it_and_taking_turns() {
    let operations = Chance(SEED).operations(OPERATIONS);
    let (beside, shared) = (Database::new().await, Database::new().await);
    // The SDK alone, in a schema of its own beside ours.
    beside.execute("CREATE SCHEMA sdk", &[]).await;
    let sdk = Peer::registry().await;
    sdk.call("open", json!({"dsn": format!("{}&options=-csearch_path%3Dsdk", beside.url)})).await;
    assert_eq!(definitions(&beside.client, "sdk").await, definitions(&beside.client, "public").await);
    let theirs = through_sdk(&sdk, &operations).await;
    assert_varied(&operations, &theirs);
    // Our functions alone.
    let listener = Listener::on(&beside.url, "outboxd_agents").await;
    let mut ours = Vec::new();
    for operation in &operations {
        ours.push(apply(&beside.client, operation).await);
    }
    compare(&operations, &theirs, &ours);
    let ended = rows(&beside.client, "sdk").await;
    assert!(!ended.is_empty());
    assert_eq!(ended, rows(&beside.client, "public").await);
    for heard in sdk.call("hear", json!({})).await.as_array().expect("a list") {
        let notified: Value = serde_json::from_str(&listener.notified().await).expect("it is JSON");
        assert_eq!(json!([notified["op"], notified["agent_url"]]), *heard);
    }
    // Both on tables that the SDK made and that we migrated over.
    shared.execute("DROP TABLE adcp_buyer_agents", &[]).await;
    shared.execute("DROP TABLE adcp_proposal_drafts", &[]).await;
    let partner = Peer::registry().await;
    partner.call("open", json!({"dsn": shared.url})).await;
    let made = definitions(&shared.client, "public").await;
    let output = migrating(&shared.url);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(made, definitions(&shared.client, "public").await);
    let (mut mixed, mut turns) = (Vec::new(), Chance(SEED + 1));
    while mixed.len() < operations.len() {
        let turn = (mixed.len() + 1 + turns.below(4)).min(operations.len());
        let next = &operations[mixed.len()..turn];
        if turns.once_in(2) {
            mixed.extend(through_sdk(&partner, next).await);
        } else {
            for operation in next {
                mixed.push(apply(&shared.client, operation).await);
            }
        }
    }
    compare(&operations, &theirs, &mixed);
    assert_eq!(ended, rows(&shared.client, "public").await);
}
