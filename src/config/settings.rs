//! The sections and keys as a file spells them; shapes and units only, no judgement of combinations.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http::Uri;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

use super::outboxes::ListedOutbox;
use super::receive::{Listen, Receive};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) outboxes: Vec<ListedOutbox>,
    pub(crate) database: Database,
    pub(crate) outbox: Outbox,
    pub(crate) envelope: Envelope,
    pub(crate) signing: Signing,
    pub(crate) egress: Egress,
    pub(crate) delivery: Delivery,
    pub(crate) retry: Retry,
    pub(crate) sweep: Sweep,
    pub(crate) history: History,
    pub(crate) admin: Admin,
    pub(crate) sealing: Sealing,
    pub(crate) jwks: Jwks,
    pub(crate) log: Log,
    pub(crate) tracing: Tracing,
    pub(crate) compat: Compat,
    pub(crate) receive: Receive,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) url_file: PathBuf,
    pub(crate) password_file: PathBuf,
    pub(crate) sslmode: String,
    pub(crate) sslrootcert: PathBuf,
    pub(crate) pool_size: usize,
    pub(crate) prepared_statements: bool,
    #[serde(deserialize_with = "duration")]
    pub(crate) connect_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) statement_timeout: Duration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outbox {
    pub(crate) table: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope {
    pub(crate) key_files: Vec<PathBuf>,
    #[serde(deserialize_with = "duration")]
    pub(crate) unopenable_grace: Duration,
    pub(crate) legacy_hmac: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signing {
    pub(crate) key_file: PathBuf,
    pub(crate) key_id: String,
    pub(crate) passphrase_file: PathBuf,
    pub(crate) keys: Vec<SigningKeyFile>,
    pub(crate) algorithms: Vec<String>,
    pub(crate) scopes_dir: PathBuf,
    pub(crate) scopes_table: bool,
    pub(crate) default_scope: String,
}

/// One of several signing keys, and when it may sign.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SigningKeyFile {
    pub(crate) key_file: PathBuf,
    #[serde(default)]
    pub(crate) key_id: String,
    #[serde(default)]
    pub(crate) passphrase_file: PathBuf,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) not_before: Option<SystemTime>,
    #[serde(default, deserialize_with = "moment")]
    pub(crate) not_after: Option<SystemTime>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Egress {
    pub(crate) allow: Vec<IpNet>,
    pub(crate) deny: Vec<IpNet>,
    pub(crate) nat64_prefixes: Vec<IpNet>,
    pub(crate) allow_hosts: Vec<String>,
    pub(crate) ports: Vec<u16>,
    pub(crate) dns_servers: Vec<SocketAddr>,
    pub(crate) trust_anchors: Vec<PathBuf>,
    pub(crate) system_roots: bool,
    pub(crate) client_cert_file: PathBuf,
    pub(crate) client_key_file: PathBuf,
    #[serde(deserialize_with = "duration")]
    pub(crate) attempt_timeout: Duration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Delivery {
    pub(crate) slots: usize,
    pub(crate) per_destination: usize,
    pub(crate) per_destination_start: usize,
    pub(crate) account_share: f64,
    pub(crate) park_after: u32,
    pub(crate) claim_batch: usize,
    pub(crate) max_in_flight_bytes: usize,
    #[serde(deserialize_with = "duration")]
    pub(crate) lease: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) poll_interval: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) drain_timeout: Duration,
}

impl Delivery {
    /// How many slots the rows of one account may hold, where there is a limit; at least one.
    pub(crate) fn account_rows(&self) -> Option<usize> {
        (self.account_share > 0.0).then(|| ((self.slots as f64 * self.account_share) as usize).max(1))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    #[serde(deserialize_with = "duration")]
    pub(crate) base: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) cap: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) slow_base: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) slow_cap: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) retry_after_cap: Duration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    #[serde(deserialize_with = "duration")]
    pub(crate) expire_interval: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) purge_interval: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) keep_undelivered: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) snapshot_warning: Duration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct History {
    pub(crate) enabled: bool,
    #[serde(deserialize_with = "duration")]
    pub(crate) retention: Duration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admin {
    #[serde(deserialize_with = "listener")]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sealing {
    #[serde(deserialize_with = "sealing_listener")]
    pub(crate) listen: Option<SealingAddress>,
    pub(crate) token_file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SealingAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jwks {
    #[serde(deserialize_with = "super::receive::optional_listen")]
    pub(crate) listen: Option<Listen>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    #[serde(deserialize_with = "log_format")]
    pub(crate) format: Option<LogFormat>,
    pub(crate) filter: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tracing {
    #[serde(deserialize_with = "endpoint")]
    pub(crate) otlp_endpoint: Option<Uri>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compat {
    pub(crate) policy: CompatPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CompatPolicy {
    Default,
    Sdk,
}

pub(super) fn duration<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(input)?;
    humantime::parse_duration(&text).map_err(|_| {
        serde::de::Error::custom(format!("{text:?} is not a duration; write a number and a unit, such as \"10s\""))
    })
}

/// RFC 3339 in UTC, as text or as TOML's own date-time; empty for none.
fn moment<'de, D: Deserializer<'de>>(input: D) -> Result<Option<SystemTime>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Toml(figment::value::Dict),
    }
    let text = match Written::deserialize(input)? {
        Written::Text(text) => text,
        Written::Toml(parts) => parts.values().find_map(|part| part.as_str()).unwrap_or_default().to_owned(),
    };
    if text.is_empty() {
        return Ok(None);
    }
    humantime::parse_rfc3339(&text).map(Some).map_err(|_| {
        serde::de::Error::custom(format!("{text:?} is not a moment in UTC, such as \"2026-12-01T00:00:00Z\""))
    })
}

fn listener<'de, D: Deserializer<'de>>(input: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        serde::de::Error::custom(format!("{text:?} is not an address and port, such as \"127.0.0.1:9464\""))
    })
}

fn sealing_listener<'de, D: Deserializer<'de>>(input: D) -> Result<Option<SealingAddress>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Some(SealingAddress::Unix(path.into())));
    }
    text.parse().map(|address| Some(SealingAddress::Tcp(address))).map_err(|_| {
        serde::de::Error::custom(format!(
            "{text:?} is neither \"unix:\" and a path nor an address and port, such as \"127.0.0.1:9465\""
        ))
    })
}

/// A collector's URL may hold a credential that does not belong there, so that it is not repeated.
fn endpoint<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Uri>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|_| serde::de::Error::custom("this is not a URL, such as \"http://127.0.0.1:4318/v1/traces\""))
}

fn log_format<'de, D: Deserializer<'de>>(input: D) -> Result<Option<LogFormat>, D::Error> {
    match String::deserialize(input)?.as_str() {
        "" => Ok(None),
        "text" => Ok(Some(LogFormat::Text)),
        "json" => Ok(Some(LogFormat::Json)),
        other => Err(serde::de::Error::custom(format!("{other:?} is neither \"text\" nor \"json\""))),
    }
}
