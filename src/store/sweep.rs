//! The statements that end and delete what is past its horizon, batch by batch. How many, how often and how long in between
//! is the sweep's business.

use std::time::Duration;

use super::claim::read;
use super::statement::{Parameter, Statement};
use super::{Store, StoreError};

/// Where a batch ended, in the order that its statement goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watermark(i64);

#[cfg(test)]
impl Watermark {
    pub(crate) fn at(micros: i64) -> Watermark {
        Watermark(micros)
    }

    pub(crate) fn micros(self) -> i64 {
        self.0
    }
}

/// What one batch came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Swept {
    /// As many as the limit: there is probably more.
    pub(crate) rows: u32,
    /// None where there were no rows.
    pub(crate) ended_at: Option<Watermark>,
}

impl Store {
    /// `sql/outbox/expire_overdue.sql`, from the beginning or from where the last batch ended.
    pub(crate) async fn expire_overdue(&self, limit: u32, from: Option<Watermark>) -> Result<Swept, StoreError> {
        let from = from.map(|Watermark(micros)| micros);
        let parameters: [Parameter<'_>; 2] = [&i64::from(limit), &from];
        self.sweep(&self.statements.expire_overdue, limit, &parameters).await
    }

    /// `sql/outbox/purge_settled.sql`, likewise.
    pub(crate) async fn purge_settled(
        &self,
        limit: u32,
        from: Option<Watermark>,
        keep_undelivered: Duration,
    ) -> Result<Swept, StoreError> {
        let from = from.map(|Watermark(micros)| micros);
        let parameters: [Parameter<'_>; 3] = [&i64::from(limit), &from, &keep_undelivered.as_secs_f64()];
        self.sweep(&self.statements.purge_settled, limit, &parameters).await
    }

    async fn sweep(
        &self,
        statement: &Statement,
        limit: u32,
        parameters: &[Parameter<'_>],
    ) -> Result<Swept, StoreError> {
        self.read_one(statement, parameters, |answer| {
            Ok(Swept {
                rows: u32::try_from(read::<i64>(answer, "rows")?).unwrap_or(limit),
                ended_at: read::<Option<i64>>(answer, "ended_at")?.map(Watermark),
            })
        })
        .await
    }
}
