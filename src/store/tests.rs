//! The statements against real Postgres: one cluster for the test binary, one database cloned from a template
//! for each test.

mod accounts;
mod claiming;
mod composed;
mod door;
mod encryption;
mod history;
mod inbox;
mod inbox_plans;
mod list_indexes;
mod list_plans;
mod listing;
mod looks;
mod parking;
mod plans;
mod processing;
mod schema;
mod scopes;
mod sealed;
mod settling;
mod simulation;
mod snapshots;
mod sweeping;
mod webhooks;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_postgres::types::ToSql;

use super::*;
use crate::demo::postgres::{Options, Throwaway};
use crate::secret::Secret;

const SDK_SCHEMA: &str = include_str!("../../tests/vectors/sdk_schema.sql");
const TABLE: &str = "adcp_task_webhook_outbox";

/// What a test's database begins with.
#[derive(Clone, Copy)]
enum Schema {
    Ours,
    Sdk,
    Empty,
}

impl Schema {
    fn template(self) -> &'static str {
        match self {
            Schema::Ours => "ours",
            Schema::Sdk => "sdk",
            Schema::Empty => "template0",
        }
    }
}

fn cluster() -> &'static Throwaway {
    static CLUSTER: OnceLock<Throwaway> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Throwaway::start(&Options::default()).expect("Postgres is installed");
        for (schema, sql) in [(Schema::Ours, printed(&table())), (Schema::Sdk, SDK_SCHEMA.to_owned())] {
            psql(&cluster, "postgres", &format!("create database {}", schema.template()));
            psql(&cluster, schema.template(), &sql);
        }
        cluster
    })
}

/// By standard input: the migrations together are longer than an argument may be.
fn psql(cluster: &Throwaway, database: &str, sql: &str) {
    let mut child = Command::new(cluster.programs().join("psql"))
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &cluster.url(database)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql is beside the server");
    // A psql that stopped at an error says so below.
    let _ = child.stdin.take().expect("it is piped").write_all(sql.as_bytes());
    let output = child.wait_with_output().expect("psql ends with its input");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn table() -> TableName {
    TableName::parse(TABLE).expect("a legal name")
}

fn silent() -> Observer {
    Arc::new(|_| {})
}

fn token(number: u8) -> LeaseToken {
    LeaseToken::new([number; 16])
}

/// One test's database.
struct Database {
    url: String,
    client: tokio_postgres::Client,
    store: Store,
}

impl Database {
    async fn new(schema: Schema) -> Database {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        psql(cluster(), "postgres", &format!("create database {name} template {}", schema.template()));
        let url = cluster().url(&name);
        let client = connect(&url).await;
        let store = Store::open(&config(&url), silent()).expect("a good configuration");
        Database { url, client, store }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.expect("the test's own statement works");
    }

    async fn text(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> String {
        let row = self.client.query_one(sql, parameters).await.expect("the test's own question has one answer");
        row.get::<_, Option<String>>(0).unwrap_or_else(|| "null".into())
    }

    /// Inserts a due row for each url, 1 ms apart and oldest first, and returns their ids.
    async fn insert(&self, urls: &[&str]) -> Vec<i64> {
        let sql = format!(
            "insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, \
             idempotency_key, encrypted_body, envelope_nonce, retry_horizon_seconds, available_at) \
             select gen_random_uuid()::text, 'account', 'create_media_buy', 'completed', u, 'op', \
             gen_random_uuid()::text, convert_to(repeat('x', 100), 'UTF8'), convert_to('twelve bytes', 'UTF8'), \
             86400, now() - interval '1 second' + n * interval '1 millisecond' \
             from unnest($1::text[]) with ordinality as t(u, n) order by n returning id"
        );
        let rows = self.client.query(&sql, &[&urls]).await.expect("rows that the table takes");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// One row of the outbox as text: state, attempts, token, whether leased, whether the horizon begun, last
    /// status, last error.
    async fn show(&self, id: i64) -> String {
        let sql = format!(
            "select concat_ws(' ', state, attempt_count, coalesce(lease_token, '-'), \
             case when lease_expires_at is null then 'free' else 'leased' end, \
             case when first_attempt_at is null then 'fresh' else 'begun' end, \
             coalesce(last_http_status::text, '-'), coalesce(last_error, '-')) from {TABLE} where id = $1"
        );
        self.text(&sql, &[&id]).await
    }

    async fn claim(&self, number: u8) -> Vec<Lease> {
        let batch = self.store.claim_due(&request(number)).await.expect("the claim works").rows;
        batch.iter().map(|claimed| claimed.lease().clone()).collect()
    }

    /// Makes the live leases of these rows lapse, as though their time had passed.
    async fn lapse(&self, ids: &[i64]) {
        let sql = format!(
            "update {TABLE} set lease_expires_at = now() - interval '1 second', \
             available_at = now() - interval '1 second' where id = any($1)"
        );
        self.client.execute(&sql, &[&ids]).await.expect("the update works");
    }

    /// Moves the horizon of these rows into the past.
    async fn outlive(&self, ids: &[i64]) {
        let sql = format!(
            "update {TABLE} set first_attempt_at = now() - interval '2 days', \
             retry_until = now() - interval '1 day' where id = any($1)"
        );
        self.client.execute(&sql, &[&ids]).await.expect("the update works");
    }
}

fn config(url: &str) -> StoreConfig {
    StoreConfig {
        url: Secret::from(url.to_owned()),
        password: None,
        sslmode: None,
        sslrootcert: None,
        pool_size: 4,
        prepared_statements: true,
        connect_timeout: Duration::from_secs(10),
        statement_timeout: Duration::from_secs(30),
        table: table(),
        plans: Plans::Kept,
        bitmaps: false,
    }
}

fn request(number: u8) -> ClaimRequest {
    ClaimRequest {
        max_rows: 100,
        max_bytes: 1 << 20,
        token: token(number),
        lease: Duration::from_secs(60),
        rooms: Vec::new(),
        default_room: 100,
        accounts: None,
    }
}

fn room(destination: &str, room: u32) -> DestinationRoom {
    DestinationRoom { destination: destination.into(), room, in_flight: 0 }
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the cluster answers");
    tokio::spawn(connection);
    client
}

fn ids(rows: &[Settled]) -> Vec<i64> {
    let mut ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    ids.sort_unstable();
    ids
}
