//! Who holds old snapshots in this database. For how long it may is not judged here.

use std::time::Duration;

use super::claim::read;
use super::{Answer, Kind, Store, StoreError};

/// What keeps dead row versions from being removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HolderKind {
    /// A transaction, open in a session.
    Session,
    /// One that was prepared and left.
    Prepared,
    /// A standby's feedback of what its own queries need.
    Standby,
    /// A replication slot, whether or not anybody uses it.
    Slot,
}

/// One of them. Nothing of what it asks is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) kind: HolderKind,
    pub(crate) pid: Option<i32>,
    /// Of the application, the prepared transaction or the slot.
    pub(crate) name: Option<String>,
    pub(crate) user: Option<String>,
    /// The session's, such as `idle in transaction`, where this user may see it.
    pub(crate) state: Option<String>,
    /// The transaction up to which it holds; the same for as long as it does not move.
    pub(crate) held: String,
    /// Since its transaction began. None for slots and standbys, which have none, and for what this user may not see.
    pub(crate) since: Option<Duration>,
}

/// What there was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshots {
    /// Whether the user may see when other users' transactions began.
    pub(crate) sees_all: bool,
    /// The one that holds most back first.
    pub(crate) holders: Vec<Holder>,
}

impl HolderKind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            HolderKind::Session => "session",
            HolderKind::Prepared => "prepared transaction",
            HolderKind::Standby => "standby",
            HolderKind::Slot => "replication slot",
        }
    }

    fn parse(text: &str) -> HolderKind {
        match text {
            "prepared" => HolderKind::Prepared,
            "standby" => HolderKind::Standby,
            "slot" => HolderKind::Slot,
            _ => HolderKind::Session,
        }
    }
}

impl Store {
    /// `sql/outbox/find_snapshots.sql`
    pub(crate) async fn find_snapshots(&self) -> Result<Snapshots, StoreError> {
        let read = self.read_all(&self.statements.find_snapshots, &[], read_holder).await?;
        Ok(Snapshots {
            sees_all: read.iter().any(|(sees_all, _)| *sees_all),
            holders: read.into_iter().filter_map(|(_, holder)| holder).collect(),
        })
    }
}

fn read_holder(answer: &Answer) -> Result<(bool, Option<Holder>), Kind> {
    let sees_all = read(answer, "sees_all")?;
    let Some(kind) = read::<Option<String>>(answer, "kind")? else { return Ok((sees_all, None)) };
    let seconds: Option<f64> = read(answer, "seconds")?;
    let holder = Holder {
        kind: HolderKind::parse(&kind),
        pid: read(answer, "pid")?,
        name: read(answer, "name")?,
        user: read(answer, "user_name")?,
        state: read(answer, "state")?,
        held: read::<Option<String>>(answer, "held")?.unwrap_or_default(),
        since: seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
    };
    Ok((sees_all, Some(holder)))
}
