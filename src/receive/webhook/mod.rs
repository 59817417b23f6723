//! The profile adcp-webhook: verifies a delivery, keeps it once, and only then acknowledges it. What becomes of it is the
//! host's business. Nothing is written for a request that nobody vouches for.

mod canonical;
mod checks;
mod credentials;
mod keys;
mod nonces;
mod payload;
mod refusal;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::checks::Scheme;
use self::credentials::Credentials;
use self::keys::FetchedKeys;
use self::nonces::Nonces;
use self::payload::Payload;
use self::refusal::{Refusal, answer};
use super::server::Body;
use super::{ProfileError, Reply, aimed_at, now};
use crate::address::Destination;
use crate::config::{Config, ConfigError, WebhookSettings};
use crate::deliver::{Phase, Phases};
use crate::signature::Target;
use crate::signature::verify::{Knowledge, Received, Revocation, SKEW_SECONDS, Verified, VerifyError, verify};
use crate::store::{Delivery, Kept, NonceCaps, SeenSignature, Store};
use crate::telemetry::metrics;

/// How often the nonces are counted, at most; never more than this share of the time goes into it.
const COUNT_EVERY: Duration = Duration::from_secs(1);
const COUNT_SHARE: u32 = 20;
const PURGE_EVERY: Duration = Duration::from_secs(60);
const PURGE_ROWS: u32 = 1_000;
/// Nonces are kept for this much longer than their signatures are valid here: a replica's clock may lag behind.
const NONCE_MARGIN: Duration = Duration::from_secs(300);
/// Counting the work that is left stops here.
const SAMPLE: u32 = 10_000;
/// Reading a larger payload would keep the other requests of this thread waiting.
const LARGE: usize = 64 << 10;

pub(crate) struct Webhook {
    store: Arc<Store>,
    settings: WebhookSettings,
    /// Without a slash at its end.
    origin: String,
    credentials: ArcSwap<Credentials>,
    fetched: Option<FetchedKeys>,
    nonces: Nonces,
    /// Told of every delivery that is new.
    stored: Arc<Notify>,
    unix_seconds: fn() -> i64,
}

impl Webhook {
    pub(super) fn load(config: &Config, store: Arc<Store>) -> Result<Webhook, ProfileError> {
        let receive = &config.settings.receive;
        let settings = receive.webhook.clone();
        let caps = NonceCaps { per_key: settings.nonces_per_key, total: settings.nonces_total };
        let webhook = Webhook {
            origin: origin(&settings.origin)?,
            credentials: ArcSwap::from_pointee(Credentials::load(&settings)?),
            fetched: fetched_keys(config)?,
            nonces: Nonces::new(caps),
            stored: Arc::default(),
            unix_seconds: now,
            settings,
            store,
        };
        let sender = &webhook.settings.sender;
        if sender.is_empty() || sender.len() > 255 || sender.chars().any(char::is_control) {
            return Err(refuse("receive.webhook.sender", "is not set, or no name", "1 to 255 bytes of text"));
        }
        if webhook.fetched.is_none() && webhook.credentials.load().is_empty() {
            let accepted =
                "at least one of jwks_file, jwks_url, hmac_secret_file, standard_webhooks_secret_file and bearer_file";
            return Err(refuse("receive.webhook.jwks_file", "is empty, so that nobody could deliver", accepted));
        }
        Ok(webhook)
    }

    pub(super) fn reload(&self) -> Result<(), ProfileError> {
        self.credentials.store(Arc::new(Credentials::load(&self.settings)?));
        Ok(())
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let settings = &self.settings;
        let files = [
            &settings.jwks_file,
            &settings.revocation_file,
            &settings.hmac_secret_file,
            &settings.standard_webhooks_secret_file,
            &settings.bearer_file,
        ];
        files.into_iter().filter(|path| !path.as_os_str().is_empty()).cloned().collect()
    }

