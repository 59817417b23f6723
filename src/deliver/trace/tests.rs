use serde_json::{Value, json};

use super::*;
use crate::address::name_server::{Answer, NameServer};

fn tracer(policy: Policy, resolver: Resolver) -> Tracer {
    Tracer {
        rules: UrlRules::new(vec!["opened.internal".parse().unwrap()], vec![]),
        policy,
        resolver,
        servers: "egress.dns_servers",
        limit: Duration::from_secs(10),
        judged_by: StatusPolicy::Default,
    }
}

async fn traced(addresses: &[&str], policy: Policy, url: &str) -> Value {
    let server = NameServer::with_addresses(addresses).await;
    serde_json::to_value(tracer(policy, server.resolver()).trace(url).await).unwrap()
}

#[tokio::test]
async fn the_json_of_an_allowed_url_is_stable() {
    let told =
        traced(&["93.184.216.34"], Policy::default(), "https://Hooks.Example.com:8443/secret?secret#secret").await;
    let expected = json!({
        "verdict": "allowed",
        "scheme": "https",
        "host": "hooks.example.com",
        "port": 8443,
        "connects_to": ["93.184.216.34:8443"],
        "steps": [
            {"step": "parse", "result": "ok", "detail": "https://hooks.example.com:8443"},
            {"step": "host", "result": "ok", "detail": "a name, hooks.example.com"},
            {"step": "port", "result": "ok", "detail": "8443"},
            {"step": "dns", "result": "ok", "source": "egress.dns_servers", "detail": "1 address"},
            {
                "step": "address", "result": "allowed", "address": "93.184.216.34", "class": "public", "rule": "range",
                "network": "0.0.0.0/0", "source": "IANA IPv4 address space", "detail": "public",
                "reason": "is routed on the internet",
            },
        ],
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_json_of_a_refused_name_is_stable() {
    let told = traced(&["93.184.216.34", "10.0.0.7"], Policy::default(), "https://hooks.example.com/secret").await;
    let expected = json!({
        "verdict": "refused",
        "code": "address_forbidden",
        "row": "retried seldom",
        "mended_by": "receiver",
        "meaning": "The host name resolves to an address that the egress policy refuses.",
        "scheme": "https",
        "host": "hooks.example.com",
        "port": 443,
        "refused_by": "10.0.0.7",
        "connects_to": [],
        "steps": [
            {"step": "parse", "result": "ok", "detail": "https://hooks.example.com:443"},
            {"step": "host", "result": "ok", "detail": "a name, hooks.example.com"},
            {"step": "port", "result": "ok", "detail": "443"},
            {"step": "dns", "result": "ok", "source": "egress.dns_servers", "detail": "2 addresses"},
            {
                "step": "address", "result": "allowed", "address": "93.184.216.34", "class": "public", "rule": "range",
                "network": "0.0.0.0/0", "source": "IANA IPv4 address space", "detail": "public",
                "reason": "is routed on the internet",
            },
            {
                "step": "address", "result": "refused", "address": "10.0.0.7", "class": "private_use", "rule": "range",
                "network": "10.0.0.0/8", "source": "RFC 1918", "detail": "private use",
                "reason": "leads into the operator's own network, where a stranger's URL has no business",
                "opened_by": "egress.allow",
            },
        ],
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_json_of_a_refused_url_is_stable_and_repeats_nothing_of_it() {
    let told = traced(&[], Policy::default(), "https://secret:secret@hooks.example.com/secret").await;
    let expected = json!({
        "verdict": "refused",
        "code": "url_refused",
        "row": "quarantined",
        "mended_by": "host",
        "meaning": Cause::UrlRefused.meaning(),
        "connects_to": [],
        "steps": [{
            "step": "parse", "result": "refused", "rule": "user_info", "detail": "the URL carries user information",
        }],
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn each_rule_names_itself_and_what_opens_it() {
    let nat64 = |text: &str| crate::address::Nat64Prefix::try_from(text.parse::<IpNet>().unwrap()).unwrap();
    let policy = Policy::new(vec!["10.1.0.0/16".parse().unwrap()], vec!["8.8.8.0/24".parse().unwrap()])
        .with_own(vec!["9.9.9.9".parse().unwrap()])
        .with_nat64(vec![nat64("2606:4700::/32"), nat64("64:ff9b::/96")]);
    for (address, class, rule, opened_by) in [
        ("10.1.2.3", "admitted", "allow", None),
        ("10.2.2.3", "private_use", "range", Some("egress.allow")),
        ("8.8.8.8", "denied", "deny", Some("egress.deny")),
        ("9.9.9.9", "own_address", "own_address", Some("egress.allow, by an entry of full length")),
        ("169.254.169.254", "metadata", "range", None),
        ("169.254.1.1", "link_local", "range", None),
        ("64:ff9b:1::a01:203", "embeds_ipv4", "range", Some("egress.nat64_prefixes")),
        ("64:ff9b::8.8.4.4", "public", "range", None),
        ("64:ff9b::10.2.2.3", "private_use", "range", Some("egress.allow")),
        ("64:ff9b::169.254.169.254", "metadata", "range", None),
        ("2002:808:808::1", "six_to_four", "range", None),
        ("2606:4700:808:808:100::", "embeds_ipv4", "nat64", None),
        ("2607::200:5efe:808:808", "isatap", "isatap", None),
        ("::ffff:10.2.2.3", "private_use", "range", Some("egress.allow")),
    ] {
        let told = traced(&[address], policy.clone(), "https://a.example.com/").await;
        let step = &told["steps"][4];
        let seen = (step["class"].as_str(), step["rule"].as_str(), step["opened_by"].as_str());
        assert_eq!(seen, (Some(class), Some(rule), opened_by), "{address}: {told}");
        let allowed = matches!(class, "public" | "admitted");
        assert_eq!(step["result"], if allowed { "allowed" } else { "refused" }, "{address}");
        assert_eq!(told["verdict"], step["result"], "{address}");
    }
}

#[tokio::test]
async fn an_address_in_the_url_is_judged_without_asking_anybody() {
    let server = NameServer::with_addresses(&["8.8.8.8"]).await;
    let told = tracer(Policy::default(), server.resolver()).trace("https://[::ffff:127.0.0.1]:9/x").await;
    assert_eq!((told.verdict, told.code), (Outcome::Refused, Some("literal_forbidden")));
    assert_eq!(told.refused_by, Some("::ffff:127.0.0.1".parse().unwrap()));
    assert_eq!(told.steps.iter().map(|step| step.step).collect::<Vec<_>>(), ["parse", "host", "port", "address"]);
    let told = tracer(Policy::default(), server.resolver()).trace("https://1.1.1.1/").await;
    assert_eq!((told.verdict, told.connects_to), (Outcome::Allowed, vec!["1.1.1.1:443".parse().unwrap()]));
    assert_eq!(server.questions(), 0);
}

#[tokio::test]
async fn a_name_without_an_answer_is_unresolved_and_one_with_too_many_refused() {
    use hickory_server::proto::op::ResponseCode;
    for (answer, outcome, code) in [
        (Answer::Code(ResponseCode::NXDomain), Outcome::Unresolved, "dns_not_found"),
        (Answer::Code(ResponseCode::ServFail), Outcome::Unresolved, "dns_failed"),
        (Answer::Addresses(60, vec![]), Outcome::Unresolved, "dns_no_address"),
        (Answer::Silence, Outcome::Unresolved, "dns_timeout"),
        (
            Answer::Addresses(60, (0..40).map(|last| IpAddr::from([8, 8, 8, last])).collect()),
            Outcome::Refused,
            "dns_too_many_addresses",
        ),
    ] {
        let said = format!("{answer:?}");
        let server = NameServer::start(move |_, _, _| answer.clone()).await;
        let told = tracer(Policy::default(), server.hasty_resolver()).trace("https://a.example.com/").await;
        assert_eq!((told.verdict, told.code), (outcome, Some(code)), "{said}");
        assert_eq!(told.steps.last().map(|step| step.step), Some("dns"));
    }
}

/// The trace goes through the doors of a delivery; this holds the two to one verdict.
#[tokio::test]
async fn a_trace_ends_as_a_delivery_would() {
    let vectors = include_str!("../../../tests/vectors/ssrf-urls.txt");
    let server = NameServer::with_addresses(&["8.8.8.8", "10.0.0.1"]).await;
    let traced = tracer(Policy::default(), server.resolver());
    let mut seen = std::collections::BTreeSet::new();
    for url in vectors.lines().filter(|line| !line.starts_with('#')) {
        let told = traced.trace(url).await;
        let cause = match Destination::parse(url, &traced.rules) {
            Err(error) => Some(blame::url(&error)),
            Ok(destination) => match crate::address::pin(&destination, &traced.policy, &traced.resolver).await {
                Ok(pinned) => {
                    assert_eq!(told.connects_to, pinned.addresses(), "{url}");
                    None
                }
                Err(error) => Some(blame::pin(&error)),
            },
        };
        assert_eq!(told.code, cause.map(Cause::code), "{url}");
        seen.insert(told.code);
    }
    let expected = [None, Some("address_forbidden"), Some("literal_forbidden"), Some("url_refused")];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}
