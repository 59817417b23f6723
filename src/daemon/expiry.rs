//! Dates what the table of signing scopes holds, which no file tells: client certificates, and the ends of signing. It warns of
//! each once, and changes nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;

use crate::deliver::Snapshot;
use crate::signer::{Provider, ResolveError, ScopeFault, SigningKeys};
use crate::telemetry::expiry::{Dated, Expiring, WARN_DAYS, gauge, report};

const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Of the time, no more than one part in so many is spent on looking.
const IDLE_PARTS: u32 = 20;

pub(super) async fn watch(snapshot: Arc<ArcSwap<Snapshot>>) {
    let mut told = Vec::new();
    loop {
        let began = tokio::time::Instant::now();
        if matches!(snapshot.load().provider, Provider::Tables(_)) {
            look(&snapshot.load_full(), &mut told).await;
        }
        tokio::time::sleep(LOOK_EVERY.max(began.elapsed() * IDLE_PARTS)).await;
    }
}

async fn look(snapshot: &Snapshot, told: &mut Vec<Dated>) {
    let (now, roster) = (SystemTime::now(), snapshot.provider.roster().await);
    if roster.faults.iter().any(|(_, fault)| *fault == ResolveError::Unavailable(ScopeFault::Unread)) {
        return;
    }
    let default = snapshot.identity.iter().map(|identity| ("egress.client_cert_file".to_owned(), identity.expires()));
    let of_scopes = roster.certificates.into_iter();
    let of_scopes = of_scopes.map(|(scope, not_after)| (format!("client certificate of scope {scope:?}"), not_after));
    let certificates =
        default.chain(of_scopes).map(|(name, not_after)| Dated { kind: Expiring::ClientCertificate, name, not_after });
    let ends = roster.signers.iter().map(|(scope, keys)| Dated {
        kind: Expiring::SigningKey,
        name: format!("signing keys of scope {:?}: the last window", scope.as_deref().unwrap_or_default()),
        not_after: end_of_signing(keys, now),
    });
    let (certificates, ends): (Vec<Dated>, Vec<Dated>) = (certificates.collect(), ends.collect());
    let soon = |dated: &&Dated| dated.days_left(now).is_some_and(|days| days < WARN_DAYS);
    let warned: Vec<Dated> = certificates.iter().chain(&ends).filter(soon).cloned().collect();
    let news = warned != *told;
    for (kind, dated) in [(Expiring::ClientCertificate, &certificates), (Expiring::SigningKey, &ends)] {
        if news { report(kind, dated) } else { gauge(kind, dated) }
    }
    *told = warned;
}

/// When the scope stops to sign, or has; nothing where it does not, or never has begun to.
fn end_of_signing(keys: &SigningKeys, now: SystemTime) -> Option<u64> {
    let end = match keys.covered_until(now)? {
        ahead if ahead > now => ahead,
        _ => keys.newest_first().iter().filter_map(|timed| timed.window.not_after).filter(|end| *end <= now).max()?,
    };
    Some(end.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}
