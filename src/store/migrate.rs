//! The migrations and the host's functions as they are: printing them for another tool, and telling what a database lacks.
//! Numbered files are frozen once released, and each changes nothing where its objects exist; the files of `sql/host` replace
//! what they make, and are applied every time. Applying them is the `migrator`'s.

use std::fmt;

use include_dir::{Dir, include_dir};

use super::claim::read;
use super::error::{Kind, StoreError};
use super::statement::Parameter;
use super::table::TableName;
use super::{Answer, Store};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql/migrations");
static HOST: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql/host");

/// Grants rights on what the other files of `sql/host` make, so it goes last.
const GRANTS: &str = "grants.sql";

pub(super) struct Migration {
    pub(super) version: i32,
    pub(super) file: &'static str,
    pub(super) sql: &'static str,
}

/// One file that was passed, or is waited at, on the way to the newest schema.
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
    /// It goes on when others let it.
    Waiting(Waits),
}

/// What keeps a migrator waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Migrator,
    Locks,
    Build,
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waits::Migrator => "another `outboxd migrate` is under way",
            Waits::Locks => "open transactions hold locks that it needs; it tries again until they end",
            Waits::Build => "somebody is building one of its indexes",
        })
    }
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

impl HostFile {
    pub(super) fn passed(&self, step: Step) -> Passed {
        Passed { file: self.name, step }
    }
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
pub(super) fn migrations() -> Vec<Migration> {
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
}

pub(super) fn read_missing(answer: &Answer) -> Result<Missing, Kind> {
    Ok(Missing { version: read(answer, "version")?, object: read(answer, "object")? })
}
