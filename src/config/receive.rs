//! The `[receive]` sections as a file spells them, and where the receiver listens; which profile needs what is judged
//! by the profile.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

use super::settings::duration;
use super::{ConfigError, range, refuse, span};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Receive {
    #[serde(deserialize_with = "profile")]
    pub(crate) profile: Option<ProfileName>,
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Listen,
    pub(crate) tls_cert_file: PathBuf,
    pub(crate) tls_key_file: PathBuf,
    #[serde(deserialize_with = "trusted")]
    pub(crate) trusted_proxies: Trusted,
    pub(crate) max_connections: usize,
    pub(crate) max_body_memory: usize,
    #[serde(deserialize_with = "duration")]
    pub(crate) head_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) body_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) idle_timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) drain_timeout: Duration,
    pub(crate) terminal: TerminalSettings,
    pub(crate) webhook: WebhookSettings,
    pub(crate) forward: Forward,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TerminalSettings {
    pub(crate) origin: String,
    pub(crate) intake_path: String,
    pub(crate) require_https: bool,
    pub(crate) credentials_file: PathBuf,
    pub(crate) max_attempts: i32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookSettings {
    pub(crate) origin: String,
    pub(crate) path_prefix: String,
    pub(crate) sender: String,
    pub(crate) jwks_file: PathBuf,
    pub(crate) jwks_url: String,
    pub(crate) revocation_file: PathBuf,
    pub(crate) hmac_secret_file: PathBuf,
    pub(crate) standard_webhooks_secret_file: PathBuf,
    pub(crate) bearer_file: PathBuf,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_attempts: i32,
    #[serde(deserialize_with = "duration")]
    pub(crate) sender_horizon: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) retention: Duration,
    pub(crate) nonces_per_key: u32,
    pub(crate) nonces_total: u32,
}

