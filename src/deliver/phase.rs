//! How far the process is on its way out, seen by everything that must stop in time.

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Nothing new starts; what runs may end.
    Draining,
    /// What runs is cut off.
    Cut,
}

#[derive(Clone)]
pub(crate) struct Phases(watch::Sender<Phase>);

impl Phases {
    pub(crate) fn new() -> Phases {
        Phases(watch::Sender::new(Phase::Running))
    }

    /// Phases only move forward.
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let forward = phase > *now;
            *now = phase.max(*now);
            forward
        });
    }

    pub(crate) fn now(&self) -> Phase {
        *self.0.borrow()
    }

    /// Resolves once `phase` or a later one is entered.
    pub(crate) async fn reached(&self, phase: Phase) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|now| *now >= phase).await;
    }
}
