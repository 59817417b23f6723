//! `outboxd scope`: writes, lists and ends signing scopes in the table that daemons take them from. Keys come from files or
//! standard input, never from arguments, and none is ever printed.

mod list;
mod put;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::outboxes::OutboxArgs;
use super::{Failure, block_on};
use crate::config::Config;
use crate::deliver::keyring;
use crate::envelope::Keyring;
use crate::signer::{is_scope, parse_moment};
use crate::store::{Retired, Store, StoredKey, StoredScope};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    outbox: OutboxArgs,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Write a scope, a key of it, or its client certificate. What is not named stays as it is.
    #[command(after_help = PUT_HELP)]
    Put(PutArgs),
    /// Say which scopes there are, which key of each signs now, and what cannot be opened here.
    List {
        /// Only this scope.
        scope: Option<String>,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// End a key's time of signing. Its public half stays published for as long as deliveries are out.
    Retire {
        scope: String,
        key_id: String,
        /// When it signs for the last time, as 2026-12-01T00:00:00Z [default: now]
        #[arg(long, value_name = "MOMENT", value_parser = moment)]
        at: Option<SystemTime>,
        /// Take it away instead, at once and from the published key sets too: nothing that it signed is to be believed.
        #[arg(long, conflicts_with = "at")]
        stolen: bool,
    },
    /// Give a scope up for good: its rows are quarantined and its private keys deleted.
    Decommission {
        scope: String,
        /// Also where no such scope is known: rows that name it are then quarantined instead of waiting for it.
        #[arg(long)]
        unknown: bool,
    },
}

#[derive(clap::Args)]
struct PutArgs {
    /// As rows name it in `signing_scope_id`.
    scope: String,
    /// A private key: PKCS#8 or SEC1 PEM, or a private JWK. "-" is standard input.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The key id of a PEM. A JWK has its own.
    #[arg(long, value_name = "KID", requires = "key")]
    key_id: Option<String>,
    /// What an encrypted PEM is opened with. The key is stored under the envelope key alone.
    #[arg(long, value_name = "FILE", requires = "key")]
    passphrase_file: Option<PathBuf>,
    /// When the key begins to sign, as 2026-12-01T00:00:00Z, or "none".
    #[arg(long, value_name = "MOMENT", value_parser = bound, requires = "key")]
    not_before: Option<Bound>,
    /// When the key ends to sign, or "none".
    #[arg(long, value_name = "MOMENT", value_parser = bound, requires = "key")]
    not_after: Option<Bound>,
    /// What the scope's seller advertises, comma separated [default: as it is; of a new scope, the key's]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    algorithms: Vec<String>,
    /// PEM: the certificate chain, leaf first, for receivers that demand a client certificate.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// PEM: the private key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Take the scope's client certificate away.
    #[arg(long, conflicts_with = "client_cert")]
    no_client_cert: bool,
}

const PUT_HELP: &str = "\
A new key is published before it signs, by at least 40 minutes: receivers keep key
sets for 30, and what they have verified for 6.

  outboxd keygen ed25519 --kid alpha-2 --out alpha-2.pem --jwk alpha-2.jwk.json
  outboxd scope put tenant:alpha --key alpha-2.pem --key-id alpha-2 \\
      --not-before 2026-12-01T12:00:00Z
  outboxd scope retire tenant:alpha alpha-1 --at 2026-12-01T13:00:00Z

Keys and client certificates are sealed under the newest envelope key. The
public JWK is printed on standard output.";

/// One end of a window as the command line names it.
#[derive(Debug, Clone, Copy)]
struct Bound(Option<SystemTime>);

fn bound(text: &str) -> Result<Bound, String> {
    if text == "none" { Ok(Bound(None)) } else { moment(text).map(|moment| Bound(Some(moment))) }
}

