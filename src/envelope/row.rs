//! One claimed outbox row as it is stored. It says nothing of leases and checks nothing.

/// The columns that an attempt needs.
pub(crate) struct Row {
    pub(crate) account_id: String,
    pub(crate) task_id: String,
    pub(crate) task_type: String,
    pub(crate) terminal_status: String,
    pub(crate) url: String,
    pub(crate) operation_id: String,
    pub(crate) idempotency_key: String,
    pub(crate) signing_scope_id: Option<String>,
    pub(crate) encrypted_body: Vec<u8>,
    pub(crate) envelope_nonce: Vec<u8>,
    /// As the claim returned it: 1 at the first attempt.
    pub(crate) attempt_count: i32,
}
