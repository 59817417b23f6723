//! What /livez and /readyz answer from: heartbeats of the loops, and the conditions that make us unready.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long after the last unopenable row the readiness page mentions it.
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

pub(crate) struct Health {
    started: Instant,
    silence: Duration,
    loops: &'static [Loop],
    beats: [AtomicU64; Loop::ALL.len()],
    faults: Mutex<BTreeMap<Condition, String>>,
    changed: Notify,
    /// When a row last came that no held key opens.
    unopenable: Mutex<Option<Instant>>,
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
            unopenable: Mutex::default(),
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

    /// A row came that no held key opens: worth a word on the readiness page, but no reason to be taken out of service.
    pub(crate) fn saw_unopenable(&self) {
        *self.unopenable.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
    }

    /// `Ok` may hold a warning; `Err` has one line for each condition that is not met.
    pub(crate) fn ready(&self) -> Result<String, String> {
        let faults = self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if faults.is_empty() {
            let seen = *self.unopenable.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            return Ok(match seen.filter(|at| at.elapsed() < WARNING_LASTS) {
                None => "ok\n".into(),
                Some(at) => format!(
                    "ok\nwarning: {} s ago a row came that no held key opens; is an envelope key missing here?\n",
                    at.elapsed().as_secs()
                ),
            });
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
        health.saw_unopenable();
        assert!(health.ready().unwrap().contains("no held key opens"));
    }
}
