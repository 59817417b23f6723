//! What an attempt needs and a reload may replace: keys, signers, address policy, resolver, client. All or nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls_pki_types::CertificateDer;

use super::report_expiry;
use crate::address::{HostPatternError, Nat64Prefix, Nat64PrefixError, Policy, Resolver, UrlRules, own_addresses};
use crate::certificate::{self, ClientIdentity};
use crate::config::{Config, ConfigError, Egress, Signing, SigningKeyFile, secret_file};
use crate::envelope::{EnvelopeKey, Keyring, OpenRules};
use crate::post::{Client, PoolLimits};
use crate::secret::{Secret, passphrase};
use crate::signature::{Algorithm, Algorithms, KeyError, SigningKey};
use crate::signer::{KnownKids, Provider, ScopeDirectory, ScopeTable, SigningKeys, TimedKey, Window};
use crate::store::Store;
use crate::telemetry::expiry::{Dated, Expiring, report};
use crate::telemetry::metrics;

pub(crate) struct Snapshot {
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) open_rules: OpenRules,
    pub(crate) provider: Provider,
    pub(crate) url_rules: UrlRules,
    pub(crate) policy: Policy,
    pub(crate) resolver: Resolver,
    pub(crate) client: Client,
    /// Who we are to a receiver that demands a client certificate, where the row's scope does not say.
    pub(crate) identity: Option<Arc<ClientIdentity>>,
    /// What callers of the sealing listener must know, where they must know anything.
    pub(crate) sealing_token: Option<Secret>,
}

/// Why a snapshot cannot be made; names the setting and what to do, and shows no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{key}: {problem}")]
    Setting { key: &'static str, problem: String },
    #[error("{key}: {path}: {problem}", path = path.display())]
    File { key: &'static str, path: PathBuf, problem: String },
    #[error("cannot read the addresses of this machine's interfaces, which no row may name: {0}")]
    Interfaces(std::io::Error),
}

impl Snapshot {
    /// `known` are the key ids that were met so far; those of a snapshot that is taken up are added by [`adopt`](Self::adopt).
    pub(crate) fn load(
        config: &Config,
        known: &Arc<KnownKids>,
        stores: &[Arc<Store>],
    ) -> Result<Snapshot, SnapshotError> {
        let keyring = Arc::new(keyring(config)?);
        let provider = provider(config, known, &keyring, stores)?;
        let egress = egress(config)?;
        metrics::egress_allowed(config.settings.egress.allow.len());
        if !config.settings.egress.allow.is_empty() {
            let networks: Vec<String> = config.settings.egress.allow.iter().map(ToString::to_string).collect();
            tracing::warn!(networks = networks.join(" "), "egress.allow opens private networks to what rows name");
        }
        let snapshot = Snapshot {
            keyring,
            open_rules: OpenRules { legacy_hmac: config.settings.envelope.legacy_hmac },
            provider,
            url_rules: egress.url_rules,
            policy: egress.policy,
            resolver: egress.resolver,
            client: egress.client,
            identity: client_identity(&config.settings.egress)?,
            sealing_token: sealing_token(config)?,
        };
        report_expiry(&[Expiring::TrustAnchor, Expiring::DatabaseCa], config);
        // What is in the table is asked for afterwards, and told of together with the rest.
        if !matches!(snapshot.provider, Provider::Tables(_)) {
            report_expiry(&[Expiring::ClientCertificate], config);
            report(Expiring::SigningKey, &signing_end(&snapshot.provider, SystemTime::now()));
        }
        Ok(snapshot)
    }

    /// The snapshot is in use from now on, and its key ids are known.
    pub(crate) fn adopt(&self, known: &KnownKids) {
        if let Some(keys) = self.provider.fixed() {
            known.remember(None, keys);
        }
    }
}

/// The keys that open envelopes, newest first: those of the environment before those of files.
pub(crate) fn keyring(config: &Config) -> Result<Keyring, SnapshotError> {
    let mut keys = Vec::new();
    if let Some(given) = &config.secrets.envelope_keys {
        for key in given.expose().split(|byte| *byte == b',') {
            let key = EnvelopeKey::parse(key.trim_ascii())
                .map_err(|error| setting("OUTBOXD_ENVELOPE__KEYS", error.to_string()))?;
            keys.push(key);
        }
    }
    for path in &config.settings.envelope.key_files {
        let bytes = secret_file("envelope.key_files", path)?;
        let key = EnvelopeKey::parse(bytes.expose()).map_err(|error| SnapshotError::File {
            key: "envelope.key_files",
            path: path.clone(),
            problem: error.to_string(),
        })?;
        keys.push(key);
    }
    if keys.is_empty() {
        let problem = "no key is set; name the file that holds the host's AES-256 key (make a new one: outboxd keygen \
                       envelope)";
        return Err(setting("envelope.key_files", problem.into()));
    }
    Keyring::new(keys).map_err(|error| setting("envelope.key_files", error.to_string()))
}

/// A token as a header can carry it; a line end after it is not part of it.
pub(crate) fn sealing_token(config: &Config) -> Result<Option<Secret>, SnapshotError> {
    let path = &config.settings.sealing.token_file;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let file = secret_file("sealing.token_file", path)?;
    let token = file.expose().trim_ascii_end();
    if !(16..=4096).contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
        let problem = "expected one token of 16 to 4096 visible ASCII characters, such as: openssl rand -hex 32";
        return Err(SnapshotError::File { key: "sealing.token_file", path: path.clone(), problem: problem.into() });
    }
    Ok(Some(Secret::new(token.to_vec())))
}

