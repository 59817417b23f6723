//! What can go wrong between us and Postgres, as typed facts. No variant carries a row's content, a parameter
//! or a connection string.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

/// A statement that did not do its work. Whether it took effect is known only where the server said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{statement}: {kind}")]
pub(crate) struct StoreError {
    /// The statement's file without its ending, or `connect`.
    pub(crate) statement: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Kind {
    /// No usable connection, or it was lost before the answer came.
    #[error("the database is not available: {0}")]
    Unavailable(Unavailable),
    /// A standby, or a primary that was demoted (SQLSTATE 25006).
    #[error("the database is read-only: connect to the primary")]
    ReadOnly,
    /// No answer in time, by our clock or by the server's statement_timeout or lock_timeout.
    #[error("no answer within {} s", .after.as_secs_f32())]
    Timeout { after: Duration },
    /// The schema is not the one that the statement was written for. `detail` is the server's sentence, which
    /// for these codes names tables, columns and types only.
    #[error("the schema does not fit ({sqlstate}): {detail}; run `outboxd migrate --check`")]
    Schema { sqlstate: String, detail: String },
    #[error("the database user lacks a privilege (SQLSTATE 42501); run `outboxd check`")]
    Permission,
    /// Our own SQL refused and said what to do. Among what the daemon and `migrate` run only a migration does, in
    /// sentences that hold no row's content.
    #[error("{message}. {hint} (SQLSTATE {sqlstate})")]
    Refused { sqlstate: String, message: String, hint: String },
    #[error("SQLSTATE {sqlstate}")]
    Other { sqlstate: String },
    /// The answer has columns that we cannot read: the statement's file and its reader disagree.
    #[error("column {column} of the answer cannot be read")]
    Unreadable { column: &'static str },
    /// A stored row of the inbox is not what was once accepted; it is left as it is.
    #[error("the stored row is damaged ({}); it is passed over until it is mended", .0.code())]
    Damaged(Damage),
    /// What was in the way each time was gone each time we looked.
    #[error("other transactions that were rolled back were in the way too often")]
    Contended,
    /// Of a migration, which gives up only what it has not begun.
    #[error(
        "others were in the way for {} s: end the transactions that have been open for long (pg_stat_activity), then run it \
         again; what was applied stays", .after.as_secs()
    )]
    Locked { after: Duration },
}

/// What is wrong with a stored row of the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The receipt does not say what its payload says.
    Binding,
    /// The receipt is sound, and its processing state is missing or is none.
    State,
}

impl Damage {
    pub(super) fn of(code: &str) -> Damage {
        if code == Damage::Binding.code() { Damage::Binding } else { Damage::State }
    }

    /// As in the view's column.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Damage::Binding => "stored_binding_invalid",
            Damage::State => "processing_state_invalid",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error("cannot connect ({0}); does it run where the URL points?")]
    Connect(io::ErrorKind),
    #[error("no connection within the connect timeout")]
    ConnectTimeout,
    #[error("TLS failed: check sslmode, sslrootcert and the server's certificate")]
    Tls,
    #[error("the server offers no TLS, or asks for a password or a method that we were not given")]
    Handshake,
    #[error("user or password refused")]
    Authentication,
    #[error("there is no such database")]
    NoSuchDatabase,
    #[error("it is starting up or shutting down")]
    Restarting,
    #[error("it has no connection to spare")]
    TooManyConnections,
    #[error("it is out of disk, memory or another resource")]
    OutOfResources,
    /// PgBouncer's answer to start-up settings and to statements that another of its connections has prepared.
    #[error("what answers is a pooler that keeps no session: set database.prepared_statements = false")]
    Pooler,
    #[error("it takes the statement to listen, but lets no notification through, as a pooler without sessions does")]
    Deaf,
    #[error("the connection was lost")]
    Closed,
    #[error("every connection of our pool is in use")]
    PoolExhausted,
}

impl StoreError {
    pub(super) fn new(statement: &'static str, kind: Kind) -> StoreError {
        StoreError { statement, kind }
    }

    /// Whether the database was out of reach or not itself, so that the same again may do.
    pub(crate) fn is_transient(&self) -> bool {
        match &self.kind {
            Kind::Unavailable(unavailable) => *unavailable != Unavailable::OutOfResources,
            Kind::ReadOnly | Kind::Contended => true,
            _ => false,
        }
    }

    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self.kind, Kind::Timeout { .. })
    }

    /// Whether a question that touches no table can tell that it is over. A lock, a full disk and a missing table are seen only
    /// by a statement that needs what they keep from it.
    pub(crate) fn is_seen_by_probes(&self) -> bool {
        match &self.kind {
            Kind::Unavailable(why) => *why != Unavailable::OutOfResources,
            Kind::ReadOnly => true,
            _ => false,
        }
    }

    /// Whether what is listened to lets no notification through, rather than being out of reach.
    pub(crate) fn is_deafness(&self) -> bool {
        self.kind == Kind::Unavailable(Unavailable::Deaf)
    }
}

