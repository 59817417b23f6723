//! What is past its horizon goes, batch by batch, and a daemon that may not delete goes on delivering.

use crate::support::cluster::TABLE;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::world::World;

const PURGED: &str = "outboxd_purged_rows_total";
const EXPIRED: &str = "outboxd_expired_rows_total";

/// Rows of this state whose horizon ended a day ago.
async fn past(world: &World, state: &str, rows: i32) {
    let sql = format!(
        "insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, \
         encrypted_body, envelope_nonce, retry_horizon_seconds, state, first_attempt_at, retry_until) \
         select 'past' || gen_random_uuid(), 'a', 't', 'completed', 'https://h.example/x', 'o', \
         'past' || gen_random_uuid(), 'x', 'twelve bytes', 86400, $1, now() - interval '3 days', \
         now() - interval '1 day' + n * interval '1 ms' from generate_series(1, $2::integer) as n"
    );
    world.database.execute(&sql, &[&state, &rows]).await;
}

async fn reaches(daemon: &Daemon, metric: &str, rows: f64) {
    eventually(&format!("{metric} reaches {rows}"), async || match daemon.metrics().await.total(metric, &[]) {
        count if count == rows => Ok(()),
        count => Err(count),
    })
    .await;
}

#[tokio::test]
async fn overdue_rows_expire_and_finished_ones_are_deleted_in_many_batches() {
    let world = World::new().await;
    past(&world, "delivered", 7000).await;
    past(&world, "pending", 3000).await;
    let config = world.config().set("sweep.expire_interval", "200ms").set("sweep.purge_interval", "200ms");
    let config = config.set("sweep.keep_undelivered", "0s");
    let daemon = Daemon::start(&config).await;
    reaches(&daemon, EXPIRED, 3000.0).await;
    reaches(&daemon, PURGED, 10_000.0).await;
    assert_eq!(world.database.value::<i64>(&format!("select count(*) from {TABLE}"), &[]).await, 0);
    let statements = daemon.metrics().await;
    let batches =
        statements.total("outboxd_statement_duration_seconds_count", &[("statement", "outbox/purge_settled")]);
    assert!(batches >= 3.0, "{batches} batches");
}

#[tokio::test]
async fn without_the_right_to_delete_rows_stay_and_everything_else_goes_on() {
    let world = World::new().await;
    past(&world, "delivered", 5).await;
    let role = format!("daemon_of_{}", world.database.name);
    let grants = format!(
        "create role {role} login; grant select, update on {TABLE} to {role}; grant select on {TABLE}_composed to {role}"
    );
    world.database.client.batch_execute(&grants).await.expect("the owner may");
    let url = world.database.url.replace("postgres@", &format!("{role}@"));
    let config = world.config().set("database.url", url).set("sweep.purge_interval", "100ms");
    let daemon = Daemon::start(&config).await;
    daemon.line(0, &["may not delete rows; finished rows stay"]).await;
    world.insert("/hooks", 3).await;
    world.receiver.wait_for(3).await;
    let tries = async || {
        let metrics = daemon.metrics().await;
        metrics
            .total("outboxd_statement_errors_total", &[("statement", "outbox/purge_settled"), ("kind", "permission")])
    };
    eventually("it tries again and again", async || match tries().await {
        count if count >= 5.0 => Ok(()),
        count => Err(count),
    })
    .await;
    let text = daemon.text();
    assert!(!text.contains("the database does not work"), "{text}");
    assert_eq!(text.matches("may not delete rows; finished").count(), 1, "{text}");
    let grant = format!("grant delete on {TABLE} to {role}");
    world.database.client.batch_execute(&grant).await.expect("the owner may");
    reaches(&daemon, PURGED, 5.0).await;
}
