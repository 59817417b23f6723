//! The composition root: builds the parts, starts the loops, answers signals, drains. Decides nothing about a row.

mod census;
mod expiry;
mod hear;
mod history;
mod loops;
mod outage;
mod outboxes;
mod pace;
mod presence;
mod receive;
mod reload;
mod sampling;
mod snapshots;
mod sweep;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

pub(crate) use receive::run as receive;

use crate::claim::{Limits, Slots};
use crate::config::{Config, ConfigError, Log, Sources};
use crate::deliver::{Phase, Phases, ResolverWatch, SnapshotError, Spans};
use crate::receive::ProfileError;
use crate::sealing;
use crate::store::{Finding, OpenError, Severity};
use crate::telemetry::admin::{self, Admin};
use crate::telemetry::health::{Condition, Health};
use crate::telemetry::logs::{self, LogsError};
use crate::telemetry::metrics;
pub(crate) use outboxes::NO_ACCOUNT_INDEX;
use outboxes::{Needs, Outbox, Running, Shared, refuse_unusable};
use presence::{Identity, Presence};
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
    #[error("tracing.otlp_endpoint: {reason}")]
    Spans { reason: String },
    #[error(
        "{title}envelope key {fingerprint} cannot go yet: {}{rows} open rows or registrations need it; run `outboxd rekey`, then \
         reload again", if *.more { "at least " } else { "" }
    )]
    KeyNeeded { title: String, fingerprint: String, rows: u64, more: bool },
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
    let outboxes: Arc<[Outbox]> = outboxes::open(&config)?.into();
    let mut reloader = Reloader::start(sources, outboxes.clone()).await?;
    let snapshot = reloader.snapshot();

    // What is no outbox's own may be told to any of them.
    let health = outboxes[0].health.clone();
    open_admin(settings.admin.listen, &health, recorder).await?;
    refuse_unusable(&outboxes, Needs::of(&config)).await?;
    let identity = Identity::new();
    let presences: Vec<Arc<Presence>> = outboxes.iter().map(|outbox| outbox.presence(&identity, &snapshot)).collect();
    // A database that is not there yet would only make the start wait; the probe says it then.
    let reached = outboxes.iter().zip(&presences).filter(|(outbox, _)| outbox.is_reached());
    join_all(reached.map(|(_, presence)| presence.announce())).await;

    let phases = Phases::new();
    let sealing = match &settings.sealing.listen {
        Some(address) => sealing::listen(address, snapshot.clone(), phases.clone()).map_err(DaemonError::Sealing)?,
        None => tokio::spawn(async {}),
    };
    let weights: Vec<u32> = outboxes.iter().map(|outbox| outbox.weight).collect();
    let slots = Slots::of_outboxes(limits(&config), &weights);
    let name_servers = ResolverWatch::start(health.clone(), snapshot.clone());
    let spans = Spans::start(&settings.tracing, identity.replica())
        .map_err(|error| DaemonError::Spans { reason: error.to_string() })?;
    let shared = Shared { snapshot: snapshot.clone(), phases: phases.clone(), name_servers, spans: spans.clone() };
    let views = outboxes.iter().zip(&slots).zip(&presences);
    let running: Vec<Running> =
        views.map(|((outbox, slots), presence)| outbox.serve(&config, slots, presence, &shared)).collect();
    let slots = slots[0].clone();
    tokio::spawn(loops::watchdog(health.clone()));
    tokio::spawn(expiry::watch(snapshot));
    notify(&[sd_notify::NotifyState::Ready]);
    let (version, count) = (env!("CARGO_PKG_VERSION"), outboxes.len());
    tracing::info!(version, slots = settings.delivery.slots, outboxes = count, "running");

    // A reload that is under way when the end is asked for is dropped: what it was for is over.
    tokio::select! {
        () = signals.stop() => {}
        () = reloader.attend(&mut hangup, &presences, &health) => {}
    }
    let ends = Instant::now() + settings.delivery.drain_timeout;
    drain(settings.delivery.drain_timeout, &mut signals, &slots, &phases, &health).await;
    // What is unsettled now waits for a database that does not answer; there is nothing left to wait for.
    if slots.all_unsettled() > 0 {
        let rows = slots.all_unsettled();
        tracing::warn!(rows, "stopping with unsettled rows; they are due again when their leases end");
    }
    tokio::join!(join_all(presences.iter().map(|presence| presence.leave())), spans.close());
    running.iter().for_each(Running::stop);
    // Whoever is being answered gets the answer, if it does not take longer than the drain may.
    let _ = tokio::time::timeout_at(ends.max(Instant::now() + SETTLE_RESERVE), sealing).await;
    // Receivers of the last attempts could look up their keys until now.
    reloader.stop().await;
    tracing::info!("stopped");
    Ok(())
}

fn open_telemetry(log: &Log) -> Result<PrometheusHandle, DaemonError> {
    logs::install(log.format, &log.filter).map_err(|error| match error {
        LogsError::Filter(_) => DaemonError::LogFilter,
        LogsError::Thread(e) => DaemonError::System { what: "a thread for log lines", reason: e.to_string() },
    })?;
    let recorder =
        metrics::install().map_err(|e| DaemonError::System { what: "the metrics recorder", reason: e.to_string() })?;
    tokio::spawn(metrics::fold(recorder.clone()));
    Ok(recorder)
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
        account_rows: delivery.account_rows(),
        attempt: config.settings.egress.attempt_timeout,
        claim_batch: delivery.claim_batch,
        max_in_flight_bytes: delivery.max_in_flight_bytes,
        lease: delivery.lease,
    }
}

/// What of the findings forbids to go on.
fn refusals(findings: &[Finding]) -> impl Iterator<Item = String> {
    findings.iter().filter(|finding| finding.severity == Severity::Refuse).map(ToString::to_string)
}

/// Claims no more; lets running attempts end while there is time; cuts off the rest so that their rows are given back.
/// Over is it when every verdict is in the database.
async fn drain(limit: Duration, signals: &mut Signals, slots: &Slots, phases: &Phases, health: &Health) {
    let ends = Instant::now() + limit;
    notify(&[sd_notify::NotifyState::Stopping]);
    phases.enter(Phase::Draining);
    health.set(Condition::Draining, Some("stopping".into()));
    tracing::info!(rows = slots.all_unsettled(), "draining: no new claims; running attempts may end");
    let reserve = SETTLE_RESERVE.min(limit / 4);
    let finished = tokio::select! {
        () = slots.drained() => true,
        () = tokio::time::sleep_until(ends - reserve) => false,
        () = signals.stop() => false,
    };
    if !finished {
        tracing::info!(rows = slots.all_unsettled(), "cutting off what still runs and giving its rows back");
        phases.enter(Phase::Cut);
        let _ = tokio::time::timeout(reserve, slots.drained()).await;
    }
}

/// Outside systemd there is nobody to notify, and that is no failure.
fn notify(states: &[sd_notify::NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
