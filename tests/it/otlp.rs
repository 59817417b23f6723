//! Spans of attempts, as an OpenTelemetry collector takes them: part of the host's trace, told of to the receiver, without
//! secrets, and never in a delivery's way.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::net::UdpSocket;

use crate::outboxes::two;
use crate::secrets::{all_attempted, assert_clean, canaries, insert_secrets};
use crate::support::cluster::{Database, TABLE};
use crate::support::collector::{Collector, Exported, Manner};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::dns::{Dns, addresses};
use crate::support::eventually::{PATIENCE, eventually, within};
use crate::support::metrics::ATTEMPTS;
use crate::support::moment::moment;
use crate::support::receiver::{Answer, Received};
use crate::support::seal::Draft;
use crate::support::world::World;
use crate::traces::{PARENT, TRACE, enqueue};

/// By result: `exported`, `failed` or `dropped`.
const SPANS: &str = "outboxd_spans_total";
const EX_CONFIG: i32 = 78;
/// SPAN_KIND_CLIENT of OTLP.
const CLIENT: i32 = 3;

fn exporting(config: Config, collector: &Collector) -> Config {
    config.set("tracing.otlp_endpoint", collector.url())
}

/// Both ends of an attempt name the same span.
fn assert_told(span: &Exported, request: &Received) {
    let parent = format!("00-{}-{}-01", span.trace, span.id);
    assert_eq!(request.header("traceparent"), Some(parent.as_str()));
    assert!(span.start < request.moment && request.moment < span.end, "{span:?} is not of the time {}", request.moment);
}

async fn counted(daemon: &Daemon, result: &str, spans: f64) {
    eventually(&format!("{spans} spans are {result}"), async || {
        match daemon.metrics().await.total(SPANS, &[("result", result)]) {
            counted if counted == spans => Ok(()),
            counted => Err(counted),
        }
    })
    .await;
}

#[tokio::test]
async fn every_attempt_is_a_span_of_the_hosts_trace_and_the_receiver_is_told_of_it() {
    let (world, collector) = (World::new().await, Collector::start().await);
    world.receiver.answers(vec![Answer::status(503), Answer::status(200)]);
    let daemon = Daemon::start(&exporting(world.retrying_config(), &collector)).await;
    enqueue(&world, PARENT, "vendor=a").await;
    world.all_are("delivered").await;
    let spans = collector.spans(2).await;
    let received = world.receiver.wait_for(2).await;
    assert_eq!((spans.len(), received.len()), (2, 2));
    let replica: String = world.database.value(&format!("select replica from {TABLE}_replicas"), &[]).await;
    for (span, request) in spans.iter().zip(&received) {
        assert_told(span, request);
        assert_eq!(request.header("tracestate"), Some("vendor=a"));
        assert_eq!(
            (span.trace.as_str(), span.parent.as_str(), span.state.as_str()),
            (TRACE, &PARENT[36..52], "vendor=a")
        );
        assert_eq!((span.name.as_str(), span.kind, span.description.as_str()), ("deliver webhook", CLIENT, ""));
        let version = env!("CARGO_PKG_VERSION");
        let resource = json!({"service.name": "outboxd", "service.version": version, "service.instance.id": replica});
        assert_eq!(span.resource, resource);
        world.assert_signed(request);
    }
    assert!(spans[0].id != spans[1].id && spans[0].end < spans[1].start, "{spans:?}");
    let row: i64 = world.database.value(&format!("select id from {TABLE}"), &[]).await;
    let port = world.receiver.address.port();
    let first = json!({
        "outboxd.row": row,
        "outboxd.attempt": 1,
        "outboxd.outcome": "http_server_error",
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": port,
        "http.response.status_code": 503,
        "error.type": "http_server_error",
    });
    let second = json!({
        "outboxd.row": row,
        "outboxd.attempt": 2,
        "outboxd.outcome": "delivered",
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": port,
        "http.response.status_code": 200,
    });
    assert_eq!((&spans[0].attributes, &spans[1].attributes), (&first, &second));
    assert_eq!((spans[0].is_error, spans[1].is_error), (true, false));
    daemon.line(0, &["not delivered", TRACE]).await;
    counted(&daemon, "exported", 2.0).await;
}

