//! The receiving end: a server that bounds and times what the network may do, and the profile that judges each request.
//!
//! The server knows no profile's rules and a profile knows no socket: between them are a request's head, how it
//! [arrived](server::Arrival), and a body that is read only when, and only as far as, the profile says so.

mod forward;
pub(crate) mod import;
mod ledger;
pub(crate) mod server;
mod terminal;
mod webhook;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::request::Parts;
use http_body_util::Full;
use tokio::sync::Notify;

use crate::config::{Config, ConfigError, ProfileName};
use crate::deliver::Phases;
use crate::store::{Inbox, Store};
use crate::telemetry::metrics;
pub(crate) use forward::Forwarder;
use server::{Application, Arrival, Body, Event};
pub(crate) use terminal::Worker;

pub(crate) type Reply = http::Response<Full<Bytes>>;

/// What is received here. Each variant is a contract of its own.
pub(crate) enum Profile {
    Terminal(Box<terminal::Terminal>),
    Webhook(Box<webhook::Webhook>),
}

/// Why a profile cannot be served, or not with what was loaded anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Certificate(#[from] server::CertificateError),
    #[error(transparent)]
    Credentials(#[from] terminal::CredentialsError),
    #[error(transparent)]
    Egress(#[from] crate::deliver::SnapshotError),
    #[error("{key}: {path}: {problem}", path = path.display())]
    File { key: &'static str, path: std::path::PathBuf, problem: String },
    #[error("receive.profile is not set; accepted: \"terminal-notification\", \"adcp-webhook\"")]
    Unset,
}

impl Profile {
    pub(crate) fn load(config: &Config, store: Arc<Store>) -> Result<Profile, ProfileError> {
        match config.settings.receive.profile.ok_or(ProfileError::Unset)? {
            ProfileName::TerminalNotification => {
                Ok(Profile::Terminal(Box::new(terminal::Terminal::load(config, store)?)))
            }
            ProfileName::AdcpWebhook => Ok(Profile::Webhook(Box::new(webhook::Webhook::load(config, store)?))),
        }
    }

    /// Reads its credentials again; keeps those from before if the new ones are not whole.
    pub(crate) fn reload(&self) -> Result<(), ProfileError> {
        match self {
            Profile::Terminal(terminal) => terminal.reload(),
            Profile::Webhook(webhook) => webhook.reload(),
        }
    }

    /// Whoever works the inbox off in this process says how that goes.
    pub(crate) fn set_worker(&self, worker: Worker) {
        match self {
            Profile::Terminal(terminal) => terminal.set_worker(worker),
            // Its intake does not depend on who takes messages.
            Profile::Webhook(_) => {}
        }
    }

    /// From now on every request is asked to come again.
    pub(crate) fn close(&self) {
        match self {
            Profile::Terminal(terminal) => terminal.close(),
            // A delivery that came before its connection ended is worth keeping.
            Profile::Webhook(_) => {}
        }
    }

    /// Files that are worth a reload when they change.
    pub(crate) fn files(&self) -> Vec<std::path::PathBuf> {
        match self {
            Profile::Terminal(terminal) => terminal.files(),
            Profile::Webhook(webhook) => webhook.files(),
        }
    }

    /// Where what is received is kept.
    pub(crate) fn inbox(&self) -> Inbox {
        match self {
            Profile::Terminal(_) => Inbox::Notifications,
            Profile::Webhook(_) => Inbox::Webhooks,
        }
    }

    /// Told of every new message, by a profile that says so.
    pub(crate) fn stored(&self) -> Arc<Notify> {
        match self {
            Profile::Terminal(_) => Arc::default(),
            Profile::Webhook(webhook) => webhook.stored(),
        }
    }

    /// What goes on beside the requests, until the process is on its way out.
    pub(crate) async fn attend(&self, phases: &Phases) {
        match self {
            Profile::Terminal(_) => {}
            Profile::Webhook(webhook) => webhook.attend(phases).await,
        }
    }
}

/// The URL that the sender must have aimed at to reach us: our own origin, whatever `Host` says. A signature for another
/// receiver's origin then never verifies here.
fn aimed_at(origin: &str, head: &Parts) -> String {
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    format!("{origin}{target}")
}

/// Unix seconds, for judging signatures.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or_default()
}

impl Application for Profile {
    async fn answer(&self, head: &Parts, arrival: Arrival, body: Body) -> Reply {
        match self {
            Profile::Terminal(terminal) => terminal.answer(head, arrival, body).await,
            Profile::Webhook(webhook) => webhook.answer(head, body).await,
        }
    }

    fn observe(&self, event: Event) {
        match event {
            Event::Connections(count) => metrics::receive_connections(count),
            Event::MadeRoom => metrics::receive_made_room(),
            Event::TurnedAway => metrics::receive_turned_away(),
            Event::Answered { status, took } => metrics::receive_answered(status, took),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_aimed_at_keeps_every_byte_of_the_target() {
        let of = |uri: &str| {
            let (head, ()) = http::Request::post(uri).body(()).unwrap().into_parts();
            aimed_at("https://b.example", &head)
        };
        assert_eq!(of("/a%2fb//c?x=%e2&&y="), "https://b.example/a%2fb//c?x=%e2&&y=");
        assert_eq!(of("/p?"), "https://b.example/p?");
        assert_eq!(of("http://other.example/p"), "https://b.example/p");
    }
}
