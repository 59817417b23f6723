//! What `deploy/prometheus` and `deploy/grafana` promise, judged by the real tools: rules that fire on what they are for and
//! resolve, on metrics that exist, with a line in README for whoever is woken. What they say of an incident: incident.rs.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::manifests::{promtool, read, root, yaml};
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
