//! Names to addresses through configured servers only: no hosts file, no search list, no system resolver. Judges no address.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use nix::errno::Errno;

use super::memory::Memory;

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
}

impl Default for ResolverLimits {
    fn default() -> Self {
        ResolverLimits {
            total: Duration::from_secs(5),
            question: Duration::from_secs(2),
            positive_max_ttl: Duration::from_secs(30),
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
    #[error("this machine could not ask")]
    Shortage,
    #[error("the name has more than {MAX_ANSWERS} addresses")]
    TooManyAddresses,
}

impl LookupError {
    /// Whether the servers, or some other party on their behalf, have said so. The rest is no word about the name.
    fn is_answer(self) -> bool {
        matches!(self, LookupError::NameNotFound | LookupError::NoAddress | LookupError::TooManyAddresses)
    }
}

/// A resolver with a short memory of its own. A configuration reload makes a new one, and so forgets.
pub(crate) struct Resolver {
    inner: TokioResolver,
    /// The servers one by one, where there are several.
    singly: Vec<TokioResolver>,
    limits: ResolverLimits,
    memory: Memory,
    answered: AtomicU64,
    /// The name that was last found to have addresses.
    found_last: Mutex<Option<Name>>,
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
        let asking = |servers: Vec<NameServerConfig>| {
            let config = ResolverConfig::from_name_servers(servers);
            let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            *builder.options_mut() = options(limits);
            builder.build().map_err(ResolverError::Build)
        };
        let singly = match servers.as_slice() {
            [_] => Vec::new(),
            several => several.iter().map(|server| asking(vec![server.clone()])).collect::<Result<_, _>>()?,
        };
        let inner = asking(servers)?;
        let (memory, found_last) = (Memory::default(), Mutex::default());
        Ok(Resolver { inner, singly, limits, memory, answered: AtomicU64::new(0), found_last })
    }

    /// How many questions the name servers have answered so far, be it with a no. What is remembered is not among them.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    /// Whether the name servers answer at all: they are asked for those of the root, and, since a server may know inner
    /// names alone, for the name that was found last. What others are answered meanwhile does not count: it may have
    /// been asked before the servers fell silent.
    pub(crate) async fn is_alive(&self, patience: Duration) -> bool {
        if self.is_answered(&Name::root(), RecordType::NS, patience / 2).await {
            return true;
        }
        let found_last = self.found_last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match found_last {
            Some(name) => self.is_answered(&name, RecordType::A, patience / 2).await,
            None => false,
        }
    }

    async fn is_answered(&self, name: &Name, kind: RecordType, patience: Duration) -> bool {
        match tokio::time::timeout(patience, self.ask(name, kind)).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => error.is_answer(),
            Err(_) => false,
        }
    }

    /// Every address of both families, asked together and always: a private AAAA must be seen even where a public
    /// A would do. A family that fails while the other answers is passed over, since nothing connects to what was
    /// not seen.
    pub(super) async fn addresses(&self, text: &str) -> Result<Vec<IpAddr>, LookupError> {
        if let Some(remembered) = self.memory.recall(text, Instant::now()) {
            return Ok(remembered);
        }
        // Boxed, since every attempt would carry what only a question needs.
        Box::pin(self.ask_for(text)).await
    }

    async fn ask_for(&self, text: &str) -> Result<Vec<IpAddr>, LookupError> {
        // A trailing dot makes the name absolute, so that no search domain is ever tried.
        let name = Name::from_ascii(format!("{text}.")).map_err(|_| LookupError::NameNotFound)?;
        let (v4, v6) = tokio::join!(self.family(&name, RecordType::A), self.family(&name, RecordType::AAAA));
        let whole = [&v4, &v6].into_iter().all(|family| family.as_ref().map_or_else(|e| e.is_answer(), |_| true));
        let times = [&v4, &v6].into_iter().filter_map(|family| family.as_ref().ok().map(|found| found.until));
        let until = times.min().filter(|_| whole);
        let addresses = merge(v4.map(|found| found.addresses), v6.map(|found| found.addresses))?;
        *self.found_last.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        if let Some(until) = until {
            let now = Instant::now();
            self.memory.keep(text, &addresses, until.min(now + self.limits.positive_max_ttl), now);
        }
        Ok(addresses)
    }

    async fn family(&self, name: &Name, family: RecordType) -> Result<Found, LookupError> {
        let lookup = match tokio::time::timeout(self.limits.total, self.ask(name, family)).await {
            Ok(answered) => answered?,
            Err(_) => return Err(LookupError::Timeout),
        };
        let addresses = lookup.answers().iter().filter_map(|record| match &record.data {
            RData::A(address) => Some(IpAddr::V4(address.0)),
            RData::AAAA(address) => Some(IpAddr::V6(address.0)),
            _ => None,
        });
        Ok(Found { addresses: addresses.collect(), until: lookup.valid_until() })
    }

    /// One question to the servers, and one more to each by itself where the one that was first to say anything said
    /// that it could not tell: another may know.
    async fn ask(&self, name: &Name, kind: RecordType) -> Result<Lookup, LookupError> {
        let mut answer = self.inner.lookup(name.clone(), kind).await;
        for server in &self.singly {
            if !matches!(answer, Err(NetError::Dns(DnsError::ResponseCode(_)))) {
                break;
            }
            answer = server.lookup(name.clone(), kind).await;
        }
        let answer = answer.map_err(|error| reason(&error));
        if answer.as_ref().map_or_else(|error| error.is_answer(), |_| true) {
            self.answered.fetch_add(1, Ordering::Release);
        }
        answer
    }
}

/// What one family came to.
struct Found {
    addresses: Vec<IpAddr>,
    until: Instant,
}

fn options(limits: ResolverLimits) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.ndots = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = limits.question;
    options.attempts = 2;
    // Over one TCP connection, which answers that did not fit are asked for again on: no fewer than the slots can ask for.
    options.max_active_requests = 4096;
    // Answers are remembered here and not there, so that it is known which ones the servers gave just now.
    options.cache_size = 0;
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
        LookupError::Shortage => 0,
        LookupError::Timeout => 1,
        LookupError::Unreachable => 2,
        LookupError::Refused => 3,
        LookupError::TooManyAddresses => 4,
        LookupError::NoAddress => 5,
        LookupError::NameNotFound => 6,
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
        NetError::Io(error) if is_shortage(error) => LookupError::Shortage,
        _ => LookupError::Unreachable,
    }
}

/// Descriptors or memory, which the name servers cannot be blamed for.
fn is_shortage(error: &std::io::Error) -> bool {
    let ours = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
    error.raw_os_error().is_some_and(|code| ours.contains(&Errno::from_raw(code)))
}
