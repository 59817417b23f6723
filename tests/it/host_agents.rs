//! The host's functions for buyer agents: who is found, what is refused, and what others hear of a change.

use tokio_postgres::Client;

use crate::support::cluster::{Database, migrating};
use crate::support::listener::Listener;
use crate::support::reference;
use crate::support::refusal::Refusal;

const URL: &str = "https://agent.example/";

/// Every member by its name; what is not given is the function's default.
async fn upsert(client: &Client, named: &str) -> Result<bool, Refusal> {
    let sql = format!("SELECT outboxd.upsert_agent({named})");
    client.query_one(&sql, &[]).await.map(|row| row.get(0)).map_err(|error| Refusal::of(&error))
}

async fn registered(client: &Client, url: &str, key: Option<&str>) {
    let key = key.map_or("null".to_string(), |key| format!("'{key}'"));
    let named = format!("p_agent_url => '{url}', p_display_name => 'Acme', p_api_key_id => {key}");
    assert!(upsert(client, &named).await.expect("it is in order"), "{url} is known already");
}

/// The agents that a credential resolves to, by their URL.
async fn by_credential(client: &Client, key: &str) -> Vec<String> {
    let rows = client.query("SELECT agent_url FROM outboxd.resolve_agent_by_credential($1)", &[&key]).await;
    rows.expect("it answers").iter().map(|row| row.get(0)).collect()
}

/// All that a URL resolves to, as JSON text.
async fn by_url(database: &Database, url: &str) -> Option<String> {
    let sql = "SELECT (SELECT to_jsonb(agent)::text FROM outboxd.resolve_agent_by_url($1) AS agent)";
    database.value(sql, &[&url]).await
}

