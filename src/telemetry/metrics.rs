//! The metrics: names, units, help and the calls that move those of the whole process. Label values come from closed enums and
//! the configuration only.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub(super) const ATTEMPTS: &str = "outboxd_attempts_total";
pub(super) const ATTEMPT_DURATION: &str = "outboxd_attempt_duration_seconds";
pub(super) const VISIBLE_TO_SETTLED: &str = "outboxd_visible_to_settled_seconds";
pub(super) const CLAIMS: &str = "outboxd_claims_total";
pub(super) const CLAIMED_ROWS: &str = "outboxd_claimed_rows_total";
pub(super) const SETTLED_ROWS: &str = "outboxd_settled_rows_total";
pub(super) const LEASES_LOST: &str = "outboxd_leases_lost_total";
pub(super) const SETTLES_ABANDONED: &str = "outboxd_settles_abandoned_total";
pub(super) const IN_FLIGHT: &str = "outboxd_in_flight_rows";
const SLOTS: &str = "outboxd_slots";
pub(super) const BACKLOG: &str = "outboxd_backlog_due_rows";
pub(super) const OLDEST_DUE: &str = "outboxd_oldest_due_age_seconds";
pub(super) const OLDEST_CLAIMABLE: &str = "outboxd_oldest_claimable_age_seconds";
pub(super) const REPLICAS: &str = "outboxd_replicas";
pub(super) const HEARING: &str = "outboxd_wakeups_heard";
pub(super) const WAKE_UPS: &str = "outboxd_wakeups_total";
pub(super) const OLDEST_SNAPSHOT: &str = "outboxd_oldest_snapshot_seconds";
pub(super) const EXPIRED_ROWS: &str = "outboxd_expired_rows_total";
pub(super) const PURGED_ROWS: &str = "outboxd_purged_rows_total";
pub(super) const UNRECORDED: &str = "outboxd_attempts_unrecorded_total";
const CONNECTIONS: &str = "outboxd_connections_total";
const DIALS: &str = "outboxd_dials_total";
const CONNECTIONS_IDLE: &str = "outboxd_connections_idle";
const DESTINATIONS_PARKED: &str = "outboxd_destinations_parked";
const DESTINATIONS_BEHIND: &str = "outboxd_destinations_behind";
const ACCOUNTS_FULL: &str = "outboxd_accounts_full";
const DESTINATIONS_TURNED: &str = "outboxd_destination_parkings_total";
const LOWEST_CAP: &str = "outboxd_destination_lowest_cap_rows";
const RESOLVER_DOWN: &str = "outboxd_resolver_down";
pub(super) const STATEMENT_DURATION: &str = "outboxd_statement_duration_seconds";
pub(super) const CONNECTION_WAIT: &str = "outboxd_database_connection_wait_seconds";
pub(super) const STATEMENT_ERRORS: &str = "outboxd_statement_errors_total";
pub(super) const DATABASE_CONNECTIONS: &str = "outboxd_database_connections";
pub(super) const CLOCK_SKEW: &str = "outboxd_database_clock_skew_seconds";
const LOG_LINES_DROPPED: &str = "outboxd_log_lines_dropped_total";
#[cfg(feature = "otlp")]
const SPANS: &str = "outboxd_spans_total";
const RELOADS: &str = "outboxd_config_reloads_total";
const RELOAD_FAILED: &str = "outboxd_config_reload_failed";
pub(super) const ENVELOPE_ROWS: &str = "outboxd_envelope_rows";
pub(super) const ENVELOPE_CENSUS_AGE: &str = "outboxd_envelope_census_age_seconds";
const EGRESS_ALLOWED: &str = "outboxd_egress_allowed_networks";
const EARLIEST_EXPIRY: &str = "outboxd_earliest_expiry_timestamp_seconds";
const SEALING_REQUESTS: &str = "outboxd_sealing_requests_total";
const SEALED_ITEMS: &str = "outboxd_sealed_items_total";
pub(crate) const RECEIVED_WEBHOOKS: &str = "outboxd_received_webhooks_total";
const INBOX_MESSAGES: &str = "outboxd_inbox_messages";
const FORWARDED: &str = "outboxd_forwarded_messages_total";
const JWKS_REQUESTS: &str = "outboxd_jwks_requests_total";
const JWKS_KEYS: &str = "outboxd_jwks_keys";
const JWKS_FAULTS: &str = "outboxd_jwks_faults";
const READY: &str = "outboxd_ready";
pub(super) const OUTBOX_READY: &str = "outboxd_outbox_ready";
const RECEIVED_REQUESTS: &str = "outboxd_received_requests_total";
const RECEIVED_DURATION: &str = "outboxd_received_request_duration_seconds";
const RECEIVING_CONNECTIONS: &str = "outboxd_receiving_connections";
const CONNECTIONS_CLOSED: &str = "outboxd_receiving_connections_closed_total";
const INBOX_DAMAGED: &str = "outboxd_inbox_damaged_rows";
const BUILD_INFO: &str = "outboxd_build_info";

