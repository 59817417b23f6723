//! The loops: claim, probe and watchdog. Each waits, calls one door, reports, and waits again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use super::hear::Ear;
use super::outage::{Outage, Pause};
use super::pace::Pace;
use super::presence::Presence;
use super::sampling::Sampling;
use super::{notify, refusals};
use crate::claim::{Claim, Room, Slots};
use crate::deliver::{ClockWatch, Phase, Phases, Tools, deliver, reading};
use crate::store::{Kind, Store, StoreError};
use crate::telemetry::health::{Condition, Health, Loop};
use crate::telemetry::metrics;

/// While all is well; what fails is found by the claims meanwhile.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// While it is not.
const PROBE_AGAIN: Duration = Duration::from_secs(2);
const PREFLIGHT_EVERY: Duration = Duration::from_secs(60);
const TRIAL_EVERY: Duration = Duration::from_secs(10);
/// Deliveries that are started before those under way are attended to.
const TOGETHER: usize = 16;
const SAMPLE_ROWS: u32 = 10_000;

/// Claims while there is room and work; sleeps only when there is neither.
pub(super) async fn claim(
    store: Arc<Store>,
    slots: Arc<Slots>,
    tools: Arc<Tools>,
    poll: Duration,
    ear: Arc<Ear>,
    phases: Phases,
    outage: Arc<Outage>,
) {
    let mut pause = Pause::default();
    let mut pace = Pace::new(poll, Instant::now());
    let mut trials = Trials::default();
    while phases.now() == Phase::Running {
        outage.health.beat(Loop::Claim);
        // Nothing is claimed before both are known to be right; a slow poll must not make that wait longer.
        if outage.health.has(Condition::Schema) || outage.health.has(Condition::Clock) {
            tokio::select! {
                () = outage.health.changed() => {}
                () = wait(PROBE_AGAIN, &phases) => {}
            }
            continue;
        }
        let trial = outage.health.has(Condition::Resolver);
        if trial && !trials.is_due() {
            tokio::select! {
                () = outage.health.changed() => {}
                () = wait(PROBE_AGAIN, &phases) => {}
            }
            continue;
        }
        if let Some(moment) = pace.not_before() {
            tokio::time::sleep_until(moment).await;
        }
        let room = tokio::select! {
            room = slots.room() => room,
            () = phases.reached(Phase::Draining) => return,
        };
        let Some(room) = room else { continue };
        let (began, rows, tentative) = (Instant::now(), room.rows(), room.is_tentative());
        let claimed = match trial {
            true => trials.claim(&slots, &store, room).await,
            false => slots.claim(&store, room).await.inspect(|_| trials = Trials::default()),
        };
        match claimed {
            Ok(claims) => {
                // A full disk has room for a row now and then, and for none of the next batch.
                if !tentative || claims.is_empty() {
                    pause.reset();
                    outage.ok();
                }
                pace.looked(began, claims.len(), claims.len() < rows && slots.took_all());
                let meter = &outage.health.meter;
                meter.claimed(if claims.is_empty() { "empty" } else { "rows" }, claims.len());
                meter.in_flight(slots.in_flight());
                let idle = claims.is_empty() && !trial && slots.looked_through();
                let gather = !claims.is_empty() && slots.looked_through();
                tokio::spawn(release(claims, tools.clone()).in_current_span());
                if idle {
                    let pause = spread(pace.pause(Instant::now(), ear.hears()));
                    tokio::select! {
                        () = wait(pause, &phases) => {}
                        () = slots.room_made() => {}
                        () = ear.woken() => pace.woken(Instant::now()),
                    }
                } else if gather {
                    tokio::select! {
                        () = slots.room_gathered() => {}
                        () = ear.woken() => pace.woken(Instant::now()),
                    }
                }
            }
            Err(error) => {
                outage.health.meter.claimed("error", 0);
                outage.failed("claim", &error);
                wait(pause.next(), &phases).await;
            }
        }
    }
}

/// Starts the deliveries of a batch, a few at a time: where a receiver is quick, the connections of the first few serve the
/// next, and the batch needs no connection for each of its rows. Meanwhile the next batch is asked for.
async fn release(claims: Vec<Claim>, tools: Arc<Tools>) {
    for (nth, claim) in claims.into_iter().enumerate() {
        if nth % TOGETHER == 0 {
            tokio::task::yield_now().await;
        }
        tokio::spawn(deliver(claim, tools.clone()).in_current_span());
    }
}

