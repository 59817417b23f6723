//! What /livez and /readyz answer from: heartbeats of the loops, and the conditions that make us unready.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::meter::Meter;

/// How long after it was last seen the readiness page mentions what is worth a warning.
const WARNING_LASTS: Duration = Duration::from_secs(15 * 60);

/// The loops that must make progress for the process to count as alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    Claim,
    Settle,
    Sweep,
    Probe,
}

impl Loop {
    /// Those of `outboxd run`.
    pub(crate) const ALL: [Loop; 4] = [Loop::Claim, Loop::Settle, Loop::Sweep, Loop::Probe];

    fn name(self) -> &'static str {
        match self {
            Loop::Claim => "claim",
            Loop::Settle => "settle",
            Loop::Sweep => "sweep",
            Loop::Probe => "probe",
        }
    }
}

/// What readiness depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    Database,
    Schema,
    Clock,
    Resolver,
    Draining,
}

impl Condition {
    /// Whether it is of the whole process, and no outbox's own.
    fn is_shared(self) -> bool {
        matches!(self, Condition::Resolver | Condition::Draining)
    }

    fn name(self) -> &'static str {
        match self {
            Condition::Database => "database",
            Condition::Schema => "schema",
            Condition::Clock => "clock",
            Condition::Resolver => "resolver",
            Condition::Draining => "draining",
        }
    }
}

/// What is worth a word on the readiness page, but no reason to be taken out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warning {
    /// A row came that no held key opens.
    Unopenable,
    /// A moment came at which no key may sign.
    NoSigningKey,
}

impl Warning {
    const ALL: [Warning; 2] = [Warning::Unopenable, Warning::NoSigningKey];

    fn text(self) -> &'static str {
        match self {
            Warning::Unopenable => "a row came that no held key opens; is an envelope key missing here?",
            Warning::NoSigningKey => {
                "there was no signing key whose window (not_before, not_after) holds; rows wait for one"
            }
        }
    }
}

/// The health of the process as one of its outboxes has to do with it: what it says of its loops and its database is about
/// that one, what it is asked for (is the process live, is it ready) is about all.
pub(crate) struct Health {
    board: Arc<Board>,
    own: usize,
    pub(crate) meter: Meter,
}

struct Board {
    started: Instant,
    silence: Duration,
    loops: &'static [Loop],
    members: Vec<Member>,
    /// By condition, and by the member that it is about where it is not about all.
    faults: Mutex<BTreeMap<(Condition, Option<usize>), String>>,
    /// When each was last seen.
    warnings: [Mutex<Option<Instant>>; Warning::ALL.len()],
}

struct Member {
    /// Only where there are several.
    name: Option<Arc<str>>,
    beats: [AtomicU64; Loop::ALL.len()],
    changed: Notify,
}

impl Health {
    /// One of `loops` that is silent for longer than `silence` counts as stuck. Starts unready: of `watched` nothing is
    /// known yet.
    pub(crate) fn new(silence: Duration, loops: &'static [Loop], watched: &[Condition]) -> Health {
        let board = Arc::new(Board::new(silence, loops, watched, vec![None]));
        Health { board, own: 0, meter: Meter::default() }
    }

    /// The same for several outboxes, by their names.
    pub(crate) fn of_outboxes(
        silence: Duration,
        watched: &[Condition],
        names: Vec<Option<Arc<str>>>,
    ) -> Vec<Arc<Health>> {
        let meters: Vec<Meter> = names.iter().cloned().map(Meter::new).collect();
        meters.iter().for_each(|meter| meter.outbox_ready(false));
        let board = Arc::new(Board::new(silence, &Loop::ALL, watched, names));
        let view = |(own, meter)| Arc::new(Health { board: board.clone(), own, meter });
        meters.into_iter().enumerate().map(view).collect()
    }

    fn own(&self) -> &Member {
        &self.board.members[self.own]
    }

