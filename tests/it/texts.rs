//! What people and scripts rely on, written down in tests/snapshots: help texts, completions, settings, metrics and the schema.
//! A change to any of them is seen in review. After one that is meant: SNAPSHOTS=renew cargo test --test it texts

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::cluster::Database;

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name)
}

/// Compares, or writes where that is asked for.
fn assert_known(name: &str, text: &str) {
    let path = place(name);
    if std::env::var("SNAPSHOTS").is_ok_and(|wish| wish == "renew") {
        fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("the source tree is ours");
        fs::write(&path, text).expect("the source tree is ours");
        return;
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    if known == text {
        return;
    }
    let differs = known.lines().zip(text.lines()).position(|(known, now)| known != now);
    let line = differs.unwrap_or(known.lines().count().min(text.lines().count()));
    let show = |text: &str| text.lines().nth(line).unwrap_or("(its end)").to_owned();
    panic!(
        "{} differs from line {} on:\n  known: {}\n  now:   {}\nIf that is meant: SNAPSHOTS=renew cargo test --test it texts",
        path.display(),
        line + 1,
        show(&known),
        show(text)
    );
}

fn outboxd(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_outboxd"))
        .args(words)
        .env_remove("COLUMNS")
        .env_remove("OUTBOXD_CONFIG")
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).expect("what is printed is text")
}

/// The help of a command and of all below it, by its words.
fn helps(words: &[&str], found: &mut BTreeMap<String, String>) {
    let help = outboxd(&[words, &["--help"]].concat());
    let below = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let below = below
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in below.filter_map(|line| line.split_ascii_whitespace().next()).filter(|name| *name != "help") {
        helps(&[words, &[name]].concat(), found);
    }
    found.insert(words.join(" "), help);
}

#[test]
fn help_texts_are_known() {
    let mut found = BTreeMap::new();
    helps(&[], &mut found);
    assert!(found.len() >= 25, "{:?}", found.keys());
    let text: String = found
        .into_iter()
        .map(|(words, help)| format!("$ outboxd {}\n\n{help}\n", (words + " --help").trim()))
        .collect();
    assert_known("help.txt", &text);
}

/// A person is shown how each command that does something is used, not only told its options.
#[test]
fn every_command_for_operators_shows_an_example() {
    for command in [
        "requeue",
        "cancel",
        "expire",
        "purge",
        "destinations",
        "doctor",
        "list",
        "rekey",
        "keys",
        "completions",
        "man",
    ] {
        let help = outboxd(&[command, "--help"]);
        assert!(help.contains(&format!("\n  outboxd {command}")), "{help}");
    }
}

#[test]
fn completions_are_known() {
    for shell in ["bash", "zsh", "fish"] {
        assert_known(&format!("completions.{shell}"), &outboxd(&["completions", shell]));
    }
}

/// The keys and their values; what is said about them may be said better.
#[test]
fn settings_and_their_defaults_are_known() {
    let text = outboxd(&["config"]);
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    assert_known("settings.toml", &text);
}

/// As README's table has them, which tests hold against the source: name, kind, labels.
#[test]
fn metrics_are_known() {
    let readme = include_str!("../../README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| `outboxd_"));
    let text: String = rows
        .map(|row| row.split('|').skip(1).take(3).map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned() + "\n")
        .collect();
    assert_known("metrics.txt", &text);
}

const SCHEMA: &str = include_str!("texts/schema.sql");

#[tokio::test]
async fn the_schema_is_known() {
    let database = Database::new().await;
    let rows = database.client.query(SCHEMA, &[]).await.unwrap_or_else(|error| panic!("{error:?}"));
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(lines.len() >= 200, "{lines:?}");
    assert_known("schema.txt", &(lines.join("\n") + "\n"));
}