/// While the name servers are silent, a row is tried now and then all the same: those that answer for receivers' names
/// but not for the root must not keep us waiting for ever.
#[derive(Default)]
struct Trials {
    next: Option<Instant>,
    /// Destinations that had their turn; one of the others may be the one that can be found.
    had: Vec<Arc<str>>,
}

impl Trials {
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if self.next.is_none() {
            tracing::debug!("not claiming while the name servers are silent, but for a row now and then");
        }
        now >= *self.next.get_or_insert(now + TRIAL_EVERY)
    }

    async fn claim(&mut self, slots: &Arc<Slots>, store: &Arc<Store>, room: Room) -> Result<Vec<Claim>, StoreError> {
        self.next = Some(Instant::now() + TRIAL_EVERY);
        let claim = slots.claim_one(store, room, &self.had).await?;
        match &claim {
            Some(claim) if !claim.slot.destination().is_empty() => self.had.push(claim.slot.destination().clone()),
            Some(_) => {}
            // Each had its turn, or nothing is due.
            None => self.had.clear(),
        }
        Ok(claim.into_iter().collect())
    }
}

/// Waits, but not past the beginning of the drain.
async fn wait(time: Duration, phases: &Phases) {
    let _ = tokio::time::timeout(time, phases.reached(Phase::Draining)).await;
}

/// 90 to 100 %: as `jittered`, but never longer than somebody was told that it takes.
fn spread(time: Duration) -> Duration {
    time.mul_f64(0.9 + crate::secret::random_unit() / 10.0)
}

/// 90 to 110 %, so that replicas that started together do not poll together.
pub(super) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.9 + crate::secret::random_unit() / 5.0)
}

/// Watches the database: that it answers and takes writes, what its clock says, what is due, and what its tables are.
pub(super) async fn probe(
    store: Arc<Store>,
    slots: Arc<Slots>,
    outage: Arc<Outage>,
    presence: Arc<Presence>,
    clock: Arc<ClockWatch>,
) {
    let (mut sampling, mut preflight_at) = (Sampling::new(Instant::now()), Instant::now() + PREFLIGHT_EVERY);
    loop {
        outage.health.beat(Loop::Probe);
        if let Err(error) = probe_once(&store, &slots, &outage, &clock, &mut sampling, &mut preflight_at).await {
            outage.failed("probe", &error);
        } else {
            presence.renew().await;
        }
        let pool = store.pool_status();
        outage.health.meter.database_connections(pool.idle, pool.size.saturating_sub(pool.idle));
        outage.health.meter.in_flight(slots.in_flight());
        metrics::slots(slots.limit());
        let watched = [Condition::Database, Condition::Schema, Condition::Clock];
        let well = !watched.iter().any(|condition| outage.health.has(*condition));
        tokio::time::sleep(jittered(if well { PROBE_EVERY } else { PROBE_AGAIN })).await;
    }
}

async fn probe_once(
    store: &Store,
    slots: &Slots,
    outage: &Outage,
    clock: &ClockWatch,
    sampling: &mut Sampling,
    preflight_at: &mut Instant,
) -> Result<(), StoreError> {
    let asked = reading();
    let probe = store.probe_primary().await?;
    outage.answers();
    clock.measured(probe.clock, asked);
    let now = Instant::now();
    if outage.health.has(Condition::Schema) || now >= *preflight_at {
        *preflight_at = now + PREFLIGHT_EVERY;
        let refused: Vec<String> = refusals(&store.preflight().await?).collect();
        let fault = Some(refused.join("; ")).filter(|fault| !fault.is_empty());
        let unusable = fault.clone();
        if outage.health.set(Condition::Schema, fault) {
            match unusable {
                Some(fault) => tracing::error!(fault, "the outbox cannot be used as it is; claiming stops"),
                None => tracing::info!("the outbox's schema is right"),
            }
        }
    }
    if sampling.is_due(now) && !outage.health.has(Condition::Schema) {
        let sample = store.sample_backlog(SAMPLE_ROWS, &slots.parked_destinations()).await;
        sampling.counted(now, Instant::now());
        match sample {
            Ok(backlog) => outage.health.meter.backlog(&backlog),
            // It has just answered: what takes so long is reading past the dead, and the gauges stay as they are.
            Err(StoreError { kind: Kind::Timeout { .. }, .. }) => {
                tracing::debug!("due rows could not be counted in time")
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Tells systemd that we live, at half its interval, for as long as the loops make progress.
pub(super) async fn watchdog(health: Arc<Health>) {
    let Some(interval) = sd_notify::watchdog_enabled() else { return };
    loop {
        if health.live().is_ok() {
            notify(&[sd_notify::NotifyState::Watchdog]);
        }
        tokio::time::sleep(interval / 2).await;
    }
}
