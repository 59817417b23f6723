//! Settling, with a record of each attempt or without; and the days that records are kept by. It judges none of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::claim::read;
use super::settle::{Delivered, Quarantined, Retried, Settled, fence};
use super::{Parameter, Store, StoreError};

/// What is kept of an attempt, beside what its row and its verdict tell.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewAttempt<'a> {
    pub(crate) fired_ago: f64,
    pub(crate) took: Duration,
    pub(crate) status: Option<&'static str>,
    pub(crate) payload_bytes: Option<u32>,
    pub(crate) url: &'a str,
    pub(crate) notification_type: Option<&'a str>,
    pub(crate) notification_id: Option<&'a str>,
    pub(crate) sequence_number: Option<i64>,
}

/// What was done about the days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) made: i32,
    /// One at most; there may be another.
    pub(crate) dropped: i32,
    /// Something was left for the next time.
    pub(crate) busy: bool,
}

/// As arrays, one element for each attempt.
struct Columns<'a> {
    fired_ago: Vec<f64>,
    took_ms: Vec<i32>,
    statuses: Vec<Option<&'static str>>,
    payload_bytes: Vec<Option<i32>>,
    urls: Vec<&'a str>,
    notification_types: Vec<Option<&'a str>>,
    notification_ids: Vec<Option<&'a str>>,
    sequence_numbers: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn of(attempts: &[NewAttempt<'a>]) -> Columns<'a> {
        let bytes = |one: &NewAttempt<'_>| one.payload_bytes.and_then(|bytes| i32::try_from(bytes).ok());
        Columns {
            fired_ago: attempts.iter().map(|one| one.fired_ago).collect(),
            took_ms: attempts.iter().map(|one| i32::try_from(one.took.as_millis()).unwrap_or(i32::MAX)).collect(),
            statuses: attempts.iter().map(|one| one.status).collect(),
            payload_bytes: attempts.iter().map(bytes).collect(),
            urls: attempts.iter().map(|one| one.url).collect(),
            notification_types: attempts.iter().map(|one| one.notification_type).collect(),
            notification_ids: attempts.iter().map(|one| one.notification_id).collect(),
            sequence_numbers: attempts.iter().map(|one| one.sequence_number).collect(),
        }
    }

    fn each(&self) -> [Parameter<'_>; 8] {
        [
            &self.fired_ago,
            &self.took_ms,
            &self.statuses,
            &self.payload_bytes,
            &self.urls,
            &self.notification_types,
            &self.notification_ids,
            &self.sequence_numbers,
        ]
    }
}

/// `attempts`, where given, has one for each of the rows.
impl Store {
    /// `sql/outbox/settle_delivered.sql` or `sql/history/settle_delivered.sql`
    pub(crate) async fn settle_delivered(
        &self,
        rows: &[Delivered],
        attempts: Option<&[NewAttempt<'_>]>,
    ) -> Result<Vec<Settled>, StoreError> {
        let (ids, tokens) = fence(rows.iter().map(|row| &row.lease));
        let statuses: Vec<i32> = rows.iter().map(|row| i32::from(row.http_status)).collect();
        let own: [Parameter<'_>; 3] = [&ids, &tokens, &statuses];
        let statements = &self.statements;
        match attempts.map(Columns::of) {
            None => self.settle(&statements.settle_delivered, rows.len(), &own).await,
            Some(columns) => {
                let parameters = [&own[..], &columns.each()].concat();
                self.settle(&statements.settle_delivered_recorded, rows.len(), &parameters).await
            }
        }
    }

    /// `sql/outbox/settle_retried.sql` or `sql/history/settle_retried.sql`
    pub(crate) async fn settle_retried(
        &self,
        rows: &[Retried],
        attempts: Option<&[NewAttempt<'_>]>,
    ) -> Result<Vec<Settled>, StoreError> {
        let (ids, tokens) = fence(rows.iter().map(|row| &row.lease));
        let delays: Vec<f64> = rows.iter().map(|row| row.delay.as_secs_f64()).collect();
        let statuses: Vec<Option<i32>> = rows.iter().map(|row| row.http_status.map(i32::from)).collect();
        let errors: Vec<&str> = rows.iter().map(|row| row.error.as_str()).collect();
        let own: [Parameter<'_>; 5] = [&ids, &tokens, &delays, &statuses, &errors];
        let statements = &self.statements;
        match attempts.map(Columns::of) {
            None => self.settle(&statements.settle_retried, rows.len(), &own).await,
            Some(columns) => {
                let parameters = [&own[..], &columns.each()].concat();
                self.settle(&statements.settle_retried_recorded, rows.len(), &parameters).await
            }
        }
    }

    /// `sql/outbox/settle_quarantined.sql` or `sql/history/settle_quarantined.sql`
    pub(crate) async fn settle_quarantined(
        &self,
        rows: &[Quarantined],
        attempts: Option<&[NewAttempt<'_>]>,
    ) -> Result<Vec<Settled>, StoreError> {
        let (ids, tokens) = fence(rows.iter().map(|row| &row.lease));
        let statuses: Vec<Option<i32>> = rows.iter().map(|row| row.http_status.map(i32::from)).collect();
        let errors: Vec<&str> = rows.iter().map(|row| row.error.as_str()).collect();
        let own: [Parameter<'_>; 4] = [&ids, &tokens, &statuses, &errors];
        let statements = &self.statements;
        match attempts.map(Columns::of) {
            None => self.settle(&statements.settle_quarantined, rows.len(), &own).await,
            Some(columns) => {
                let parameters = [&own[..], &columns.each()].concat();
                self.settle(&statements.settle_quarantined_recorded, rows.len(), &parameters).await
            }
        }
    }

    /// Whether attempts can be written down, as of the last `preflight` and as far as nothing else was found since.
    pub(crate) fn takes_attempts(&self) -> bool {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Until the next `preflight`.
    pub(crate) fn suspend_attempts(&self) {
        self.attempts.store(false, Ordering::Relaxed);
    }

    /// `sql/history/keep_attempts.sql`; no days ahead, where none is given.
    pub(crate) async fn keep_attempts(&self, ahead: Option<u16>, keep: Duration) -> Result<Kept, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&ahead.map_or(-1, i32::from), &keep.as_secs_f64()];
        self.read_one(&self.statements.keep_attempts, &parameters, |answer| {
            Ok(Kept { made: read(answer, "made")?, dropped: read(answer, "dropped")?, busy: read(answer, "busy")? })
        })
        .await
    }
}
