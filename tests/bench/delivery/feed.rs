//! Rows that come one after another while a contender delivers, and how long each takes from its commit to its receipt.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::Bed;
use super::contenders::Running;
use super::support::seal::Sealed;

/// How often a feed looks at how many rows are due.
const STEP: Duration = Duration::from_millis(10);

const INSERT: &str = "
insert into adcp_task_webhook_outbox (task_id, account_id, task_type, terminal_status, url, operation_id,
                                      idempotency_key, encrypted_body, envelope_nonce, retry_horizon_seconds)
select given.*, 86400
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[],
              $9::bytea[]) as given";

/// Inserts rows, and knows when each was committed.
pub struct Feed {
    client: Client,
    insert: Statement,
    /// Whether the daemon is told of them, as hosts do.
    wake: bool,
    /// The next row's number.
    next: usize,
    /// A row's number, and the microsecond since 1970 at which its commit was begun.
    sent: Vec<(usize, u64)>,
}

/// Milliseconds from commit to receipt. The commit's own time is in it: it is counted from its beginning.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Delays {
    pub rows: usize,
    /// Rows that had not come when we stopped waiting.
    pub missing: usize,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub most: f64,
}

impl Feed {
    /// Rows are numbered from `first` on.
    pub async fn new(bed: &Bed, first: usize, wake: bool) -> Feed {
        let client = bed.outbox.connection().await;
        let insert = client.prepare(INSERT).await.expect("the table is there");
        Feed { client, insert, wake, next: first, sent: Vec::new() }
    }

    /// So many rows a second, to these ports in turns.
    pub async fn steadily(&mut self, bed: &Bed, rate: f64, ports: &[usize], time: Duration) {
        let began = Instant::now();
        let mut given = 0;
        let mut steps = tokio::time::interval(STEP);
        while began.elapsed() < time {
            steps.tick().await;
            let wanted = (began.elapsed().min(time).as_secs_f64() * rate) as usize;
            let urls: Vec<String> = (given..wanted)
                .map(|nth| bed.receiver.url_at(ports[nth % ports.len()], self.next + nth - given))
                .collect();
            given = wanted;
            if !urls.is_empty() {
                self.commit(&bed.outbox.seal(urls.into_iter())).await;
            }
        }
    }

    /// One row at a time, after pauses of random length in between.
    pub async fn now_and_then(&mut self, bed: &Bed, pauses: std::ops::Range<f64>, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            tokio::time::sleep(Duration::from_secs_f64(pauses.start + random() * (pauses.end - pauses.start))).await;
            let url = bed.receiver.url(self.next);
            self.commit(&bed.outbox.seal([url].into_iter())).await;
        }
    }

    async fn commit(&mut self, rows: &[Sealed]) {
        macro_rules! column {
            ($field:ident) => {
                rows.iter().map(|row| row.draft.$field.as_str()).collect::<Vec<&str>>()
            };
        }
        let bodies: Vec<&[u8]> = rows.iter().map(|row| row.encrypted_body.as_slice()).collect();
        let nonces: Vec<&[u8]> = rows.iter().map(|row| row.envelope_nonce.as_slice()).collect();
        let columns: [&(dyn ToSql + Sync); 9] = [
            &column!(task_id),
            &column!(account_id),
            &column!(task_type),
            &column!(terminal_status),
            &column!(url),
            &column!(operation_id),
            &column!(idempotency_key),
            &bodies,
            &nonces,
        ];
        self.client.batch_execute("begin").await.expect("it begins");
        self.client.execute(&self.insert, &columns).await.expect("the rows are lawful");
        if self.wake {
            self.client.batch_execute("notify outboxd_wake").await.expect("anybody may");
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_micros() as u64;
        self.client.batch_execute("commit").await.expect("it commits");
        self.sent.extend((self.next..self.next + rows.len()).map(|row| (row, at)));
        self.next += rows.len();
    }

    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// How many of them had come at this moment.
    pub fn came(&self, times: &[u64]) -> usize {
        self.sent.iter().filter(|(row, _)| times[*row] > 0).count()
    }

    /// Of the rows from this one on.
    pub fn delays(&self, times: &[u64], from: usize) -> Delays {
        let sent = &self.sent[from..];
        let came = sent.iter().filter(|(row, _)| times[*row] > 0);
        let mut took: Vec<f64> = came.map(|(row, at)| times[*row].saturating_sub(*at) as f64 / 1000.0).collect();
        took.sort_by(f64::total_cmp);
        Delays {
            rows: sent.len(),
            missing: sent.len() - took.len(),
            p50: quantile(&took, 0.5),
            p95: quantile(&took, 0.95),
            p99: quantile(&took, 0.99),
            most: quantile(&took, 1.0),
        }
    }
}

impl Delays {
    pub fn cells(&self) -> Vec<String> {
        let number = |value: f64| format!("{value:.1}");
        vec![
            self.rows.to_string(),
            number(self.p50),
            number(self.p95),
            number(self.p99),
            number(self.most),
            self.missing.to_string(),
        ]
    }
}

/// The heads of [`Delays::cells`].
pub const CELLS: [&str; 6] = ["rows", "p50 ms", "p95 ms", "p99 ms", "most ms", "missing"];

/// Of sorted values, that which so large a share of them does not exceed.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// From 0 to 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// Until so many rows have come, or for so long.
pub async fn wait_for(bed: &mut Bed, running: &mut Running, count: u64, longest: Duration) {
    let began = Instant::now();
    while bed.receiver.count() < count && began.elapsed() < longest {
        running.assert_running();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Until the contender hears and looks, which it shows by delivering one row; panics where it never does.
pub async fn ready(bed: &mut Bed, running: &mut Running, feed: &mut Feed) {
    let before = bed.receiver.count();
    let url = bed.receiver.url(feed.next);
    feed.commit(&bed.outbox.seal([url].into_iter())).await;
    wait_for(bed, running, before + 1, Duration::from_secs(60)).await;
    assert!(bed.receiver.count() > before, "nothing is delivered\n{}", running.said());
}
