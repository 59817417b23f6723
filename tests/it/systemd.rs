//! What is installed beside the binary under systemd: the unit as systemd itself judges it, the files that it names, the
//! manual and the completions. That it runs inside its sandbox is tried by tests/systemd.sh, which needs a booted system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::PATIENCE;

const UNIT: &str = include_str!("../../deploy/systemd/outboxd.service");
const RECEIVE: &str = include_str!("../../deploy/systemd/outboxd-receive.service");
const UNITS: [(&str, &str, &str); 2] = [("outboxd", UNIT, EXAMPLE), ("outboxd-receive", RECEIVE, RECEIVE_EXAMPLE)];
const EXAMPLE: &str = include_str!("../../deploy/systemd/outboxd.toml");
const RECEIVE_EXAMPLE: &str = include_str!("../../deploy/systemd/receive.toml");
const ENVIRONMENT: &str = include_str!("../../deploy/systemd/outboxd.env");
const DEFAULTS: &str = include_str!("../../config/default.toml");

/// The unit as it would be installed, but for the place of its binary, which systemd wants to see.
fn installed(directory: &Path, name: &str, unit: &str) -> PathBuf {
    let path = directory.join(format!("{name}.service"));
    let unit = unit.replace("/usr/bin/outboxd", env!("CARGO_BIN_EXE_outboxd"));
    fs::write(&path, unit).expect("our directory is ours");
    path
}

fn analyze(arguments: &[&str], unit: &Path) -> Output {
    Command::new("systemd-analyze")
        .args(arguments)
        .arg(unit)
        .env("SYSTEMD_LOG_LEVEL", "info")
        .output()
        .expect("tests/needs.sh installs systemd")
}

/// The last value of a setting, as systemd takes it.
fn setting<'a>(unit: &'a str, name: &str) -> &'a str {
    let line = unit.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("the unit does not set {name}"))
}

/// How long each gives what is under way: the defaults of `delivery` and `receive`.
fn drain_timeouts() -> [u64; 2] {
    let lines = DEFAULTS.lines().filter_map(|line| line.strip_prefix("drain_timeout = "));
    let found: Vec<u64> = lines.map(seconds).collect();
    found.try_into().expect("each of the two has one")
}

fn seconds(text: &str) -> u64 {
    text.trim_matches('"').strip_suffix('s').and_then(|number| number.parse().ok()).expect("whole seconds")
}

#[test]
fn systemd_finds_no_fault_with_the_units() {
    let directory = TempDir::new().expect("the temp directory takes another");
    for (name, unit, _) in UNITS {
        let verified = analyze(&["verify", "--man=no"], &installed(directory.path(), name, unit));
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success() && said.is_empty(), "{said}");
        // What systemd does not know it tells of and passes.
        let slip = unit.replace("ProtectClock=", "ProtectClocks=");
        let verified = analyze(&["verify", "--man=no"], &installed(directory.path(), name, &slip));
        assert!(String::from_utf8_lossy(&verified.stderr).contains("ProtectClocks"), "{verified:?}");
    }
}

#[test]
fn the_sandbox_leaves_an_exposure_of_at_most_one_and_a_half() {
    let directory = TempDir::new().expect("the temp directory takes another");
    for (name, unit, _) in UNITS {
        let closed = installed(directory.path(), name, unit);
        let judged = analyze(&["security", "--offline=true", "--no-pager", "--threshold=15"], &closed);
        let said = String::from_utf8_lossy(&judged.stdout);
        assert!(judged.status.success(), "{said}");
        let bare: Vec<&str> = unit.lines().filter(|line| !line.starts_with("Protect")).collect();
        let open = installed(directory.path(), name, &bare.join("\n"));
        let judged = analyze(&["security", "--offline=true", "--no-pager", "--threshold=15"], &open);
        assert!(!judged.status.success(), "what is open is not seen");
    }
}

#[test]
fn a_stop_leaves_time_to_drain_and_only_what_may_mend_itself_is_started_again() {
    for ((_, unit, _), drain) in UNITS.iter().zip(drain_timeouts()) {
        assert!(seconds(setting(unit, "TimeoutStopSec")) >= drain + 10);
        assert_eq!(setting(unit, "KillMode"), "mixed", "only the daemon is asked to stop");
        assert_eq!(setting(unit, "RestartPreventExitStatus"), "64 78");
        assert_eq!(setting(unit, "Type"), "notify");
        assert!(
            seconds(setting(unit, "WatchdogSec")) >= 30,
            "a database that hangs for a while must not look like a hanging daemon"
        );
    }
}

