//! Bad input ends the start with a sysexits code and one sentence that names the key.

use crate::support::cluster::TABLE;
use crate::support::config::{Config, text};
use crate::support::daemon::{Daemon, Ended};
use crate::support::eventually::PATIENCE;
use crate::support::world::World;

const EX_USAGE: i32 = 64;
const EX_NOINPUT: i32 = 66;
const EX_UNAVAILABLE: i32 = 69;
const EX_CONFIG: i32 = 78;

async fn end_of(config: &Config, command: &str) -> Ended {
    let ended = Daemon::command(config, &[command]).wait_exit(PATIENCE).await;
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
    ended
}

/// Says what is wrong unless one sentence, and only one, names every part.
fn unnamed(ended: &Ended, parts: &[&str]) -> Option<String> {
    let naming = ended.output.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    (naming != 1).then(|| format!("wanted one sentence with {parts:?} in:\n{}", ended.output))
}

#[tokio::test]
async fn every_bad_value_is_refused_by_name() {
    let world = World::new().await;
    let good = world.config();
    let readable = good.file_with_mode("readable.key", world.key.hex(), 0o644);
    let short = good.file("short.key", &world.key.hex()[..62]);
    let not_pem = good.file("not.pem", "not a key");
    let scopes = text(&good.path("scopes"));
    good.file("scopes/bad.json", "{");
    let set = |key: &str, value: serde_json::Value| good.clone().set(key, value);
    let entry = |name: &str| format!("[[outboxes]]\nname = \"{name}\"\nurl = \"host={name}\"\n");
    let two_outboxes = good.clone().unset("database.url").extra(&entry("eu")).extra(&entry("us"));
    let cases: Vec<(Config, Vec<&str>)> = vec![
        (set("delivery.slotz", 5.into()), vec!["slotz"]),
        (set("deliveries.slots", 5.into()), vec!["deliveries"]),
        (good.clone().extra("[delivery\n"), vec!["outboxd.toml"]),
        (set("delivery.slots", "many".into()), vec!["delivery.slots"]),
        (set("delivery.slots", 0.into()), vec!["delivery.slots", "0", "1"]),
        (two_outboxes.set("delivery.slots", 3), vec!["delivery.slots", "3", "2 outboxes", "4 to 10000"]),
        (set("delivery.lease", "soon".into()), vec!["delivery.lease", "soon"]),
        (set("delivery.lease", "14s".into()), vec!["delivery.lease", "14s", "egress.attempt_timeout", "15s"]),
        (set("delivery.poll_interval", "0s".into()), vec!["delivery.poll_interval"]),
        (set("database.pool_size", 1.into()), vec!["database.pool_size", "1"]),
        (set("database.sslmode", "sometimes".into()), vec!["database.sslmode", "sometimes"]),
        (set("outbox.table", "Bad-Name".into()), vec!["outbox.table", "1 to 45", "a-z, 0-9 and _"]),
        (set("outbox.table", "a".repeat(46).into()), vec!["outbox.table", "1 to 45", "a-z, 0-9 and _"]),
        (set("envelope.key_files", vec![text(&readable)].into()), vec!["envelope.key_files", "readable.key"]),
        (set("envelope.key_files", vec![text(&short)].into()), vec!["envelope.key_files", "short.key", "32"]),
        (good.clone().unset("envelope.key_files"), vec!["envelope.key_files"]),
        (set("signing.key_file", text(&not_pem).into()), vec!["signing.key_file", "not.pem"]),
        (
            set("signing.algorithms", vec!["rsa-v1_5-sha256"].into()),
            vec!["signing.algorithms", "ed25519 and ecdsa-p256-sha256"],
        ),
        (set("signing.algorithms", vec!["ecdsa-p256-sha256"].into()), vec!["signing.algorithms"]),
        (set("signing.scopes_dir", scopes.into()), vec!["signing.key_file", "signing.scopes_dir"]),
        (set("egress.allow", vec!["10.0.0.0/33"].into()), vec!["egress.allow", "IP address"]),
        (set("egress.trust_anchors", vec![text(&not_pem)].into()), vec!["egress.trust_anchors", "not.pem"]),
        (set("retry.cap", "1ms".into()), vec!["retry.cap", "1ms", "1s"]),
        (set("admin.listen", "somewhere".into()), vec!["admin.listen", "somewhere"]),
        (set("log.format", "xml".into()), vec!["log.format", "xml"]),
        (set("compat.policy", "python".into()), vec!["compat.policy", "python"]),
        (good.clone().environment("OUTBOXD_DELIVERY__SLOTS", "0"), vec!["delivery.slots"]),
        (good.clone().environment("OUTBOXD_DELIVERY__SLOTZ", "5"), vec!["slotz"]),
    ];
    let mut wrong = Vec::new();
    for (config, parts) in cases {
        let ended = end_of(&config, "run").await;
        match ended.code {
            Some(EX_CONFIG) => wrong.extend(unnamed(&ended, &parts)),
            code => wrong.push(format!("{parts:?} ended with {code:?}:\n{}", ended.output)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[cfg(not(feature = "otlp"))]
#[tokio::test]
async fn a_binary_that_cannot_export_spans_refuses_a_collector_and_says_how_to_get_one_that_can() {
    let world = World::new().await;
    let config = world.config().set("tracing.otlp_endpoint", "http://127.0.0.1:4318/v1/traces");
    for command in ["run", "check"] {
        let ended = end_of(&config, command).await;
        assert_eq!(ended.code, Some(EX_CONFIG), "{}", ended.output);
        assert_eq!(unnamed(&ended, &["tracing.otlp_endpoint", "without the feature otlp", "--features otlp"]), None);
    }
}

#[tokio::test]
async fn files_that_are_not_there_are_named() {
    let world = World::new().await;
    let good = world.config();
    for key in ["signing.key_file", "database.password_file", "database.url_file"] {
        let ended = end_of(&good.clone().set(key, "/nowhere/at-all"), "run").await;
        assert!(matches!(ended.code, Some(EX_CONFIG | EX_NOINPUT)), "{key}: {ended:?}");
        assert_eq!(unnamed(&ended, &[key, "/nowhere/at-all"]), None);
    }
}

#[tokio::test]
async fn a_wrong_command_line_is_a_usage_error() {
    let config = Config::empty();
    for arguments in [&["rum"][..], &["run", "--frobnicate"], &["run", "--set", "no equals sign"]] {
        let ended = Daemon::command(&config, arguments).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(EX_USAGE), "{arguments:?}: {}", ended.output);
    }
}

#[tokio::test]
async fn a_table_that_lacks_a_column_is_named_by_run_and_by_check() {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let drop = format!("ALTER TABLE {TABLE} DROP COLUMN signing_scope_id");
    world.database.execute(&drop, &[]).await;
    for command in ["run", "check"] {
        let ended = end_of(&world.config(), command).await;
        assert!(matches!(ended.code, Some(EX_UNAVAILABLE | EX_CONFIG)), "{command}: {ended:?}");
        assert!(ended.output.contains("column signing_scope_id is missing"), "{}", ended.output);
    }
    assert_eq!(world.receiver.received().len(), 0);
}

#[tokio::test]
async fn check_says_in_a_line_each_that_all_is_well() {
    let world = World::new().await;
    let ended = end_of(&world.config(), "check").await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    for subject in ["config", "key", "database", "schema", "permission", "clock"] {
        assert!(ended.output.to_lowercase().contains(subject), "nothing about {subject}: {}", ended.output);
    }
}
