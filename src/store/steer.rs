//! What an operator's commands ask of many rows at once. The rules are in `sql/host/steer.sql`, where hosts use them too.

use std::time::Duration;

use serde_json::{Value, json};

use super::claim::read;
use super::filter::Filter;
use super::life::where_kept;
use super::settle::RowState;
use super::{Answer, Kind, Parameter, Store, StoreError};
use crate::envelope::Row;

/// What is done to the rows that a filter means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Requeue,
    Cancel,
    Expire,
    Purge,
}

impl Action {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::Requeue => "requeue",
            Action::Cancel => "cancel",
            Action::Expire => "expire",
            Action::Purge => "purge",
        }
    }
}

/// Whether the functions are there for this outbox, and ours to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Steerable {
    Yes,
    Absent,
    Forbidden { user: String },
}

/// A stretch of rows that was looked through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FoundRows {
    /// Nothing where there is nothing further.
    pub(crate) looked_to: Option<i64>,
    pub(crate) ids: Vec<i64>,
    /// Of those, how many would get a fresh idempotency key, and how many of them are sealed.
    pub(crate) fresh: u64,
    pub(crate) sealed: u64,
    /// Under live leases now.
    pub(crate) held: u64,
}

/// What an operator did to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steered {
    pub(crate) action: String,
    pub(crate) actor: String,
    pub(crate) reason: String,
    pub(crate) ago: Duration,
    /// Where the row was given a fresh idempotency key.
    pub(crate) former_key: Option<String>,
}

/// What became of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) rows: u64,
    pub(crate) fresh: u64,
    /// Under a live lease or a lock of somebody else's.
    pub(crate) held: Vec<i64>,
    /// To be sealed again under a fresh key first.
    pub(crate) sealed: Vec<i64>,
}

/// Which run a change belongs to, whose it is and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) action: Action,
    /// As `Filter::to_json` spells it.
    pub(crate) filter: &'a str,
    pub(crate) run: &'a str,
    pub(crate) actor: &'a str,
    pub(crate) reason: &'a str,
}

/// A finished sealed row past its horizon.
pub(crate) struct PastRow {
    pub(crate) id: i64,
    pub(crate) content: PastContent,
}

pub(crate) enum PastContent {
    Whole(Box<Row>),
    /// It did not fit into the bytes that were allowed.
    NoRoom,
    TooLarge,
}

/// A new envelope with a fresh idempotency key in it, for what was read.
pub(crate) struct Renewed {
    pub(crate) id: i64,
    pub(crate) was: Vec<u8>,
    pub(crate) ciphertext: Vec<u8>,
    pub(crate) nonce: Vec<u8>,
    pub(crate) idempotency_key: String,
}

/// How many attempts at once an operator allows a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandCap {
    pub(crate) destination: String,
    pub(crate) most: u32,
    pub(crate) actor: String,
    pub(crate) reason: String,
    pub(crate) since: Duration,
}

/// Rows that changed lately and stand alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecentRows {
    pub(crate) state: RowState,
    /// Of the last attempt; empty where none failed.
    pub(crate) code: String,
    pub(crate) rows: u64,
    pub(crate) destinations: u64,
    /// Where most of them are to go. Empty where only their registrations say.
    pub(crate) most: String,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) action: String,
    pub(crate) reason: String,
    pub(crate) filter: String,
    pub(crate) through: i64,
    pub(crate) rows: u64,
}

impl Filter {
    /// As the functions take it, and as it is written down.
    pub(crate) fn to_json(&self) -> String {
        let states: Vec<&str> = self.states.iter().map(|state| state.label()).collect();
        let mut filter = json!({});
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                filter[name] = value;
            }
        };
        put("states", (!states.is_empty()).then(|| json!(states)));
        let texts = [
            ("account", &self.account),
            ("destination", &self.destination),
            ("code", &self.code),
            ("task", &self.task),
            ("key", &self.key),
        ];
        for (name, text) in texts {
            put(name, text.as_ref().map(|text| json!(text)));
        }
        put("older_than", self.older_than.map(|age| json!(age.as_secs_f64())));
        put("newer_than", self.newer_than.map(|age| json!(age.as_secs_f64())));
        filter.to_string()
    }
}

