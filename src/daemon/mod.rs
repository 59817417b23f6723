//! The composition root: builds the parts, starts the loops, answers signals, drains. Decides nothing about a row.

mod census;
mod expiry;
mod hear;
mod loops;
mod outage;
mod pace;
mod presence;
mod receive;
mod reload;
mod snapshots;
mod sweep;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

pub(crate) use loops::skew;
pub(crate) use receive::run as receive;

use crate::claim::{Limits, Parking, Slots};
use crate::config::{Config, ConfigError, Log, Sources, Sweep};
use crate::deliver::{Phase, Phases, ResolverWatch, Snapshot, SnapshotError, Tools};
use crate::receive::ProfileError;
use crate::sealing;
use crate::settle;
use crate::store::{Finding, Kind, OpenError, Severity, Store};
use crate::telemetry::admin::{self, Admin};
use crate::telemetry::health::{Condition, Health, Loop};
use crate::telemetry::{logs, metrics};
use hear::Ear;
use outage::Outage;
use presence::Presence;
use reload::Reloader;

/// What of the drain time is kept for settling what the cut-off left.
const SETTLE_RESERVE: Duration = Duration::from_secs(2);
/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("log.filter does not parse; accepted: a level such as \"info\", or \"outboxd=debug\"")]
    LogFilter,
    #[error("the outbox cannot be used as it is:\n{0}")]
    Schema(String),
    #[error(transparent)]
    Database(#[from] OpenError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("{key}: cannot listen on {address}: {reason}")]
    Listen { key: &'static str, address: String, reason: String },
    #[error("sealing.listen: {0}")]
    Sealing(std::io::Error),
    #[error(
        "envelope key {fingerprint} cannot go yet: {}{rows} open rows or registrations need it; run `outboxd rekey`, then \
         reload again", if *.more { "at least " } else { "" }
    )]
    KeyNeeded { fingerprint: String, rows: u64, more: bool },
    #[error(
        "an envelope key is missing from the configuration, and whether open rows need it could not be told: {reason}; put it \
         back, or see `outboxd keys --may-drop` and start anew"
    )]
    KeyUnclear { reason: String },
    #[error("the operating system refused {what}: {reason}")]
    System { what: &'static str, reason: String },
}

