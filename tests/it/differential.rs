//! The same strings to the SDK and to outboxd: URLs must be judged alike, or more strictly by a listed rule, and rows bound
//! to the same bytes. Everything is generated from fixed seeds, so that a difference comes back.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::config::{Config, text};
use crate::support::dns::Dns;
use crate::support::peer::Peer;
use crate::support::seal::{Draft, EnvelopeKey, quote};
use crate::support::tool::outboxd;

const STRINGS: usize = 10_000;

/// What every name resolves to, for both.
const ANSWERS: [&str; 2] = ["93.184.216.34", "2606:4700::1111"];

/// splitmix64: all that is needed of a generator is that it is the same everywhere.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        // Tests run on 64 bits; a slight bias harms nothing.
        (self.next() % bound as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// URLs as buyers write them, so that mutations start from what both accept, too.
const PLAIN: [&str; 34] = [
    "https://hooks.buyer.example/adcp",
    "https://hooks.buyer.example:8443/adcp?tenant=7",
    "https://HOOKS.Buyer.Example/",
    "https://a.b.c.buyer.example./x",
    "https://xn--bcher-kva.example/p",
    "https://b\u{fc}cher.example/p",
    "https://fa\u{df}.example/",
    "https://\u{65e5}\u{672c}.example/",
    "https://1.1.1.1/",
    "https://8.8.8.8:9443/x",
    "https://[2606:4700::1111]/",
    "https://[2606:4700:0:0::1111]:8443/x",
    "https://10.0.0.1/",
    "https://127.0.0.1:8080/",
    "https://169.254.169.254/latest",
    "https://[::1]/",
    "https://[fd00::1]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[2002:808:808::1]/",
    "https://[64:ff9b::8.8.8.8]/",
    "https://under_score.buyer.example/",
    "https://buyer.example/%7euser/%2e%2e?q=%c3%a9",
    "https://localhost/",
    "https://u:p@buyer.example/",
    "https://buyer.example/hooks/9f3c?x=1&y=%20",
    "https://buyer.example#top",
    "https://buyer.co.uk:9443/",
    "https://a1-b2.buyer.example/adcp/v3",
    "https://[fec0::1]/",
    "https://[3fff::1]/",
    "https://[2620:4f:8000::1]/",
    "https://[2606:4700::5efe:7f00:1]/",
    "https://192.0.0.9/",
    "https://168.63.129.16/",
];

fn corpus() -> Vec<String> {
    let mut all: Vec<String> = PLAIN.iter().map(ToString::to_string).collect();
    let listed = include_str!("../vectors/ssrf-urls.txt").lines().filter(|line| !line.starts_with('#'));
    all.extend(listed.map(str::to_string));
    let cases = |text: &str| serde_json::from_str::<Vec<Value>>(text).expect("the vectors are JSON");
    for case in cases(include_str!("../vectors/wpt/urltestdata.json")) {
        let input = case["input"].as_str().expect("every case has one");
        all.push(input.to_string());
        all.extend(input.split_once("://").map(|(_, rest)| format!("https://{rest}")));
    }
    for case in cases(include_str!("../vectors/wpt/toascii.json")) {
        all.push(format!("https://{}.example/", case["input"].as_str().expect("every case has one")));
    }
    all
}

const NASTY: [&str; 64] = [
    "a",
    "Z",
    "0",
    "9",
    ".",
    "..",
    "-",
    "--",
    "_",
    "~",
    ":",
    ":0",
    ":443",
    ":65536",
    ":8443",
    "/",
    "//",
    "?",
    "#",
    "#f",
    "@",
    "u@",
    "u:p@",
    "[",
    "]",
    "[::1]",
    "%",
    "%2e",
    "%00",
    "%41",
    "%zz",
    "\\",
    "\t",
    "\u{b}",
    "\u{0}",
    "\u{1f}",
    "\u{7f}",
    " ",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{3002}",
    "\u{ff0e}",
    "\u{ff11}",
    "\u{df}",
    "\u{fc}",
    "\u{130}",
    "\u{2603}",
    "\u{1f600}",
    "\u{5d0}",
    "\u{627}",
    "xn--",
    "xn--a",
    "0x",
    "0x7f",
    "127.0.0.1",
    "10.0.0.1",
    "localhost",
    ".internal",
    "&",
    "!",
    "$",
    "(",
];

fn urls() -> Vec<String> {
    let (corpus, mut seeded, mut all) = (corpus(), Seeded(0x6f75_7462_6f78_6400), Vec::new());
    while all.len() < STRINGS {
        // Most of them begin with what buyers write.
        let from_plain = seeded.below(3) != 0;
        let mut chars: Vec<char> =
            if from_plain { seeded.pick(&PLAIN).chars().collect() } else { seeded.pick(&corpus).chars().collect() };
        for _ in 0..seeded.below(4) {
            // Most mutations hit the authority, which is what the two may read differently.
            let end = if seeded.below(4) == 0 { chars.len() } else { chars.len().min(30) };
            let at = seeded.below(end.max(1)).min(chars.len());
            match seeded.below(6) {
                0 | 1 => {
                    let piece: Vec<char> = seeded.pick(&NASTY).chars().collect();
                    chars.splice(at..at, piece);
                }
                2 if at < chars.len() => drop(chars.remove(at)),
                3 if at < chars.len() => {
                    let piece: Vec<char> = seeded.pick(&NASTY).chars().collect();
                    chars.splice(at..=at, piece);
                }
                4 => {
                    let other: Vec<char> = seeded.pick(&corpus).chars().collect();
                    let from = seeded.below(other.len().max(1)).min(other.len());
                    chars.truncate(at);
                    chars.extend(&other[from..]);
                }
                _ if at < chars.len() => {
                    let c = chars[at];
                    chars[at] = if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
                }
                _ => {}
            }
        }
        let url: String = chars.into_iter().collect();
        // The batch is read line by line; both refuse the two that end a line, as other tests show.
        if !url.is_empty() && !url.contains(['\n', '\r']) {
            all.push(url);
        }
    }
    all
}

/// Where we refuse what the SDK accepts: the rule or class by its stable code, and why.
const STRICTER: [(&str, &str); 13] = [
    (
        "ambiguous_host",
        "a number that is not a plain IPv4 address: getaddrinfo reads it as one, the signature does not",
    ),
    (
        "authority_character",
        "spaces, escapes and backslashes in an authority name different hosts to different parsers",
    ),
    ("host", "labels that no certificate can name, or empty ones"),
    ("host_spelling", "a host that shows one name and means another"),
    ("port", "nothing listens on port 0"),
    ("special_use_name", "names that the public DNS does not serve; the SDK leaves them to the resolver's search list"),
    ("documentation", "3fff::/20, which the SDK's interpreter does not know"),
    ("isatap", "an IPv4 address inside, which no flag of the interpreter sees"),
    ("metadata", "168.63.129.16, which is in public space"),
    ("name_service_sink", "2620:4f:8000::/48, which no flag covers"),
    ("protocol_assignments", "192.0.0.0/24 whole, of which the interpreter calls parts global"),
    ("site_local", "fec0::/10, which the interpreter calls global"),
    ("six_to_four", "2002::/16, which interpreters before 3.13 call global"),
];

/// Of these the SDK's interpreter decides whether they occur.
const ADDRESS_CLASSES: [&str; 7] =
    ["documentation", "isatap", "metadata", "name_service_sink", "protocol_assignments", "site_local", "six_to_four"];

/// Where we accept what the SDK refuses. None reaches an address that is refused otherwise; each is decided so:
const WIDER: [(&str, &str); 2] = [
    ("fragment", "the SDK differs from itself: its optional check refuses it, its outbox stores and delivers it"),
    ("symbols", "symbols that UTS 46 maps and IDNA 2008 forbids; such names are registered and have certificates (A6)"),
];

/// The decision by which the SDK's reason is not ours; what fits none keeps its reason, and is not listed.
fn decision(reason: &str, host: &str) -> String {
    let decided = match reason {
        "fragment_not_allowed" => Some("fragment"),
        "ssrf_idna" if host.split('.').any(|label| label.starts_with("xn--")) => Some("symbols"),
        _ => None,
    };
    decided.unwrap_or(reason).to_string()
}

async fn ours(urls: &[String]) -> Vec<Value> {
    let dns = Dns::start().await;
    dns.set_all(&ANSWERS);
    let config = Config::empty().set("egress.dns_servers", vec![dns.address.to_string()]);
    let done = outboxd(&config, &["check-url", "-", "--json"], urls.join("\n")).await;
    let told: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(told.len(), urls.len(), "{}", done.stderr);
    told
}

/// The step that refused, by its stable code: a rule for URLs, or the class of an address.
fn rule(told: &Value) -> String {
    let steps = told["steps"].as_array().expect("there are steps");
    let refused = steps.iter().find(|step| step["result"] != "ok" && step["result"] != "allowed");
    let refused = refused.unwrap_or_else(|| panic!("nothing refused: {told}"));
    let code = if refused["step"] == "address" { &refused["class"] } else { &refused["rule"] };
    code.as_str().unwrap_or_else(|| told["code"].as_str().expect("what is refused has a code")).to_string()
}

/// The SDK keeps an IPv4-mapped address as it is, and writes IPv6 as Python does; the addresses are what counts.
fn same_host(sdk: &str, ours: &str) -> bool {
    match (sdk.parse::<std::net::IpAddr>(), ours.parse::<std::net::IpAddr>()) {
        (Ok(sdk), Ok(ours)) => sdk == ours,
        _ => sdk == ours,
    }
}

#[tokio::test]
async fn ten_thousand_urls_are_judged_as_the_sdk_judges_them_or_more_strictly_by_a_listed_rule() {
    let urls = urls();
    let oracle = Peer::oracle().await;
    let theirs = oracle.call("judge", json!({"urls": urls, "answers": ANSWERS}));
    let (theirs, ours) = tokio::join!(theirs, ours(&urls));
    let theirs = theirs.as_array().expect("a list").clone();
    let (mut both_accept, mut both_refuse) = (0, 0);
    let (mut stricter, mut wider) = (BTreeMap::<String, Vec<&str>>::new(), BTreeMap::<String, Vec<&str>>::new());
    for ((url, theirs), ours) in urls.iter().zip(&theirs).zip(&ours) {
        match (theirs["refused"].as_str(), ours["verdict"] == "allowed") {
            (None, true) => {
                both_accept += 1;
                let (sdk, us) = (theirs["host"].as_str(), ours["host"].as_str());
                assert!(same_host(sdk.unwrap_or_default(), us.unwrap_or_default()), "{url:?}: {sdk:?}, {us:?}");
                assert_eq!(theirs["port"], ours["port"], "{url:?}");
            }
            (Some(_), false) => both_refuse += 1,
            (None, false) => stricter.entry(rule(ours)).or_default().push(url),
            (Some(reason), true) => {
                let host = ours["host"].as_str().expect("what is accepted has a host");
                wider.entry(decision(reason, host)).or_default().push(url);
            }
        }
    }
    let count = |rules: &BTreeMap<String, Vec<&str>>| -> BTreeMap<String, usize> {
        rules.iter().map(|(rule, urls)| (rule.clone(), urls.len())).collect()
    };
    println!("both accept {both_accept}, both refuse {both_refuse}; {:?}; {:?}", count(&stricter), count(&wider));
    assert!(both_accept > 1_500 && both_refuse > 3_000, "{both_accept} accepted, {both_refuse} refused by both");
    for (name, listed, found) in [("stricter", &STRICTER[..], &stricter), ("wider", &WIDER[..], &wider)] {
        for (rule, urls) in found {
            let is_listed = listed.iter().any(|(known, _)| known == rule);
            assert!(is_listed, "{name} by {rule}, which is not listed: {:?}", &urls[..urls.len().min(20)]);
        }
        for (rule, _) in listed {
            let occurs = found.contains_key(*rule) || ADDRESS_CLASSES.contains(rule);
            assert!(occurs, "{name} by {rule} is listed and does not occur");
        }
    }
}

/// Characters that JSON writers escape differently, or that normalisation, case or width would change.
const ODD: [&str; 39] = [
    "a",
    "Z",
    "0",
    " ",
    "\"",
    "\\",
    "/",
    "\u{1}",
    "\u{8}",
    "\t",
    "\n",
    "\u{b}",
    "\u{c}",
    "\r",
    "\u{1f}",
    "\u{7f}",
    "\u{80}",
    "\u{85}",
    "\u{9f}",
    "\u{a0}",
    "\u{e9}",
    "e\u{301}",
    "\u{df}",
    "\u{131}",
    "\u{200d}",
    "\u{2028}",
    "\u{2029}",
    "\u{202e}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{feff}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{10000}",
    "\u{1f600}",
    "\u{10ffff}",
    "<",
    "\\u00e9",
    "\u{1d11e}",
];

fn odd(seeded: &mut Seeded, least: usize) -> String {
    let length = least + seeded.below(9);
    (0..length).map(|_| *seeded.pick(&ODD)).collect()
}

/// A delivery, without scope or with one, or a registration.
fn row(seeded: &mut Seeded) -> Draft {
    let mut draft = Draft::to(format!("https://buyer.example/{}", odd(seeded, 0)));
    draft.account_id = odd(seeded, 0);
    draft.task_id = odd(seeded, 1);
    draft.task_type = odd(seeded, 0);
    draft.terminal_status = odd(seeded, 0);
    draft.operation_id = odd(seeded, 0);
    draft.idempotency_key = odd(seeded, 1);
    draft.signing_scope_id = (seeded.below(2) == 0).then(|| odd(seeded, 0));
    draft
}

/// The SDK binds each row to bytes of its own making; they are ours where our key opens what it sealed.
#[tokio::test]
async fn ten_thousand_rows_are_bound_to_the_bytes_that_the_sdk_binds_them_to() {
    let (mut seeded, key) = (Seeded(0x6161_6420_6161_6420), EnvelopeKey::new());
    let mut rows = Vec::new();
    let mut expected = Vec::new();
    for index in 0..STRINGS {
        let draft = row(&mut seeded);
        let kind = if index % 4 == 3 { "registration" } else { "delivery" };
        expected.push(match kind {
            "registration" => {
                let fields = ["task-webhook-registration-v1", &draft.account_id, &draft.task_id, &draft.task_type];
                format!("[{}]", fields.map(quote).join(",")).into_bytes()
            }
            _ => draft.aad(),
        });
        rows.push(json!({
            "kind": kind, "account_id": draft.account_id, "task_id": draft.task_id, "task_type": draft.task_type,
            "terminal_status": draft.terminal_status, "url": draft.url, "operation_id": draft.operation_id,
            "idempotency_key": draft.idempotency_key, "signing_scope_id": draft.signing_scope_id,
            "plaintext": STANDARD.encode(draft.body()),
        }));
    }
    let oracle = Peer::oracle().await;
    let bound = oracle.call("bind", json!({"rows": rows})).await;
    for (index, (theirs, expected)) in bound.as_array().expect("a list").iter().zip(&expected).enumerate() {
        let theirs = STANDARD.decode(theirs.as_str().expect("base64")).expect("base64");
        assert_eq!(String::from_utf8_lossy(&theirs), String::from_utf8_lossy(expected), "row {index}");
    }
    let sealed = oracle.call("seal", json!({"rows": rows, "key": key.hex()})).await;
    for (row, sealed) in rows.iter_mut().zip(sealed.as_array().expect("a list")) {
        let row = row.as_object_mut().expect("it is an object");
        row.remove("plaintext");
        row.extend(sealed.as_object().expect("it is an object").clone());
    }
    let config = Config::empty();
    let file = config.file("envelope.key", key.hex());
    let config = config.set("envelope.key_files", vec![text(&file)]);
    let input: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let done = outboxd(&config, &["open"], input).await;
    let mut kinds = HashMap::<String, usize>::new();
    let told: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(told.len(), STRINGS, "{}", done.stderr);
    for (told, row) in told.iter().zip(&rows) {
        assert_eq!(told["opens"], true, "{row}\n{told}");
        *kinds.entry(told["kind"].as_str().expect("a kind").to_string()).or_default() += 1;
    }
    assert_eq!(kinds, HashMap::from([("delivery".to_string(), 7_500), ("registration".to_string(), 2_500)]));
    // One other character in one column, and nothing opens.
    let mut spoilt = rows[0].clone();
    spoilt["operation_id"] = format!("{}e\u{301}", spoilt["operation_id"].as_str().unwrap_or_default()).into();
    let done = outboxd(&config, &["open"], format!("{spoilt}\n")).await;
    assert!(done.stdout.contains("\"opens\":false"), "{done:?}");
}
