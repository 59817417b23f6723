//! The README is part of the product: its tables, its settings and its example are what the binary has.

use std::collections::BTreeSet;

use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::PATIENCE;
use crate::support::world::World;

const README: &str = include_str!("../../README.md");
const DEFAULTS: &str = include_str!("../../config/default.toml");

/// What stands between backticks.
fn quoted() -> impl Iterator<Item = &'static str> {
    README.split('`').skip(1).step_by(2)
}

/// Every `section.key` of the default configuration.
fn settings() -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in DEFAULTS.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            found.insert(format!("{section}.{key}"));
        }
    }
    found
}

#[tokio::test]
async fn the_table_of_codes_is_what_the_command_prints() {
    let ended = Daemon::command(&Config::empty(), &["codes", "--markdown"]).wait_exit(PATIENCE).await;
    assert!(README.contains(ended.output.trim()), "paste this into README.md:\n{}", ended.output);
}

#[test]
fn every_metric_is_in_the_table() {
    let source = include_str!("../../src/telemetry/metrics.rs");
    let names: Vec<&str> = source
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("outboxd_") && !text.contains(' '))
        .collect();
    assert!(names.len() >= 30, "{names:?}");
    for name in names {
        assert!(README.contains(&format!("| `{name}` |")), "README.md does not list {name}");
    }
}

#[test]
fn every_setting_that_it_names_exists() {
    let settings = settings();
    let sections: BTreeSet<&str> = settings.iter().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    let mut named = 0;
    for word in quoted() {
        let word = word.split([' ', '=']).next().unwrap_or_default();
        let Some((section, key)) = word.split_once('.') else { continue };
        if sections.contains(section) && key.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            assert!(settings.contains(word), "there is no setting {word}");
            named += 1;
        }
    }
    assert!(named >= 10, "only {named} settings were found");
}

#[tokio::test]
async fn its_example_configuration_passes_the_check() {
    let world = World::new().await;
    let example = README.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is one");
    let config = world.config();
    let password = config.file("outboxd-db-password", "unused where everybody is trusted");
    let directory = password.parent().expect("a file has one");
    let example = example.replace("/run/secrets", &text(directory));
    let config = Config::empty().extra(&example).environment("OUTBOXD_DATABASE__URL", &world.database.url);
    let ended = Daemon::command(&config, &["check"]).wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
}

#[tokio::test]
async fn every_configuration_that_it_shows_is_accepted() {
    let examples: Vec<&str> = README.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 3, "{examples:?}");
    for example in examples {
        // The settings are read and judged; the files that they name are not.
        let config = Config::empty().extra(example);
        let ended = Daemon::command(&config, &["migrate", "--print"]).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(0), "{example}\n{}", ended.output);
    }
}

#[tokio::test]
async fn every_command_that_it_shows_is_one() {
    let commands: BTreeSet<&str> = README
        .lines()
        .filter_map(|line| line.strip_prefix("outboxd "))
        .filter_map(|rest| rest.split_ascii_whitespace().next())
        .collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let ended = Daemon::command(&Config::empty(), &[command, "--help"]).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(0), "{command}: {}", ended.output);
    }
}
