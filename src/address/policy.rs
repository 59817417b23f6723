//! Which addresses a delivery may be sent to, as one table with a reason and a source per range. Pure: no names, no DNS, no sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

#[cfg(test)]
mod tests;

/// What an address is, and by that whether it may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AddressClass {
    /// Globally routed and named by no range below.
    Public,
    /// Private, but opened by the operator's allow list.
    Admitted,
    /// On the operator's deny list.
    Denied,
    /// Serves credentials or configuration to the machine that asks. No configuration opens these.
    Metadata,
    ThisNetwork,
    PrivateUse,
    SharedSpace,
    Loopback,
    LinkLocal,
    ProtocolAssignments,
    Documentation,
    NameServiceSink,
    MulticastRelay,
    SixToFour,
    Benchmarking,
    Multicast,
    Reserved,
    Unspecified,
    EmbedsIpv4,
    DiscardOnly,
    UniqueLocal,
    SiteLocal,
    SegmentRouting,
    Isatap,
    ReturnedSixBone,
    /// Outside 2000::/3, the only block from which global unicast is assigned (RFC 4291, IANA).
    Unassigned,
}

impl AddressClass {
    pub(crate) fn is_allowed(self) -> bool {
        matches!(self, AddressClass::Public | AddressClass::Admitted)
    }

    /// Whether an operator may open a range of this class. Link-local is not among them, since metadata services
    /// live there, and neither is any form that carries another address inside.
    fn may_be_admitted(self) -> bool {
        matches!(
            self,
            AddressClass::PrivateUse
                | AddressClass::SharedSpace
                | AddressClass::Loopback
                | AddressClass::Benchmarking
                | AddressClass::UniqueLocal
        )
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            AddressClass::Public => "public",
            AddressClass::Admitted => "admitted by configuration",
            AddressClass::Denied => "denied by configuration",
            AddressClass::Metadata => "metadata service",
            AddressClass::ThisNetwork => "this network",
            AddressClass::PrivateUse => "private use",
            AddressClass::SharedSpace => "shared address space",
            AddressClass::Loopback => "loopback",
            AddressClass::LinkLocal => "link local",
            AddressClass::ProtocolAssignments => "protocol assignments",
            AddressClass::Documentation => "documentation",
            AddressClass::NameServiceSink => "name service sink",
            AddressClass::MulticastRelay => "multicast relay",
            AddressClass::SixToFour => "6to4",
            AddressClass::Benchmarking => "benchmarking",
            AddressClass::Multicast => "multicast",
            AddressClass::Reserved => "reserved",
            AddressClass::Unspecified => "unspecified",
            AddressClass::EmbedsIpv4 => "carries an IPv4 address",
            AddressClass::DiscardOnly => "discard only",
            AddressClass::UniqueLocal => "unique local",
            AddressClass::SiteLocal => "site local",
            AddressClass::SegmentRouting => "segment routing",
            AddressClass::Isatap => "ISATAP",
            AddressClass::ReturnedSixBone => "returned 6bone",
            AddressClass::Unassigned => "not global unicast",
        }
    }
}

impl std::fmt::Display for AddressClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.reason())
    }
}

/// One refused range.
struct Row<N> {
    net: N,
    class: AddressClass,
    /// Where the range is set aside. Read by people and by the tests, never by a decision.
    #[cfg_attr(not(test), expect(dead_code, reason = "documents the row"))]
    source: &'static str,
}

const fn v4(octets: [u8; 4], prefix: u8, class: AddressClass, source: &'static str) -> Row<Ipv4Net> {
    let [a, b, c, d] = octets;
    let net = Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix);
    Row { net, class, source }
}

const fn v6(bits: u128, prefix: u8, class: AddressClass, source: &'static str) -> Row<Ipv6Net> {
    let net = Ipv6Net::new_assert(Ipv6Addr::from_bits(bits), prefix);
    Row { net, class, source }
}

