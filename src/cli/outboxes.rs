//! Which outbox a command works on, where a configuration lists several: `--outbox NAME`, or all of them in their order.

use std::sync::Arc;

use serde_json::Value;

use super::Failure;
use super::table::{brief, harmless};
use crate::config::{Config, OutboxConfig};
use crate::store::{Blocker, Store, StoreError, TableName};

#[derive(clap::Args)]
pub(super) struct OutboxArgs {
    /// Of several `[[outboxes]]`, only the one with this name.
    #[arg(long = "outbox", value_name = "NAME", global = true)]
    name: Option<String>,
}

/// An outbox that a command works on. Its statements are counted by nobody.
pub(super) struct Chosen {
    pub(super) name: Option<Arc<str>>,
    pub(super) table: String,
    pub(super) store: Arc<Store>,
}

impl Chosen {
    fn open(outbox: OutboxConfig) -> Result<Chosen, Failure> {
        let table = outbox.store.table.to_string();
        Ok(Chosen { name: outbox.name, table, store: Arc::new(Store::open(&outbox.store, Arc::new(|_| {}))?) })
    }

    /// What stands before a sentence about one among several.
    pub(super) fn title(&self) -> String {
        self.name.as_ref().map(|name| format!("outbox {name}: ")).unwrap_or_default()
    }

    /// What was found; or what a command ends with when a statement failed: whose it was, and who is in the way, if somebody is.
    pub(super) async fn found<T>(&self, found: Result<T, StoreError>) -> Result<T, Failure> {
        let error = match found {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let blockers = match error.is_timeout() {
            true => self.store.find_blockers().await.unwrap_or_default(),
            false => Vec::new(),
        };
        let failure = Failure::from(error).about(&self.title());
        Err(blockers.iter().fold(failure, |failure, blocker| failure.also(&in_the_way(blocker))))
    }

    /// The line that stands above what is told of one among several.
    pub(super) fn heading(&self) -> String {
        self.name.as_ref().map(|name| format!("outbox {name}\n")).unwrap_or_default()
    }

    /// The same as a member of an object.
    pub(super) fn put_name(&self, object: &mut Value) {
        if let Some(name) = &self.name {
            object["outbox"] = Value::from(name.as_ref());
        }
    }
}

impl OutboxArgs {
    /// The one that is named, or all.
    pub(super) fn all(&self, config: &Config) -> Result<Vec<OutboxConfig>, Failure> {
        match &self.name {
            None => Ok(config.outboxes()?),
            Some(name) => Ok(vec![named(name, config)?]),
        }
    }

    /// The tables of those, each once. Reads no secret.
    pub(super) fn tables(&self, config: &Config) -> Result<Vec<TableName>, Failure> {
        match &self.name {
            None => Ok(config.tables()?),
            Some(name) => Ok(vec![named(name, config)?.store.table]),
        }
    }

    /// The same, ready to be asked.
    pub(super) fn open_all(&self, config: &Config) -> Result<Vec<Chosen>, Failure> {
        self.all(config)?.into_iter().map(Chosen::open).collect()
    }

    /// The same for what only reads, by whichever index there is.
    pub(super) fn open_all_to_look(&self, config: &Config) -> Result<Vec<Chosen>, Failure> {
        self.all(config)?.into_iter().map(to_look).map(Chosen::open).collect()
    }

    /// For what can be done to one alone.
    pub(super) fn open_one(&self, config: &Config) -> Result<Arc<Store>, Failure> {
        Ok(Chosen::open(self.one(config)?)?.store)
    }

    /// The same for what only reads, by whichever index there is.
    pub(super) fn open_one_to_look(&self, config: &Config) -> Result<Arc<Store>, Failure> {
        Ok(Chosen::open(to_look(self.one(config)?))?.store)
    }

    fn one(&self, config: &Config) -> Result<OutboxConfig, Failure> {
        let names = config.outbox_names();
        if let (None, [_, _, ..]) = (&self.name, names.as_slice()) {
            let listed: Vec<&str> = names.iter().flatten().map(AsRef::as_ref).collect();
            return Err(Failure::usage(format!("say which outbox is meant, by --outbox NAME: {}", listed.join(", "))));
        }
        let mut outboxes = self.all(config)?;
        outboxes.truncate(1);
        outboxes.pop().ok_or_else(|| Failure::config("no outbox is configured".into()))
    }
}

/// Who holds a lock, and how to end it.
pub(super) fn in_the_way(blocker: &Blocker) -> String {
    let user = blocker.user.as_ref().map(|user| format!(" of user {user}")).unwrap_or_default();
    let known = [blocker.name.clone().filter(|name| !name.is_empty()), blocker.state.clone()];
    let known: Vec<String> = known.into_iter().flatten().collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    let since = blocker.since.map(|since| format!(" since {}", brief(since))).unwrap_or_default();
    let (who, end) = match blocker.pid {
        Some(pid) => (format!("session {pid}"), format!("end it: `select pg_terminate_backend({pid})`")),
        None => ("a prepared transaction".to_owned(), "end it: see pg_prepared_xacts".to_owned()),
    };
    let waiting = match blocker.waiting {
        0 => "the outbox is locked".to_owned(),
        waiting => format!("{waiting} session(s) wait for it"),
    };
    harmless(&format!("{who}{user}{known} holds a lock{since}, and {waiting}: {end}"))
}

fn to_look(mut outbox: OutboxConfig) -> OutboxConfig {
    outbox.store.bitmaps = true;
    outbox
}

fn named(name: &str, config: &Config) -> Result<OutboxConfig, Failure> {
    if let Some(outbox) = config.outbox_named(name) {
        return Ok(outbox?);
    }
    let names = config.outbox_names();
    let listed: Vec<&str> = names.iter().flatten().map(AsRef::as_ref).collect();
    Err(Failure::usage(match listed.as_slice() {
        [] => format!("--outbox {name}: the configuration has no [[outboxes]]"),
        listed => format!("--outbox {name}: there is no such outbox; there are {}", listed.join(", ")),
    }))
}
