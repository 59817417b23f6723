//! What the demo asks of the store besides the daemon's own statements: rows in, what became of them, and what its inbox holds.

use std::time::SystemTime;

use super::claim::read;
use super::{Parameter, Store, StoreError};

/// Sealed rows, column by column.
#[derive(Debug, Default)]
pub(crate) struct DemoRows {
    pub(crate) task_ids: Vec<String>,
    pub(crate) urls: Vec<String>,
    pub(crate) idempotency_keys: Vec<String>,
    pub(crate) sealed: Vec<Vec<u8>>,
    pub(crate) nonces: Vec<Vec<u8>>,
}

/// How many of the rows for one URL are in one state.
#[derive(Debug)]
pub(crate) struct DemoEntry {
    pub(crate) url: String,
    pub(crate) state: String,
    pub(crate) rows: u64,
    pub(crate) retried: u64,
}

/// One webhook in the inbox of the demo's steady buyers.
#[derive(Debug)]
pub(crate) struct DemoMessage {
    pub(crate) id: i64,
    pub(crate) idempotency_key: String,
    pub(crate) body: Vec<u8>,
    pub(crate) received_at: SystemTime,
}

impl Store {
    /// `sql/demo/insert_rows.sql`
    pub(crate) async fn insert_demo_rows(&self, rows: &DemoRows) -> Result<(), StoreError> {
        let parameters: [Parameter<'_>; 5] =
            [&rows.task_ids, &rows.urls, &rows.idempotency_keys, &rows.sealed, &rows.nonces];
        self.read_all(&self.statements.insert_rows, &parameters, |_| Ok(())).await.map(drop)
    }

    /// `sql/demo/read_states.sql`
    pub(crate) async fn read_demo_states(&self) -> Result<Vec<DemoEntry>, StoreError> {
        self.read_all(&self.statements.read_states, &[], |answer| {
            Ok(DemoEntry {
                url: read(answer, "url")?,
                state: read(answer, "state")?,
                rows: read::<i64>(answer, "rows")?.unsigned_abs(),
                retried: read::<i64>(answer, "retried")?.unsigned_abs(),
            })
        })
        .await
    }

    /// `sql/demo/create_buyers.sql`
    pub(crate) async fn create_demo_buyers(&self) -> Result<(), StoreError> {
        self.read_all(&self.statements.create_buyers, &[], |_| Ok(())).await.map(drop)
    }

    /// `sql/demo/read_inbox.sql`
    pub(crate) async fn read_demo_inbox(&self, after: i64) -> Result<Vec<DemoMessage>, StoreError> {
        self.read_all(&self.statements.read_inbox, &[&after], |answer| {
            Ok(DemoMessage {
                id: read(answer, "id")?,
                idempotency_key: read(answer, "idempotency_key")?,
                body: read(answer, "body")?,
                received_at: read(answer, "received_at")?,
            })
        })
        .await
    }
}
