//! `outboxd list`: what an operator sees of the rows, as a table and as JSON.

use serde_json::Value;

use crate::support::tool::outboxd;
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
