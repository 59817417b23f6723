//! The profile terminal-notification: the source CMS's receiver contract, over the inbox in Postgres.
//!
//! [`checks`] decides in the contract's order what a request may have done; this file does it. An acknowledgement is
//! made only from what the store says after its commit, and the store decides alone what converges and what collides.
//!
//! Where many replicas share one inbox, three rules of the single-process reference would let one bad row or one failed
//! notification stop everyone. They do not hold here: intake looks at the rows it touches and no others, it is not gated
//! on the health of the shared inbox, and what is wrong with a stored row is found by a sweep and shown by health.

mod canonical;
mod capabilities;
mod checks;
mod headers;
mod intake;
mod notification;
mod openapi;
mod principals;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;

use super::server::{Arrival, Body, BodyError};
use super::{ProfileError, Reply, aimed_at, now};
use crate::config::Config;
use crate::signature::verify::{self, is_signed};
use crate::store::{Accepted, InboxHealth, Kind, Store, StoreError};
use canonical::Value;
use checks::{Errand, Head, Rules};
use intake::{Intake, Received};
use notification::Notification;
pub(crate) use principals::CredentialsError;
use principals::{Credentials, Known};
use report::Refusal;
use worker::Standing;
pub(crate) use worker::Worker;

pub(crate) struct Terminal {
    rules: Rules,
    intake: Intake,
    /// None where this build cannot describe itself: then it takes nothing in.
    documents: Option<Documents>,
    origin: String,
    credentials_file: PathBuf,
    credentials: ArcSwap<Credentials>,
    standing: Mutex<Standing>,
    store: Arc<Store>,
}

/// What does not change while we run.
struct Documents {
    capabilities_sha256: String,
    capabilities: Bytes,
    openapi: Bytes,
}

impl Documents {
    fn new(intake_path: &str) -> Option<Documents> {
        let (capabilities_sha256, capabilities) = capabilities::digested(capabilities::document(intake_path))?;
        let openapi = openapi::document(intake_path, &capabilities, &capabilities_sha256);
        let openapi_sha256 = notification::sha256(&openapi.canonical()?);
        let openapi = Value::from([
            ("schema", capabilities::OPENAPI_SCHEMA.into()),
            ("openapi", openapi),
            ("openapi_sha256", openapi_sha256.as_str().into()),
            ("capabilities_sha256", capabilities_sha256.as_str().into()),
        ]);
        let capabilities =
            Value::from([("schema", capabilities::CAPABILITIES_SCHEMA.into()), ("capabilities", capabilities)]);
        Some(Documents {
            capabilities: capabilities.canonical()?.into(),
            openapi: openapi.canonical()?.into(),
            capabilities_sha256,
        })
    }
}

impl Terminal {
    pub(super) fn load(config: &Config, store: Arc<Store>) -> Result<Terminal, ProfileError> {
        let settings = &config.settings.receive.terminal;
        settings::validate(settings)?;
        Ok(Terminal {
            rules: Rules { intake_path: settings.intake_path.clone(), require_https: settings.require_https },
            intake: Intake::new(store.clone(), settings.max_attempts),
            origin: settings.origin.clone(),
            documents: Documents::new(&settings.intake_path),
            credentials: ArcSwap::from_pointee(Credentials::load(&settings.credentials_file)?),
            credentials_file: settings.credentials_file.clone(),
            standing: Mutex::new(Standing { worker: Worker::Unmanaged, closed: false }),
            store,
        })
    }

    pub(super) fn reload(&self) -> Result<(), ProfileError> {
        self.credentials.store(Arc::new(Credentials::load(&self.credentials_file)?));
        Ok(())
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        vec![self.credentials_file.clone()]
    }