#[tokio::test]
async fn a_row_without_a_trace_begins_one_that_all_its_attempts_have() {
    let (world, collector) = (World::new().await, Collector::start().await);
    world.receiver.answers(vec![Answer::status(503), Answer::status(200)]);
    let daemon = Daemon::start(&exporting(world.retrying_config(), &collector)).await;
    for target in ["/one", "/other"] {
        world.insert(target, 1).await;
    }
    world.all_are("delivered").await;
    let (spans, received) = (collector.spans(4).await, world.receiver.wait_for(4).await);
    let of = |target: &str| -> Vec<&Received> { received.iter().filter(|request| request.target == target).collect() };
    let mut traces = Vec::new();
    for requests in [of("/one"), of("/other")] {
        assert_eq!(requests.len(), 2);
        let told = |request: &Received| request.header("traceparent").expect("it has a span").to_owned();
        let trace = told(requests[0])[3..35].to_owned();
        let spans: Vec<&Exported> = spans.iter().filter(|span| span.trace == trace).collect();
        assert_eq!(spans.len(), 2, "two attempts");
        for (span, request) in spans.into_iter().zip(requests) {
            assert_told(span, request);
            assert_eq!((span.parent.as_str(), request.header("tracestate")), ("", None));
        }
        daemon.line(0, &["\"delivered\"", &trace]).await;
        traces.push(trace);
    }
    assert_ne!(traces[0], traces[1]);
}

#[tokio::test]
async fn a_trace_that_its_host_does_not_record_goes_on_unchanged_and_leaves_no_span() {
    let (world, collector) = (World::new().await, Collector::start().await);
    world.receiver.answers(vec![Answer::status(503), Answer::status(200)]);
    let _daemon = Daemon::start(&exporting(world.retrying_config(), &collector)).await;
    let unrecorded = PARENT.replace("-01", "-00");
    enqueue(&world, &unrecorded, "vendor=a").await;
    world.all_are("delivered").await;
    for request in world.receiver.wait_for(2).await {
        assert_eq!(request.header("traceparent"), Some(unrecorded.as_str()));
    }
    // Spans are exported in the order of their ends, and these are the first.
    world.insert("/recorded", 1).await;
    let spans = collector.spans(2).await;
    assert!(spans.iter().all(|span| span.trace != TRACE), "{spans:?}");
}

/// Claimed while no name server answers, it was not tried.
#[tokio::test]
async fn a_row_that_is_given_back_unattempted_leaves_no_span() {
    let (world, dns, collector) = (World::new().await, Dns::start().await, Collector::start().await);
    dns.script("*", |_, _| addresses(&["127.0.0.1"]));
    dns.kill();
    let config =
        exporting(world.retrying_config(), &collector).set("egress.dns_servers", vec![dns.address.to_string()]);
    let daemon = Daemon::start(&config).await;
    let draft = Draft::to(world.receiver.url_by_name("n1.hooks.example.com", "/hooks"));
    world.database.insert(&world.seal(vec![draft])).await;
    eventually("the row is given back", async || {
        let metrics = daemon.metrics().await;
        if metrics.total(ATTEMPTS, &[("code", "resolver_down")]) > 0.0 { Ok(()) } else { Err(metrics.text) }
    })
    .await;
    dns.restart().await;
    world.all_are("delivered").await;
    // An earlier one would have come before it.
    let spans = collector.spans(1).await;
    let told: Vec<_> = spans.iter().map(|span| &span.attributes["outboxd.outcome"]).collect();
    assert_eq!(told, ["delivered"]);
    assert_eq!(spans[0].attributes["server.address"], "n1.hooks.example.com");
}

#[tokio::test]
async fn a_span_says_which_of_several_outboxes_its_row_is_in() {
    let (world, second, collector) = (World::new().await, Database::new().await, Collector::start().await);
    let _daemon = Daemon::start(&two(&world, exporting(world.config(), &collector), &second.url)).await;
    let mut expected = Vec::new();
    for (database, outbox) in [(&world.database, "eu"), (&second, "us")] {
        database.insert(&world.seal(Draft::many(&world.receiver.url("/hooks"), 3))).await;
        expected.extend([json!(outbox), json!(outbox), json!(outbox)]);
    }
    let mut outboxes: Vec<_> =
        collector.spans(6).await.into_iter().map(|span| span.attributes["outboxd.outbox"].clone()).collect();
    outboxes.sort_by_key(ToString::to_string);
    assert_eq!(outboxes, expected);
}

