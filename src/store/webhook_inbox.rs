//! The webhook inbox: keeping what was received, and bounding what is remembered. It
//! judges no request and no payload; what makes the writes safe is in `sql/host/webhooks.sql`.

use std::time::Duration;

use super::claim::read;
use super::error::Kind;
use super::{Parameter, Store, StoreError};

/// An accepted signature, to be accepted no second time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenSignature<'a> {
    pub(crate) keyid: &'a str,
    pub(crate) nonce: &'a str,
    /// Unix seconds after which nobody accepts it.
    pub(crate) kept_until: i64,
}

/// How many nonces are remembered at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NonceCaps {
    pub(crate) per_key: u32,
    pub(crate) total: u32,
}

/// One authenticated delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery<'a> {
    pub(crate) sender: &'a str,
    pub(crate) idempotency_key: &'a str,
    pub(crate) payload_sha256: [u8; 32],
    /// Hashes of the task's id and of what is said about its end, where it is said.
    pub(crate) observation: Option<([u8; 32], [u8; 32])>,
    pub(crate) body: &'a [u8],
    pub(crate) max_attempts: i32,
}

/// What became of a delivery. Everything but `InProgress` was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Stored,
    /// Another delivery told the same end of the task before.
    Observed,
    Duplicate,
    Conflict,
    Replayed,
    /// There is no room to remember another signature.
    Crowded,
    /// The signature is remembered; there was no delivery to keep.
    Unkeyed,
    /// Another session is about to keep the same, and has not committed.
    InProgress,
}

impl Kept {
    fn parse(text: &str) -> Option<Kept> {
        Some(match text {
            "stored" => Kept::Stored,
            "observed" => Kept::Observed,
            "duplicate" => Kept::Duplicate,
            "conflict" => Kept::Conflict,
            "replayed" => Kept::Replayed,
            "crowded" => Kept::Crowded,
            "unkeyed" => Kept::Unkeyed,
            "in_progress" => Kept::InProgress,
            _ => return None,
        })
    }
}

/// Nonces kept for one key id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NonceCount {
    pub(crate) keyid: String,
    pub(crate) nonces: u64,
}

/// Messages with work left, each counted up to the limit that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InboxSample {
    pub(crate) due: u64,
    pub(crate) lapsed: u64,
    pub(crate) failed: u64,
}

impl Store {
    /// `sql/inbox/webhook_accept.sql`; without a delivery, only the signature is remembered. `count` makes it look at
    /// the caps, which takes as long as there are nonces.
    pub(crate) async fn accept_webhook(
        &self,
        signature: Option<SeenSignature<'_>>,
        caps: NonceCaps,
        count: bool,
        delivery: Option<Delivery<'_>>,
    ) -> Result<Kept, StoreError> {
        let (per_key, total) = (i64::from(caps.per_key), i64::from(caps.total));
        let keyid = signature.map(|seen| seen.keyid);
        let nonce = signature.map(|seen| seen.nonce);
        // Seconds of this century are exact in a double.
        let kept_until = signature.map(|seen| seen.kept_until as f64);
        let sender = delivery.map(|one| one.sender);
        let key = delivery.map(|one| one.idempotency_key);
        let payload = delivery.map(|one| one.payload_sha256.to_vec());
        let observation = delivery.and_then(|one| one.observation);
        let (task, artifact) = (observation.map(|(task, _)| task.to_vec()), observation.map(|(_, end)| end.to_vec()));
        let body = delivery.map(|one| one.body);
        let attempts = delivery.map(|one| one.max_attempts);
        let parameters: [Parameter<'_>; 13] = [
            &keyid,
            &nonce,
            &kept_until,
            &count,
            &per_key,
            &total,
            &sender,
            &key,
            &payload,
            &task,
            &artifact,
            &body,
            &attempts,
        ];
        self.read_one(&self.statements.webhook_accept, &parameters, |answer| {
            Kept::parse(&read::<String>(answer, "outcome")?).ok_or(Kind::Unreadable { column: "outcome" })
        })
        .await
    }

    /// `sql/inbox/webhook_sample_nonces.sql`
    pub(crate) async fn sample_webhook_nonces(&self) -> Result<Vec<NonceCount>, StoreError> {
        self.read_all(&self.statements.webhook_sample_nonces, &[], |answer| {
            Ok(NonceCount { keyid: read(answer, "keyid")?, nonces: read::<i64>(answer, "nonces")?.unsigned_abs() })
        })
        .await
    }

    /// `sql/inbox/webhook_purge_nonces.sql`; as many as `limit`: there is probably more.
    pub(crate) async fn purge_webhook_nonces(&self, margin: Duration, limit: u32) -> Result<u64, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&margin.as_secs_f64(), &i64::from(limit)];
        self.read_one(&self.statements.webhook_purge_nonces, &parameters, |answer| {
            Ok(read::<i64>(answer, "rows")?.unsigned_abs())
        })
        .await
    }

    /// `sql/inbox/webhook_purge_settled.sql`; as many as `limit`: there is probably more.
    pub(crate) async fn purge_settled_webhooks(&self, retention: Duration, limit: u32) -> Result<u64, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&retention.as_secs_f64(), &i64::from(limit)];
        self.read_one(&self.statements.webhook_purge_settled, &parameters, |answer| {
            Ok(read::<i64>(answer, "rows")?.unsigned_abs())
        })
        .await
    }

    /// `sql/inbox/webhook_sample_inbox.sql`
    pub(crate) async fn sample_webhook_inbox(&self, limit: u32) -> Result<InboxSample, StoreError> {
        self.read_one(&self.statements.webhook_sample_inbox, &[&i64::from(limit)], |answer| {
            Ok(InboxSample {
                due: read::<i64>(answer, "due")?.unsigned_abs(),
                lapsed: read::<i64>(answer, "lapsed")?.unsigned_abs(),
                failed: read::<i64>(answer, "failed")?.unsigned_abs(),
            })
        })
        .await
    }
}
