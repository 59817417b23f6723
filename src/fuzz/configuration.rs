//! What must hold of every configuration: it is taken, or refused in one sentence, and that sentence shows no secret.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::fields::cut;
use crate::config::{Config, LEASE_MARGIN, Sources};

/// Stands where a secret stands. An input that has it already proves nothing.
const SECRET: &str = "hush-5d1f0c5e";

/// A file for each thread, in memory where the system has such a place.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let memory = PathBuf::from("/dev/shm");
        let dir = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        Scratch(dir.join(format!("outboxd-fuzz-{}-{nth}.toml", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file left behind is only untidy.
        let _ = std::fs::remove_file(&self.0);
    }
}

thread_local! {
    static FILE: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Fields: the file, variables as `NAME=value` lines, and `--set` flags as lines.
pub(super) fn check(data: &[u8]) {
    let Ok(parts) = cut::<3>(data).into_iter().map(std::str::from_utf8).collect::<Result<Vec<_>, _>>() else { return };
    if parts.iter().any(|part| part.contains(SECRET)) {
        return;
    }
    let [file, variables, flags] = [parts[0], parts[1], parts[2]];
    attempt(file, variables, flags);
    let secrets = [
        format!("{file}\n[database]\nurl = \"postgresql://app:{SECRET}@db/app\"\n"),
        format!("{file}\n[database]\npassword = \"{SECRET}\"\n"),
        format!("{file}\n[database]\nurl = postgresql://app:{SECRET}@db/app\n"),
        format!("{file}\n[[outboxes]]\nname = \"a\"\nurl = \"postgresql://app:{SECRET}@db/app\"\n"),
        format!("[envelope]\nkeys = [\"{SECRET}\"]\n{file}"),
        format!("[envelope]\nkey_files = \"0f0f0f0f0f0f0f0f{SECRET}\"\n{file}"),
        format!("database = \"postgresql://app:{SECRET}@db/app\"\n{file}"),
    ];
    let with_a_secret = &secrets[data.len() % secrets.len()];
    assert!(!attempt(with_a_secret, variables, flags), "a secret in the file is taken");
}

fn attempt(file: &str, variables: &str, flags: &str) -> bool {
    let named = variables.lines().filter_map(|line| line.split_once('='));
    let mut environment: Vec<(OsString, OsString)> = named.map(|(name, value)| (name.into(), value.into())).collect();
    for name in ["OUTBOXD_DATABASE__URL", "OUTBOXD_DATABASE__PASSWORD", "OUTBOXD_ENVELOPE__KEYS"] {
        environment.push((name.into(), format!("postgresql://app:{SECRET}@/{SECRET}?host={SECRET}").into()));
    }
    let loaded = FILE.with_borrow(|scratch| {
        std::fs::write(&scratch.0, file).expect("the scratch file can be written");
        let sets = flags.lines().map(str::to_owned).collect();
        Config::load(&Sources {
            file: Some(scratch.0.clone()),
            sets,
            environment: Sources::ours(environment.into_iter()),
        })
    });
    match loaded {
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.contains(SECRET), "{sentence}");
            assert!(!sentence.is_empty() && sentence.lines().count() == 1, "{sentence:?}");
            false
        }
        Ok(config) => {
            fits(&config);
            true
        }
    }
}

/// What the daemon relies on without looking again.
fn fits(config: &Config) {
    let settings = &config.settings;
    assert!(settings.delivery.lease >= settings.egress.attempt_timeout + LEASE_MARGIN);
    assert!(settings.retry.cap >= settings.retry.base && settings.retry.slow_cap >= settings.retry.slow_base);
    assert!(settings.database.pool_size >= 4 && settings.delivery.slots >= 1 && settings.delivery.claim_batch >= 1);
    assert!(config.secrets.database_url.is_some(), "a secret of the environment is lost");
    assert!(!format!("{config:?}").contains(SECRET), "a configuration shows its secrets");
    if let Err(error) = config.tables().map(drop).and_then(|()| config.outboxes().map(drop)) {
        let sentence = error.to_string();
        assert!(!sentence.contains(SECRET) && sentence.lines().count() == 1, "{sentence:?}");
    }
}
