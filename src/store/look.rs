//! Where looks for due rows begin, and how far they came: places in the order of due rows, by the database's clock. Decides
//! on none of them.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio_postgres::Row as Answer;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::claim::{Claimed, read, seconds};
use super::error::Kind;

/// A moment by the database's clock, as Postgres keeps it: microseconds since 2000. The least means -infinity, which a clock
/// of ours could not spell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DatabaseTime(i64);

impl DatabaseTime {
    #[cfg(test)]
    pub(crate) fn at(micros: i64) -> DatabaseTime {
        DatabaseTime(micros)
    }

    pub(crate) fn since(self, earlier: DatabaseTime) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub(crate) fn less(self, time: Duration) -> DatabaseTime {
        DatabaseTime(self.0.saturating_sub(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl<'a> FromSql<'a> for DatabaseTime {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<DatabaseTime, Box<dyn Error + Sync + Send>> {
        Ok(DatabaseTime(i64::from_be_bytes(raw.try_into()?)))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for DatabaseTime {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

/// A row's place in the order of due rows; as the beginning of a look, rows from behind it on are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) at: DatabaseTime,
    pub(crate) id: i64,
}

impl Position {
    pub(crate) const HEAD: Position = Position { at: DatabaseTime(i64::MIN), id: i64::MIN };

    /// Before every row of that moment.
    pub(crate) fn before(at: DatabaseTime) -> Position {
        Position { at, id: i64::MIN }
    }

    /// So that the row itself is looked at.
    pub(crate) fn just_before(self) -> Position {
        Position { id: self.id.saturating_sub(1), ..self }
    }
}

/// A look that passes over rows without room: all rows in their order from a place on, but no more than some, and rows of
/// destinations that are named, each from a place of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) after: Position,
    pub(crate) most: u32,
    pub(crate) named: Vec<(Arc<str>, Position)>,
}

/// What a look around came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) looked_at: DatabaseTime,
    /// How long finding took, without what was then done to the rows.
    pub(crate) looking: Duration,
    /// Of the rows in their order: how many, and the last.
    pub(crate) scanned: u32,
    pub(crate) last: Option<Position>,
    /// Destinations of which rows were found and left, with the first of each.
    pub(crate) left: Vec<(String, Position)>,
}

/// A claim's rows, and what finding them took; unknown where there was none.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Claimed>,
    pub(crate) looking: Option<Duration>,
}

/// One destination that has open rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) destination: String,
    /// The first that is due.
    pub(crate) first_due: Option<Position>,
    pub(crate) looked_at: DatabaseTime,
}

pub(super) fn read_seen(answer: &Answer) -> Result<Seen, Kind> {
    let last: (Option<DatabaseTime>, Option<i64>) = (read(answer, "last_at")?, read(answer, "last_id")?);
    let destinations: Vec<String> = read(answer, "left_behind")?;
    let times: Vec<DatabaseTime> = read(answer, "left_at")?;
    let ids: Vec<i64> = read(answer, "left_ids")?;
    let positions = times.into_iter().zip(ids).map(|(at, id)| Position { at, id });
    Ok(Seen {
        looked_at: read(answer, "looked_at")?,
        looking: seconds(answer, "seconds_looking")?,
        scanned: u32::try_from(read::<i64>(answer, "scanned")?).unwrap_or(u32::MAX),
        last: last.0.zip(last.1).map(|(at, id)| Position { at, id }),
        left: destinations.into_iter().zip(positions).collect(),
    })
}

pub(super) fn read_listed(answer: &Answer) -> Result<Listed, Kind> {
    let due: (Option<DatabaseTime>, Option<i64>) = (read(answer, "available_at")?, read(answer, "id")?);
    Ok(Listed {
        destination: read(answer, "destination")?,
        first_due: due.0.zip(due.1).map(|(at, id)| Position { at, id }),
        looked_at: read(answer, "looked_at")?,
    })
}
