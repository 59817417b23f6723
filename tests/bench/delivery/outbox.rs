//! The database that is measured: a cluster of its own on the disk with Postgres' default durability, a migrated outbox in
//! it, and rows as a host seals them. What Postgres did is asked over a connection to another database, which is not counted.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Sub;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use outboxd::demo::postgres::{Options, Throwaway};
use serde_json::json;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

use super::figures::median;
use super::processes::Cpu;
use super::support::eventually::eventually;
use super::support::seal::{Draft, EnvelopeKey, Sealed};

/// Bytes of a body as it is posted.
pub const BODY: usize = 1024;

/// Checkpoints come when they are asked for, before each turn, and not in the one contender's turn rather than in the other's.
const SETTINGS: [(&str, &str); 3] = [("max_wal_size", "16GB"), ("checkpoint_timeout", "1h"), ("shared_buffers", "1GB")];

const COPY: &str = "copy adcp_task_webhook_outbox (task_id, account_id, task_type, terminal_status, url, operation_id, \
                    idempotency_key, encrypted_body, envelope_nonce, retry_horizon_seconds, available_at) from stdin (format binary)";

pub struct Outbox {
    postgres: Rc<Throwaway>,
    database: &'static str,
    pub url: String,
    pub client: Client,
    /// On another database.
    watcher: Client,
    pub key: EnvelopeKey,
}

/// What Postgres has done so far.
#[derive(Clone, Copy)]
pub struct Work {
    pub commits: i64,
    pub wal_bytes: i64,
}

impl Sub for Work {
    type Output = Work;

    fn sub(self, earlier: Work) -> Work {
        Work { commits: self.commits - earlier.commits, wal_bytes: self.wal_bytes - earlier.wal_bytes }
    }
}

impl Outbox {
    pub async fn start() -> Outbox {
        let settings = SETTINGS.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        let options = Options { durable: true, settings, ..Options::default() };
        let postgres = Throwaway::start(&options).unwrap_or_else(|error| panic!("{error}"));
        Outbox::make(Rc::new(postgres), "measured", EnvelopeKey::new()).await
    }

    /// Another one, sealed under the same key, in a database of its own of the same server.
    pub async fn beside(&self) -> Outbox {
        Outbox::make(Rc::clone(&self.postgres), "beside", self.key.clone()).await
    }

    /// A database without any table, of the same server and for rows under the same key.
    pub async fn bare(&self) -> Outbox {
        Outbox::create(Rc::clone(&self.postgres), "bare", self.key.clone()).await
    }

    async fn make(postgres: Rc<Throwaway>, database: &'static str, key: EnvelopeKey) -> Outbox {
        let outbox = Outbox::create(postgres, database, key).await;
        let url = &outbox.url;
        let migrated = Command::new(env!("CARGO_BIN_EXE_outboxd"))
            .args(["migrate", "--set", &format!("database.url={url}")])
            .output()
            .expect("the binary runs");
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        outbox
    }

    async fn create(postgres: Rc<Throwaway>, database: &'static str, key: EnvelopeKey) -> Outbox {
        let watcher = connect(&postgres.url("postgres")).await;
        watcher.batch_execute(&format!("create database {database}")).await.expect("it is a new cluster");
        let url = postgres.url(database);
        let client = connect(&url).await;
        Outbox { postgres, database, url, client, watcher, key }
    }

    /// A connection that is not counted among a contender's.
    pub async fn connection(&self) -> Client {
        connect(&self.url).await
    }

    /// What the server logged so far.
    pub fn log(&self) -> String {
        self.postgres.log()
    }

    /// These rows and no others, all due, in a table as a vacuum leaves it. The checkpoint comes before the rows: where rows
    /// are delivered soon after they are written, their pages are whole in the log already.
    pub async fn refill(&self, rows: &[Sealed]) {
        self.empty().await;
        self.add(rows).await;
        self.execute("vacuum analyze adcp_task_webhook_outbox").await;
    }

    /// No rows.
    pub async fn empty(&self) {
        self.execute("truncate adcp_task_webhook_outbox restart identity cascade").await;
        self.execute("checkpoint").await;
    }

