//! Which of the configured certificates expire when. A file that cannot be read is passed over: whoever uses it says so.

use std::collections::BTreeSet;
use std::path::Path;

use crate::certificate::{chain, earliest_expiry};
use crate::config::Config;
use crate::signer::client_certificates;
use crate::telemetry::expiry::{Dated, Expiring, report};

/// Everything of this kind that the configuration names.
pub(crate) fn dated(kind: Expiring, config: &Config) -> Vec<Dated> {
    let settings = &config.settings;
    let file = |setting: &str, path: &Path| read(kind, setting, path);
    match kind {
        Expiring::TrustAnchor => {
            settings.egress.trust_anchors.iter().filter_map(|path| file("egress.trust_anchors", path)).collect()
        }
        Expiring::ClientCertificate => {
            let default = settings.egress.client_files().and_then(|(path, _)| file("egress.client_cert_file", path));
            let scopes = &settings.signing.scopes_dir;
            let of_scopes = client_certificates(scopes).into_iter().map(|(path, not_after)| {
                let name = format!("signing.scopes_dir: {}", path.display());
                Dated { kind, name, not_after }
            });
            default.into_iter().chain(of_scopes).collect()
        }
        Expiring::DatabaseCa => {
            let outboxes = config.outboxes().unwrap_or_default();
            let files: BTreeSet<_> = outboxes.iter().filter_map(|outbox| outbox.store.root_file()).collect();
            files.iter().filter_map(|path| file("database.sslrootcert", path)).collect()
        }
        Expiring::ReceiveCertificate => {
            let files = settings.receive.tls_files();
            files.and_then(|(path, _)| file("receive.tls_cert_file", path)).into_iter().collect()
        }
        // Signing keys are no certificates; the snapshot tells of them.
        Expiring::SigningKey => Vec::new(),
    }
}

/// Tells metrics and log of them.
pub(crate) fn report_expiry(kinds: &[Expiring], config: &Config) {
    for kind in kinds {
        report(*kind, &dated(*kind, config));
    }
}

fn read(kind: Expiring, setting: &str, path: &Path) -> Option<Dated> {
    let chain = chain(&std::fs::read(path).ok()?).ok()?;
    Some(Dated { kind, name: format!("{setting}: {}", path.display()), not_after: earliest_expiry(&chain) })
}
