//! The one door: named or unnamed, bounded in time, and never a spoilt connection twice.

use std::sync::Mutex;

use super::*;
use crate::store::error::Unavailable;

const A: &str = "https://a.example/hook";

fn one_connection(url: &str) -> StoreConfig {
    StoreConfig { pool_size: 1, ..config(url) }
}

fn open(config: &StoreConfig) -> Store {
    Store::open(config, silent()).expect("a good configuration")
}

/// Asks on the pool's only connection.
async fn ask(store: &Store, sql: &str) -> String {
    let client = store.door.pool.get().await.expect("a connection is free");
    client.query_one(sql, &[]).await.expect("it has one answer").get(0)
}

async fn run(store: &Store, sql: &str) {
    let client = store.door.pool.get().await.expect("a connection is free");
    client.batch_execute(sql).await.expect("it works");
}

#[tokio::test]
async fn statements_are_named_or_unnamed_by_one_switch() {
    let db = Database::new(Schema::Ours).await;
    for (named, kept) in [(true, "4"), (false, "0")] {
        let store = open(&StoreConfig { prepared_statements: named, ..one_connection(&db.url) });
        db.insert(&[A, A]).await;
        for _ in 0..2 {
            let batch = store.claim_due(&request(1)).await.expect("it claims").rows;
            let retried: Vec<Retried> = batch
                .iter()
                .map(|claimed| Retried {
                    lease: claimed.lease().clone(),
                    delay: Duration::ZERO,
                    http_status: None,
                    error: "x".into(),
                })
                .collect();
            assert_eq!(store.settle_retried(&retried, None).await.expect("it settles").len(), retried.len());
            store.sample_backlog(10, &[]).await.expect("it samples");
            store.probe().await.expect("it answers");
        }
        let count = "select count(*)::text from pg_prepared_statements where statement like '-- Purpose%'";
        assert_eq!(ask(&store, count).await, kept);
    }
}

#[tokio::test]
async fn a_session_says_who_it_is_and_bounds_itself() {
    let db = Database::new(Schema::Ours).await;
    let store = open(&one_connection(&db.url));
    assert_eq!(ask(&store, "select current_setting('application_name')").await, "outboxd");
    assert_eq!(ask(&store, "select current_setting('statement_timeout')").await, "27s");
    assert_eq!(ask(&store, "select current_setting('default_transaction_isolation')").await, "read committed");
    let store = open(&StoreConfig { prepared_statements: false, ..one_connection(&db.url) });
    assert_eq!(ask(&store, "select current_setting('statement_timeout')").await, "0", "a pooler may refuse options");
}

