//! IPv6 addresses that carry an IPv4 address: operators' NAT64 prefixes (RFC 6052), and ISATAP (RFC 5214). Judges neither.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

use super::class::AddressClass;
use super::ranges::range_of;

/// A prefix that the operator's translators put before IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nat64Prefix(Ipv6Net);

/// Why a network is no NAT64 prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nat64PrefixError {
    #[error("{0} is not an IPv6 network of length 32, 40, 48, 56, 64 or 96 (RFC 6052)")]
    Length(IpNet),
    #[error("{0} has bits set behind its length")]
    HostBits(IpNet),
    #[error("{0} has bits 64 to 71 set, which RFC 6052 keeps zero")]
    UOctet(IpNet),
    #[error(
        "{0} is not inside 64:ff9b::/96, 64:ff9b:1::/48, fc00::/7 or public space, where translators' prefixes are"
    )]
    Space(IpNet),
}

/// Bits 64 to 71 stay zero in every form, so that they are skipped where the IPv4 address goes over them.
const U_OCTET: usize = 8;

impl TryFrom<IpNet> for Nat64Prefix {
    type Error = Nat64PrefixError;

    fn try_from(given: IpNet) -> Result<Nat64Prefix, Nat64PrefixError> {
        let IpNet::V6(net) = given else { return Err(Nat64PrefixError::Length(given)) };
        if !matches!(net.prefix_len(), 32 | 40 | 48 | 56 | 64 | 96) {
            return Err(Nat64PrefixError::Length(given));
        }
        if net.addr() != net.network() {
            return Err(Nat64PrefixError::HostBits(given));
        }
        if net.addr().octets()[U_OCTET] != 0 {
            return Err(Nat64PrefixError::UOctet(given));
        }
        // 64:ff9b::/96 and 64:ff9b:1::/48 are registered for this; elsewhere a prefix must be the operator's to route.
        let range = range_of(net.addr().into());
        match range.class {
            AddressClass::EmbedsIpv4 if range.is_nat64() && range.net.contains(&given) => Ok(Nat64Prefix(net)),
            AddressClass::UniqueLocal | AddressClass::Public => Ok(Nat64Prefix(net)),
            _ => Err(Nat64PrefixError::Space(given)),
        }
    }
}

impl Nat64Prefix {
    pub(crate) fn net(self) -> Ipv6Net {
        self.0
    }

    pub(super) fn contains(self, address: Ipv6Addr) -> bool {
        self.0.contains(&address)
    }

    /// The IPv4 address inside (RFC 6052, section 2.2); none where the octet that must be zero is not. What stands behind
    /// the IPv4 address is ignored, as translators ignore it.
    pub(super) fn carried(self, address: Ipv6Addr) -> Option<Ipv4Addr> {
        let octets = address.octets();
        if octets[U_OCTET] != 0 {
            return None;
        }
        let mut at = usize::from(self.0.prefix_len() / 8);
        let mut inner = [0; 4];
        for octet in &mut inner {
            if at == U_OCTET {
                at += 1;
            }
            *octet = octets[at];
            at += 1;
        }
        Some(inner.into())
    }
}

/// ISATAP (RFC 5214, 6.1) marks the interface identifier and not the prefix, so that a public prefix may carry a
/// private IPv4 address.
pub(super) fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    matches!(segments[4], 0x0000 | 0x0200) && segments[5] == 0x5efe
}
