//! The only room that names Postgres: one function for each `.sql` file, each one statement, one answer, and no
//! connection kept. It decides nothing about rows; what the statements guard is written in their files.

mod blockers;
mod claim;
mod connect;
mod demo;
mod dsn;
mod error;
mod filter;
mod forward;
mod history;
mod hosts;
mod import;
mod inbox;
mod indexes;
mod inspect;
mod life;
mod listen;
mod look;
mod migrate;
mod migrator;
mod parking;
mod preflight;
mod replicas;
mod rows;
mod scopes;
mod sealed;
mod settle;
mod snapshots;
mod statement;
mod steer;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod webhook_inbox;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::Row as Answer;

pub(crate) use blockers::Blocker;
pub(crate) use claim::{AccountRooms, Broken, ClaimRequest, Claimed, DestinationRoom, Lease, LeaseToken, ReadComposed};
pub(crate) use connect::{OpenError, Plans, StoreConfig};
pub(crate) use demo::{DemoMessage, DemoRows};
pub(crate) use error::{Damage, Kind, StoreError};
pub(crate) use filter::Filter;
#[cfg(test)]
pub(crate) use forward::Claim;
pub(crate) use forward::{Ending, Inbox, Message};
pub(crate) use history::NewAttempt;
pub(crate) use import::{ImportBatch, ImportRow, Standing};
pub(crate) use inbox::{Accepted, InboxHealth, NewNotification, NotificationStatus, Together};
pub(crate) use indexes::{ListedBy, MissedIndex};
pub(crate) use life::{Followed, KeptAttempt, Life, States};
pub(crate) use listen::Heard;
pub(crate) use look::{Around, DatabaseTime, Found, Listed, Position, Seen};
pub(crate) use migrate::{Step, printed};
pub(crate) use parking::{NewParked, ShownDestination, ShownParked};
pub(crate) use preflight::{Finding, Severity};
pub(crate) use replicas::{NewReplica, Replica};
pub(crate) use rows::{Page, ShownRow};
pub(crate) use scopes::{ChangedScope, ClientDraft, KeyDraft, Retired, ScopeDraft, StoredKey, StoredScope};
pub(crate) use sealed::{Access, Content, Place, Replacement, SealedItem};
pub(crate) use settle::{Delivered, GivenBack, Lost, Quarantined, Retried, RowState, Settled};
pub(crate) use snapshots::{Holder, HolderKind, Snapshots};
pub(crate) use statement::{Observation, Observer};
pub(crate) use steer::{Action, HandCap, Order, PastContent, RecentRows, Renewed, Steerable, Steered};
pub(crate) use sweep::{Swept, Watermark};
pub(crate) use table::TableName;
pub(crate) use webhook_inbox::{Delivery, Kept, NonceCaps, NonceCount, SeenSignature};

use claim::{Rooms, Shares, capped, read};
use hosts::Hosts;
use settle::fence;
use statement::{Door, Parameter, Statement, Statements};

/// Destinations looked at for a sample, in two descents into an index each.
const SAMPLE_DESTINATIONS: u32 = 1000;

/// One outbox in one database. Cheap to share by reference; it holds the pool.
pub(crate) struct Store {
    door: Door,
    statements: Statements,
    table: TableName,
    /// For connections outside the pool.
    hosts: Arc<Hosts>,
    /// Whether the index by destination was there when the table was looked at last, and the one by account.
    by_destination: AtomicBool,
    /// Whether attempts could be written down then, and since.
    attempts: AtomicBool,
    /// Likewise whether there is a table of trace contexts that we may read.
    traces: AtomicBool,
    by_account: AtomicBool,
}

/// Rows that wait for an attempt now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Backlog {
    /// Counted up to the limit that was given.
    pub(crate) due: u64,
    /// How long the oldest of them has been due; zero where there is none.
    pub(crate) oldest: Duration,
    /// The same without rows of parked destinations.
    pub(crate) oldest_claimable: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Probe {
    /// The database's clock in Unix seconds.
    pub(crate) clock: f64,
    in_recovery: bool,
    read_only: bool,
}