/// Everything in IPv4 that is refused. The IANA special-purpose registry (RFC 6890 and updates) is taken whole,
/// its "globally reachable" exceptions included: none of them is a webhook receiver.
static IPV4: [Row<Ipv4Net>; 19] = [
    v4([0, 0, 0, 0], 8, AddressClass::ThisNetwork, "RFC 791"),
    v4([10, 0, 0, 0], 8, AddressClass::PrivateUse, "RFC 1918"),
    v4([100, 64, 0, 0], 10, AddressClass::SharedSpace, "RFC 6598"),
    v4([127, 0, 0, 0], 8, AddressClass::Loopback, "RFC 1122"),
    v4([169, 254, 0, 0], 16, AddressClass::LinkLocal, "RFC 3927"),
    v4([172, 16, 0, 0], 12, AddressClass::PrivateUse, "RFC 1918"),
    v4([192, 0, 0, 0], 24, AddressClass::ProtocolAssignments, "RFC 6890"),
    v4([192, 0, 2, 0], 24, AddressClass::Documentation, "RFC 5737"),
    v4([192, 31, 196, 0], 24, AddressClass::NameServiceSink, "RFC 7535"),
    v4([192, 52, 193, 0], 24, AddressClass::MulticastRelay, "RFC 7450"),
    v4([192, 88, 99, 0], 24, AddressClass::SixToFour, "RFC 7526"),
    v4([192, 168, 0, 0], 16, AddressClass::PrivateUse, "RFC 1918"),
    v4([192, 175, 48, 0], 24, AddressClass::NameServiceSink, "RFC 7534"),
    v4([198, 18, 0, 0], 15, AddressClass::Benchmarking, "RFC 2544"),
    v4([198, 51, 100, 0], 24, AddressClass::Documentation, "RFC 5737"),
    v4([203, 0, 113, 0], 24, AddressClass::Documentation, "RFC 5737"),
    v4([224, 0, 0, 0], 4, AddressClass::Multicast, "RFC 5771"),
    v4([255, 255, 255, 255], 32, AddressClass::Reserved, "RFC 919"),
    v4([240, 0, 0, 0], 4, AddressClass::Reserved, "RFC 1112"),
];

/// What is refused inside 2000::/3, then the ranges outside it that have a reason of their own. Narrower rows
/// stand before the wider ones that hold them.
static IPV6: [Row<Ipv6Net>; 20] = [
    v6(0x2001 << 112, 32, AddressClass::EmbedsIpv4, "RFC 4380, Teredo"),
    v6(0x2001_0002 << 96, 48, AddressClass::ProtocolAssignments, "RFC 5180, benchmarking"),
    v6(0x2001 << 112, 23, AddressClass::ProtocolAssignments, "RFC 2928, with its later carve-outs"),
    v6(0x2001_0db8 << 96, 32, AddressClass::Documentation, "RFC 3849"),
    v6(0x2002 << 112, 16, AddressClass::SixToFour, "RFC 3056"),
    v6(0x2620_004f_8000 << 80, 48, AddressClass::NameServiceSink, "RFC 7534"),
    v6(0x3fff << 112, 20, AddressClass::Documentation, "RFC 9637"),
    v6(0x3ffe << 112, 16, AddressClass::ReturnedSixBone, "RFC 3701"),
    v6(0, 128, AddressClass::Unspecified, "RFC 4291"),
    v6(1, 128, AddressClass::Loopback, "RFC 4291"),
    v6(0, 96, AddressClass::EmbedsIpv4, "RFC 4291, IPv4-compatible"),
    v6(0xffff << 48, 96, AddressClass::EmbedsIpv4, "RFC 2765, IPv4-translated"),
    v6(0x0064_ff9b << 96, 96, AddressClass::EmbedsIpv4, "RFC 6052, NAT64"),
    v6(0x0064_ff9b_0001 << 80, 48, AddressClass::EmbedsIpv4, "RFC 8215, local NAT64"),
    v6(0x0100 << 112, 63, AddressClass::DiscardOnly, "RFC 6666 and RFC 9780"),
    v6(0x5f00 << 112, 16, AddressClass::SegmentRouting, "RFC 9602"),
    v6(0xfc00 << 112, 7, AddressClass::UniqueLocal, "RFC 4193"),
    v6(0xfe80 << 112, 10, AddressClass::LinkLocal, "RFC 4291"),
    v6(0xfec0 << 112, 10, AddressClass::SiteLocal, "RFC 3879"),
    v6(0xff00 << 112, 8, AddressClass::Multicast, "RFC 4291"),
];

