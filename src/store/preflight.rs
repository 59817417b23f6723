//! Judges the outbox table before anything is claimed from it: what would fail later, lose rows or crawl is
//! found at the start, each finding with what to do. It changes nothing and asks nothing itself.

use std::fmt;

use super::Answer;
use super::claim::read;
use super::error::Kind;

/// How a column is used, and the types that serve. `text` also comes as `character varying`.
struct Column {
    name: &'static str,
    type_name: &'static str,
    written: bool,
    required: bool,
}

const fn column(name: &'static str, type_name: &'static str, written: bool, required: bool) -> Column {
    Column { name, type_name, written, required }
}

/// What the statements read, what they write, and what a delivery cannot do without.
const COLUMNS: [Column; 23] = [
    column("id", "bigint", false, true),
    column("task_id", "text", false, true),
    column("account_id", "text", false, true),
    column("task_type", "text", false, true),
    column("terminal_status", "text", false, true),
    column("url", "text", false, true),
    column("operation_id", "text", false, true),
    column("idempotency_key", "text", false, true),
    column("signing_scope_id", "text", false, false),
    column("encrypted_body", "bytea", false, true),
    column("envelope_nonce", "bytea", false, true),
    column("state", "text", true, true),
    column("attempt_count", "integer", true, true),
    column("available_at", "timestamp with time zone", true, true),
    column("lease_token", "text", true, false),
    column("lease_expires_at", "timestamp with time zone", true, false),
    column("updated_at", "timestamp with time zone", true, false),
    column("first_attempt_at", "timestamp with time zone", true, false),
    column("retry_until", "timestamp with time zone", true, false),
    column("retry_horizon_seconds", "integer", false, true),
    column("delivered_at", "timestamp with time zone", true, false),
    column("last_http_status", "integer", true, false),
    column("last_error", "text", true, false),
];

const STATES: [&str; 5] = ["pending", "in_flight", "delivered", "expired", "invalid"];

/// Columns whose check keeps a host from writing rows that can never be delivered.
const CHECKED: [&str; 5] = ["state", "terminal_status", "envelope_nonce", "retry_horizon_seconds", "retry_until"];

/// The beginnings of the definitions that our statements' orders and fences need.
const INDEXES: [(&str, IndexUse); 4] = [
    ("btree (available_at, id)", IndexUse::Claim),
    ("btree (id)", IndexUse::Settle),
    ("btree (retry_until) WHERE", IndexUse::Expire),
    ("btree (retry_until)", IndexUse::Purge),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Do not start.
    Refuse,
    Warn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) fact: Fact,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IndexUse {
    #[error("claiming")]
    Claim,
    #[error("settling")]
    Settle,
    #[error("expiring")]
    Expire,
    #[error("purging")]
    Purge,
}

/// Each says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fact {
    #[error("there is no outbox table in the search_path: run `outboxd migrate`, or set outbox.table")]
    TableMissing,
    #[error("the database user may not use schema {schema}: grant it usage")]
    SchemaForbidden { schema: String },
    #[error("the outbox is not an ordinary table (relkind {kind}): name the table itself in outbox.table")]
    NotATable { kind: String },
    #[error("the outbox table is unlogged, so a crash empties it: make it logged")]
    Unlogged,
    #[error("the outbox table is temporary: make it permanent")]
    Temporary,
    #[error("column {column} is missing: run `outboxd migrate`")]
    ColumnMissing { column: &'static str },
    #[error("column {column} has type {found}, not {wanted}: restore its type")]
    ColumnType { column: &'static str, found: String, wanted: &'static str },
    #[error("column {column} allows nulls; a row with one is quarantined: make it not null")]
    ColumnNullable { column: &'static str },
    #[error("the database user may not read column(s) {}: grant it the privilege", .columns.join(", "))]
    Unreadable { columns: Vec<&'static str> },
    #[error("the database user may not write column(s) {}: grant it the privilege", .columns.join(", "))]
    Unwritable { columns: Vec<&'static str> },
    #[error("the database user may not delete rows, so finished rows stay: grant it, or purge them elsewhere")]
    Undeletable,
    #[error(
        "the database user may not read what composed rows are rendered from, so they wait: grant it outboxd_daemon"
    )]
    ComposedUnreadable,
    #[error(
        "the database user may not write down which keys this replica holds, so `outboxd rekey` does not see it: grant it \
         outboxd_daemon"
    )]
    ReplicasUnwritable,
    #[error(
        "replicas cannot tell each other which destinations are down, so each finds out by itself: run `outboxd migrate`"
    )]
    ParkingMissing,
    #[error("operators cannot requeue, cancel, park or cap, since there is nowhere to note it: run `outboxd migrate`")]
    AuditMissing,
    #[error(
        "the database user may not write down which destinations are down, so each replica finds out by itself: grant it \
         outboxd_daemon"
    )]
    ParkingUnwritable,
    #[error("attempts leave no record, since there is no table for them: run `outboxd migrate`")]
    AttemptsMissing,
    #[error("the database user may not write attempts down, so they leave no record: grant it outboxd_daemon")]
    AttemptsUnwritable,
    #[error("the check on column state does not allow {state}, which settling writes: allow it")]
    StateForbidden { state: &'static str },
    #[error("no check on column {column}, so a host can write rows that cannot be delivered: add it")]
    Unchecked { column: &'static str },
    #[error(
        "no index finds rows by their destination, so that each claim reads past all rows of those that are left out: run \
         `outboxd migrate`"
    )]
    DestinationIndexMissing,
    #[error("no index serves {0}, which will scan the whole table: run `outboxd migrate`")]
    IndexMissing(IndexUse),
    #[error(
        "the outbox table's storage is as Postgres makes it, so each delivery writes about twice the WAL that it need: run \
         `outboxd migrate`"
    )]
    StorageUntuned,
    #[error("row security applies to the database user and may hide rows, which then are never delivered")]
    RowSecurity,
    #[error("the outbox table is part of an inheritance tree; only its own rows were looked at")]
    Inheritance,
    #[error("the outbox table has triggers or rules; they run at every claim and settle")]
    TriggersOrRules,
}

