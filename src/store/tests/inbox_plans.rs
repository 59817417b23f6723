//! What the inbox's operations cost must not follow the number of stored rows: pages are counted at a thousand rows and
//! at fifty thousand, with statistics that are right and with none.

use tokio_postgres::types::Type;

use super::inbox::{Sample, inbox};
use super::*;

/// Lawful rows, all succeeded, as SQL makes them.
const FILL: &str = "
    with made as (
        select n, e.source, 'terminal-' || encode(sha256(convert_to(e.source, 'UTF8')), 'hex') as id
          from generate_series($1::integer, $2::integer) as n,
               lateral (select format('{\"change_sha256\":\"%1$s\",\"event_id\":\"stored-%2$s\",\"job_count\":1,'
                   || '\"lifecycle_binding_sha256\":\"%1$s\",\"lifecycle_sha256\":\"%1$s\",\"plan_id\":\"p\",'
                   || '\"schema\":\"blun.cms-source-terminal-notification.v1\",\"site_id\":\"s\",\"source_sequence\":1,'
                   || '\"terminal_status\":\"published\",\"website_version\":\"v\"}', repeat('a', 64), n) as source) as e
    ),
    spelt as (
        select n, id, replace(source, '\"plan_id\"', '\"notification_id\":\"' || id || '\",\"plan_id\"') as payload from made
    ),
    received as (
        insert into cms_terminal_notification_inbox
        select id, 'stored-' || n, 's', 'published', encode(sha256(convert_to(payload, 'UTF8')), 'hex'), payload, 1000 + n
          from spelt
        returning notification_id, received_at
    )
    insert into cms_terminal_notification_processing
           (notification_id, status, attempts, max_attempts, next_attempt_at, processed_at, created_at, updated_at)
    select notification_id, 'succeeded', 1, 5, received_at, received_at, received_at, received_at from received";

async fn fill(db: &Database, from: i32, to: i32) {
    db.client.execute(FILL, &[&from, &to]).await.expect("lawful rows");
}

async fn forget_statistics(db: &Database) {
    for table in ["inbox", "processing"] {
        db.run(&format!("alter table cms_terminal_notification_{table} set (autovacuum_enabled = off)")).await;
    }
}

/// Pages that a statement touched, found in its buffers or not, with all that its triggers and functions did.
async fn pages(db: &Database, sql: &str, parameters: &[(Parameter<'_>, Type)]) -> u64 {
    let explain = format!("explain (analyze, buffers, timing off, summary off) {sql}");
    let rows = db.client.query_typed(&explain, parameters).await.expect("it runs");
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    // The first line of them is the whole statement's: shared hit=12 read=3 dirtied=1.
    let buffers = plan.iter().find(|line| line.contains("Buffers:")).expect("it touches pages");
    let counts = buffers.split([' ', '=']).collect::<Vec<&str>>();
    let of = |word: &str| counts.windows(2).find(|pair| pair[0] == word).and_then(|pair| pair[1].parse().ok());
    of("hit").unwrap_or(0) + of("read").unwrap_or(0_u64)
}

/// Pages of accepting one that is fresh, of the comparison of its replay and of one that collides, of reading it, and of
/// claiming it.
async fn costs(db: &Database, event: &str) -> Vec<(&'static str, u64)> {
    let statements = &db.store.statements;
    let (sample, rival) = (Sample::new(event, "site", "1"), Sample::new(event, "site", "2"));
    let accept = |sample: &NewNotification<'_>| {
        let texts = [
            sample.notification_id,
            sample.event_id,
            sample.site_id,
            sample.terminal_status,
            sample.payload_sha256,
            sample.payload,
        ];
        texts.map(str::to_owned)
    };
    let mut found = Vec::new();
    for (name, statement, texts) in [
        ("accept", &statements.accept_notification, accept(&sample.new_notification())),
        ("accept again", &statements.accept_notification, accept(&sample.new_notification())),
        ("compare", &statements.compare_notification, accept(&sample.new_notification())),
        ("compare a rival", &statements.compare_notification, accept(&rival.new_notification())),
    ] {
        let mut parameters: Vec<(Parameter<'_>, Type)> =
            texts.iter().map(|text| (text as Parameter<'_>, Type::TEXT)).collect();
        if statement.types.len() == 7 {
            parameters.push((&5_i32, Type::INT4));
        }
        found.push((name, pages(db, &statement.sql, &parameters).await));
    }
    found.push(("read", pages(db, &statements.read_notification.sql, &[(&event, Type::TEXT)]).await));
    let claim = "select outboxd.claim_notification('worker')";
    // The first in a session reads the catalog.
    pages(db, claim, &[]).await;
    let accepted = Sample::new(&format!("{event}-next"), "site", "1");
    db.store.accept_notification(&accepted.new_notification()).await.expect("it is fresh");
    found.push(("claim", pages(db, claim, &[]).await));
    found.push(("claim nothing", pages(db, claim, &[]).await));
    found
}

/// The least of three: what other tests change in the catalog may cost a session everything that it knew of its own.
async fn least_costs(db: &Database, event: &str) -> Vec<(&'static str, u64)> {
    let mut least = costs(db, event).await;
    for nth in ["second", "third"] {
        let again = costs(db, &format!("{event}-{nth}")).await;
        for ((_, least), (_, again)) in least.iter_mut().zip(again) {
            *least = again.min(*least);
        }
    }
    least
}

#[tokio::test]
async fn no_operation_costs_more_for_fifty_times_the_rows() {
    let db = inbox().await;
    forget_statistics(&db).await;
    fill(&db, 1, 1000).await;
    let few = least_costs(&db, "few").await;
    fill(&db, 1001, 50_000).await;
    let many = least_costs(&db, "many").await;
    db.run("vacuum analyze cms_terminal_notification_inbox, cms_terminal_notification_processing").await;
    let analyzed = least_costs(&db, "analyzed").await;
    for ((name, few), (_, many)) in few.iter().zip(many.iter()).chain(few.iter().zip(&analyzed)) {
        // A level or two more in each of the indexes that a row is in.
        assert!(*many <= few + 40, "{name}: {few} pages became {many}; {analyzed:?}");
    }
}

#[tokio::test]
async fn sweeping_goes_along_the_ids_and_counting_reads_no_row() {
    let db = inbox().await;
    forget_statistics(&db).await;
    fill(&db, 1, 20_000).await;
    db.run("vacuum analyze cms_terminal_notification_inbox, cms_terminal_notification_processing").await;
    let sweep = &db.store.statements.sweep_notifications;
    let stretch = pages(&db, &sweep.sql, &[(&"terminal-8", Type::TEXT), (&500_i64, Type::INT8)]).await;
    assert!(stretch <= 8000, "{stretch} pages for 500 rows");
    let explain = format!("explain {}", db.store.statements.count_notifications.sql);
    let plan = db.client.query(&explain, &[]).await.expect("it explains");
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(plan.iter().any(|line| line.contains("Index Only Scan")), "{plan:?}");
}
