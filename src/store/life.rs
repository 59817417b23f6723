//! What is known of one row and of its attempts, and of the outbox as a whole: for a person who looks. It changes nothing and
//! judges nothing.

use std::time::Duration;

use super::claim::read;
use super::parking::{ShownParked, read_shown_parked};
use super::settle::RowState;
use super::{Answer, Kind, Parameter, Store, StoreError};

/// One row, as far as it is not sealed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Life {
    pub(crate) id: i64,
    pub(crate) task: String,
    pub(crate) account: String,
    pub(crate) task_type: String,
    pub(crate) terminal_status: String,
    pub(crate) key: String,
    pub(crate) scope: Option<String>,
    pub(crate) destination: String,
    pub(crate) state: RowState,
    pub(crate) attempts: u32,
    pub(crate) age: Duration,
    pub(crate) changed_ago: Duration,
    pub(crate) begun_ago: Option<Duration>,
    /// Negative: it is past. None: it has not begun.
    pub(crate) horizon_in: Option<f64>,
    /// Until it is due or its lease ends; negative: since then.
    pub(crate) next_in: f64,
    pub(crate) delivered_ago: Option<Duration>,
    pub(crate) http_status: Option<i32>,
    pub(crate) code: Option<String>,
}

/// One attempt that was written down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptAttempt {
    pub(crate) row: i64,
    pub(crate) attempt: i32,
    pub(crate) status: Option<String>,
    pub(crate) http_status: Option<i32>,
    pub(crate) code: Option<String>,
    pub(crate) took_ms: i32,
    pub(crate) payload_bytes: Option<i32>,
    pub(crate) account: String,
    pub(crate) task: String,
    pub(crate) task_type: String,
    pub(crate) key: String,
    pub(crate) url: String,
    /// In seconds since 1970, by the database's clock.
    pub(crate) fired_at: f64,
    pub(crate) settled_at: f64,
    pub(crate) fired_ago: Duration,
}

/// Which attempts are followed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Followed {
    pub(crate) account: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) failed: bool,
}

/// Rows by where they are, each counted up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct States {
    pub(crate) waiting: i64,
    pub(crate) held: i64,
    pub(crate) invalid: i64,
    pub(crate) expired: i64,
}

impl Store {
    /// `sql/outbox/read_life.sql`, by id, or by task or key.
    pub(crate) async fn read_life(&self, id: Option<i64>, name: Option<&str>) -> Result<Option<Life>, StoreError> {
        Ok(self.read_all(&self.statements.read_life, &[&id, &name], read_life).await?.pop())
    }

    /// `sql/history/read_attempts.sql`; nothing where there is no history.
    pub(crate) async fn read_attempts(&self, key: &str, most: u32) -> Result<Option<Vec<KeptAttempt>>, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&key, &i64::from(most)];
        where_kept(self.read_all(&self.statements.read_attempts, &parameters, read_attempt).await)
    }

    /// `sql/history/tail_attempts.sql`, the last one first; nothing where there is no history.
    pub(crate) async fn tail_attempts(
        &self,
        since: f64,
        followed: &Followed,
        most: u32,
    ) -> Result<Option<Vec<KeptAttempt>>, StoreError> {
        let Followed { account, code, failed } = followed;
        let parameters: [Parameter<'_>; 5] = [&since, account, code, failed, &i64::from(most)];
        where_kept(self.read_all(&self.statements.tail_attempts, &parameters, read_attempt).await)
    }

    /// `sql/history/count_recent.sql`; nothing where there is no history.
    pub(crate) async fn count_recent(&self, most: u32) -> Result<Option<Vec<(Option<String>, i64)>>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&i64::from(most)];
        let read_both = |answer: &Answer| Ok((read(answer, "code")?, read(answer, "attempts")?));
        where_kept(self.read_all(&self.statements.count_recent, &parameters, read_both).await)
    }

    /// `sql/outbox/count_states.sql`
    pub(crate) async fn count_states(&self, most: u32) -> Result<States, StoreError> {
        self.read_one(&self.statements.count_states, &[&i64::from(most)], |answer| {
            Ok(States {
                waiting: read(answer, "waiting")?,
                held: read(answer, "held")?,
                invalid: read(answer, "invalid")?,
                expired: read(answer, "expired")?,
            })
        })
        .await
    }

    /// `sql/parking/read_destination.sql`; nothing where it is not parked, or no list is kept.
    pub(crate) async fn read_destination(&self, destination: &str) -> Result<Option<ShownParked>, StoreError> {
        let found = self.read_all(&self.statements.read_destination, &[&destination], read_shown_parked).await;
        Ok(where_kept(found)?.and_then(|mut parked| parked.pop()))
    }
}

/// A schema of before, or a user who may not look, is no error here.
pub(super) fn where_kept<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind, Kind::Schema { .. } | Kind::Permission) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_life(answer: &Answer) -> Result<Life, Kind> {
    let span = |column| read::<Option<f64>>(answer, column).map(|seconds| seconds.map(span));
    Ok(Life {
        id: read(answer, "id")?,
        task: read(answer, "task_id")?,
        account: read(answer, "account_id")?,
        task_type: read(answer, "task_type")?,
        terminal_status: read(answer, "terminal_status")?,
        key: read(answer, "idempotency_key")?,
        scope: read(answer, "signing_scope_id")?,
        destination: read(answer, "destination")?,
        state: RowState::parse(&read::<String>(answer, "state")?),
        attempts: read::<i32>(answer, "attempt_count")?.unsigned_abs(),
        age: span("age")?.unwrap_or_default(),
        changed_ago: span("changed_ago")?.unwrap_or_default(),
        begun_ago: span("begun_ago")?,
        horizon_in: read(answer, "horizon_in")?,
        next_in: read(answer, "next_in")?,
        delivered_ago: span("delivered_ago")?,
        http_status: read(answer, "last_http_status")?,
        code: read(answer, "last_error")?,
    })
}

fn read_attempt(answer: &Answer) -> Result<KeptAttempt, Kind> {
    Ok(KeptAttempt {
        row: read(answer, "outbox_id")?,
        attempt: read(answer, "attempt")?,
        status: read(answer, "status")?,
        http_status: read(answer, "http_status")?,
        code: read(answer, "code")?,
        took_ms: read(answer, "took_ms")?,
        payload_bytes: read(answer, "payload_bytes")?,
        account: read(answer, "account_id")?,
        task: read(answer, "task_id")?,
        task_type: read(answer, "task_type")?,
        key: read(answer, "idempotency_key")?,
        url: read(answer, "url")?,
        fired_at: read(answer, "fired_at")?,
        settled_at: read(answer, "settled_at")?,
        fired_ago: span(read(answer, "fired_ago")?),
    })
}

fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
