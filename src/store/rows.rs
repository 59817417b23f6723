//! The rows of an outbox as an operator is shown them: page by page, without anything that is sealed. It changes none.

use std::time::Duration;

use super::claim::read;
use super::filter::Filter;
use super::settle::RowState;
use super::{Answer, Kind, Parameter, Store, StoreError};

/// Rows that one statement reads in order to find those that are asked for: some tens of milliseconds.
const LOOK: i64 = 20_000;

/// What is told of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShownRow {
    pub(crate) id: i64,
    pub(crate) state: RowState,
    pub(crate) account: String,
    pub(crate) task: String,
    pub(crate) destination: String,
    pub(crate) key: String,
    pub(crate) attempts: u32,
    pub(crate) age: Duration,
    /// Until it is due, or until its lease ends. None: it is due, or over.
    pub(crate) next_in: Option<Duration>,
    pub(crate) http_status: Option<u16>,
    pub(crate) code: Option<String>,
}

/// Newest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Page {
    pub(crate) rows: Vec<ShownRow>,
    /// What the next page goes on below; none: there are no more.
    pub(crate) below: Option<i64>,
}

impl Store {
    /// `sql/outbox/list_rows.sql`, again and again until so many rows are found or all were looked at; `sql/outbox/list_ended.sql`
    /// or `sql/outbox/list_open.sql` where these know a shorter way.
    pub(crate) async fn list_rows(&self, filter: &Filter, below: Option<i64>, limit: u32) -> Result<Page, StoreError> {
        let mut page = Page { rows: Vec::new(), below };
        let all =
            |states: &[RowState]| !filter.states.is_empty() && filter.states.iter().all(|state| states.contains(state));
        let ended = all(&[RowState::Expired, RowState::Invalid]);
        // A row that was delivered has no code.
        let coded = filter.states.is_empty() && filter.code.is_some();
        let undelivered = [RowState::Pending, RowState::InFlight, RowState::Expired, RowState::Invalid];
        let mut few_open = !ended && (coded || all(&undelivered));
        loop {
            let wanted = i64::from(limit) - page.rows.len() as i64;
            let asked = filter.parameters();
            let mut parameters: Vec<Parameter<'_>> = asked.each().to_vec();
            let from = page.below.unwrap_or(i64::MAX);
            parameters.extend([&from as Parameter<'_>, &wanted, &LOOK]);
            let statement = match (few_open, ended) {
                (true, _) => &self.statements.list_open,
                (_, true) => &self.statements.list_ended,
                _ => &self.statements.list_rows,
            };
            let answers = self.read_all(statement, &parameters, read_looked).await?;
            let mut looked_to = None;
            for (to, row) in answers {
                looked_to = to;
                page.rows.extend(row);
            }
            // More are open than it looks at, so that they are found soon in their own order.
            if few_open && looked_to.is_some() {
                few_open = false;
                continue;
            }
            let full = page.rows.len() >= limit as usize;
            page.below = if full { page.rows.last().map(|row| row.id) } else { looked_to };
            if full || page.below.is_none() {
                return Ok(page);
            }
        }
    }
}

fn read_looked(answer: &Answer) -> Result<(Option<i64>, Option<ShownRow>), Kind> {
    let looked_to = read(answer, "looked_to")?;
    let Some(id) = read::<Option<i64>>(answer, "id")? else { return Ok((looked_to, None)) };
    Ok((looked_to, Some(read_shown(answer, id)?)))
}

fn read_shown(answer: &Answer, id: i64) -> Result<ShownRow, Kind> {
    let next_in: Option<f64> = read(answer, "next_in")?;
    let status: Option<i32> = read(answer, "last_http_status")?;
    Ok(ShownRow {
        id,
        state: RowState::parse(&read::<String>(answer, "state")?),
        account: read(answer, "account_id")?,
        task: read(answer, "task_id")?,
        destination: read(answer, "destination")?,
        key: read(answer, "idempotency_key")?,
        attempts: read::<i32>(answer, "attempt_count")?.unsigned_abs(),
        age: Duration::try_from_secs_f64(read(answer, "age")?).unwrap_or_default(),
        next_in: next_in.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).filter(|left| !left.is_zero()),
        http_status: status.and_then(|status| u16::try_from(status).ok()),
        code: read(answer, "last_error")?,
    })
}
