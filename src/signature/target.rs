//! The canonical target of a request: `@target-uri`, `@authority`, and the request target that is really sent. It works
//! on the text of the URL alone and decides nothing about where a connection may go; `url::Url` decides that.

use std::net::Ipv6Addr;

/// The longest callback URL that a registration accepts, in characters.
const MAX_URL_CHARS: usize = 2048;

/// Where a request goes, in the three spellings that must agree: the receiver rebuilds `@target-uri` and `@authority`
/// from `Host` and the request target, so all of them are rendered here, from one parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) target_uri: String,
    pub(crate) authority: String,
    pub(crate) request_target: String,
    host: String,
    port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("the URL is longer than {MAX_URL_CHARS} characters")]
    TooLong,
    #[error("the URL has a control character")]
    ControlCharacter,
    #[error("the URL is neither http nor https")]
    Scheme,
    #[error("the URL has no host")]
    NoHost,
    #[error("the URL has an IPv6 address without its brackets, or with a broken one")]
    Brackets,
    #[error("the URL has an IPv6 zone identifier")]
    Zone,
    #[error("the port of the URL is not a number from 0 to 65535")]
    Port,
    #[error("the host of the URL has an empty label")]
    EmptyLabel,
    #[error("the host of the URL is not a valid name")]
    Host,
}

impl Target {
    /// Reads the stored text of a callback URL. Characters that may not stand in a request target are percent-encoded
    /// in `@target-uri` and on the wire alike; the reference signs the raw form and sends the encoded one, which no
    /// receiver can verify.
    pub(crate) fn parse(url_text: &str) -> Result<Target, TargetError> {
        if url_text.chars().nth(MAX_URL_CHARS).is_some() {
            return Err(TargetError::TooLong);
        }
        let parts = Parts::split(url_text)?;
        let named = Named::read(parts.authority, parts.https)?;
        let path = remove_dot_segments(parts.path);
        let mut request_target = encode(&path, unsafe_in_path);
        let mut canonical_path = encode(&normalize_escapes(&path), unsafe_in_path);
        if let Some(query) = parts.query {
            let query = encode(query, unsafe_in_query);
            for text in [&mut request_target, &mut canonical_path] {
                text.push('?');
                text.push_str(&query);
            }
        }
        let authority = named.authority();
        Ok(Target {
            target_uri: format!("{}://{authority}{canonical_path}", parts.scheme()),
            authority,
            request_target,
            port: named.port,
            host: named.host,
        })
    }

    /// The host as the text names it: lower case, A-labels, no trailing dot; an IPv6 literal keeps its brackets and is
    /// not compressed anew.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The port that the text names, unless it is the scheme's own.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }
}

/// `@target-uri` and `@authority` of a request that was received: as it came, with nothing encoded on its behalf.
pub(super) struct Canonical {
    pub(super) target_uri: String,
    pub(super) authority: String,
}

pub(super) fn received(url_text: &str) -> Result<Canonical, TargetError> {
    let parts = Parts::split(url_text)?;
    let authority = Named::read(parts.authority, parts.https)?.authority();
    let path = normalize_escapes(&remove_dot_segments(parts.path));
    let mark = if parts.query.is_some() { "?" } else { "" };
    let target_uri = format!("{}://{authority}{path}{mark}{}", parts.scheme(), parts.query.unwrap_or_default());
    Ok(Canonical { target_uri, authority })
}

/// Refuses an authority whose host cannot be told from its port, or that has none.
pub(super) fn check_authority_shape(authority: &str) -> Result<(), TargetError> {
    split_authority(authority).map(drop)
}

/// The raw authority of a URL, for the check that a receiver makes before it converts anything.
pub(super) fn raw_authority(url_text: &str) -> Option<&str> {
    Parts::split(url_text).ok().map(|parts| parts.authority)
}