/// Global unicast. Everything outside is refused, named above or not.
static GLOBAL_UNICAST: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::from_bits(0x2000 << 112), 3);

/// The addresses at which clouds answer their own machines: credentials, bootstrap data, DNS, time.
static METADATA_V4: [(Ipv4Addr, &str); 9] = [
    (Ipv4Addr::new(169, 254, 169, 254), "AWS, GCP, Azure, OCI, Hetzner, DigitalOcean, OpenStack"),
    (Ipv4Addr::new(169, 254, 170, 2), "AWS ECS task credentials"),
    (Ipv4Addr::new(169, 254, 170, 23), "AWS EKS pod identity"),
    (Ipv4Addr::new(169, 254, 169, 253), "AWS resolver"),
    (Ipv4Addr::new(169, 254, 169, 123), "AWS time"),
    (Ipv4Addr::new(169, 254, 0, 23), "Tencent Cloud"),
    (Ipv4Addr::new(100, 100, 100, 200), "Alibaba Cloud"),
    (Ipv4Addr::new(192, 0, 0, 192), "Oracle Cloud, legacy"),
    (Ipv4Addr::new(168, 63, 129, 16), "Azure wire server"),
];

static METADATA_V6: [(Ipv6Addr, &str); 7] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), "AWS"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x253), "AWS resolver"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x123), "AWS time"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23), "AWS EKS pod identity"),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), "GCP"),
    (Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), "Oracle Cloud"),
    (Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), "Scaleway"),
];

/// The table and what the operator changed about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
}

impl Policy {
    /// `allow` opens private, shared, loopback, benchmarking and unique-local ranges and nothing else. `deny`
    /// closes what it names, whatever `allow` says.
    pub(crate) fn new(allow: Vec<IpNet>, deny: Vec<IpNet>) -> Policy {
        Policy {
            allow: allow.into_iter().map(unmapped_net).collect(),
            deny: deny.into_iter().map(unmapped_net).collect(),
        }
    }

    /// Judges the address that a connection would really be made to: a mapped IPv4 address is judged as IPv4.
    pub(crate) fn classify(&self, address: IpAddr) -> AddressClass {
        let address = unmapped(address);
        if is_metadata(address) {
            return AddressClass::Metadata;
        }
        if self.deny.iter().any(|net| net.contains(&address)) {
            return AddressClass::Denied;
        }
        let class = match address {
            IpAddr::V4(address) => classify_v4(address),
            IpAddr::V6(address) => classify_v6(address),
        };
        if class.may_be_admitted() && self.allow.iter().any(|net| net.contains(&address)) {
            return AddressClass::Admitted;
        }
        class
    }
}

/// The address that the kernel would dial: `::ffff:a.b.c.d` is a.b.c.d.
pub(crate) fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

/// A configured range inside ::ffff:0:0/96 speaks of IPv4 addresses, which are judged unmapped.
fn unmapped_net(net: IpNet) -> IpNet {
    let mapped = match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96)),
        _ => None,
    };
    mapped.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok()).map_or(net, IpNet::V4)
}

fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => METADATA_V4.iter().any(|(known, _)| *known == address),
        IpAddr::V6(address) => METADATA_V6.iter().any(|(known, _)| *known == address),
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    IPV4.iter().find(|row| row.net.contains(&address)).map_or(AddressClass::Public, |row| row.class)
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    if is_isatap(address) {
        return AddressClass::Isatap;
    }
    let named = IPV6.iter().find(|row| row.net.contains(&address));
    match named {
        Some(row) => row.class,
        None if GLOBAL_UNICAST.contains(&address) => AddressClass::Public,
        None => AddressClass::Unassigned,
    }
}

/// ISATAP (RFC 5214, 6.1) marks the interface identifier and not the prefix, so that a public prefix may carry a
/// private IPv4 address.
fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    matches!(segments[4], 0x0000 | 0x0200) && segments[5] == 0x5efe
}