/// How many connections there are, for whoever measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolStatus {
    pub(crate) size: usize,
    pub(crate) idle: usize,
    pub(crate) limit: usize,
    pub(crate) waiting: usize,
}

impl Store {
    /// Checks the configuration and connects to nothing: a database that is not there yet is found missing by
    /// the first statement, and found by a later one.
    pub(crate) fn open(config: &StoreConfig, observer: Observer) -> Result<Store, OpenError> {
        let hosts = connect::hosts(config)?;
        Ok(Store {
            door: Door {
                pool: connect::pool(config, &hosts)?,
                named: config.prepared_statements,
                timeout: config.statement_timeout,
                observer,
            },
            statements: Statements::render(&config.table),
            table: config.table.clone(),
            hosts,
            by_destination: AtomicBool::new(false),
            attempts: AtomicBool::new(false),
            traces: AtomicBool::new(false),
            by_account: AtomicBool::new(false),
        })
    }

    pub(crate) fn table(&self) -> &TableName {
        &self.table
    }

    pub(crate) fn pool_status(&self) -> PoolStatus {
        let status = self.door.pool.status();
        PoolStatus { size: status.size, idle: status.available, limit: status.max_size, waiting: status.waiting }
    }

    /// `sql/outbox/claim_due.sql`
    pub(crate) async fn claim_due(&self, request: &ClaimRequest) -> Result<Found, StoreError> {
        let statement = &self.statements.claim_due;
        let Rooms { destinations, rooms, .. } = Rooms::of(request);
        let Shares { accounts, shares, others } = Shares::of(request);
        let parameters: [Parameter<'_>; 10] = [
            &i64::from(request.max_rows),
            &i64::try_from(request.max_bytes).unwrap_or(i64::MAX),
            &request.token.as_str(),
            &request.lease.as_secs_f64(),
            &destinations,
            &rooms,
            &capped(request.default_room),
            &accounts,
            &shares,
            &others,
        ];
        let answers = self.door.ask(statement, &parameters, |answer| claim::read_head(answer, &request.token)).await?;
        claim::found(answers).map_err(|kind| StoreError::new(statement.label, kind))
    }

