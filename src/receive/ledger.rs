//! The source CMS's SQLite ledger, versions 1 and 2, read as it is: one snapshot of a file that nobody changes
//! meanwhile. It judges the file's shape, and of its rows only whether they can be read.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row, Rows, Statement};

use crate::store::ImportRow;

const META: &str = "cms_terminal_notification_inbox_meta";
const INBOX: &str = "cms_terminal_notification_inbox";
const PROCESSING: &str = "cms_terminal_notification_processing";

const META_COLUMNS: &[&str] = &["singleton", "schema_version"];
const INBOX_COLUMNS: &[&str] =
    &["notification_id", "event_id", "site_id", "terminal_status", "payload_sha256", "payload_json", "received_at"];
const PROCESSING_COLUMNS: &[&str] = &[
    "notification_id",
    "status",
    "attempts",
    "max_attempts",
    "next_attempt_at",
    "lease_owner",
    "lease_token",
    "lease_expires_at",
    "last_error_code",
    "processed_at",
    "created_at",
    "updated_at",
];

/// The questions to the file, which speaks SQLite's dialect and not the database's.
const TABLES: &str = include_str!("../../sql/sqlite/list_tables.sql");
const COLUMNS: &str = include_str!("../../sql/sqlite/list_columns.sql");
const INTEGRITY: &str = include_str!("../../sql/sqlite/check_integrity.sql");
const VERSIONS: &str = include_str!("../../sql/sqlite/read_versions.sql");
const READ_V1: &str = include_str!("../../sql/sqlite/read_v1.sql");
const READ_V2: &str = include_str!("../../sql/sqlite/read_v2.sql");
const ORPHANS: &str = include_str!("../../sql/sqlite/count_orphans.sql");

#[derive(Debug, thiserror::Error)]
pub(crate) enum LedgerError {
    #[error("the ledger cannot be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("schema_altered: {0}")]
    SchemaAltered(String),
    #[error("integrity_failed: {0}")]
    Integrity(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// An open ledger whose shape is one that we know.
pub(crate) struct Ledger {
    connection: Connection,
    version: Version,
    /// What a row of version 1 may be tried; those of version 2 say it themselves.
    max_attempts: i32,
}

/// Where reading goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position(i64);

impl Position {
    pub(crate) const START: Position = Position(i64::MIN);
}

impl Ledger {
    /// Opens the file for reading and takes the snapshot that all reading is from.
    pub(crate) fn open(path: &Path, max_attempts: i32) -> Result<Ledger, LedgerError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // A deferred transaction's snapshot begins with its first question.
        connection.execute_batch("begin")?;
        let version = shape(&connection)?;
        let problem: String = connection.query_row(INTEGRITY, [], |row| row.get(0))?;
        if problem != "ok" {
            return Err(LedgerError::Integrity(problem));
        }
        if version == Version::V2 {
            let orphans: i64 = connection.query_row(ORPHANS, [], |row| row.get(0))?;
            if orphans > 0 {
                return Err(LedgerError::Integrity(format!("{orphans} processing row(s) without a notification")));
            }
        }
        Ok(Ledger { connection, version, max_attempts })
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The rows behind `after`, at most `limit`, and where the next begin; none where there are no more.
    pub(crate) fn read(&self, after: Position, limit: u32) -> Result<Option<(Vec<ImportRow>, Position)>, LedgerError> {
        let mut statement: Statement<'_> = self.connection.prepare(match self.version {
            Version::V1 => READ_V1,
            Version::V2 => READ_V2,
        })?;
        let mut found: Rows<'_> = statement.query((after.0, limit))?;
        let (mut rows, mut last) = (Vec::new(), after);
        while let Some(row) = found.next()? {
            last = Position(row.get(0)?);
            rows.push(self.import_row(row)?);
        }
        Ok((!rows.is_empty()).then_some((rows, last)))
    }

