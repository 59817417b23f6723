//! One claimed outbox row as it is stored. It says nothing of leases and checks nothing.

use zeroize::Zeroizing;

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
    /// A composed row's `encrypted_body` is its task's registration, and this is what its body is rendered from.
    pub(crate) composed: Option<Composed>,
}

/// What a composed row carries beside the outbox. It never changes, so neither do the bytes that are rendered from it.
pub(crate) struct Composed {
    /// Of the body's form.
    pub(crate) version: i16,
    /// The task's result or error as the host spelt it.
    pub(crate) result: Zeroizing<String>,
    /// When the task ended, in microseconds since 1970.
    pub(crate) composed_at_micros: i64,
}
