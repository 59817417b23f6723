//! Lets a database write down what its outbox goes through, and reads it back. Judges nothing.

use tokio_postgres::{Client, Row as Answer};

use super::history::{History, Row, Side, Step};

const TRIGGER: &str = include_str!("history/recorder.sql");

/// From now on. Sessions are told apart by their `application_name`, so each worker needs one of its own in its URL.
pub async fn record(client: &Client, table: &str) {
    client.batch_execute(&TRIGGER.replace("OUTBOX", table)).await.expect("the recorder is installed");
}

/// Adds what was recorded, and how the rows stand now.
pub async fn read_into(history: &mut History, client: &Client, table: &str) {
    let sql = "SELECT key, worker, asked, at, fenced, (before).state IS NOT NULL AS existed, \
               (after).state IS NOT NULL AS exists, (before).*, (after).* FROM outbox_history ORDER BY seq";
    let steps = client.query(sql, &[]).await.expect("the recorder is installed");
    history.steps = steps.iter().map(step).collect();
    let sql = format!("SELECT idempotency_key, state FROM {table} ORDER BY id");
    let rows = client.query(&sql, &[]).await.expect("the outbox is there");
    history.rows = rows.iter().map(|row| Row { key: row.get(0), state: row.get(1) }).collect();
}

fn step(answer: &Answer) -> Step {
    /// Columns before the first side, and of each side.
    const HEAD: usize = 7;
    const SIDE: usize = 6;
    let side = |from: usize| Side {
        state: answer.get(from),
        token: answer.get(from + 1),
        lease_until: answer.get(from + 2),
        attempts: answer.get(from + 3),
        error: answer.get(from + 4),
        retry_until: answer.get(from + 5),
    };
    let (existed, exists): (bool, bool) = (answer.get("existed"), answer.get("exists"));
    Step {
        key: answer.get("key"),
        worker: answer.get("worker"),
        asked: answer.get("asked"),
        at: answer.get("at"),
        fenced: answer.get("fenced"),
        before: existed.then(|| side(HEAD)),
        after: exists.then(|| side(HEAD + SIDE)),
    }
}
