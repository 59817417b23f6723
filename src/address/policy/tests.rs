use std::net::Ipv6Addr;

use super::*;
use crate::address::ranges::RANGES;

mod carried;
mod iana;

fn class(text: &str) -> AddressClass {
    Policy::default().classify(text.parse().unwrap())
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Everything in IPv4 that is open, written down from the registries and not from the table.
const OPEN_V4: [(&str, &str); 18] = [
    ("1.0.0.0", "9.255.255.255"),
    ("11.0.0.0", "100.63.255.255"),
    ("100.128.0.0", "126.255.255.255"),
    ("128.0.0.0", "168.63.129.15"),
    ("168.63.129.17", "169.253.255.255"),
    ("169.255.0.0", "172.15.255.255"),
    ("172.32.0.0", "191.255.255.255"),
    ("192.0.1.0", "192.0.1.255"),
    ("192.0.3.0", "192.31.195.255"),
    ("192.31.197.0", "192.52.192.255"),
    ("192.52.194.0", "192.88.98.255"),
    ("192.88.100.0", "192.167.255.255"),
    ("192.169.0.0", "192.175.47.255"),
    ("192.175.49.0", "198.17.255.255"),
    ("198.20.0.0", "198.51.99.255"),
    ("198.51.101.0", "203.0.112.255"),
    ("203.0.114.0", "223.255.255.255"),
    ("8.8.8.8", "8.8.8.8"),
];

const OPEN_V6: [(&str, &str); 7] = [
    ("2000::", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:200::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db9::", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2003::", "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff"),
    ("2620:4f:8001::", "3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff:1000::", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2606:4700::1111", "2606:4700::1111"),
];

#[test]
fn every_open_ipv4_interval_ends_where_the_registries_say() {
    for (first, last) in OPEN_V4 {
        assert_eq!(class(first), AddressClass::Public, "{first}");
        assert_eq!(class(last), AddressClass::Public, "{last}");
    }
    for (first, last) in &OPEN_V4[..17] {
        let before = u32::from(first.parse::<Ipv4Addr>().unwrap()) - 1;
        let after = u32::from(last.parse::<Ipv4Addr>().unwrap()) + 1;
        for outside in [before, after] {
            let outside = IpAddr::V4(outside.into());
            assert!(!Policy::default().classify(outside).is_allowed(), "{outside}");
        }
    }
}

#[test]
fn every_open_ipv6_interval_ends_where_the_registries_say() {
    for (first, last) in OPEN_V6 {
        assert_eq!(class(first), AddressClass::Public, "{first}");
        assert_eq!(class(last), AddressClass::Public, "{last}");
    }
    for (first, last) in &OPEN_V6[..6] {
        let before = first.parse::<Ipv6Addr>().unwrap().to_bits() - 1;
        let after = last.parse::<Ipv6Addr>().unwrap().to_bits() + 1;
        for outside in [before, after] {
            let outside = IpAddr::V6(Ipv6Addr::from_bits(outside));
            assert!(!Policy::default().classify(outside).is_allowed(), "{outside}");
        }
    }
}

/// The rows that hold what no other row does.
fn is_default(range: &Range) -> bool {
    range.class == AddressClass::Public || range.net.prefix_len() == 0
}

#[test]
fn every_row_is_refused_from_its_first_address_to_its_last() {
    for range in RANGES.iter().filter(|range| !is_default(range)) {
        for address in [range.net.network(), middle(range.net), range.net.broadcast()] {
            assert!(!Policy::default().classify(address).is_allowed(), "{address} of {} ({})", range.net, range.source);
        }
    }
    assert_eq!(RANGES.iter().filter(|range| is_default(range)).count(), 3);
}

fn middle(net: IpNet) -> IpAddr {
    match (net.network(), net.broadcast()) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            Ipv4Addr::from_bits(first.to_bits() + (last.to_bits() - first.to_bits()) / 2).into()
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            Ipv6Addr::from_bits(first.to_bits() + (last.to_bits() - first.to_bits()) / 2).into()
        }
        _ => unreachable!("a network is of one family"),
    }
}

#[test]
fn a_row_is_not_hidden_by_a_wider_one_before_it() {
    for (index, range) in RANGES.iter().enumerate() {
        assert!(!RANGES[..index].iter().any(|wider| wider.net.contains(&range.net)), "{}", range.net);
    }
}

#[test]
fn every_row_says_why_and_by_whom() {
    for range in &RANGES {
        assert!(range.reason.len() > 10 && range.reason.starts_with(char::is_lowercase), "{}", range.net);
        assert!(range.source.len() > 2, "{}", range.net);
        assert_eq!(range.net.network(), range.net.addr(), "{}", range.net);
    }
}

