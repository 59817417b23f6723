//! Runs the migrations against a database that is in use: hosts go on writing, whatever else holds locks on their tables. Locks
//! are asked for briefly and again; indexes of tables that stood before are built concurrently, what an interrupted build left
//! is removed first. What is to be run, it is told.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, IsolationLevel, SimpleQueryMessage, Transaction};

use super::Store;
use super::claim::read;
use super::error::{Kind, StoreError, Unavailable};
use super::migrate::{Migration, Passed, Step, Waits, host_files, migrations, read_missing};
use super::statement::{Parameter, Statement, ask_in, typed};

/// Writers get most of the time between two tries for locks. A try takes 200 ms at most for each lock.
const BETWEEN_TRIES: Duration = Duration::from_millis(700);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// What is waited for is told when it lasts, and then now and then.
const TOLD_AFTER: Duration = Duration::from_secs(1);
const TOLD_AGAIN: Duration = Duration::from_secs(10);

const NEW_INDEX: [&str; 2] = ["create index if not exists ", "create unique index if not exists "];

/// A statement of a migration that makes one index.
#[derive(Debug, PartialEq, Eq)]
struct NewIndex<'a> {
    sql: &'a str,
    name: &'a str,
    table: &'a str,
}

/// Those that stand by themselves, each from the start of a line to the end of one; the form is the files' own.
fn new_indexes(sql: &str) -> Vec<NewIndex<'_>> {
    let mut found = Vec::new();
    let (mut from, mut start) = (0, None);
    for line in sql.split_inclusive('\n') {
        if NEW_INDEX.iter().any(|opening| line.starts_with(opening)) {
            start = Some(from);
        }
        from += line.len();
        if let Some(begun) = start.filter(|_| line.trim_end().ends_with(';')) {
            start = None;
            let sql = &sql[begun..from];
            let mut words = sql.split_whitespace().skip_while(|word| *word != "exists").skip(1);
            if let (Some(name), Some("on"), Some(table)) = (words.next(), words.next(), words.next()) {
                found.push(NewIndex { sql, name: name.trim_matches('"'), table: table.trim_matches('"') });
            }
        }
    }
    found
}

/// Why a step was not done.
enum Trouble {
    /// Somebody else has a lock that it needs, for now.
    Locked,
    Failed(Kind),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        match error.code() {
            Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE || *code == SqlState::T_R_DEADLOCK_DETECTED => {
                Trouble::Locked
            }
            _ => Trouble::Failed(kind(error)),
        }
    }
}

impl From<Kind> for Trouble {
    fn from(kind: Kind) -> Trouble {
        Trouble::Failed(kind)
    }
}

/// No time of ours bounds a migrator's statements.
fn kind(error: Error) -> Kind {
    Kind::of(&error, Duration::ZERO)
}

/// How long others may keep us waiting, and what was told of it.
struct Patience<'a> {
    limit: Duration,
    ends: Instant,
    tell: &'a mut dyn FnMut(Passed),
    waiting: Option<(Waits, Instant, Instant)>,
}

impl Patience<'_> {
    async fn wait(&mut self, file: &'static str, waits: Waits) -> Result<(), Kind> {
        let now = Instant::now();
        if now >= self.ends {
            return Err(Kind::Locked { after: self.limit });
        }
        let (since, told) = match self.waiting {
            Some((for_it, since, told)) if for_it == waits => (since, told),
            _ => (now, now),
        };
        let due = if told == since { TOLD_AFTER } else { TOLD_AGAIN };
        let tells = now >= told + due;
        if tells {
            (self.tell)(Passed { file, step: Step::Waiting(waits) });
        }
        self.waiting = Some((waits, since, if tells { now } else { told }));
        sleep(if waits == Waits::Locks { BETWEEN_TRIES } else { BETWEEN_LOOKS }).await;
        Ok(())
    }

    fn passed(&mut self, file: &'static str, step: Step) {
        self.waiting = None;
        (self.tell)(Passed { file, step });
    }
}

