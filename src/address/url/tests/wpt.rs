//! The web platform's tests of URLs and of domain names, as far as they speak of hosts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

fn cases(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/vectors/wpt/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text<'a>(case: &'a Value, member: &str) -> &'a str {
    case[member].as_str().unwrap_or_else(|| panic!("no {member} in {case}"))
}

/// The schemes whose hosts the URL standard reads as domains or addresses.
const SPECIAL: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// The same text under our scheme. The standard takes any number of slashes, and either kind, after a special scheme;
/// where there are not exactly two the text stays as it is, and is refused for its scheme.
fn rebased(input: &str) -> Option<String> {
    let (scheme, rest) = input.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (!scheme.is_empty() && scheme.chars().all(plain)).then(|| format!("https://{rest}"))
}

fn is_special(input: &str) -> bool {
    input.split_once(':').is_some_and(|(scheme, _)| SPECIAL.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// Why we refuse what the standard accepts: each rule by its code, with the number of cases that it decides.
fn refusals(of: impl IntoIterator<Item = UrlError>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for error in of {
        *counts.entry(error.code()).or_default() += 1;
    }
    counts
}

const SPELLING: &str = "the mapping folds or drops characters: the text shows one name and means another";

/// What we refuse of the URLs that the standard accepts: the rule, how many it decides, and why it is right.
const STRICTER_URLS: [(&str, usize, &str); 7] = [
    (
        "ambiguous_host",
        11,
        "a number that is not a plain IPv4 address means another host to resolvers and to the signature",
    ),
    ("authority_character", 8, "escapes and backslashes in an authority are read differently by parsers of RFC 3986"),
    ("control_character", 14, "the standard drops them, so that the text would not be the one that was signed"),
    ("host", 5, "labels that no certificate can name, or empty ones"),
    ("host_spelling", 3, SPELLING),
    ("port", 2, "nothing listens on port 0"),
    ("user_info", 19, "credentials belong into the registration; what stands before an @ is there to mislead"),
];

/// The same for domain names, each of which is tried twice: as it is, and under another label.
const STRICTER_NAMES: [(&str, usize, &str); 2] = [
    ("host_spelling", 34, SPELLING),
    (
        "host",
        46,
        "labels that are empty or longer than DNS allows, or that hold underscores, begin or end with a hyphen or have two in \
         the third and fourth place: the strict mapping, and the SDK, refuse them",
    ),
];

/// Our host in the standard's spelling.
fn host(destination: &Destination) -> String {
    match &destination.place {
        Place::Literal(IpAddr::V6(address)) => format!("[{address}]"),
        _ => destination.host(),
    }
}

/// Everything that the default rules shut for a reason of their own is open: special names by their pattern.
fn open_rules(hostname: &str) -> UrlRules {
    UrlRules::new(hostname.parse().into_iter().collect(), Vec::new())
}

#[test]
fn every_url_that_the_standard_fails_is_refused() {
    let cases = cases("urltestdata.json");
    let (mut as_is, mut as_https) = (0, 0);
    for case in cases.iter().filter(|case| case["failure"] == true) {
        let input = text(case, "input");
        assert!(parse(input).is_err(), "{input:?}");
        as_is += 1;
        // With a base an input may be a path; what we are given never is.
        if let Some(https) = rebased(input) {
            let known = Destination::parse(&https, &open_rules("localhost"));
            assert!(known.is_err(), "{https:?}, from {input:?}");
            as_https += 1;
        }
    }
    assert_eq!((as_is, as_https), (272, 244));
}

#[test]
fn every_host_that_the_standard_reads_is_ours_or_refused_by_a_named_rule() {
    let cases = cases("urltestdata.json");
    let (mut equal, mut refused) = (0, Vec::new());
    for case in cases.iter().filter(|case| case["failure"] != true) {
        let input = text(case, "input");
        let special = is_special(input);
        let (Some(https), true) = (rebased(input), special) else {
            // Not ours to read: another scheme, or none.
            assert!(parse(input).is_err(), "{input:?}");
            continue;
        };
        // Rebasing changes nothing about the host but only whether a port is the scheme's own.
        let hostname = text(case, "hostname");
        match Destination::parse(&https, &open_rules(hostname)) {
            Ok(destination) => {
                equal += 1;
                assert_eq!(host(&destination), hostname.strip_suffix('.').unwrap_or(hostname), "{input:?}");
                if text(case, "protocol") == "https:" {
                    let port: u16 = text(case, "port").parse().unwrap_or(HTTPS_PORT);
                    assert_eq!(destination.port(), port, "{input:?}");
                }
            }
            Err(error) => refused.push(error),
        }
    }
    let refused = refusals(refused);
    assert_eq!((equal, refused), (102, BTreeMap::from(STRICTER_URLS.map(|(code, count, _)| (code, count)))));
}

#[test]
fn what_the_standard_reads_into_a_host_is_never_read_otherwise_by_us() {
    // Without any rebasing: whatever we accept has the standard's host.
    for case in cases("urltestdata.json").iter().filter(|case| case["failure"] != true && case["base"].is_null()) {
        if let Ok(destination) = parse(text(case, "input")) {
            assert_eq!(host(&destination), text(case, "hostname").trim_end_matches('.'), "{case}");
        }
    }
}

#[test]
fn every_domain_maps_to_the_standards_a_labels_or_is_refused() {
    let (mut equal, mut failures, mut refused) = (0, 0, Vec::new());
    for case in cases("toascii.json") {
        let input = text(&case, "input");
        // Under a name, so that no label is alone, which has a rule of its own.
        for (suffix, rules) in
            [("", open_rules(case["output"].as_str().unwrap_or("x"))), (".example", UrlRules::default())]
        {
            let url = format!("https://{input}{suffix}/");
            let parsed = Destination::parse(&url, &rules);
            match (case["output"].as_str(), parsed) {
                (None, parsed) => {
                    assert!(parsed.is_err(), "{url:?}");
                    failures += 1;
                }
                (Some(output), Ok(destination)) => {
                    assert_eq!(host(&destination), format!("{output}{suffix}"), "{url:?}");
                    equal += 1;
                }
                (Some(output), Err(error)) => {
                    // Refused for how it is written; it would be read as the standard reads it.
                    if error == UrlError::HostSpelling {
                        assert_eq!(
                            Url::parse(&url).unwrap().host_str(),
                            Some(&*format!("{output}{suffix}")),
                            "{url:?}"
                        );
                    }
                    refused.push(error);
                }
            }
        }
    }
    let refused = refusals(refused);
    let listed = BTreeMap::from(STRICTER_NAMES.map(|(code, count, _)| (code, count)));
    assert_eq!((equal, failures, refused), (42, 70, listed));
}

/// The operator's rules over the same corpus: they open special names and narrow ports, and do nothing else.
#[test]
fn rules_open_names_and_narrow_ports_and_nothing_else() {
    let (mut opened, mut narrowed) = (0, 0);
    for case in cases("urltestdata.json") {
        let Some(https) = rebased(text(&case, "input")) else { continue };
        let plain = parse(&https);
        let hostname = case["hostname"].as_str().unwrap_or("localhost");
        let open = Destination::parse(&https, &open_rules(hostname));
        match (&plain, &open) {
            (Err(UrlError::SpecialUseName), Ok(_)) => opened += 1,
            (Ok(one), Ok(other)) => assert_eq!(one.origin(), other.origin()),
            _ => assert_eq!(plain.as_ref().err(), open.as_ref().err(), "{https:?}"),
        }
        let narrow = Destination::parse(&https, &rules(&[], &[443]));
        match &plain {
            Ok(destination) if destination.port() != 443 => {
                assert_eq!(narrow.err(), Some(UrlError::PortNotAllowed), "{https:?}");
                narrowed += 1;
            }
            Ok(_) => assert!(narrow.is_ok(), "{https:?}"),
            Err(error) => assert_eq!(narrow.as_ref().err(), Some(error), "{https:?}"),
        }
    }
    assert!(opened > 20 && narrowed > 5, "{opened} opened, {narrowed} narrowed");
}
