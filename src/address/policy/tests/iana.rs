//! The policy against the IANA special-purpose address registries, whose rows are read from their own files.

use super::*;

const REGISTRIES: [&str; 2] = [
    include_str!("../../../../tests/vectors/iana/iana-ipv4-special-registry-1.csv"),
    include_str!("../../../../tests/vectors/iana/iana-ipv6-special-registry-1.csv"),
];

/// Blocks that no one row of ours covers, each with the reason why that is right.
const JUDGED_OTHERWISE: [(&str, &str); 1] =
    [("::ffff:0:0/96", "a mapped address is judged as the IPv4 address that the kernel would dial")];

/// What is refused beyond the registries. Whoever adds a row to the table names it here.
const OURS: [&str; 20] = [
    "168.63.129.16/32",
    "224.0.0.0/4",
    "::/96",
    "::ffff:0:0:0/96",
    "3ffe::/16",
    "fec0::/10",
    "ff00::/8",
    // Metadata inside registered blocks needs rows of its own, since no configuration opens it.
    "169.254.169.254/32",
    "169.254.170.2/32",
    "169.254.170.23/32",
    "169.254.169.253/32",
    "169.254.169.123/32",
    "169.254.0.23/32",
    "100.100.100.200/32",
    "192.0.0.192/32",
    "fd00:ec2::/32",
    "fd20:ce::/32",
    "fd00:c1::/32",
    "fd00:42::/32",
    // The two discard-only entries of the registry are neighbours and one row of ours.
    "100::/63",
];

/// Cells of a CSV file, of which some are quoted over several lines.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            _ => cell.push(c),
        }
    }
    records
}

/// Every block of a registry with its name; a cell may hold several, and footnotes.
fn blocks(text: &str) -> Vec<(IpNet, String)> {
    let mut blocks = Vec::new();
    for record in records(text).into_iter().skip(1) {
        assert_eq!(record.len(), 10, "{record:?}");
        for block in record[0].split(',') {
            let net = block.split_whitespace().next().unwrap();
            blocks.push((net.parse().unwrap_or_else(|_| panic!("{block}")), record[1].clone()));
        }
    }
    blocks
}

fn registered() -> Vec<(IpNet, String)> {
    REGISTRIES.iter().flat_map(|text| blocks(text)).collect()
}

fn step(address: IpAddr, up: bool) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) if up => v4.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V4(v4) => v4.to_bits().checked_sub(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(v6) if up => v6.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
        IpAddr::V6(v6) => v6.to_bits().checked_sub(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

fn is_mapped(net: IpNet) -> bool {
    "::ffff:0:0/96".parse() == Ok(net)
}

fn refused(address: IpAddr) -> bool {
    !Policy::default().classify(address).is_allowed()
}

#[test]
fn the_registries_are_whole() {
    assert_eq!(REGISTRIES.map(|text| blocks(text).len()), [25, 25]);
}

#[test]
fn every_block_of_the_registries_is_covered_by_a_refused_row() {
    for (net, name) in registered() {
        if JUDGED_OTHERWISE.iter().any(|(other, _)| other.parse() == Ok(net)) {
            continue;
        }
        let covered = RANGES.iter().any(|range| !is_default(range) && range.net.contains(&net));
        assert!(covered, "{net} ({name}) is registered, and no row of the policy covers it");
    }
}

#[test]
fn every_registered_block_is_refused_from_its_first_address_to_its_last() {
    for (net, name) in registered() {
        for address in [net.network(), middle(net), net.broadcast()] {
            // The middle of the mapped block is a public IPv4 address, which is judged as what it is.
            if is_mapped(net) && address == middle(net) {
                assert_eq!(Policy::default().classify(address), class("127.255.255.255"), "{address}");
                continue;
            }
            assert!(refused(address), "{address} of {net} ({name})");
        }
    }
}

#[test]
fn what_borders_on_a_registered_block_is_public_unless_a_row_of_ours_says_otherwise() {
    let (registered, mut public, mut shut) = (registered(), 0, 0);
    let ours: Vec<IpNet> = nets(&OURS);
    for (net, name) in &registered {
        for outside in [step(net.network(), false), step(net.broadcast(), true)].into_iter().flatten() {
            let by_registry = registered.iter().any(|(other, _)| other.contains(&outside));
            let by_us = ours.iter().any(|other| other.contains(&outside));
            let unassigned = matches!(outside, IpAddr::V6(v6) if v6.to_bits() >> 125 != 1);
            assert_eq!(refused(outside), by_registry || by_us || unassigned, "{outside}, beside {net} ({name})");
            *(if refused(outside) { &mut shut } else { &mut public }) += 1;
        }
    }
    assert!(public > 30 && shut > 30, "{public} public, {shut} refused");
}

#[test]
fn every_row_beyond_the_registries_is_named_with_this_test() {
    let registered = registered();
    let ours: Vec<IpNet> = nets(&OURS);
    for range in RANGES.iter().filter(|range| !is_default(range)) {
        let known = registered.iter().any(|(net, _)| *net == range.net);
        assert!(known || ours.iter().any(|net| net.contains(&range.net)), "{} is in no registry", range.net);
    }
    for net in ours {
        assert!(RANGES.iter().any(|range| net.contains(&range.net) && !is_default(range)), "{net} is no row");
    }
}
