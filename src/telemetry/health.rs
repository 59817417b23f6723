//! What /livez and /readyz answer from: heartbeats of the loops, and the conditions that make us unready.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

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

pub(crate) struct Health {
    started: Instant,
    silence: Duration,
    loops: &'static [Loop],
    beats: [AtomicU64; Loop::ALL.len()],
    faults: Mutex<BTreeMap<Condition, String>>,
    changed: Notify,
    /// When each was last seen.
    warnings: [Mutex<Option<Instant>>; Warning::ALL.len()],
}

impl Health {
    /// One of `loops` that is silent for longer than `silence` counts as stuck. Starts unready: of `watched` nothing is
    /// known yet.
    pub(crate) fn new(silence: Duration, loops: &'static [Loop], watched: &[Condition]) -> Health {
        let faults = watched.iter().map(|condition| (*condition, "not known yet".into())).collect();
        Health {
            started: Instant::now(),
            silence,
            loops,
            beats: Default::default(),
            faults: Mutex::new(faults),
            changed: Notify::new(),
            warnings: Default::default(),
        }
    }

    pub(crate) fn beat(&self, of: Loop) {
        self.beats[of as usize].store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Sets or clears a condition; returns whether that changed anything, so that a caller logs a change once.
    pub(crate) fn set(&self, condition: Condition, fault: Option<String>) -> bool {
        let mut faults = self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = faults.get(&condition).cloned();
        let changed = before != fault;
        match fault {
            Some(fault) => faults.insert(condition, fault),
            None => faults.remove(&condition),
        };
        super::metrics::ready(faults.is_empty());
        if changed {
            self.changed.notify_one();
        }
        changed
    }

    /// Resolves when a condition has changed since it was last waited for. For one waiter.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn has(&self, condition: Condition) -> bool {
        self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains_key(&condition)
    }

    /// `Err` names the loops without progress.
    pub(crate) fn live(&self) -> Result<String, String> {
        let now = self.started.elapsed();
        let stuck: Vec<&str> = self
            .loops
            .iter()
            .filter(|of| {
                let beat = Duration::from_millis(self.beats[**of as usize].load(Ordering::Relaxed));
                now.saturating_sub(beat) > self.silence
            })
            .map(|of| of.name())
            .collect();
        if stuck.is_empty() { Ok("ok\n".into()) } else { Err(format!("no progress: {}\n", stuck.join(", "))) }
    }

    pub(crate) fn saw(&self, warning: Warning) {
        *self.warning(warning) = Some(Instant::now());
    }

    fn warning(&self, warning: Warning) -> MutexGuard<'_, Option<Instant>> {
        self.warnings[warning as usize].lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// `Ok` may hold a warning; `Err` has one line for each condition that is not met.
    pub(crate) fn ready(&self) -> Result<String, String> {
        let faults = self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if faults.is_empty() {
            let recent = |warning: Warning| {
                let ago = self.warning(warning).map(|at| at.elapsed()).filter(|ago| *ago < WARNING_LASTS)?;
                Some(format!("warning: {} s ago {}\n", ago.as_secs(), warning.text()))
            };
            return Ok(std::iter::once("ok\n".into()).chain(Warning::ALL.into_iter().filter_map(recent)).collect());
        }
        Err(faults.iter().map(|(condition, fault)| format!("{}: {fault}\n", condition.name())).collect())
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
        while health.started.elapsed() < Duration::from_millis(2) {
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
}
