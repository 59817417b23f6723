//! What of `[receive.terminal]` can be run with.

use std::path::Path;

use super::capabilities::Operation;
use crate::config::{ConfigError, TerminalSettings};

const ORIGIN_MOST: usize = 2048;
const PATH_MOST: usize = 256;

pub(super) fn validate(settings: &TerminalSettings) -> Result<(), ConfigError> {
    if !is_origin(&settings.origin) {
        return Err(ConfigError::Value {
            key: "receive.terminal.origin",
            problem: format!("is {:?}", settings.origin),
            accepted: "\"https://host\" or \"https://host:port\", and nothing after it".into(),
        });
    }
    if !is_intake_path(&settings.intake_path) {
        return Err(ConfigError::Value {
            key: "receive.terminal.intake_path",
            problem: format!("is {:?}", settings.intake_path),
            accepted: "an ASCII path of at most 256 characters that begins with exactly one /, without ? and #, and \
                       is none of the control paths"
                .into(),
        });
    }
    if settings.credentials_file == Path::new("") {
        return Err(ConfigError::Value {
            key: "receive.terminal.credentials_file",
            problem: "is not set".into(),
            accepted: "a JSON file with hashed bearer tokens or public keys; without one nobody could be let in".into(),
        });
    }
    if !(1..=20).contains(&settings.max_attempts) {
        return Err(ConfigError::Value {
            key: "receive.terminal.max_attempts",
            problem: format!("is {}", settings.max_attempts),
            accepted: "1 to 20".into(),
        });
    }
    Ok(())
}

/// Exactly a scheme, a host and perhaps a port, spelled as it would be rebuilt from them.
fn is_origin(text: &str) -> bool {
    let Some(authority) = text.strip_prefix("https://") else { return false };
    if text.len() > ORIGIN_MOST || text.bytes().any(|byte| byte <= 0x20 || byte == 0x7F) {
        return false;
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let good_port = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let good_host = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['/', '?', '#', '@', ':', '[', ']', '\\']),
    };
    good_host && good_port
}

fn is_intake_path(text: &str) -> bool {
    text.is_ascii()
        && text.len() <= PATH_MOST
        && text.starts_with('/')
        && !text.starts_with("//")
        && !text.contains(['?', '#'])
        // What no request line can spell would never be reached.
        && text.parse::<http::uri::PathAndQuery>().is_ok_and(|path| path.as_str() == text)
        && Operation::of_control_path(text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for good in
            ["https://cms.example.test", "https://cms.example.test:8443", "https://[2001:db8::1]:1", "https://a"]
        {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "",
            "http://a",
            "https://",
            "https://a/",
            "https://a?x",
            "https://a#x",
            "https://u@a",
            "https://a:0",
            "https://a:65536",
            "https://a:",
            "https://a b",
            " https://a",
            "HTTPS://a",
            "https://[::1",
            "https://a:+1",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }

    #[test]
    fn an_intake_path_is_none_of_the_control_paths() {
        let longest = format!("/{}", "a".repeat(255));
        for good in ["/v1/localization/terminal-notifications", "/receiver/v2/terminal", "/", longest.as_str()] {
            assert!(is_intake_path(good), "{good}");
        }
        let too_long = format!("/{}", "a".repeat(256));
        let control = "/v1/localization/terminal-notifications/status";
        for bad in ["", "a", "//a", "/a?b", "/a#b", "/é", "/a b", control, too_long.as_str()] {
            assert!(!is_intake_path(bad), "{bad}");
        }
    }
}
