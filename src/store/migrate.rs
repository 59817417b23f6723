//! The migrations and the host's functions: applying them, printing them for another tool, and telling what a
//! database lacks. Numbered files are frozen once released, and each changes nothing where its objects exist; the
//! files of `sql/host` replace what they make, and are applied every time.

use include_dir::{Dir, include_dir};

use super::claim::read;
use super::error::{Kind, StoreError, Unavailable};
use super::statement::{Parameter, ask_in};
use super::table::TableName;
use super::{Answer, Store};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql/migrations");
static HOST: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql/host");

/// Grants rights on what the other files of `sql/host` make, so it goes last.
const GRANTS: &str = "grants.sql";

struct Migration {
    version: i32,
    file: &'static str,
    sql: &'static str,
}

/// One file that was passed on the way to the newest schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) file: &'static str,
    pub(crate) step: Step,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A numbered migration that was not there.
    Applied,
    /// A numbered migration that was there already, by the ledger and by its objects.
    AlreadyThere,
    /// A file of `sql/host`: its objects are now this release's.
    Replaced,
    /// A file of `sql/host` that was left alone: one database has one set of host functions, and these serve
    /// another outbox.
    Kept { serving: String },
}

/// An object that our files make and the database lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The migration that makes it; none makes the host's functions, which every `migrate` does.
    pub(crate) version: Option<i32>,
    /// Its kind and name: `index x`.
    pub(crate) object: String,
}

/// One file of `sql/host`.
pub(super) struct HostFile {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

/// All migrations and host files as one text for psql, Alembic or Flyway, without the ledger, which is our own
/// tool's.
pub(crate) fn printed(table: &TableName) -> String {
    let text = |name: &str, sql: &str| format!("-- {name}\n\n{}\n", table.substitute(sql));
    let numbered = migrations().into_iter().map(|migration| text(migration.file, migration.sql));
    let host = host_files().into_iter().map(|file| text(file.name, file.sql));
    numbered.chain(host).collect()
}

/// In the order of their names, but for the grants.
pub(super) fn host_files() -> Vec<HostFile> {
    let mut files: Vec<HostFile> = HOST
        .files()
        .filter(|file| file.path().extension().is_some_and(|extension| extension == "sql"))
        .filter_map(|file| Some(HostFile { name: file.path().file_name()?.to_str()?, sql: file.contents_utf8()? }))
        .collect();
    files.sort_unstable_by_key(|file| (file.name == GRANTS, file.name));
    files
}

/// The functions that a file of `sql/host` makes: name and body, as Postgres keeps them. The form is the files' own:
/// `create or replace function outboxd.name(` at the start of a line, then the body between two `$$`.
fn functions(sql: &str) -> impl Iterator<Item = (&str, &str)> {
    sql.split("\ncreate or replace function outboxd.").skip(1).filter_map(|text| {
        let (name, rest) = text.split_once('(')?;
        let body = rest.split("$$").nth(1)?;
        Some((name, body))
    })
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
    /// `sql/ledger/find_missing.sql` and `sql/ledger/find_missing_functions.sql`: empty where everything is there.
    pub(crate) async fn find_missing(&self) -> Result<Vec<Missing>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table().as_str()];
        let mut missing = self.read_all(&self.statements.find_missing, &parameters, read_missing).await?;
        let (mut names, mut bodies) = (Vec::new(), Vec::new());
        for file in host_files() {
            for (name, body) in functions(file.sql) {
                names.push(name);
                bodies.push(self.table().substitute(body));
            }
        }
        let parameters: [Parameter<'_>; 3] = [&self.table().as_str(), &names, &bodies];
        missing.extend(self.read_all(&self.statements.find_missing_functions, &parameters, read_missing).await?);
        Ok(missing)
    }

    /// Brings the schema up to date, each migration in a transaction of its own and the host's functions together in
    /// one, one migrator at a time; `passed` hears of each file as it is done.
    pub(crate) async fn migrate(&self, mut passed: impl FnMut(Passed)) -> Result<(), StoreError> {
        for migration in migrations() {
            let before = self.apply(&migration).await.map_err(|kind| StoreError::new(migration.file, kind))?;
            passed(Passed { file: migration.file, step: if before { Step::AlreadyThere } else { Step::Applied } });
        }
        for done in self.replace_host_functions().await? {
            passed(done);
        }
        Ok(())
    }

    async fn replace_host_functions(&self) -> Result<Vec<Passed>, StoreError> {
        let statements = &self.statements;
        let failed = |error: tokio_postgres::Error| Kind::of(&error, self.door.timeout);
        let named = |kind: Kind| StoreError::new("host", kind);
        let mut client = self.door.pool.get().await.map_err(|error| named(Kind::of_pool(&error, self.door.timeout)))?;
        let transaction = client.transaction().await.map_err(|error| named(failed(error)))?;
        for statement in [&statements.lift_timeouts, &statements.lock_ledger] {
            ask_in(&transaction, statement, &[]).await.map_err(|error| named(failed(error)))?;
        }
        let table: Parameter<'_> = &self.table().as_str();
        let served = ask_in(&transaction, &statements.find_served, &[table]).await.map_err(|e| named(failed(e)))?;
        if let Some(other) = served.first() {
            let serving: String = read(other, "serving").map_err(named)?;
            let kept = |file: HostFile| Passed { file: file.name, step: Step::Kept { serving: serving.clone() } };
            return Ok(host_files().into_iter().map(kept).collect());
        }
        let mut passed = Vec::new();
        for file in host_files() {
            let replaced = transaction.batch_execute(&self.table().substitute(file.sql)).await;
            replaced.map_err(|error| StoreError::new(file.name, failed(error)))?;
            passed.push(Passed { file: file.name, step: Step::Replaced });
        }
        transaction.commit().await.map_err(|error| named(failed(error)))?;
        Ok(passed)
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
        let whole = missing?.iter().all(|missing| missing.version != Some(migration.version));
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