#[test]
fn a_refusal_names_its_reason() {
    let cases = [
        ("0.1.2.3", AddressClass::ThisNetwork),
        ("10.1.2.3", AddressClass::PrivateUse),
        ("100.64.0.1", AddressClass::SharedSpace),
        ("127.0.0.1", AddressClass::Loopback),
        ("169.254.1.1", AddressClass::LinkLocal),
        ("192.0.0.9", AddressClass::ProtocolAssignments),
        ("192.0.0.10", AddressClass::ProtocolAssignments),
        ("192.0.0.170", AddressClass::ProtocolAssignments),
        ("192.31.196.1", AddressClass::NameServiceSink),
        ("192.88.99.1", AddressClass::SixToFour),
        ("198.19.255.255", AddressClass::Benchmarking),
        ("233.252.0.1", AddressClass::Multicast),
        ("240.0.0.1", AddressClass::Reserved),
        ("255.255.255.255", AddressClass::Reserved),
        ("::", AddressClass::Unspecified),
        ("::1", AddressClass::Loopback),
        ("2001::1", AddressClass::EmbedsIpv4),
        ("2001:1::1", AddressClass::ProtocolAssignments),
        ("2001:3::1", AddressClass::ProtocolAssignments),
        ("2001:20::1", AddressClass::ProtocolAssignments),
        ("2001:db8::1", AddressClass::Documentation),
        ("3fff::1", AddressClass::Documentation),
        ("3ffe::1", AddressClass::ReturnedSixBone),
        ("100::1", AddressClass::DiscardOnly),
        ("100:0:0:1::1", AddressClass::DiscardOnly),
        ("5f00::1", AddressClass::SegmentRouting),
        ("fd12:3456::1", AddressClass::UniqueLocal),
        ("fe80::1", AddressClass::LinkLocal),
        ("ff02::1", AddressClass::Multicast),
        ("1000::1", AddressClass::Unassigned),
        ("4000::1", AddressClass::Unassigned),
        ("8000::1", AddressClass::Unassigned),
    ];
    for (address, expected) in cases {
        assert_eq!(class(address), expected, "{address}");
        assert!(!expected.is_allowed());
    }
}

#[test]
fn f1_6to4_is_refused() {
    for address in ["2002:a9fe:a9fe::1", "2002:7f00:1::", "2002::", "2002:808:808::1"] {
        assert_eq!(class(address), AddressClass::SixToFour, "{address}");
    }
}

#[test]
fn f2_site_local_isatap_and_the_rest_are_refused() {
    assert_eq!(class("fec0::1"), AddressClass::SiteLocal);
    assert_eq!(class("feff:ffff::1"), AddressClass::SiteLocal);
    assert_eq!(class("3fff:0:1::1"), AddressClass::Documentation);
    assert_eq!(class("2620:4f:8000::1"), AddressClass::NameServiceSink);
    assert_eq!(class("2606:4700::5efe:7f00:1"), AddressClass::Isatap);
    assert_eq!(class("2606:4700::200:5efe:10.0.0.1"), AddressClass::Isatap);
    assert_eq!(class("2606:4700::100:5efe:10.0.0.1"), AddressClass::Public);
    assert_eq!(class("192.0.0.9"), AddressClass::ProtocolAssignments);
    assert_eq!(class("192.0.0.10"), AddressClass::ProtocolAssignments);
    assert_eq!(class("168.63.129.16"), AddressClass::Metadata);
}

#[test]
fn an_allow_list_opens_private_ranges_and_nothing_else() {
    let everything = Policy::new(nets(&["0.0.0.0/0", "::/0"]), vec![]);
    let opened = ["10.0.0.1", "172.31.0.1", "192.168.0.1", "100.64.0.1", "127.0.0.1", "198.18.0.1", "fd12::1", "::1"];
    for address in opened {
        assert_eq!(everything.classify(address.parse().unwrap()), AddressClass::Admitted, "{address}");
    }
    for closed in [
        "169.254.1.1",
        "0.0.0.0",
        "224.0.0.1",
        "fe80::1",
        "fec0::1",
        "2002::1",
        "64:ff9b::a00:1",
        "fd00::5efe:10.0.0.1",
    ] {
        assert!(!everything.classify(closed.parse().unwrap()).is_allowed(), "{closed}");
    }
}

