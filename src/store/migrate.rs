//! The migrations: applying them, printing them for another tool, and telling what a database lacks. The
//! files are frozen once released; each changes nothing where its objects exist.

use include_dir::{Dir, include_dir};

use super::claim::read;
use super::error::{Kind, StoreError, Unavailable};
use super::statement::{Parameter, ask_in};
use super::table::TableName;
use super::{Answer, Store};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql/migrations");

struct Migration {
    version: i32,
    file: &'static str,
    sql: &'static str,
}

/// One migration that was passed on the way to the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) version: i32,
    pub(crate) file: &'static str,
    /// Whether it was there already, by the ledger and by its objects.
    pub(crate) before: bool,
}

/// An object that the migrations make and the database lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) version: i32,
    /// Its kind and name: `index x`.
    pub(crate) object: String,
}

/// All migrations as one text for psql, Alembic or Flyway, without the ledger, which is our own tool's.
pub(crate) fn printed(table: &TableName) -> String {
    let text = |migration: Migration| format!("-- {}\n\n{}\n", migration.file, table.substitute(migration.sql));
    migrations().into_iter().map(text).collect()
}

/// In the order of their versions, which is that of their names.
fn migrations() -> Vec<Migration> {
    let mut migrations: Vec<Migration> = FILES
        .files()
        .filter_map(|file| {
            let name = file.path().file_name()?.to_str()?;
            Some(Migration { version: name.split_once('_')?.0.parse().ok()?, file: name, sql: file.contents_utf8()? })
        })
        .collect();
    migrations.sort_unstable_by_key(|migration| migration.version);
    migrations
}

impl Store {
    /// `sql/ledger/find_missing.sql`: empty where everything is there.
    pub(crate) async fn find_missing(&self) -> Result<Vec<Missing>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table().as_str()];
        self.read_all(&self.statements.find_missing, &parameters, read_missing).await
    }

    /// Brings the schema up to date, each migration in a transaction of its own, one migrator at a time;
    /// `passed` hears of each as it is done.
    pub(crate) async fn migrate(&self, mut passed: impl FnMut(Applied)) -> Result<(), StoreError> {
        for migration in migrations() {
            let before = self.apply(&migration).await.map_err(|kind| StoreError::new(migration.file, kind))?;
            passed(Applied { version: migration.version, file: migration.file, before });
        }
        Ok(())
    }

    /// Whether it had been applied before.
    async fn apply(&self, migration: &Migration) -> Result<bool, Kind> {
        let statements = &self.statements;
        let failed = |error: tokio_postgres::Error| Kind::of(&error, self.door.timeout);
        let table: Parameter<'_> = &self.table().as_str();
        // A connection of its own, since a transaction of several statements cannot go through the door.
        let mut client = self.door.pool.get().await.map_err(|error| Kind::of_pool(&error, self.door.timeout))?;
        let transaction = client.transaction().await.map_err(failed)?;
        ask_in(&transaction, &statements.lift_timeouts, &[]).await.map_err(failed)?;
        ask_in(&transaction, &statements.lock_ledger, &[]).await.map_err(failed)?;
        let ledger = ask_in(&transaction, &statements.find_ledger, &[]).await.map_err(failed)?;
        let ledger = ledger.first().ok_or(Kind::Unavailable(Unavailable::Closed))?;
        if !read::<bool>(ledger, "present")? {
            transaction.batch_execute(&statements.create_ledger.sql).await.map_err(failed)?;
        }
        let versions = ask_in(&transaction, &statements.read_ledger, &[table]).await.map_err(failed)?;
        let versions: Result<Vec<i32>, Kind> = versions.iter().map(|answer| read(answer, "version")).collect();
        let missing = ask_in(&transaction, &statements.find_missing, &[table]).await.map_err(failed)?;
        let missing: Result<Vec<Missing>, Kind> = missing.iter().map(read_missing).collect();
        let whole = missing?.iter().all(|missing| missing.version != migration.version);
        let before = whole && versions?.contains(&migration.version);
        if !before {
            transaction.batch_execute(&self.table().substitute(migration.sql)).await.map_err(failed)?;
            let record: [Parameter<'_>; 3] = [table, &migration.version, &migration.file];
            ask_in(&transaction, &statements.record_migration, &record).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        Ok(before)
    }
}

fn read_missing(answer: &Answer) -> Result<Missing, Kind> {
    Ok(Missing { version: read(answer, "version")?, object: read(answer, "object")? })
}