const FOLD_EVERY: Duration = Duration::from_secs(2);

/// Makes the process-wide recorder. Called once, before the first metric moves.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
    let waits = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0];
    let handle = PrometheusBuilder::new()
        .set_buckets(&seconds)?
        .set_buckets_for_metric(Matcher::Full(VISIBLE_TO_SETTLED.into()), &waits)?
        .install_recorder()?;
    describe();
    gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    gauge!(RELOAD_FAILED).set(0.0);
    gauge!(RESOLVER_DOWN).set(0.0);
    gauge!(READY).set(0.0);
    counter!(LOG_LINES_DROPPED).increment(0);
    Ok(handle)
}

/// Folds what was recorded into the histograms now and then. Until somebody does, every single value is kept, and where
/// nobody scrapes, nobody else does.
pub(crate) async fn fold(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(FOLD_EVERY).await;
        handle.run_upkeep();
    }
}

fn describe() {
    let count = Unit::Count;
    describe_counter!(ATTEMPTS, count, "Rows taken up, by outcome code.");
    describe_histogram!(ATTEMPT_DURATION, Unit::Seconds, "Time of one attempt, from DNS to the end of the reply.");
    describe_histogram!(VISIBLE_TO_SETTLED, Unit::Seconds, "From the moment a row was due to its settled verdict.");
    describe_counter!(CLAIMS, count, "Claim statements, by result.");
    describe_counter!(CLAIMED_ROWS, count, "Rows claimed.");
    describe_counter!(SETTLED_ROWS, count, "Rows settled under their lease, by verdict.");
    describe_counter!(LEASES_LOST, count, "Verdicts whose row had another lease by then, by outcome code.");
    describe_counter!(
        SETTLES_ABANDONED,
        count,
        "Verdicts given up because their lease ended before Postgres took them."
    );
    describe_counter!(UNRECORDED, count, "Attempts settled without a record, since the history could not be written.");
    describe_gauge!(IN_FLIGHT, count, "Rows that this process claimed and whose attempt is not over.");
    describe_gauge!(SLOTS, count, "Attempts that this process may have under way at once.");
    describe_gauge!(BACKLOG, count, "Due rows, counted up to 10000.");
    describe_gauge!(OLDEST_DUE, Unit::Seconds, "How long the oldest due row has been due.");
    describe_gauge!(
        OLDEST_CLAIMABLE,
        Unit::Seconds,
        "How long the oldest due row has been due, rows of parked destinations aside."
    );
    describe_gauge!(REPLICAS, count, "Replicas that said within a minute that they live.");
    describe_gauge!(
        HEARING,
        count,
        "1 while hosts' wake-ups are known to come through; else rows are found by looking."
    );
    describe_counter!(WAKE_UPS, count, "Wake-ups heard from hosts.");
    describe_gauge!(
        OLDEST_SNAPSHOT,
        Unit::Seconds,
        "Age of what keeps dead rows from being removed: a transaction, a prepared one, a standby or a slot."
    );
    describe_counter!(EXPIRED_ROWS, count, "Rows marked expired past their horizon.");
    describe_counter!(PURGED_ROWS, count, "Finished rows deleted past their horizon.");
    describe_counter!(CONNECTIONS, count, "Connections used by attempts, opened or reused.");
    describe_counter!(DIALS, count, "Connections begun to receivers, one for each address tried.");
    describe_gauge!(CONNECTIONS_IDLE, count, "Kept connections without an attempt.");
    describe_gauge!(DESTINATIONS_PARKED, count, "Destinations left alone for now, since they failed or asked for it.");
    describe_gauge!(
        ACCOUNTS_FULL,
        count,
        "Accounts that hold all the slots that `delivery.account_share` leaves them; only where it is set."
    );
    describe_gauge!(DESTINATIONS_BEHIND, count, "Destinations known to have rows due that wait for room.");
    describe_counter!(DESTINATIONS_TURNED, count, "How often this process parked a destination, by reason.");
    describe_gauge!(LOWEST_CAP, count, "The fewest attempts at once that a destination in use is given.");
    describe_gauge!(RESOLVER_DOWN, count, "1 while the name servers answer nothing and nothing is claimed.");
    describe_histogram!(STATEMENT_DURATION, Unit::Seconds, "Time of one statement, by its file.");
    describe_histogram!(CONNECTION_WAIT, Unit::Seconds, "Time that a statement waited for a connection of the pool.");
    describe_counter!(STATEMENT_ERRORS, count, "Failed statements, by file and kind.");
    describe_gauge!(DATABASE_CONNECTIONS, count, "Connections to Postgres, by state.");
    describe_gauge!(CLOCK_SKEW, Unit::Seconds, "The database's clock less ours.");
    describe_counter!(
        LOG_LINES_DROPPED,
        count,
        "Log lines that were not written: stdout was full, or not read fast enough."
    );
    describe_counter!(RELOADS, count, "Reloads of keys and egress policy, by result.");
    describe_gauge!(RELOAD_FAILED, count, "1 while the last reload failed and an older snapshot is in use.");
    describe_gauge!(ENVELOPE_ROWS, count, "What an envelope key is needed for, by place and the key's fingerprint.");
    describe_gauge!(ENVELOPE_CENSUS_AGE, Unit::Seconds, "Since outboxd_envelope_rows was last counted to the end.");
    describe_gauge!(EGRESS_ALLOWED, count, "Private networks that the configuration opened.");
    describe_gauge!(
        EARLIEST_EXPIRY,
        Unit::Seconds,
        "When the first certificate or key in use expires (Unix time), by kind."
    );
    describe_gauge!(READY, count, "1 while /readyz is green.");
    describe_gauge!(OUTBOX_READY, count, "1 while this outbox of [[outboxes]] is served.");
    describe_gauge!(BUILD_INFO, count, "Always 1; the version is in the label.");
    describe_listeners();
}

