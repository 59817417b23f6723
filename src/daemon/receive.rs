//! The composition root of `outboxd receive`: builds the parts, serves, watches database and files, drains.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::SignalKind;
use tokio::time::Instant;

use super::outage::Outage;
use super::watch::{LOOK_EVERY, Watch};
use super::{DaemonError, Signals, loops, notify, on, open_admin, open_telemetry};
use crate::config::{Config, Receive};
use crate::deliver::{Phase, Phases, report_expiry};
use crate::receive::server::{Certificate, Listener, Server};
use crate::receive::{Forwarder, Profile, ProfileError, Worker};
use crate::store::{Kind, Plans, Store, StoreConfig, StoreError};
use crate::telemetry::expiry::Expiring;
use crate::telemetry::health::{Condition, Health, Loop};
use crate::telemetry::meter::Meter;
use crate::telemetry::metrics;

const PROBE_EVERY: Duration = Duration::from_secs(2);
/// How often all stored rows are judged, and how gently.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
const SWEEP_ROWS: u32 = 500;
/// What of the drain time is kept for ending what the drain did not.
const CUT_RESERVE: Duration = Duration::from_secs(1);

/// What of this process expires.
const EXPIRING: [Expiring; 3] = [Expiring::TrustAnchor, Expiring::DatabaseCa, Expiring::ReceiveCertificate];

/// Serves until a signal ends it. An error means that nothing was received.
pub(crate) async fn run(config: Config) -> Result<(), DaemonError> {
    let settings = &config.settings;
    let recorder = open_telemetry(&settings.log)?;
    let (mut signals, mut hangup) = (Signals::listen()?, on(SignalKind::hangup())?);
    // Planning would be a good part of what a notification costs, and a table without rows has no other plan than a full one.
    let database = StoreConfig { plans: Plans::KeptIfNoWorse, ..config.store()? };
    let meter = Meter::default();
    let store = Arc::new(Store::open(&database, Arc::new(move |seen| meter.statement(seen)))?);
    let profile = Profile::load(&config, store.clone())?;
    // Hosts work the inbox off through SQL; nobody in this process does.
    profile.set_worker(Worker::Unmanaged);
    let forwarder = Forwarder::load(&settings.receive.forward, &profile, store.clone())?;
    let mut files = Files::new(&settings.receive, profile)?;
    report_expiry(&EXPIRING, &config);

    let silence = settings.database.statement_timeout * 2 + Duration::from_secs(30);
    let health = Arc::new(Health::new(silence, &[Loop::Probe], &[Condition::Database, Condition::Schema]));
    let outage = Arc::new(Outage::new(health.clone()));
    open_admin(settings.admin.listen, &health, recorder).await?;
    let phases = Phases::new();
    let listen = &settings.receive.listen;
    let listener = Listener::bind(listen).await.map_err(|error| DaemonError::Listen {
        key: "receive.listen",
        address: listen.to_string(),
        reason: error.to_string(),
    })?;
    tracing::info!(addr = listener.name(), tls = files.certificate.is_some(), "receiving");
    let server =
        Server::new((&settings.receive).into(), files.certificate.as_ref(), files.profile.clone(), phases.clone());
    let server = Arc::new(server);
    let serving = tokio::spawn(server.clone().run(listener));
    tokio::spawn(probe(store.clone(), outage));
    tokio::spawn(sweep(store));
    let mut attending = tokio::spawn(attend(files.profile.clone(), forwarder, phases.clone()));
    tokio::spawn(loops::watchdog(health.clone()));
    notify(&[sd_notify::NotifyState::Ready]);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "running");

    loop {
        tokio::select! {
            () = signals.stop() => break,
            _ = hangup.recv() => files.asked(&config),
            () = tokio::time::sleep(LOOK_EVERY) => files.reload_if_changed(&config),
        }
    }
    let ends = Instant::now() + settings.receive.drain_timeout;
    let running = Running { server, serving, profile: files.profile, phases, health };
    running.drain(settings.receive.drain_timeout, &mut signals).await;
    // What is cut off here is taken up again when its lease ends.
    if tokio::time::timeout_at(ends, &mut attending).await.is_err() {
        attending.abort();
    }
    tracing::info!("stopped");
    Ok(())
}

/// What goes on beside the requests, to its end in the drain.
async fn attend(profile: Arc<Profile>, forwarder: Option<Forwarder>, phases: Phases) {
    let forwarding = async {
        if let Some(forwarder) = &forwarder {
            forwarder.run(&phases).await;
        }
    };
    tokio::join!(profile.attend(&phases), forwarding);
}

/// What a drain has to end.
struct Running {
    server: Arc<Server<Profile>>,
    serving: tokio::task::JoinHandle<()>,
    profile: Arc<Profile>,
    phases: Phases,
    health: Arc<Health>,
}

