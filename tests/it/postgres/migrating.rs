//! `outboxd migrate` on a database that the SDK made and that is in use: five hundred rows a second are inserted, and a
//! transaction that has touched the tables stays open. `MIGRATION_SECONDS=60` keeps it open for longer.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::support::cluster::{Database, TABLE, connect, insert_by};
use crate::support::config::Config;
use crate::support::daemon::{Daemon, Ended};
use crate::support::eventually::{eventually, ticks};
use crate::support::runtime::servers;
use crate::support::seal::{Draft, EnvelopeKey, Sealed};

const SDK_SCHEMA: &str = include_str!("../../vectors/sdk_schema.sql");
const STOOD_BEFORE: usize = 20_000;
const CLIENTS: u32 = 5;
const ROWS_EACH: usize = 5;
/// Of each client; together five hundred rows a second.
const EVERY: Duration = Duration::from_millis(50);
const LONGEST_INSERT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(120);

fn seconds() -> Duration {
    let told = std::env::var("MIGRATION_SECONDS").ok().map(|text| text.parse().expect("whole seconds"));
    Duration::from_secs(told.unwrap_or(6))
}

/// As the SDK made it, with rows.
async fn sdk_made() -> Database {
    let database = Database::empty().await;
    database.client.batch_execute(SDK_SCHEMA).await.expect("the fixture applies");
    let sql = format!(
        "INSERT INTO {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, \
         encrypted_body, envelope_nonce, retry_horizon_seconds) SELECT 'stood_' || n, 'acc_1', 't', 'completed', \
         'https://buyer.example/' || n, 'op', 'whk_' || n, '\\x00', '\\x000000000000000000000000', 86400 \
         FROM generate_series(1, $1::int) AS n"
    );
    database.execute(&sql, &[&(STOOD_BEFORE as i32)]).await;
    database
}

fn migrate(url: &str, words: &[&str]) -> Daemon {
    let arguments: Vec<&str> = std::iter::once("migrate").chain(words.iter().copied()).collect();
    Daemon::command(&Config::empty().set("database.url", url), &arguments)
}

async fn ended(url: &str, words: &[&str]) -> Ended {
    migrate(url, words).wait_exit(PATIENCE).await
}

/// It has locks on both tables that hosts write to, until it is rolled back.
async fn open_transaction(database: &Database) -> Client {
    let client = connect(&database.url).await;
    client.batch_execute("begin").await.expect("it begins");
    let row = sealed(1);
    insert_by(&client, &row).await.expect("it is inserted");
    let task = "insert into decisioning_tasks (task_id, account_id, task_type, created_at, updated_at) \
                values ('open', 'acc_1', 't', 1, 1)";
    client.batch_execute(task).await.expect("it is inserted");
    client
}

fn sealed(rows: usize) -> Vec<Sealed> {
    let key = EnvelopeKey::new();
    Draft::many("https://buyer.example/hooks", rows).into_iter().map(|draft| draft.seal(&key)).collect()
}

/// How many rows a client inserted, and the longest that it waited for one insert.
async fn host(url: String, is_over: watch::Receiver<bool>) -> (usize, Duration) {
    let client = connect(&url).await;
    let (mut rows, mut longest, mut ticks) = (0, Duration::ZERO, ticks(EVERY));
    while !*is_over.borrow() {
        ticks.tick().await;
        let batch = sealed(ROWS_EACH);
        let began = Instant::now();
        insert_by(&client, &batch).await.expect("a host's insert never fails");
        longest = longest.max(began.elapsed());
        rows += batch.len();
    }
    (rows, longest)
}

#[tokio::test]
async fn every_migration_applies_under_load_and_holds_no_insert_up_for_a_second() {
    let database = sdk_made().await;
    let (over, is_over) = watch::channel(false);
    let hosts: Vec<JoinHandle<(usize, Duration)>> =
        (0..CLIENTS).map(|_| servers().spawn(host(database.url.clone(), is_over.clone()))).collect();
    let (open, opened) = (open_transaction(&database).await, Instant::now());
    let migration = migrate(&database.url, &[]);
    migration.line(0, &["waiting", "locks"]).await;
    eventually("the transaction was open for long enough", async || match opened.elapsed() {
        open if open >= seconds() => Ok(()),
        open => Err(format!("{open:?}")),
    })
    .await;
    assert!(migration.is_running(), "{}", migration.text());
    open.batch_execute("rollback").await.expect("it ends");
    let (migrated, rolled_back) = (migration.wait_exit(PATIENCE).await, Instant::now());
    assert_eq!(migrated.code, Some(0), "{}", migrated.output);
    over.send_replace(true);
    let lasted = opened.elapsed();
    let (mut rows, mut longest) = (0, Duration::ZERO);
    for host in hosts {
        let (inserted, waited) = host.await.expect("no host panics");
        (rows, longest) = (rows + inserted, longest.max(waited));
    }
    let rate = rows as f64 / lasted.as_secs_f64();
    println!(
        "survived: all migrations, {rate:.0} rows/s inserted, a transaction open for {:.0} s | longest insert {longest:?}, \
         {:.1} s in all",
        (rolled_back - opened).as_secs_f64(),
        lasted.as_secs_f64()
    );
    assert!(longest < LONGEST_INSERT, "an insert waited for {longest:?}\n{}", migrated.output);
    assert!(rate > 250.0, "{rate} rows/s, on a machine that others use too");
    assert_eq!(ended(&database.url, &["--check"]).await.code, Some(0));
    let stand: i64 = database.value(&format!("SELECT count(*) FROM {TABLE}"), &[]).await;
    assert_eq!(stand, (STOOD_BEFORE + rows) as i64);
}