impl Finding {
    pub(crate) fn is_about_privileges(&self) -> bool {
        matches!(
            self.fact,
            Fact::SchemaForbidden { .. }
                | Fact::Unreadable { .. }
                | Fact::Unwritable { .. }
                | Fact::Undeletable
                | Fact::ComposedUnreadable
                | Fact::ReplicasUnwritable
                | Fact::ParkingUnwritable
                | Fact::AttemptsUnwritable
        )
    }

    pub(super) fn table_missing() -> Finding {
        Finding { severity: Severity::Refuse, fact: Fact::TableMissing }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fact.fmt(f)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Inspection {
    kind: String,
    persistence: String,
    row_security: bool,
    inherits: bool,
    has_triggers: bool,
    has_rules: bool,
    has_fillfactor: bool,
    may_delete: bool,
    may_read_composed: bool,
    may_write_replicas: bool,
    has_parking: bool,
    has_audit: bool,
    may_write_parking: bool,
    has_attempts: bool,
    may_write_attempts: bool,
    schema: String,
    may_use_schema: bool,
    columns: Vec<String>,
    types: Vec<String>,
    not_null: Vec<bool>,
    readable: Vec<bool>,
    writable: Vec<bool>,
    checks: Vec<String>,
    indexes: Vec<String>,
    pub(super) by_destination: bool,
    pub(super) has_traces: bool,
    pub(super) by_account: bool,
}

pub(super) fn read_inspection(answer: &Answer) -> Result<Inspection, Kind> {
    Ok(Inspection {
        kind: read(answer, "kind")?,
        persistence: read(answer, "persistence")?,
        row_security: read(answer, "row_security")?,
        inherits: read(answer, "inherits")?,
        has_triggers: read(answer, "has_triggers")?,
        has_rules: read(answer, "has_rules")?,
        has_fillfactor: read(answer, "has_fillfactor")?,
        may_delete: read(answer, "may_delete")?,
        may_read_composed: read(answer, "may_read_composed")?,
        may_write_replicas: read(answer, "may_write_replicas")?,
        has_parking: read(answer, "has_parking")?,
        has_audit: read(answer, "has_audit")?,
        may_write_parking: read(answer, "may_write_parking")?,
        has_attempts: read(answer, "has_attempts")?,
        may_write_attempts: read(answer, "may_write_attempts")?,
        schema: read(answer, "schema_name")?,
        may_use_schema: read(answer, "may_use_schema")?,
        columns: read(answer, "columns")?,
        types: read(answer, "types")?,
        not_null: read(answer, "not_null")?,
        readable: read(answer, "readable")?,
        writable: read(answer, "writable")?,
        checks: read(answer, "checks")?,
        indexes: read(answer, "indexes")?,
        by_destination: read(answer, "by_destination")?,
        has_traces: read(answer, "has_traces")?,
        by_account: read(answer, "by_account")?,
    })
}

impl Inspection {
    pub(super) fn takes_attempts(&self) -> bool {
        self.has_attempts && self.may_write_attempts
    }
}

pub(super) fn findings(table: &Inspection) -> Vec<Finding> {
    let mut facts: Vec<(Severity, Fact)> = Vec::new();
    judge_table(table, &mut facts);
    judge_columns(table, &mut facts);
    judge_checks(table, &mut facts);
    judge_indexes(table, &mut facts);
    facts.into_iter().map(|(severity, fact)| Finding { severity, fact }).collect()
}

fn judge_table(table: &Inspection, facts: &mut Vec<(Severity, Fact)>) {
    use Severity::{Refuse, Warn};

    if table.kind != "r" {
        facts.push((Refuse, Fact::NotATable { kind: table.kind.clone() }));
    }
    match table.persistence.as_str() {
        "u" => facts.push((Refuse, Fact::Unlogged)),
        "t" => facts.push((Refuse, Fact::Temporary)),
        _ => {}
    }
    if !table.may_use_schema {
        facts.push((Refuse, Fact::SchemaForbidden { schema: table.schema.clone() }));
    }
    if !table.may_delete {
        facts.push((Warn, Fact::Undeletable));
    }
    if !table.may_read_composed {
        facts.push((Warn, Fact::ComposedUnreadable));
    }
    if !table.may_write_replicas {
        facts.push((Warn, Fact::ReplicasUnwritable));
    }
    if !table.has_parking {
        facts.push((Warn, Fact::ParkingMissing));
    }
    if !table.has_audit {
        facts.push((Warn, Fact::AuditMissing));
    }
    if !table.may_write_parking {
        facts.push((Warn, Fact::ParkingUnwritable));
    }
    if !table.has_attempts {
        facts.push((Warn, Fact::AttemptsMissing));
    }
    if !table.may_write_attempts {
        facts.push((Warn, Fact::AttemptsUnwritable));
    }
    if table.row_security {
        facts.push((Warn, Fact::RowSecurity));
    }
    if table.inherits {
        facts.push((Warn, Fact::Inheritance));
    }
    // Of what is no table, that it is none is enough.
    if table.kind == "r" && !table.has_fillfactor {
        facts.push((Warn, Fact::StorageUntuned));
    }
    if table.has_triggers || table.has_rules {
        facts.push((Warn, Fact::TriggersOrRules));
    }
}

fn judge_columns(table: &Inspection, facts: &mut Vec<(Severity, Fact)>) {
    let (mut unreadable, mut unwritable) = (Vec::new(), Vec::new());
    for Column { name, type_name, written, required } in COLUMNS {
        let Some(at) = table.columns.iter().position(|column| column == name) else {
            facts.push((Severity::Refuse, Fact::ColumnMissing { column: name }));
            continue;
        };
        let found = table.types[at].as_str();
        let serves = found == type_name || (type_name == "text" && found == "character varying");
        if !serves {
            let fact = Fact::ColumnType { column: name, found: found.to_owned(), wanted: type_name };
            facts.push((Severity::Refuse, fact));
        }
        if required && !table.not_null[at] {
            facts.push((Severity::Warn, Fact::ColumnNullable { column: name }));
        }
        // Of what is only written nothing is read back.
        let read_back = !matches!(name, "updated_at" | "delivered_at" | "last_http_status" | "last_error");
        if read_back && !table.readable[at] {
            unreadable.push(name);
        }
        if written && !table.writable[at] {
            unwritable.push(name);
        }
    }
    if !unreadable.is_empty() {
        facts.push((Severity::Refuse, Fact::Unreadable { columns: unreadable }));
    }
    if !unwritable.is_empty() {
        facts.push((Severity::Refuse, Fact::Unwritable { columns: unwritable }));
    }
}

fn judge_checks(table: &Inspection, facts: &mut Vec<(Severity, Fact)>) {
    let mentions = |check: &str, word: &str| {
        check.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|found| found == word)
    };
    for column in CHECKED {
        if !table.checks.iter().any(|check| mentions(check, column)) {
            facts.push((Severity::Warn, Fact::Unchecked { column }));
        }
    }
    // Only a check that enumerates states can forbid one.
    let enumerating = table.checks.iter().filter(|check| mentions(check, "state") && mentions(check, "pending"));
    for check in enumerating {
        for state in STATES {
            if !mentions(check, state) {
                facts.push((Severity::Refuse, Fact::StateForbidden { state }));
            }
        }
    }
}

fn judge_indexes(table: &Inspection, facts: &mut Vec<(Severity, Fact)>) {
    for (beginning, serves) in INDEXES {
        let found = table.indexes.iter().any(|index| {
            let partial = index.contains(" WHERE ");
            let covers_open_rows = index.contains("'pending'") && index.contains("'in_flight'");
            match serves {
                IndexUse::Claim => index.starts_with(beginning) && (!partial || covers_open_rows),
                IndexUse::Expire => index.starts_with(beginning) && covers_open_rows,
                IndexUse::Settle | IndexUse::Purge => index == beginning,
            }
        });
        if !found {
            facts.push((Severity::Warn, Fact::IndexMissing(serves)));
        }
    }
    if !table.by_destination {
        facts.push((Severity::Warn, Fact::DestinationIndexMissing));
    }
}