    /// `sql/outbox/claim_around.sql`, or `claim_around_by_account.sql` where accounts have a share: then what is named are
    /// pairs, and each of them may take so many.
    pub(crate) async fn claim_around(
        &self,
        request: &ClaimRequest,
        around: &Around,
        each: u32,
    ) -> Result<(Vec<Claimed>, Seen), StoreError> {
        let Rooms { destinations, rooms, in_flight } = Rooms::of(request);
        let names: Vec<&str> = around.named.iter().map(|(destination, _)| &**destination).collect();
        let (times, ids): (Vec<DatabaseTime>, Vec<i64>) =
            around.named.iter().map(|(_, after)| (after.at, after.id)).unzip();
        let Shares { accounts, shares, others } = Shares::of(request);
        let (max_rows, most) = (i64::from(request.max_rows), i64::from(around.most));
        let max_bytes = i64::try_from(request.max_bytes).unwrap_or(i64::MAX);
        let (token, lease) = (request.token.as_str(), request.lease.as_secs_f64());
        let (default_room, each) = (capped(request.default_room), capped(each));
        let of_claim: [Parameter<'_>; 8] =
            [&max_rows, &max_bytes, &token, &lease, &destinations, &rooms, &in_flight, &default_room];
        let of_look: [Parameter<'_>; 6] = [&around.after.at, &around.after.id, &most, &names, &times, &ids];
        let (statement, parameters): (&Statement, Vec<Parameter<'_>>) = match &request.accounts {
            None => (&self.statements.claim_around, [&of_claim[..], &of_look].concat()),
            Some(_) => {
                let of_accounts: [Parameter<'_>; 3] = [&accounts, &shares, &others];
                let parameters = [&of_claim[..], &of_accounts, &of_look, &[&each]].concat();
                (&self.statements.claim_around_by_account, parameters)
            }
        };
        let read = |answer: &Answer| claim::read_around(answer, &request.token);
        let answers = self.door.ask(statement, &parameters, read).await?;
        claim::around(answers).map_err(|kind| StoreError::new(statement.label, kind))
    }

    /// `sql/outbox/list_due.sql`, or `list_due_by_account.sql` for pairs: in the order of their names; fewer than `most`:
    /// those were the last.
    pub(crate) async fn list_due(&self, from: &str, most: u32, by_account: bool) -> Result<Vec<Listed>, StoreError> {
        let statement = match by_account {
            false => &self.statements.list_due,
            true => &self.statements.list_due_by_account,
        };
        self.read_all(statement, &[&from, &i64::from(most)], look::read_listed).await
    }

    /// `sql/outbox/read_composed.sql`, by task.
    pub(crate) async fn read_composed(
        &self,
        tasks: &[String],
        max_bytes: u64,
    ) -> Result<HashMap<String, ReadComposed>, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&tasks, &i64::try_from(max_bytes).unwrap_or(i64::MAX)];
        let read = self.read_all(&self.statements.read_composed, &parameters, claim::read_composed).await?;
        Ok(read.into_iter().collect())
    }

    /// `sql/outbox/read_traces.sql`: task, traceparent and tracestate.
    pub(crate) async fn read_traces(
        &self,
        tasks: &[String],
    ) -> Result<Vec<(String, String, Option<String>)>, StoreError> {
        self.read_all(&self.statements.read_traces, &[&tasks], |answer| {
            Ok((read(answer, "task_id")?, read(answer, "traceparent")?, read(answer, "tracestate")?))
        })
        .await
    }

    /// `sql/outbox/give_back.sql`
    pub(crate) async fn give_back(&self, rows: &[GivenBack]) -> Result<Vec<Settled>, StoreError> {
        let (ids, tokens) = fence(rows.iter().map(|row| &row.lease));
        let delays: Vec<f64> = rows.iter().map(|row| row.delay.as_secs_f64()).collect();
        self.settle(&self.statements.give_back, rows.len(), &[&ids, &tokens, &delays]).await
    }

    /// `sql/outbox/read_lost.sql`; a row that is not among the answers was deleted.
    pub(crate) async fn read_lost(&self, leases: &[Lease]) -> Result<Vec<Lost>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, tokens) = fence(leases.iter());
        self.read_all(&self.statements.read_lost, &[&ids, &tokens], |answer| {
            Ok(Lost {
                id: read(answer, "id")?,
                state: RowState::parse(&read::<String>(answer, "state")?),
                attempt_count: read(answer, "attempt_count")?,
                still_held: read(answer, "still_held")?,
            })
        })
        .await
    }

    /// `sql/outbox/sample_backlog.sql`. Where all rows up to the limit are of parked destinations, those behind them are looked
    /// for by destination, as far as that can be done cheaply.
    pub(crate) async fn sample_backlog(&self, limit: u32, parked: &[String]) -> Result<Backlog, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&i64::from(limit), &parked];
        let age = |seconds: Option<f64>| Some(Duration::try_from_secs_f64(seconds?).unwrap_or_default());
        let (due, oldest, claimable) = self
            .read_one(&self.statements.sample_backlog, &parameters, |answer| {
                let (oldest, claimable) = (read(answer, "oldest_seconds")?, read(answer, "claimable_seconds")?);
                Ok((read::<i64>(answer, "due")?.unsigned_abs(), age(Some(oldest)), age(claimable)))
            })
            .await?;
        let claimable = match claimable {
            None if due >= u64::from(limit) && self.finds_by_destination() => self.oldest_behind(parked).await?,
            known => known,
        };
        Ok(Backlog { due, oldest: oldest.unwrap_or_default(), oldest_claimable: claimable.unwrap_or_default() })
    }

    /// How long the oldest due row has been due of those destinations that are not parked.
    async fn oldest_behind(&self, parked: &[String]) -> Result<Option<Duration>, StoreError> {
        let listed = self.list_due("", SAMPLE_DESTINATIONS, false).await?;
        let others = listed.iter().filter(|one| !parked.contains(&one.destination));
        Ok(others.filter_map(|one| Some(one.looked_at.since(one.first_due?.at))).max())
    }

    /// `sql/outbox/probe.sql`
    async fn probe(&self) -> Result<Probe, StoreError> {
        self.read_one(&self.statements.probe, &[], |answer| {
            Ok(Probe {
                clock: read(answer, "clock")?,
                in_recovery: read(answer, "in_recovery")?,
                read_only: read(answer, "read_only")?,
            })
        })
        .await
    }

    /// The database's clock in Unix seconds.
    pub(crate) async fn probe_clock(&self) -> Result<f64, StoreError> {
        Ok(self.probe().await?.clock)
    }

    /// The same of a database that claims and takes in: one that takes no writes is an error.
    pub(crate) async fn probe_primary(&self) -> Result<Probe, StoreError> {
        let probe = self.probe().await?;
        if probe.in_recovery || probe.read_only {
            return Err(StoreError::new(self.statements.probe.label, Kind::ReadOnly));
        }
        Ok(probe)
    }

    /// `sql/outbox/inspect_table.sql`, judged: what keeps this table from being delivered well, or at all.
    pub(crate) async fn preflight(&self) -> Result<Vec<Finding>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        let inspections =
            self.read_all(&self.statements.inspect_table, &parameters, preflight::read_inspection).await?;
        Ok(match inspections.first() {
            Some(inspection) => {
                self.by_destination.store(inspection.by_destination, Ordering::Relaxed);
                self.attempts.store(inspection.takes_attempts(), Ordering::Relaxed);
                self.traces.store(inspection.has_traces, Ordering::Relaxed);
                self.by_account.store(inspection.by_account, Ordering::Relaxed);
                preflight::findings(inspection)
            }
            None => vec![Finding::table_missing()],
        })
    }

    /// Whether hosts may have left trace contexts that we may read, as of the last `preflight`.
    pub(crate) fn has_traces(&self) -> bool {
        self.traces.load(Ordering::Relaxed)
    }

    /// Whether rows can be found by their destination, as of then; without it `claim_around` would read through all of them.
    pub(crate) fn finds_by_destination(&self) -> bool {
        self.by_destination.load(Ordering::Relaxed)
    }

    /// The same of an account's rows for a destination.
    pub(crate) fn finds_by_account(&self) -> bool {
        self.by_account.load(Ordering::Relaxed)
    }

    async fn settle(
        &self,
        statement: &Statement,
        rows: usize,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Settled>, StoreError> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        self.read_all(statement, parameters, read_settled).await
    }

    async fn read_all<T>(
        &self,
        statement: &Statement,
        parameters: &[Parameter<'_>],
        read_row: impl Fn(&Answer) -> Result<T, Kind>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.door.ask(statement, parameters, read_row).await?;
        rows.into_iter().collect::<Result<Vec<T>, Kind>>().map_err(|kind| StoreError::new(statement.label, kind))
    }

    /// For the statements that aggregate, and so always answer with one row.
    async fn read_one<T>(
        &self,
        statement: &Statement,
        parameters: &[Parameter<'_>],
        read_row: impl Fn(&Answer) -> Result<T, Kind>,
    ) -> Result<T, StoreError> {
        let mut rows = self.read_all(statement, parameters, read_row).await?;
        rows.pop().ok_or(StoreError::new(statement.label, Kind::Unreadable { column: "row" }))
    }
}

fn read_settled(answer: &Answer) -> Result<Settled, Kind> {
    Ok(Settled { id: read(answer, "id")?, state: RowState::parse(&read::<String>(answer, "state")?) })
}