#[test]
fn an_allowed_range_leaves_its_neighbours_closed() {
    let policy = Policy::new(nets(&["10.1.0.0/16", "::ffff:127.0.0.0/104"]), vec![]);
    assert_eq!(policy.classify("10.1.255.255".parse().unwrap()), AddressClass::Admitted);
    assert_eq!(policy.classify("::ffff:10.1.2.3".parse().unwrap()), AddressClass::Admitted);
    assert_eq!(policy.classify("127.0.0.1".parse().unwrap()), AddressClass::Admitted);
    assert_eq!(policy.classify("10.2.0.0".parse().unwrap()), AddressClass::PrivateUse);
}

#[test]
fn a_denied_range_stays_closed_whatever_is_allowed() {
    let policy = Policy::new(nets(&["10.0.0.0/8"]), nets(&["10.9.0.0/16", "8.8.8.0/24", "::ffff:9.9.9.9/128"]));
    for address in ["10.9.0.1", "8.8.8.8", "::ffff:8.8.8.8", "9.9.9.9"] {
        assert_eq!(policy.classify(address.parse().unwrap()), AddressClass::Denied, "{address}");
    }
    assert_eq!(policy.classify("10.8.0.1".parse().unwrap()), AddressClass::Admitted);
}

#[test]
fn what_decided_is_told() {
    let policy = Policy::new(nets(&["10.1.0.0/16"]), nets(&["8.8.8.0/24"])).with_own(vec!["9.9.9.9".parse().unwrap()]);
    let judge = |text: &str| policy.judge(text.parse().unwrap());
    let row = |text: &str| range_of(text.parse().unwrap());
    assert_eq!(judge("192.168.1.1").rule, Rule::Range(row("192.168.0.0")));
    assert_eq!(judge("::ffff:192.168.1.1").rule, Rule::Range(row("192.168.0.0")));
    assert_eq!(judge("10.1.2.3").rule, Rule::Allow("10.1.0.0/16".parse().unwrap(), row("10.0.0.0")));
    assert_eq!(judge("8.8.8.8").rule, Rule::Deny("8.8.8.0/24".parse().unwrap()));
    assert_eq!(judge("9.9.9.9").rule, Rule::Own);
    assert_eq!(judge("2606:4700::5efe:7f00:1").rule, Rule::Isatap);
    assert_eq!(row("169.254.169.254").class, AddressClass::Metadata);
    assert_eq!(row("169.254.169.254").net.to_string(), "169.254.169.254/32");
}

#[test]
fn an_own_address_is_refused_unless_it_is_allowed_by_itself() {
    let own = ["5.6.7.8", "10.0.0.5", "2606:4700::5", "fd00::5", "127.0.0.1", "::1", "fe80::5", "169.254.169.254"];
    let own: Vec<IpAddr> = own.iter().map(|text| text.parse().unwrap()).collect();
    let class = |allow: &[&str], text: &str| {
        Policy::new(nets(allow), vec![]).with_own(own.clone()).classify(text.parse().unwrap())
    };
    for text in ["5.6.7.8", "::ffff:5.6.7.8", "10.0.0.5", "2606:4700::5", "fd00::5"] {
        assert_eq!(class(&[], text), AddressClass::OwnAddress, "{text}");
        assert_eq!(
            class(&["0.0.0.0/0", "::/0", "5.6.7.8/31", "10.0.0.5/31"], text),
            AddressClass::OwnAddress,
            "{text}"
        );
        let alone = ["5.6.7.8/32", "10.0.0.5/32", "2606:4700::5/128", "fd00::5/128"];
        assert_eq!(class(&alone, text), AddressClass::Admitted, "{text}");
    }
    // The neighbours are what they were.
    assert_eq!(class(&[], "5.6.7.9"), AddressClass::Public);
    assert_eq!(class(&["10.0.0.0/8"], "10.0.0.6"), AddressClass::Admitted);
    // Loopback is opened as loopback; what nothing opens stays shut.
    assert_eq!(class(&[], "127.0.0.1"), AddressClass::Loopback);
    assert_eq!(class(&["127.0.0.0/8", "::1/128"], "127.0.0.1"), AddressClass::Admitted);
    assert_eq!(class(&["fe80::5/128"], "fe80::5"), AddressClass::OwnAddress);
    assert_eq!(class(&["169.254.169.254/32"], "169.254.169.254"), AddressClass::Metadata);
    let denied = Policy::new(nets(&["5.6.7.8/32"]), nets(&["5.6.7.0/24"])).with_own(own.clone());
    assert_eq!(denied.classify("5.6.7.8".parse().unwrap()), AddressClass::Denied);
}

#[test]
fn this_machine_has_a_loopback_address_at_least() {
    let own = crate::address::own_addresses().unwrap();
    assert!(own.contains(&"127.0.0.1".parse().unwrap()), "{own:?}");
}
