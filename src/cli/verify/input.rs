//! What `outboxd verify` is given, read within bounds: the request, its body, keys, secrets, times.

use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Scheme, read_captured, read_file};
use crate::capture::{Body, Captured, MAX_BYTES, Piece};
use crate::cli::Failure;
use crate::secret::{Secret, SecretFileError, from_whsec, read_secret_file};
use crate::signature::{KEY_SET_BYTES, RevocationList, Target, key_set};

pub(super) fn read_request(path: Option<&Path>) -> Result<Captured, Failure> {
    match path.filter(|path| *path != Path::new("-")) {
        Some(path) => read_captured(&read_file(path, "the request", MAX_BYTES)?),
        None => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|error| Failure::io(format!("cannot read standard input: {error}")))?;
            read_captured(&bytes)
        }
    }
}

/// The body that was sent: what --body names, or what the capture holds or names.
pub(super) fn body(captured: &Captured, given: Option<&Path>) -> Result<Vec<u8>, Failure> {
    if let Some(path) = given {
        return read_file(path, "the body", MAX_BYTES);
    }
    match &captured.body {
        Body::Here(bytes) => Ok(bytes.clone()),
        Body::Missing => Err(Failure::usage("the capture does not hold the body: give it by --body FILE".into())),
        Body::Pieces(pieces) => {
            let mut body = Vec::new();
            for piece in pieces {
                match piece {
                    Piece::Text(text) => body.extend_from_slice(text),
                    Piece::File { path, keeps_line_breaks } => {
                        let bytes = read_file(path, "the body", MAX_BYTES)?.into_iter();
                        let dropped = |byte: &u8| !keeps_line_breaks && matches!(byte, b'\r' | b'\n' | 0);
                        body.extend(bytes.filter(|byte| !dropped(byte)));
                    }
                }
            }
            if body.len() > MAX_BYTES {
                return Err(Failure::data(format!("the body is larger than {MAX_BYTES} bytes")));
            }
            Ok(body)
        }
    }
}

/// What is known of the sender.
pub(super) struct Knowns {
    pub(super) jwks: Value,
    pub(super) revocation: Option<RevocationList>,
}

impl Knowns {
    pub(super) fn read(jwks: &Path, revocation: Option<&Path>) -> Result<Knowns, Failure> {
        let bytes = read_file(jwks, "the key set", KEY_SET_BYTES)?;
        // `outboxd keygen` writes one key, which its receivers put into a set.
        let single = serde_json::from_slice::<Value>(&bytes).ok().filter(|jwk| jwk["kty"].is_string());
        let jwks = match single {
            Some(jwk) => json!({"keys": [jwk]}),
            None => key_set(&bytes).map_err(|error| named(jwks, "the key set", &error))?,
        };
        let list = |path: &Path| {
            let bytes = read_file(path, "the revocation list", KEY_SET_BYTES)?;
            RevocationList::parse(&bytes).map_err(|error| named(path, "the revocation list", &error))
        };
        Ok(Knowns { jwks, revocation: revocation.map(list).transpose()? })
    }

    pub(super) fn kids(&self) -> Vec<String> {
        let keys = self.jwks["keys"].as_array().map_or(&[][..], Vec::as_slice);
        keys.iter().filter_map(|jwk| jwk["kid"].as_str()).map(str::to_owned).collect()
    }
}

fn named(path: &Path, what: &str, problem: &dyn std::fmt::Display) -> Failure {
    Failure::data(format!("{what} {}: it {problem}", path.display()))
}

pub(super) fn secrets(path: &Path, scheme: Scheme) -> Result<Vec<Secret>, Failure> {
    let bytes = read_secret_file(path).map_err(|error| {
        let message = format!("the secret {}: {error}", path.display());
        match error {
            SecretFileError::Unreadable(std::io::ErrorKind::NotFound) => Failure::absent(message),
            SecretFileError::Unreadable(_) => Failure::io(message),
            _ => Failure::data(message),
        }
    })?;
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let read = |line: &[u8]| match scheme {
        Scheme::StandardWebhooks => from_whsec(line),
        Scheme::HmacSha256 | Scheme::Rfc9421 => Some(Secret::new(line.to_vec())),
    };
    let secrets = lines.map(read).collect::<Option<Vec<Secret>>>();
    match secrets {
        Some(secrets) if !secrets.is_empty() => Ok(secrets),
        Some(_) => Err(Failure::data(format!("the secret {}: it holds none", path.display()))),
        None => Err(Failure::data(format!(
            "the secret {}: it has a line that is not whsec_ and 24 to 64 bytes in base64",
            path.display()
        ))),
    }
}

pub(super) fn origin(text: &str) -> Result<String, Failure> {
    let target = Target::parse(text).ok();
    let fits = |target: &Target| {
        ["https", "http"].iter().any(|scheme| {
            let origin = format!("{scheme}://{}", target.authority);
            target.target_uri == format!("{origin}/")
        })
    };
    match target.filter(fits) {
        Some(target) => Ok(target.target_uri.trim_end_matches('/').to_owned()),
        None => Err(Failure::usage("--url is no origin such as https://buyer.example.com".into())),
    }
}

pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or_default()
}

/// Unix seconds, or RFC 3339 with an offset.
pub(super) fn moment(text: &str) -> Result<i64, Failure> {
    let wrong = || Failure::usage("--at is neither Unix seconds nor an RFC 3339 time".into());
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let (time, offset) = match text.len().checked_sub(6).filter(|_| text.is_ascii()).map(|at| text.split_at(at)) {
        Some((time, zone)) if zone.starts_with(['+', '-']) && time.contains(['T', 't', ' ']) => {
            let number = |text: &str| text.parse::<i64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
            let (hours, minutes) = zone[1..].split_once(':').ok_or_else(wrong)?;
            let (hours, minutes) = number(hours).zip(number(minutes)).ok_or_else(wrong)?;
            let seconds = 60 * (60 * hours + minutes);
            (format!("{time}Z"), if zone.starts_with('-') { -seconds } else { seconds })
        }
        _ => (text.to_owned(), 0),
    };
    let time = humantime::parse_rfc3339_weak(&time).map_err(|_| wrong())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| wrong())?;
    i64::try_from(since.as_secs()).map(|seconds| seconds - offset).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_unix_seconds_or_rfc_3339_at_any_offset() {
        for text in [
            "1776506400",
            "2026-04-18T10:00:00Z",
            "2026-04-18 10:00:00Z",
            "2026-04-18T12:00:00+02:00",
            "2026-04-18T04:30:00-05:30",
        ] {
            assert_eq!(moment(text).ok(), Some(1_776_506_400), "{text}");
        }
        for text in [
            "",
            "now",
            "2026-04-18",
            "2026-13-18T10:00:00Z",
            "1e9",
            "2026-04-18T10:00:00+2:00",
            "2026-04-18T10:00:00+aa:00",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_origin_has_neither_path_nor_query() {
        assert_eq!(origin("https://Buyer.example.com:443/").ok().as_deref(), Some("https://buyer.example.com"));
        assert_eq!(origin("http://[::1]:8080").ok().as_deref(), Some("http://[::1]:8080"));
        for text in ["buyer.example.com", "https://b.example/hooks", "https://b.example/?x", "ftp://b.example", ""] {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
