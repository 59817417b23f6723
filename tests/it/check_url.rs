//! `outboxd check-url`: what an operator is told about a URL, and what never leaves or is repeated.

use serde_json::{Value, json};

use crate::support::config::Config;
use crate::support::dns::Dns;
use crate::support::tool::{Done, outboxd};

async fn dns() -> (Dns, Config) {
    let dns = Dns::start().await;
    dns.set("good.example.com", &["93.184.216.34", "2606:4700::1111"]);
    dns.set("mixed.example.com", &["93.184.216.34", "10.0.0.7", "2606:4700::1111"]);
    dns.set("own.example.com", &["127.0.0.1"]);
    dns.set("translated.example.com", &["64:ff9b::808:808"]);
    let config = Config::empty().set("egress.dns_servers", vec![dns.address.to_string()]);
    (dns, config)
}

async fn check(config: &Config, arguments: &[&str]) -> Done {
    outboxd(config, &[&["check-url"], arguments].concat(), "").await
}

#[tokio::test]
async fn a_good_url_is_told_step_by_step() {
    let (_dns, config) = dns().await;
    let done = check(&config, &["https://good.example.com:8443/hooks/s3cret?s3cret#s3cret"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let expected = "\
parse    ok         https://good.example.com:8443
host     ok         a name, good.example.com
port     ok         8443
dns      ok         2 addresses (egress.dns_servers)
address  allowed    93.184.216.34: public (0.0.0.0/0, IANA IPv4 address space)
address  allowed    2606:4700::1111: public (2000::/3, RFC 4291, global unicast)
verdict  allowed    would connect to 93.184.216.34:8443, then [2606:4700::1111]:8443
";
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), (expected, ""));
}

#[tokio::test]
async fn the_address_that_refuses_the_lot_is_named_and_explained() {
    let (_dns, config) = dns().await;
    let done = check(&config, &["https://mixed.example.com/s3cret", "--explain"]).await;
    let expected = "\
parse    ok         https://mixed.example.com:443
host     ok         a name, mixed.example.com
port     ok         443
dns      ok         3 addresses (egress.dns_servers)
address  allowed    93.184.216.34: public (0.0.0.0/0, IANA IPv4 address space)
address  allowed    2606:4700::1111: public (2000::/3, RFC 4291, global unicast)
address  refused    10.0.0.7: private use (10.0.0.0/8, RFC 1918)
                    it leads into the operator's own network, where a stranger's URL has no business
                    what could let it pass: egress.allow
verdict  refused    address_forbidden: 10.0.0.7 refuses the name, and all other addresses with it
                    The host name resolves to an address that the egress policy refuses.
                    a row with this URL is retried seldom; who can mend it: receiver
";
    assert_eq!((done.code, done.stdout.as_str()), (Some(65), expected));
    assert_eq!(done.stderr, "outboxd: refused: address_forbidden\n");
}

#[tokio::test]
async fn the_exit_code_tells_refused_from_not_looked_up() {
    let (_dns, config) = dns().await;
    let narrow = config.clone().set("egress.ports", vec![443]);
    let no_server = Config::empty().set("egress.dns_servers", vec!["127.0.0.1:1"]);
    for (config, url, code, last) in [
        (&config, "https://good.example.com/", 0, "allowed"),
        (&config, "https://169.254.169.254/latest/meta-data/", 65, "literal_forbidden"),
        (&config, "https://[::1]/", 65, "literal_forbidden"),
        (&config, "http://good.example.com/", 65, "url_refused"),
        (&config, "https://u:p@good.example.com/", 65, "url_refused"),
        (&config, "https://localhost/", 65, "url_refused"),
        (&narrow, "https://good.example.com:8443/", 65, "url_refused"),
        (&config, "https://absent.example.com/", 69, "dns_not_found"),
        (&no_server, "https://good.example.com/", 69, "dns_"),
    ] {
        let done = check(config, &[url]).await;
        assert_eq!(done.code, Some(code), "{url}: {done:?}");
        assert!(done.stdout.lines().last().is_some_and(|line| line.contains(last)), "{url}: {done:?}");
    }
}

