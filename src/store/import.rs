//! Rows of an older ledger on their way into the inbox: judging them, storing them, and proving that they are stored.
//! Rows travel as one JSON text, whose numbers are exact for a double.

use serde::Serialize;

use super::claim::read;
use super::error::Damage;
use super::{Parameter, Store, StoreError};

/// One row of both tables. What the ledger has of another type, or lacks, is `None` and thereby damaged.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct ImportRow {
    pub(crate) notification_id: Option<String>,
    pub(crate) event_id: Option<String>,
    pub(crate) site_id: Option<String>,
    pub(crate) terminal_status: Option<String>,
    pub(crate) payload_sha256: Option<String>,
    pub(crate) payload_json: Option<String>,
    pub(crate) received_at: Option<f64>,
    pub(crate) status: Option<String>,
    pub(crate) attempts: Option<i32>,
    pub(crate) max_attempts: Option<i32>,
    pub(crate) next_attempt_at: Option<f64>,
    pub(crate) lease_owner: Option<String>,
    pub(crate) lease_token: Option<String>,
    pub(crate) lease_expires_at: Option<f64>,
    pub(crate) last_error_code: Option<String>,
    pub(crate) processed_at: Option<f64>,
    pub(crate) created_at: Option<f64>,
    pub(crate) updated_at: Option<f64>,
}

/// Rows that are sent at once.
pub(crate) struct ImportBatch(String);

impl ImportBatch {
    pub(crate) fn new(rows: &[ImportRow]) -> ImportBatch {
        // Strings, integers and doubles in plain structs: there is nothing that could fail.
        ImportBatch(serde_json::to_string(rows).unwrap_or_default())
    }
}

/// How a ledger's row stands to what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Standing {
    Missing,
    Same,
    /// Imported, and worked on since.
    MovedOn,
    /// The sender sent it again before it was imported: its receipt is equal, its time and state are its own.
    ReceivedAgain,
    Collision,
    Damaged,
}

impl Store {
    /// `sql/inbox/judge_import.sql`: the damaged rows, by id.
    pub(crate) async fn judge_import(&self, batch: &ImportBatch) -> Result<Vec<(String, Damage)>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&batch.0];
        self.read_all(&self.statements.judge_import, &parameters, |answer| {
            Ok((read(answer, "notification_id")?, Damage::of(&read::<String>(answer, "damage")?)))
        })
        .await
    }

    /// `sql/inbox/import_notifications.sql`: how many were stored.
    pub(crate) async fn import_notifications(&self, batch: &ImportBatch) -> Result<u64, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&batch.0];
        self.read_one(&self.statements.import_notifications, &parameters, |answer| {
            Ok(read::<i64>(answer, "rows")?.unsigned_abs())
        })
        .await
    }

    /// `sql/inbox/compare_import.sql`
    pub(crate) async fn compare_import(&self, batch: &ImportBatch) -> Result<Vec<(String, Standing)>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&batch.0];
        self.read_all(&self.statements.compare_import, &parameters, |answer| {
            let standing = match read::<String>(answer, "standing")?.as_str() {
                "missing" => Standing::Missing,
                "same" => Standing::Same,
                "moved_on" => Standing::MovedOn,
                "received_again" => Standing::ReceivedAgain,
                "collision" => Standing::Collision,
                _ => Standing::Damaged,
            };
            Ok((read(answer, "notification_id")?, standing))
        })
        .await
    }
}