    pub(crate) fn beat(&self, of: Loop) {
        self.own().beats[of as usize].store(self.board.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn key(&self, condition: Condition) -> (Condition, Option<usize>) {
        (condition, Some(self.own).filter(|_| !condition.is_shared()))
    }

    /// Sets or clears a condition; returns whether that changed anything, so that a caller logs a change once.
    pub(crate) fn set(&self, condition: Condition, fault: Option<String>) -> bool {
        let (mut faults, key) = (self.board.faults(), self.key(condition));
        let before = faults.get(&key).cloned();
        let changed = before != fault;
        match fault {
            Some(fault) => faults.insert(key, fault),
            None => faults.remove(&key),
        };
        super::metrics::ready(faults.is_empty());
        self.meter.outbox_ready(!faults.keys().any(|(_, of)| *of == Some(self.own)));
        if changed {
            let concerned = self.board.members.iter().enumerate();
            let concerned = concerned.filter(|(member, _)| key.1.is_none_or(|own| own == *member));
            concerned.for_each(|(_, member)| member.changed.notify_one());
        }
        changed
    }

    /// Resolves when a condition has changed since it was last waited for. For one waiter.
    pub(crate) async fn changed(&self) {
        self.own().changed.notified().await;
    }

    pub(crate) fn has(&self, condition: Condition) -> bool {
        self.board.faults().contains_key(&self.key(condition))
    }

    pub(crate) fn saw(&self, warning: Warning) {
        *self.board.warning(warning) = Some(Instant::now());
    }

    /// `Err` names the loops without progress.
    pub(crate) fn live(&self) -> Result<String, String> {
        self.board.live()
    }

    /// `Ok` may hold a warning; `Err` has one line for each condition that is not met.
    pub(crate) fn ready(&self) -> Result<String, String> {
        self.board.ready()
    }
}

impl Board {
    fn new(silence: Duration, loops: &'static [Loop], watched: &[Condition], names: Vec<Option<Arc<str>>>) -> Board {
        let unknown = |condition: &Condition, member| ((*condition, Some(member)), "not known yet".to_owned());
        let faults =
            (0..names.len()).flat_map(|member| watched.iter().map(move |condition| unknown(condition, member)));
        let member = |name| Member { name, beats: Default::default(), changed: Notify::new() };
        Board {
            started: Instant::now(),
            silence,
            loops,
            faults: Mutex::new(faults.collect()),
            members: names.into_iter().map(member).collect(),
            warnings: Default::default(),
        }
    }

    fn faults(&self) -> MutexGuard<'_, BTreeMap<(Condition, Option<usize>), String>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warning(&self, warning: Warning) -> MutexGuard<'_, Option<Instant>> {
        self.warnings[warning as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Result<String, String> {
        let now = self.started.elapsed();
        let is_stuck = |member: &Member, of: Loop| {
            let beat = Duration::from_millis(member.beats[of as usize].load(Ordering::Relaxed));
            now.saturating_sub(beat) > self.silence
        };
        let stuck: Vec<String> = self
            .members
            .iter()
            .flat_map(|member| self.loops.iter().map(move |of| (member, *of)))
            .filter(|(member, of)| is_stuck(member, *of))
            .map(|(member, of)| match &member.name {
                Some(name) => format!("{} of {name}", of.name()),
                None => of.name().into(),
            })
            .collect();
        if stuck.is_empty() { Ok("ok\n".into()) } else { Err(format!("no progress: {}\n", stuck.join(", "))) }
    }

    fn ready(&self) -> Result<String, String> {
        let faults = self.faults();
        if faults.is_empty() {
            let recent = |warning: Warning| {
                let ago = self.warning(warning).map(|at| at.elapsed()).filter(|ago| *ago < WARNING_LASTS)?;
                Some(format!("warning: {} s ago {}\n", ago.as_secs(), warning.text()))
            };
            return Ok(std::iter::once("ok\n".into()).chain(Warning::ALL.into_iter().filter_map(recent)).collect());
        }
        let line = |((condition, member), fault): (&(Condition, Option<usize>), &String)| {
            let outbox = member.and_then(|member| self.members[member].name.as_deref());
            let prefix = outbox.map(|name| format!("outbox {name}: ")).unwrap_or_default();
            format!("{prefix}{}: {fault}\n", condition.name())
        };
        Err(faults.iter().map(line).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_process_is_live_but_not_ready() {
        let health = Health::new(Duration::from_secs(60), &Loop::ALL, &[Condition::Database, Condition::Schema]);
        assert!(health.live().is_ok());
        assert_eq!(health.ready().unwrap_err(), "database: not known yet\nschema: not known yet\n");
    }

    #[test]
    fn a_silent_loop_is_named() {
        let health = Health::new(Duration::ZERO, &Loop::ALL, &[Condition::Database, Condition::Schema]);
        std::thread::yield_now();
        while health.board.started.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert_eq!(health.live().unwrap_err(), "no progress: claim, settle, sweep, probe\n");
    }

    #[test]
    fn a_condition_reports_only_changes() {
        let health = Health::new(Duration::from_secs(60), &Loop::ALL, &[Condition::Database, Condition::Schema]);
        assert!(health.set(Condition::Database, None));
        assert!(!health.set(Condition::Database, None));
        assert!(health.set(Condition::Schema, None));
        assert!(health.ready().is_ok());
        assert!(health.set(Condition::Clock, Some("40 s ahead".into())));
        assert_eq!(health.ready().unwrap_err(), "clock: 40 s ahead\n");
    }

    #[test]
    fn a_row_that_no_key_opens_is_a_warning_and_no_fault() {
        let health = Health::new(Duration::from_secs(60), &Loop::ALL, &[Condition::Database, Condition::Schema]);
        health.set(Condition::Database, None);
        health.set(Condition::Schema, None);
        assert_eq!(health.ready().unwrap(), "ok\n");
        health.saw(Warning::Unopenable);
        assert!(health.ready().unwrap().contains("no held key opens"));
        health.saw(Warning::NoSigningKey);
        let page = health.ready().unwrap();
        assert_eq!((page.lines().count(), page.contains("no signing key")), (3, true), "{page}");
    }

    fn two() -> Vec<Arc<Health>> {
        let names = ["eu", "us"].map(|name| Some(Arc::from(name)));
        Health::of_outboxes(Duration::from_secs(60), &[Condition::Database], names.to_vec())
    }

    #[test]
    fn each_outbox_has_its_own_conditions_and_all_share_some() {
        let both = two();
        let [eu, us] = &both[..] else { panic!("there are two") };
        assert!(eu.set(Condition::Database, None));
        assert!(!eu.has(Condition::Database) && us.has(Condition::Database));
        assert_eq!(eu.ready(), Err("outbox us: database: not known yet\n".into()));
        us.set(Condition::Database, None);
        assert!(eu.ready().is_ok() && us.ready().is_ok());
        eu.set(Condition::Resolver, Some("silent".into()));
        assert!(us.has(Condition::Resolver));
        assert_eq!(us.ready(), Err("resolver: silent\n".into()));
    }

    #[tokio::test]
    async fn a_change_is_told_to_whom_it_concerns() {
        let both = two();
        let [eu, us] = &both[..] else { panic!("there are two") };
        let told = async |health: &Health| tokio::time::timeout(Duration::ZERO, health.changed()).await.is_ok();
        eu.set(Condition::Database, None);
        assert!(told(eu).await && !told(us).await);
        eu.set(Condition::Draining, Some("stopping".into()));
        assert!(told(eu).await && told(us).await);
    }

    #[test]
    fn a_silent_loop_is_named_with_its_outbox() {
        let names = ["eu", "us"].map(|name| Some(Arc::from(name)));
        let both = Health::of_outboxes(Duration::ZERO, &[], names.to_vec());
        while both[0].board.started.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        for of in Loop::ALL {
            both[0].beat(of);
        }
        let stuck = both[0].live().unwrap_err();
        assert!(stuck.contains("claim of us, settle of us"), "{stuck}");
    }
}
