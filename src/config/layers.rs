//! Lays defaults, file, environment and flags over each other, and keeps secrets out of all but the environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::error::Actual;
use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Value};

use super::ConfigError;
use super::settings::Settings;
use crate::secret::Secret;

pub(crate) const DEFAULTS: &str = include_str!("../../config/default.toml");
const PREFIX: &str = "OUTBOXD_";
/// Brackets that a value outside a file may open, and names that a key may have. The reader of such values descends into
/// them on the stack, without a bound of its own.
const MOST_BRACKETS: usize = 128;
const MOST_NAMES: usize = 8;

/// Where configuration comes from, gathered once by the command line so that nothing below reads the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    pub(crate) file: Option<PathBuf>,
    /// `section.key=value`, in the order given.
    pub(crate) sets: Vec<String>,
    /// The variables with our prefix. Which of them hold secrets is not known here yet.
    pub(crate) environment: Vec<(String, Secret)>,
}

/// The values that only the environment (or a file of their own) may hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct EnvironmentSecrets {
    pub(crate) database_url: Option<Secret>,
    pub(crate) database_password: Option<Secret>,
    pub(crate) envelope_keys: Option<Secret>,
    /// By the name of an outbox of the list.
    pub(crate) outboxes: BTreeMap<String, OutboxSecrets>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct OutboxSecrets {
    pub(crate) url: Option<Secret>,
    pub(crate) password: Option<Secret>,
}

impl Sources {
    /// Others' variables need not even be text.
    pub(crate) fn ours(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, Secret)> {
        let named = environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let ours = named.filter(|(name, _)| name.starts_with(PREFIX));
        ours.map(|(name, value)| (name, Secret::new(value.into_vec()))).collect()
    }
}

pub(crate) fn load(sources: &Sources) -> Result<(Settings, EnvironmentSecrets), ConfigError> {
    let mut figment = Figment::from(Toml::string(DEFAULTS));
    if let Some(path) = &sources.file {
        figment = figment.merge(Toml::string(&read_file(path)?));
        refuse_password_in(&figment)?;
    }
    let (environment, secrets) = split_environment(&sources.environment, &sections(&figment))?;
    figment = merge_dict(figment, environment);
    for set in &sources.sets {
        let (key, value) = set
            .split_once('=')
            .ok_or_else(|| ConfigError::Flag(format!("--set {set}: write it as --set section.key=value")))?;
        let read = nested(key, ".", value).map_err(|problem| {
            ConfigError::Flag(format!("--set {}: {problem}", key.chars().take(60).collect::<String>()))
        })?;
        figment = merge_dict(figment, read);
    }
    refuse_password_in(&figment)?;
    let settings = figment.extract::<Settings>().map_err(|error| describe(&error, sources.file.as_deref()))?;
    Ok((settings, secrets))
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|error| ConfigError::File { path: path.to_owned(), reason: error.kind().to_string() })
}

fn sections(figment: &Figment) -> Vec<String> {
    figment.extract::<Dict>().map(|dict| dict.keys().cloned().collect()).unwrap_or_default()
}

/// Sorts `OUTBOXD_SECTION__KEY` from what merely shares the prefix. A variable that names a section with a single
/// underscore is a slip that would otherwise go unnoticed, so it is refused.
fn split_environment(
    environment: &[(String, Secret)],
    sections: &[String],
) -> Result<(Dict, EnvironmentSecrets), ConfigError> {
    let mut dict = Dict::new();
    let mut secrets = EnvironmentSecrets::default();
    for (name, value) in environment {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let key = rest.to_ascii_lowercase();
        if !key.contains("__") && key != "outboxes" {
            if let Some(section) = sections.iter().find(|section| key.starts_with(&format!("{section}_"))) {
                let tail = rest[section.len() + 1..].to_owned();
                return Err(ConfigError::Environment(format!(
                    "{name} is not a setting; two underscores stand between section and key: {PREFIX}{}__{tail}",
                    section.to_ascii_uppercase()
                )));
            }
            continue;
        }
        if let Some(rest) = key.strip_prefix("outboxes__") {
            *outbox_slot(rest, name, &mut secrets)? = Some(value.clone());
            continue;
        }
        let slot = match key.as_str() {
            "database__url" => &mut secrets.database_url,
            "database__password" => &mut secrets.database_password,
            "envelope__keys" => &mut secrets.envelope_keys,
            _ => {
                let Ok(value) = std::str::from_utf8(value.expose()) else {
                    return Err(ConfigError::Environment(format!("{name} is not UTF-8")));
                };
                let read = nested(&key, "__", value).map_err(|problem| {
                    ConfigError::Environment(format!("{}: {problem}", name.chars().take(60).collect::<String>()))
                })?;
                merge_into(&mut dict, read);
                continue;
            }
        };
        *slot = Some(value.clone());
    }
    Ok((dict, secrets))
}