impl Kind {
    /// A closed list, for metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Kind::Unavailable(_) => "unavailable",
            Kind::ReadOnly => "read_only",
            Kind::Timeout { .. } => "timeout",
            Kind::Schema { .. } => "schema",
            Kind::Permission => "permission",
            Kind::Refused { .. } => "refused",
            Kind::Other { .. } => "other",
            Kind::Unreadable { .. } => "unreadable",
            Kind::Damaged(_) => "damaged",
            Kind::Contended => "contended",
            Kind::Locked { .. } => "locked",
        }
    }

    /// Whether a connection that ended a statement so must not be used for another.
    pub(super) fn spoils_connection(&self) -> bool {
        matches!(self, Kind::Unavailable(_) | Kind::ReadOnly | Kind::Timeout { .. })
    }

    /// `waited` is how long the caller has been waiting when a timeout of the server strikes.
    pub(super) fn of(error: &tokio_postgres::Error, waited: Duration) -> Kind {
        if let Some(db) = error.as_db_error() {
            // A class that Postgres leaves to its users, and that is ours.
            if db.code().code().starts_with("OD") {
                return Kind::Refused {
                    sqlstate: db.code().code().to_owned(),
                    message: db.message().to_owned(),
                    hint: db.hint().unwrap_or_default().to_owned(),
                };
            }
            return Kind::of_sqlstate(db.code(), db.message(), waited);
        }
        if error.is_closed() {
            return Kind::Unavailable(Unavailable::Closed);
        }
        let mut cause = error.source();
        while let Some(error) = cause {
            if error.is::<rustls::Error>() {
                return Kind::Unavailable(Unavailable::Tls);
            }
            if let Some(error) = error.downcast_ref::<io::Error>() {
                if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                    return Kind::Unavailable(Unavailable::Tls);
                }
                return Kind::of_io(error);
            }
            cause = error.source();
        }
        Kind::Unavailable(Unavailable::Handshake)
    }

    fn of_io(error: &io::Error) -> Kind {
        match error.kind() {
            // tokio-postgres' own word for a session that target_session_attrs=read-write does not want; one
            // from the operating system has a number.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => Kind::ReadOnly,
            io::ErrorKind::TimedOut => Kind::Unavailable(Unavailable::ConnectTimeout),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                Kind::Unavailable(Unavailable::Closed)
            }
            kind => Kind::Unavailable(Unavailable::Connect(kind)),
        }
    }

    fn of_sqlstate(state: &SqlState, message: &str, waited: Duration) -> Kind {
        let code = state.code();
        match code {
            "25006" => Kind::ReadOnly,
            "57014" | "55P03" => Kind::Timeout { after: waited },
            "42501" => Kind::Permission,
            // Undefined table, column, function, object, schema; a column or an operator of another type.
            "42P01" | "42703" | "42883" | "42704" | "3F000" | "42804" => {
                Kind::Schema { sqlstate: code.to_owned(), detail: message.to_owned() }
            }
            "08P01" => Kind::Unavailable(Unavailable::Pooler),
            "3D000" => Kind::Unavailable(Unavailable::NoSuchDatabase),
            "53300" | "53400" => Kind::Unavailable(Unavailable::TooManyConnections),
            "57P01" | "57P02" | "57P03" | "57P05" => Kind::Unavailable(Unavailable::Restarting),
            _ => match &code[..2] {
                "08" => Kind::Unavailable(Unavailable::Closed),
                "28" => Kind::Unavailable(Unavailable::Authentication),
                "53" | "58" => Kind::Unavailable(Unavailable::OutOfResources),
                _ => Kind::Other { sqlstate: code.to_owned() },
            },
        }
    }

    pub(super) fn of_pool(error: &PoolError, waited: Duration) -> Kind {
        match error {
            PoolError::Timeout(TimeoutType::Wait) => Kind::Unavailable(Unavailable::PoolExhausted),
            PoolError::Timeout(_) => Kind::Unavailable(Unavailable::ConnectTimeout),
            PoolError::Backend(error) => Kind::of(error, waited),
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                Kind::Unavailable(Unavailable::Closed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_are_sorted_by_what_can_be_done() {
        let waited = Duration::from_secs(1);
        let kind = |code: &str| Kind::of_sqlstate(&SqlState::from_code(code), "text", waited);
        assert_eq!(kind("25006"), Kind::ReadOnly);
        assert_eq!(kind("57014"), Kind::Timeout { after: waited });
        assert_eq!(kind("42501"), Kind::Permission);
        assert!(matches!(kind("42703"), Kind::Schema { .. }));
        assert_eq!(kind("57P01"), Kind::Unavailable(Unavailable::Restarting));
        assert_eq!(kind("53100"), Kind::Unavailable(Unavailable::OutOfResources));
        assert_eq!(kind("28P01"), Kind::Unavailable(Unavailable::Authentication));
        assert_eq!(kind("40001"), Kind::Other { sqlstate: "40001".into() });
    }

    #[test]
    fn only_what_names_schema_objects_keeps_the_servers_sentence() {
        let secret = "Key (url)=(https://token@example) already exists";
        for code in ["23505", "22P02", "XX000", "40P01", "28P01"] {
            let kind = Kind::of_sqlstate(&SqlState::from_code(code), secret, Duration::ZERO);
            assert!(!kind.to_string().contains("token"), "{code}");
        }
    }
}