#[tokio::test]
async fn an_agent_is_registered_replaced_suspended_and_removed() {
    let database = Database::new().await;
    let client = &database.client;
    registered(client, URL, Some("key-1")).await;
    let plain = r#"{"ext": {}, "status": "active", "agent_url": "https://agent.example/", "display_name": "Acme", "default_terms": null, "allowed_brands": null, "billing_capabilities": ["operator"]}"#;
    assert_eq!(by_url(&database, URL).await.as_deref(), Some(plain));
    assert_eq!(by_credential(client, "key-1").await, [URL]);
    let all = format!(
        "p_agent_url => '{URL}', p_display_name => 'Acme Ltd', p_status => 'blocked', \
         p_billing_capabilities => '{{operator,agent,operator}}', \
         p_default_terms => '{{\"rate_card\": \"gold\", \"payment_terms\": null, \"credit_limit\": {{\"amount\": null}}}}', \
         p_allowed_brands => '{{b.example,é.example,a.example,B.example}}', p_ext => '{{\"id\": 7.0}}'"
    );
    assert!(!upsert(client, &all).await.expect("it is in order"), "it was there");
    let full = r#"{"ext": {"id": 7.0}, "status": "blocked", "agent_url": "https://agent.example/", "display_name": "Acme Ltd", "default_terms": {"rate_card": "gold", "credit_limit": {"amount": null}}, "allowed_brands": ["B.example", "a.example", "b.example", "é.example"], "billing_capabilities": ["agent", "operator"]}"#;
    assert_eq!(by_url(&database, URL).await.as_deref(), Some(full));
    assert!(by_credential(client, "key-1").await.is_empty(), "what is not given is not kept");
    let status = "SELECT outboxd.set_agent_status($1, 'suspended')";
    assert!(database.value::<bool>(status, &[&URL]).await);
    assert!(by_url(&database, URL).await.expect("it is there").contains(r#""status": "suspended""#));
    assert!(!database.value::<bool>(status, &[&"https://AGENT.example/"]).await, "a URL is compared byte for byte");
    let delete = "SELECT outboxd.delete_agent($1)";
    assert!(database.value::<bool>(delete, &[&URL]).await);
    assert!(!database.value::<bool>(delete, &[&URL]).await);
    assert_eq!(by_url(&database, URL).await, None);
}

#[tokio::test]
async fn no_list_of_brands_and_an_empty_one_are_told_apart() {
    let database = Database::new().await;
    for (given, read) in [("null", "null"), ("'{}'", "[]")] {
        let named = format!(
            "p_agent_url => '{URL}', p_display_name => '', p_allowed_brands => {given}, p_default_terms => '{{}}'"
        );
        upsert(&database.client, &named).await.expect("it is in order");
        let agent = by_url(&database, URL).await.expect("it is there");
        assert!(agent.contains(&format!(r#""allowed_brands": {read}"#)), "{agent}");
        assert!(agent.contains(r#""default_terms": {}"#), "{agent}");
    }
}

#[tokio::test]
async fn a_list_that_is_no_list_is_an_error_and_not_every_brand() {
    let database = Database::new().await;
    registered(&database.client, URL, None).await;
    database.execute("UPDATE adcp_buyer_agents SET allowed_brands = '{\"a.example\": 1}'", &[]).await;
    let error = database.client.query("SELECT * FROM outboxd.resolve_agent_by_url($1)", &[&URL]).await;
    assert_eq!(Refusal::of(&error.expect_err("it cannot be read")).sqlstate, "22023");
}

#[tokio::test]
async fn what_is_malformed_is_refused_by_name() {
    let database = Database::new().await;
    for (named, says) in [
        ("null, 'Acme'", "p_agent_url is null"),
        ("'u', null", "p_display_name is null"),
        ("'u', 'n', p_billing_capabilities => null", "p_billing_capabilities is null"),
        ("'u', 'n', p_billing_capabilities => '{agent,null}'", "p_billing_capabilities has a null member"),
        ("'u', 'n', p_allowed_brands => '{{null}}'", "p_allowed_brands has a null member"),
        ("'u', 'n', p_ext => '[]'", "p_ext is not a JSON object"),
        ("'u', 'n', p_ext => null", "p_ext is not a JSON object"),
        ("'u', 'n', p_default_terms => '\"net 30\"'", "p_default_terms is neither null nor a JSON object"),
        ("'u', 'n', p_default_terms => '{\"rate_card\": 7}'", "member \"rate_card\" of p_default_terms"),
        ("'u', 'n', p_default_terms => '{\"credit_limit\": \"7\"}'", "member \"credit_limit\" of p_default_terms"),
        ("'u', 'n', p_default_terms => '{\"ratecard\": \"gold\"}'", "member \"ratecard\" of p_default_terms"),
    ] {
        let refusal = upsert(&database.client, named).await.expect_err(named);
        assert_eq!(refusal.sqlstate, "OD101", "{named}: {refusal:?}");
        assert!(refusal.message.contains(says), "{named}: {refusal:?}");
        assert!(!refusal.hint.is_empty(), "{named}");
    }
    assert_eq!(database.value::<i64>("SELECT count(*) FROM adcp_buyer_agents", &[]).await, 0);
}

#[tokio::test]
async fn a_status_is_one_of_three() {
    let database = Database::new().await;
    registered(&database.client, URL, None).await;
    for status in ["'Active'", "''", "null"] {
        let named = format!("'{URL}', 'Acme', {status}");
        let refusal = upsert(&database.client, &named).await.expect_err(status);
        assert_eq!(refusal.sqlstate, "OD102", "{refusal:?}");
        let sql = format!("SELECT outboxd.set_agent_status('{URL}', {status})");
        let refusal = Refusal::of(&database.client.query_one(&sql, &[]).await.expect_err(status));
        assert_eq!(refusal.sqlstate, "OD102", "{refusal:?}");
        assert!(refusal.message.contains(URL) && refusal.hint.contains("suspended"), "{refusal:?}");
    }
}

#[tokio::test]
async fn a_credential_of_another_agent_is_refused_by_naming_that_agent() {
    let database = Database::new().await;
    registered(&database.client, URL, Some("key-1")).await;
    let other = "'https://other.example/', 'Other', p_api_key_id => 'key-1'";
    let refusal = upsert(&database.client, other).await.expect_err("the key is taken");
    assert_eq!(refusal.sqlstate, "OD103", "{refusal:?}");
    assert!(refusal.message.contains("https://other.example/") && refusal.message.contains(URL), "{refusal:?}");
    assert!(!format!("{refusal:?}").contains("key-1"), "a credential is not for error logs: {refusal:?}");
    assert_eq!(by_credential(&database.client, "key-1").await, [URL]);
}

/// What the SDK left before it made credentials unique.
async fn without_uniqueness(database: &Database) {
    let sql = "DROP INDEX adcp_buyer_agents_api_key_id_uidx; \
               CREATE INDEX adcp_buyer_agents_api_key_id_idx ON adcp_buyer_agents (api_key_id)";
    database.client.batch_execute(sql).await.expect("the index is there");
}

#[tokio::test]
async fn an_ambiguous_credential_resolves_to_nobody_and_warns() {
    let database = Database::new().await;
    without_uniqueness(&database).await;
    for url in ["https://a.example/", "https://b.example/", "https://c.example/"] {
        registered(&database.client, url, Some("shared")).await;
    }
    registered(&database.client, URL, Some("own")).await;
    let listener = Listener::connect(&database.url).await;
    assert!(by_credential(&listener.client, "shared").await.is_empty());
    let (sqlstate, message) = listener.noticed().await;
    assert_eq!(sqlstate, "OD104");
    assert!(message.contains(".example/") && !message.contains("shared"), "{message}");
    assert_eq!(by_credential(&listener.client, "own").await, [URL]);
    let null = "SELECT count(*) FROM outboxd.resolve_agent_by_credential(null)";
    assert_eq!(database.value::<i64>(null, &[]).await, 0);
}

#[tokio::test]
async fn shared_credentials_stop_the_migration_until_they_are_repaired_as_it_says() {
    let database = Database::new().await;
    without_uniqueness(&database).await;
    for (url, key) in [("https://a.example/", "k1"), ("https://b.example/", "k1"), ("https://c.example/", "k2")] {
        registered(&database.client, url, Some(key)).await;
    }
    let indexes = "SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes \
                   WHERE indexname LIKE 'adcp_buyer_agents_api_key_id%'";
    let refused = migrating(&database.url);
    assert_eq!(refused.status.code(), Some(78));
    let said = String::from_utf8_lossy(&refused.stderr).replace('\n', " ");
    assert!(said.contains("0005_agents.sql") && said.contains("1 of its values") && said.contains("OD104"), "{said}");
    assert_eq!(database.value::<String>(indexes, &[]).await, "adcp_buyer_agents_api_key_id_idx", "no index changed");
    let (_, query) = said.split_once("Find them: ").expect("it says how");
    let (query, _) = query.split_once(';').expect("the query ends");
    let found = database.client.query(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get::<_, Vec<String>>(1).len(), 2);
    database
        .execute("UPDATE adcp_buyer_agents SET api_key_id = null WHERE agent_url = 'https://b.example/'", &[])
        .await;
    let output = migrating(&database.url);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(database.value::<String>(indexes, &[]).await, "adcp_buyer_agents_api_key_id_uidx");
}

#[tokio::test]
async fn changes_are_heard_after_commit_and_never_after_rollback() {
    let database = Database::new().await;
    let listener = Listener::on(&database.url, "outboxd_agents").await;
    let mut writer = Listener::connect(&database.url).await.client;
    let named = |url: &str| format!("SELECT outboxd.upsert_agent('{url}', 'n')");
    let undone = writer.transaction().await.expect("it begins");
    undone.batch_execute(&named("https://undone.example/")).await.expect("it runs");
    undone.rollback().await.expect("it ends");
    let refused = writer.batch_execute("SELECT outboxd.upsert_agent('https://refused.example/', 'n', 'no')").await;
    refused.expect_err("there is no such status");
    let kept = writer.transaction().await.expect("it begins");
    kept.batch_execute(&named("https://\"kept\".example/ü")).await.expect("it runs");
    // Another session's change, committed meanwhile: heard first.
    database.execute("SELECT outboxd.delete_agent('https://unknown.example/')", &[]).await;
    kept.commit().await.expect("it ends");
    database.execute("SELECT outboxd.set_agent_status('https://kept.example/', 'blocked')", &[]).await;
    assert_eq!(listener.notified().await, r#"{"op": "delete", "agent_url": "https://unknown.example/"}"#);
    assert_eq!(listener.notified().await, r#"{"op": "upsert", "agent_url": "https://\"kept\".example/ü"}"#);
    assert_eq!(listener.notified().await, r#"{"op": "set_status", "agent_url": "https://kept.example/"}"#);
}

/// The longest that fits, and one byte more.
#[tokio::test]
async fn a_url_too_long_for_a_notification_is_heard_as_any() {
    let database = Database::new().await;
    let listener = Listener::on(&database.url, "outboxd_agents").await;
    let around = r#"{"op": "upsert", "agent_url": ""}"#.len();
    for (length, fits) in [(7999 - around, true), (8000 - around, false), (50_000, false)] {
        let url = "a".repeat(length);
        registered(&database.client, &url, None).await;
        let named = if fits { format!("\"{url}\"") } else { "null".to_string() };
        assert_eq!(listener.notified().await, format!(r#"{{"op": "upsert", "agent_url": {named}}}"#));
    }
}

#[tokio::test]
async fn every_function_prepares_with_its_documented_types() {
    let database = Database::new().await;
    for statement in [
        "PREPARE a (text, text, text, text[], text, jsonb, text[], jsonb) AS \
         SELECT outboxd.upsert_agent($1, $2, $3, $4, $5, $6, $7, $8)",
        "PREPARE b (text, text) AS SELECT outboxd.set_agent_status($1, $2)",
        "PREPARE c (text) AS SELECT outboxd.delete_agent($1)",
        "PREPARE d (text) AS SELECT agent_url, display_name, status, billing_capabilities, default_terms, \
         allowed_brands, ext FROM outboxd.resolve_agent_by_url($1)",
        "PREPARE e (text) AS SELECT agent_url, display_name, status, billing_capabilities, default_terms, \
         allowed_brands, ext FROM outboxd.resolve_agent_by_credential($1)",
    ] {
        database.client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    let called = "EXECUTE a ('https://agent.example/', 'Acme', 'active', '{operator}', null, null, null, '{}')";
    database.client.batch_execute(called).await.expect("it is in order");
}

#[tokio::test]
async fn the_reference_is_kept() {
    let functions =
        ["upsert_agent", "set_agent_status", "delete_agent", "resolve_agent_by_url", "resolve_agent_by_credential"];
    reference::assert_kept(&Database::new().await, "Buyer agents", &functions).await;
}

/// And is not led astray by tables of the caller's making.
#[tokio::test]
async fn a_host_uses_the_functions_and_reaches_no_table() {
    let database = Database::new().await;
    let client = &database.client;
    registered(client, URL, Some("key-1")).await;
    let shadow = "SET ROLE outboxd_host; CREATE TEMP TABLE adcp_buyer_agents (agent_url text, api_key_id text)";
    client.batch_execute(shadow).await.expect("anyone may have temporary tables");
    assert_eq!(by_credential(client, "key-1").await, [URL]);
    assert!(!upsert(client, &format!("'{URL}', 'Acme'")).await.expect("hosts may"), "another table was written");
    for denied in [
        "SELECT * FROM public.adcp_buyer_agents",
        "DELETE FROM public.adcp_proposal_drafts",
        "SELECT outboxd._notify_agent('upsert', 'x')",
        "SELECT outboxd._consume_proposal('a', 'p', 'mb', 'draft')",
    ] {
        let error = client.batch_execute(denied).await.expect_err(denied);
        assert_eq!(Refusal::of(&error).sqlstate, "42501", "{denied}");
    }
}
