use serde_json::Value;

use super::*;
use crate::signature::vectors::{cases, read, read_path, shipped, text};

fn parse(url: &str) -> Target {
    Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refusal(url: &str) -> TargetError {
    Target::parse(url).expect_err(url)
}

/// Cases that we end otherwise than the corpus says, each with the reason. There is none.
const DIFFERENCES: [(&str, &str); 0] = [];

fn holds(case: &Value) -> bool {
    let url = text(case, "input_url");
    if case["reject"] == true {
        return Target::parse(url).is_err() && received(url).is_err();
    }
    let expected = (text(case, "expected_target_uri"), text(case, "expected_authority"));
    let sent = Target::parse(url).is_ok_and(|target| (&*target.target_uri, &*target.authority) == expected);
    sent && received(url).is_ok_and(|canonical| (&*canonical.target_uri, &*canonical.authority) == expected)
}

fn judge(document: &Value, least: usize) {
    let cases = cases(document, "cases");
    assert!(cases.len() >= least, "{} cases", cases.len());
    for case in cases {
        let name = text(case, "name");
        let listed = DIFFERENCES.iter().any(|(known, _)| *known == name);
        assert!(holds(case) != listed, "{name}: {case}");
    }
}

#[test]
fn every_published_canonicalisation_case_holds_for_sender_and_receiver() {
    judge(&read("adcp/request-signing/canonicalization.json"), 41);
}

/// Every version of the corpus that the installed SDK ships, so that a newer SDK brings its newer cases with it.
#[test]
fn every_canonicalisation_case_that_the_installed_sdk_ships_holds() {
    let mut versions = Vec::new();
    for (version, directory) in shipped() {
        let path = directory.join("request-signing/canonicalization.json");
        judge(&read_path(&path), 37);
        versions.push((version, path));
    }
    let (newest, path) = versions.pop().expect("the SDK ships the corpora");
    assert!(!versions.is_empty() && newest.as_str() >= "3.2.4", "{newest}");
    let vendored = read("adcp/request-signing/canonicalization.json");
    let known = newest != "3.2.4" || read_path(&path) == vendored;
    assert!(known, "the copy under tests/vectors is not what {newest} ships");
}

/// Stored URL, `@target-uri`, request target: the table of the wire contract, section 3.3.
const RENDERED: [(&str, &str, &str); 17] = [
    ("HTTPS://Buyer.Example.COM:443/Hooks/AdCP", "https://buyer.example.com/Hooks/AdCP", "/Hooks/AdCP"),
    ("https://buyer.example.com", "https://buyer.example.com/", "/"),
    ("https://b.example/p?", "https://b.example/p?", "/p?"),
    ("https://b.example?", "https://b.example/?", "/?"),
    ("https://b.example/p?x=1#frag", "https://b.example/p?x=1", "/p?x=1"),
    ("https://b.example/p#frag?x=1", "https://b.example/p", "/p"),
    (
        "https://b.example/%7euser/%2f%3a%41/%c3%a9?q=%e2%9c%93",
        "https://b.example/~user/%2F%3AA/%C3%A9?q=%e2%9c%93",
        "/%7euser/%2f%3a%41/%c3%a9?q=%e2%9c%93",
    ),
    ("https://b.example/a/./b/../c//d/", "https://b.example/a/c//d/", "/a/c//d/"),
    ("https://b.example/%2e%2e/a", "https://b.example/../a", "/%2e%2e/a"),
    ("https://bücher.example/p", "https://xn--bcher-kva.example/p", "/p"),
    ("https://[2001:DB8:0:0::1]:9443/p", "https://[2001:db8:0:0::1]:9443/p", "/p"),
    ("https://buyer.example.com./p", "https://buyer.example.com/p", "/p"),
    ("https://buyer.example.com:0443/p", "https://buyer.example.com/p", "/p"),
    ("https://buyer.example.com:/p", "https://buyer.example.com/p", "/p"),
    ("https://my_svc.example/p", "https://my_svc.example/p", "/p"),
    ("https://b.example/|\\^'[]", "https://b.example/|\\^'[]", "/|\\^'[]"),
    ("https://b.example/p?/../x", "https://b.example/p?/../x", "/p?/../x"),
];

#[test]
fn stored_urls_are_rendered_as_the_contract_says() {
    for (url, target_uri, request_target) in RENDERED {
        let target = parse(url);
        assert_eq!((target.target_uri.as_str(), target.request_target.as_str()), (target_uri, request_target), "{url}");
    }
}

/// Characters that the reference signs raw and sends encoded, which no receiver can verify: we sign what we send.
const UNSAFE: [(&str, &str); 8] = [
    ("https://b.example/café", "/caf%C3%A9"),
    ("https://b.example/a b", "/a%20b"),
    ("https://b.example/{}`<>\"", "/%7B%7D%60%3C%3E%22"),
    ("https://b.example/?q=\"x\"", "/?q=%22x%22"),
    ("https://b.example/?q=<x> y", "/?q=%3Cx%3E%20y"),
    ("https://b.example/?q={`|}", "/?q={`|}"),
    ("https://b.example/?q=😀", "/?q=%F0%9F%98%80"),
    ("https://b.example/\u{85}", "/%C2%85"),
];

#[test]
fn unsafe_characters_are_encoded_alike_in_what_is_signed_and_what_is_sent() {
    for (url, request_target) in UNSAFE {
        let target = parse(url);
        assert_eq!(target.request_target, request_target);
        assert_eq!(target.target_uri, format!("https://b.example{request_target}"));
    }
}

#[test]
fn a_receiver_rebuilds_from_the_wire_exactly_what_was_signed() {
    let urls = RENDERED.iter().map(|(url, ..)| *url).chain(UNSAFE.iter().map(|(url, _)| *url));
    let odd = [
        "https://b.example/a/..",
        "https://b.example/a/.",
        "https://b.example/..//x",
        "https://b.example/a/b/..",
        "https://b.example/.%2e/x",
        "https://b.example/%zz%4%",
        "https://b.example/%é1",
        "https://b.example/a%2",
        "https://b.example//x//",
        "https://b.example/?%-1",
    ];
    for url in urls.chain(odd) {
        let target = parse(url);
        let on_the_wire = format!("https://{}{}", target.authority, target.request_target);
        let rebuilt = received(&on_the_wire).unwrap();
        assert_eq!((rebuilt.target_uri, rebuilt.authority), (target.target_uri, target.authority), "{url}");
    }
}

#[test]
fn hyper_takes_every_request_target_as_it_is() {
    for url in RENDERED.iter().map(|(url, ..)| *url).chain(UNSAFE.iter().map(|(url, _)| *url)) {
        let target = parse(url);
        let uri: http::Uri = target.request_target.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(uri.path_and_query().unwrap().as_str(), target.request_target, "{url}");
    }
}

/// The reference drops the slash of a trailing dot segment on the wire and keeps it in what it signs.
#[test]
fn a_trailing_dot_segment_keeps_its_slash_on_the_wire() {
    assert_eq!(parse("https://b.example/a/b/..").request_target, "/a/");
    assert_eq!(parse("https://b.example/a/.").request_target, "/a/");
}

/// Python's number parser reads `-1` as two hex digits and the reference then refuses the URL. Here it is what it looks
/// like: a percent sign that begins no escape.
#[test]
fn a_percent_sign_before_anything_but_two_hex_digits_is_left_alone() {
    assert_eq!(parse("https://a.example/%-1").target_uri, "https://a.example/%-1");
    assert_eq!(parse("https://a.example/%+1%_1% 1%").target_uri, "https://a.example/%+1%_1%%201%");
}

#[test]
fn control_characters_are_refused_wherever_they_stand() {
    for c in (0..0x20_u8).chain([0x7f]).map(char::from) {
        for url in
            [format!("{c}https://b.example/"), format!("https://b{c}.example/"), format!("https://b.example/{c}")]
        {
            assert_eq!(refusal(&url), TargetError::ControlCharacter, "{c:?}");
            assert!(received(&url).is_err());
        }
        assert_eq!(refusal(&format!("https://b.example/p#{c}")), TargetError::ControlCharacter);
    }
}

#[test]
fn urls_are_measured_in_characters() {
    let fits = format!("https://b.example/{}", "é".repeat(2030));
    assert_eq!(fits.chars().count(), 2048);
    assert!(Target::parse(&fits).is_ok());
    assert_eq!(refusal(&format!("{fits}e")), TargetError::TooLong);
}

#[test]
fn authorities_that_parsers_read_differently_are_refused() {
    let refused = [
        ("ftp://b.example/", TargetError::Scheme),
        (" https://b.example/", TargetError::Scheme),
        ("//b.example/", TargetError::Scheme),
        ("b.example", TargetError::Scheme),
        ("https:b.example/", TargetError::NoHost),
        ("https:/b.example/", TargetError::NoHost),
        ("https:///p", TargetError::NoHost),
        ("https://user@/p", TargetError::NoHost),
        ("https://:443/p", TargetError::NoHost),
        ("https://?x", TargetError::NoHost),
        ("https://./p", TargetError::EmptyLabel),
        ("https://a..b/p", TargetError::EmptyLabel),
        ("https://.a/p", TargetError::EmptyLabel),
        ("https://[::1/p", TargetError::Brackets),
        ("https://[::1]x/p", TargetError::Brackets),
        ("https://[::g]/p", TargetError::Brackets),
        ("https://[v1.x]/p", TargetError::Brackets),
        ("https://fe80::1/p", TargetError::Brackets),
        ("https://b.example:1:2/p", TargetError::Brackets),
        ("https://[fe80::1%25eth0]/p", TargetError::Zone),
        ("https://b.example:-1/p", TargetError::Port),
        ("https://b.example:8_0/p", TargetError::Port),
        ("https://b.example:65536/p", TargetError::Port),
        ("https://b.example:٨٠/p", TargetError::Port),
        ("https://ex%61mple.com/p", TargetError::Host),
        ("https://b.example\\.evil/p", TargetError::Host),
        ("https://b example/p", TargetError::Host),
        ("https://bü_cher.example/p", TargetError::Host),
        ("https://-bü.example/p", TargetError::Host),
    ];
    for (url, error) in refused {
        assert_eq!(refusal(url), error, "{url}");
    }
}

#[test]
fn international_names_are_mapped_without_transition() {
    for (url, host) in [
        ("https://straße.de/p", "xn--strae-oqa.de"),
        ("https://BÜCHER.example./p", "xn--bcher-kva.example"),
        ("https://ｂ.example/p", "b.example"),
        ("https://☃.example/p", "xn--n3h.example"),
    ] {
        assert_eq!(parse(url).host(), host);
    }
}

#[test]
fn host_and_port_can_be_compared_with_what_another_parser_reads() {
    let target = parse("https://user:pass@[2001:DB8::1]:8443/p");
    assert_eq!((target.host(), target.port()), ("[2001:db8::1]", Some(8443)));
    let target = parse("http://127.0.0.1.:80/");
    assert_eq!((target.host(), target.port()), ("127.0.0.1", None));
    // The URL standard ends the authority at the backslash; this text does not.
    assert_eq!(parse("https://a.example/\\@b.example/").host(), "a.example");
    assert_eq!(refusal("https://a.example\\b.example/"), TargetError::Host);
    assert_eq!(parse("https://a.example\\@b.example/").host(), "b.example");
}
