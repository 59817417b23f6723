//! The one door to Postgres: every statement goes through `Door::ask`, which decides between named and unnamed
//! statements, bounds the time, and drops a connection that cannot be trusted any more. It reads no rows.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool};
use futures_util::TryStreamExt;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, RowStream, Transaction};

use super::error::{Kind, StoreError};
use super::table::TableName;

/// One `.sql` file, ready to be sent.
pub(super) struct Statement {
    /// The file's path below `sql/`, without its ending.
    pub(super) label: &'static str,
    pub(super) sql: String,
    pub(super) types: Vec<Type>,
}

/// Names each statement once, with the types of its parameters: the compiler then finds a missing file, and
/// the tests an unused one.
macro_rules! statements {
    ($($name:ident = $label:literal ($($parameter:ident),*);)*) => {
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            pub(super) fn render(table: &TableName) -> Statements {
                Statements {
                    $($name: Statement {
                        label: $label,
                        sql: table.substitute(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $label, ".sql"))),
                        types: vec![$(Type::$parameter),*],
                    },)*
                }
            }

            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<&Statement> {
                vec![$(&self.$name),*]
            }
        }
    };
}

statements! {
    claim_due = "outbox/claim_due" (INT8, INT8, TEXT, FLOAT8, TEXT_ARRAY, INT4_ARRAY, INT4, TEXT_ARRAY, INT4_ARRAY, INT4);
    claim_around = "outbox/claim_around" (
        INT8, INT8, TEXT, FLOAT8, TEXT_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4, TIMESTAMPTZ, INT8, INT8, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY, INT8_ARRAY
    );
    claim_around_by_account = "outbox/claim_around_by_account" (
        INT8, INT8, TEXT, FLOAT8, TEXT_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4, TEXT_ARRAY, INT4_ARRAY, INT4, TIMESTAMPTZ, INT8,
        INT8, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INT8_ARRAY, INT4
    );
    list_due = "outbox/list_due" (TEXT, INT8);
    list_due_by_account = "outbox/list_due_by_account" (TEXT, INT8);
    index_accounts = "outbox/index_accounts" ();
    settle_delivered = "outbox/settle_delivered" (INT8_ARRAY, TEXT_ARRAY, INT4_ARRAY);
    settle_retried = "outbox/settle_retried" (INT8_ARRAY, TEXT_ARRAY, FLOAT8_ARRAY, INT4_ARRAY, TEXT_ARRAY);
    settle_quarantined = "outbox/settle_quarantined" (INT8_ARRAY, TEXT_ARRAY, INT4_ARRAY, TEXT_ARRAY);
    give_back = "outbox/give_back" (INT8_ARRAY, TEXT_ARRAY, FLOAT8_ARRAY);
    read_lost = "outbox/read_lost" (INT8_ARRAY, TEXT_ARRAY);
    read_composed = "outbox/read_composed" (TEXT_ARRAY, INT8);
    read_traces = "outbox/read_traces" (TEXT_ARRAY);
    expire_overdue = "outbox/expire_overdue" (INT8, INT8);
    purge_settled = "outbox/purge_settled" (INT8, INT8, FLOAT8);
    sample_backlog = "outbox/sample_backlog" (INT8, TEXT_ARRAY);
    probe = "outbox/probe" ();
    list_rows = "outbox/list_rows" (TEXT_ARRAY, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT8, FLOAT8, INT8, INT8, INT8);
    list_ended = "outbox/list_ended" (TEXT_ARRAY, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT8, FLOAT8, INT8, INT8, INT8);
    list_open = "outbox/list_open" (TEXT_ARRAY, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT8, FLOAT8, INT8, INT8, INT8);
    list_open_by_destination = "outbox/list_open_by_destination" (
        TEXT_ARRAY, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT8, FLOAT8, INT8, INT8, INT8
    );
    list_by_account = "outbox/list_by_account" (TEXT_ARRAY, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT8, FLOAT8, INT8, INT8, INT8);
    list_by_destination = "outbox/list_by_destination" (TEXT_ARRAY, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT8, FLOAT8, INT8, INT8, INT8);
    find_list_indexes = "outbox/find_list_indexes" (TEXT);
    index_list_accounts = "outbox/index_list_accounts" ();
    index_list_destinations = "outbox/index_list_destinations" ();
    read_life = "outbox/read_life" (INT8, TEXT);
    count_states = "outbox/count_states" (INT8);
    read_attempts = "history/read_attempts" (TEXT, INT8);
    tail_attempts = "history/tail_attempts" (FLOAT8, TEXT, TEXT, BOOL, INT8);
    count_recent = "history/count_recent" (INT8);
    read_destination = "parking/read_destination" (TEXT);
    settle_delivered_recorded = "history/settle_delivered" (
        INT8_ARRAY, TEXT_ARRAY, INT4_ARRAY, FLOAT8_ARRAY, INT4_ARRAY, TEXT_ARRAY, INT4_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        INT8_ARRAY
    );
    settle_retried_recorded = "history/settle_retried" (
        INT8_ARRAY, TEXT_ARRAY, FLOAT8_ARRAY, INT4_ARRAY, TEXT_ARRAY, FLOAT8_ARRAY, INT4_ARRAY, TEXT_ARRAY, INT4_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY
    );
    settle_quarantined_recorded = "history/settle_quarantined" (
        INT8_ARRAY, TEXT_ARRAY, INT4_ARRAY, TEXT_ARRAY, FLOAT8_ARRAY, INT4_ARRAY, TEXT_ARRAY, INT4_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TEXT_ARRAY, INT8_ARRAY
    );
    keep_attempts = "history/keep_attempts" (INT4, FLOAT8);
    listen_wake = "outbox/listen_wake" ();
    beat_ear = "outbox/beat_ear" (TEXT);
    prove_ear = "outbox/prove_ear" (INT4, TEXT);
    find_snapshots = "outbox/find_snapshots" ();
    find_blockers = "outbox/find_blockers" (TEXT);
    read_sealed = "outbox/read_sealed" (INT8, TEXT);
    read_registration = "registry/read_registration" (TEXT);
    inspect_table = "outbox/inspect_table" (TEXT);
    find_places = "sealed/find_places" (TEXT);
    list_outbox = "sealed/list_outbox" (TEXT, INT8);
    read_outbox = "sealed/read_outbox" (TEXT_ARRAY, INT8);
    reseal_outbox = "sealed/reseal_outbox" (TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY);
    list_registrations = "sealed/list_registrations" (TEXT, INT8);
    read_registrations = "sealed/read_registrations" (TEXT_ARRAY, INT8);
    reseal_registrations = "sealed/reseal_registrations" (TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY);
    list_scope_keys = "sealed/list_scope_keys" (TEXT, INT8);
    read_scope_keys = "sealed/read_scope_keys" (TEXT_ARRAY, INT8);
    reseal_scope_keys = "sealed/reseal_scope_keys" (TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY);
    list_scope_clients = "sealed/list_scope_clients" (TEXT, INT8);
    read_scope_clients = "sealed/read_scope_clients" (TEXT_ARRAY, INT8);
    reseal_scope_clients = "sealed/reseal_scope_clients" (TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY);
    read_newest = "sealed/read_newest" (TEXT, INT8, INT8);
    list_key_uses = "sealed/list_key_uses" ();
    find_replicas = "replicas/find_replicas" (TEXT);
    record_replica = "replicas/record_replica" (TEXT, TEXT, INT4, TEXT, TEXT_ARRAY, TEXT_ARRAY);
    remove_replica = "replicas/remove_replica" (TEXT);
    list_replicas = "replicas/list_replicas" ();
    find_parking = "parking/find_parking" (TEXT);
    park_destinations = "parking/park_destinations" (TEXT_ARRAY, FLOAT8_ARRAY, TEXT_ARRAY, INT4_ARRAY, TEXT);
    let_go_destinations = "parking/let_go_destinations" (TEXT_ARRAY, TEXT);
    forget_parked = "parking/forget_parked" ();
    read_parked = "parking/read_parked" (INT8, TEXT);
    claim_probes = "parking/claim_probes" (TEXT_ARRAY, TEXT, FLOAT8);
    list_destinations = "parking/list_destinations" (INT8, INT8, INT8);
    park_by_hand = "parking/park_by_hand" (TEXT, FLOAT8, TEXT, TEXT);
    release_by_hand = "parking/release_by_hand" (TEXT, TEXT, TEXT);
    find_caps = "parking/find_caps" (TEXT);
    read_caps = "parking/read_caps" (INT8);
    cap_by_hand = "parking/cap_by_hand" (TEXT, INT4, TEXT, TEXT);
    uncap_by_hand = "parking/uncap_by_hand" (TEXT, TEXT, TEXT);
    find_steering = "steer/find_steering" (TEXT);
    newest_row = "steer/newest_row" ();
    find_deliveries = "steer/find_deliveries" (TEXT, TEXT, INT8, INT8, INT4);
    change_deliveries = "steer/change_deliveries" (TEXT, TEXT, INT8_ARRAY, INT8, TEXT, TEXT, TEXT);
    read_sealed_past = "steer/read_sealed_past" (INT8_ARRAY, INT8);
    renew_deliveries = "steer/renew_deliveries" (
        TEXT, INT8_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, INT8, TEXT, TEXT, TEXT
    );
    read_run = "steer/read_run" (TEXT);
    read_steps = "steer/read_steps" (INT8, INT8);
    look_back = "steer/look_back" (INT8, FLOAT8);
    read_scopes = "scopes/read_scopes" (TEXT_ARRAY, TEXT_ARRAY);
    list_scopes = "scopes/list_scopes" (TEXT, INT8);
    put_scope = "scopes/put_scope" (TEXT, TEXT_ARRAY, BOOL, BYTEA, BYTEA, TEXT, TEXT, FLOAT8, FLOAT8, BYTEA, BYTEA);
    retire_key = "scopes/retire_key" (TEXT, TEXT, FLOAT8);
    remove_key = "scopes/remove_key" (TEXT, TEXT);
    decommission_scope = "scopes/decommission_scope" (TEXT);
    delete_keys = "scopes/delete_keys" (TEXT);
    accept_notification = "inbox/accept_notification" (TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, INT4);
    accept_notifications = "inbox/accept_notifications" (TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT4);
    compare_notification = "inbox/compare_notification" (TEXT, TEXT, TEXT, TEXT, TEXT, TEXT);
    read_notification = "inbox/read_notification" (TEXT);
    count_notifications = "inbox/count_notifications" ();
    sweep_notifications = "inbox/sweep_notifications" (TEXT, INT8);
    webhook_accept = "inbox/webhook_accept" (TEXT, TEXT, FLOAT8, BOOL, INT8, INT8, TEXT, TEXT, BYTEA, BYTEA, BYTEA, BYTEA, INT4);
    webhook_sample_nonces = "inbox/webhook_sample_nonces" ();
    webhook_purge_nonces = "inbox/webhook_purge_nonces" (FLOAT8, INT8);
    webhook_purge_settled = "inbox/webhook_purge_settled" (FLOAT8, INT8);
    webhook_sample_inbox = "inbox/webhook_sample_inbox" (INT8);
    webhook_claim = "inbox/webhook_claim" (TEXT, INT4, FLOAT8);
    webhook_complete = "inbox/webhook_complete" (INT8, TEXT);
    webhook_retry = "inbox/webhook_retry" (INT8, TEXT, TEXT, FLOAT8, FLOAT8);
    webhook_fail = "inbox/webhook_fail" (INT8, TEXT, TEXT);
    notification_claim = "inbox/notification_claim" (TEXT, FLOAT8);
    notification_complete = "inbox/notification_complete" (TEXT);
    notification_retry = "inbox/notification_retry" (TEXT, TEXT, FLOAT8, FLOAT8);
    notification_fail = "inbox/notification_fail" (TEXT, TEXT);
    judge_import = "inbox/judge_import" (TEXT);
    import_notifications = "inbox/import_notifications" (TEXT);
    compare_import = "inbox/compare_import" (TEXT);
    insert_rows = "demo/insert_rows" (TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY);
    read_states = "demo/read_states" ();
    create_buyers = "demo/create_buyers" ();
    read_inbox = "demo/read_inbox" (INT8);
    find_ledger = "ledger/find_ledger" ();
    lift_timeouts = "ledger/lift_timeouts" ();
    bound_locks = "ledger/bound_locks" ();
    find_index = "ledger/find_index" (TEXT, TEXT);
    drop_index = "ledger/drop_index" ();
    lock_ledger = "ledger/lock_ledger" ();
    create_ledger = "ledger/create_ledger" ();
    read_ledger = "ledger/read_ledger" (TEXT);
    record_migration = "ledger/record_migration" (TEXT, INT4, TEXT);
    find_missing = "ledger/find_missing" (TEXT);
    find_missing_functions = "ledger/find_missing_functions" (TEXT, TEXT_ARRAY, TEXT_ARRAY);
    find_served = "ledger/find_served" (TEXT);
}