impl Store {
    /// `sql/steer/find_steering.sql`
    pub(crate) async fn find_steering(&self) -> Result<Steerable, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        self.read_one(&self.statements.find_steering, &parameters, |answer| {
            Ok(match (read(answer, "present")?, read(answer, "permitted")?) {
                (false, _) => Steerable::Absent,
                (true, true) => Steerable::Yes,
                (true, false) => Steerable::Forbidden { user: read(answer, "username")? },
            })
        })
        .await
    }

    /// `sql/steer/newest_row.sql`
    pub(crate) async fn newest_row(&self) -> Result<i64, StoreError> {
        self.read_one(&self.statements.newest_row, &[], |answer| read(answer, "id")).await
    }

    /// `sql/steer/find_deliveries.sql`
    pub(crate) async fn find_deliveries(
        &self,
        action: Action,
        filter: &str,
        after: i64,
        through: i64,
        look: i32,
    ) -> Result<FoundRows, StoreError> {
        let parameters: [Parameter<'_>; 5] = [&action.name(), &filter, &after, &through, &look];
        self.read_one(&self.statements.find_deliveries, &parameters, |answer| {
            Ok(FoundRows {
                looked_to: read(answer, "looked_to")?,
                ids: read(answer, "ids")?,
                fresh: count(answer, "fresh")?,
                sealed: count(answer, "sealed")?,
                held: count(answer, "held")?,
            })
        })
        .await
    }

    /// `sql/steer/change_deliveries.sql`
    pub(crate) async fn change_deliveries(
        &self,
        order: Order<'_>,
        ids: &[i64],
        through: i64,
    ) -> Result<Changed, StoreError> {
        let Order { action, filter, run, actor, reason } = order;
        let parameters: [Parameter<'_>; 7] = [&action.name(), &filter, &ids, &through, &run, &actor, &reason];
        self.read_one(&self.statements.change_deliveries, &parameters, |answer| {
            Ok(Changed {
                rows: count(answer, "changed")?,
                fresh: count(answer, "fresh")?,
                held: read(answer, "held")?,
                sealed: read(answer, "sealed")?,
            })
        })
        .await
    }

    /// `sql/steer/read_sealed_past.sql`
    pub(crate) async fn read_sealed_past(&self, ids: &[i64], max_bytes: i64) -> Result<Vec<PastRow>, StoreError> {
        self.read_all(&self.statements.read_sealed_past, &[&ids, &max_bytes], read_past).await
    }

    /// `sql/steer/renew_deliveries.sql`: how many of them were still as they had been read.
    pub(crate) async fn renew_deliveries(
        &self,
        order: Order<'_>,
        rows: &[Renewed],
        through: i64,
    ) -> Result<u64, StoreError> {
        if rows.is_empty() {
            return Ok(0);
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let was: Vec<&[u8]> = rows.iter().map(|row| row.was.as_slice()).collect();
        let bodies: Vec<&[u8]> = rows.iter().map(|row| row.ciphertext.as_slice()).collect();
        let nonces: Vec<&[u8]> = rows.iter().map(|row| row.nonce.as_slice()).collect();
        let keys: Vec<&str> = rows.iter().map(|row| row.idempotency_key.as_str()).collect();
        let Order { filter, run, actor, reason, .. } = order;
        let parameters: [Parameter<'_>; 10] =
            [&filter, &ids, &was, &bodies, &nonces, &keys, &through, &run, &actor, &reason];
        self.read_one(&self.statements.renew_deliveries, &parameters, |answer| count(answer, "renewed")).await
    }

    /// `sql/steer/read_run.sql`
    pub(crate) async fn read_run(&self, run: &str) -> Result<Option<Run>, StoreError> {
        let found = self
            .read_all(&self.statements.read_run, &[&run], |answer| {
                Ok(Run {
                    action: read(answer, "action")?,
                    reason: read(answer, "reason")?,
                    filter: read(answer, "filter")?,
                    through: read::<Option<i64>>(answer, "through")?.unwrap_or(0),
                    rows: count(answer, "rows")?,
                })
            })
            .await?;
        Ok(found.into_iter().next())
    }

    /// `sql/steer/read_steps.sql`: the last first; nothing where there is no audit that we may read.
    pub(crate) async fn read_steps(&self, row: i64, lines: u32) -> Result<Vec<Steered>, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&row, &i64::from(lines)];
        let found = self
            .read_all(&self.statements.read_steps, &parameters, |answer| {
                Ok(Steered {
                    action: read(answer, "action")?,
                    actor: read(answer, "actor")?,
                    reason: read(answer, "reason")?,
                    ago: Duration::try_from_secs_f64(read(answer, "ago")?).unwrap_or_default(),
                    former_key: read(answer, "former_key")?,
                })
            })
            .await;
        Ok(where_kept(found)?.unwrap_or_default())
    }

    /// `sql/steer/look_back.sql`: the most first.
    pub(crate) async fn look_back(&self, rows: u32, back: Duration) -> Result<Vec<RecentRows>, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&i64::from(rows), &back.as_secs_f64()];
        self.read_all(&self.statements.look_back, &parameters, |answer| {
            Ok(RecentRows {
                state: RowState::parse(&read::<String>(answer, "state")?),
                code: read(answer, "code")?,
                rows: count(answer, "rows")?,
                destinations: count(answer, "destinations")?,
                most: read(answer, "most")?,
            })
        })
        .await
    }

    /// `sql/parking/park_by_hand.sql`
    pub(crate) async fn park_by_hand(
        &self,
        destination: &str,
        seconds: f64,
        reason: &str,
        actor: &str,
    ) -> Result<(), StoreError> {
        let parameters: [Parameter<'_>; 4] = [&destination, &seconds, &reason, &actor];
        self.read_all(&self.statements.park_by_hand, &parameters, |_| Ok(())).await.map(drop)
    }

    /// `sql/parking/find_caps.sql`: whether there is a list that we may read.
    pub(crate) async fn shares_caps(&self) -> Result<bool, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        self.read_one(&self.statements.find_caps, &parameters, |answer| read(answer, "present")).await
    }

    /// `sql/parking/read_caps.sql`
    pub(crate) async fn read_caps(&self, limit: u32) -> Result<Vec<HandCap>, StoreError> {
        self.read_all(&self.statements.read_caps, &[&i64::from(limit)], |answer| {
            Ok(HandCap {
                destination: read(answer, "destination")?,
                most: read::<i32>(answer, "most")?.unsigned_abs(),
                actor: read(answer, "actor")?,
                reason: read(answer, "reason")?,
                since: Duration::try_from_secs_f64(read(answer, "seconds")?).unwrap_or_default(),
            })
        })
        .await
    }

    /// `sql/parking/cap_by_hand.sql`
    pub(crate) async fn cap_by_hand(
        &self,
        destination: &str,
        most: u32,
        reason: &str,
        actor: &str,
    ) -> Result<(), StoreError> {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let parameters: [Parameter<'_>; 4] = [&destination, &most, &reason, &actor];
        self.read_all(&self.statements.cap_by_hand, &parameters, |_| Ok(())).await.map(drop)
    }

    /// `sql/parking/uncap_by_hand.sql`: whether it was listed.
    pub(crate) async fn uncap_by_hand(&self, destination: &str, reason: &str, actor: &str) -> Result<bool, StoreError> {
        let parameters: [Parameter<'_>; 3] = [&destination, &reason, &actor];
        Ok(!self.read_all(&self.statements.uncap_by_hand, &parameters, |_| Ok(())).await?.is_empty())
    }

    /// `sql/parking/release_by_hand.sql`: whether it was listed.
    pub(crate) async fn release_by_hand(
        &self,
        destination: &str,
        reason: &str,
        actor: &str,
    ) -> Result<bool, StoreError> {
        let parameters: [Parameter<'_>; 3] = [&destination, &reason, &actor];
        let released = self.read_all(&self.statements.release_by_hand, &parameters, |_| Ok(())).await?;
        Ok(!released.is_empty())
    }
}

fn count(answer: &Answer, column: &'static str) -> Result<u64, Kind> {
    read::<i64>(answer, column).map(i64::unsigned_abs)
}

fn read_past(answer: &Answer) -> Result<PastRow, Kind> {
    let id = read(answer, "id")?;
    let content = match read::<Option<Vec<u8>>>(answer, "encrypted_body")? {
        None if read::<bool>(answer, "too_large")? => PastContent::TooLarge,
        None => PastContent::NoRoom,
        Some(_) => PastContent::Whole(Box::new(super::inspect::read_row(answer)?.row)),
    };
    Ok(PastRow { id, content })
}
