//! What the demo asks of the store besides the daemon's own statements: rows in, and what became of them.

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
}
