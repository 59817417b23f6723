//! What a claim asks and what it brings: the lease, the row, and the facts that pacing and the verdict need.
//! A row that cannot be read is brought as such, so that it can be quarantined; it never fails the claim.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row as Answer;
use tokio_postgres::types::FromSqlOwned;
use zeroize::Zeroizing;

use super::error::Kind;
use super::look::{Found, Seen, read_seen};
use crate::envelope::{Composed, Row};

/// Proof of one claim: fresh and random for each, so that equality with the row's column is the fence.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LeaseToken(Arc<str>);

impl LeaseToken {
    /// 32 lowercase hex digits, as the SDK writes them; to Postgres it is opaque text.
    pub(crate) fn new(random: [u8; 16]) -> LeaseToken {
        LeaseToken(format!("{:032x}", u128::from_be_bytes(random)).into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({})", self.0)
    }
}

/// The right to settle one row, for as long as nobody else claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    pub(crate) token: LeaseToken,
}

#[derive(Debug, Clone)]
pub(crate) struct ClaimRequest {
    pub(crate) max_rows: u32,
    /// Of ciphertext; one row is granted whatever its size.
    pub(crate) max_bytes: u64,
    pub(crate) token: LeaseToken,
    pub(crate) lease: Duration,
    /// Destinations with less room than `default_room`, or more, or with rows in flight; with room 0 their rows are passed
    /// over.
    pub(crate) rooms: Vec<DestinationRoom>,
    pub(crate) default_room: u32,
    /// Where accounts have a share.
    pub(crate) accounts: Option<AccountRooms>,
}

/// What each account may take beside what it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AccountRooms {
    pub(crate) rooms: HashMap<Arc<str>, u32>,
    pub(crate) others: u32,
}

impl AccountRooms {
    pub(crate) fn of(&self, account: &str) -> u32 {
        self.rooms.get(account).copied().unwrap_or(self.others)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DestinationRoom {
    pub(crate) destination: Arc<str>,
    pub(crate) room: u32,
    pub(crate) in_flight: u32,
}

pub(super) fn capped(room: u32) -> i32 {
    i32::try_from(room).unwrap_or(i32::MAX)
}

/// As arrays, one element for each destination.
pub(super) struct Rooms<'a> {
    pub(super) destinations: Vec<&'a str>,
    pub(super) rooms: Vec<i32>,
    pub(super) in_flight: Vec<i32>,
}

impl Rooms<'_> {
    pub(super) fn of(request: &ClaimRequest) -> Rooms<'_> {
        Rooms {
            destinations: request.rooms.iter().map(|one| &*one.destination).collect(),
            rooms: request.rooms.iter().map(|one| capped(one.room)).collect(),
            in_flight: request.rooms.iter().map(|one| capped(one.in_flight)).collect(),
        }
    }
}

/// As arrays, one element for each account; no room for the others where accounts have no share.
pub(super) struct Shares<'a> {
    pub(super) accounts: Vec<&'a str>,
    pub(super) shares: Vec<i32>,
    pub(super) others: Option<i32>,
}

impl Shares<'_> {
    pub(super) fn of(request: &ClaimRequest) -> Shares<'_> {
        let given = request.accounts.iter().flat_map(|accounts| &accounts.rooms);
        let (accounts, shares) = given.map(|(account, room)| (&**account, capped(*room))).unzip();
        Shares { accounts, shares, others: request.accounts.as_ref().map(|accounts| capped(accounts.others)) }
    }
}

// A broken row is the rare one; boxing the common one would cost an allocation for each delivery.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Claimed {
    Whole {
        lease: Lease,
        row: Row,
        facts: ClaimFacts,
    },
    /// Leased like the others, but not to be attempted.
    Broken {
        lease: Lease,
        reason: Broken,
    },
}

impl Claimed {
    pub(crate) fn lease(&self) -> &Lease {
        match self {
            Claimed::Whole { lease, .. } | Claimed::Broken { lease, .. } => lease,
        }
    }
}