#[tokio::test]
async fn p14_no_secret_is_in_a_span() {
    let (world, collector) = (World::new().await, Collector::start().await);
    let rows = insert_secrets(&world).await;
    let config = world.config().set("envelope.legacy_hmac", true).set("retry.base", "1m");
    let daemon = Daemon::start(&exporting(config, &collector)).await;
    all_attempted(&world).await;
    let spans = collector.spans(rows).await;
    let codes: Vec<&str> = spans.iter().filter_map(|span| span.attributes["error.type"].as_str()).collect();
    for code in ["http_gone", "http_unauthorized", "protocol_error", "url_refused", "envelope_unopenable"] {
        assert!(codes.contains(&code), "{code} is not among {codes:?}");
    }
    assert!(spans.iter().all(|span| span.is_error == span.attributes.get("error.type").is_some()));
    daemon.signal(Signal::SIGTERM);
    daemon.wait_exit(PATIENCE).await;
    for asked in collector.asked(1).await {
        assert_clean(&canaries(&world), "a request to the collector", &String::from_utf8_lossy(&asked.body));
        assert_eq!(asked.target, "/v1/traces");
    }
}

#[tokio::test]
async fn a_collector_that_is_down_refuses_or_says_nothing_costs_spans_and_no_delivery() {
    let collector = Collector::start().await;
    for (manner, url) in [
        (Manner::Takes, "http://127.0.0.1:9/v1/traces".to_owned()),
        (Manner::Takes, "http://collector.invalid/v1/traces".to_owned()),
        (Manner::Refuses(400), collector.url()),
        (Manner::Silent, collector.url()),
    ] {
        collector.behaves(manner);
        let world = World::new().await;
        let daemon = Daemon::start(&world.config().set("tracing.otlp_endpoint", url.as_str())).await;
        world.insert("/hooks", 200).await;
        world.all_are("delivered").await;
        counted(&daemon, "failed", 200.0).await;
        daemon.line(0, &["the collector takes no spans"]).await;
        let metrics = daemon.metrics().await;
        assert_eq!(metrics.total(SPANS, &[]), 200.0, "{}", metrics.text);
    }
}

#[tokio::test]
async fn what_finds_no_room_while_the_collector_says_nothing_is_dropped_and_counted() {
    /// More than may wait and than a silent collector is asked to take meanwhile.
    const ROWS: usize = 4000;
    let (world, collector) = (World::new().await, Collector::start().await);
    collector.behaves(Manner::Silent);
    let daemon =
        Daemon::start(&exporting(world.config(), &collector).set("log.filter", "error,outboxd::daemon=info")).await;
    // Attempts that end at once, since nothing is looked up or connected to.
    world.database.insert(&world.seal(Draft::many("https://receiver.invalid/hooks", ROWS))).await;
    eventually("every row was judged", async || {
        match daemon.metrics().await.total("outboxd_settled_rows_total", &[("verdict", "quarantined")]) {
            settled if settled == ROWS as f64 => Ok(()),
            settled => Err(settled),
        }
    })
    .await;
    world.insert("/hooks", 50).await;
    world.receiver.wait_for(50).await;
    let metrics = daemon.metrics().await;
    assert!(metrics.total(SPANS, &[("result", "dropped")]) > 0.0, "{}", metrics.text);
    assert_eq!(metrics.total(SPANS, &[("result", "exported")]), 0.0, "{}", metrics.text);
}

#[tokio::test]
async fn an_outage_of_the_collector_is_told_of_once_and_so_is_its_end() {
    let (world, collector) = (World::new().await, Collector::start().await);
    collector.behaves(Manner::Refuses(500));
    let daemon = Daemon::start(&exporting(world.config(), &collector)).await;
    for failed in 1..=3 {
        world.insert("/hooks", 1).await;
        counted(&daemon, "failed", f64::from(failed)).await;
    }
    collector.behaves(Manner::Takes);
    world.insert("/hooks", 1).await;
    daemon.line(0, &["the collector takes spans again"]).await;
    let text = daemon.text();
    assert_eq!(text.matches("the collector takes no spans").count(), 1, "{text}");
    assert_eq!(collector.spans(1).await.len(), 1);
    counted(&daemon, "exported", 1.0).await;
}

