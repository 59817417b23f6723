//! Configuration: layers in, validated final values out. Decides no behaviour; opens no socket.

mod layers;
mod outboxes;
mod receive;
mod settings;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use layers::{DEFAULTS, EnvironmentSecrets, Sources};
pub(crate) use outboxes::OutboxConfig;
pub(crate) use receive::{Forward, Listen, ProfileName, Receive, TerminalSettings, Trusted, WebhookSettings};
pub(crate) use settings::{
    CompatPolicy, Egress, History, Log, LogFormat, Sealing, SealingAddress, Settings, Signing, SigningKeyFile, Sweep,
    Tracing,
};

use crate::secret::Secret;

/// What a lease needs beyond the attempt itself: settling, and the clocks' disagreement.
pub(crate) const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// One connection for each loop that may wait for Postgres at the same time: claim, settle, sweep, probe.
const LOOPS: usize = 4;

/// Settings that fit together, and the secrets that the environment gave.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) secrets: EnvironmentSecrets,
}

/// A configuration that cannot be run with. Each variant prints one sentence that names the key and what it takes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration file {path}: {reason}", path = path.display())]
    File { path: PathBuf, reason: String },
    #[error("{0}")]
    Flag(String),
    #[error("{0}")]
    Environment(String),
    #[error("{key}{origin}: {problem}")]
    Shape { key: String, origin: String, problem: String },
    #[error("{key} {problem}; accepted: {accepted}")]
    Value { key: &'static str, problem: String, accepted: String },
    #[error("{key}: {path}: {problem}", path = path.display())]
    SecretFile { key: &'static str, path: PathBuf, problem: String },
}

impl Config {
    pub(crate) fn load(sources: &Sources) -> Result<Config, ConfigError> {
        let (settings, secrets) = layers::load(sources)?;
        validate(&settings)?;
        outboxes::validate(&settings, &secrets)?;
        Ok(Config { settings, secrets })
    }
}

fn set(path: &Path) -> Option<PathBuf> {
    Some(path.to_owned()).filter(|path| !path.as_os_str().is_empty())
}

fn refuse<T>(key: &'static str, problem: impl Into<String>, accepted: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key, problem: problem.into(), accepted: accepted.into() })
}

fn validate(settings: &Settings) -> Result<(), ConfigError> {
    let delivery = &settings.delivery;
    let least_lease = settings.egress.attempt_timeout + LEASE_MARGIN;
    if delivery.lease < least_lease {
        return refuse(
            "delivery.lease",
            format!(
                "is {}, shorter than one attempt (egress.attempt_timeout) and its settling need",
                humantime::format_duration(delivery.lease)
            ),
            format!("at least {}", humantime::format_duration(least_lease)),
        );
    }
    if settings.database.pool_size < LOOPS {
        return refuse(
            "database.pool_size",
            format!("is {}, fewer connections than the loops need", settings.database.pool_size),
            format!("{LOOPS} to 1000"),
        );
    }
    range("delivery.slots", delivery.slots, 1, 10_000)?;
    range("delivery.per_destination", delivery.per_destination, 1, 10_000)?;
    range("delivery.per_destination_start", delivery.per_destination_start, 1, 10_000)?;
    account_share(delivery.account_share)?;
    range("delivery.park_after", delivery.park_after as usize, 0, 1_000)?;
    range("delivery.claim_batch", delivery.claim_batch, 1, 1_000)?;
    range("delivery.max_in_flight_bytes", delivery.max_in_flight_bytes, 16 << 20, 64 << 30)?;
    span("egress.attempt_timeout", settings.egress.attempt_timeout, 100, 600_000)?;
    span("delivery.lease", delivery.lease, 1_000, 3_600_000)?;
    span("delivery.poll_interval", delivery.poll_interval, 10, 60_000)?;
    span("delivery.drain_timeout", delivery.drain_timeout, 0, 3_600_000)?;
    span("database.connect_timeout", settings.database.connect_timeout, 100, 60_000)?;
    span("database.statement_timeout", settings.database.statement_timeout, 100, 600_000)?;
    span("sweep.expire_interval", settings.sweep.expire_interval, 100, 3_600_000)?;
    span("sweep.purge_interval", settings.sweep.purge_interval, 100, 86_400_000)?;
    span("history.retention", settings.history.retention, 86_400_000, 315_360_000_000)?;
    span("sweep.keep_undelivered", settings.sweep.keep_undelivered, 0, 7_776_000_000)?;
    span("sweep.snapshot_warning", settings.sweep.snapshot_warning, 1000, 604_800_000)?;
    const HORIZON_MS: u64 = 604_800_000;
    let retry = &settings.retry;
    span("retry.base", retry.base, 10, HORIZON_MS)?;
    span("retry.slow_base", retry.slow_base, 10, HORIZON_MS)?;
    span("retry.cap", retry.cap, retry.base.as_millis() as u64, HORIZON_MS)?;
    span("retry.slow_cap", retry.slow_cap, retry.slow_base.as_millis() as u64, HORIZON_MS)?;
    span("retry.retry_after_cap", retry.retry_after_cap, 0, 86_400_000)?;
    span("envelope.unopenable_grace", settings.envelope.unopenable_grace, 0, HORIZON_MS)?;
    settings.receive.validate()?;
    sealing(&settings.sealing)?;
    tracing(&settings.tracing)?;
    client_files(&settings.egress)?;
    signing(&settings.signing)
}

/// A smaller part could be less than a slot, and let claims name more accounts than is cheap.
fn account_share(share: f64) -> Result<(), ConfigError> {
    match share {
        0.0 | 0.01..=1.0 => Ok(()),
        _ => refuse("delivery.account_share", format!("is {share}"), "0 for none, or 0.01 to 1"),
    }
}

/// The longest path that fits into a socket's address (108 bytes on Linux), with room for the name it is made under.
const LONGEST_SOCKET_PATH: usize = 100;

/// What seals for whoever asks must not be in reach of another machine, nor of every user of this one.
fn sealing(sealing: &Sealing) -> Result<(), ConfigError> {
    match &sealing.listen {
        Some(SealingAddress::Tcp(address)) if !address.ip().is_loopback() => refuse(
            "sealing.listen",
            format!("is {address}, which other machines may reach"),
            "\"unix:/path\", or a loopback address such as \"127.0.0.1:9465\"",
        ),
        Some(SealingAddress::Tcp(_)) if set(&sealing.token_file).is_none() => {
            refuse("sealing.token_file", "is not set, and every user of this machine could ask", "a file with a token")
        }
        Some(SealingAddress::Unix(path)) if !(1..=LONGEST_SOCKET_PATH).contains(&path.as_os_str().len()) => refuse(
            "sealing.listen",
            format!("has a path of {} bytes", path.as_os_str().len()),
            format!("a path of 1 to {LONGEST_SOCKET_PATH} bytes after \"unix:\""),
        ),
        _ => Ok(()),
    }
}

/// Spans travel in clear, and their collector's URL is no place for a secret.
fn tracing(tracing: &Tracing) -> Result<(), ConfigError> {
    const KEY: &str = "tracing.otlp_endpoint";
    let Some(endpoint) = &tracing.otlp_endpoint else { return Ok(()) };
    if !cfg!(feature = "otlp") {
        return refuse(
            KEY,
            "is set, and this outboxd was built without the feature otlp",
            "empty, or a binary by `cargo build --release --features otlp`",
        );
    }
    let problem = match (endpoint.scheme_str(), endpoint.authority()) {
        (Some("http"), Some(authority)) if authority.as_str().contains('@') => "names a user",
        (Some("http"), Some(_)) if endpoint.path() == "/" => "has no path",
        (Some("http"), Some(_)) => return Ok(()),
        (Some("https"), _) => "is an https URL",
        _ => "is not an http URL",
    };
    refuse(KEY, problem, "a collector nearby, in clear and with its path, such as \"http://127.0.0.1:4318/v1/traces\"")
}

impl Signing {
    /// Whether rows are signed by the scopes that they name.
    pub(crate) fn is_by_scope(&self) -> bool {
        self.scopes_table || set(&self.scopes_dir).is_some()
    }

    pub(crate) fn default_scope(&self) -> Option<String> {
        Some(self.default_scope.clone()).filter(|scope| !scope.is_empty())
    }
}

impl Egress {
    /// The client certificate and its key, or neither.
    pub(crate) fn client_files(&self) -> Option<(&Path, &Path)> {
        let set = !self.client_cert_file.as_os_str().is_empty();
        set.then_some((self.client_cert_file.as_path(), self.client_key_file.as_path()))
    }
}

fn client_files(egress: &Egress) -> Result<(), ConfigError> {
    match (set(&egress.client_cert_file), set(&egress.client_key_file)) {
        (Some(_), None) => {
            refuse("egress.client_key_file", "is empty beside egress.client_cert_file", "both files, or neither")
        }
        (None, Some(_)) => {
            refuse("egress.client_cert_file", "is empty beside egress.client_key_file", "both files, or neither")
        }
        _ => Ok(()),
    }
}

/// More would be a slip: a rotation needs two.
const MOST_SIGNING_KEYS: usize = 100;

fn signing(signing: &Signing) -> Result<(), ConfigError> {
    let sources = [
        ("signing.key_file", set(&signing.key_file).is_some()),
        ("signing.keys", !signing.keys.is_empty()),
        ("signing.scopes_dir", set(&signing.scopes_dir).is_some()),
        ("signing.scopes_table", signing.scopes_table),
    ];
    let mut used = sources.iter().filter(|(_, used)| *used).map(|(key, _)| *key);
    if let (Some(first), Some(second)) = (used.next(), used.next()) {
        return refuse(first, format!("is set together with {second}"), "exactly one of the two");
    }
    if !signing.is_by_scope() && !signing.default_scope.is_empty() {
        return refuse(
            "signing.default_scope",
            "is set without signing.scopes_dir and without signing.scopes_table",
            "empty, or a scope beside one of them",
        );
    }
    for (key, is_set) in [
        ("signing.key_id", !signing.key_id.is_empty()),
        ("signing.passphrase_file", set(&signing.passphrase_file).is_some()),
    ] {
        if is_set && set(&signing.key_file).is_none() {
            return refuse(
                key,
                "is set without signing.key_file",
                "empty, or beside key_file; signing.keys have their own",
            );
        }
    }
    if let Some(nth) = signing.keys.iter().position(|key| set(&key.key_file).is_none()) {
        return refuse("signing.keys", format!("has no key_file in entry {}", nth + 1), "the path of a private key");
    }
    if signing.keys.len() > MOST_SIGNING_KEYS {
        return refuse(
            "signing.keys",
            format!("has {} entries", signing.keys.len()),
            format!("up to {MOST_SIGNING_KEYS}"),
        );
    }
    Ok(())
}

impl Config {
    /// Every file that a reload reads, the configuration file itself aside.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Settings { envelope, signing, egress, sealing, .. } = &self.settings;
        let keys = signing.keys.iter().flat_map(|key| [&key.key_file, &key.passphrase_file]);
        let client = [&egress.client_cert_file, &egress.client_key_file];
        let single = [&signing.key_file, &signing.passphrase_file, &sealing.token_file];
        let lists = envelope.key_files.iter().chain(&egress.trust_anchors);
        lists.chain(keys).chain(client).chain(single).filter_map(|path| set(path)).collect()
    }
}

fn range(key: &'static str, value: usize, least: usize, most: usize) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(key, format!("is {value}"), format!("{least} to {most}"))
}

fn span(key: &'static str, value: Duration, least_ms: u64, most_ms: u64) -> Result<(), ConfigError> {
    let (least, most) = (Duration::from_millis(least_ms), Duration::from_millis(most_ms));
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(
        key,
        format!("is {}", humantime::format_duration(value)),
        format!("{} to {}", humantime::format_duration(least), humantime::format_duration(most)),
    )
}

/// Reads a file that holds a secret, and says which key named it when that fails.
pub(crate) fn secret_file(key: &'static str, path: &Path) -> Result<Secret, ConfigError> {
    match crate::secret::read_secret_file(path) {
        Ok(bytes) => Ok(Secret::new(bytes.to_vec())),
        Err(error) => Err(ConfigError::SecretFile { key, path: path.to_owned(), problem: error.to_string() }),
    }
}
