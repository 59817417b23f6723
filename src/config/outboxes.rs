//! Which outboxes are served, and where each is: the one of `[database]` and `[outbox]`, or those of `[[outboxes]]`. Connects to
//! none of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::{Config, ConfigError, EnvironmentSecrets, LOOPS, Settings, refuse, secret_file, set};
use crate::secret::Secret;
use crate::store::{Plans, StoreConfig, TableName};

/// Each has four loops, a pool and a part of the slots.
const MOST: usize = 32;
const HEAVIEST: u32 = 1000;
const LONGEST_NAME: usize = 32;
/// One in flight and one to begin with.
const LEAST_SLOTS: usize = 2;

/// An outbox among several, as a file spells it. What is not set is as `[database]` and `[outbox]` have it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListedOutbox {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) url_file: PathBuf,
    #[serde(default)]
    pub(crate) password_file: PathBuf,
    pub(crate) sslmode: Option<String>,
    pub(crate) sslrootcert: Option<PathBuf>,
    pub(crate) pool_size: Option<usize>,
    pub(crate) prepared_statements: Option<bool>,
    pub(crate) table: Option<String>,
    #[serde(default = "usual_weight")]
    pub(crate) weight: u32,
}

fn usual_weight() -> u32 {
    1
}

/// One outbox that is to be served, with its secrets read.
#[derive(Debug, Clone)]
pub(crate) struct OutboxConfig {
    /// Only those of a list have one.
    pub(crate) name: Option<Arc<str>>,
    /// Its part of the slots, in proportion to the others'.
    pub(crate) weight: u32,
    pub(crate) store: StoreConfig,
}

/// Where a database is said to be: in a section of the file or in the environment.
struct Place<'a> {
    url: &'a str,
    url_file: &'a Path,
    password_file: &'a Path,
    url_given: Option<&'a Secret>,
    password_given: Option<&'a Secret>,
    keys: &'a PlaceKeys,
}

/// What the settings of a place are called.
struct PlaceKeys {
    url: &'static str,
    url_file: &'static str,
    password_file: &'static str,
    sslmode: &'static str,
    table: &'static str,
    accepted_url: &'static str,
}

const SINGLE: PlaceKeys = PlaceKeys {
    url: "database.url",
    url_file: "database.url_file",
    password_file: "database.password_file",
    sslmode: "database.sslmode",
    table: "outbox.table",
    accepted_url: "a URL such as postgresql://user@host/db, here, in url_file, or as OUTBOXD_DATABASE__URL",
};
const LISTED: PlaceKeys = PlaceKeys {
    url: "outboxes.url",
    url_file: "outboxes.url_file",
    password_file: "outboxes.password_file",
    sslmode: "outboxes.sslmode",
    table: "outboxes.table",
    accepted_url: "a URL such as postgresql://user@host/db, here, in url_file, or as OUTBOXD_OUTBOXES__<NAME>__URL",
};

impl Place<'_> {
    fn url(&self) -> Result<Secret, ConfigError> {
        if let Some(url) = self.url_given {
            return Ok(url.clone());
        }
        if let Some(path) = set(self.url_file) {
            return secret_file(self.keys.url_file, &path);
        }
        if self.url.is_empty() {
            return refuse(self.keys.url, "is not set", self.keys.accepted_url);
        }
        Ok(Secret::from(self.url.to_owned()))
    }

    fn password(&self) -> Result<Option<Secret>, ConfigError> {
        if let Some(password) = self.password_given {
            return Ok(Some(password.clone()));
        }
        let Some(path) = set(self.password_file) else { return Ok(None) };
        let file = secret_file(self.keys.password_file, &path)?;
        Ok(Some(Secret::new(file.expose().trim_ascii_end().to_vec())))
    }
}

impl Config {
    /// The names of the outboxes, in their order; of the only one that has none.
    pub(crate) fn outbox_names(&self) -> Vec<Option<Arc<str>>> {
        match self.settings.outboxes.as_slice() {
            [] => vec![None],
            listed => listed.iter().map(|one| Some(one.name.as_str().into())).collect(),
        }
    }

    /// Every outbox that is to be served.
    pub(crate) fn outboxes(&self) -> Result<Vec<OutboxConfig>, ConfigError> {
        match self.settings.outboxes.as_slice() {
            [] => Ok(vec![OutboxConfig { name: None, weight: 1, store: self.store()? }]),
            listed => listed.iter().map(|one| self.listed(one)).collect(),
        }
    }

    /// The one with this name, if there is one.
    pub(crate) fn outbox_named(&self, name: &str) -> Option<Result<OutboxConfig, ConfigError>> {
        self.settings.outboxes.iter().find(|one| one.name == name).map(|one| self.listed(one))
    }

    fn listed(&self, one: &ListedOutbox) -> Result<OutboxConfig, ConfigError> {
        let given = self.secrets.outboxes.get(&one.name);
        let place = Place {
            url: &one.url,
            url_file: &one.url_file,
            password_file: &one.password_file,
            url_given: given.and_then(|given| given.url.as_ref()),
            password_given: given.and_then(|given| given.password.as_ref()),
            keys: &LISTED,
        };
        let database = &self.settings.database;
        let sslmode = one.sslmode.as_ref().unwrap_or(&database.sslmode);
        let table = one.table.as_ref().unwrap_or(&self.settings.outbox.table);
        let store = StoreConfig {
            sslrootcert: set(one.sslrootcert.as_ref().unwrap_or(&database.sslrootcert)),
            pool_size: one.pool_size.unwrap_or(database.pool_size),
            prepared_statements: one.prepared_statements.unwrap_or(database.prepared_statements),
            ..self.store_at(&place, sslmode, table)?
        };
        Ok(OutboxConfig { name: Some(one.name.as_str().into()), weight: one.weight, store })
    }