/// What others come to this process for.
fn describe_listeners() {
    let count = Unit::Count;
    describe_counter!(RECEIVED_REQUESTS, count, "Requests answered by `outboxd receive`, by HTTP status.");
    describe_histogram!(RECEIVED_DURATION, Unit::Seconds, "Time from a request's head to its answer.");
    describe_gauge!(RECEIVING_CONNECTIONS, count, "Connections to `outboxd receive`.");
    describe_counter!(CONNECTIONS_CLOSED, count, "Connections closed for want of room, by reason.");
    describe_gauge!(INBOX_DAMAGED, count, "Stored notifications that the latest sweep found damaged.");
    describe_counter!(SEALING_REQUESTS, count, "Requests to the sealing listener, by result.");
    describe_counter!(SEALED_ITEMS, count, "Items sealed for callers of the sealing listener, by kind.");
    describe_counter!(RECEIVED_WEBHOOKS, count, "Webhooks answered by `outboxd receive`, by outcome code.");
    describe_gauge!(INBOX_MESSAGES, count, "Messages of the inbox with work left, by state, each counted up to 10000.");
    describe_counter!(FORWARDED, count, "Hand-overs of messages to the host, by result.");
    describe_counter!(JWKS_REQUESTS, count, "Requests to the JWKS listener, by result.");
    describe_gauge!(JWKS_KEYS, count, "Keys in the published set of all keys.");
    describe_gauge!(JWKS_FAULTS, count, "Scopes and key ids that are not published as they should be.");
}

/// What every delivery moves is looked up once: finding a metric by its name and labels costs more than to move it.
macro_rules! kept {
    ($kind:ident, $metric:expr) => {{
        static METRIC: LazyLock<$kind> = LazyLock::new(|| $metric);
        &*METRIC
    }};
}

/// How many there are, for all outboxes together.
pub(crate) fn slots(slots: usize) {
    gauge!(SLOTS).set(slots as f64);
}

pub(crate) fn connection(reused: bool) {
    match reused {
        true => kept!(Counter, counter!(CONNECTIONS, "kind" => "reused")).increment(1),
        false => counter!(CONNECTIONS, "kind" => "opened").increment(1),
    }
}

/// The sum so far, which the process keeps.
pub(crate) fn dials(total: u64) {
    kept!(Counter, counter!(DIALS)).absolute(total);
}

