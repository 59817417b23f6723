//! `outboxd list`: what an operator sees of the rows, as a table and as JSON.

use serde_json::Value;

use crate::outboxes::two;
use crate::support::cluster::{Database, TABLE};
use crate::support::tool::{Done, outboxd};
use crate::support::world::World;

#[tokio::test]
async fn rows_are_shown_in_a_table_and_in_json_and_filtered_alike() {
    let world = World::new().await;
    world.insert("/hooks?token=hidden", 3).await;
    world
        .database
        .execute(
            "update adcp_task_webhook_outbox set state = 'invalid', attempt_count = 4, last_http_status = 410, \
             last_error = 'http_gone' where id = (select min(id) from adcp_task_webhook_outbox)",
            &[],
        )
        .await;
    let table = outboxd(&world.config(), &["list"], "").await;
    assert_eq!((table.code, table.stdout.lines().count()), (Some(0), 4), "{table:?}");
    assert!(table.stdout.lines().nth(3).is_some_and(|line| line.contains("invalid")), "{}", table.stdout);
    assert!(table.stdout.contains("http_gone (410)") && !table.stdout.contains("hidden"), "{}", table.stdout);
    let json = outboxd(&world.config(), &["list", "--json", "--state", "invalid", "--code", "http_gone"], "").await;
    let json: Value = serde_json::from_str(&json.stdout).expect("one object");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["rows"][0]["attempt_count"], 4, "{json}");
    assert_eq!(json["after"], Value::Null, "{json}");
    let none = outboxd(&world.config(), &["list", "--account", "nobody"], "").await;
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), "no rows\n"), "{none:?}");
    let wrong = outboxd(&world.config(), &["list", "--state", "broken"], "").await;
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    assert!(wrong.stderr.contains("in_flight"), "it says what there is: {}", wrong.stderr);
}

#[tokio::test]
async fn a_page_says_how_the_next_one_is_asked_for() {
    let world = World::new().await;
    world.insert("/hooks", 5).await;
    let first = outboxd(&world.config(), &["list", "--limit", "3"], "").await;
    let after = first.stdout.lines().last().and_then(|line| line.rsplit_once("--after ")).map(|(_, id)| id.to_owned());
    let after = after.unwrap_or_else(|| panic!("it says so: {}", first.stdout));
    let second = outboxd(&world.config(), &["list", "--limit", "3", "--after", &after], "").await;
    assert_eq!(second.stdout.lines().count(), 3, "the headings and two rows: {}", second.stdout);
}

#[tokio::test]
async fn who_waits_for_a_long_look_is_told_of_the_index_that_makes_it_short() {
    let (world, second) = (World::new().await, Database::new().await);
    let tenant = second.schema("tenant").await;
    let config = two(&world, world.config(), &tenant.url);
    assert_eq!(outboxd(&config, &["migrate"], "").await.code, Some(0));
    let fill = format!(
        "insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, encrypted_body, \
         envelope_nonce, retry_horizon_seconds, state) select n, 'acc_' || n % 2, 't', 'completed', 'https://h.example/x', 'o', n, \
         '\\x00', convert_to('twelve bytes', 'UTF8'), 86400, 'delivered' from generate_series(1, 120000) as n"
    );
    tenant.execute(&fill, &[]).await;
    for (option, value) in [("--account", "acc_nobody"), ("--destination", "nobody.example")] {
        let look =
            async |more: &[&str]| -> Done { outboxd(&config, &[&["list", option, value], more].concat(), "").await };
        let json = look(&["--json"]).await;
        assert_eq!((json.code, json.stderr.as_str()), (Some(0), ""), "{json:?}");
        let long = look(&[]).await;
        assert_eq!(
            (long.code, long.stdout.as_str()),
            (Some(0), "outbox eu\nno rows\noutbox us\nno rows\n"),
            "{long:?}"
        );
        let told = format!("outboxd: outbox us: this looked through 120,000 rows, since no index serves {option}. ");
        assert!(long.stderr.starts_with(&told) && long.stderr.lines().count() == 1, "{}", long.stderr);
        let (_, statement) = long.stderr.split_once("owner: ").expect("it says what to run");
        // By whoever looks at another schema.
        second.client.batch_execute(statement).await.expect("the statement does it");
        let short = look(&[]).await;
        assert_eq!((short.stdout, short.stderr.as_str()), (long.stdout, ""));

        let index = if option == "--account" { "list_account_idx" } else { "list_dest_idx" };
        let broken = "update pg_index set indisvalid = false where indexrelid = $1::text::regclass";
        second.execute(broken, &[&format!("tenant.{TABLE}_{index}")]).await;
        let told = look(&[]).await.stderr;
        let (_, statements) = told.split_once("run first ").expect("it says what to run");
        for statement in statements.split(" and then ") {
            second.client.batch_execute(statement).await.expect("the statement does it");
        }
        assert_eq!(look(&[]).await.stderr, "");
    }
}