fn on(kind: SignalKind) -> Result<Signal, DaemonError> {
    signal(kind).map_err(|error| DaemonError::System { what: "signal handlers", reason: error.to_string() })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, DaemonError> {
        Ok(Signals { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Runs until a signal ends it. An error means that nothing was claimed.
pub(crate) async fn run(config: Config, sources: Sources) -> Result<(), DaemonError> {
    let settings = &config.settings;
    let recorder = open_telemetry(&settings.log)?;
    let (mut signals, mut hangup) = (Signals::listen()?, on(SignalKind::hangup())?);
    let store = Arc::new(Store::open(&config.store()?, Arc::new(metrics::statement))?);
    let mut reloader = Reloader::start(sources, store.clone()).await?;
    let snapshot = reloader.snapshot();

    let silence = settings.database.statement_timeout * 2 + settings.delivery.poll_interval + Duration::from_secs(30);
    let watched = [Condition::Database, Condition::Schema, Condition::Clock];
    let health = Arc::new(Health::new(silence, &Loop::ALL, &watched));
    let outage = Arc::new(Outage::new(health.clone()));
    open_admin(settings.admin.listen, &health, recorder).await?;
    refuse_wrong_schema(&store, &health, &outage).await?;
    if settings.signing.scopes_table {
        refuse_missing_scopes(&store).await?;
    }
    let presence = Arc::new(Presence::new(store.clone(), snapshot.clone()));
    // A database that is not there yet would only make the start wait; the probe says it then.
    if !health.has(Condition::Database) {
        presence.announce().await;
    }

    let phases = Phases::new();
    let sealing = match &settings.sealing.listen {
        Some(address) => sealing::listen(address, snapshot.clone(), phases.clone()).map_err(DaemonError::Sealing)?,
        None => tokio::spawn(async {}),
    };
    let slots = Slots::new(limits(&config));
    let (judged, queue) = settle::channel();
    let settling = tokio::spawn(settle::run(store.clone(), queue, health.clone()));
    let name_servers = ResolverWatch::start(health.clone(), snapshot.clone());
    let tools = Tools::new(&config, snapshot.clone(), phases.clone(), judged, health.clone(), name_servers);
    let ear = Arc::new(Ear::default());
    let mut parking = Parking::new(slots.clone(), store.clone(), presence.name(), ear.bell());
    if !health.has(Condition::Database) {
        parking.learn().await;
    }
    let claiming = tokio::spawn(loops::claim(
        store.clone(),
        slots.clone(),
        Arc::new(tools),
        settings.delivery.poll_interval,
        ear.clone(),
        phases.clone(),
        outage.clone(),
    ));
    tokio::spawn(hear::hear(store.clone(), ear));
    tokio::spawn(parking.share());
    tokio::spawn(sweep::sweep(store.clone(), settings.sweep.clone(), outage.clone()));
    tokio::spawn(loops::probe(store.clone(), slots.clone(), outage.clone(), presence.clone()));
    look_on(&store, &snapshot, &health, &settings.sweep);
    notify(&[sd_notify::NotifyState::Ready]);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), slots = settings.delivery.slots, "running");

    // A reload that is under way when the end is asked for is dropped: what it was for is over.
    tokio::select! {
        () = signals.stop() => {}
        () = reloader.attend(&mut hangup, &presence, &health) => {}
    }
    let ends = Instant::now() + settings.delivery.drain_timeout;
    drain(settings.delivery.drain_timeout, &mut signals, &slots, &phases, &health).await;
    // Whoever still holds a slot now waits for a database that does not answer; there is nothing left to wait for.
    if slots.in_flight() > 0 {
        let rows = slots.in_flight();
        tracing::warn!(rows, "stopping with unsettled rows; they are due again when their leases end");
    }
    presence.leave().await;
    claiming.abort();
    settling.abort();
    // Whoever is being answered gets the answer, if it does not take longer than the drain may.
    let _ = tokio::time::timeout_at(ends.max(Instant::now() + SETTLE_RESERVE), sealing).await;
    // Receivers of the last attempts could look up their keys until now.
    reloader.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Whatever only looks: deliveries go on without it.
fn look_on(store: &Arc<Store>, snapshot: &Arc<ArcSwap<Snapshot>>, health: &Arc<Health>, sweep: &Sweep) {
    tokio::spawn(snapshots::run(store.clone(), health.clone(), sweep.snapshot_warning));
    tokio::spawn(census::run(store.clone(), snapshot.clone(), health.clone()));
    tokio::spawn(loops::watchdog(health.clone()));
    tokio::spawn(expiry::watch(snapshot.clone()));
}

fn open_telemetry(log: &Log) -> Result<PrometheusHandle, DaemonError> {
    logs::install(log.format, &log.filter).map_err(|_| DaemonError::LogFilter)?;
    metrics::install().map_err(|e| DaemonError::System { what: "the metrics recorder", reason: e.to_string() })
}

async fn open_admin(
    address: Option<SocketAddr>,
    health: &Arc<Health>,
    metrics: PrometheusHandle,
) -> Result<(), DaemonError> {
    let Some(address) = address else { return Ok(()) };
    let admin = Admin { health: health.clone(), metrics };
    let bound = admin::listen(address, admin).await.map_err(|error| DaemonError::Listen {
        key: "admin.listen",
        address: address.to_string(),
        reason: error.to_string(),
    })?;
    tracing::info!(addr = %bound, "admin listening");
    Ok(())
}

fn limits(config: &Config) -> Limits {
    let delivery = &config.settings.delivery;
    Limits {
        slots: delivery.slots,
        per_destination_start: delivery.per_destination_start,
        per_destination: delivery.per_destination,
        park_after: delivery.park_after,
        attempt: config.settings.egress.attempt_timeout,
        claim_batch: delivery.claim_batch,
        max_in_flight_bytes: delivery.max_in_flight_bytes,
        lease: delivery.lease,
    }
}

/// A database that answers with a schema we cannot use stops the start. One that does not answer does not: it may
/// come up after us, and is looked at then.
async fn refuse_wrong_schema(store: &Store, health: &Health, outage: &Outage) -> Result<(), DaemonError> {
    match store.preflight().await {
        Ok(findings) => {
            let refused: Vec<String> = refusals(&findings).collect();
            if !refused.is_empty() {
                return Err(DaemonError::Schema(refused.join("\n")));
            }
            for finding in findings {
                tracing::warn!(finding = %finding, "the outbox can be used, but not as it should be");
            }
            health.set(Condition::Schema, None);
            outage.ok();
            Ok(())
        }
        Err(error) => {
            outage.failed("start", &error);
            Ok(())
        }
    }
}

/// Scopes that cannot be read because nobody made their table, or may not be, would make every row wait.
async fn refuse_missing_scopes(store: &Store) -> Result<(), DaemonError> {
    match store.read_scopes(&[]).await {
        Err(error) if matches!(error.kind, Kind::Schema { .. } | Kind::Permission) => {
            Err(DaemonError::Schema(format!("signing.scopes_table: {error}")))
        }
        _ => Ok(()),
    }
}

/// What of the findings forbids to go on.
fn refusals(findings: &[Finding]) -> impl Iterator<Item = String> {
    findings.iter().filter(|finding| finding.severity == Severity::Refuse).map(ToString::to_string)
}

/// Claims no more; lets running attempts end while there is time; cuts off the rest so that their rows are given back.
/// A row leaves its slot only when its verdict is in the database, so that free slots mean that all is settled.
async fn drain(limit: Duration, signals: &mut Signals, slots: &Slots, phases: &Phases, health: &Health) {
    let ends = Instant::now() + limit;
    notify(&[sd_notify::NotifyState::Stopping]);
    phases.enter(Phase::Draining);
    health.set(Condition::Draining, Some("stopping".into()));
    tracing::info!(in_flight = slots.in_flight(), "draining: no new claims; running attempts may end");
    let reserve = SETTLE_RESERVE.min(limit / 4);
    let finished = tokio::select! {
        () = slots.drained() => true,
        () = tokio::time::sleep_until(ends - reserve) => false,
        () = signals.stop() => false,
    };
    if !finished {
        tracing::info!(in_flight = slots.in_flight(), "cutting off what still runs and giving its rows back");
        phases.enter(Phase::Cut);
        let _ = tokio::time::timeout(reserve, slots.drained()).await;
    }
}

/// Outside systemd there is nobody to notify, and that is no failure.
fn notify(states: &[sd_notify::NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