/// Where stored messages are handed to, by whoever does not take them by SQL.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Forward {
    pub(crate) url: String,
    pub(crate) command: Vec<String>,
    pub(crate) slots: usize,
    #[serde(deserialize_with = "duration")]
    pub(crate) timeout: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) poll_interval: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) base_delay: Duration,
    #[serde(deserialize_with = "duration")]
    pub(crate) max_delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProfileName {
    TerminalNotification,
    AdcpWebhook,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The peers whose word about the scheme counts: proxies that end TLS before us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trusted {
    pub(crate) networks: Vec<IpNet>,
    /// Whoever may open the unix socket.
    pub(crate) unix: bool,
}

impl Receive {
    /// The certificate and key files, or neither.
    pub(crate) fn tls_files(&self) -> Option<(&Path, &Path)> {
        let set = !self.tls_cert_file.as_os_str().is_empty();
        set.then_some((self.tls_cert_file.as_path(), self.tls_key_file.as_path()))
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let (certificate, key) = (self.tls_cert_file.as_os_str(), self.tls_key_file.as_os_str());
        if certificate.is_empty() != key.is_empty() {
            let (missing, beside) = match key.is_empty() {
                true => ("receive.tls_key_file", "receive.tls_cert_file"),
                false => ("receive.tls_cert_file", "receive.tls_key_file"),
            };
            return refuse(missing, format!("is empty beside {beside}"), "both files, or neither");
        }
        if let (Listen::Tcp(address), None) = (&self.listen, self.tls_files())
            && !address.ip().is_loopback()
        {
            return refuse(
                "receive.listen",
                format!("is {address}, where anybody could read and change what is sent in plain text"),
                "with tls_cert_file and tls_key_file any address; without them a loopback address or unix:/path",
            );
        }
        range("receive.max_connections", self.max_connections, 1, 100_000)?;
        range("receive.max_body_memory", self.max_body_memory, 1 << 20, 64 << 30)?;
        span("receive.head_timeout", self.head_timeout, 100, 600_000)?;
        span("receive.body_timeout", self.body_timeout, 100, 600_000)?;
        span("receive.idle_timeout", self.idle_timeout, 100, 3_600_000)?;
        span("receive.drain_timeout", self.drain_timeout, 0, 3_600_000)?;
        self.webhook.validate()?;
        self.forward.validate()
    }
}

const DAY_MS: u64 = 86_400_000;

impl WebhookSettings {
    fn validate(&self) -> Result<(), ConfigError> {
        if !self.path_prefix.starts_with('/') {
            return refuse("receive.webhook.path_prefix", "does not begin with /", "a path, such as /hooks/");
        }
        range("receive.webhook.max_body_bytes", self.max_body_bytes, 1 << 10, 64 << 20)?;
        range("receive.webhook.max_attempts", usize::try_from(self.max_attempts).unwrap_or_default(), 1, 20)?;
        range("receive.webhook.nonces_per_key", self.nonces_per_key as usize, 1, 1_000_000_000)?;
        range("receive.webhook.nonces_total", self.nonces_total as usize, 1, 1_000_000_000)?;
        span("receive.webhook.sender_horizon", self.sender_horizon, DAY_MS, 7 * DAY_MS)?;
        // While a sender may still repeat a delivery, its key must be known here.
        let least = self.sender_horizon.as_millis() as u64;
        span("receive.webhook.retention", self.retention, least, 3650 * DAY_MS)
    }
}

impl Forward {
    fn validate(&self) -> Result<(), ConfigError> {
        if !self.url.is_empty() && !self.command.is_empty() {
            return refuse(
                "receive.forward.url",
                "is set together with receive.forward.command",
                "one of the two, or none",
            );
        }
        range("receive.forward.slots", self.slots, 1, 1_000)?;
        span("receive.forward.timeout", self.timeout, 100, 3_600_000)?;
        span("receive.forward.poll_interval", self.poll_interval, 10, 60_000)?;
        span("receive.forward.base_delay", self.base_delay, 10, DAY_MS)?;
        span("receive.forward.max_delay", self.max_delay, self.base_delay.as_millis() as u64, DAY_MS)
    }
}

fn profile<'de, D: Deserializer<'de>>(input: D) -> Result<Option<ProfileName>, D::Error> {
    match String::deserialize(input)?.as_str() {
        "" => Ok(None),
        "terminal-notification" => Ok(Some(ProfileName::TerminalNotification)),
        "adcp-webhook" => Ok(Some(ProfileName::AdcpWebhook)),
        other => Err(serde::de::Error::custom(format!(
            "{other:?} is no profile; known: \"terminal-notification\", \"adcp-webhook\""
        ))),
    }
}

pub(super) fn optional_listen<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Listen>, D::Error> {
    let text = String::deserialize(input)?;
    if text.is_empty() { Ok(None) } else { parse_listen(&text).map(Some) }
}

fn listen<'de, D: Deserializer<'de>>(input: D) -> Result<Listen, D::Error> {
    parse_listen(&String::deserialize(input)?)
}

fn parse_listen<E: serde::de::Error>(text: &str) -> Result<Listen, E> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(Listen::Unix(path.into()));
    }
    text.parse().map(Listen::Tcp).map_err(|_| {
        E::custom(format!("{text:?} is neither an address and port, such as \"127.0.0.1:8443\", nor \"unix:/path\""))
    })
}

fn trusted<'de, D: Deserializer<'de>>(input: D) -> Result<Trusted, D::Error> {
    let mut trusted = Trusted::default();
    for text in Vec::<String>::deserialize(input)? {
        match text.as_str() {
            "unix" => trusted.unix = true,
            other => {
                let address = other.parse::<std::net::IpAddr>().map(IpNet::from);
                let network = address.or_else(|_| other.parse::<IpNet>()).map_err(|_| {
                    serde::de::Error::custom(format!("{other:?} is neither an IP address, a network nor \"unix\""))
                })?;
                trusted.networks.push(network);
            }
        }
    }
    Ok(trusted)
}