#[tokio::test]
async fn settings_that_open_an_address_are_obeyed_and_told() {
    let (_dns, config) = dns().await;
    let url = "https://own.example.com/";
    assert_eq!(check(&config, &[url]).await.code, Some(65));
    let opened = check(&config.clone().set("egress.allow", vec!["127.0.0.0/8"]), &[url]).await;
    assert_eq!(opened.code, Some(0));
    assert!(opened.stdout.contains("127.0.0.1: admitted by configuration (127.0.0.0/8, egress.allow)"), "{opened:?}");
    let url = "https://translated.example.com/";
    let shut = check(&config, &[url, "--explain"]).await;
    assert_eq!(shut.code, Some(65));
    assert!(shut.stdout.contains("what could let it pass: egress.nat64_prefixes"), "{shut:?}");
    let opened = check(&config.set("egress.nat64_prefixes", vec!["64:ff9b::/96"]), &[url]).await;
    assert_eq!(opened.code, Some(0));
    assert!(opened.stdout.contains("64:ff9b::808:808: carries 8.8.8.8: public (0.0.0.0/0"), "{opened:?}");
    assert!(opened.stdout.contains("would connect to [64:ff9b::808:808]:443"), "{opened:?}");
}

#[tokio::test]
async fn a_prefix_that_cannot_be_one_is_refused_by_its_key() {
    for prefix in ["10.0.0.0/8", "64:ff9b::/95", "64:ff9b::1/96", "fd64:0:0:0:100::/96", "2002:808:808::/48"] {
        let config = Config::empty().set("egress.nat64_prefixes", vec![prefix]);
        let done = check(&config, &["https://1.1.1.1/"]).await;
        assert_eq!(done.code, Some(78), "{prefix}: {done:?}");
        assert!(done.stderr.contains("egress.nat64_prefixes"), "{done:?}");
    }
}

#[tokio::test]
async fn many_urls_are_told_in_their_order_as_json() {
    let (_dns, config) = dns().await;
    let urls =
        "https://mixed.example.com/a\n\nhttps://good.example.com/b\nftp://s3cret/\nhttps://absent.example.com/c\n";
    let done = outboxd(&config, &["check-url", "-", "--json"], urls).await;
    assert_eq!(done.code, Some(65), "{done:?}");
    assert_eq!(done.stderr, "outboxd: 1 allowed, 2 refused, 1 unresolved\n");
    let told: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    let brief: Vec<Value> =
        told.iter().map(|told| json!([told["line"], told["verdict"], told["code"], told["host"]])).collect();
    let expected = [
        json!([1, "refused", "address_forbidden", "mixed.example.com"]),
        json!([3, "allowed", null, "good.example.com"]),
        json!([4, "refused", "url_refused", null]),
        json!([5, "unresolved", "dns_not_found", "absent.example.com"]),
    ];
    assert_eq!(brief, expected);
    let only_unresolved = outboxd(&config, &["check-url", "-"], "https://absent.example.com/c\n").await;
    assert_eq!(only_unresolved.code, Some(69), "{only_unresolved:?}");
    assert!(only_unresolved.stdout.starts_with("line 1\nparse    ok"), "{only_unresolved:?}");
    assert_eq!(outboxd(&config, &["check-url", "-"], "https://good.example.com/\n").await.code, Some(0));
}

#[tokio::test]
async fn nothing_of_the_url_is_repeated_but_scheme_host_and_port() {
    let (_dns, config) = dns().await;
    let mut hostile: Vec<String> = vec![
        "https://s3cret:s3cret@good.example.com/s3cret?s3cret#s3cret".into(),
        "https://good.example.com/s3cret?s3cret#s3cret".into(),
        "https://mixed.example.com/s3cret?s3cret#s3cret".into(),
        "https://good.example.com:s3cret/".into(),
        "https://good.example.com\\s3cret@/".into(),
        "s3cret://good.example.com/".into(),
        format!("https://good.example.com/s3cret{}", "s3cret".repeat(400)),
    ];
    hostile.push("https://good.example.com/s3cret\u{1}".into());
    for url in hostile {
        for flags in [&["--explain"][..], &["--json"]] {
            let done = check(&config, &[&[url.as_str()], flags].concat()).await;
            assert!(!done.stdout.contains("s3cret") && !done.stderr.contains("s3cret"), "{url}: {done:?}");
        }
    }
}
