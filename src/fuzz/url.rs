//! What must hold of every URL that the rules let pass: all parsers agree on host and port, no address that is not public
//! gets by, and the receiver can rebuild what was signed from what is sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

use ::url::{Host, Url};
use bytes::Bytes;
use http::header::HOST;
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::address::{Destination, Nat64Prefix, Policy, UrlRules, judge_literal};
use crate::signature::verify::{Knowledge, Received, Revocation, verify};
use crate::signature::{Moment, Scheme, SigningKey, sign};

const MOMENT: Moment = Moment { unix_seconds: 1_767_322_800, nonce: [7; 16] };

/// One that carries the IPv4 address at its end, and one around the octet that must be zero.
const TRANSLATED: [&str; 2] = ["64:ff9b::/96", "2600:1:2::/48"];
const OWN: [Ipv4Addr; 1] = [Ipv4Addr::new(1, 1, 1, 1)];

struct Fixed {
    strict: UrlRules,
    open: UrlRules,
    policy: Policy,
    /// Admits whatever an operator can admit.
    admitting: Policy,
    /// With translators, and on a machine that has addresses of its own.
    translating: Policy,
    key: SigningKey,
    jwks: Value,
}

static FIXED: LazyLock<Fixed> = LazyLock::new(|| {
    let everything = ["0.0.0.0/0", "::/0"].map(|net| net.parse().expect("a network"));
    let patterns = ["*.internal", "*.localhost", "localhost", "*.test"].map(|host| host.parse().expect("a pattern"));
    let prefixes = TRANSLATED.map(|net| net.parse::<IpNet>().expect("a network"));
    let prefixes = prefixes.map(|net| Nat64Prefix::try_from(net).expect("of a length that translators have"));
    let pem = include_bytes!("../../tests/vectors/keys/ed25519.pem");
    let key = SigningKey::from_pem(pem, "kid-1", None).expect("a key");
    let jwks = json!({ "keys": [key.public_jwk()] });
    Fixed {
        strict: UrlRules::default(),
        open: UrlRules::new(patterns.into(), Vec::new()),
        policy: Policy::default(),
        admitting: Policy::new(everything.into(), Vec::new()),
        translating: Policy::default().with_nat64(prefixes.into()).with_own(OWN.map(IpAddr::V4).into()),
        key,
        jwks,
    }
});

pub(super) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let fixed = &*FIXED;
    if let Ok(destination) = Destination::parse(text, &fixed.open) {
        agree(text, &destination);
        literal(text, &destination, fixed);
        receiver_rebuilds_it(text, &destination, fixed);
    }
    if let Ok(destination) = Destination::parse(text, &fixed.strict) {
        assert!(Destination::parse(text, &fixed.open).is_ok(), "{text:?}: narrower rules let it pass");
        public_name(text, &destination);
    }
}

/// By the URL standard, from the stored text, from the canonical one, and from the authority: always the same place.
fn agree(text: &str, destination: &Destination) {
    assert!(text.chars().count() <= 2048, "{text:?}: too long");
    let stored = place(text);
    let url = Url::parse(text).expect("what passed is a URL");
    assert!(url.scheme() == "https" && url.username().is_empty() && url.password().is_none(), "{text:?}");
    let target = destination.target();
    assert_eq!(destination.origin(), stored, "{text:?}");
    assert_eq!(place(&target.target_uri), stored, "{text:?}: {}", target.target_uri);
    assert_eq!(place(&format!("https://{}/", target.authority)), stored, "{text:?}: {}", target.authority);
    assert_eq!(place(&format!("https://{}{}", target.authority, target.request_target)), stored, "{text:?}");
    assert!(target.target_uri.starts_with(&format!("https://{}/", target.authority)), "{text:?}");
    let sent = &target.request_target;
    let plain = sent.starts_with('/') && sent.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b'#');
    assert!(plain, "{text:?}: {sent:?}");
}

fn place(text: &str) -> String {
    let url = Url::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let port = url.port_or_known_default().unwrap_or_default();
    match url.host() {
        Some(Host::Domain(name)) => format!("{}:{port}", name.strip_suffix('.').unwrap_or(name)),
        Some(Host::Ipv4(address)) => SocketAddr::new(address.into(), port).to_string(),
        Some(Host::Ipv6(address)) => SocketAddr::new(address.into(), port).to_string(),
        None => panic!("{text:?}: no host"),
    }
}

