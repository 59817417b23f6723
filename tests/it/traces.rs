//! A host's trace context goes from its row to the request's headers and the log, outside the signature, and a malformed one
//! stops nothing.

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::receiver::Answer;
use crate::support::seal::Draft;
use crate::support::world::World;

pub const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TABLE: &str = "adcp_task_webhook_outbox";

/// Enqueued through the host's function, in a transaction that says its trace.
pub async fn enqueue(world: &World, parent: &str, state: &str) -> Draft {
    let draft = Draft::to(world.receiver.url("/hooks"));
    let sealed = draft.clone().seal(&world.key);
    let client = &world.database.client;
    client.batch_execute("begin").await.expect("it begins");
    for (setting, value) in [("outboxd.traceparent", parent), ("outboxd.tracestate", state)] {
        client.execute("select set_config($1, $2, true)", &[&setting, &value]).await.expect("it is set");
    }
    let sql = "select outboxd.enqueue_sealed($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let row = &sealed.draft;
    client
        .execute(
            sql,
            &[
                &row.task_id,
                &row.account_id,
                &row.task_type,
                &row.terminal_status,
                &row.url,
                &row.operation_id,
                &row.idempotency_key,
                &sealed.encrypted_body,
                &sealed.envelope_nonce,
            ],
        )
        .await
        .expect("it is enqueued");
    client.batch_execute("commit").await.expect("it commits");
    draft
}

#[tokio::test]
async fn a_hosts_trace_goes_with_every_attempt_and_into_the_log() {
    let world = World::new().await;
    world.receiver.answers(vec![Answer::status(503), Answer::status(200)]);
    let daemon = Daemon::start(&world.retrying_config()).await;
    enqueue(&world, PARENT, "vendor=a").await;
    world.all_are("delivered").await;
    let received = world.receiver.wait_for(2).await;
    for request in &received {
        assert_eq!((request.header("traceparent"), request.header("tracestate")), (Some(PARENT), Some("vendor=a")));
        world.assert_signed(request);
        let covered = request.header("signature-input").expect("it is signed");
        assert!(!covered.contains("trace"), "{covered}");
    }
    daemon.line(0, &["not delivered", TRACE]).await;
    daemon.line(0, &["\"delivered\"", TRACE]).await;
}

#[tokio::test]
async fn rows_without_a_trace_or_with_a_malformed_one_go_without() {
    let world = World::new().await;
    let _daemon = Daemon::start(&world.config()).await;
    for (parent, state) in [("", ""), ("nonsense", ""), (&PARENT.replace("4bf9", "ZZZZ"), "")] {
        enqueue(&world, parent, state).await;
    }
    // Nothing of a session's setting outlives its transaction.
    world.insert("/hooks", 1).await;
    world.all_are("delivered").await;
    for request in world.receiver.wait_for(4).await {
        assert_eq!((request.header("traceparent"), request.header("tracestate")), (None, None));
    }
}

/// As a host of the SDK would do it, which has no function for it; and a table of before the migration has no traces.
#[tokio::test]
async fn a_trace_may_stand_beside_a_row_that_the_sdk_wrote_and_need_not() {
    let world = World::new().await;
    let sealed = world.seal(vec![Draft::to(world.receiver.url("/hooks"))]);
    world.database.client.batch_execute("begin").await.expect("it begins");
    world.database.insert(&sealed).await;
    let sql = format!("insert into {TABLE}_traces (task_id, traceparent) values ($1, $2)");
    world.database.execute(&sql, &[&sealed[0].draft.task_id, &PARENT]).await;
    world.database.client.batch_execute("commit").await.expect("it commits");
    let daemon = Daemon::start(&world.config()).await;
    let received = world.receiver.wait_for(1).await;
    assert_eq!(received[0].header("traceparent"), Some(PARENT));
    world.all_are("delivered").await;
    // Gone from under a running daemon: rows are delivered all the same.
    world.database.execute(&format!("drop table {TABLE}_traces"), &[]).await;
    world.insert("/hooks", 3).await;
    world.all_are("delivered").await;
    daemon.kill().await;
    let again = Daemon::start(&world.config()).await;
    world.insert("/hooks", 1).await;
    eventually("all five came", async || match world.receiver.received().len() {
        5 => Ok(()),
        other => Err(other),
    })
    .await;
    drop(again);
}
