//! Takes apart a connection string (URL or `key=value`) as far as tokio-postgres cannot read it: it knows
//! three of libpq's six sslmodes and no sslrootcert. Everything else goes on to it unread.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use zeroize::Zeroizing;

/// How much TLS to Postgres, with libpq's names and meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SslMode {
    Disable,
    /// libpq tries without TLS first; a server that takes both gets TLS from us.
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = DsnError;

    fn from_str(text: &str) -> Result<SslMode, DsnError> {
        Ok(match text {
            "disable" => SslMode::Disable,
            "allow" => SslMode::Allow,
            "prefer" => SslMode::Prefer,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => return Err(DsnError::SslMode),
        })
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SslMode::Disable => "disable",
            SslMode::Allow => "allow",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        })
    }
}

/// Says nothing of the string itself, since a password may be anywhere in a malformed one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DsnError {
    #[error(
        "the connection string is not valid: expected postgresql://user@host:port/database?key=value or \
         `host=... user=... dbname=...`, special characters in a URL percent-encoded"
    )]
    Malformed,
    #[error("sslmode must be one of disable, allow, prefer, require, verify-ca and verify-full")]
    SslMode,
    #[error("target_session_attrs must be any, read-write or primary: outboxd writes, and connects to no standby")]
    Standby,
    #[error("the connection string names several hosts, and not as many ports or hostaddrs")]
    Hosts,
    #[error("the connection string has `{0}`, which outboxd does not support")]
    Unsupported(&'static str),
}

/// Parameters that libpq knows and we cannot honour. Ignoring one could connect with less than was asked for.
const UNSUPPORTED: [&str; 15] = [
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "sslcrldir",
    "sslcertmode",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "requirepeer",
    "require_auth",
    "gssencmode",
    "krbsrvname",
    "passfile",
    "service",
    "replication",
];

pub(super) struct Dsn {
    /// What is left for tokio-postgres.
    pub(super) plain: Zeroizing<String>,
    pub(super) sslmode: Option<SslMode>,
    pub(super) sslrootcert: Option<PathBuf>,
}

impl Dsn {
    pub(super) fn parse(text: &str) -> Result<Dsn, DsnError> {
        // Room for every pair in quotes and escaped, and every host by itself: growing would leave unwiped pieces behind.
        let plain = Zeroizing::new(String::with_capacity(6 * text.len() + 8));
        let mut dsn = Dsn { plain, sslmode: None, sslrootcert: None };
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        if is_url {
            let (front, query) = text.split_once('?').unwrap_or((text, ""));
            dsn.plain.push_str(front);
            let mut separator = '?';
            for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                let (key, value) = pair.split_once('=').ok_or(DsnError::Malformed)?;
                if dsn.keep(key, &percent_decode(value)?)? {
                    continue;
                }
                // tokio-postgres takes a list of hosts only one by one.
                let hosts = value.replace("%2C", ",").replace("%2c", ",");
                let values: Vec<&str> = if key == "host" { hosts.split(',').collect() } else { vec![value] };
                for value in values {
                    dsn.plain.push(separator);
                    for part in [key, "=", value] {
                        dsn.plain.push_str(part);
                    }
                    separator = '&';
                }
            }
        } else {
            for (key, value) in pairs(text)? {
                if !dsn.keep(&key, &value)? {
                    dsn.plain.push_str(&key);
                    dsn.plain.push_str("='");
                    for c in value.chars() {
                        if matches!(c, '\\' | '\'') {
                            dsn.plain.push('\\');
                        }
                        dsn.plain.push(c);
                    }
                    dsn.plain.push_str("' ");
                }
            }
        }
        Ok(dsn)
    }

    /// Whether the parameter is one of ours.
    fn keep(&mut self, key: &str, value: &str) -> Result<bool, DsnError> {
        match key {
            "sslmode" => self.sslmode = Some(value.parse()?),
            "sslrootcert" => self.sslrootcert = Some(PathBuf::from(value)),
            // Whatever of these it says, it is read-write.
            "target_session_attrs" => match value {
                "any" | "read-write" | "primary" => {}
                _ => return Err(DsnError::Standby),
            },
            // These only steer what we do not do; anything but libpq's default is refused above or below.
            "fallback_application_name" | "client_encoding" | "sslcompression" | "sslsni" => {}
            _ => {
                return match UNSUPPORTED.iter().find(|name| **name == key) {
                    Some(name) => Err(DsnError::Unsupported(name)),
                    None => Ok(false),
                };
            }
        }
        Ok(true)
    }
}