#[tokio::test]
async fn a_read_only_database_drops_the_connection() {
    let db = Database::new(Schema::Ours).await;
    let store = open(&one_connection(&db.url));
    let before = ask(&store, "select pg_backend_pid()::text").await;
    run(&store, "set default_transaction_read_only = on").await;
    let probe = store.probe().await.expect("it answers");
    assert!(probe.read_only && !probe.in_recovery);
    let error = store.claim_due(&request(1)).await.expect_err("a claim is a write");
    assert_eq!((error.statement, error.kind), ("outbox/claim_due", Kind::ReadOnly));
    assert_eq!(store.pool_status().size, 0);
    store.claim_due(&request(1)).await.expect("a new connection can write");
    assert_ne!(ask(&store, "select pg_backend_pid()::text").await, before);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_not_connected_to() {
    let db = Database::new(Schema::Ours).await;
    let name = db.text("select current_database()::text", &[]).await;
    db.run(&format!("alter database {name} set default_transaction_read_only = on")).await;
    let error = db.store.probe().await.expect_err("target_session_attrs asks for a primary");
    assert_eq!(error.kind, Kind::ReadOnly);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_given_up_with_its_connection() {
    let db = Database::new(Schema::Ours).await;
    db.insert(&[A]).await;
    // Without session settings only our own clock is left.
    let store = open(&StoreConfig {
        statement_timeout: Duration::from_secs(2),
        prepared_statements: false,
        ..one_connection(&db.url)
    });
    let batch = store.claim_due(&request(1)).await.expect("it claims").rows;
    let lease = batch[0].lease().clone();
    db.run(&format!("begin; select from {TABLE} for update")).await;
    let delivered = [Delivered { lease, http_status: 200 }];
    let error = store.settle_delivered(&delivered, None).await.expect_err("the row is locked");
    assert_eq!(error.kind, Kind::Timeout { after: Duration::from_secs(2) });
    assert_eq!(store.pool_status().size, 0);
    db.run("rollback").await;
    // The server may have settled it after all, or may not: either way the row is settled once.
    store.settle_delivered(&delivered, None).await.expect("it answers");
    let states = format!("select string_agg(state, ' ') from {TABLE}");
    assert_eq!(db.text(&states, &[]).await, "delivered");
}

#[tokio::test]
async fn a_cancelled_caller_leaves_no_half_used_connection() {
    let db = Database::new(Schema::Ours).await;
    db.insert(&[A]).await;
    let store = open(&one_connection(&db.url));
    let batch = store.claim_due(&request(1)).await.expect("it claims").rows;
    let delivered = [Delivered { lease: batch[0].lease().clone(), http_status: 200 }];
    db.run(&format!("begin; select from {TABLE} for update")).await;
    let cancelled = tokio::time::timeout(Duration::from_millis(100), store.settle_delivered(&delivered, None)).await;
    assert!(cancelled.is_err(), "the row is locked");
    assert_eq!(store.pool_status().size, 0);
}

#[tokio::test]
async fn a_killed_connection_is_reported_and_replaced() {
    let db = Database::new(Schema::Ours).await;
    let store = open(&one_connection(&db.url));
    let pid = ask(&store, "select pg_backend_pid()::text").await;
    db.run(&format!("select pg_terminate_backend({pid}, 5000)")).await;
    // The pool may see the end of the connection before we do; then it connects anew at once.
    if let Err(error) = store.probe().await {
        assert!(matches!(error.kind, Kind::Unavailable(_)), "{error}");
    }
    store.probe().await.expect("a new connection");
}

#[tokio::test]
async fn a_statement_that_a_change_of_the_table_made_stale_is_prepared_again() {
    let db = Database::new(Schema::Ours).await;
    let store = open(&one_connection(&db.url));
    store.claim_due(&request(1)).await.expect("it claims");
    db.insert(&[A]).await;
    db.run(&format!("alter table {TABLE} alter column task_type type varchar(80)")).await;
    assert_eq!(store.claim_due(&request(1)).await.expect("it claims again").rows.len(), 1);
}

#[tokio::test]
async fn every_way_to_have_no_database_is_told_apart() {
    let base = cluster().url("postgres");
    let nowhere = "postgresql://u:s3cret@/d?host=/nonexistent";
    let refused = "postgresql://u:s3cret@127.0.0.1:1/d";
    let cases = [
        (nowhere.to_owned(), Unavailable::Connect(std::io::ErrorKind::NotFound)),
        (refused.to_owned(), Unavailable::Connect(std::io::ErrorKind::ConnectionRefused)),
        (base.replace("/postgres?", "/no_such_database?"), Unavailable::NoSuchDatabase),
        (base.replace("postgres@", "no_such_role@"), Unavailable::Authentication),
    ];
    for (url, expected) in cases {
        let error = open(&config(&url)).probe().await.expect_err("there is none");
        assert_eq!(error.kind, Kind::Unavailable(expected), "{error}");
        assert!(!error.to_string().contains("s3cret"));
    }
}

#[tokio::test]
async fn every_statement_is_observed_under_its_files_name() {
    let db = Database::new(Schema::Ours).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let observer: Observer = Arc::new(move |observation| {
        let outcome = observation.outcome.map_err(Clone::clone);
        into.lock().expect("no observer panics").push((observation.statement, outcome));
    });
    let store = Store::open(&config(&db.url), observer).expect("it opens");
    store.probe().await.expect("it answers");
    db.run(&format!("drop table {TABLE} cascade")).await;
    store.sample_backlog(1, &[]).await.expect_err("there is no table");
    let seen = seen.lock().expect("no observer panics");
    assert_eq!(seen[0], ("outbox/probe", Ok(1)));
    assert!(matches!(seen[1], ("outbox/sample_backlog", Err(Kind::Schema { .. }))));
}
