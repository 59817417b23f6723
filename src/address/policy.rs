//! Which addresses a delivery may be sent to: the table of ranges, and what the operator changed about it. Pure: no names, no DNS, no sockets.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use super::class::AddressClass;
use super::embedded::{Nat64Prefix, is_isatap};
use super::ranges::{Range, range_of};

#[cfg(test)]
mod tests;

/// The table and what the operator and the machine add to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policy {
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
    /// Longest first: of nested prefixes the narrower says how an address is read.
    nat64: Vec<Nat64Prefix>,
    own: Vec<IpAddr>,
}

/// What the policy says of one address, and what made it say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) class: AddressClass,
    pub(crate) rule: Rule,
    /// The IPv4 address that was judged in place of the IPv6 address which carries it.
    pub(crate) carried: Option<Ipv4Addr>,
}

/// What decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A row of the table.
    Range(&'static Range),
    /// An entry of the operator's allow list, over this row of the table.
    Allow(IpNet, &'static Range),
    /// An entry of the operator's deny list.
    Deny(IpNet),
    /// An interface of this machine has the address.
    Own,
    /// The interface identifier that marks ISATAP.
    Isatap,
    /// Inside a prefix of the operator's translators, but of no form that they make.
    Nat64(Nat64Prefix),
}

impl Policy {
    /// `allow` opens private, shared, loopback, benchmarking and unique-local ranges and nothing else. `deny`
    /// closes what it names, whatever `allow` says.
    pub(crate) fn new(allow: Vec<IpNet>, deny: Vec<IpNet>) -> Policy {
        Policy {
            allow: allow.into_iter().map(unmapped_net).collect(),
            deny: deny.into_iter().map(unmapped_net).collect(),
            ..Policy::default()
        }
    }

    /// An address behind one of these prefixes is judged as the IPv4 address that it carries.
    pub(crate) fn with_nat64(mut self, mut prefixes: Vec<Nat64Prefix>) -> Policy {
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.net().prefix_len()));
        self.nat64 = prefixes;
        self
    }

    /// This machine's addresses are refused but for those that `allow` names alone, by a network of full length. Loopback
    /// is a class of its own, which `allow` opens as any other.
    pub(crate) fn with_own(mut self, own: Vec<IpAddr>) -> Policy {
        self.own = own.into_iter().map(unmapped).collect();
        self
    }

    /// Judges the address that a connection would really be made to: a mapped IPv4 address is judged as IPv4.
    pub(crate) fn judge(&self, address: IpAddr) -> Judgement {
        let address = unmapped(address);
        let outer = self.judge_itself(address);
        let IpAddr::V6(v6) = address else { return outer };
        let Some(prefix) = self.nat64.iter().find(|prefix| prefix.contains(v6)) else { return outer };
        // What is held against the address as it stands, no translation takes back; but where prefixes may be, the IPv4
        // address inside is the whole question.
        use AddressClass::{Admitted, EmbedsIpv4, Public, UniqueLocal};
        if !matches!(outer.class, Admitted | EmbedsIpv4 | Public | UniqueLocal) {
            return outer;
        }
        match prefix.carried(v6) {
            Some(inner) => Judgement { carried: Some(inner), ..self.judge_itself(IpAddr::V4(inner)) },
            None => Judgement { class: AddressClass::EmbedsIpv4, rule: Rule::Nat64(*prefix), carried: None },
        }
    }

    pub(crate) fn classify(&self, address: IpAddr) -> AddressClass {
        self.judge(address).class
    }

    fn judge_itself(&self, address: IpAddr) -> Judgement {
        let range = range_of(address);
        let (class, rule) = self.rule(address, range);
        Judgement { class, rule, carried: None }
    }

    /// The order is the policy: nothing opens metadata, `deny` beats `allow`, and `allow` beats the table only where its
    /// class lets it.
    fn rule(&self, address: IpAddr, range: &'static Range) -> (AddressClass, Rule) {
        if range.class == AddressClass::Metadata {
            return (AddressClass::Metadata, Rule::Range(range));
        }
        if let Some(net) = self.deny.iter().find(|net| net.contains(&address)) {
            return (AddressClass::Denied, Rule::Deny(*net));
        }
        if let IpAddr::V6(v6) = address
            && is_isatap(v6)
        {
            return (AddressClass::Isatap, Rule::Isatap);
        }
        let own = range.class != AddressClass::Loopback && self.own.contains(&address);
        let openable = range.class.may_be_admitted() || (own && range.class == AddressClass::Public);
        let mut opening = self.allow.iter().filter(|net| net.contains(&address));
        match opening.find(|net| !own || net.prefix_len() == net.max_prefix_len()) {
            Some(net) if openable => (AddressClass::Admitted, Rule::Allow(*net, range)),
            _ if own => (AddressClass::OwnAddress, Rule::Own),
            _ => (range.class, Rule::Range(range)),
        }
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