impl Running {
    /// Accepts no more and asks every connection to end with the request that it is at; what does not is cut off.
    async fn drain(mut self, limit: Duration, signals: &mut Signals) {
        let ends = Instant::now() + limit;
        notify(&[sd_notify::NotifyState::Stopping]);
        self.health.set(Condition::Draining, Some("stopping".into()));
        self.phases.enter(Phase::Draining);
        let connections = self.server.connections();
        tracing::info!(connections, "draining: no new connections; requests under way may end");
        let reserve = CUT_RESERVE.min(limit / 4);
        let finished = tokio::select! {
            _ = &mut self.serving => true,
            () = tokio::time::sleep_until(ends - reserve) => false,
            () = signals.stop() => false,
        };
        if !finished {
            let connections = self.server.connections();
            tracing::info!(connections, "cutting off what still runs; senders will try again");
            self.profile.close();
            self.phases.enter(Phase::Cut);
            let _ = tokio::time::timeout(reserve, self.serving).await;
        }
    }
}

/// What is read from files again when they change: the certificate, and what the profile knows its senders by.
struct Files {
    profile: Arc<Profile>,
    certificate: Option<Arc<Certificate>>,
    tls: Option<(PathBuf, PathBuf)>,
    watch: Watch,
}

impl Files {
    fn new(settings: &Receive, profile: Profile) -> Result<Files, DaemonError> {
        let certificate = match settings.tls_files() {
            Some((certificate, key)) => Some(Certificate::load(certificate, key).map_err(ProfileError::from)?),
            None => None,
        };
        let tls = settings.tls_files().map(|(certificate, key)| (certificate.to_owned(), key.to_owned()));
        let mut watch = Watch::default();
        watch.follow(
            tls.iter().flat_map(|(certificate, key)| [certificate.clone(), key.clone()]).chain(profile.files()),
        );
        Ok(Files { profile: Arc::new(profile), certificate, tls, watch })
    }

    fn reload_if_changed(&mut self, config: &Config) {
        if self.watch.changed() {
            self.reload(config);
        }
    }

    fn asked(&mut self, config: &Config) {
        // Before reading: what changes while we read is read again.
        self.watch.changed();
        self.reload(config);
    }

    fn reload(&mut self, config: &Config) {
        let certificate = match (&self.certificate, &self.tls) {
            (Some(held), Some((certificate, key))) => held.reload(certificate, key).map_err(ProfileError::from),
            _ => Ok(()),
        };
        let loaded = certificate.and_then(|()| self.profile.reload());
        metrics::reloaded(loaded.is_ok());
        report_expiry(&EXPIRING, config);
        match loaded {
            Ok(()) => tracing::info!("reloaded certificate and credentials"),
            Err(error) => tracing::error!(error = %error, "reload failed; what could not be read stays as it was"),
        }
    }
}

/// Watches that the database answers, takes writes and has the inbox.
async fn probe(store: Arc<Store>, outage: Arc<Outage>) {
    loop {
        outage.health.beat(Loop::Probe);
        match probe_once(&store).await {
            Ok(()) => {
                outage.ok();
                judge_schema(None, &outage.health);
            }
            Err(StoreError { kind: Kind::Schema { detail, .. }, .. }) => {
                outage.ok();
                judge_schema(Some(format!("{detail}; run `outboxd migrate`")), &outage.health);
            }
            Err(error) => outage.failed("probe", &error),
        }
        let pool = store.pool_status();
        outage.health.meter.database_connections(pool.idle, pool.size.saturating_sub(pool.idle));
        tokio::time::sleep(PROBE_EVERY).await;
    }
}

async fn probe_once(store: &Store) -> Result<(), StoreError> {
    store.probe_primary().await?;
    // No event has an empty id: this asks whether the inbox is there and is what the statements were written for.
    store.read_notification("").await.map(drop)
}

fn judge_schema(fault: Option<String>, health: &Health) {
    let text = fault.clone();
    if health.set(Condition::Schema, fault) {
        match text {
            Some(fault) => tracing::error!(fault, "the inbox cannot be used as it is; nothing is taken in"),
            None => tracing::info!("the inbox's schema is right"),
        }
    }
}

/// Judges every stored row now and then, a stretch at a time. A bad one stops neither the others nor intake: this is
/// what finds it, and health what shows it.
async fn sweep(store: Arc<Store>) {
    loop {
        let mut after = Some(String::new());
        let mut damaged = 0;
        while let Some(from) = after.take() {
            match store.sweep_notifications(&from, SWEEP_ROWS).await {
                Ok(swept) => {
                    damaged += swept.damaged;
                    after = swept.next;
                }
                // The probe tells of outages; the next round begins anew.
                Err(error) => tracing::debug!(error = %error, "the sweep of the inbox was cut short"),
            }
            tokio::time::sleep(SWEEP_PAUSE).await;
        }
        metrics::inbox_damaged(damaged);
        if damaged > 0 {
            tracing::error!(rows = damaged, "stored notifications are damaged; they are quarantined, the others go on");
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}