#[tokio::test]
async fn the_example_configurations_are_accepted_and_name_what_the_units_bring() {
    for (name, unit, example) in UNITS {
        let config = Config::empty().extra(example);
        let ended = Daemon::command(&config, &["migrate", "--print"]).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(0), "{}", ended.output);
        let credentials = format!("/run/credentials/{name}.service/");
        let named: Vec<&str> = example.split(&credentials).skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(named.len() >= 3, "{named:?}");
        for credential in named {
            assert!(unit.contains(&format!("LoadCredential={credential}:")), "the unit does not bring {credential}");
        }
    }
}

/// What is said of the second unit: its sandbox is the first one's.
#[test]
fn the_units_differ_in_what_they_run_and_in_their_secrets() {
    let settings = |unit: &'static str| {
        let own = [
            "Description",
            "Documentation",
            "ExecStart",
            "EnvironmentFile",
            "User",
            "RuntimeDirectory",
            "LoadCredential",
        ];
        let lines = unit.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.filter(|line| !own.iter().any(|name| line.starts_with(&format!("{name}=")))).collect::<Vec<_>>()
    };
    assert!(settings(UNIT).len() > 40);
    assert_eq!(settings(UNIT), settings(RECEIVE));
}

#[tokio::test]
async fn every_setting_of_the_example_environment_is_one() {
    let variables = ENVIRONMENT.lines().filter_map(|line| line.strip_prefix('#')?.split_once('='));
    let config = variables
        .filter(|(name, _)| name.starts_with("OUTBOXD_"))
        .fold(Config::empty().extra(EXAMPLE), |config, (name, value)| config.environment(name, value));
    assert!(config.environment.len() >= 3);
    let ended = Daemon::command(&config, &["migrate", "--print"]).wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
}

fn outboxd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outboxd")).args(arguments).output().expect("the binary runs")
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let directory = TempDir::new().expect("the temp directory takes another");
    let written = outboxd(&["man", "--out", directory.path().to_str().expect("temp paths are UTF-8")]);
    assert!(written.status.success(), "{written:?}");
    for page in ["outboxd.1", "outboxd-run.1", "outboxd-migrate.1", "outboxd-scope-put.1"] {
        let text = fs::read_to_string(directory.path().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    let page = outboxd(&["man"]);
    let written = fs::read(directory.path().join("outboxd.1")).expect("it was written");
    assert!(page.stdout == written, "{}", String::from_utf8_lossy(&page.stdout));
    let refused = outboxd(&["man", "--out", "/proc/nowhere"]);
    assert_eq!(refused.status.code(), Some(73), "{refused:?}");
}

#[test]
fn bash_completes_commands_and_their_options() {
    let script = outboxd(&["completions", "bash"]);
    assert!(script.status.success(), "{script:?}");
    let directory = TempDir::new().expect("the temp directory takes another");
    let path = directory.path().join("outboxd.bash");
    fs::write(&path, &script.stdout).expect("our directory is ours");
    let complete = |words: &str, at: usize| {
        let ask = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={at}; _outboxd outboxd \"${{COMP_WORDS[{at}]}}\" ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            path.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &ask]).output().expect("bash is everywhere");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(complete("outboxd destin", 1).trim(), "destinations");
    assert_eq!(complete("outboxd migrate --pr", 2).trim(), "--print");
    for shell in ["zsh", "fish"] {
        let script = outboxd(&["completions", shell]);
        assert!(String::from_utf8_lossy(&script.stdout).contains("destinations"), "{shell}");
    }
}

/// `make deb` makes the others itself.
#[test]
fn what_the_debian_package_takes_from_the_repository_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = include_str!("../../Cargo.toml");
    let (_, assets) = manifest.split_once("\nassets = [\n").expect("there is a list");
    let (assets, _) = assets.split_once("\n]").expect("it ends");
    let sources: Vec<&str> = assets.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert!(sources.len() >= 8, "{sources:?}");
    let makefile = include_str!("../../Makefile");
    for source in sources {
        let made = source.strip_prefix("target/").map(|rest| rest.split('/').next().expect("a directory"));
        match made {
            Some(directory) => assert!(makefile.contains(&format!("target/{directory}")), "nobody makes {source}"),
            None => assert!(root.join(source).exists(), "{source} is not there"),
        }
    }
}
