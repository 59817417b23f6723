//! The outboxes that this process serves: for each a store, a health, and loops of its own, so that what befalls the database of
//! one stops that one alone. Slots, keys and receivers they have together. It decides nothing about a row.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

use super::hear::Ear;
use super::outage::Outage;
use super::presence::{Identity, Presence};
use super::{DaemonError, census, hear, history, loops, refusals, snapshots, sweep};
use crate::claim::{Parking, Slots};
use crate::config::{Config, OutboxConfig};
use crate::deliver::{ClockWatch, Phases, ResolverWatch, Snapshot, Spans, Tools, Watches};
use crate::settle;
use crate::store::{Kind, Plans, Store, StoreConfig};
use crate::telemetry::health::{Condition, Health};
use crate::telemetry::meter::Meter;
use crate::verdict::Cause;

/// How long the start waits to see whether an outbox among several can be used. One that takes longer is looked at later.
const FIRST_LOOK: Duration = Duration::from_secs(3);

/// What is missing where accounts have a share and their index is not there.
pub(crate) const NO_ACCOUNT_INDEX: &str =
    "no index finds an account's rows, so that each claim reads past all rows of accounts that have their share";

/// What the settings ask of a schema beside the outbox itself.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    scopes_table: bool,
    accounts: bool,
}

impl Needs {
    pub(super) fn of(config: &Config) -> Needs {
        let settings = &config.settings;
        Needs { scopes_table: settings.signing.scopes_table, accounts: settings.delivery.account_rows().is_some() }
    }
}

pub(super) struct Outbox {
    /// Its place in the list.
    number: usize,
    pub(super) name: Option<Arc<str>>,
    pub(super) weight: u32,
    pub(super) store: Arc<Store>,
    pub(super) health: Arc<Health>,
    outage: Arc<Outage>,
    /// By which each line of the log says which outbox it is about, where there are several.
    span: Span,
}

/// What the outboxes have together.
pub(super) struct Shared {
    pub(super) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(super) phases: Phases,
    pub(super) name_servers: Arc<ResolverWatch>,
    pub(super) spans: Spans,
}

/// The loops of an outbox that end with the process, and not before it.
pub(super) struct Running {
    claiming: JoinHandle<()>,
    settling: JoinHandle<()>,
}

impl Running {
    pub(super) fn stop(&self) {
        self.claiming.abort();
        self.settling.abort();
    }
}

/// At least one; of several each has a name. Connects to none.
pub(super) fn open(config: &Config) -> Result<Vec<Outbox>, DaemonError> {
    let settings = &config.settings;
    let silence = settings.database.statement_timeout * 2 + settings.delivery.poll_interval + Duration::from_secs(30);
    let watched = [Condition::Database, Condition::Schema, Condition::Clock];
    let healths = Health::of_outboxes(silence, &watched, config.outbox_names());
    let each = config.outboxes()?.into_iter().zip(healths).enumerate();
    each.map(|(number, (outbox, health))| Outbox::open(number, outbox, health)).collect()
}

impl Outbox {
    fn open(number: usize, config: OutboxConfig, health: Arc<Health>) -> Result<Outbox, DaemonError> {
        let OutboxConfig { name, weight, store } = config;
        let meter: Meter = health.meter.clone();
        meter.begin(Cause::ALL.iter().map(|cause| cause.code()));
        let store = StoreConfig { plans: Plans::Kept, ..store };
        let store = Store::open(&store, Arc::new(move |seen| meter.statement(seen)))?;
        let span = match &name {
            Some(name) => tracing::error_span!("outbox", outbox = %name),
            None => Span::none(),
        };
        let outage = Arc::new(Outage::new(health.clone()));
        Ok(Outbox { number, name, weight, store: Arc::new(store), health, outage, span })
    }

    /// What stands before a sentence about it.
    pub(super) fn title(&self) -> String {
        self.name.as_ref().map(|name| format!("outbox {name}: ")).unwrap_or_default()
    }

    /// Whether its database was there when it was last asked.
    pub(super) fn is_reached(&self) -> bool {
        !self.health.has(Condition::Database)
    }

    /// A database that answers with a schema we cannot use is a fault. One that does not answer is none: it may come up
    /// after us, and is looked at then.
    async fn first_look(&self, needs: Needs) -> Result<(), String> {
        let findings = match self.store.preflight().await {
            Ok(findings) => findings,
            Err(error) => {
                self.outage.failed("start", &error);
                return Ok(());
            }
        };
        let refused: Vec<String> = refusals(&findings).collect();
        if !refused.is_empty() {
            // It answered.
            self.outage.ok();
            self.health.set(Condition::Schema, Some(refused.join("; ")));
            return Err(refused.join("\n"));
        }
        for finding in findings {
            tracing::warn!(finding = %finding, "the outbox can be used, but not as it should be");
        }
        if needs.accounts && !self.store.finds_by_account() {
            let statement = self.store.account_index();
            tracing::warn!(statement, "delivery.account_share is set and {NO_ACCOUNT_INDEX}: run the statement");
        }
        self.health.set(Condition::Schema, None);
        self.outage.ok();
        if needs.scopes_table { self.look_for_scopes().await } else { Ok(()) }
    }

