//! `outboxd scope list`: the scopes of the table for a person, or for a script. It shows public facts only.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::{Failure, Held, spelt, stored};
use crate::certificate::earliest_expiry;
use crate::cli::seal::print;
use crate::envelope::{Aad, Keyring, open_held};
use crate::signer::{ScopeFault, SigningKeys, Standing, TimedKey, moment, open_key};
use crate::store::{StoredKey, StoredScope};
use crate::telemetry::expiry::{Dated, Expiring};

const PAGE: u32 = 1000;

pub(super) async fn list(only: Option<&str>, json: bool, held: &Held) -> Result<(), Failure> {
    if let Some(scope) = only {
        let stored = stored(&held.store, scope).await?;
        let stored = stored.ok_or_else(|| Failure::absent(format!("no scope {scope:?} is known")))?;
        return print(&Told::of(scope, stored, &held.keyring).spelt(json));
    }
    let mut after = String::new();
    loop {
        let names = held.store.list_scopes(&after, PAGE).await?;
        let more = names.len() >= PAGE as usize;
        let questions: Vec<(String, String)> = names.into_iter().map(|scope| (scope, String::new())).collect();
        let mut scopes = held.store.read_scopes(&questions).await?;
        scopes.sort_by(|one, other| one.scope.cmp(&other.scope));
        for changed in scopes {
            if let Some(stored) = changed.stored {
                print(&Told::of(&changed.scope, stored, &held.keyring).spelt(json))?;
            }
        }
        match questions.into_iter().next_back() {
            Some((last, _)) if more => after = last,
            _ => return Ok(()),
        }
    }
}

/// What is told of a scope.
struct Told {
    scope: String,
    algorithms: Vec<String>,
    decommissioned: bool,
    /// What the client certificate is, in words; nothing where there is none.
    client: Option<String>,
    keys: Vec<ToldKey>,
}

struct ToldKey {
    key_id: String,
    not_before: Option<f64>,
    not_after: Option<f64>,
    standing: &'static str,
}

impl Told {
    fn of(scope: &str, stored: StoredScope, keyring: &Keyring) -> Told {
        let now = SystemTime::now();
        let mut keys: Vec<(ToldKey, Option<TimedKey>)> =
            stored.keys.into_iter().map(|key| told_key(scope, key, now, keyring)).collect();
        // As the daemon chooses, which is among keys of which each can be used.
        let opened: Option<Vec<TimedKey>> = keys.iter().map(|(_, opened)| opened.clone()).collect();
        let usable = opened.and_then(|opened| SigningKeys::new(opened).ok());
        let signing = usable.as_ref().and_then(|keys| keys.signing_at(now)).map(|key| key.kid().to_owned());
        for (told, _) in &mut keys {
            if told.standing == STANDS_BY && signing.as_ref() == Some(&told.key_id) {
                told.standing = "signs now";
            }
        }
        keys.sort_by(|(one, _), (other, _)| {
            one.not_before.partial_cmp(&other.not_before).unwrap_or(std::cmp::Ordering::Equal)
        });
        Told {
            scope: scope.to_owned(),
            algorithms: stored.algorithms,
            decommissioned: stored.decommissioned,
            client: stored.client.map(|(sealed, nonce)| told_client(scope, sealed, &nonce, keyring)),
            keys: keys.into_iter().map(|(told, _)| told).collect(),
        }
    }

    fn spelt(&self, json: bool) -> String {
        if json {
            let keys: Vec<Value> = self.keys.iter().map(ToldKey::json).collect();
            let told = json!({
                "scope": self.scope, "algorithms": self.algorithms, "decommissioned": self.decommissioned,
                "client_certificate": self.client, "keys": keys,
            });
            return format!("{told}\n");
        }
        let state = match self.decommissioned {
            true => "decommissioned".to_owned(),
            false => self.algorithms.join(" "),
        };
        let mut text = format!("{}  {state}\n", self.scope);
        for key in &self.keys {
            let (from, until) = (spelt(key.not_before), spelt(key.not_after));
            text.push_str(&format!("    {:<24} from {from:<20} until {until:<20}  {}\n", key.key_id, key.standing));
        }
        if let Some(client) = &self.client {
            text.push_str(&format!("    client certificate {client}\n"));
        }
        text
    }
}

impl ToldKey {
    fn json(&self) -> Value {
        let moment = |seconds: Option<f64>| seconds.map(|_| spelt(seconds));
        json!({
            "key_id": self.key_id, "not_before": moment(self.not_before), "not_after": moment(self.not_after),
            "standing": self.standing,
        })
    }
}

const STANDS_BY: &str = "stands by";

fn told_key(scope: &str, stored: StoredKey, now: SystemTime, keyring: &Keyring) -> (ToldKey, Option<TimedKey>) {
    let told = |standing| ToldKey {
        key_id: stored.key_id.clone(),
        not_before: stored.not_before,
        not_after: stored.not_after,
        standing,
    };
    let (not_before, not_after) = (moment(stored.not_before), moment(stored.not_after));
    let mut told = told("cannot be used");
    match (open_key(scope, stored, keyring), not_before, not_after) {
        (Ok(key), Ok(_), Ok(_)) => {
            told.standing = match key.window.at(now) {
                Standing::Waiting => "waits",
                Standing::Open => STANDS_BY,
                Standing::Over => "is over",
            };
            (told, Some(key))
        }
        (Err(ScopeFault::Unopenable), ..) => {
            told.standing = "is sealed under a key that is not held here, or was changed";
            (told, None)
        }
        _ => (told, None),
    }
}

fn told_client(scope: &str, sealed: Vec<u8>, nonce: &[u8], keyring: &Keyring) -> String {
    let Some(pem) = open_held(sealed, nonce, &Aad::client_certificate(scope), keyring) else {
        return "is sealed under a key that is not held here, or was changed".into();
    };
    let Ok(chain) = crate::certificate::chain(&pem) else { return "cannot be used".into() };
    let dated = Dated { kind: Expiring::ClientCertificate, name: String::new(), not_after: earliest_expiry(&chain) };
    match (dated.days_left(SystemTime::now()), dated.day()) {
        (Some(days), Some(day)) => format!("until {day} ({days} days left)"),
        _ => "without an end".into(),
    }
}
