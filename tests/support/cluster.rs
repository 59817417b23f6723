//! One throwaway Postgres for the whole test run and a database of its own for every test, cloned from a
//! template that the binary's own `migrate` made. It deliberately shares nothing between tests.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};

use outboxd::demo::postgres::{Options, Throwaway};
use tokio::sync::OnceCell;
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, Error, NoTls};

use super::runtime::servers;
use super::seal::Sealed;

pub const TABLE: &str = "adcp_task_webhook_outbox";
const TEMPLATE: &str = "outboxd_template";

/// Never dropped: the kernel stops the server when this process ends, and the next run removes its directory.
fn with_cluster<T>(ask: impl FnOnce(&Throwaway) -> T) -> T {
    static CLUSTER: LazyLock<Mutex<Throwaway>> = LazyLock::new(|| {
        let settings = vec![("log_min_messages".to_string(), "error".to_string())];
        let started = Throwaway::start(&Options { settings, ..Options::default() });
        Mutex::new(started.unwrap_or_else(|error| panic!("{error}")))
    });
    ask(&CLUSTER.lock().expect("no holder panics"))
}

pub fn url(database: &str) -> String {
    with_cluster(|cluster| cluster.url(database))
}

pub fn socket_directory() -> PathBuf {
    with_cluster(|cluster| cluster.socket_directory().to_path_buf())
}

/// `psql`, ready for a database; it stops at the first error.
/// Where psql and its likes are.
pub fn programs() -> PathBuf {
    with_cluster(|cluster| cluster.programs().to_path_buf())
}

pub fn psql(database: &str) -> Command {
    let mut command = Command::new(programs().join("psql"));
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &url(database)]);
    command
}

/// CREATE DATABASE copies a template only while nobody else does.
async fn clone_template(name: &str) {
    static ADMIN: OnceCell<tokio::sync::Mutex<Client>> = OnceCell::const_new();
    let admin = ADMIN
        .get_or_init(|| async {
            let admin = connect(&url("postgres")).await;
            admin.batch_execute(&format!("CREATE DATABASE {TEMPLATE}")).await.expect("a new cluster takes it");
            migrate(&url(TEMPLATE));
            tokio::sync::Mutex::new(admin)
        })
        .await;
    let statement = format!("CREATE DATABASE {name} TEMPLATE {TEMPLATE}");
    admin.lock().await.batch_execute(&statement).await.expect("the template is idle");
}

/// `outboxd migrate`, whatever it comes to.
pub fn migrating(url: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .args(["migrate", "--set", &format!("database.url={url}")])
        .output()
        .expect("the binary runs")
}

fn migrate(url: &str) {
    let output = migrating(url);
    assert!(output.status.success(), "migrate failed: {}", String::from_utf8_lossy(&output.stderr));
}

pub async fn connect(url: &str) -> Client {
    try_connect(url).await.unwrap_or_else(|error| panic!("cannot connect to {url}: {error}"))
}

/// As `connect`, where it may fail.
pub async fn try_connect(url: &str) -> Result<Client, Error> {
    let url = url.to_string();
    let connecting = servers().spawn(async move { tokio_postgres::connect(&url, NoTls).await });
    let (client, connection) = connecting.await.expect("connecting does not panic")?;
    servers().spawn(connection);
    Ok(client)
}

fn next_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub struct Database {
    pub name: String,
    pub url: String,
    pub client: Client,
}

impl Database {
    /// With the schema of `outboxd migrate`.
    pub async fn new() -> Database {
        let name = next_name();
        // Starting the cluster blocks for a moment, which a test's own runtime may.
        clone_template(&name).await;
        Database::open(name).await
    }

    /// With no table at all.
    pub async fn empty() -> Database {
        let name = next_name();
        let sql = format!("CREATE DATABASE {name} TEMPLATE template0");
        connect(&url("postgres")).await.batch_execute(&sql).await.expect("an empty database is made");
        Database::open(name).await
    }

    async fn open(name: String) -> Database {
        let url = url(&name);
        let client = connect(&url).await;
        Database { name, url, client }
    }

