//! `outboxd check`: looks at everything `run` needs, one line each. Changes nothing and posts nothing.

mod signing;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::outboxes::{Chosen, OutboxArgs};
use super::seal::print;
use super::{Failure, block_on};
use crate::clock::{Agreement, Skew};
use crate::config::{Config, Sources};
use crate::daemon::NO_ACCOUNT_INDEX;
use crate::deliver::{client_identity, dated, egress, keyring, reading, resolver, sealing_token};
use crate::envelope::EnvelopeKey;
use crate::rekey::lagging;
use crate::store::{Finding, Severity, Store};
use crate::telemetry::expiry::{Dated, Expiring, WARN_DAYS};

/// How long name servers have to show that they live.
const NAME_SERVERS: Duration = Duration::from_secs(4);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

/// What was found, in the order of the lines printed.
#[derive(Default)]
struct Findings {
    /// What the lines that come now are about, where there are several.
    title: String,
    worst: Option<Failure>,
    /// Instead of lines.
    kept: Option<Vec<Value>>,
}

impl Findings {
    fn tell(&mut self, level: &str, what: &str, detail: impl std::fmt::Display) {
        let detail = format!("{}{detail}", self.title);
        match &mut self.kept {
            None => println!("{level:<5} {what:<12} {detail}"),
            Some(kept) => kept.push(json!({"level": level.to_lowercase(), "about": what, "detail": detail})),
        }
    }

    fn ok(&mut self, what: &str, detail: impl std::fmt::Display) {
        self.tell("ok", what, detail);
    }

    fn warn(&mut self, what: &str, detail: impl std::fmt::Display) {
        self.tell("warn", what, detail);
    }

    fn expires(&mut self, one: &Dated, now: SystemTime) {
        let name = &one.name;
        match (one.days_left(now), one.day()) {
            (Some(..0), Some(day)) => self.warn("expiry", format!("{name}: expired on {day}; replace it")),
            (Some(days @ 0..WARN_DAYS), Some(day)) => {
                self.warn("expiry", format!("{name}: {days} days left, until {day}; replace it"));
            }
            (Some(days), Some(day)) => self.ok("expiry", format!("{name}: {days} days left, until {day}")),
            _ => self.ok("expiry", format!("{name}: never")),
        }
    }

    fn fail(&mut self, what: &str, failure: Failure) {
        self.tell("FAIL", what, failure.message());
        self.worst.get_or_insert(failure);
    }
}

pub(super) fn run(args: &Args, sources: &Sources) -> Result<(), Failure> {
    let (findings, end) = look(&args.outbox, sources, args.json);
    if args.json {
        print(&format!("{}\n", json!({"ready": end.is_ok(), "findings": findings})))?;
    }
    end
}

/// Everything, told in lines or kept.
pub(super) fn look(outbox: &OutboxArgs, sources: &Sources, keep: bool) -> (Vec<Value>, Result<(), Failure>) {
    let mut findings = Findings { kept: keep.then(Vec::new), ..Findings::default() };
    match Config::load(sources) {
        Ok(config) => {
            let file =
                sources.file.as_ref().map_or("defaults and environment".into(), |file| file.display().to_string());
            findings.ok("config", file);
            let looked = block_on(async {
                let chosen = match outbox.open_all(&config) {
                    Ok(chosen) => chosen,
                    Err(failure) => {
                        findings.fail("database", failure);
                        Vec::new()
                    }
                };
                keys(&config, &chosen, &mut findings).await;
                expiry(&config, &mut findings);
                name_servers(&config, &mut findings).await;
                for outbox in &chosen {
                    findings.title = outbox.title();
                    database(&config, outbox, &mut findings).await;
                }
                Ok(())
            });
            if let Err(failure) = looked {
                findings.fail("threads", failure);
            }
        }
        Err(error) => findings.fail("config", error.into()),
    }
    let end = match findings.worst {
        None => Ok(()),
        Some(worst) => Err(worst.summed_up("not ready to run; see the lines marked FAIL")),
    };
    (findings.kept.unwrap_or_default(), end)
}

async fn keys(config: &Config, chosen: &[Chosen], findings: &mut Findings) {
    let keyring = match keyring(config) {
        Ok(keyring) => {
            let held: Vec<String> = keyring.newest_first().iter().map(EnvelopeKey::fingerprint).collect();
            findings.ok("envelope", format!("{} key(s) held, newest first: {}", keyring.len(), held.join(" ")));
            Some(Arc::new(keyring))
        }
        Err(error) => {
            findings.fail("envelope", error.into());
            None
        }
    };
    let stores: Vec<Arc<Store>> = chosen.iter().map(|outbox| outbox.store.clone()).collect();
    if let (Some(keyring), [_, ..]) = (keyring, stores.as_slice()) {
        signing::judge(config, &keyring, &stores, findings).await;
    }
    match (&config.settings.sealing.listen, sealing_token(config)) {
        (_, Err(error)) => findings.fail("sealing", error.into()),
        (None, Ok(_)) => {}
        (Some(_), Ok(Some(_))) => findings.ok("sealing", "for callers with the token"),
        (Some(_), Ok(None)) => findings.ok("sealing", "for this user and group"),
    }
    let translated: Vec<String> = config.settings.egress.nat64_prefixes.iter().map(ToString::to_string).collect();
    if !translated.is_empty() {
        findings.ok("nat64", format!("IPv4 addresses are read behind {}", translated.join(" ")));
    }
    match egress(config) {
        Ok(_) if config.settings.egress.allow.is_empty() => findings.ok("egress", "public addresses only"),
        Ok(_) => {
            let open: Vec<String> = config.settings.egress.allow.iter().map(ToString::to_string).collect();
            findings.warn("egress", format!("private networks are open to what rows name: {}", open.join(" ")));
        }
        Err(error) => findings.fail("egress", error.into()),
    }
}

