//! IPv4 addresses inside IPv6 addresses: whatever the form, never judged milder than the IPv4 address itself.

use super::*;
use crate::address::{Nat64Prefix, Nat64PrefixError};

/// One form, written down from its RFC and not from the code.
type Form = (&'static str, fn(u128) -> u128);

const FORMS: [Form; 14] = [
    ("mapped, RFC 4291", |v4| 0xffff << 32 | v4),
    ("compatible, RFC 4291", |v4| v4),
    ("translated, RFC 2765", |v4| 0xffff << 48 | v4),
    ("NAT64, RFC 6052", |v4| 0x0064_ff9b << 96 | v4),
    ("local NAT64 of length 96, RFC 8215", |v4| 0x0064_ff9b_0001 << 80 | v4),
    ("local NAT64 of length 48, RFC 8215", |v4| 0x0064_ff9b_0001 << 80 | (v4 >> 16) << 64 | (v4 & 0xffff) << 40),
    ("6to4, RFC 3056", |v4| 0x2002 << 112 | v4 << 80 | 1),
    ("Teredo server, RFC 4380", |v4| 0x2001 << 112 | v4 << 64 | 0xf7f7_f7f7),
    ("Teredo client, RFC 4380", |v4| 0x2001 << 112 | 0x0808_0808 << 64 | (!v4 & 0xffff_ffff)),
    ("ISATAP, local id, RFC 5214", |v4| 0x2606_4700 << 96 | 0x0000_5efe << 32 | v4),
    ("ISATAP, global id, RFC 5214", |v4| 0x2606_4700 << 96 | 0x0200_5efe << 32 | v4),
    ("ISATAP on a private prefix", |v4| 0xfd00 << 112 | 0x0000_5efe << 32 | v4),
    ("ISATAP, global id, on a private prefix", |v4| 0xfd00 << 112 | 0x0200_5efe << 32 | v4),
    ("ISATAP on this link", |v4| 0xfe80 << 112 | 0x0000_5efe << 32 | v4),
];

/// RFC 6052, section 2.2, by length of the prefix: where the four octets stand.
const POSITIONS: [(u8, [u32; 4]); 6] = [
    (32, [4, 5, 6, 7]),
    (40, [5, 6, 7, 9]),
    (48, [6, 7, 9, 10]),
    (56, [7, 9, 10, 11]),
    (64, [9, 10, 11, 12]),
    (96, [12, 13, 14, 15]),
];

fn written(prefix: u128, positions: [u32; 4], v4: Ipv4Addr) -> Ipv6Addr {
    let octets = v4.octets().into_iter().zip(positions);
    Ipv6Addr::from_bits(octets.fold(prefix, |bits, (octet, at)| bits | u128::from(octet) << (8 * (15 - at))))
}

/// First, middle and last address of every IPv4 row of the table, and their neighbours.
fn every_kind() -> Vec<Ipv4Addr> {
    let mut all = Vec::new();
    for range in &RANGES {
        let IpNet::V4(net) = range.net else { continue };
        let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
        let mut bits = vec![first, last, first + (last - first) / 2];
        bits.extend([first.checked_sub(1), last.checked_add(1)].into_iter().flatten());
        all.extend(bits.into_iter().map(Ipv4Addr::from_bits));
    }
    all.extend(["8.8.8.8", "1.1.1.1", "93.184.216.34"].map(|text| text.parse::<Ipv4Addr>().unwrap()));
    all
}

/// The shipped policy, and the widest that an operator can write.
fn policies() -> [Policy; 2] {
    [Policy::default(), Policy::new(nets(&["0.0.0.0/0", "::/0"]), vec![])]
}

#[test]
fn no_form_is_judged_milder_than_the_address_inside() {
    let mut seen = std::collections::HashSet::new();
    for policy in policies() {
        for v4 in every_kind() {
            let inner = policy.judge(v4.into());
            seen.insert(inner.class);
            for (form, write) in FORMS {
                let outer = policy.judge(Ipv6Addr::from_bits(write(v4.to_bits().into())).into());
                assert!(inner.class.is_allowed() || !outer.class.is_allowed(), "{v4} ({}) as {form}", inner.class);
                if form.starts_with("mapped") {
                    assert_eq!(outer, inner, "{v4}");
                } else {
                    assert!(!outer.class.is_allowed(), "{v4} as {form} is {}", outer.class);
                }
            }
        }
    }
    assert_eq!(seen.len(), 16, "every IPv4 class, and what an allow list makes of them: {seen:?}");
}

/// A prefix of each length, one where translators' own space is, one private, one public.
fn prefixes(length: u8) -> Vec<(u128, Nat64Prefix)> {
    let texts: &[&str] = match length {
        96 => &["64:ff9b::/96", "64:ff9b:1::/96", "fd64::/96", "2606:4700:64::/96"],
        64 => &["64:ff9b:1:2::/64", "fd64:1:2:3::/64", "2606:4700:64:1::/64"],
        56 => &["64:ff9b:1:200::/56", "fd64:1:2:300::/56", "2606:4700:64:100::/56"],
        48 => &["64:ff9b:1::/48", "fd64:1:2::/48", "2606:4700:64::/48"],
        40 => &["fd64:1::/40", "2606:4700::/40"],
        _ => &["fd64:1::/32", "2606:4700::/32"],
    };
    let parsed = texts.iter().map(|text| Nat64Prefix::try_from(text.parse::<IpNet>().unwrap()).unwrap());
    parsed.map(|prefix| (prefix.net().network().to_bits(), prefix)).collect()
}

#[test]
fn behind_a_configured_prefix_the_address_inside_decides_alone() {
    for (length, positions) in POSITIONS {
        for (bits, prefix) in prefixes(length) {
            for policy in policies() {
                let policy = policy.with_nat64(vec![prefix]);
                for v4 in every_kind() {
                    let outer = written(bits, positions, v4);
                    let (inner, judged) = (policy.judge(v4.into()), policy.judge(outer.into()));
                    // Octets of the IPv4 address that happen to mark ISATAP are refused for that.
                    if judged.rule == Rule::Isatap {
                        continue;
                    }
                    assert_eq!((judged.class, judged.carried), (inner.class, Some(v4)), "{outer} behind {prefix:?}");
                }
            }
        }
    }
}

#[test]
fn metadata_is_opened_by_no_configuration_in_no_form() {
    let everything = ["0.0.0.0/0", "::/0", "169.254.169.254/32", "168.63.129.16/32", "fd00:ec2::254/128"];
    let everything = Policy::new(nets(&everything), vec![]);
    let all_prefixes: Vec<Nat64Prefix> =
        POSITIONS.iter().flat_map(|(length, _)| prefixes(*length)).map(|(_, prefix)| prefix).collect();
    let own: Vec<IpAddr> = RANGES.iter().map(|range| range.net.network()).collect();
    let policies =
        [everything.clone(), everything.clone().with_nat64(all_prefixes), everything.clone().with_own(own.clone())];
    let mut count = 0;
    for range in RANGES.iter().filter(|range| range.class == AddressClass::Metadata) {
        for policy in &policies {
            assert_eq!(policy.classify(range.net.network()), AddressClass::Metadata, "{}", range.source);
            let IpAddr::V4(v4) = range.net.network() else { continue };
            for (form, write) in FORMS {
                let outer = Ipv6Addr::from_bits(write(v4.to_bits().into()));
                assert!(!policy.classify(outer.into()).is_allowed(), "{} as {form}", range.source);
            }
            assert_eq!(policy.classify(v4.to_ipv6_mapped().into()), AddressClass::Metadata);
        }
        if let IpAddr::V4(v4) = range.net.network() {
            for (length, positions) in POSITIONS {
                for (bits, prefix) in prefixes(length) {
                    let policy = everything.clone().with_nat64(vec![prefix]);
                    assert_eq!(policy.classify(written(bits, positions, v4).into()), AddressClass::Metadata);
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 9 * 17);
    // A prefix laid over a metadata address does not turn it into something else.
    let over = Nat64Prefix::try_from("fd00:ec2::/96".parse::<IpNet>().unwrap()).unwrap();
    let over = everything.with_nat64(vec![over]);
    assert_eq!(over.classify("fd00:ec2::254".parse().unwrap()), AddressClass::Metadata);
}

#[test]
fn own_and_denied_addresses_are_seen_behind_a_prefix() {
    let prefix = Nat64Prefix::try_from("64:ff9b::/96".parse::<IpNet>().unwrap()).unwrap();
    let policy = Policy::new(vec![], nets(&["8.8.8.0/24", "64:ff9b::909:909/128"]))
        .with_own(vec!["5.6.7.8".parse().unwrap(), "64:ff9b::1.2.3.4".parse().unwrap()])
        .with_nat64(vec![prefix]);
    for (text, expected) in [
        ("64:ff9b::5.6.7.8", AddressClass::OwnAddress),
        ("64:ff9b::1.2.3.4", AddressClass::OwnAddress),
        ("64:ff9b::8.8.8.8", AddressClass::Denied),
        ("64:ff9b::9.9.9.9", AddressClass::Denied),
        ("64:ff9b::9.9.9.8", AddressClass::Public),
        ("64:ff9b::10.0.0.1", AddressClass::PrivateUse),
        ("64:ff9b:1::9.9.9.8", AddressClass::EmbedsIpv4),
        ("2002:909:908::", AddressClass::SixToFour),
    ] {
        assert_eq!(policy.classify(text.parse().unwrap()), expected, "{text}");
    }
}

#[test]
fn an_address_of_no_form_that_translators_make_is_refused_behind_a_prefix() {
    let prefix = Nat64Prefix::try_from("2606:4700::/32".parse::<IpNet>().unwrap()).unwrap();
    let policy = Policy::default().with_nat64(vec![prefix]);
    let judged = policy.judge("2606:4700:808:808:0100::".parse().unwrap());
    assert_eq!((judged.class, judged.rule), (AddressClass::EmbedsIpv4, Rule::Nat64(prefix)));
    // What stands behind the IPv4 address is ignored, as RFC 6052 tells translators.
    assert_eq!(policy.classify("2606:4700:808:808:ff:1::".parse().unwrap()), AddressClass::Public);
    assert_eq!(policy.classify("2606:4700:a00:1::".parse().unwrap()), AddressClass::PrivateUse);
    // A refused range inside a wide prefix stays refused.
    let wide = Nat64Prefix::try_from("2620:4f::/32".parse::<IpNet>().unwrap()).unwrap();
    let policy = Policy::default().with_nat64(vec![wide]);
    assert_eq!(policy.classify("2620:4f:8000:808::".parse().unwrap()), AddressClass::NameServiceSink);
}

#[test]
fn of_nested_prefixes_the_narrower_says_how_an_address_is_read() {
    let wide = Nat64Prefix::try_from("fd64::/32".parse::<IpNet>().unwrap()).unwrap();
    let narrow = Nat64Prefix::try_from("fd64::/96".parse::<IpNet>().unwrap()).unwrap();
    for order in [[wide, narrow], [narrow, wide]] {
        let policy = Policy::default().with_nat64(order.to_vec());
        assert_eq!(policy.judge("fd64::8.8.8.8".parse().unwrap()).carried, Some(Ipv4Addr::new(8, 8, 8, 8)));
        assert_eq!(policy.judge("fd64:0:1010:101::".parse().unwrap()).carried, Some(Ipv4Addr::new(16, 16, 1, 1)));
    }
}

/// RFC 6052, section 2.4: its own examples, whose prefix is documentation space and so no prefix of ours.
#[test]
fn the_examples_of_the_rfc_are_read_as_it_reads_them() {
    for (prefix, address) in [
        ("2606:4700::/32", "2606:4700:c000:221::"),
        ("2606:4700:100::/40", "2606:4700:1c0:2:21::"),
        ("2606:4700:122::/48", "2606:4700:122:c000:2:2100::"),
        ("2606:4700:122:300::/56", "2606:4700:122:3c0:0:221::"),
        ("2606:4700:122:344::/64", "2606:4700:122:344:c0:2:2100::"),
        ("2606:4700:122:344::/96", "2606:4700:122:344::192.0.2.33"),
        ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
    ] {
        let prefix = Nat64Prefix::try_from(prefix.parse::<IpNet>().unwrap()).unwrap();
        let judged = Policy::default().with_nat64(vec![prefix]).judge(address.parse().unwrap());
        assert_eq!(judged.carried, Some(Ipv4Addr::new(192, 0, 2, 33)), "{address}");
        assert_eq!(judged.class, AddressClass::Documentation, "{address}");
    }
}

#[test]
fn a_network_that_cannot_be_a_translators_is_refused_by_its_fault() {
    for (text, expected) in [
        ("10.0.0.0/8", Nat64PrefixError::Length as fn(IpNet) -> Nat64PrefixError),
        ("64:ff9b::/95", Nat64PrefixError::Length),
        ("64:ff9b::/128", Nat64PrefixError::Length),
        ("::/0", Nat64PrefixError::Length),
        ("64:ff9b::1:0:0/96", Nat64PrefixError::Space),
        ("64:ff9b::1/96", Nat64PrefixError::HostBits),
        ("fd64:0:0:0:0100::/96", Nat64PrefixError::UOctet),
        ("64:ff9b::/64", Nat64PrefixError::Space),
        ("64:ff9b::/32", Nat64PrefixError::Space),
        ("64:ff9b:2::/48", Nat64PrefixError::Space),
        ("::/96", Nat64PrefixError::Space),
        ("::ffff:0:0/96", Nat64PrefixError::Space),
        ("::ffff:0:0:0/96", Nat64PrefixError::UOctet),
        ("2002:808:808::/48", Nat64PrefixError::Space),
        ("2001:0:808:808::/64", Nat64PrefixError::Space),
        ("2001:db8::/32", Nat64PrefixError::Space),
        ("fe80::/64", Nat64PrefixError::Space),
        ("ff02::/96", Nat64PrefixError::Space),
        ("4000::/32", Nat64PrefixError::Space),
    ] {
        let net: IpNet = text.parse().unwrap();
        assert_eq!(Nat64Prefix::try_from(net), Err(expected(net)), "{text}");
    }
}
