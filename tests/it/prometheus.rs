//! What `deploy/prometheus` and `deploy/grafana` promise, judged by the real Prometheus: rules that fire on what they are for and
//! resolve, on metrics that exist, with a line in README for whoever is woken.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::link::Link;
use crate::support::manifests::{promtool, read, root, yaml};
use crate::support::metrics::PARKED;
use crate::support::prometheus::Prometheus;
use crate::support::receiver::{Answer, Receiver};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::world::World;

const ALERTS: &str = "deploy/prometheus/alerts.rules.yaml";
const RECORDING: &str = "deploy/prometheus/recording.rules.yaml";
const DASHBOARD: &str = "deploy/grafana/outboxd.json";

async fn rules(file: &str) -> Vec<Value> {
    let groups = yaml(&read(file)).await.remove(0);
    let groups = groups["groups"].as_array().expect("there are groups").iter();
    groups.flat_map(|group| group["rules"].as_array().expect("each has rules").clone()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Every expression of rules and dashboard.
async fn expressions() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for file in [RECORDING, ALERTS] {
        found.extend(rules(file).await.iter().map(|rule| text(&rule["expr"]).to_string()));
    }
    found.extend(dashboard_expressions());
    found
}

/// With what the dashboard lets one choose filled in.
fn dashboard_expressions() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("expr").map(|expr| text(expr).to_string()));
                members.values().for_each(|member| collect(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("it is JSON");
    let mut found = Vec::new();
    collect(&dashboard, &mut found);
    assert!(found.len() >= 20, "only {} queries", found.len());
    found.iter().map(|expr| expr.replace("$__rate_interval", "1m").replace("$__range", "1h")).collect()
}

/// Names of metrics that a text uses, without the endings that a histogram's series have.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let names = words.filter(|word| word.starts_with("outboxd_"));
    let plain = |name: &str| {
        let ending = ["_bucket", "_count", "_sum"].iter().find_map(|ending| name.strip_suffix(ending));
        ending.unwrap_or(name).to_string()
    };
    names.map(plain).collect()
}

#[tokio::test]
async fn every_alert_fires_on_what_it_is_for_and_resolves() {
    let [recording, alerts] = [RECORDING, ALERTS].map(|file| root().join(file).display().to_string());
    let checked = promtool(&["check", "rules", &recording, &alerts], "").await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let tests = root().join("tests/prometheus/rules.test.yaml").display().to_string();
    let tested = promtool(&["test", "rules", &tests], "").await;
    assert_eq!(tested.code, Some(0), "{tested:?}");
    let tests = read("tests/prometheus/rules.test.yaml");
    for alert in rules(ALERTS).await {
        assert!(tests.contains(text(&alert["alert"])), "{} is not tested", alert["alert"]);
    }
}

#[tokio::test]
async fn rules_and_dashboard_use_metrics_that_exist() {
    let exported = names(include_str!("../../src/telemetry/metrics.rs"));
    let recorded: BTreeSet<String> =
        rules(RECORDING).await.iter().map(|rule| text(&rule["record"]).to_string()).collect();
    let mut used = 0;
    for expr in expressions().await {
        for name in names(&expr) {
            assert!(exported.contains(&name), "there is no metric {name}, in {expr}");
            used += 1;
        }
        let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
        for word in words.filter(|word| word.contains(":outboxd_")) {
            assert!(recorded.contains(word), "nothing records {word}, in {expr}");
        }
    }
    assert!(used >= 40, "only {used} names were found");
}

