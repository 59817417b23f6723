//! Hands stored messages to the host, one lease each: to an endpoint on this machine or to a command. A message is handed
//! over at least once; a host that must act exactly once takes messages by SQL, in its own transaction.

mod command;
mod endpoint;
mod outcome;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::command::Program;
use self::endpoint::Endpoint;
use self::outcome::Outcome;
use super::{Profile, ProfileError};
use crate::config::{ConfigError, Forward};
use crate::deliver::{Phase, Phases};
use crate::store::{Ending, Inbox, Kind, Message, Store, StoreError};
use crate::telemetry::metrics;

/// What a lease has beyond the hand-over itself: time to write down what came of it, past a restart of the database.
const LEASE_MARGIN: Duration = Duration::from_secs(30);
const SETTLE_PAUSE: Duration = Duration::from_millis(500);

enum Way {
    Endpoint(Endpoint),
    Program(Program),
}

pub(crate) struct Forwarder {
    hands: Arc<Hands>,
    inbox: Inbox,
    settings: Forward,
    /// Tells one replica's leases from another's, for whoever looks at the table.
    worker: String,
    /// Something was stored: no need to wait for the next look.
    stored: Arc<Notify>,
}

/// What every hand-over needs.
struct Hands {
    store: Arc<Store>,
    way: Way,
    timeout: Duration,
    delays: (Duration, Duration),
}

impl Forwarder {
    /// None where the host takes messages itself.
    pub(crate) fn load(
        settings: &Forward,
        profile: &Profile,
        store: Arc<Store>,
    ) -> Result<Option<Forwarder>, ProfileError> {
        let way = match (settings.url.as_str(), settings.command.split_first()) {
            ("", None) => return Ok(None),
            ("", Some((program, arguments))) => Way::Program(Program::new(program, arguments)),
            (url, _) => Way::Endpoint(Endpoint::parse(url).map_err(|error| ConfigError::Value {
                key: "receive.forward.url",
                problem: format!("is {url:?}: {error}"),
                accepted: "http://127.0.0.1:port/path (any loopback address) or unix:/path".into(),
            })?),
        };
        let hands = Hands { store, way, timeout: settings.timeout, delays: (settings.base_delay, settings.max_delay) };
        let worker = format!("forward-{}-{:08x}", std::process::id(), u32::from_be_bytes(crate::secret::random()));
        Ok(Some(Forwarder {
            hands: Arc::new(hands),
            inbox: profile.inbox(),
            settings: settings.clone(),
            worker,
            stored: profile.stored(),
        }))
    }

    /// Until the drain begins; then what is under way may end.
    pub(crate) async fn run(&self, phases: &Phases) {
        let mut under_way = JoinSet::new();
        while phases.now() == Phase::Running {
            let free = self.settings.slots.saturating_sub(under_way.len());
            let claimed = match free {
                0 => Vec::new(),
                free => self.claim(free).await,
            };
            let full_hands = !claimed.is_empty();
            for message in claimed {
                let hands = self.hands.clone();
                under_way.spawn(async move { hands.hand_over(message).await });
            }
            if full_hands {
                continue;
            }
            tokio::select! {
                () = phases.reached(Phase::Draining) => {}
                Some(_) = under_way.join_next() => {}
                () = self.stored.notified(), if free > 0 => {}
                () = tokio::time::sleep(self.settings.poll_interval) => {}
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// An outage is reported by the probe; it only makes us look again later.
    async fn claim(&self, free: usize) -> Vec<Message> {
        let most = u16::try_from(free).unwrap_or(u16::MAX);
        let lease = self.settings.timeout + LEASE_MARGIN;
        self.hands.store.claim_messages(self.inbox, &self.worker, most, lease).await.unwrap_or_else(|error| {
            tracing::debug!(error = %error, "nothing claimed");
            Vec::new()
        })
    }
}

impl Hands {
    async fn hand_over(&self, message: Message) {
        let lease_ends = Instant::now() + self.timeout + LEASE_MARGIN;
        let handing = async {
            match &self.way {
                Way::Endpoint(endpoint) => endpoint.post(&message).await,
                Way::Program(program) => program.run(&message).await,
            }
        };
        let outcome =
            tokio::time::timeout(self.timeout, handing).await.unwrap_or(Outcome::Retry("forward_timeout".into()));
        metrics::forwarded(outcome.label());
        let (key, attempt) = (message.idempotency_key.as_str(), message.attempt);
        match &outcome {
            Outcome::Taken => tracing::debug!(key, attempt, "message forwarded"),
            Outcome::Retry(code) => tracing::info!(key, attempt, code, "message not taken yet"),
            Outcome::Refused(code) => tracing::warn!(key, attempt, code, "message refused by the host; it is failed"),
        }
        // The host has it or not; what is written down of that can wait for the database as long as the lease holds.
        loop {
            match self.settle(&message, &outcome).await {
                Err(error) if is_passing(&error) && Instant::now() + SETTLE_PAUSE < lease_ends => {
                    tokio::time::sleep(SETTLE_PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(key, error = %error, "the hand-over could not be written down; the message comes again");
                    return;
                }
                Ok(()) => return,
            }
        }
    }

    async fn settle(&self, message: &Message, outcome: &Outcome) -> Result<(), StoreError> {
        let ending = match outcome {
            Outcome::Taken => Ending::Complete,
            Outcome::Retry(code) => Ending::Retry(code, self.delays),
            Outcome::Refused(code) => Ending::Fail(code),
        };
        self.store.end_message(&message.claim, ending).await
    }
}

fn is_passing(error: &StoreError) -> bool {
    matches!(error.kind, Kind::Unavailable(_) | Kind::ReadOnly | Kind::Timeout { .. })
}