impl Store {
    /// Brings the schema up to date, one migrator at a time: each migration in a transaction of its own, but for indexes of
    /// tables that stood before; the host's functions together in one. `tell` hears of each file as it is done, and of what
    /// is waited for, which is given up after `patience`.
    pub(crate) async fn migrate(&self, patience: Duration, mut tell: impl FnMut(Passed)) -> Result<(), StoreError> {
        let ends = Instant::now() + patience;
        let mut patience = Patience { limit: patience, ends, tell: &mut tell, waiting: None };
        let lock = self.statements.lock_ledger.label;
        let locking = |kind| StoreError::new(lock, kind);
        let mut keeper = self.outside().await.map_err(locking)?;
        let keeper = keeper.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await;
        let keeper = keeper.map_err(|error| locking(kind(error)))?;
        while !self.is_migrator(&keeper).await.map_err(locking)? {
            patience.wait(lock, Waits::Migrator).await.map_err(locking)?;
        }
        let mut worker = self.begin_work().await?;
        for migration in migrations() {
            let named = |kind| StoreError::new(migration.file, kind);
            self.is_migrator(&keeper).await.map_err(named)?;
            let before = self.apply(&mut worker, &migration, &mut patience).await.map_err(named)?;
            patience.passed(migration.file, if before { Step::AlreadyThere } else { Step::Applied });
        }
        let replaced = loop {
            match self.replace_host_functions(&mut worker).await {
                Ok(replaced) => break replaced,
                Err((file, Trouble::Failed(kind))) => return Err(StoreError::new(file, kind)),
                Err((file, Trouble::Locked)) => {
                    patience.wait(file, Waits::Locks).await.map_err(|kind| StoreError::new(file, kind))?;
                }
            }
        };
        replaced.into_iter().for_each(|one| patience.passed(one.file, one.step));
        Ok(())
    }

    /// A connection that is not the pool's: what is set in it must not go on to others.
    async fn outside(&self) -> Result<Client, Kind> {
        let connecting = tokio::time::timeout(self.door.timeout, self.hosts.connect());
        let (client, connection) = match connecting.await {
            Ok(connected) => connected.map_err(|error| Kind::of(&error, self.door.timeout))?,
            Err(_) => return Err(Kind::Unavailable(Unavailable::ConnectTimeout)),
        };
        tokio::spawn(connection);
        Ok(client)
    }

    /// `sql/ledger/lock_ledger.sql`, by the simple protocol: by the extended one a statement keeps its snapshot until the next
    /// begins, and a concurrent build would wait for this transaction for ever.
    async fn is_migrator(&self, keeper: &Transaction<'_>) -> Result<bool, Kind> {
        let answers = keeper.simple_query(&self.statements.lock_ledger.sql).await.map_err(kind)?;
        let held = |answer: &SimpleQueryMessage| match answer {
            SimpleQueryMessage::Row(row) => row.try_get("held").ok().flatten().map(|held| held == "t"),
            _ => None,
        };
        answers.iter().find_map(held).ok_or(Kind::Unreadable { column: "held" })
    }

    /// The connection that does the work, with a ledger to write it down in.
    async fn begin_work(&self) -> Result<Client, StoreError> {
        let statements = &self.statements;
        let named = |statement: &Statement| {
            let label = statement.label;
            move |kind| StoreError::new(label, kind)
        };
        let worker = self.outside().await.map_err(named(&statements.lift_timeouts))?;
        // Through a pooler the session is not ours to change.
        if self.door.named {
            ask(&worker, &statements.lift_timeouts, &[]).await.map_err(named(&statements.lift_timeouts))?;
        }
        let ledger = ask(&worker, &statements.find_ledger, &[]).await.map_err(named(&statements.find_ledger))?;
        let ledger = ledger.first().map(|ledger| read::<bool>(ledger, "present"));
        if !ledger.transpose().map_err(named(&statements.find_ledger))?.unwrap_or_default() {
            let created = worker.batch_execute(&statements.create_ledger.sql).await;
            created.map_err(|error| named(&statements.create_ledger)(kind(error)))?;
        }
        Ok(worker)
    }