fn literal(text: &str, destination: &Destination, fixed: &Fixed) {
    let Ok(Some(host)) = Url::parse(text).map(|url| url.host().map(|host| host.to_owned())) else { return };
    let address: IpAddr = match host {
        Host::Ipv4(address) => address.into(),
        Host::Ipv6(address) => address.into(),
        Host::Domain(name) => {
            // What a resolver's own parser would take for a number never gets so far as to be looked up.
            let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
            let number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
            assert!(!last.is_empty() && (!number || last.parse::<f64>().is_err() && !is_hex(last)), "{text:?}: {name}");
            return;
        }
    };
    let passes = judge_literal(destination, &fixed.policy).is_ok();
    assert_eq!(passes, fixed.policy.classify(address).is_allowed(), "{text:?}");
    assert!(!passes || is_public(address), "{text:?}: {address} passes");
    if judge_literal(destination, &fixed.translating).is_ok() {
        let reached = carried(address);
        assert!(is_public(reached) && !OWN.iter().any(|own| reached == *own), "{text:?}: {reached} passes translated");
    }
    let admitted = judge_literal(destination, &fixed.admitting).is_ok();
    assert!(admitted || !passes, "{text:?}: an open policy is narrower");
    assert!(!admitted || !is_untouchable(address), "{text:?}: {address} is admitted");
}

fn is_hex(label: &str) -> bool {
    label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A second opinion by the standard library's words, apart from the policy's table.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => {
                let inside = v6.segments()[0] == 0x2002 || v6.segments()[..2] == [0x2001, 0];
                v6.segments()[0] & 0xe000 == 0x2000 && !v6.is_multicast() && !inside
            }
        },
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let refused = v4.is_private()
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || v4.is_documentation()
        || v4.is_unspecified();
    !refused && v4.octets()[0] != 0 && v4.octets()[0] < 240
}

/// Where a translator would send it on to.
fn carried(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    match (v6.segments(), v6.octets()) {
        ([0x64, 0xff9b, 0, 0, 0, 0, ..], [.., a, b, c, d]) => Ipv4Addr::new(a, b, c, d).into(),
        ([0x2600, 1, 2, ..], [_, _, _, _, _, _, a, b, 0, c, d, ..]) => Ipv4Addr::new(a, b, c, d).into(),
        _ => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

/// No configuration opens these.
fn is_untouchable(address: IpAddr) -> bool {
    let metadata: Ipv6Addr = "fd00:ec2::254".parse().expect("an address");
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_multicast() || v4.is_unspecified() || v4.octets()[0] >= 240,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_untouchable(v4.into()),
            None => v6 == metadata || v6.is_multicast() || v6.is_unspecified() || v6.segments()[0] & 0xffc0 == 0xfe80,
        },
    }
}

fn public_name(text: &str, destination: &Destination) {
    let origin = destination.origin();
    let Some((name, _)) = origin.rsplit_once(':') else { panic!("{text:?}: {origin}") };
    if name.parse::<IpAddr>().is_ok() || name.starts_with('[') {
        return;
    }
    for suffix in ["localhost", "local", "internal", "home.arpa", "onion", "test", "invalid"] {
        assert!(name != suffix && !name.ends_with(&format!(".{suffix}")), "{text:?}: {name}");
    }
    assert!(name.contains('.') && name.is_ascii() && name == name.to_ascii_lowercase(), "{text:?}: {name}");
}

/// A receiver knows only `Host` and the request target, and makes of them what the sender signed.
fn receiver_rebuilds_it(text: &str, destination: &Destination, fixed: &Fixed) {
    let target = destination.target();
    let body = Bytes::from_static(b"{}");
    let signed = sign(Scheme::Rfc9421(&fixed.key), target, body.clone(), MOMENT);
    let signed = signed.unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let host = signed.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let url = format!("https://{host}{}", signed.request_target);
    let received = Received { method: "POST", url: &url, headers: &signed.headers, body: &body };
    let knowledge = Knowledge {
        jwks: &fixed.jwks,
        revocation: Revocation::NotTracked,
        crowded: &|_| false,
        unix_seconds: MOMENT.unix_seconds,
    };
    assert!(verify(&received, &knowledge).is_ok(), "{text:?}: the receiver cannot verify {url:?}");
}