/// The index that is being built concurrently, and whether it is valid.
async fn index(database: &Database, name: &str) -> Option<(u32, bool)> {
    let sql =
        "SELECT indexrelid, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relname = $1";
    let found = database.client.query_opt(sql, &[&name]).await.expect("the catalog answers");
    found.map(|row| (row.get(0), row.get(1)))
}

async fn is_there(database: &Database, name: &str) -> u32 {
    eventually("the index is begun", async || match index(database, name).await {
        Some((oid, false)) => Ok(oid),
        other => Err(format!("{other:?}")),
    })
    .await
}

#[tokio::test]
async fn an_index_whose_build_was_interrupted_is_told_dropped_and_built_again() {
    let database = sdk_made().await;
    let name = format!("{TABLE}_open_rows_idx");
    // What comes before it is there, so that the open transaction keeps only the index waiting.
    assert_eq!(ended(&database.url, &[]).await.code, Some(0));
    database.execute(&format!("DROP INDEX {name}"), &[]).await;
    let open = open_transaction(&database).await;
    let migration = migrate(&database.url, &[]);
    let left = is_there(&database, &name).await;
    migration.kill().await;
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND application_name = 'outboxd'";
    eventually("its sessions are over", async || match database.value::<i64>(sql, &[]).await {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
    open.batch_execute("rollback").await.expect("it ends");
    assert_eq!(index(&database, &name).await, Some((left, false)));

    let checked = ended(&database.url, &["--check"]).await;
    let told = format!("missing  index {name} (there, but its build was not finished) (migration 0003)");
    assert!(checked.code == Some(78) && checked.output.contains(&told), "{}", checked.output);
    let migrated = ended(&database.url, &[]).await;
    assert_eq!(migrated.code, Some(0), "{}", migrated.output);
    let (built, is_valid) = index(&database, &name).await.expect("it is there");
    assert!(is_valid && built != left, "{}", migrated.output);
    assert_eq!(ended(&database.url, &["--check"]).await.code, Some(0));
}

#[tokio::test]
async fn an_index_that_somebody_else_is_building_is_waited_for_and_not_dropped() {
    let database = sdk_made().await;
    let name = format!("{TABLE}_open_rows_idx");
    assert_eq!(ended(&database.url, &[]).await.code, Some(0));
    database.execute(&format!("DROP INDEX {name}"), &[]).await;
    let open = open_transaction(&database).await;
    let sql = format!(
        "create index concurrently {name} on {TABLE} (retry_until) \
         where state in ('pending', 'in_flight') and retry_until is not null"
    );
    let administrator = connect(&database.url).await;
    let building = servers().spawn(async move { administrator.batch_execute(&sql).await });
    let theirs = is_there(&database, &name).await;
    let migration = migrate(&database.url, &[]);
    migration.line(0, &["waiting", "somebody is building"]).await;
    open.batch_execute("rollback").await.expect("it ends");
    building.await.expect("no panic").expect("it is built");
    let migrated = migration.wait_exit(PATIENCE).await;
    assert_eq!(migrated.code, Some(0), "{}", migrated.output);
    assert_eq!(index(&database, &name).await, Some((theirs, true)));
}

#[tokio::test]
async fn a_migration_whose_patience_ends_says_so_and_leaves_what_it_did() {
    let database = sdk_made().await;
    let open = open_transaction(&database).await;
    let migrated = ended(&database.url, &["--patience", "2s"]).await;
    assert!(
        migrated.code == Some(69) && migrated.output.contains("others were in the way for 2 s"),
        "{}",
        migrated.output
    );
    open.batch_execute("rollback").await.expect("it ends");
    assert_eq!(ended(&database.url, &[]).await.code, Some(0));
}