    /// Whether it had been applied before.
    async fn apply(
        &self,
        worker: &mut Client,
        migration: &Migration,
        patience: &mut Patience<'_>,
    ) -> Result<bool, Kind> {
        let statements = &self.statements;
        let table: Parameter<'_> = &self.table().as_str();
        let versions = ask(worker, &statements.read_ledger, &[table]).await?;
        let versions: Vec<i32> = versions.iter().map(|answer| read(answer, "version")).collect::<Result<_, _>>()?;
        let missing = ask(worker, &statements.find_missing, &[table]).await?;
        let missing: Vec<_> = missing.iter().map(read_missing).collect::<Result<_, _>>()?;
        if missing.iter().all(|one| one.version != Some(migration.version)) && versions.contains(&migration.version) {
            return Ok(true);
        }
        let sql = self.table().substitute(migration.sql);
        let mut later = Vec::new();
        let mut now = sql.clone();
        for index in new_indexes(&sql) {
            if self.find_index(worker, &index).await?.standing {
                now = now.replacen(index.sql, "", 1);
                later.push(index);
            }
        }
        while let Err(trouble) = self.run(worker, &now).await {
            match trouble {
                Trouble::Locked => patience.wait(migration.file, Waits::Locks).await?,
                Trouble::Failed(kind) => return Err(kind),
            }
        }
        for index in later {
            self.build(worker, &index, migration.file, patience).await?;
        }
        let record: [Parameter<'_>; 3] = [table, &migration.version, &migration.file];
        ask(worker, &statements.record_migration, &record).await?;
        Ok(false)
    }

    /// In a transaction.
    async fn run(&self, worker: &mut Client, sql: &str) -> Result<(), Trouble> {
        let transaction = worker.transaction().await?;
        ask_in(&transaction, &self.statements.bound_locks, &[]).await?;
        transaction.batch_execute(sql).await?;
        Ok(transaction.commit().await?)
    }

    /// Concurrently, which waits for every transaction that writes to the table, and lets others write meanwhile.
    async fn build(
        &self,
        worker: &Client,
        index: &NewIndex<'_>,
        file: &'static str,
        patience: &mut Patience<'_>,
    ) -> Result<(), Kind> {
        loop {
            let found = self.find_index(worker, index).await?;
            if found.valid {
                return Ok(());
            }
            if found.broken && found.busy {
                patience.wait(file, Waits::Build).await?;
                continue;
            }
            let sql = match found.broken {
                true => {
                    let drop = &self.statements.drop_index.sql;
                    drop.replace(&self.table().substitute(":\"outbox_index\""), &format!("\"{}\"", index.name))
                }
                false => index.sql.replacen("index if not exists", "index concurrently if not exists", 1),
            };
            match worker.batch_execute(&sql).await.map_err(Trouble::from) {
                Ok(()) => {}
                Err(Trouble::Locked) => patience.wait(file, Waits::Locks).await?,
                Err(Trouble::Failed(kind)) => return Err(kind),
            }
        }
    }

    /// `sql/ledger/find_index.sql`
    async fn find_index(&self, worker: &Client, index: &NewIndex<'_>) -> Result<FoundIndex, Kind> {
        let answers = ask(worker, &self.statements.find_index, &[&index.table, &index.name]).await?;
        let answer = answers.first().ok_or(Kind::Unreadable { column: "row" })?;
        Ok(FoundIndex {
            standing: read(answer, "standing")?,
            valid: read(answer, "valid")?,
            broken: read(answer, "broken")?,
            busy: read(answer, "busy")?,
        })
    }

    async fn replace_host_functions(&self, worker: &mut Client) -> Result<Vec<Passed>, (&'static str, Trouble)> {
        const HOST: &str = "host";
        let transaction = worker.transaction().await.map_err(|error| (HOST, error.into()))?;
        let bound = ask_in(&transaction, &self.statements.bound_locks, &[]).await;
        bound.map_err(|error| (HOST, error.into()))?;
        let table: Parameter<'_> = &self.table().as_str();
        let served = ask_in(&transaction, &self.statements.find_served, &[table]).await;
        if let Some(other) = served.map_err(|error| (HOST, error.into()))?.first() {
            let serving: String = read(other, "serving").map_err(|kind| (HOST, kind.into()))?;
            return Ok(host_files().iter().map(|file| file.passed(Step::Kept { serving: serving.clone() })).collect());
        }
        let mut passed = Vec::new();
        for file in host_files() {
            let replaced = transaction.batch_execute(&self.table().substitute(file.sql)).await;
            replaced.map_err(|error| (file.name, error.into()))?;
            passed.push(file.passed(Step::Replaced));
        }
        transaction.commit().await.map_err(|error| (HOST, error.into()))?;
        Ok(passed)
    }
}

/// What there is of an index.
struct FoundIndex {
    /// Its table was there before, as one that can be indexed while it is written to.
    standing: bool,
    valid: bool,
    broken: bool,
    /// Somebody may be building it.
    busy: bool,
}

async fn ask(client: &Client, statement: &Statement, parameters: &[Parameter<'_>]) -> Result<Vec<super::Answer>, Kind> {
    client.query_typed(&statement.sql, &typed(statement, parameters)).await.map_err(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_that_stand_by_themselves_are_found_with_their_tables() {
        let sql = "-- create index if not exists no on no (no);\ncreate table if not exists t (a int);\n\
                   create index if not exists \"a_idx\" on \"t\" (a);\n\
                   create unique index if not exists b_idx\n    on t (b)\n    where b is not null;\n\
                   do $$\nbegin\n    create index if not exists c_idx on t (c);\nend\n$$;\n";
        let found = new_indexes(sql);
        let names: Vec<(&str, &str)> = found.iter().map(|index| (index.name, index.table)).collect();
        assert_eq!(names, [("a_idx", "t"), ("b_idx", "t")]);
        assert_eq!(found[1].sql, "create unique index if not exists b_idx\n    on t (b)\n    where b is not null;\n");
    }

    #[test]
    fn every_migration_makes_its_indexes_in_that_form() {
        for migration in migrations() {
            let openings = migration.sql.lines().filter(|line| {
                let line = line.to_ascii_lowercase();
                line.starts_with("create") && line.contains("index")
            });
            assert_eq!(openings.count(), new_indexes(migration.sql).len(), "{}", migration.file);
        }
    }
}