    /// The one database of `[database]`, for whoever works with no list of outboxes.
    pub(crate) fn store(&self) -> Result<StoreConfig, ConfigError> {
        if !self.settings.outboxes.is_empty() {
            return refuse(
                "outboxes",
                "is set, and this command works with one database",
                "a configuration with database.url in its place",
            );
        }
        let database = &self.settings.database;
        let place = Place {
            url: &database.url,
            url_file: &database.url_file,
            password_file: &database.password_file,
            url_given: self.secrets.database_url.as_ref(),
            password_given: self.secrets.database_password.as_ref(),
            keys: &SINGLE,
        };
        self.store_at(&place, &database.sslmode, &self.settings.outbox.table)
    }

    fn store_at(&self, place: &Place<'_>, sslmode: &str, table: &str) -> Result<StoreConfig, ConfigError> {
        let database = &self.settings.database;
        let sslmode = match sslmode {
            "" => None,
            text => Some(text.parse().map_err(|_| ConfigError::Value {
                key: place.keys.sslmode,
                problem: format!("is {text:?}"),
                accepted: "disable, allow, prefer, require, verify-ca, verify-full".into(),
            })?),
        };
        Ok(StoreConfig {
            url: place.url()?,
            password: place.password()?,
            sslmode,
            sslrootcert: set(&database.sslrootcert),
            pool_size: database.pool_size,
            prepared_statements: database.prepared_statements,
            connect_timeout: database.connect_timeout,
            statement_timeout: database.statement_timeout,
            table: table_name(place.keys.table, table)?,
            plans: Plans::Afresh,
            bitmaps: false,
        })
    }

    /// The outboxes' tables, each once.
    pub(crate) fn tables(&self) -> Result<Vec<TableName>, ConfigError> {
        let usual = &self.settings.outbox.table;
        let mut tables = Vec::new();
        match self.settings.outboxes.as_slice() {
            [] => tables.push(table_name(SINGLE.table, usual)?),
            listed => {
                for one in listed {
                    let table = table_name(LISTED.table, one.table.as_ref().unwrap_or(usual))?;
                    if !tables.contains(&table) {
                        tables.push(table);
                    }
                }
            }
        }
        Ok(tables)
    }
}

fn table_name(key: &'static str, name: &str) -> Result<TableName, ConfigError> {
    TableName::parse(name).map_err(|error| ConfigError::Value {
        key,
        problem: format!("is {name:?}"),
        accepted: error.to_string(),
    })
}

/// A label of metrics, a part of variables' names, and a word in logs.
fn is_name(name: &str) -> bool {
    let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    begins_well && name.len() <= LONGEST_NAME && name.bytes().all(legal) && !name.contains("__") && !name.ends_with('_')
}

pub(super) fn validate(settings: &Settings, secrets: &EnvironmentSecrets) -> Result<(), ConfigError> {
    const KEY: &str = "outboxes";
    let listed = &settings.outboxes;
    if let Some(stray) = secrets.outboxes.keys().find(|name| !listed.iter().any(|one| one.name == **name)) {
        let variable = format!("OUTBOXD_OUTBOXES__{}__", stray.to_ascii_uppercase());
        return refuse(
            KEY,
            format!("has no outbox named {stray:?}, for which {variable}... is set"),
            "a name of the list",
        );
    }
    if listed.is_empty() {
        return Ok(());
    }
    let database = &settings.database;
    let single = [
        ("database.url", !database.url.is_empty() || secrets.database_url.is_some()),
        ("database.url_file", set(&database.url_file).is_some()),
        ("database.password_file", set(&database.password_file).is_some() || secrets.database_password.is_some()),
    ];
    if let Some((key, _)) = single.iter().find(|(_, used)| *used) {
        return refuse(
            KEY,
            format!("is set together with {key}"),
            "one of the two; each outbox of the list has its own",
        );
    }
    if listed.len() > MOST {
        return refuse(KEY, format!("has {} entries", listed.len()), format!("up to {MOST}"));
    }
    let mut names = BTreeSet::new();
    let mut places = BTreeSet::new();
    for (nth, one) in listed.iter().enumerate() {
        if !is_name(&one.name) {
            let accepted = format!("up to {LONGEST_NAME} of a-z, 0-9 and single _ in between, beginning with a letter");
            return refuse(KEY, format!("has the name {:?} in entry {}", one.name, nth + 1), accepted);
        }
        let name = &one.name;
        if !names.insert(name) {
            return refuse(KEY, format!("has two outboxes named {name:?}"), "a name for each");
        }
        if !(1..=HEAVIEST).contains(&one.weight) {
            return refuse(KEY, format!("has weight {} for {name:?}", one.weight), format!("1 to {HEAVIEST}"));
        }
        if let Some(size) = one.pool_size.filter(|size| *size < LOOPS) {
            return refuse(KEY, format!("has pool_size {size} for {name:?}"), format!("{LOOPS} to 1000"));
        }
        let place = (&one.url, &one.url_file, &one.table);
        if (!one.url.is_empty() || set(&one.url_file).is_some()) && !places.insert(place) {
            return refuse(KEY, format!("has the place of {name:?} twice"), "another url or another table for each");
        }
    }
    let least = LEAST_SLOTS * listed.len();
    for (key, value, least) in [
        ("delivery.slots", settings.delivery.slots, least),
        ("delivery.per_destination", settings.delivery.per_destination, listed.len()),
    ] {
        if value < least {
            let problem = format!("is {value}, too few to be shared by {} outboxes", listed.len());
            return refuse(key, problem, format!("{least} to 10000"));
        }
    }
    Ok(())
}
