//! What nearly every test starts from: a database, a receiver, keys, and a configuration that joins them.

use std::time::Duration;

use super::certs::Authority;
use super::cluster::{Database, OutboxRow};
use super::config::{Config, text};
use super::eventually::{PATIENCE, eventually_within};
use super::keys::SigningKey;
use super::receiver::{Received, Receiver};
use super::seal::{Draft, EnvelopeKey, Sealed};
use super::verify::{Verified, assert_signed};

/// Of attempts whose leases a test waits out: a machine that stands still for seconds ends none of them.
const SHORT_ATTEMPT: Duration = Duration::from_secs(5);
/// The shortest that the daemon takes with it: attempt + 5 s.
pub const SHORT_LEASE: Duration = Duration::from_secs(10);

pub struct World {
    pub database: Database,
    pub receiver: Receiver,
    pub key: EnvelopeKey,
    pub signer: SigningKey,
}

impl World {
    pub async fn new() -> World {
        World::with_signer(SigningKey::ed25519("test-ed25519-1")).await
    }

    pub async fn with_signer(signer: SigningKey) -> World {
        World { database: Database::new().await, receiver: Receiver::start().await, key: EnvelopeKey::new(), signer }
    }

    /// Without signing, for tests that choose another kind.
    pub fn unsigned_config(&self) -> Config {
        let config = Config::empty();
        let key = config.file("envelope.key", self.key.hex());
        let anchor = config.file_with_mode("ca.pem", Authority::shared().pem(), 0o644);
        config
            .set("database.url", self.database.url.as_str())
            .set("envelope.key_files", vec![text(&key)])
            .set("egress.allow", vec!["127.0.0.0/8"])
            .set("egress.trust_anchors", vec![text(&anchor)])
            .set("egress.system_roots", false)
            .set("delivery.poll_interval", "100ms")
            .set("admin.listen", "127.0.0.1:0")
            .set("log.filter", "info,outboxd=debug")
    }

    pub fn config(&self) -> Config {
        let config = self.unsigned_config();
        let pem = config.file("signing.pem", self.signer.pem());
        config
            .set("signing.key_file", text(&pem))
            .set("signing.key_id", self.signer.kid.as_str())
            .set("signing.algorithms", vec![self.signer.algorithm.name()])
    }

    /// Retries that a test can wait out, and attempts that have all the time there is.
    pub fn retrying_config(&self) -> Config {
        self.config().set("retry.base", "100ms")
    }

    /// The same, and leases that a test can wait out.
    pub fn hasty_config(&self) -> Config {
        self.retrying_config()
            .set("egress.attempt_timeout", format!("{}s", SHORT_ATTEMPT.as_secs()))
            .set("delivery.lease", format!("{}s", SHORT_LEASE.as_secs()))
    }

    pub fn seal(&self, drafts: Vec<Draft>) -> Vec<Sealed> {
        drafts.into_iter().map(|draft| draft.seal(&self.key)).collect()
    }

    /// As `insert`, but sealed under another key.
    pub async fn insert_under(&self, key: &EnvelopeKey, target: &str, count: usize) -> Vec<Draft> {
        let drafts = Draft::many(&self.receiver.url(target), count);
        let sealed: Vec<Sealed> = drafts.iter().cloned().map(|draft| draft.seal(key)).collect();
        self.database.insert(&sealed).await;
        drafts
    }

    /// Pending rows for this receiver's `target`, as drafts for later comparison.
    pub async fn insert(&self, target: &str, count: usize) -> Vec<Draft> {
        let drafts = Draft::many(&self.receiver.url(target), count);
        self.database.insert(&self.seal(drafts.clone())).await;
        drafts
    }

    /// Waits until every row is in `state`.
    pub async fn all_are(&self, state: &str) -> Vec<OutboxRow> {
        self.all_are_within(PATIENCE, state).await
    }

    pub async fn all_are_within(&self, limit: Duration, state: &str) -> Vec<OutboxRow> {
        eventually_within(limit, &format!("all rows are {state}"), async || {
            let rows = self.database.rows().await;
            match rows.iter().find(|row| row.state != state) {
                Some(other) => Err(other.to_string()),
                None if rows.is_empty() => Err("there is no row".to_string()),
                None => Ok(rows),
            }
        })
        .await
    }

    pub fn assert_signed(&self, request: &Received) -> Verified {
        assert_signed(request, &self.signer)
    }
}