    /// Scopes that cannot be read because nobody made their table, or may not be, would make every row wait.
    async fn look_for_scopes(&self) -> Result<(), String> {
        match self.store.read_scopes(&[]).await {
            Err(error) if matches!(error.kind, Kind::Schema { .. } | Kind::Permission) => {
                Err(format!("signing.scopes_table: {error}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn presence(&self, identity: &Arc<Identity>, snapshot: &Arc<ArcSwap<Snapshot>>) -> Arc<Presence> {
        Arc::new(Presence::new(self.store.clone(), snapshot.clone(), identity.clone(), self.health.meter.clone()))
    }

    /// Starts its loops.
    pub(super) fn serve(
        &self,
        config: &Config,
        slots: &Arc<Slots>,
        presence: &Arc<Presence>,
        shared: &Shared,
    ) -> Running {
        let Outbox { number, store, health, outage, span, .. } = self;
        let settings = &config.settings;
        let (judged, queue) = settle::channel();
        let Shared { snapshot, phases, name_servers, spans } = shared;
        let clock = ClockWatch::new(health.clone());
        let watches = Watches { health: health.clone(), name_servers: name_servers.clone(), clock: clock.clone() };
        let spans = spans.of_outbox(self.name.as_ref());
        let tools = Tools::new(config, snapshot.clone(), phases.clone(), judged, spans, watches, *number);
        let ear = Ear::new(health.meter.clone());
        let settling = settle::run(store.clone(), queue, health.clone());
        let mut parking = Parking::new(slots.clone(), store.clone(), presence.name(), ear.bell());
        let claiming = loops::claim(
            store.clone(),
            slots.clone(),
            Arc::new(tools),
            settings.delivery.poll_interval,
            ear.clone(),
            phases.clone(),
            outage.clone(),
        );
        let is_reached = self.is_reached();
        let claiming = async move {
            if is_reached {
                parking.learn().await;
            }
            tokio::spawn(parking.share().in_current_span());
            claiming.await;
        };
        let probing = loops::probe(store.clone(), slots.clone(), outage.clone(), presence.clone(), clock);
        let sweeping = sweep::sweep(store.clone(), settings.sweep.clone(), outage.clone());
        tokio::spawn(hear::hear(store.clone(), ear).instrument(span.clone()));
        tokio::spawn(sweeping.instrument(span.clone()));
        tokio::spawn(probing.instrument(span.clone()));
        let watching = snapshots::run(store.clone(), health.clone(), settings.sweep.snapshot_warning);
        tokio::spawn(watching.instrument(span.clone()));
        let keeping = history::keep(store.clone(), settings.history.clone());
        tokio::spawn(keeping.instrument(span.clone()));
        let counting = census::run(store.clone(), snapshot.clone(), health.clone());
        tokio::spawn(counting.instrument(span.clone()));
        Running {
            claiming: tokio::spawn(claiming.instrument(span.clone())),
            settling: tokio::spawn(settling.instrument(span.clone())),
        }
    }
}

/// Refuses the start where no outbox can be used. Among several, one that cannot be is told of and left out until it can.
pub(super) async fn refuse_unusable(outboxes: &[Outbox], needs: Needs) -> Result<(), DaemonError> {
    if let [only] = outboxes {
        return only.first_look(needs).await.map_err(DaemonError::Schema);
    }
    let look = async |outbox: &Outbox| {
        let looking = outbox.first_look(needs).instrument(outbox.span.clone());
        tokio::time::timeout(FIRST_LOOK, looking).await.unwrap_or(Ok(()))
    };
    let looks = join_all(outboxes.iter().map(look)).await;
    let faults: Vec<(&Outbox, String)> =
        outboxes.iter().zip(looks).filter_map(|(outbox, look)| Some((outbox, look.err()?))).collect();
    if faults.len() == outboxes.len() {
        let faults: Vec<String> = faults.into_iter().map(|(outbox, fault)| outbox.title() + &fault).collect();
        return Err(DaemonError::Schema(faults.join("\n")));
    }
    for (outbox, fault) in faults {
        let _span = outbox.span.enter();
        tracing::error!(fault, "this outbox cannot be used as it is; the others are served");
    }
    Ok(())
}