    /// A schema of its own in this database, without a table; whoever connects here lives in it.
    pub async fn schema(&self, name: &str) -> Database {
        self.client.batch_execute(&format!("CREATE SCHEMA {name}")).await.expect("it is new");
        let url = format!("{}&options=-c%20search_path%3D{name}", self.url);
        let client = connect(&url).await;
        Database { name: self.name.clone(), url, client }
    }

    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> u64 {
        self.client.execute(sql, params).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub async fn value<T: FromSqlOwned>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T {
        self.client.query_one(sql, params).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    /// Pending rows, in one statement, with the defaults that the table gives.
    pub async fn insert(&self, rows: &[Sealed]) {
        insert_by(&self.client, rows).await.unwrap_or_else(|error| panic!("rows cannot be inserted: {error:?}"));
    }

    /// The same, due in an hour; no daemon sees them before that.
    pub async fn insert_for_later(&self, rows: &[Sealed]) {
        self.client.batch_execute("begin").await.expect("it begins");
        self.insert(rows).await;
        let tasks: Vec<&str> = rows.iter().map(|row| row.draft.task_id.as_str()).collect();
        let sql = format!("UPDATE {TABLE} SET available_at = now() + interval '1 hour' WHERE task_id = any($1)");
        self.execute(&sql, &[&tasks]).await;
        self.client.batch_execute("commit").await.expect("it commits");
    }

    pub async fn rows(&self) -> Vec<OutboxRow> {
        let sql = format!(
            "SELECT task_id, state, attempt_count, last_http_status, last_error, lease_token, \
             first_attempt_at IS NOT NULL AS attempted, available_at > clock_timestamp() AS waiting \
             FROM {TABLE} ORDER BY id"
        );
        let rows = self.client.query(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.iter()
            .map(|row| OutboxRow {
                task_id: row.get("task_id"),
                state: row.get("state"),
                attempt_count: row.get("attempt_count"),
                last_http_status: row.get("last_http_status"),
                last_error: row.get("last_error"),
                lease_token: row.get("lease_token"),
                attempted: row.get("attempted"),
                waiting: row.get("waiting"),
            })
            .collect()
    }

    pub async fn row(&self, task_id: &str) -> OutboxRow {
        let rows = self.rows().await;
        rows.into_iter().find(|row| row.task_id == task_id).unwrap_or_else(|| panic!("no row {task_id}"))
    }

    pub async fn count(&self, state: &str) -> usize {
        self.rows().await.iter().filter(|row| row.state == state).count()
    }
}

/// As `Database::insert`, where it may fail.
pub async fn insert_by(client: &Client, rows: &[Sealed]) -> Result<u64, Error> {
    macro_rules! column {
        ($field:ident) => {
            rows.iter().map(|row| row.draft.$field.as_str()).collect::<Vec<&str>>()
        };
    }
    let scopes: Vec<Option<&str>> = rows.iter().map(|row| row.draft.signing_scope_id.as_deref()).collect();
    let bodies: Vec<&[u8]> = rows.iter().map(|row| row.encrypted_body.as_slice()).collect();
    let nonces: Vec<&[u8]> = rows.iter().map(|row| row.envelope_nonce.as_slice()).collect();
    let sql = format!(
        "INSERT INTO {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, \
         idempotency_key, signing_scope_id, encrypted_body, envelope_nonce, retry_horizon_seconds) \
         SELECT given.*, 86400 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], \
         $6::text[], $7::text[], $8::text[], $9::bytea[], $10::bytea[]) AS given"
    );
    let parameters: [&(dyn ToSql + Sync); 10] = [
        &column!(task_id),
        &column!(account_id),
        &column!(task_type),
        &column!(terminal_status),
        &column!(url),
        &column!(operation_id),
        &column!(idempotency_key),
        &scopes,
        &bodies,
        &nonces,
    ];
    client.execute(&sql, &parameters).await
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    pub task_id: String,
    pub state: String,
    pub attempt_count: i32,
    pub last_http_status: Option<i32>,
    pub last_error: Option<String>,
    pub lease_token: Option<String>,
    pub attempted: bool,
    /// Not due yet.
    pub waiting: bool,
}

impl fmt::Display for OutboxRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
