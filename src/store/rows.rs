//! The rows of an outbox as an operator is shown them: page by page, without anything that is sealed. It changes none.

use std::time::Duration;

use super::claim::read;
use super::filter::Filter;
use super::indexes::{ListIndexes, ListedBy, MissedIndex};
use super::settle::RowState;
use super::{Answer, Kind, Parameter, Statement, Store, StoreError};

/// Rows that one statement reads in order to find those that are asked for: some tens of milliseconds.
const LOOK: i64 = 20_000;

/// As many by an index that is not in the rows' own order, at first: each may cost a page of the table, and mostly those that
/// are asked for are the first that come.
const FIRST_LOOK: i64 = 100;

/// Above so many rows an index would have been worth telling of: some tenths of a second.
const MANY: u64 = 100_000;

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
    /// The index by which it would have taken less time, if it took long.
    pub(crate) missed: Option<MissedIndex>,
}

/// By which rows are found, and so by which statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All open rows, or those for the destination, if they are few.
    Open,
    OpenByDestination,
    Ended,
    By(ListedBy),
    /// All there are, newest first.
    All,
}

impl Way {
    /// What is tried one after the other, each once but for the last, which comes to an end in any case.
    fn all(filter: &Filter, indexes: &ListIndexes) -> Vec<Way> {
        let only =
            |states: &[RowState]| !filter.states.is_empty() && filter.states.iter().all(|state| states.contains(state));
        let ended = only(&[RowState::Expired, RowState::Invalid]);
        // A row that was delivered has no code.
        let coded = filter.states.is_empty() && filter.code.is_some();
        let undelivered = coded || only(&[RowState::Pending, RowState::InFlight, RowState::Expired, RowState::Invalid]);
        let by = asked_by(filter).find(|by| indexes.serve(*by)).map(Way::By);
        let first = match (ended, undelivered) {
            (true, _) => Some(Way::Ended),
            (_, true) if filter.destination.is_some() && indexes.open_destinations => Some(Way::OpenByDestination),
            (_, true) => Some(Way::Open),
            _ => None,
        };
        // More are open than it looks at, so that they are found soon in their own order.
        let last = by.unwrap_or(if ended { Way::Ended } else { Way::All });
        first.filter(|first| *first != last).into_iter().chain([last]).collect()
    }
}

/// By what an index could serve a filter; the one by account is the smaller.
fn asked_by(filter: &Filter) -> impl Iterator<Item = ListedBy> {
    let account = filter.account.as_ref().map(|_| ListedBy::Account);
    account.into_iter().chain(filter.destination.as_ref().map(|_| ListedBy::Destination))
}

impl Store {
    /// `sql/outbox/list_rows.sql`, again and again until so many rows are found or all were looked at; `list_ended.sql`,
    /// `list_open.sql`, `list_open_by_destination.sql`, `list_by_account.sql` or `list_by_destination.sql` beside it where these
    /// know a shorter way.
    pub(crate) async fn list_rows(&self, filter: &Filter, below: Option<i64>, limit: u32) -> Result<Page, StoreError> {
        let indexes = match asked_by(filter).next() {
            Some(_) => self.find_list_indexes().await?,
            None => ListIndexes::default(),
        };
        let ways = Way::all(filter, &indexes);
        let mut page = Page { rows: Vec::new(), below, missed: None };
        let (mut nth, mut looked) = (0, 0);
        let mut by_index = FIRST_LOOK.max(limit.into()).min(LOOK);
        loop {
            let way = ways[nth];
            nth = (nth + 1).min(ways.len() - 1);
            let look = if matches!(way, Way::By(_)) { by_index } else { LOOK };
            let wanted = i64::from(limit) - page.rows.len() as i64;
            let from = page.below.unwrap_or(i64::MAX);
            let asked = filter.parameters();
            let mut parameters: Vec<Parameter<'_>> = asked.each().to_vec();
            parameters.extend([&from as Parameter<'_>, &wanted, &look]);
            let answers = self.read_all(self.statement(way), &parameters, read_looked).await?;
            let mut looked_to = None;
            for (to, row) in answers {
                looked_to = to;
                page.rows.extend(row);
            }
            if matches!(way, Way::Open | Way::OpenByDestination) && looked_to.is_some() {
                continue;
            }
            let full = page.rows.len() >= limit as usize;
            page.below = if full { page.rows.last().map(|row| row.id) } else { looked_to };
            if full || page.below.is_none() {
                let unserved = asked_by(filter).next().filter(|_| looked > MANY && !matches!(way, Way::By(_)));
                page.missed = unserved.map(|by| self.missed_index(by, &indexes, looked));
                return Ok(page);
            }
            looked += look.unsigned_abs();
            by_index = (by_index * 4).min(LOOK);
        }
    }

    fn statement(&self, way: Way) -> &Statement {
        let statements = &self.statements;
        match way {
            Way::Open => &statements.list_open,
            Way::OpenByDestination => &statements.list_open_by_destination,
            Way::Ended => &statements.list_ended,
            Way::By(ListedBy::Account) => &statements.list_by_account,
            Way::By(ListedBy::Destination) => &statements.list_by_destination,
            Way::All => &statements.list_rows,
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
