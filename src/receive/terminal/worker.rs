//! Whether somebody in this process works the inbox off, and how that goes: the contract's worker states.
//!
//! Hosts work it off through SQL, so that of ourselves we have no worker: it is unmanaged, and intake is open whatever
//! becomes of what was taken in. Readiness says so in the contract's words, as not ready; whether this process can take
//! notifications in is what /readyz of the admin listener says.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worker {
    /// Nobody in this process: the host, by SQL.
    Unmanaged,
    Running,
    Starting,
    Stopping,
    Stopped,
    Failed,
}

impl Worker {
    pub(super) const ALL: [Worker; 6] =
        [Worker::Unmanaged, Worker::Starting, Worker::Running, Worker::Stopping, Worker::Stopped, Worker::Failed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Worker::Unmanaged => "unmanaged",
            Worker::Running => "running",
            Worker::Starting => "starting",
            Worker::Stopping => "stopping",
            Worker::Stopped => "stopped",
            Worker::Failed => "failed",
        }
    }

    pub(super) fn error(self) -> Option<&'static str> {
        (self == Worker::Failed).then_some("worker_blocked")
    }
}

/// What this process is in a position to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) worker: Worker,
    /// Nothing is answered any more.
    pub(super) closed: bool,
}

impl Standing {
    /// Intake is closed while a worker of ours is not there to work off what would come in. It stays open whatever the
    /// shared inbox holds: one failed notification must not stop every replica.
    pub(super) fn takes_in(self) -> bool {
        !self.closed && matches!(self.worker, Worker::Unmanaged | Worker::Running)
    }
}
