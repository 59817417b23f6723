//! What an address can be, and by that whether it may be connected to. Knows no ranges; those are data beside it.

/// The verdict on one address, with its ground.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AddressClass {
    /// Globally routed and named by no refused range.
    Public,
    /// Private, or this machine's own, but opened by the operator's allow list.
    Admitted,
    /// On the operator's deny list.
    Denied,
    /// Serves credentials or configuration to the machine that asks. No configuration opens these.
    Metadata,
    /// An address of this machine's interfaces: what is posted to it comes back to us or to a neighbour in the process
    /// table, from an address that both may trust.
    OwnAddress,
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
    pub(crate) fn may_be_admitted(self) -> bool {
        matches!(
            self,
            AddressClass::PrivateUse
                | AddressClass::SharedSpace
                | AddressClass::Loopback
                | AddressClass::Benchmarking
                | AddressClass::UniqueLocal
        )
    }

    /// For people.
    pub(crate) fn words(self) -> &'static str {
        self.names().1
    }

    /// For machines; these never change.
    pub(crate) fn code(self) -> &'static str {
        self.names().0
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            AddressClass::Public => ("public", "public"),
            AddressClass::Admitted => ("admitted", "admitted by configuration"),
            AddressClass::Denied => ("denied", "denied by configuration"),
            AddressClass::Metadata => ("metadata", "metadata service"),
            AddressClass::OwnAddress => ("own_address", "this machine's own address"),
            AddressClass::ThisNetwork => ("this_network", "this network"),
            AddressClass::PrivateUse => ("private_use", "private use"),
            AddressClass::SharedSpace => ("shared_space", "shared address space"),
            AddressClass::Loopback => ("loopback", "loopback"),
            AddressClass::LinkLocal => ("link_local", "link local"),
            AddressClass::ProtocolAssignments => ("protocol_assignments", "protocol assignments"),
            AddressClass::Documentation => ("documentation", "documentation"),
            AddressClass::NameServiceSink => ("name_service_sink", "name service sink"),
            AddressClass::MulticastRelay => ("multicast_relay", "multicast relay"),
            AddressClass::SixToFour => ("six_to_four", "6to4"),
            AddressClass::Benchmarking => ("benchmarking", "benchmarking"),
            AddressClass::Multicast => ("multicast", "multicast"),
            AddressClass::Reserved => ("reserved", "reserved"),
            AddressClass::Unspecified => ("unspecified", "unspecified"),
            AddressClass::EmbedsIpv4 => ("embeds_ipv4", "carries an IPv4 address"),
            AddressClass::DiscardOnly => ("discard_only", "discard only"),
            AddressClass::UniqueLocal => ("unique_local", "unique local"),
            AddressClass::SiteLocal => ("site_local", "site local"),
            AddressClass::SegmentRouting => ("segment_routing", "segment routing"),
            AddressClass::Isatap => ("isatap", "ISATAP"),
            AddressClass::ReturnedSixBone => ("returned_6bone", "returned 6bone"),
            AddressClass::Unassigned => ("unassigned", "not global unicast"),
        }
    }
}

impl std::fmt::Display for AddressClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}