/// Where the secret belongs that a variable holds for one outbox of the list. Entries of a list have no other variables.
fn outbox_slot<'a>(
    rest: &str,
    variable: &str,
    secrets: &'a mut EnvironmentSecrets,
) -> Result<&'a mut Option<Secret>, ConfigError> {
    let (outbox, key) = rest.rsplit_once("__").unwrap_or((rest, ""));
    let is_known = matches!(key, "url" | "password");
    if !is_known {
        return Err(ConfigError::Environment(format!(
            "{variable} is not a setting; of an outbox of the list, the environment may hold \
             {PREFIX}OUTBOXES__<NAME>__URL and {PREFIX}OUTBOXES__<NAME>__PASSWORD"
        )));
    }
    let outbox = secrets.outboxes.entry(outbox.to_owned()).or_default();
    Ok(if key == "url" { &mut outbox.url } else { &mut outbox.password })
}

fn refuse_unreadable(value: &str) -> Result<(), &'static str> {
    if value.matches(['[', '{']).count() > MOST_BRACKETS {
        return Err("a value may open at most 128 brackets; longer lists belong into the file");
    }
    refuse_mixed(value)
}

/// What reads a quoted value takes the place of a character for that of a byte: what stands before its first backslash would
/// come out cut short, or not at all, where it is not ASCII.
fn refuse_mixed(value: &str) -> Result<(), &'static str> {
    match value.contains('"') && value.contains('\\') && !value.is_ascii() {
        true => Err("a quoted value with a backslash must be ASCII; write other characters as \\uXXXX"),
        false => Ok(()),
    }
}

/// `a<separator>b` and a value as nested dictionaries. A value that reads as TOML (a number, a list) is one;
/// anything else is text.
fn nested(key: &str, separator: &str, value: &str) -> Result<Dict, &'static str> {
    refuse_unreadable(value)?;
    if key.split(separator).count() > MOST_NAMES {
        return Err("a setting is named by its section and its key");
    }
    let value: Value = value.parse().unwrap_or_else(|never: std::convert::Infallible| match never {});
    let (mut dict, mut value) = (Dict::new(), value);
    let mut parts: Vec<&str> = key.split(separator).collect();
    let first = parts.remove(0);
    for part in parts.into_iter().rev() {
        value = Value::from(Dict::from([(part.to_owned(), value)]));
    }
    dict.insert(first.to_owned(), value);
    Ok(dict)
}

fn merge_into(into: &mut Dict, from: Dict) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Dict(_, old)), Value::Dict(_, new)) => merge_into(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn merge_dict(figment: Figment, dict: Dict) -> Figment {
    figment.merge(Serialized::defaults(dict))
}

/// A password in the URL of a database would sit in a file that others read, or in the process list.
fn refuse_password_in(figment: &Figment) -> Result<(), ConfigError> {
    let single = figment.extract_inner::<String>("database.url").into_iter().map(|url| ("database.url", url));
    let listed = figment.extract_inner::<Vec<Dict>>("outboxes").unwrap_or_default();
    let listed = listed.into_iter().filter_map(|one| Some(("outboxes.url", one.get("url")?.as_str()?.to_owned())));
    match single.chain(listed).find(|(_, url)| has_password(url)) {
        None => Ok(()),
        Some((key, _)) => Err(ConfigError::Value {
            key,
            problem: "holds a password".into(),
            accepted: "a URL without one; put it into password_file, or the whole URL into url_file or the environment"
                .into(),
        }),
    }
}

fn has_password(url: &str) -> bool {
    // By its text: what libpq takes for a URL ("//user@/db?host=/run") is often none by the standard.
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let in_authority = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
    in_authority || url.to_ascii_lowercase().replace(' ', "").contains("password=")
}

/// Short and plain, as no key, password or URL is.
fn is_word(text: &str) -> bool {
    text.len() <= 20 && text.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '.' | '-' | '_'))
}

fn describe(error: &figment::Error, file: Option<&Path>) -> ConfigError {
    let key = error.path.join(".");
    let origin = match error.metadata.as_ref().map(|metadata| metadata.name.to_string()) {
        Some(name) if name.starts_with("TOML") => file.map(|path| format!(" in {}", path.display())),
        _ => None,
    };
    let problem = match &error.kind {
        figment::error::Kind::UnknownField(field, expected) => {
            let expected = if expected.is_empty() { "none".into() } else { expected.join(", ") };
            format!("unknown key `{field}`; known here: {expected}")
        }
        // In the place of a table or a list there may be the URL or the key that belongs elsewhere.
        figment::error::Kind::InvalidType(Actual::Str(text), expected) if !is_word(text) => {
            format!("invalid type: found a string of {} characters, expected {expected}", text.chars().count())
        }
        // A TOML error quotes the line that it stumbled over, and there may be a secret in it that should not be there.
        kind => {
            let text = kind.to_string();
            let words: Vec<&str> = text.lines().filter(|line| !line.contains('|')).collect();
            words.join("; ")
        }
    };
    let key = if key.is_empty() { "configuration".into() } else { key };
    ConfigError::Shape { key, origin: origin.unwrap_or_default(), problem }
}