    fn import_row(&self, row: &Row<'_>) -> Result<ImportRow, LedgerError> {
        let mut read = ImportRow {
            notification_id: text(row, 1)?,
            event_id: text(row, 2)?,
            site_id: text(row, 3)?,
            terminal_status: text(row, 4)?,
            payload_sha256: text(row, 5)?,
            payload_json: text(row, 6)?,
            received_at: number(row, 7)?,
            ..ImportRow::default()
        };
        match self.version {
            Version::V1 => {
                read.status = Some("pending".into());
                read.attempts = Some(0);
                read.max_attempts = Some(self.max_attempts);
                (read.next_attempt_at, read.created_at, read.updated_at) =
                    (read.received_at, read.received_at, read.received_at);
            }
            Version::V2 => {
                read.status = text(row, 8)?;
                read.attempts = integer(row, 9)?;
                read.max_attempts = integer(row, 10)?;
                read.next_attempt_at = number(row, 11)?;
                read.lease_owner = text(row, 12)?;
                read.lease_token = text(row, 13)?;
                read.lease_expires_at = number(row, 14)?;
                read.last_error_code = text(row, 15)?;
                read.processed_at = number(row, 16)?;
                read.created_at = number(row, 17)?;
                read.updated_at = number(row, 18)?;
                // These may be null; what is there and cannot be read must not pass for null.
                let nullable = [
                    (12, read.lease_owner.is_none()),
                    (13, read.lease_token.is_none()),
                    (14, read.lease_expires_at.is_none()),
                    (15, read.last_error_code.is_none()),
                    (16, read.processed_at.is_none()),
                ];
                if nullable.iter().any(|(column, unread)| *unread && is_there(row, *column)) {
                    read.status = None;
                }
            }
        }
        Ok(read)
    }
}

fn shape(connection: &Connection) -> Result<Version, LedgerError> {
    let names = |sql: &str, parameter: &str| -> Result<Vec<String>, LedgerError> {
        let mut statement = connection.prepare(sql)?;
        let names = statement.query_map([parameter], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok(names)
    };
    let tables = names(TABLES, &format!(r#"["{META}", "{INBOX}", "{PROCESSING}"]"#))?;
    let has = |table: &str| tables.iter().any(|one| one == table);
    if !has(META) || !has(INBOX) {
        return Err(LedgerError::SchemaAltered(format!("there is no {INBOX} with its {META}")));
    }
    let (version, wanted) = if has(PROCESSING) { (Version::V2, (1, 2)) } else { (Version::V1, (1, 1)) };
    let mut columns = vec![(META, META_COLUMNS), (INBOX, INBOX_COLUMNS)];
    if version == Version::V2 {
        columns.push((PROCESSING, PROCESSING_COLUMNS));
    }
    for (table, wanted) in columns {
        let found = names(COLUMNS, table)?;
        if found != wanted {
            return Err(LedgerError::SchemaAltered(format!("{table} has the columns {}", found.join(", "))));
        }
    }
    let mut statement = connection.prepare(VERSIONS)?;
    let versions =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<Vec<(i64, i64)>, _>>()?;
    if versions != [wanted] {
        return Err(LedgerError::SchemaAltered(format!("its version is {versions:?} and not {wanted:?}")));
    }
    Ok(version)
}

fn is_there(row: &Row<'_>, column: usize) -> bool {
    row.get_ref(column).is_ok_and(|value| value != ValueRef::Null)
}

/// `None` for what is no text, or none that Postgres can hold.
fn text(row: &Row<'_>, column: usize) -> Result<Option<String>, LedgerError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).map(str::to_owned),
        _ => None,
    })
}

/// `None` for what is no number, or none that JSON can hold.
fn number(row: &Row<'_>, column: usize) -> Result<Option<f64>, LedgerError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Real(number) => Some(number).filter(|number| number.is_finite()),
        _ => None,
    })
}

fn integer(row: &Row<'_>, column: usize) -> Result<Option<i32>, LedgerError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => i32::try_from(number).ok(),
        _ => None,
    })
}
