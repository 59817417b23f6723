//! Takes keys and egress policy anew when a signal asks for it or a file has changed: as one checked whole, or not at all.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::signal::unix::Signal;
use tokio::time::Instant;

use super::outboxes::Outbox;
use super::presence::Presence;
use super::watch::{LOOK_EVERY, Watch};
use super::{DaemonError, notify};
use crate::config::{Config, Sources};
use crate::deliver::{Snapshot, keyring};
use crate::envelope::Keyring;
use crate::jwks::Publisher;
use crate::receive::server::Listener;
use crate::rekey::{Need, need};
use crate::signer::KnownKids;
use crate::store::Store;
use crate::telemetry::health::{Health, Warning};
use crate::telemetry::metrics;

/// How soon what failed is tried again although no file has changed: what it failed for need not be in a file. Later where
/// the try itself took long, looking through the rows.
const RETRY_EVERY: Duration = Duration::from_secs(30);
const RETRY_SHARE: u32 = 20;
/// How long a reload looks for rows that need a key which it would lose: at 10,000 rows a second, 300,000 of them.
const LOOK_FOR_NEED: Duration = Duration::from_secs(30);

pub(super) struct Reloader {
    sources: Sources,
    snapshot: Arc<ArcSwap<Snapshot>>,
    known: Arc<KnownKids>,
    outboxes: Arc<[Outbox]>,
    watch: Watch,
    publisher: Publisher,
    /// Why the last try failed, and when the next is due.
    failed: Option<(String, Instant)>,
}

impl Reloader {
    /// Loads the first snapshot, without which nothing begins, and publishes its keys.
    pub(super) async fn start(sources: Sources, outboxes: Arc<[Outbox]>) -> Result<Reloader, DaemonError> {
        let mut watch = Watch::default();
        // Each before it is read: what changes from then on is read again.
        watch.follow(sources.file.clone());
        let config = Config::load(&sources)?;
        watch.follow(files(&sources, &config));
        let known = Arc::default();
        let snapshot = Snapshot::load(&config, &known, &stores(&outboxes))?;
        snapshot.adopt(&known);
        let snapshot = Arc::new(ArcSwap::from_pointee(snapshot));
        let publisher = Publisher::new(snapshot.clone());
        let mut reloader = Reloader { sources, snapshot, known, outboxes, watch, publisher, failed: None };
        let bound = reloader.bind(&config).await?;
        reloader.publisher.publish(config.settings.jwks.listen.as_ref(), bound).await;
        Ok(reloader)
    }

    pub(super) fn snapshot(&self) -> Arc<ArcSwap<Snapshot>> {
        self.snapshot.clone()
    }

    /// Reloads whenever it is asked to or a file has changed, and has no end of its own.
    pub(super) async fn attend(&mut self, asking: &mut Signal, presences: &[Arc<Presence>], health: &Health) {
        loop {
            tokio::select! {
                _ = asking.recv() => self.asked(presences).await,
                () = tokio::time::sleep(LOOK_EVERY) => self.look(presences, health).await,
            }
        }
    }

    /// Looks at the files, and at what time alone changes.
    async fn look(&mut self, presences: &[Arc<Presence>], health: &Health) {
        if self.watch.changed() || self.failed.as_ref().is_some_and(|(_, due)| Instant::now() >= *due) {
            self.reload(presences).await;
        }
        let snapshot = self.snapshot.load();
        if snapshot.provider.fixed().is_some_and(|keys| keys.signing_at(SystemTime::now()).is_none()) {
            health.saw(Warning::NoSigningKey);
        }
    }

    /// A signal asked: it is told of every failure, known ones too.
    async fn asked(&mut self, presences: &[Arc<Presence>]) {
        self.watch.changed();
        self.failed = None;
        self.reload(presences).await;
    }