#[tokio::test]
async fn every_query_of_the_dashboard_parses() {
    let rules: String = dashboard_expressions()
        .iter()
        .enumerate()
        .map(|(nth, expr)| {
            format!("  - record: query_{nth}\n    expr: {}\n", Value::from(expr.replace("$outbox", ".*")))
        })
        .collect();
    let directory = tempfile::TempDir::new().expect("the temp directory takes another");
    let file = directory.path().join("queries.yaml");
    std::fs::write(&file, format!("groups:\n- name: dashboard\n  rules:\n{rules}")).expect("our directory is ours");
    let checked = promtool(&["check", "rules", &file.display().to_string()], "").await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[tokio::test]
async fn every_alert_leads_to_its_line_of_the_readme() {
    let readme = read("README.md");
    for alert in rules(ALERTS).await {
        let (name, annotations) = (text(&alert["alert"]), &alert["annotations"]);
        let anchor = name.to_lowercase();
        assert_eq!(text(&annotations["runbook_url"]), format!("README.md#{anchor}"));
        let line = format!("| <a id=\"{anchor}\"></a>`{name}` |");
        assert!(readme.contains(&line), "README.md has no line for {name}");
        assert!(["critical", "warning", "info"].contains(&text(&alert["labels"]["severity"])), "{name}");
        assert!(!text(&annotations["summary"]).is_empty() && !text(&annotations["description"]).is_empty(), "{name}");
    }
}

/// `RENEW_RULES=1` writes the file anew.
#[test]
fn the_operators_rules_are_the_same() {
    const FILE: &str = "deploy/kubernetes/components/prometheus/rules.yaml";
    let mut made = String::from(
        "# Made of deploy/prometheus/*.rules.yaml.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n\
         metadata:\n  name: outboxd\nspec:\n  groups:\n",
    );
    for file in [RECORDING, ALERTS] {
        let text = read(file);
        let groups = text.split("groups:\n").nth(1).expect("there are groups");
        groups.lines().for_each(|line| made.push_str(&format!("  {line}\n")));
    }
    if std::env::var_os("RENEW_RULES").is_some() {
        std::fs::write(root().join(FILE), &made).expect("the working tree takes it");
    }
    assert_eq!(made, read(FILE), "renew it: RENEW_RULES=1 cargo test --test it the_operators_rules");
}

#[tokio::test]
async fn what_is_exported_pleases_promtool() {
    let world = World::new().await;
    world.insert("/hooks", 3).await;
    let daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    let checked = promtool(&["check", "metrics"], &daemon.metrics().await.text).await;
    assert_eq!((checked.code, checked.stderr.as_str(), checked.stdout.as_str()), (Some(0), "", ""));
}

/// A dead destination, then a missing key, then a database that is gone, and at last no replica at all.
#[tokio::test]
async fn an_incident_is_told_by_alerts_that_name_its_cause_and_end_with_it() {
    let (world, link, dead) = (World::new().await, Link::down(), Receiver::start().await);
    link.mend();
    let config = world.config().set("database.url", link.url(&world.database.name)).set("delivery.park_after", 2);
    let daemon = Daemon::start(&config).await;
    let prometheus = Prometheus::start(&[daemon.admin().await]).await;
    eventually("a scrape has our metrics", async || match prometheus.ask("outboxd_ready == 1").await {
        Ok(series) if series.len() == 1 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // Until the first scrape there was nobody.
    prometheus.is_silent("OutboxdAllReplicasGone").await;
    assert_eq!(prometheus.firing().await, [] as [(String, String); 0]);

    dead.answer(|_, _| Answer::status(503));
    world.database.insert(&world.seal(Draft::many(&dead.url("/hooks"), 5))).await;
    let words = prometheus.fires("OutboxdDestinationParked").await;
    assert!(words.contains("1 destinations fail"), "{words}");
    // Nobody else waits for it, and the age by which one would be woken says so.
    world.insert("/hooks", 5).await;
    world.receiver.wait_for(5).await;
    eventually("the rows of the parked destination are no backlog", async || {
        let metrics = daemon.metrics().await;
        match ["outboxd_oldest_due_age_seconds", "outboxd_oldest_claimable_age_seconds"]
            .map(|name| metrics.total(name, &[]))
        {
            [due, 0.0] if due > 0.0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    dead.answer(|_, _| Answer::status(200));
    prometheus.is_silent("OutboxdDestinationParked").await;
    assert_eq!(daemon.metrics().await.total(PARKED, &[]), 0.0);

    world.insert_under(&EnvelopeKey::new(), "/hooks", 1).await;
    let words = prometheus.fires("OutboxdEnvelopeUnopenable").await;
    assert!(words.contains("no held envelope key opens some rows") && words.contains("envelope.key_files"), "{words}");
    prometheus.is_silent("OutboxdEnvelopeUnopenable").await;

    link.cut();
    let words = prometheus.fires("OutboxdNotReady").await;
    assert!(words.contains("database"), "{words}");
    assert!(prometheus.fires("OutboxdDatabaseFails").await.contains("statements fail: unavailable"));
    link.mend();
    prometheus.is_silent("OutboxdNotReady").await;
    prometheus.is_silent("OutboxdDatabaseFails").await;

    daemon.kill().await;
    prometheus.fires("OutboxdReplicaDown").await;
    prometheus.fires("OutboxdAllReplicasGone").await;
}