/// Where signing keys come from: files, or by scope a directory or the tables beside the outboxes.
pub(crate) fn provider(
    config: &Config,
    known: &Arc<KnownKids>,
    keyring: &Arc<Keyring>,
    stores: &[Arc<Store>],
) -> Result<Provider, SnapshotError> {
    let signing = &config.settings.signing;
    let advertised = signing
        .algorithms
        .iter()
        .map(|name| name.parse::<Algorithm>())
        .collect::<Result<Algorithms, _>>()
        .map_err(|error| setting("signing.algorithms", error.to_string()))?;
    if advertised.is_empty() {
        return Err(setting("signing.algorithms", "is empty; name what the seller advertises".into()));
    }
    if !signing.scopes_dir.as_os_str().is_empty() {
        if !signing.scopes_dir.is_dir() {
            let problem = "is not a directory that can be entered".into();
            return Err(SnapshotError::File { key: "signing.scopes_dir", path: signing.scopes_dir.clone(), problem });
        }
        let directory = ScopeDirectory::new(signing.scopes_dir.clone(), signing.default_scope(), known.clone());
        return Ok(Provider::Scopes(directory));
    }
    if signing.scopes_table {
        let table = |store: &Arc<Store>| {
            ScopeTable::new(store.clone(), keyring.clone(), signing.default_scope(), known.clone())
        };
        return Ok(Provider::Tables(stores.iter().map(table).collect()));
    }
    let keys = fixed_keys(signing, advertised)?;
    if let Some(kid) = known.changed(None, &keys) {
        let problem = format!(
            "the key id {kid:?} stands for another key than it did before in this process, and receivers may hold the old \
             one; give the new key a new key id"
        );
        return Err(setting(if signing.keys.is_empty() { "signing.key_file" } else { "signing.keys" }, problem));
    }
    Ok(Provider::Fixed { keys, advertised })
}

/// The one key of `signing.key_file`, or those of `signing.keys` with their windows.
fn fixed_keys(signing: &Signing, advertised: Algorithms) -> Result<SigningKeys, SnapshotError> {
    const SINGLE: KeyNames =
        KeyNames { file: "signing.key_file", kid: "signing.key_id", passphrase: "signing.passphrase_file" };
    const LISTED: KeyNames = KeyNames { file: "signing.keys", kid: "signing.keys", passphrase: "signing.keys" };
    if !signing.key_file.as_os_str().is_empty() {
        let file = SigningKeyFile {
            key_file: signing.key_file.clone(),
            key_id: signing.key_id.clone(),
            passphrase_file: signing.passphrase_file.clone(),
            ..SigningKeyFile::default()
        };
        return fixed_key(&file, &SINGLE, advertised).map(SigningKeys::single);
    }
    if signing.keys.is_empty() {
        let problem = "no signing key is set; name a private key file (make one: outboxd keygen ed25519), or set \
                       signing.keys, signing.scopes_dir or signing.scopes_table";
        return Err(setting("signing.key_file", problem.into()));
    }
    let mut keys = Vec::new();
    for file in &signing.keys {
        let key = Arc::new(fixed_key(file, &LISTED, advertised)?);
        keys.push(TimedKey { key, window: Window { not_before: file.not_before, not_after: file.not_after } });
    }
    SigningKeys::new(keys).map_err(|error| setting("signing.keys", error.to_string()))
}

