//! `outboxd healthcheck`: asks the daemon beside it how it is, for containers whose image holds nothing that could. It opens
//! no database and reads no key.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::Failure;
use crate::config::Config;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Ask whether it is ready, which depends on its database and its clock too, and not only whether it lives.
    #[arg(long)]
    ready: bool,
}

pub(super) const HELP: &str = "\
Asks /livez of admin.listen, or /readyz. Prints what it answers. Exits with 0
where all is well, with 69 where it is not or nobody answers within 3 s.

  HEALTHCHECK CMD [\"/usr/bin/outboxd\", \"healthcheck\"]";

const PATIENCE: Duration = Duration::from_secs(3);
/// What is read of an answer: a line for each condition that is not met.
const ANSWER: u64 = 64 << 10;

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let Some(listen) = config.settings.admin.listen else {
        return Err(Failure::config("admin.listen is empty, so that there is nobody to ask".into()));
    };
    let path = if args.ready { "/readyz" } else { "/livez" };
    let address = reachable(listen);
    let answer = ask(address, path).map_err(|error| Failure::unavailable(format!("{address}: {error}")))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.split(' ').nth(1) {
        Some("200") => super::seal::print(body),
        status => {
            let status = status.unwrap_or("nothing that is HTTP");
            Err(Failure::unavailable(format!("{path} answers {status}: {}", body.trim_end().replace('\n', "; "))))
        }
    }
}

/// Whoever listens on all addresses also listens on this one.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_asked_by_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:9464", "127.0.0.1:9464"),
            ("[::]:9464", "[::1]:9464"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            let [listen, asked]: [SocketAddr; 2] = [listen, asked].map(|text| text.parse().expect("an address"));
            assert_eq!(reachable(listen), asked);
        }
    }
}
