//! The address policy as data: one table of ranges, each with its class, the reason and where it is set aside. Decides
//! nothing but which row an address belongs to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::class::AddressClass;
use super::class::AddressClass::{
    Benchmarking, DiscardOnly, Documentation, EmbedsIpv4, LinkLocal, Loopback, Metadata, Multicast, MulticastRelay,
    NameServiceSink, PrivateUse, ProtocolAssignments, Public, Reserved, ReturnedSixBone, SegmentRouting, SharedSpace,
    SiteLocal, SixToFour, ThisNetwork, Unassigned, UniqueLocal, Unspecified,
};

/// One row of the policy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) net: IpNet,
    pub(crate) class: AddressClass,
    /// Why nothing is posted there, in words for whoever asks.
    pub(crate) reason: &'static str,
    /// Who set the range aside, or who serves it.
    pub(crate) source: &'static str,
}

impl Range {
    /// Whether translators' prefixes are set aside here, so that an operator may say that one is in use.
    pub(crate) fn is_nat64(&self) -> bool {
        matches!(self.net, IpNet::V6(net) if net.addr().to_bits() >> 96 == 0x0064_ff9b)
    }
}

const fn v4(octets: [u8; 4], prefix: u8, class: AddressClass, reason: &'static str, source: &'static str) -> Range {
    let [a, b, c, d] = octets;
    let net = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix));
    Range { net, class, reason, source }
}

const fn v6(bits: u128, prefix: u8, class: AddressClass, reason: &'static str, source: &'static str) -> Range {
    let net = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from_bits(bits), prefix));
    Range { net, class, reason, source }
}

const fn metadata_v4(octets: [u8; 4], reason: &'static str, source: &'static str) -> Range {
    v4(octets, 32, Metadata, reason, source)
}

const fn metadata_v6(segments: [u16; 8], reason: &'static str, source: &'static str) -> Range {
    let [a, b, c, d, e, f, g, h] = segments;
    v6(Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits(), 128, Metadata, reason, source)
}

const CREDENTIALS: &str = "hands this machine's credentials and boot data to whoever asks from it";
const SERVICE: &str = "answers this machine alone, as its cloud's resolver, clock or agent";
const INSIDE: &str = "leads into the operator's own network, where a stranger's URL has no business";
const EXAMPLE: &str = "stands in books and tests; nobody may use it";
const TUNNEL: &str = "carries another address inside, which whoever unpacks it would connect to";
const ANYCAST: &str = "is answered by whatever machine of the kind is nearest, never by a receiver";