/// From when on no fixed key signs any more, if nothing is done. Scopes are told of by whoever asks for them.
fn signing_end(provider: &Provider, now: SystemTime) -> Vec<Dated> {
    let end = provider.fixed().map(|keys| keys.covered_until(now));
    let dated = end.map(|end| Dated {
        kind: Expiring::SigningKey,
        name: "signing.keys: the last window".into(),
        not_after: end.map(|end| end.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
    });
    dated.into_iter().collect()
}

/// What the settings of a key are called.
struct KeyNames {
    file: &'static str,
    kid: &'static str,
    passphrase: &'static str,
}

/// A private JWK carries its own key id; a PEM needs one beside it.
fn fixed_key(file: &SigningKeyFile, names: &KeyNames, advertised: Algorithms) -> Result<SigningKey, SnapshotError> {
    let content = secret_file(names.file, &file.key_file)?;
    let passphrase = match file.passphrase_file.as_os_str().is_empty() {
        true => None,
        false => Some(passphrase(secret_file(names.passphrase, &file.passphrase_file)?.expose())),
    };
    let kid = Some(file.key_id.as_str()).filter(|kid| !kid.is_empty());
    let key = SigningKey::read(content.expose(), kid, passphrase.as_ref().map(Secret::expose));
    let key = key.map_err(|error| match error {
        KeyError::KidMissing | KeyError::KidDiffers | KeyError::Kid if names.kid != names.file => {
            setting(names.kid, error.to_string())
        }
        error => SnapshotError::File { key: names.file, path: file.key_file.clone(), problem: error.to_string() },
    })?;
    if !advertised.contains(key.algorithm()) {
        let problem = format!("the key is {}, which signing.algorithms does not name", key.algorithm());
        return Err(SnapshotError::File { key: names.file, path: file.key_file.clone(), problem });
    }
    Ok(key)
}

/// The way out: URL rules, address policy, resolver and TLS client.
pub(crate) struct Way {
    pub(crate) url_rules: UrlRules,
    pub(crate) policy: Policy,
    pub(crate) resolver: Resolver,
    pub(crate) client: Client,
}

pub(crate) fn egress(config: &Config) -> Result<Way, SnapshotError> {
    let egress = &config.settings.egress;
    let anchors = trust_anchors(egress)?;
    let tls = crate::post::tls_config(&anchors, egress.system_roots)
        .map_err(|error| setting("egress.trust_anchors", error.to_string()))?;
    let (url_rules, policy) = destinations(config)?;
    Ok(Way { url_rules, policy, resolver: resolver(config)?, client: Client::new(Arc::new(tls), kept(config)) })
}

/// As many as there may be attempts at once: when a burst of them to one receiver ends, none of its connections is made
/// for nothing.
fn kept(config: &Config) -> PoolLimits {
    let limits = PoolLimits::default();
    PoolLimits { max_idle: limits.max_idle.max(config.settings.delivery.slots), ..limits }
}

pub(crate) fn resolver(config: &Config) -> Result<Resolver, SnapshotError> {
    let built = match config.settings.egress.dns_servers.as_slice() {
        [] => Resolver::system(),
        servers => Resolver::with_servers(servers),
    };
    built.map_err(|error| setting("egress.dns_servers", error.to_string()))
}

/// What may be delivered to, as far as a URL alone shows it. Looks at this machine's interfaces, each time anew.
pub(crate) fn destinations(config: &Config) -> Result<(UrlRules, Policy), SnapshotError> {
    let egress = &config.settings.egress;
    let allow_hosts = egress
        .allow_hosts
        .iter()
        .map(|pattern| pattern.parse())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error: HostPatternError| setting("egress.allow_hosts", error.to_string()))?;
    let nat64 = egress
        .nat64_prefixes
        .iter()
        .map(|net| Nat64Prefix::try_from(*net))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error: Nat64PrefixError| setting("egress.nat64_prefixes", error.to_string()))?;
    let own = own_addresses().map_err(SnapshotError::Interfaces)?;
    let policy = Policy::new(egress.allow.clone(), egress.deny.clone()).with_nat64(nat64).with_own(own);
    Ok((UrlRules::new(allow_hosts, egress.ports.clone()), policy))
}

fn trust_anchors(egress: &Egress) -> Result<Vec<CertificateDer<'static>>, SnapshotError> {
    let mut anchors = Vec::new();
    for path in &egress.trust_anchors {
        let fault = |problem: String| file_fault("egress.trust_anchors", path, problem);
        let pem = std::fs::read(path).map_err(|error| fault(error.kind().to_string()))?;
        anchors.extend(certificate::chain(&pem).map_err(|error| fault(error.to_string()))?);
    }
    Ok(anchors)
}

/// What is shown to receivers that demand a client certificate.
pub(crate) fn client_identity(egress: &Egress) -> Result<Option<Arc<ClientIdentity>>, SnapshotError> {
    const CERTIFICATE: &str = "egress.client_cert_file";
    const KEY: &str = "egress.client_key_file";
    let Some((certificate, key)) = egress.client_files() else { return Ok(None) };
    let chain =
        std::fs::read(certificate).map_err(|error| file_fault(CERTIFICATE, certificate, error.kind().to_string()))?;
    let private = secret_file(KEY, key)?;
    let identity = ClientIdentity::from_pem(&chain, private.expose()).map_err(|fault| match fault.is_about_key() {
        true => file_fault(KEY, key, fault.to_string()),
        false => file_fault(CERTIFICATE, certificate, fault.to_string()),
    })?;
    Ok(Some(Arc::new(identity)))
}

fn file_fault(key: &'static str, path: &Path, problem: String) -> SnapshotError {
    SnapshotError::File { key, path: path.to_owned(), problem }
}

fn setting(key: &'static str, problem: String) -> SnapshotError {
    SnapshotError::Setting { key, problem }
}