    async fn reload(&mut self, presences: &[Arc<Presence>]) {
        // systemd asks for both in one message, and ends the service if the time is missing.
        if let Ok(now) = sd_notify::NotifyState::monotonic_usec_now() {
            notify(&[sd_notify::NotifyState::Reloading, now]);
        }
        let began = Instant::now();
        match self.load().await {
            Ok((config, new, bound)) => {
                new.adopt(&self.known);
                killpoint!("k13");
                new.provider.inherit(&self.snapshot.load().provider);
                self.snapshot.store(Arc::new(new));
                self.publisher.publish(config.settings.jwks.listen.as_ref(), bound).await;
                join_all(presences.iter().map(|presence| presence.announce())).await;
                self.failed = None;
                metrics::reloaded(true);
                tracing::info!("reloaded keys and egress policy");
            }
            Err(error) => self.failed(error.to_string(), RETRY_EVERY.max(began.elapsed() * RETRY_SHARE)),
        }
        notify(&[sd_notify::NotifyState::Ready]);
    }

    /// Everything that can fail, before anything is changed.
    async fn load(&mut self) -> Result<(Config, Snapshot, Option<Listener>), DaemonError> {
        let config = Config::load(&self.sources)?;
        // Those of a snapshot that cannot be made are watched too: it is one of them that will be mended.
        self.watch.follow(files(&self.sources, &config));
        let (held, new) = (self.snapshot.load_full(), keyring(&config)?);
        let kept = self.outboxes.iter().map(|outbox| keep_needed_keys(&held.keyring, &new, outbox));
        join_all(kept).await.into_iter().collect::<Result<(), _>>()?;
        let snapshot = Snapshot::load(&config, &self.known, &stores(&self.outboxes))?;
        let bound = self.bind(&config).await?;
        Ok((config, snapshot, bound))
    }

    async fn bind(&self, config: &Config) -> Result<Option<Listener>, DaemonError> {
        let listen = config.settings.jwks.listen.as_ref();
        self.publisher.bind(listen).await.map_err(|error| DaemonError::Listen {
            key: "jwks.listen",
            address: listen.map(ToString::to_string).unwrap_or_default(),
            reason: error.to_string(),
        })
    }

    /// No key is published any more.
    pub(super) async fn stop(mut self) {
        self.publisher.close().await;
    }

    /// Tells a failure once, however often it is tried again.
    fn failed(&mut self, error: String, again_after: Duration) {
        if self.failed.as_ref().is_none_or(|(before, _)| *before != error) {
            metrics::reloaded(false);
            tracing::error!(error, "reload failed; the keys and policy from before stay in use");
        }
        self.failed = Some((error, Instant::now() + again_after));
    }
}

fn files(sources: &Sources, config: &Config) -> impl Iterator<Item = std::path::PathBuf> {
    sources.file.clone().into_iter().chain(config.files())
}

fn stores(outboxes: &[Outbox]) -> Vec<Arc<Store>> {
    outboxes.iter().map(|outbox| outbox.store.clone()).collect()
}

/// A key that open rows need would be missed only when they come up, one by one, as if they were damaged.
async fn keep_needed_keys(held: &Keyring, new: &Keyring, outbox: &Outbox) -> Result<(), DaemonError> {
    let unclear = |reason: String| Err(DaemonError::KeyUnclear { reason: outbox.title() + &reason });
    match need(&outbox.store, held, new, LOOK_FOR_NEED).await {
        Ok(Need::Nothing) => Ok(()),
        Ok(Need::Key { fingerprint, rows, more }) => {
            Err(DaemonError::KeyNeeded { title: outbox.title(), fingerprint, rows, more })
        }
        Ok(Need::Unknown { looked_at }) => {
            unclear(format!("of those looked at within {} s, {looked_at}, none did", LOOK_FOR_NEED.as_secs()))
        }
        Ok(Need::Forbidden { place }) => {
            unclear(format!("the database user may not read {place}; grant it outboxd_daemon"))
        }
        Err(error) => unclear(error.to_string()),
    }
}
