//! The lines of `outboxd check` about signing keys: which signs now, which later, which no more, which scopes have none, and what is published.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Findings;
use crate::cli::Failure;
use crate::config::Config;
use crate::deliver::provider;
use crate::envelope::Keyring;
use crate::jwks::Publication;
use crate::signer::{Provider, ResolveError, Roster, SigningKeys};
use crate::store::Store;
use crate::telemetry::expiry::{Dated, Expiring};

/// Scopes are told by number, and only so many of those at fault one by one.
const TOLD: usize = 20;
/// As long as somebody may take to notice and make a new key.
const SOON: Duration = Duration::from_secs(30 * 86_400);

pub(super) async fn judge(config: &Config, keyring: &Arc<Keyring>, stores: &[Arc<Store>], findings: &mut Findings) {
    let provider = match provider(config, &Arc::default(), keyring, stores) {
        Ok(provider) => provider,
        Err(error) => return findings.fail("signing", error.into()),
    };
    // Asked about no scope: whether the tables are there and may be read.
    if matches!(provider, Provider::Tables(_)) {
        for store in stores {
            if let Err(error) = store.read_scopes(&[]).await {
                return findings.fail("signing", error.into());
            }
        }
    }
    let (now, roster) = (SystemTime::now(), provider.roster().await);
    let certificates = roster.certificates.iter().map(|(scope, not_after)| Dated {
        kind: Expiring::ClientCertificate,
        name: format!("client certificate of scope {scope:?}"),
        not_after: *not_after,
    });
    certificates.for_each(|certificate| findings.expires(&certificate, now));
    match provider.fixed() {
        Some(keys) => fixed(keys, now, findings),
        None => scopes(config, &roster, now, findings),
    }
    let (publication, conflicts) = Publication::of(&roster.signers.into_iter().collect(), now, None);
    let listen = config.settings.jwks.listen.as_ref();
    for conflict in conflicts {
        match listen {
            Some(_) => findings.fail("jwks", Failure::config(conflict.to_string())),
            None => findings.warn("jwks", conflict),
        }
    }
    if let Some(listen) = listen {
        findings.ok("jwks", format!("{} key(s) to be published on {listen}", publication.keys()));
    }
}

fn fixed(keys: &SigningKeys, now: SystemTime, findings: &mut Findings) {
    for (timed, words) in keys.told(now) {
        findings.ok("signing", format!("{} key {:?} {words}", timed.key.algorithm(), timed.key.kid()));
    }
    match keys.covered_until(now) {
        None => {}
        Some(end) if end <= now => {
            findings.warn("signing", "no key may sign now (not_before, not_after): rows wait until one may");
        }
        Some(end) if end < now + SOON => {
            let end = humantime::format_rfc3339_seconds(end);
            findings.warn("signing", format!("from {end} on no key may sign; add one that does"));
        }
        Some(_) => {}
    }
}

fn scopes(config: &Config, roster: &Roster, now: SystemTime, findings: &mut Findings) {
    let keys: usize = roster.signers.iter().map(|(_, keys)| keys.newest_first().len()).sum();
    let scopes = roster.signers.len();
    let from = match config.settings.signing.scopes_table {
        true => "the table".to_owned(),
        false => config.settings.signing.scopes_dir.display().to_string(),
    };
    findings.ok("signing", format!("by scope, from {from}: {scopes} scope(s) with {keys} key(s)"));
    let outside = roster.signers.iter().filter(|(_, keys)| keys.signing_at(now).is_none());
    for (scope, _) in outside.take(TOLD) {
        let scope = scope.as_deref().unwrap_or_default();
        findings.warn("signing", format!("{scope:?}: {}", ResolveError::OutsideWindows));
    }
    for (name, fault) in roster.faults.iter().take(TOLD) {
        findings.fail("signing", Failure::config(format!("{name}: {fault}")));
    }
    if roster.faults.len() > TOLD {
        findings.warn("signing", format!("and {} more like these", roster.faults.len() - TOLD));
    }
}