    pub(super) async fn answer(&self, head: &Parts, body: Body) -> Reply {
        let outcome = self.receive(head, body).await;
        metrics::webhook_received(match outcome {
            Ok(Kept::Stored) => "stored",
            Ok(_) => "duplicate",
            Err(refusal) => refusal.code(),
        });
        match outcome {
            Ok(Kept::Stored) => {
                self.stored.notify_one();
                answer(StatusCode::OK, r#"{"status":"stored"}"#)
            }
            Ok(_) => answer(StatusCode::OK, r#"{"status":"duplicate"}"#),
            Err(refusal) => {
                tracing::debug!(code = refusal.code(), "webhook refused");
                refusal.reply()
            }
        }
    }

    /// The order is the contract's (wire contract, section 8.1): a request with two faults earns the answer to the first.
    async fn receive(&self, head: &Parts, body: Body) -> Result<Kept, Refusal> {
        checks::head(head, &self.settings.path_prefix)?;
        let body = body.all(self.settings.max_body_bytes).await?;
        let verified = self.authenticate(head, &body).await?;
        let payload = read_payload(body.clone()).await;
        let accepted = match (&verified, &payload) {
            // There is no nonce to remember, and nothing to keep.
            (None, Err(refusal)) => return Err(*refusal),
            _ => self.keep(verified.as_ref(), payload.as_ref().ok(), &body).await?,
        };
        match accepted {
            Kept::Stored | Kept::Observed | Kept::Duplicate => Ok(accepted),
            Kept::Conflict => Err(Refusal::Conflict),
            Kept::Replayed => Err(VerifyError::Replayed.into()),
            Kept::Crowded => Err(VerifyError::RateAbuse.into()),
            Kept::InProgress => Err(Refusal::InProgress),
            // Its signature is used up; its payload was no good.
            Kept::Unkeyed => Err(payload.err().unwrap_or(Refusal::KeyMissing)),
        }
    }

    /// Whoever vouches for the request. `None` is a legacy credential, which has no nonce.
    async fn authenticate(&self, head: &Parts, body: &[u8]) -> Result<Option<Verified>, Refusal> {
        let credentials = self.credentials.load_full();
        match checks::scheme(&head.headers) {
            Scheme::Rfc9421 => self.verify(head, body, &credentials).await.map(Some),
            Scheme::Hmac if credentials.takes_hmac() => {
                let good = credentials.verify_hmac(&head.headers, body, (self.unix_seconds)());
                if good { Ok(None) } else { Err(Refusal::LegacyFailed) }
            }
            Scheme::StandardWebhooks if credentials.takes_standard() => {
                let good = credentials.verify_standard(&head.headers, body, (self.unix_seconds)());
                if good { Ok(None) } else { Err(Refusal::LegacyFailed) }
            }
            Scheme::Bearer(token) if credentials.takes_bearer() => {
                if credentials.verify_bearer(token) {
                    Ok(None)
                } else {
                    Err(Refusal::LegacyFailed)
                }
            }
            Scheme::Hmac | Scheme::StandardWebhooks | Scheme::Bearer(_) | Scheme::None => {
                Err(Refusal::SignatureMissing)
            }
        }
    }

    async fn verify(&self, head: &Parts, body: &[u8], credentials: &Credentials) -> Result<Verified, Refusal> {
        let Some(fetched) = &self.fetched else {
            return Ok(self.verify_with(head, body, credentials, credentials.jwks())?);
        };
        let held = fetched.current().await.ok_or(Refusal::KeysUnavailable)?;
        match self.verify_with(head, body, credentials, &held.jwks) {
            // The sender may have begun to use a key that it published after we looked.
            Err(VerifyError::KeyUnknown) => match fetched.newer(&held).await {
                Some(newer) => Ok(self.verify_with(head, body, credentials, &newer.jwks)?),
                None => Err(VerifyError::KeyUnknown.into()),
            },
            outcome => Ok(outcome?),
        }
    }

    fn verify_with(
        &self,
        head: &Parts,
        body: &[u8],
        credentials: &Credentials,
        jwks: &Value,
    ) -> Result<Verified, VerifyError> {
        let unix_seconds = (self.unix_seconds)();
        let url = aimed_at(&self.origin, head);
        let request = Received { method: head.method.as_str(), url: &url, headers: &head.headers, body };
        let knowledge = Knowledge {
            jwks,
            revocation: credentials.revocation().map_or(Revocation::NotTracked, |list| list.at(unix_seconds)),
            crowded: &|keyid| self.nonces.is_crowded(keyid),
            unix_seconds,
        };
        verify(&request, &knowledge)
    }

    async fn keep(&self, verified: Option<&Verified>, payload: Option<&Payload>, body: &[u8]) -> Result<Kept, Refusal> {
        let signature = verified.map(|verified| SeenSignature {
            keyid: &verified.keyid,
            nonce: &verified.nonce,
            kept_until: verified.expires.saturating_add(SKEW_SECONDS),
        });
        let delivery = payload.map(|payload| Delivery {
            sender: &self.settings.sender,
            idempotency_key: &payload.idempotency_key,
            payload_sha256: payload.sha256,
            observation: payload.observation,
            body,
            max_attempts: self.settings.max_attempts,
        });
        let count = signature.is_some_and(|seen| self.nonces.must_count(seen.keyid));
        let accepted = self.store.accept_webhook(signature, self.nonces.caps(), count, delivery).await;
        let accepted = accepted.map_err(|error| {
            // The probe reports an outage, once; here it would be reported once for each request.
            tracing::debug!(error = %error, "webhook not kept");
            Refusal::StoreUnavailable
        })?;
        let remembered = !matches!(accepted, Kept::Replayed | Kept::Crowded | Kept::InProgress);
        if let Some(seen) = signature.filter(|_| remembered) {
            self.nonces.claimed(seen.keyid);
        }
        Ok(accepted)
    }

    pub(super) fn stored(&self) -> Arc<Notify> {
        self.stored.clone()
    }

    /// Counts and purges until the drain begins.
    pub(super) async fn attend(&self, phases: &Phases) {
        if let Some(fetched) = &self.fetched {
            // So that the first delivery need not wait for it; nobody waits for this.
            fetched.current().await;
        }
        self.look_after(phases).await;
    }

    async fn look_after(&self, phases: &Phases) {
        let mut purged: Option<Instant> = None;
        loop {
            let begun = Instant::now();
            match self.store.sample_webhook_nonces().await {
                Ok(counts) => self.nonces.saw(counts),
                Err(_) => self.nonces.saw_nothing(),
            }
            let pause = COUNT_EVERY.max(begun.elapsed() * COUNT_SHARE);
            if purged.is_none_or(|at| at.elapsed() >= PURGE_EVERY) {
                purged = Some(Instant::now());
                self.purge().await;
                if let Ok(sample) = self.store.sample_webhook_inbox(SAMPLE).await {
                    metrics::webhook_inbox(sample.due, sample.lapsed, sample.failed);
                }
            }
            tokio::select! {
                () = phases.reached(Phase::Draining) => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// A failure is left to the next round: nothing depends on it for correctness.
    async fn purge(&self) {
        while let Ok(rows) = self.store.purge_webhook_nonces(NONCE_MARGIN, PURGE_ROWS).await {
            if rows < u64::from(PURGE_ROWS) {
                break;
            }
        }
        while let Ok(rows) = self.store.purge_settled_webhooks(self.settings.retention, PURGE_ROWS).await {
            if rows < u64::from(PURGE_ROWS) {
                break;
            }
        }
    }
}

async fn read_payload(body: bytes::Bytes) -> Result<Payload, Refusal> {
    if body.len() < LARGE {
        return payload::read(&body);
    }
    let reading = tokio::task::spawn_blocking(move || payload::read(&body));
    // It fails only where the runtime ends.
    reading.await.unwrap_or(Err(Refusal::StoreUnavailable))
}

fn origin(text: &str) -> Result<String, ProfileError> {
    let key = "receive.webhook.origin";
    let accepted = "what senders begin their URLs with, such as https://buyer.example.com";
    let target = Target::parse(text).map_err(|error| refuse(key, &format!("is {text:?}: {error}"), accepted))?;
    if target.target_uri != format!("https://{}/", target.authority) {
        return Err(refuse(key, &format!("is {text:?}"), accepted));
    }
    Ok(format!("https://{}", target.authority))
}

fn fetched_keys(config: &Config) -> Result<Option<FetchedKeys>, ProfileError> {
    let settings = &config.settings.receive.webhook;
    let key = "receive.webhook.jwks_url";
    if settings.jwks_url.is_empty() {
        return Ok(None);
    }
    if !settings.jwks_file.as_os_str().is_empty() {
        return Err(refuse(key, "is set together with receive.webhook.jwks_file", "one of the two"));
    }
    let way = crate::deliver::egress(config)?;
    let destination = Destination::parse(&settings.jwks_url, &way.url_rules)
        .map_err(|error| refuse(key, &error.to_string(), "an https URL that [egress] lets through"))?;
    Ok(Some(FetchedKeys::new(destination, way)))
}

fn refuse(key: &'static str, problem: &str, accepted: &str) -> ProfileError {
    ConfigError::Value { key, problem: problem.to_owned(), accepted: accepted.to_owned() }.into()
}