/// The first row that holds an address is its row. Narrower rows stand before the wider ones that hold them, and the last
/// of each family holds everything. The IANA special-purpose registries (RFC 6890 and updates) are taken whole, their
/// "globally reachable" entries included: none of them is a webhook receiver.
pub(super) static RANGES: [Range; 58] = [
    metadata_v4([169, 254, 169, 254], CREDENTIALS, "AWS, GCP, Azure, OCI, Hetzner, DigitalOcean, OpenStack"),
    metadata_v4([169, 254, 170, 2], CREDENTIALS, "AWS ECS task credentials"),
    metadata_v4([169, 254, 170, 23], CREDENTIALS, "AWS EKS pod identity"),
    metadata_v4([169, 254, 169, 253], SERVICE, "AWS resolver"),
    metadata_v4([169, 254, 169, 123], SERVICE, "AWS time"),
    metadata_v4([169, 254, 0, 23], CREDENTIALS, "Tencent Cloud"),
    metadata_v4([100, 100, 100, 200], CREDENTIALS, "Alibaba Cloud"),
    metadata_v4([192, 0, 0, 192], CREDENTIALS, "Oracle Cloud, legacy"),
    metadata_v4([168, 63, 129, 16], SERVICE, "Azure wire server"),
    metadata_v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], CREDENTIALS, "AWS"),
    metadata_v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253], SERVICE, "AWS resolver"),
    metadata_v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x123], SERVICE, "AWS time"),
    metadata_v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], CREDENTIALS, "AWS EKS pod identity"),
    metadata_v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], CREDENTIALS, "GCP"),
    metadata_v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], CREDENTIALS, "Oracle Cloud"),
    metadata_v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], CREDENTIALS, "Scaleway"),
    v4([0, 0, 0, 0], 8, ThisNetwork, "names this host; Linux connects 0.0.0.0 to loopback", "RFC 791"),
    v4([10, 0, 0, 0], 8, PrivateUse, INSIDE, "RFC 1918"),
    v4([100, 64, 0, 0], 10, SharedSpace, "leads into a carrier's or a cluster's own network", "RFC 6598"),
    v4([127, 0, 0, 0], 8, Loopback, "leads back to this machine", "RFC 1122"),
    v4([169, 254, 0, 0], 16, LinkLocal, "reaches this link alone, where metadata services live", "RFC 3927"),
    v4([172, 16, 0, 0], 12, PrivateUse, INSIDE, "RFC 1918"),
    v4([192, 0, 0, 0], 24, ProtocolAssignments, "serves protocols between hosts and their providers", "RFC 6890"),
    v4([192, 0, 2, 0], 24, Documentation, EXAMPLE, "RFC 5737"),
    v4([192, 31, 196, 0], 24, NameServiceSink, ANYCAST, "RFC 7535"),
    v4([192, 52, 193, 0], 24, MulticastRelay, ANYCAST, "RFC 7450"),
    v4([192, 88, 99, 0], 24, SixToFour, ANYCAST, "RFC 7526"),
    v4([192, 168, 0, 0], 16, PrivateUse, INSIDE, "RFC 1918"),
    v4([192, 175, 48, 0], 24, NameServiceSink, ANYCAST, "RFC 7534"),
    v4([198, 18, 0, 0], 15, Benchmarking, "connects test equipment inside a laboratory", "RFC 2544"),
    v4([198, 51, 100, 0], 24, Documentation, EXAMPLE, "RFC 5737"),
    v4([203, 0, 113, 0], 24, Documentation, EXAMPLE, "RFC 5737"),
    v4([224, 0, 0, 0], 4, Multicast, "reaches a group and not a receiver", "RFC 5771"),
    v4([255, 255, 255, 255], 32, Reserved, "reaches every host of this link", "RFC 919"),
    v4([240, 0, 0, 0], 4, Reserved, "is not assigned to anybody", "RFC 1112"),
    v4([0, 0, 0, 0], 0, Public, "is routed on the internet", "IANA IPv4 address space"),
    v6(0x2001 << 112, 32, EmbedsIpv4, TUNNEL, "RFC 4380, Teredo"),
    v6(0x2001_0002 << 96, 48, ProtocolAssignments, "connects test equipment inside a laboratory", "RFC 5180"),
    v6(
        0x2001 << 112,
        23,
        ProtocolAssignments,
        "serves protocols, and none of them is HTTP",
        "RFC 2928 and its carve-outs",
    ),
    v6(0x2001_0db8 << 96, 32, Documentation, EXAMPLE, "RFC 3849"),
    v6(0x2002 << 112, 16, SixToFour, TUNNEL, "RFC 3056"),
    v6(0x2620_004f_8000 << 80, 48, NameServiceSink, ANYCAST, "RFC 7534"),
    v6(0x3fff << 112, 20, Documentation, EXAMPLE, "RFC 9637"),
    v6(0x3ffe << 112, 16, ReturnedSixBone, "was given back when the test network ended", "RFC 3701"),
    v6(0x2000 << 112, 3, Public, "is routed on the internet", "RFC 4291, global unicast"),
    v6(0, 128, Unspecified, "names no host; Linux connects it to loopback", "RFC 4291"),
    v6(1, 128, Loopback, "leads back to this machine", "RFC 4291"),
    v6(0, 96, EmbedsIpv4, TUNNEL, "RFC 4291, IPv4-compatible"),
    v6(0xffff << 48, 96, EmbedsIpv4, TUNNEL, "RFC 2765, IPv4-translated"),
    v6(0x0064_ff9b << 96, 96, EmbedsIpv4, TUNNEL, "RFC 6052, NAT64"),
    v6(0x0064_ff9b_0001 << 80, 48, EmbedsIpv4, TUNNEL, "RFC 8215, local NAT64"),
    v6(0x0100 << 112, 63, DiscardOnly, "is thrown away by routers", "RFC 6666 and RFC 9780"),
    v6(0x5f00 << 112, 16, SegmentRouting, "steers packets inside an operator's network", "RFC 9602"),
    v6(0xfc00 << 112, 7, UniqueLocal, INSIDE, "RFC 4193"),
    v6(0xfe80 << 112, 10, LinkLocal, "reaches this link alone", "RFC 4291"),
    v6(0xfec0 << 112, 10, SiteLocal, "was private space, and still is where routers are old", "RFC 3879"),
    v6(0xff00 << 112, 8, Multicast, "reaches a group and not a receiver", "RFC 4291"),
    v6(0, 0, Unassigned, "is outside 2000::/3, from which all global unicast is assigned", "RFC 4291 and IANA"),
];

/// The row of an address that was unmapped before.
pub(super) fn range_of(address: IpAddr) -> &'static Range {
    let found = RANGES.iter().find(|range| range.net.contains(&address));
    // The last row of each family is its whole space.
    found.expect("every address is in 0.0.0.0/0 or ::/0")
}