pub(crate) fn connections_idle(count: usize) {
    kept!(Gauge, gauge!(CONNECTIONS_IDLE)).set(count as f64);
}

pub(crate) fn destinations_behind(count: usize) {
    gauge!(DESTINATIONS_BEHIND).set(count as f64);
}

pub(crate) fn accounts_full(count: usize) {
    gauge!(ACCOUNTS_FULL).set(count as f64);
}

pub(crate) fn destinations_parked(count: usize) {
    gauge!(DESTINATIONS_PARKED).set(count as f64);
}

/// Reasons are a closed list; destinations are no labels.
pub(crate) fn destination_parked(reason: &'static str) {
    counter!(DESTINATIONS_TURNED, "reason" => reason).increment(1);
}

pub(crate) fn lowest_cap(rows: u32) {
    gauge!(LOWEST_CAP).set(f64::from(rows));
}

pub(crate) fn resolver_down(down: bool) {
    gauge!(RESOLVER_DOWN).set(if down { 1.0 } else { 0.0 });
}

pub(super) fn log_line_dropped() {
    counter!(LOG_LINES_DROPPED).increment(1);
}

/// Where spans are exported, each way that one can go is there from the start.
#[cfg(feature = "otlp")]
pub(super) fn begin_spans() {
    describe_counter!(SPANS, Unit::Count, "Spans of attempts, by what became of them.");
    for result in ["exported", "failed", "dropped"] {
        spans(result, 0);
    }
}

#[cfg(feature = "otlp")]
pub(super) fn spans(result: &'static str, spans: usize) {
    counter!(SPANS, "result" => result).increment(spans as u64);
}

pub(crate) fn reloaded(ok: bool) {
    counter!(RELOADS, "result" => if ok { "ok" } else { "failed" }).increment(1);
    gauge!(RELOAD_FAILED).set(if ok { 0.0 } else { 1.0 });
}

pub(crate) fn egress_allowed(networks: usize) {
    gauge!(EGRESS_ALLOWED).set(networks as f64);
}

pub(crate) fn earliest_expiry(kind: &'static str, at: f64) {
    gauge!(EARLIEST_EXPIRY, "kind" => kind).set(at);
}

/// Statuses come from the profiles' closed lists.
pub(crate) fn receive_answered(status: u16, took: Duration) {
    counter!(RECEIVED_REQUESTS, "status" => status.to_string()).increment(1);
    histogram!(RECEIVED_DURATION).record(took.as_secs_f64());
}

pub(crate) fn receive_connections(count: usize) {
    gauge!(RECEIVING_CONNECTIONS).set(count as f64);
}

/// There was no room, and nobody who could have made it.
pub(crate) fn receive_turned_away() {
    counter!(CONNECTIONS_CLOSED, "reason" => "turned_away").increment(1);
}

/// It had kept us waiting longest when another needed its place.
pub(crate) fn receive_made_room() {
    counter!(CONNECTIONS_CLOSED, "reason" => "made_room").increment(1);
}

pub(crate) fn webhook_received(code: &'static str) {
    counter!(RECEIVED_WEBHOOKS, "code" => code).increment(1);
}

pub(crate) fn webhook_inbox(due: u64, lapsed: u64, failed: u64) {
    for (state, count) in [("due", due), ("lapsed", lapsed), ("failed", failed)] {
        gauge!(INBOX_MESSAGES, "state" => state).set(count as f64);
    }
}

pub(crate) fn forwarded(result: &'static str) {
    counter!(FORWARDED, "result" => result).increment(1);
}

pub(crate) fn inbox_damaged(rows: u64) {
    gauge!(INBOX_DAMAGED).set(rows as f64);
}

pub(crate) fn sealing_request(result: &'static str) {
    counter!(SEALING_REQUESTS, "result" => result).increment(1);
}

pub(crate) fn sealed(kind: &'static str) {
    counter!(SEALED_ITEMS, "kind" => kind).increment(1);
}

pub(crate) fn jwks_request(result: &'static str) {
    counter!(JWKS_REQUESTS, "result" => result).increment(1);
}

pub(crate) fn jwks_published(keys: usize, faults: usize) {
    gauge!(JWKS_KEYS).set(keys as f64);
    gauge!(JWKS_FAULTS).set(faults as f64);
}

pub(crate) fn ready(ready: bool) {
    gauge!(READY).set(if ready { 1.0 } else { 0.0 });
}