/// A line for each certificate that the configuration names, the receiver's included.
fn expiry(config: &Config, findings: &mut Findings) {
    match client_identity(&config.settings.egress) {
        Ok(None) => {}
        Ok(Some(_)) => findings.ok("client cert", "for receivers that demand one"),
        Err(error) => findings.fail("client cert", error.into()),
    }
    let now = SystemTime::now();
    let kinds =
        [Expiring::TrustAnchor, Expiring::ClientCertificate, Expiring::DatabaseCa, Expiring::ReceiveCertificate];
    for one in kinds.into_iter().flat_map(|kind| dated(kind, config)) {
        findings.expires(&one, now);
    }
}

/// A warning and no more: URLs may name addresses, and `run` waits for name servers that are down.
async fn name_servers(config: &Config, findings: &mut Findings) {
    // One that cannot be set up was told of with the rest of the egress.
    let Ok(resolver) = resolver(config) else { return };
    match resolver.is_alive(NAME_SERVERS).await {
        true => findings.ok("names", "the name servers answer"),
        false => findings.warn("names", "the name servers answer nothing; rows whose URLs hold a name will wait"),
    }
}

async fn database(config: &Config, outbox: &Chosen, findings: &mut Findings) {
    let store = &outbox.store;
    let asked = reading();
    let probe = match store.probe_primary().await {
        Ok(probe) => probe,
        Err(error) => return findings.fail("database", error.into()),
    };
    findings.ok("database", "answers and takes writes");
    let skew = Skew::measured(probe.clock, asked, Instant::now().into_std());
    let seconds = skew.seconds;
    match skew.agreement() {
        Agreement::TooFar => {
            let message =
                format!("{seconds:+.1} s between this machine and the database; more than 30 s stops sending: fix NTP");
            findings.fail("clock", Failure::config(message));
        }
        Agreement::Apart => findings.warn("clock", format!("{seconds:+.1} s off the database's; check NTP on both")),
        Agreement::Close => findings.ok("clock", format!("{seconds:+.3} s off the database's")),
    }
    match store.preflight().await {
        Ok(found) => {
            let (permissions, schema): (Vec<_>, Vec<_>) = found.into_iter().partition(Finding::is_about_privileges);
            let table = &outbox.table;
            judge("schema", schema, format!("{table} has what is needed"), findings);
            judge("permission", permissions, format!("claim, settle and purge {table}"), findings);
            if config.settings.delivery.account_rows().is_some() && !store.finds_by_account() {
                let statement = store.account_index();
                findings
                    .warn("schema", format!("delivery.account_share is set and {NO_ACCOUNT_INDEX}: run {statement}"));
            }
        }
        Err(error) => findings.fail("schema", error.into()),
    }
    replicas(config, store, findings).await;
}

/// What a rotation of envelope keys would wait for.
async fn replicas(config: &Config, store: &Store, findings: &mut Findings) {
    let Ok(ring) = keyring(config) else { return };
    match (store.list_replicas().await, lagging(store, &ring).await) {
        (Ok(None), _) => findings.warn("replicas", "not listed by this schema: run outboxd migrate"),
        (Ok(Some(all)), Ok(lagging)) if lagging.is_empty() => {
            findings.ok("replicas", format!("{} running, all with the key that seals here", all.len()));
        }
        (Ok(Some(_)), Ok(lagging)) => {
            let named: Vec<String> = lagging.into_iter().map(|replica| replica.replica).collect();
            findings.warn("replicas", format!("without the key that seals here: {}", named.join(" ")));
        }
        (Err(error), _) => findings.warn("replicas", error),
        (_, Err(error)) => findings.warn("replicas", error),
    }
}

/// A line for each finding, or one that says that there is none that matters.
fn judge(what: &str, found: Vec<Finding>, good: String, findings: &mut Findings) {
    let refused = found.iter().any(|finding| finding.severity == Severity::Refuse);
    for finding in found {
        match finding.severity {
            Severity::Refuse => findings.fail(what, Failure::config(finding.to_string())),
            Severity::Warn => findings.warn(what, finding),
        }
    }
    if !refused {
        findings.ok(what, good);
    }
}
