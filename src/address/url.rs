//! From the stored URL to the one host and port that may be connected to, or a typed refusal. Pure: looks up no name and judges no address.

use std::net::IpAddr;
use std::str::FromStr;

use rustls_pki_types::{DnsName, ServerName};
use url::{Host, Url};

use crate::signature::Target;

#[cfg(test)]
mod tests;

/// The limit of the writers of the outbox (SDK 9.2.0): no row with a longer URL can have been made by them.
const MAX_URL_CHARS: usize = 2048;

const HTTPS_PORT: u16 = 443;

/// Where a row wants to go: what its URL says, accepted but not yet looked up.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    pub(super) place: Place,
    pub(super) server_name: ServerName<'static>,
    port: u16,
    target: Target,
}

/// The host as the URL standard reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A lower-case A-label name without its root dot.
    Name(String),
    Literal(IpAddr),
}

/// Why a URL is refused. All of these are the row's fault and none can heal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("the URL is longer than {MAX_URL_CHARS} characters")]
    TooLong,
    #[error("the URL holds a control character")]
    ControlCharacter,
    #[error("the URL does not begin with https://")]
    NotHttps,
    #[error("the URL has no host")]
    NoHost,
    #[error("the URL carries user information")]
    UserInfo,
    #[error("the URL's authority holds a character that hosts do not have")]
    AuthorityCharacter,
    #[error("the URL's host cannot be a host name")]
    Host,
    #[error("the URL's host is a number that is not a plain IPv4 address")]
    AmbiguousHost,
    #[error("the URL's host is written otherwise than it is looked up")]
    HostSpelling,
    #[error("the URL's host is a special-use or single-label name")]
    SpecialUseName,
    #[error("the URL's port is not between 1 and 65535")]
    Port,
    #[error("the URL's port is not among the allowed ports")]
    PortNotAllowed,
    #[error("the URL cannot be parsed")]
    Unparsable,
    #[error("the URL has no request target that can be signed and sent")]
    Target,
    #[error("the URL names different hosts or ports to different parsers")]
    Disagreement,
}

impl UrlError {
    /// For machines; these never change.
    pub(crate) fn code(self) -> &'static str {
        match self {
            UrlError::TooLong => "too_long",
            UrlError::ControlCharacter => "control_character",
            UrlError::NotHttps => "not_https",
            UrlError::NoHost => "no_host",
            UrlError::UserInfo => "user_info",
            UrlError::AuthorityCharacter => "authority_character",
            UrlError::Host => "host",
            UrlError::AmbiguousHost => "ambiguous_host",
            UrlError::HostSpelling => "host_spelling",
            UrlError::SpecialUseName => "special_use_name",
            UrlError::Port => "port",
            UrlError::PortNotAllowed => "port_not_allowed",
            UrlError::Unparsable => "unparsable",
            UrlError::Target => "target",
            UrlError::Disagreement => "disagreement",
        }
    }
}

/// What the operator changed about the rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct UrlRules {
    allow_hosts: Vec<HostPattern>,
    ports: Vec<u16>,
}

impl UrlRules {
    /// `allow_hosts` opens special-use and single-label names; it never narrows. `ports` narrows when not empty.
    pub(crate) fn new(allow_hosts: Vec<HostPattern>, ports: Vec<u16>) -> UrlRules {
        UrlRules { allow_hosts, ports }
    }

    fn opens(&self, name: &str) -> bool {
        self.allow_hosts.iter().any(|pattern| pattern.matches(name))
    }
}

/// An exact host name, or `*.suffix` for every name below the suffix (not the suffix itself).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPattern {
    name: String,
    below: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a host pattern is a host name, or `*.` and a host name")]
pub(crate) struct HostPatternError;

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<HostPattern, HostPatternError> {
        let (name, below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        match Host::parse(name.strip_suffix('.').unwrap_or(name)) {
            Ok(Host::Domain(name)) if is_host_name(&name) => Ok(HostPattern { name, below }),
            _ => Err(HostPatternError),
        }
    }
}

impl HostPattern {
    fn matches(&self, name: &str) -> bool {
        if self.below { is_below(name, &self.name) } else { name == self.name }
    }
}

impl Destination {
    /// `url::Url` alone decides host and port, for the policy and the connection. What is signed and sent is made
    /// from the stored text by the signature room; where the two name different places, the URL is refused.
    pub(crate) fn parse(text: &str, rules: &UrlRules) -> Result<Destination, UrlError> {
        if text.chars().nth(MAX_URL_CHARS).is_some() {
            return Err(UrlError::TooLong);
        }
        // url::Url drops TAB, CR and LF and trims the rest; a text that needs that is not the text that was signed.
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(UrlError::ControlCharacter);
        }
        let authority = raw_authority(text)?;
        let url = Url::parse(text).map_err(refusal)?;
        let place = place(&url, authority)?;
        let port = match url.port_or_known_default() {
            Some(port) if port != 0 => port,
            _ => return Err(UrlError::Port),
        };
        let target = Target::parse(text).map_err(|_| UrlError::Target)?;
        // hyper is given the request target through this type; what it cannot hold could not be sent as signed.
        http::uri::PathAndQuery::try_from(target.request_target.as_str()).map_err(|_| UrlError::Target)?;
        if !agrees(&place, port, &target) {
            return Err(UrlError::Disagreement);
        }
        if let Place::Name(name) = &place
            && is_special_use(name)
            && !rules.opens(name)
        {
            return Err(UrlError::SpecialUseName);
        }
        if !rules.ports.is_empty() && !rules.ports.contains(&port) {
            return Err(UrlError::PortNotAllowed);
        }
        let server_name = server_name(&place)?;
        Ok(Destination { place, server_name, port, target })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The host as it is looked up or dialled: an A-label name without its root dot, or an address without brackets.
    pub(crate) fn host(&self) -> String {
        match &self.place {
            Place::Name(name) => name.clone(),
            Place::Literal(address) => address.to_string(),
        }
    }

