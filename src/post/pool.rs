//! Connections kept for the next delivery to the same pinned origin, briefly and few. Opens none and decides about none but by age.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::connection::{Connection, Key};

/// How long and how many connections are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolLimits {
    /// Below the shortest idle time-outs of servers (about 5 s), so that the race with their close is rare.
    pub(crate) idle: Duration,
    /// An old connection bypasses what certificates and DNS say by now.
    pub(crate) age: Duration,
    pub(crate) max_idle: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits { idle: Duration::from_secs(3), age: Duration::from_secs(60), max_idle: 256 }
    }
}

pub(super) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    limits: PoolLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: HashMap<Key, Vec<Idle>>,
    count: usize,
    /// Whether a task is waiting for the next expiry.
    sweeping: bool,
}

struct Idle {
    connection: Connection,
    until: Instant,
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Pool {
        Pool { shared: Arc::new(Shared { limits, state: Mutex::default() }) }
    }

    pub(super) fn idle(&self) -> usize {
        self.shared.lock().count
    }

    #[cfg(test)]
    pub(super) fn has_closed(&self) -> bool {
        self.shared.lock().idle.values().flatten().any(|entry| entry.connection.is_closed())
    }

    /// The connection to this origin that was used last, if one is still good.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        let now = Instant::now();
        let mut state = self.shared.lock();
        loop {
            let entries = state.idle.get_mut(key)?;
            let entry = entries.pop();
            if entries.is_empty() {
                state.idle.remove(key);
            }
            let entry = entry?;
            state.count -= 1;
            if entry.until > now && !entry.connection.is_closed() {
                return Some(entry.connection);
            }
            entry.connection.close();
        }
    }

    /// Keeps a connection whose exchange ended cleanly. Where there are too many, the one that would expire first goes.
    pub(super) fn put(&self, connection: Connection) {
        let limits = self.shared.limits;
        let now = Instant::now();
        let until = (now + limits.idle).min(connection.opened + limits.age);
        if until <= now || limits.max_idle == 0 {
            return connection.close();
        }
        let mut state = self.shared.lock();
        if state.count >= limits.max_idle {
            state.evict_one();
        }
        state.idle.entry(connection.key.clone()).or_default().push(Idle { connection, until });
        state.count += 1;
        if !state.sweeping {
            state.sweeping = true;
            tokio::spawn(sweep(Arc::downgrade(&self.shared)));
        }
    }
}

impl Shared {
    /// A panic cannot leave the state half changed: nothing under the lock calls out.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Closes what has expired or was closed by its server; says when the next one expires.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut count = 0;
        self.idle.retain(|_, entries| {
            for entry in entries.extract_if(.., |entry| entry.until <= now || entry.connection.is_closed()) {
                entry.connection.close();
            }
            count += entries.len();
            let soonest = entries.iter().map(|entry| entry.until).min();
            next = next.into_iter().chain(soonest).min();
            !entries.is_empty()
        });
        self.count = count;
        next
    }

    fn evict_one(&mut self) {
        let oldest = |entries: &Vec<Idle>| entries.iter().map(|entry| entry.until).min();
        let Some(key) = self.idle.iter().min_by_key(|(_, entries)| oldest(entries)).map(|(key, _)| key.clone()) else {
            return;
        };
        let Some(entries) = self.idle.get_mut(&key) else { return };
        let Some(index) = (0..entries.len()).min_by_key(|index| entries[*index].until) else { return };
        entries.remove(index).connection.close();
        self.count -= 1;
        if entries.is_empty() {
            self.idle.remove(&key);
        }
    }
}

/// Closes idle connections when they expire, not when somebody asks next. Ends with the last of them, or with the
/// pool, and is started by the next one kept.
async fn sweep(shared: Weak<Shared>) {
    loop {
        let next = {
            let Some(shared) = shared.upgrade() else { return };
            let mut state = shared.lock();
            match state.expire(Instant::now()) {
                Some(next) => next,
                None => {
                    state.sweeping = false;
                    return;
                }
            }
        };
        sleep_until(next).await;
    }
}