fn moment(text: &str) -> Result<SystemTime, String> {
    let moment = parse_moment(text).filter(|moment| *moment >= UNIX_EPOCH);
    moment.ok_or_else(|| "expected a moment in UTC, such as 2026-12-01T00:00:00Z".into())
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let named = match &args.action {
        Action::Put(PutArgs { scope, .. }) | Action::Retire { scope, .. } | Action::Decommission { scope, .. } => {
            Some(scope)
        }
        Action::List { scope, .. } => scope.as_ref(),
    };
    if let Some(scope) = named.filter(|scope| !is_scope(scope)) {
        let problem = "is no scope: 1 to 255 bytes of printable text";
        return Err(Failure::data(format!("{scope:?} {problem}")));
    }
    let keyring = keyring(config)?;
    let held = Held { keyring, store: args.outbox.open_one(config)? };
    block_on(async {
        match &args.action {
            Action::Put(args) => put::put(args, &held).await,
            Action::List { scope, json } => list::list(scope.as_deref(), *json, &held).await,
            Action::Retire { scope, key_id, stolen: true, .. } => remove(scope, key_id, &held.store).await,
            Action::Retire { scope, key_id, at, .. } => {
                retire(scope, key_id, at.unwrap_or_else(SystemTime::now), &held.store).await
            }
            Action::Decommission { scope, unknown } => decommission(scope, *unknown, &held.store).await,
        }
    })
}

/// What every action works with.
struct Held {
    keyring: Keyring,
    store: Arc<Store>,
}

/// A scope as it stands; nothing where it is not known.
async fn stored(store: &Store, scope: &str) -> Result<Option<StoredScope>, Failure> {
    let changed = store.read_scopes(&[(scope.to_owned(), String::new())]).await?;
    Ok(changed.into_iter().find_map(|changed| changed.stored))
}

fn no_key(scope: &str, key_id: &str) -> Failure {
    Failure::absent(format!("scope {scope:?} has no key {key_id:?}"))
}

async fn remove(scope: &str, key_id: &str, store: &Store) -> Result<(), Failure> {
    if !store.remove_key(scope, key_id).await? {
        return Err(no_key(scope, key_id));
    }
    println!("{key_id} is taken away: within 5 s it neither signs nor is published");
    warn_of_silence(scope, seconds(SystemTime::now()), store).await
}

async fn retire(scope: &str, key_id: &str, at: SystemTime, store: &Store) -> Result<(), Failure> {
    match store.retire_key(scope, key_id, seconds(at)).await? {
        None => Err(no_key(scope, key_id)),
        Some(Retired::TakenAway) => {
            println!("{key_id} had not begun to sign, and is taken away");
            Ok(())
        }
        Some(Retired::Ends(end)) => {
            println!("{key_id} signs until {}", spelt(Some(end)));
            warn_of_silence(scope, end, store).await
        }
    }
}

/// That no key of the scope may sign at a moment.
async fn warn_of_silence(scope: &str, at: f64, store: &Store) -> Result<(), Failure> {
    let keys = stored(store, scope).await?.map(|stored| stored.keys).unwrap_or_default();
    let goes_on = |key: &StoredKey| {
        key.not_before.is_none_or(|begins| begins <= at) && key.not_after.is_none_or(|ends| ends > at)
    };
    if !keys.iter().any(goes_on) {
        eprintln!("No other key of the scope signs then: its rows will wait (signing_unavailable).");
    }
    Ok(())
}

async fn decommission(scope: &str, unknown: bool, store: &Store) -> Result<(), Failure> {
    if !unknown && stored(store, scope).await?.is_none() {
        let hint = "check its spelling, or add --unknown to have rows that name it quarantined";
        return Err(Failure::absent(format!("no scope {scope:?} is known; {hint}")));
    }
    let keys = store.decommission_scope(scope).await?;
    println!("{scope} is decommissioned; {keys} private key(s) deleted");
    Ok(())
}

/// In Unix seconds, as the table has it; none is before 1970.
fn seconds(moment: SystemTime) -> f64 {
    moment.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// For a person.
fn spelt(seconds: Option<f64>) -> String {
    match crate::signer::moment(seconds) {
        Ok(Some(moment)) => humantime::format_rfc3339_seconds(moment).to_string(),
        Ok(None) => "none".into(),
        Err(_) => "?".into(),
    }
}
