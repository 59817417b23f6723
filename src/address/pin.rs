//! The one way to a `Pinned`: every address behind a destination has passed the policy. Opens no connection.

use std::net::{IpAddr, SocketAddr};

use rustls_pki_types::ServerName;

use super::class::AddressClass;
use super::lookup::{LookupError, Resolver};
use super::policy::{Judgement, Policy, unmapped};
use super::url::{Destination, Place};

#[cfg(test)]
mod tests;

/// How many addresses one attempt may try (RFC 8305 leaves it open; more only spends the deadline).
const MAX_PINNED: usize = 4;

/// Addresses that the policy passed for this attempt, and the name that the certificate must bear. Only [`pin`]
/// makes one, so that nothing can be sent to an address that was not judged.
#[derive(Debug, Clone)]
pub(crate) struct Pinned {
    addresses: Vec<SocketAddr>,
    server_name: ServerName<'static>,
}

impl Pinned {
    /// At least one, in the order to try.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn server_name(&self) -> &ServerName<'static> {
        &self.server_name
    }
}

/// Why there is nothing to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PinError {
    #[error("the name has a forbidden address ({class})")]
    Forbidden { addr: IpAddr, class: AddressClass },
    #[error("the URL names a forbidden address ({class})")]
    ForbiddenLiteral { addr: IpAddr, class: AddressClass },
    #[error("the name does not exist")]
    NameNotFound,
    #[error("the name exists but has no address")]
    NoAddress,
    #[error("the name could not be looked up: {0}")]
    Dns(LookupError),
    #[error("the name was not looked up in time")]
    Timeout,
    #[error("this machine could not look the name up")]
    Shortage,
    #[error("the name has too many addresses to judge")]
    TooManyAddresses,
}

impl PinError {
    /// Whether nobody has said anything about the name: it may be the name, and it may be the name servers.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, PinError::Dns(_) | PinError::Timeout)
    }
}

impl From<LookupError> for PinError {
    fn from(error: LookupError) -> PinError {
        match error {
            LookupError::NameNotFound => PinError::NameNotFound,
            LookupError::NoAddress => PinError::NoAddress,
            LookupError::Timeout => PinError::Timeout,
            LookupError::Shortage => PinError::Shortage,
            LookupError::TooManyAddresses => PinError::TooManyAddresses,
            LookupError::Refused | LookupError::Unreachable => PinError::Dns(error),
        }
    }
}

/// What can be held against a destination without looking anything up: an address in it that no attempt may use.
pub(crate) fn judge_literal(dest: &Destination, policy: &Policy) -> Result<(), PinError> {
    let Place::Literal(addr) = dest.place else { return Ok(()) };
    let class = policy.classify(addr);
    if class.is_allowed() { Ok(()) } else { Err(PinError::ForbiddenLiteral { addr, class }) }
}

/// Every address behind a destination, each with what the policy says of it.
#[derive(Debug)]
pub(crate) struct Answers {
    judged: Vec<(IpAddr, Judgement)>,
}

/// Looks the destination up, and judges every answer. An address literal is its own one answer.
pub(crate) async fn look_up(dest: &Destination, policy: &Policy, resolver: &Resolver) -> Result<Answers, PinError> {
    let answers = match &dest.place {
        Place::Literal(address) => vec![*address],
        Place::Name(name) => resolver.addresses(name).await?,
    };
    Ok(Answers { judged: answers.into_iter().map(|addr| (addr, policy.judge(addr))).collect() })
}

impl Answers {
    pub(crate) fn judged(&self) -> &[(IpAddr, Judgement)] {
        &self.judged
    }

    /// Passed only if every single address may be used: one forbidden answer among good ones is an attack or a mistake,
    /// and neither is to be helped along.
    pub(crate) fn pinned(&self, dest: &Destination) -> Result<Pinned, PinError> {
        let mut addresses: Vec<SocketAddr> = Vec::with_capacity(MAX_PINNED);
        for (addr, Judgement { class, .. }) in self.judged.iter().copied() {
            if !class.is_allowed() {
                return Err(match dest.place {
                    Place::Literal(_) => PinError::ForbiddenLiteral { addr, class },
                    Place::Name(_) => PinError::Forbidden { addr, class },
                });
            }
            // Judged as IPv4, so dialled as IPv4.
            let address = SocketAddr::new(unmapped(addr), dest.port());
            if addresses.len() < MAX_PINNED && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(PinError::NoAddress);
        }
        Ok(Pinned { addresses, server_name: dest.server_name.clone() })
    }
}

/// Looks the destination up, afresh for every attempt, and passes what it may be connected by.
pub(crate) async fn pin(dest: &Destination, policy: &Policy, resolver: &Resolver) -> Result<Pinned, PinError> {
    look_up(dest, policy, resolver).await?.pinned(dest)
}