    pub async fn execute(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    pub async fn add(&self, rows: &[Sealed]) {
        self.add_due(rows, SystemTime::now()).await;
    }

    /// Rows that are due from a moment on.
    pub async fn add_due(&self, rows: &[Sealed], due: SystemTime) {
        const TEXTS: usize = 7;
        let mut types = vec![Type::TEXT; TEXTS];
        types.extend([Type::BYTEA, Type::BYTEA, Type::INT4, Type::TIMESTAMPTZ]);
        let sink = self.client.copy_in(COPY).await.expect("the table is there");
        let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, &types));
        for Sealed { draft, encrypted_body, envelope_nonce } in rows {
            let row: [&(dyn ToSql + Sync); 11] = [
                &draft.task_id,
                &draft.account_id,
                &draft.task_type,
                &draft.terminal_status,
                &draft.url,
                &draft.operation_id,
                &draft.idempotency_key,
                encrypted_body,
                envelope_nonce,
                &86_400i32,
                &due,
            ];
            writer.as_mut().write(&row).await.expect("the cluster takes rows");
        }
        writer.finish().await.expect("the rows are lawful");
    }

    pub fn seal(&self, urls: impl Iterator<Item = String>) -> Vec<Sealed> {
        urls.map(|url| draft(url, BODY).seal(&self.key)).collect()
    }

    pub async fn delivered(&self) -> u64 {
        let sql = "select count(*) from adcp_task_webhook_outbox where state = 'delivered'";
        self.number(sql).await.cast_unsigned()
    }

    /// A row whose body has so many bytes.
    pub fn seal_large(&self, url: String, bytes: usize) -> Sealed {
        draft(url, bytes).seal(&self.key)
    }

    /// The same rows as jobs of graphile-worker, and no others.
    pub async fn refill_jobs(&self, rows: &[Sealed]) {
        const AT_ONCE: usize = 5000;
        const ADD: &str = "select count(*) from graphile_worker.add_jobs(array(
            select ('post', json_build_object('url', url, 'body', body), null, null, null, null, null, null)
                       ::graphile_worker.job_spec
              from unnest($1::text[], $2::text[]) as given(url, body)))";
        self.execute("truncate graphile_worker._private_jobs").await;
        self.execute("checkpoint").await;
        for rows in rows.chunks(AT_ONCE) {
            let urls: Vec<&str> = rows.iter().map(|row| row.draft.url.as_str()).collect();
            let bodies: Vec<String> =
                rows.iter().map(|row| String::from_utf8(row.draft.body()).expect("JSON is UTF-8")).collect();
            self.client.query_one(ADD, &[&urls, &bodies]).await.expect("graphile-worker takes jobs");
        }
        self.execute("vacuum analyze graphile_worker._private_jobs").await;
    }

    /// Jobs that are done no longer exist.
    pub async fn jobs_left(&self) -> u64 {
        self.number("select count(*) from graphile_worker._private_jobs").await.cast_unsigned()
    }

    /// Exact only while nobody else is connected: a backend reports what it did once a second, and when it ends.
    pub async fn work(&self) -> Work {
        const OTHERS: &str = "select count(*) from pg_stat_activity where datname = $1 and \
                              backend_type = 'client backend' and application_name <> 'measuring'";
        eventually("the contender's connections end", async || {
            let others: i64 = self.watcher.query_one(OTHERS, &[&self.database]).await.expect("it answers").get(0);
            if others == 0 { Ok(()) } else { Err(format!("{others} are left")) }
        })
        .await;
        // What our own connection did to make the rows is reported by now, or it is not, but the same in every turn.
        let sql = "select xact_commit, (pg_current_wal_insert_lsn() - '0/0')::bigint from pg_stat_database \
                   where datname = $1";
        let row = self.watcher.query_one(sql, &[&self.database]).await.expect("it answers");
        Work { commits: row.get(0), wal_bytes: row.get(1) }
    }

    /// Of the server with all that it has started.
    pub fn cpu(&self) -> Cpu {
        Cpu::of_family(self.postgres.pid().expect("it runs"))
    }
}

async fn connect(url: &str) -> Client {
    let mut config: tokio_postgres::Config = url.parse().expect("our own url parses");
    config.application_name("measuring");
    let (client, connection) = config.connect(NoTls).await.expect("the cluster answers");
    tokio::spawn(connection);
    // Where statements are logged, ours are not meant.
    client.batch_execute("set log_min_duration_statement = -1").await.expect("we are the superuser");
    client
}

/// A row whose body has so many bytes.
fn draft(url: String, bytes: usize) -> Draft {
    let mut draft = Draft::to(url);
    draft.result = json!({"media_buy_id": "mb_1", "note": ""});
    let padding = bytes.saturating_sub(draft.body().len());
    draft.result["note"] = "x".repeat(padding).into();
    draft
}

/// How long the disk takes to make a page durable: the figure that varies most between machines.
pub fn fdatasync(directory: &Path) -> Duration {
    const TIMES: usize = 100;
    let path = directory.join("fdatasync");
    let mut file = File::create(&path).expect("the directory is ours");
    let mut took = Vec::new();
    for _ in 0..TIMES {
        file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&[1; 8192])).expect("the disk has room");
        let began = Instant::now();
        file.sync_data().expect("the disk works");
        took.push(began.elapsed().as_secs_f64());
    }
    std::fs::remove_file(&path).expect("the file is ours");
    Duration::from_secs_f64(median(&took))
}
