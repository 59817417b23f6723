//! Rows read for a person who looks into them. It reads what is stored and judges none of it.

use super::claim::read;
use super::error::StoreError;
use super::{Answer, Kind, Store};
use crate::envelope::Row;

/// One outbox row, with what became of it so far.
pub(crate) struct StoredRow {
    pub(crate) id: i64,
    pub(crate) row: Row,
    pub(crate) state: String,
    pub(crate) last_error: Option<String>,
}

/// One task's registration.
pub(crate) struct StoredRegistration {
    pub(crate) account_id: String,
    pub(crate) task_id: String,
    pub(crate) task_type: String,
    pub(crate) state: String,
    /// Ciphertext and nonce; nothing where the task has no callback, or has ended.
    pub(crate) sealed: Option<(Vec<u8>, Vec<u8>)>,
}

impl Store {
    /// `sql/outbox/read_sealed.sql`
    pub(crate) async fn read_sealed(
        &self,
        id: Option<i64>,
        task_id: Option<&str>,
    ) -> Result<Option<StoredRow>, StoreError> {
        Ok(self.read_all(&self.statements.read_sealed, &[&id, &task_id], read_row).await?.pop())
    }

    /// `sql/registry/read_registration.sql`
    pub(crate) async fn read_registration(&self, task_id: &str) -> Result<Option<StoredRegistration>, StoreError> {
        Ok(self.read_all(&self.statements.read_registration, &[&task_id], read_task).await?.pop())
    }
}

pub(super) fn read_row(answer: &Answer) -> Result<StoredRow, Kind> {
    Ok(StoredRow {
        id: read(answer, "id")?,
        row: Row {
            account_id: read(answer, "account_id")?,
            task_id: read(answer, "task_id")?,
            task_type: read(answer, "task_type")?,
            terminal_status: read(answer, "terminal_status")?,
            url: read(answer, "url")?,
            operation_id: read(answer, "operation_id")?,
            idempotency_key: read(answer, "idempotency_key")?,
            signing_scope_id: read(answer, "signing_scope_id")?,
            encrypted_body: read(answer, "encrypted_body")?,
            envelope_nonce: read(answer, "envelope_nonce")?,
            attempt_count: read(answer, "attempt_count")?,
            composed: None,
        },
        state: read(answer, "state")?,
        last_error: read(answer, "last_error")?,
    })
}

fn read_task(answer: &Answer) -> Result<StoredRegistration, Kind> {
    let ciphertext: Option<Vec<u8>> = read(answer, "webhook_registration")?;
    let nonce: Option<Vec<u8>> = read(answer, "webhook_registration_nonce")?;
    Ok(StoredRegistration {
        account_id: read(answer, "account_id")?,
        task_id: read(answer, "task_id")?,
        task_type: read(answer, "task_type")?,
        state: read(answer, "state")?,
        sealed: ciphertext.map(|ciphertext| (ciphertext, nonce.unwrap_or_default())),
    })
}
