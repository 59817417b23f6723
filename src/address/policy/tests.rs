use super::*;

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

#[test]
fn every_row_is_refused_from_its_first_address_to_its_last() {
    let refused = |address: IpAddr| !Policy::default().classify(address).is_allowed();
    for row in &IPV4 {
        assert!(refused(row.net.network().into()) && refused(row.net.broadcast().into()), "{} {}", row.net, row.source);
    }
    for row in &IPV6 {
        assert!(refused(row.net.network().into()) && refused(row.net.broadcast().into()), "{} {}", row.net, row.source);
    }
}

#[test]
fn a_row_is_not_hidden_by_a_wider_one_before_it() {
    for (index, row) in IPV4.iter().enumerate() {
        assert!(!IPV4[..index].iter().any(|wider| wider.net.contains(&row.net)), "{}", row.net);
    }
    for (index, row) in IPV6.iter().enumerate() {
        assert!(!IPV6[..index].iter().any(|wider| wider.net.contains(&row.net)), "{}", row.net);
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
fn an_ipv4_address_is_judged_in_every_ipv6_form_that_carries_it() {
    for inner in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1"] {
        let v4: Ipv4Addr = inner.parse().unwrap();
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        assert_eq!(class(&format!("::ffff:{inner}")), class(inner));
        for carrying in [
            format!("::{inner}"),
            format!("::ffff:0:{inner}"),
            format!("64:ff9b::{inner}"),
            format!("64:ff9b:1::{inner}"),
            format!("2001:0:{high:x}:{low:x}::1"),
            format!("2002:{high:x}:{low:x}::1"),
            format!("2606:4700::5efe:{inner}"),
            format!("fd00::5efe:{inner}"),
        ] {
            assert!(!class(&carrying).is_allowed(), "{carrying}");
        }
    }
    assert_eq!(class("::ffff:8.8.8.8"), AddressClass::Public);
}

#[test]
fn metadata_is_opened_by_no_configuration() {
    let everything = Policy::new(nets(&["0.0.0.0/0", "::/0", "169.254.169.254/32", "fd00:ec2::254/128"]), vec![]);
    for (address, source) in METADATA_V4 {
        assert_eq!(everything.classify(address.into()), AddressClass::Metadata, "{source}");
        assert_eq!(everything.classify(address.to_ipv6_mapped().into()), AddressClass::Metadata, "{source}");
    }
    for (address, source) in METADATA_V6 {
        assert_eq!(everything.classify(address.into()), AddressClass::Metadata, "{source}");
    }
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
