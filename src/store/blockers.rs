//! Who is in the way of work on the outbox, for a person who looks.

use std::time::Duration;

use super::claim::read;
use super::{Answer, Kind, Parameter, Store, StoreError};

/// One that holds a lock which others wait for, or which nothing can be claimed beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocker {
    /// None: it is a prepared transaction.
    pub(crate) pid: Option<i32>,
    /// Of the application.
    pub(crate) name: Option<String>,
    pub(crate) user: Option<String>,
    /// The session's, such as `idle in transaction`, where this user may see it.
    pub(crate) state: Option<String>,
    /// Since its transaction began, where this user may see it.
    pub(crate) since: Option<Duration>,
    /// How many sessions wait for it.
    pub(crate) waiting: i64,
}

impl Store {
    /// `sql/outbox/find_blockers.sql`
    pub(crate) async fn find_blockers(&self) -> Result<Vec<Blocker>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        self.read_all(&self.statements.find_blockers, &parameters, read_blocker).await
    }
}

fn read_blocker(answer: &Answer) -> Result<Blocker, Kind> {
    let seconds: Option<f64> = read(answer, "seconds")?;
    Ok(Blocker {
        pid: read(answer, "pid")?,
        name: read(answer, "name")?,
        user: read(answer, "user_name")?,
        state: read(answer, "state")?,
        since: seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
        waiting: read(answer, "waiting")?,
    })
}