/// Shows no column of the row.
impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claimed::Whole { lease, facts, .. } => {
                f.debug_struct("Whole").field("lease", lease).field("facts", facts).finish_non_exhaustive()
            }
            Claimed::Broken { lease, reason } => {
                f.debug_struct("Broken").field("lease", lease).field("reason", reason).finish()
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The column is null where it must not be, or of a type that we do not read.
    Column { name: &'static str },
    /// More ciphertext than any body we accept can have; it was not fetched.
    Oversize { bytes: u64 },
    /// A composed row with nothing beside it that its body could be rendered from.
    NothingComposed,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClaimFacts {
    /// The authority text of the row's URL in lower case: the key of `rooms`. Empty where it has none.
    pub(crate) destination: String,
    /// Since the row became due.
    pub(crate) due_for: Duration,
    /// Since the first attempt began; zero at the first.
    pub(crate) since_first_attempt: Duration,
    /// Until the horizon ends.
    pub(crate) until_retry_until: Duration,
    /// The row is one whose body is rendered, and lacks yet what it is rendered from.
    pub(crate) composed: bool,
}

/// What was read for a composed row.
pub(crate) enum ReadComposed {
    Whole(Composed),
    /// Its result found no room in the bytes that were allowed.
    NoRoom,
}

/// A claimed row and its place among the others, whose order an answer need not keep.
pub(super) struct Placed {
    position: i64,
    claimed: Claimed,
}

pub(super) fn read_placed(answer: &Answer, token: &LeaseToken) -> Result<Placed, Kind> {
    let lease = Lease { id: read(answer, "id")?, token: token.clone() };
    Ok(Placed { position: read(answer, "position")?, claimed: read_claimed(answer, lease)? })
}

/// Each row tells how long the whole look took.
pub(super) fn read_head(answer: &Answer, token: &LeaseToken) -> Result<(Duration, Placed), Kind> {
    Ok((seconds(answer, "seconds_looking")?, read_placed(answer, token)?))
}

pub(super) fn found(answers: Vec<Result<(Duration, Placed), Kind>>) -> Result<Found, Kind> {
    let answers = answers.into_iter().collect::<Result<Vec<_>, Kind>>()?;
    let looking = answers.first().map(|(looking, _)| *looking);
    Ok(Found { rows: in_order(answers.into_iter().map(|(_, placed)| placed).collect()), looking })
}

/// A row of the answer: one tells of the look itself, and has no id.
#[allow(clippy::large_enum_variant)]
pub(super) enum OfLook {
    Row(Placed),
    Seen(Seen),
}

pub(super) fn read_around(answer: &Answer, token: &LeaseToken) -> Result<OfLook, Kind> {
    match answer.try_get::<_, i64>("id") {
        Ok(_) => read_placed(answer, token).map(OfLook::Row),
        Err(_) => read_seen(answer).map(OfLook::Seen),
    }
}

pub(super) fn around(answers: Vec<Result<OfLook, Kind>>) -> Result<(Vec<Claimed>, Seen), Kind> {
    let (mut placed, mut seen) = (Vec::with_capacity(answers.len()), None);
    for answer in answers {
        match answer? {
            OfLook::Row(row) => placed.push(row),
            OfLook::Seen(of_the_look) => seen = Some(of_the_look),
        }
    }
    Ok((in_order(placed), seen.ok_or(Kind::Unreadable { column: "looked_at" })?))
}

fn in_order(mut placed: Vec<Placed>) -> Vec<Claimed> {
    placed.sort_unstable_by_key(|placed| placed.position);
    placed.into_iter().map(|placed| placed.claimed).collect()
}

/// Errs only for the columns that the statement itself computes.
fn read_claimed(answer: &Answer, lease: Lease) -> Result<Claimed, Kind> {
    let bytes: Option<i64> = answer.try_get("encrypted_bytes").ok();
    let encrypted: Option<Vec<u8>> = answer.try_get("encrypted_body").ok();
    if let (Some(bytes), None) = (bytes, &encrypted) {
        return Ok(Claimed::Broken { lease, reason: Broken::Oversize { bytes: bytes.unsigned_abs() } });
    }
    let facts = ClaimFacts {
        // Null exactly where the url is, which is found below.
        destination: answer.try_get("destination").unwrap_or_default(),
        due_for: seconds(answer, "seconds_due")?,
        since_first_attempt: seconds(answer, "seconds_since_first_attempt")?,
        until_retry_until: seconds(answer, "seconds_until_retry_until")?,
        composed: read(answer, "composed")?,
    };
    let row = || -> Result<Row, Broken> {
        Ok(Row {
            account_id: column(answer, "account_id")?,
            task_id: column(answer, "task_id")?,
            task_type: column(answer, "task_type")?,
            terminal_status: column(answer, "terminal_status")?,
            url: column(answer, "url")?,
            operation_id: column(answer, "operation_id")?,
            idempotency_key: column(answer, "idempotency_key")?,
            signing_scope_id: column(answer, "signing_scope_id")?,
            encrypted_body: encrypted.ok_or(Broken::Column { name: "encrypted_body" })?,
            envelope_nonce: column(answer, "envelope_nonce")?,
            attempt_count: column(answer, "attempt_count")?,
            composed: None,
        })
    };
    Ok(match row() {
        Ok(row) => Claimed::Whole { lease, row, facts },
        Err(reason) => Claimed::Broken { lease, reason },
    })
}

/// The task, and what its row carries beside the outbox.
pub(super) fn read_composed(answer: &Answer) -> Result<(String, ReadComposed), Kind> {
    let result: Option<String> = read(answer, "result")?;
    let composed = match result {
        None => ReadComposed::NoRoom,
        Some(result) => ReadComposed::Whole(Composed {
            version: read(answer, "version")?,
            result: Zeroizing::new(result),
            composed_at_micros: read(answer, "composed_at")?,
        }),
    };
    Ok((read(answer, "task_id")?, composed))
}

fn column<T: FromSqlOwned>(answer: &Answer, name: &'static str) -> Result<T, Broken> {
    answer.try_get(name).map_err(|_| Broken::Column { name })
}

pub(super) fn read<T: FromSqlOwned>(answer: &Answer, column: &'static str) -> Result<T, Kind> {
    answer.try_get(column).map_err(|_| Kind::Unreadable { column })
}

/// A clock that was set back makes a span negative; it counts as none.
pub(super) fn seconds(answer: &Answer, column: &'static str) -> Result<Duration, Kind> {
    // Null where the row has no horizon to compute it from.
    let seconds: Option<f64> = read(answer, column)?;
    Ok(Duration::try_from_secs_f64(seconds.unwrap_or_default()).unwrap_or_default())
}
