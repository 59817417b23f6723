//! The exported metrics follow Prometheus' guidelines: help, type, unit in the name, no label that a row could fill.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::dns::{Dns, addresses};
use crate::support::eventually::{eventually, eventually_within};
use crate::support::receiver::Answer;
use crate::support::seal::Draft;
use crate::support::world::World;

#[tokio::test]
async fn every_metric_has_help_a_type_and_a_name_by_the_guidelines() {
    let world = World::new().await;
    world.receiver.answer(|target, _| Answer::status(if target == "/hooks" { 200 } else { 503 }));
    world.insert("/hooks", 5).await;
    let daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    let text = daemon.metrics().await.text;
    let mut kinds = BTreeMap::new();
    let mut helped = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "TYPE", name, kind] => drop(kinds.insert(name.to_string(), kind.to_string())),
            ["#", "HELP", name, help] => {
                assert!(help.ends_with('.'), "{line}");
                helped.insert(name.to_string());
            }
            _ => {}
        }
    }
    assert!(kinds.len() >= 20, "{text}");
    for (name, kind) in &kinds {
        assert!(helped.contains(name), "{name} has no help");
        assert!(name.starts_with("outboxd_"), "{name}");
        match kind.as_str() {
            "counter" => assert!(name.ends_with("_total"), "{name} is a counter"),
            "histogram" => assert!(name.ends_with("_seconds"), "{name} is a histogram"),
            "gauge" => assert!(!name.ends_with("_total"), "{name} is a gauge"),
            other => panic!("{name} is a {other}"),
        }
    }
}

#[tokio::test]
async fn labels_come_from_closed_lists_whatever_the_rows_say() {
    let world = World::new().await;
    world.receiver.answer(|target, _| match target {
        "/canary-49?q=canary" => Answer::status(429).header("Retry-After", "1"),
        _ => Answer::status(500),
    });
    let drafts: Vec<Draft> = (0..50).map(|n| Draft::to(world.receiver.url(&format!("/canary-{n}?q=canary")))).collect();
    world.database.insert(&world.seal(drafts)).await;
    let daemon = Daemon::start(&world.config().set("retry.base", "1m")).await;
    world.receiver.wait_for(50).await;
    let text = eventually("the destination is parked", async || {
        let text = daemon.metrics().await.text;
        if text.contains("retry_after") { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(!text.contains("canary") && !text.contains("127.0.0.1"), "{text}");
    let labels: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split(['{', ',']).skip(1))
        .filter_map(|label| label.split_once("=\"").map(|(name, _)| name))
        .collect();
    let known = BTreeSet::from([
        "code",
        "kind",
        "le",
        "quantile",
        "reason",
        "result",
        "state",
        "statement",
        "verdict",
        "version",
    ]);
    assert!(labels.is_subset(&known), "{labels:?}");
    assert!(text.lines().count() < 1500, "{} series", text.lines().count());
}

/// Where every row names a host of its own, chosen to hurt, there are as many series as with one host.
#[tokio::test]
async fn fifty_thousand_hostile_hosts_add_no_series() {
    const HOSTS: usize = 50_000;
    const HOSTS_PATIENCE: Duration = Duration::from_secs(240);
    /// With buckets; a Prometheus takes a hundred replicas of it without noticing.
    const BUDGET: usize = 1500;
    let (world, dns) = (World::new().await, Dns::start().await);
    dns.script("*", |_, _| addresses(&["10.0.0.1"]));
    let config = world.config().set("egress.dns_servers", vec![dns.address.to_string()]);
    let config = config
        .set("delivery.slots", 512)
        .set("delivery.claim_batch", 500)
        .set("log.filter", "error,outboxd::daemon=info");
    let daemon = Daemon::start(&config).await;
    let insert = async |hosts: std::ops::Range<usize>| {
        // Most are refused as they stand, and some when they have been looked up, which takes a question for each.
        let url = |n: usize| match n % 50 {
            0 => format!("https://h{n}.hostile.example.com/\\\"}} 1"),
            1 => format!("https://\\\"{n}\\\"}}evil.example/"),
            _ => format!("https://h{n}.invalid/{n}"),
        };
        let drafts = hosts.map(|n| Draft::to(url(n))).collect();
        world.database.insert(&world.seal(drafts)).await;
    };
    let settled = async |rows: f64| {
        eventually_within(HOSTS_PATIENCE, "every row was judged", async || {
            let metrics = daemon.metrics().await;
            let settled = metrics.total("outboxd_settled_rows_total", &[]);
            if settled >= rows { Ok(metrics.text) } else { Err(settled) }
        })
        .await
    };
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    insert(0..1000).await;
    let few = settled(1000.0).await;
    insert(1000..HOSTS).await;
    let many = settled(HOSTS as f64).await;
    for word in ["hostile", "evil", "invalid/", "10.0.0.1"] {
        assert!(!many.contains(word), "{word} got into a label");
    }
    assert!(series(&many) <= BUDGET, "{} series", series(&many));
    // What had no occasion before may have had one since: a statement, a kind of error.
    assert!(series(&many) <= series(&few) + 100, "{} series grew to {}", series(&few), series(&many));
}