    /// Whether the host is an address, which nobody is asked about.
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self.place, Place::Literal(_))
    }

    /// Host and port, for fairness between destinations and for logs: never a path, query or user.
    pub(crate) fn origin(&self) -> String {
        match &self.place {
            Place::Name(name) => format!("{name}:{}", self.port),
            Place::Literal(address) => std::net::SocketAddr::new(*address, self.port).to_string(),
        }
    }
}

/// The text between `https://` and the next `/`, `?` or `#`, refused where parsers are known to differ about it.
fn raw_authority(text: &str) -> Result<&str, UrlError> {
    let rest = match text.split_at_checked("https://".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https://") => rest,
        _ => return Err(UrlError::NotHttps),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    // url::Url ends the authority at a backslash, RFC 3986 parsers do not: `a.example\@b.example` names both hosts.
    if authority.contains(['\\', ' ']) {
        return Err(UrlError::AuthorityCharacter);
    }
    if authority.contains('@') {
        return Err(UrlError::UserInfo);
    }
    // Covers escapes that url::Url would decode into a host, and the zone of an IPv6 address.
    if authority.contains('%') {
        return Err(UrlError::AuthorityCharacter);
    }
    if authority.is_empty() { Err(UrlError::NoHost) } else { Ok(authority) }
}

fn refusal(error: url::ParseError) -> UrlError {
    match error {
        url::ParseError::EmptyHost => UrlError::NoHost,
        url::ParseError::InvalidPort => UrlError::Port,
        url::ParseError::InvalidIpv4Address => UrlError::AmbiguousHost,
        url::ParseError::IdnaError | url::ParseError::InvalidIpv6Address | url::ParseError::InvalidDomainCharacter => {
            UrlError::Host
        }
        _ => UrlError::Unparsable,
    }
}

fn place(url: &Url, authority: &str) -> Result<Place, UrlError> {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            if !is_host_name(name) {
                return Err(UrlError::Host);
            }
            if !is_spelt_out(authority, name) {
                return Err(UrlError::HostSpelling);
            }
            Ok(Place::Name(name.to_owned()))
        }
        Some(Host::Ipv4(address)) => {
            // The URL standard reads 0x7f.1, 2130706433 and fullwidth digits as addresses; resolvers and the
            // signature read them as they stand.
            let typed = authority.split_once(':').map_or(authority, |(host, _)| host);
            if typed != address.to_string() {
                return Err(UrlError::AmbiguousHost);
            }
            Ok(Place::Literal(IpAddr::V4(address)))
        }
        Some(Host::Ipv6(address)) => Ok(Place::Literal(IpAddr::V6(address))),
        None => Err(UrlError::NoHost),
    }
}

/// Whether the text names the host letter by letter, case apart. The mapping of international names also folds widths
/// and compositions and drops what cannot be seen, so that a text may show one name and mean another; the SDK stores no
/// such URL (httpx refuses it).
fn is_spelt_out(authority: &str, name: &str) -> bool {
    let typed = authority.split_once(':').map_or(authority, |(host, _)| host);
    if typed.is_ascii() {
        return true;
    }
    let (shown, readable) = idna::domain_to_unicode(name);
    readable.is_ok() && shown == typed.strip_suffix('.').unwrap_or(typed).to_lowercase()
}

/// What UTS 46 takes for a host name at its strictest, and a certificate can name: letters, digits and inner hyphens, as the
/// SDK has it too, which posts to no other. The one root dot is gone by now; a second would leave an empty label.
fn is_host_name(name: &str) -> bool {
    let strict = idna::domain_to_ascii_strict(name).is_ok_and(|strict| strict == name);
    strict && !name.ends_with('.') && DnsName::try_from(name).is_ok()
}

fn agrees(place: &Place, port: u16, target: &Target) -> bool {
    let host = target.host();
    let same_host = match place {
        Place::Name(name) => name == host,
        Place::Literal(address) => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            bare.parse() == Ok(*address)
        }
    };
    // The signature room names a port only where it is not the scheme's own.
    same_host && target.port().unwrap_or(HTTPS_PORT) == port
}

fn server_name(place: &Place) -> Result<ServerName<'static>, UrlError> {
    match place {
        Place::Name(name) => ServerName::try_from(name.clone()).map_err(|_| UrlError::Host),
        Place::Literal(address) => Ok(ServerName::IpAddress((*address).into())),
    }
}

/// Names that the public DNS does not serve (RFC 6761, 6762, 7686, 8375, ICANN's reserved `.internal`), and names
/// of one label, which only a search list could complete.
fn is_special_use(name: &str) -> bool {
    const RESERVED: [&str; 7] = ["localhost", "local", "internal", "home.arpa", "onion", "test", "invalid"];
    !name.contains('.') || RESERVED.iter().any(|suffix| name == *suffix || is_below(name, suffix))
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}