/// libpq's `key = value` pairs: values quoted by `'` where they hold spaces, `\` before any character.
fn pairs(text: &str) -> Result<Vec<(String, Zeroizing<String>)>, DsnError> {
    let mut pairs = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.peek().is_none() {
            return Ok(pairs);
        }
        let mut key = String::new();
        while let Some(c) = rest.next_if(|c| *c != '=' && !c.is_whitespace()) {
            key.push(c);
        }
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.next() != Some('=') || key.is_empty() {
            return Err(DsnError::Malformed);
        }
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let quoted = rest.next_if_eq(&'\'').is_some();
        let mut value = Zeroizing::new(String::with_capacity(text.len()));
        loop {
            match rest.next() {
                Some('\\') => value.push(rest.next().ok_or(DsnError::Malformed)?),
                Some('\'') if quoted => break,
                Some(c) if !quoted && c.is_whitespace() => break,
                Some(c) => value.push(c),
                None if quoted => return Err(DsnError::Malformed),
                None => break,
            }
        }
        pairs.push((key, value));
    }
}

fn percent_decode(text: &str) -> Result<Zeroizing<String>, DsnError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or(DsnError::Malformed);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).map_err(|_| DsnError::Malformed)?);
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| DsnError::Malformed)?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Option<SslMode>, Option<PathBuf>) {
        let dsn = Dsn::parse(text).expect("a good connection string");
        (dsn.plain.to_string(), dsn.sslmode, dsn.sslrootcert)
    }

    #[test]
    fn our_parameters_are_taken_out_of_a_url_and_the_rest_is_left_as_it_was() {
        let (plain, mode, root) = parsed(
            "postgresql://me:p%40ss@db:6432/app?sslmode=verify-full&application_name=x%20y&sslrootcert=%2Fca%20s.pem",
        );
        assert_eq!(plain, "postgresql://me:p%40ss@db:6432/app?application_name=x%20y");
        assert_eq!((mode, root), (Some(SslMode::VerifyFull), Some(PathBuf::from("/ca s.pem"))));
        assert_eq!(parsed("postgres://db/app?sslmode=disable").0, "postgres://db/app");
        let hosts = "postgres:///app?host=/a%20b,/c%2cd&port=1,2,3";
        assert_eq!(parsed(hosts).0, "postgres:///app?host=/a%20b&host=/c&host=d&port=1,2,3");
    }

    #[test]
    fn our_parameters_are_taken_out_of_pairs_and_the_rest_keeps_its_values() {
        let (plain, mode, root) =
            parsed(r"host=db password = 'it\'s \\ here' sslmode=verify-ca sslrootcert='/a b.pem' user=me\ too");
        assert_eq!(plain, r"host='db' password='it\'s \\ here' user='me too' ");
        let config: tokio_postgres::Config = plain.parse().expect("tokio-postgres reads it");
        assert_eq!(config.get_password(), Some(br"it's \ here".as_slice()));
        assert_eq!((mode, root), (Some(SslMode::VerifyCa), Some(PathBuf::from("/a b.pem"))));
    }

    #[test]
    fn a_parameter_that_cannot_be_honoured_is_refused_by_name() {
        assert_eq!(Dsn::parse("postgres://db/a?sslcert=x").err(), Some(DsnError::Unsupported("sslcert")));
        assert_eq!(Dsn::parse("service=prod").err(), Some(DsnError::Unsupported("service")));
    }

    #[test]
    fn a_session_that_must_write_is_not_asked_of_a_standby() {
        for good in ["any", "read-write", "primary"] {
            assert_eq!(parsed(&format!("postgresql://a,b/d?target_session_attrs={good}")).0, "postgresql://a,b/d");
            assert_eq!(parsed(&format!("host=a,b target_session_attrs={good}")).0, "host='a,b' ");
        }
        for bad in ["standby", "read-only", "prefer-standby", ""] {
            assert_eq!(Dsn::parse(&format!("host=a,b target_session_attrs='{bad}'")).err(), Some(DsnError::Standby));
        }
    }

    #[test]
    fn no_error_repeats_a_part_of_the_string() {
        for text in ["host='s3cret", "s3cret", "=s3cret", "postgres://a?s3cret", "postgres://a?x=%s3", "sslmode=s3cret"]
        {
            let error = Dsn::parse(text).err().expect("a bad connection string");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