    /// Whoever works the inbox off in this process says how that goes.
    pub(super) fn set_worker(&self, worker: Worker) {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).worker = worker;
    }

    /// Nothing is taken in any more.
    pub(super) fn close(&self) {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    }

    fn standing(&self) -> Standing {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn answer(&self, head: &Parts, arrival: Arrival, body: Body) -> Reply {
        self.try_answer(head, arrival, body).await.unwrap_or_else(report::refuse)
    }

    async fn try_answer(&self, head: &Parts, arrival: Arrival, body: Body) -> Result<Reply, Refusal> {
        let judged = Head {
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query(),
            headers: &head.headers,
            secure: arrival.secure,
            repeated_length: arrival.repeated_length,
        };
        let admitted = self.rules.admit(judged, self.standing())?;
        let body = match admitted.length {
            0 => None,
            length => Some(body.exactly(length).await.map_err(not_read)?),
        };
        let body: &[u8] = body.as_ref().map_or(&[], |held| held);
        let subject = admitted.read(body)?;
        let capabilities_sha256 = self.documents.as_ref().map(|documents| documents.capabilities_sha256.as_str());
        let credentials = self.credentials.load();
        let whom = if is_signed(&head.headers) {
            self.verify(&credentials, head, body)
        } else {
            credentials.recognise(admitted.authorization())
        };
        admitted.authorise(&subject, whom, capabilities_sha256)?;
        self.run(admitted.errand(subject, body), body).await
    }

    /// The contract's answer tells the sender nothing; the log says what was wrong with its signature.
    fn verify<'a>(&self, credentials: &'a Credentials, head: &Parts, body: &[u8]) -> Option<&'a Known> {
        let url = aimed_at(&self.origin, head);
        let request = verify::Received { method: head.method.as_str(), url: &url, headers: &head.headers, body };
        let verified = credentials.verify(&request, now());
        verified.inspect_err(|error| tracing::debug!(code = error.code(), "a signature was refused")).ok().flatten()
    }

    async fn run(&self, errand: Errand, body: &[u8]) -> Result<Reply, Refusal> {
        let documents = self.documents.as_ref().ok_or(Refusal::CapabilitiesInvalid)?;
        let capabilities_sha256 = documents.capabilities_sha256.as_str();
        match errand {
            Errand::Accept { notification, sha256 } => self.accept(notification, sha256, body).await,
            Errand::Status { event_id, site_id } => {
                let stored = self.store.read_notification(&event_id).await.map_err(|error| fault(&error))?;
                let stored = stored.filter(|stored| stored.site_id == site_id).ok_or(Refusal::NotFound)?;
                Ok(report::status(&stored, capabilities_sha256))
            }
            Errand::Capabilities => Ok(report::send(StatusCode::OK, documents.capabilities.clone())),
            Errand::OpenApi => Ok(report::send(StatusCode::OK, documents.openapi.clone())),
            Errand::Health => {
                let inbox = self.inbox().await;
                Ok(report::health(self.standing(), inbox.as_ref(), capabilities_sha256))
            }
            Errand::Readiness => {
                let standing = self.standing();
                let inbox = if standing.worker == Worker::Running { self.inbox().await } else { None };
                Ok(report::readiness(standing, inbox.as_ref(), capabilities_sha256))
            }
        }
    }

    async fn accept(&self, notification: Notification, sha256: String, body: &[u8]) -> Result<Reply, Refusal> {
        // It was parsed as UTF-8 before.
        let payload = std::str::from_utf8(body).map_err(|_| Refusal::JsonInvalid)?.to_owned();
        let received = Arc::new(Received { notification, sha256, payload });
        match self.intake.accept(received.clone()).await {
            Ok(Accepted::Fresh | Accepted::Converged) => {
                Ok(report::acknowledge(&received.notification, &received.sha256))
            }
            Ok(Accepted::Collision) => Err(Refusal::IdempotencyCollision),
            Err(error) => Err(fault(&error)),
        }
    }

    async fn inbox(&self) -> Option<InboxHealth> {
        self.store.inbox_health().await.inspect_err(log_fault).ok()
    }
}

/// A body that we did not wait for is ours to answer for, so that the sender tries again.
fn not_read(error: BodyError) -> Refusal {
    match error {
        BodyError::Short => Refusal::BodyInvalid,
        BodyError::TooLarge => Refusal::BodyTooLarge,
        BodyError::Late | BodyError::Crowded => Refusal::RuntimeUnavailable,
    }
}

/// Whatever the store could not do is a 503: nothing was acknowledged, and the replay converges.
fn fault(error: &StoreError) -> Refusal {
    log_fault(error);
    match error.kind {
        Kind::Schema { .. } | Kind::Unreadable { .. } => Refusal::SchemaAltered,
        Kind::Damaged(_) => Refusal::ProcessingStateInvalid,
        _ => Refusal::StorageUnavailable,
    }
}

/// An outage is told once by whoever watches the database; here each would be a line per request.
fn log_fault(error: &StoreError) {
    match error.kind {
        Kind::Unavailable(_) | Kind::ReadOnly | Kind::Timeout { .. } => tracing::debug!(error = %error, "not stored"),
        _ => tracing::error!(error = %error, "the inbox did not do what was asked of it"),
    }
}
