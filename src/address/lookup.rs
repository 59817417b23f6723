//! Names to addresses through configured servers only: no hosts file, no search list, no system resolver. Judges no address.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};

#[cfg(test)]
mod tests;

/// Past this many answers a forbidden one could hide behind those that are looked at (reliability anchors, 3.3).
pub(super) const MAX_ANSWERS: usize = 32;

/// Bounds of one lookup and of what is remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResolverLimits {
    /// For each of the two families, which are asked at the same time.
    pub(crate) total: Duration,
    /// For one question to one server, before it is put again.
    pub(crate) question: Duration,
    pub(crate) positive_max_ttl: Duration,
    pub(crate) negative_max_ttl: Duration,
}

impl Default for ResolverLimits {
    fn default() -> Self {
        ResolverLimits {
            total: Duration::from_secs(5),
            question: Duration::from_secs(2),
            positive_max_ttl: Duration::from_secs(30),
            negative_max_ttl: Duration::from_secs(1),
        }
    }
}

/// Why a resolver cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolverError {
    #[error("no name server is configured and none could be read from the system")]
    System(#[source] NetError),
    #[error("no name server is configured")]
    NoServer,
    #[error("the resolver could not be built")]
    Build(#[source] NetError),
}

/// Why a name has no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("the name does not exist")]
    NameNotFound,
    #[error("the name exists but has no address")]
    NoAddress,
    #[error("the name servers answered with an error")]
    Refused,
    #[error("the name servers could not be asked")]
    Unreachable,
    #[error("the name servers did not answer in time")]
    Timeout,
    #[error("the name has more than {MAX_ANSWERS} addresses")]
    TooManyAddresses,
}

/// A resolver with a short memory of its own. A configuration reload makes a new one, and so forgets.
#[derive(Clone)]
pub(crate) struct Resolver {
    inner: TokioResolver,
    limits: ResolverLimits,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Resolver {
    /// The name servers of `/etc/resolv.conf`, and nothing else of that file.
    pub(crate) fn system() -> Result<Resolver, ResolverError> {
        let (config, _) = hickory_resolver::system_conf::read_system_conf().map_err(ResolverError::System)?;
        let (_, _, servers) = config.into_parts();
        Resolver::build(servers, ResolverLimits::default())
    }

    pub(crate) fn with_servers(servers: &[SocketAddr]) -> Result<Resolver, ResolverError> {
        Resolver::with_limits(servers, ResolverLimits::default())
    }

    pub(crate) fn with_limits(servers: &[SocketAddr], limits: ResolverLimits) -> Result<Resolver, ResolverError> {
        let servers = servers.iter().map(|server| {
            let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            for connection in &mut connections {
                connection.port = server.port();
            }
            NameServerConfig::new(server.ip(), true, connections.to_vec())
        });
        Resolver::build(servers.collect(), limits)
    }

    fn build(servers: Vec<NameServerConfig>, limits: ResolverLimits) -> Result<Resolver, ResolverError> {
        if servers.is_empty() {
            return Err(ResolverError::NoServer);
        }
        let mut builder = TokioResolver::builder_with_config(
            ResolverConfig::from_name_servers(servers),
            TokioRuntimeProvider::default(),
        );
        *builder.options_mut() = options(limits);
        let inner = builder.build().map_err(ResolverError::Build)?;
        Ok(Resolver { inner, limits })
    }

    /// Every address of both families, asked together and always: a private AAAA must be seen even where a public
    /// A would do. A family that fails while the other answers is passed over, since nothing connects to what was
    /// not seen.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        // A trailing dot makes the name absolute, so that no search domain is ever tried.
        let name = Name::from_ascii(format!("{name}.")).map_err(|_| LookupError::NameNotFound)?;
        let (v4, v6) = tokio::join!(self.family(&name, RecordType::A), self.family(&name, RecordType::AAAA));
        merge(v4, v6)
    }

    async fn family(&self, name: &Name, family: RecordType) -> Result<Vec<IpAddr>, LookupError> {
        let asking = self.inner.lookup(name.clone(), family);
        let lookup = match tokio::time::timeout(self.limits.total, asking).await {
            Ok(answered) => answered.map_err(|error| reason(&error))?,
            Err(_) => return Err(LookupError::Timeout),
        };
        let addresses = lookup.answers().iter().filter_map(|record| match &record.data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        Ok(addresses.collect())
    }
}

fn options(limits: ResolverLimits) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.ndots = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = limits.question;
    options.attempts = 2;
    // No lower bound on a TTL: an answer of TTL 0 is used once and not remembered.
    options.positive_min_ttl = None;
    options.positive_max_ttl = Some(limits.positive_max_ttl);
    options.negative_max_ttl = Some(limits.negative_max_ttl);
    options
}

fn merge(
    v4: Result<Vec<IpAddr>, LookupError>,
    v6: Result<Vec<IpAddr>, LookupError>,
) -> Result<Vec<IpAddr>, LookupError> {
    let (v4, v6) = match (v4, v6) {
        (Ok(v4), Ok(v6)) => (v4, v6),
        (Ok(addresses), Err(error)) | (Err(error), Ok(addresses)) if addresses.is_empty() => {
            return Err(least_final(LookupError::NoAddress, error));
        }
        (Ok(v4), Err(_)) => (v4, Vec::new()),
        (Err(_), Ok(v6)) => (Vec::new(), v6),
        (Err(one), Err(other)) => return Err(least_final(one, other)),
    };
    if v4.len() + v6.len() > MAX_ANSWERS {
        return Err(LookupError::TooManyAddresses);
    }
    let addresses = interleaved(v4, v6);
    if addresses.is_empty() { Err(LookupError::NoAddress) } else { Ok(addresses) }
}

/// Families in turn, so that the few addresses that are tried are not all of one. IPv4 goes first: receivers
/// without it are rare, daemons in networks without IPv6 are not, and where IPv4 is absent it fails at once.
fn interleaved(v4: Vec<IpAddr>, v6: Vec<IpAddr>) -> Vec<IpAddr> {
    let mut v6 = v6.into_iter();
    let mut all = Vec::new();
    for address in v4 {
        all.push(address);
        all.extend(v6.next());
    }
    all.extend(v6);
    all
}

/// A family that could not be asked leaves open what it would have said, so that its failure wins over a "no".
fn least_final(one: LookupError, other: LookupError) -> LookupError {
    let finality = |error: LookupError| match error {
        LookupError::Timeout => 0,
        LookupError::Unreachable => 1,
        LookupError::Refused => 2,
        LookupError::TooManyAddresses => 3,
        LookupError::NoAddress => 4,
        LookupError::NameNotFound => 5,
    };
    if finality(one) <= finality(other) { one } else { other }
}

fn reason(error: &NetError) -> LookupError {
    match error {
        NetError::Timeout => LookupError::Timeout,
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => LookupError::NameNotFound,
            ResponseCode::NoError => LookupError::NoAddress,
            _ => LookupError::Refused,
        },
        NetError::Dns(_) => LookupError::Refused,
        _ => LookupError::Unreachable,
    }
}