struct Parts<'a> {
    https: bool,
    authority: &'a str,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn split(url_text: &'a str) -> Result<Self, TargetError> {
        if url_text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(TargetError::ControlCharacter);
        }
        let (scheme, rest) = url_text.split_once(':').ok_or(TargetError::Scheme)?;
        let https = match scheme {
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err(TargetError::Scheme),
        };
        let rest = rest.strip_prefix("//").ok_or(TargetError::NoHost)?;
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (before, query) = rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
        let (authority, path) = before.split_at(before.find('/').unwrap_or(before.len()));
        Ok(Parts { https, authority, path, query })
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}

struct SplitAuthority<'a> {
    host: &'a str,
    port: Option<&'a str>,
}

fn split_authority(authority: &str) -> Result<SplitAuthority<'_>, TargetError> {
    let rest = authority.rsplit_once('@').map_or(authority, |(_, rest)| rest);
    let (host, port) = if rest.starts_with('[') {
        let end = rest.find(']').ok_or(TargetError::Brackets)?;
        let (literal, tail) = rest.split_at(end + 1);
        if literal.contains('%') {
            return Err(TargetError::Zone);
        }
        match tail.strip_prefix(':') {
            Some(port) => (literal, Some(port)),
            None if tail.is_empty() => (literal, None),
            None => return Err(TargetError::Brackets),
        }
    } else {
        match rest.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(TargetError::Brackets),
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        }
    };
    if host.is_empty() {
        return Err(TargetError::NoHost);
    }
    Ok(SplitAuthority { host, port })
}

struct Named {
    host: String,
    /// `None` where the text names no port or the scheme's own.
    port: Option<u16>,
}

impl Named {
    fn read(authority: &str, https: bool) -> Result<Self, TargetError> {
        let split = split_authority(authority)?;
        let port = split.port.map(parse_port).transpose()?.flatten();
        let default = if https { 443 } else { 80 };
        Ok(Named { host: canonical_host(split.host)?, port: port.filter(|port| *port != default) })
    }

    fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }
}

/// `None` for the empty port that RFC 3986 allows. Only ASCII digits: other digits would name the same port in a
/// spelling that a receiver may not fold.
fn parse_port(text: &str) -> Result<Option<u16>, TargetError> {
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TargetError::Port);
    }
    text.parse().map(Some).map_err(|_| TargetError::Port)
}

fn canonical_host(host: &str) -> Result<String, TargetError> {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or(TargetError::Brackets)?;
        inner.parse::<Ipv6Addr>().map_err(|_| TargetError::Brackets)?;
        return Ok(host.to_ascii_lowercase());
    }
    // One root dot goes before the labels are judged, so that both spellings of a name sign alike.
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.split('.').any(str::is_empty) {
        return Err(TargetError::EmptyLabel);
    }
    if !host.is_ascii() {
        return idna::domain_to_ascii_strict(host).map_err(|_| TargetError::Host);
    }
    // The reg-name of RFC 3986 without escapes: underscores and odd labels pass, nothing that parsers split on does.
    if host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)) {
        Ok(host.to_ascii_lowercase())
    } else {
        Err(TargetError::Host)
    }
}

/// RFC 3986 section 5.2.4 on literal dots. Encoded dots are left alone, because they are decoded only afterwards.
fn remove_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => {
                kept.push(segment);
                continue;
            }
        }
        // A dot segment at the end names a directory: its slash stays.
        if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

/// Upper-cases `%XX` and decodes the unreserved ones; a `%` that begins no escape is left as it is.
fn normalize_escapes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        match rest.as_bytes().get(at + 1..at + 3).and_then(hex_byte) {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => out.push(char::from(byte)),
            Some(byte) => out.push_str(&format!("%{byte:02X}")),
            None => {
                out.push('%');
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    out
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(digits[0])? * 16 + digit(digits[1])?;
    u8::try_from(value).ok()
}

/// The characters that httpx encodes, so that both fleets send the same request target.
fn unsafe_in_path(c: char) -> bool {
    unsafe_in_query(c) || matches!(c, '`' | '{' | '}')
}

fn unsafe_in_query(c: char) -> bool {
    !c.is_ascii() || matches!(c, ' ' | '"' | '<' | '>')
}

fn encode(text: &str, is_unsafe: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            let mut utf8 = [0; 4];
            for byte in c.encode_utf8(&mut utf8).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests;