#[tokio::test]
async fn a_drain_exports_what_waits() {
    let (world, collector) = (World::new().await, Collector::start().await);
    let daemon = Daemon::start(&exporting(world.config(), &collector)).await;
    world.insert("/hooks", 20).await;
    world.all_are("delivered").await;
    daemon.drains(PATIENCE).await;
    assert_eq!(collector.spans(20).await.len(), 20);
}

#[tokio::test]
async fn a_drain_waits_for_no_collector_that_says_nothing() {
    /// Less than one batch is given while the daemon runs.
    const SHORT: Duration = Duration::from_millis(4500);
    let (world, collector) = (World::new().await, Collector::start().await);
    collector.behaves(Manner::Silent);
    let daemon = Daemon::start(&exporting(world.config(), &collector)).await;
    world.insert("/hooks", 20).await;
    world.all_are("delivered").await;
    let ended = daemon.drains(PATIENCE).await;
    assert!(ended.output.contains("stopping with spans that the collector did not take in time"), "{}", ended.output);
    let lines = daemon.lines();
    let at = |words: &str| lines.iter().find(|(_, line)| line.contains(words)).expect("it is said").0;
    let took = at("\"stopped\"").duration_since(at("draining"));
    assert!(took < SHORT, "{took:?}");
}

/// The system's resolver looks up the collector's name, and cannot be called off.
#[tokio::test]
async fn a_drain_waits_for_no_name_server_that_says_nothing() {
    const SHORT: Duration = Duration::from_secs(10);
    let world = World::new().await;
    let silent = UdpSocket::bind("127.0.77.1:53").await.expect("this address has no name server");
    let config = world.config().set("tracing.otlp_endpoint", "http://collector.example/v1/traces");
    let servers = "nameserver 127.0.77.1\noptions timeout:30 attempts:1\n";
    let servers = config.file_with_mode("resolv.conf", servers, 0o644);
    let daemon = Daemon::spawn_resolving_by(&servers, &config);
    daemon.ready().await;
    world.insert("/hooks", 1).await;
    world.all_are("delivered").await;
    within(PATIENCE, "the name is looked up", silent.recv_from(&mut [0; 512])).await.expect("the socket lives");
    daemon.drains(SHORT).await;
}

#[tokio::test]
async fn of_the_standard_variables_only_the_collectors_headers_are_obeyed() {
    let (world, collector) = (World::new().await, Collector::start().await);
    let mut config = exporting(world.config(), &collector);
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-token=canary%2Dtoken"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,other=one"),
        ("OTEL_SERVICE_NAME", "other"),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
    ] {
        config = config.environment(name, value);
    }
    let began = moment();
    let daemon = Daemon::start(&config).await;
    world.insert("/hooks", 1).await;
    let spans = collector.spans(1).await;
    assert_eq!((&spans[0].resource["service.name"], &spans[0].resource["other"]), (&json!("outboxd"), &json!(null)));
    assert!(spans[0].attributes.as_object().is_some_and(|attributes| attributes.len() > 3) && spans[0].start > began);
    let asked = collector.asked(1).await;
    assert_eq!(asked[0].headers["x-collector-token"], "canary-token");
    assert!(!asked[0].headers.contains_key("content-encoding"));
    assert!(!daemon.text().contains("canary"), "{}", daemon.text());
}

#[tokio::test]
async fn a_collector_that_cannot_be_one_is_refused_without_repeating_it() {
    let world = World::new().await;
    for (url, problem) in [
        ("canary:4318", "is not an http URL"),
        ("ftp://canary/v1/traces", "is not an http URL"),
        ("https://canary:4318/v1/traces", "is an https URL"),
        ("http://canary:4318", "has no path"),
        ("http://user:canary@127.0.0.1:4318/v1/traces", "names a user"),
        ("http://[::1/canary", "this is not a URL"),
    ] {
        let config = world.config().set("tracing.otlp_endpoint", url);
        let ended = Daemon::command(&config, &["run"]).wait_exit(PATIENCE).await;
        assert_eq!(ended.code, Some(EX_CONFIG), "{url}: {}", ended.output);
        for words in ["tracing.otlp_endpoint", problem, "http://127.0.0.1:4318/v1/traces"] {
            assert!(ended.output.contains(words), "{url}: {}", ended.output);
        }
        assert!(!ended.output.contains("canary"), "{url}: {}", ended.output);
    }
}