pub(super) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// What one statement came to, for whoever counts.
pub(crate) struct Observation<'a> {
    pub(crate) statement: &'static str,
    /// From asking for a connection to having one.
    pub(crate) waited: Duration,
    /// From having it to the last row.
    pub(crate) took: Duration,
    /// How many rows came back, or why none.
    pub(crate) outcome: Result<usize, &'a Kind>,
}

pub(crate) type Observer = Arc<dyn Fn(&Observation<'_>) + Send + Sync>;

pub(super) struct Door {
    pub(super) pool: Pool,
    /// Whether statements are prepared under a name and kept with the connection.
    pub(super) named: bool,
    pub(super) timeout: Duration,
    pub(super) observer: Observer,
}

/// A connection whose statement has not ended. Dropped so (a timeout, a cancelled caller), it is taken out of
/// the pool and closed: the answer to an abandoned statement would still be on its way.
struct Held(Option<Object>);

impl Held {
    fn release(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

impl Door {
    /// Runs one statement on a connection of its own and gives the connection back. Each row is read when it comes: a large
    /// one would otherwise lie in memory twice until the last has come.
    pub(super) async fn ask<T>(
        &self,
        statement: &Statement,
        parameters: &[Parameter<'_>],
        read: impl Fn(&Row) -> T,
    ) -> Result<Vec<T>, StoreError> {
        let begun = Instant::now();
        let deadline = begun + self.timeout;
        let object = match timeout_at(deadline, self.pool.get()).await {
            Ok(Ok(object)) => Ok(object),
            Ok(Err(error)) => Err(Kind::of_pool(&error, begun.elapsed())),
            Err(_) => Err(Kind::Timeout { after: self.timeout }),
        };
        let waited = begun.elapsed();
        let answer = match object {
            Ok(object) => self.ask_on(object, statement, parameters, read, deadline).await,
            Err(kind) => Err(kind),
        };
        (self.observer)(&Observation {
            statement: statement.label,
            waited,
            took: begun.elapsed() - waited,
            outcome: answer.as_ref().map(Vec::len),
        });
        answer.map_err(|kind| StoreError::new(statement.label, kind))
    }

    async fn ask_on<T>(
        &self,
        object: Object,
        statement: &Statement,
        parameters: &[Parameter<'_>],
        read: impl Fn(&Row) -> T,
        deadline: Instant,
    ) -> Result<Vec<T>, Kind> {
        let begun = Instant::now();
        let held = Held(Some(object));
        let Some(client) = &held.0 else {
            return Ok(Vec::new());
        };
        let answer = timeout_at(deadline, async {
            if !self.named {
                let rows = client.query_typed_raw(&statement.sql, typed(statement, parameters)).await?;
                killpoint!(statement.label);
                return collect(rows, read).await;
            }
            match named(client, statement, parameters, &read).await {
                // The table was altered since the statement was prepared, or a pooler moved us to another
                // server connection. The statement was refused before it did anything: once more, afresh.
                Err(error) if is_stale(&error) => {
                    client.statement_cache.remove(&statement.sql, &statement.types);
                    named(client, statement, parameters, &read).await
                }
                answer => answer,
            }
        })
        .await;
        match answer {
            Ok(Ok(rows)) => {
                held.release();
                Ok(rows)
            }
            Ok(Err(error)) => {
                let kind = Kind::of(&error, begun.elapsed());
                if kind == Kind::ReadOnly {
                    // The others lead to the same demoted server.
                    drop(self.pool.retain(|_, _| false));
                }
                if !kind.spoils_connection() {
                    held.release();
                }
                Err(kind)
            }
            Err(_) => Err(Kind::Timeout { after: self.timeout }),
        }
    }
}

fn is_stale(error: &Error) -> bool {
    error
        .code()
        .is_some_and(|code| *code == SqlState::FEATURE_NOT_SUPPORTED || *code == SqlState::INVALID_SQL_STATEMENT_NAME)
}

async fn named<T>(
    client: &Object,
    statement: &Statement,
    parameters: &[Parameter<'_>],
    read: impl Fn(&Row) -> T,
) -> Result<Vec<T>, Error> {
    let prepared = client.prepare_typed_cached(&statement.sql, &statement.types).await?;
    let rows = client.query_raw(&prepared, parameters.iter().copied()).await?;
    killpoint!(statement.label);
    collect(rows, read).await
}

async fn collect<T>(rows: RowStream, read: impl Fn(&Row) -> T) -> Result<Vec<T>, Error> {
    rows.map_ok(|row| read(&row)).try_collect().await
}

/// The same inside a migration's transaction, where nothing is worth keeping prepared.
pub(super) async fn ask_in(
    transaction: &Transaction<'_>,
    statement: &Statement,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, Error> {
    transaction.query_typed(&statement.sql, &typed(statement, parameters)).await
}

pub(super) fn typed<'a>(statement: &Statement, parameters: &[Parameter<'a>]) -> Vec<(Parameter<'a>, Type)> {
    parameters.iter().copied().zip(statement.types.iter().cloned()).collect()
}
