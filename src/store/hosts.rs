//! Connects to whichever of the hosts of a connection string takes writes. Which that is may change from one connection to
//! the next: the one that took the last is asked first, and that is all that is remembered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::dsn::DsnError;

/// How long one host may be silent before the next is asked as well. A primary that hangs is no hindrance then, and one
/// that answers is the only one asked.
const PATIENCE: Duration = Duration::from_millis(500);

type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

pub(super) struct Hosts {
    /// The same session for each, in the order of the connection string.
    each: Vec<Config>,
    tls: MakeRustlsConnect,
    took_last: AtomicUsize,
}

impl Hosts {
    pub(super) fn new(session: &Config, tls: rustls::ClientConfig) -> Result<Hosts, DsnError> {
        Ok(Hosts { each: split(session)?, tls: MakeRustlsConnect::new(tls), took_last: AtomicUsize::new(0) })
    }

    /// The first of them.
    pub(super) fn first(&self) -> Config {
        self.each[0].clone()
    }

    /// How much longer than one host all of them may take.
    pub(super) fn delay(&self) -> Duration {
        PATIENCE * u32::try_from(self.each.len() - 1).unwrap_or(u32::MAX)
    }

    /// Of several errors the last one to come.
    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, Stream>), Error> {
        let (count, start) = (self.each.len(), self.took_last.load(Ordering::Relaxed));
        let attempt = |nth: usize| async move {
            let host = (start + nth) % count;
            let connected = self.each[host].connect(self.tls.clone()).await;
            connected.inspect(|_| self.took_last.store(host, Ordering::Relaxed))
        };
        let mut attempts = FuturesUnordered::from_iter([attempt(0)]);
        let mut next = 1;
        loop {
            tokio::select! {
                Some(ended) = attempts.next() => match ended {
                    Err(error) if attempts.is_empty() && next == count => return Err(error),
                    Err(_) if next == count => continue,
                    Err(_) => {}
                    connected => return connected,
                },
                () = sleep(PATIENCE), if next < count => {}
            }
            attempts.push(attempt(next));
            next += 1;
        }
    }
}

/// One configuration for each host: tokio-postgres tries several in turn, each for as long as the whole may take, so that
/// one that hangs would keep us from the others.
fn split(session: &Config) -> Result<Vec<Config>, DsnError> {
    let (hosts, addresses, ports) = (session.get_hosts(), session.get_hostaddrs(), session.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length == count || length == 0;
    if !fits(hosts.len()) || !fits(addresses.len()) || (ports.len() > 1 && ports.len() != count) {
        return Err(DsnError::Hosts);
    }
    let one = |nth: usize| {
        let mut config = session_of(session);
        match hosts.get(nth) {
            Some(Host::Tcp(name)) => config.host(name),
            Some(Host::Unix(directory)) => config.host_path(directory),
            None => &mut config,
        };
        // As libpq: a unix socket is never encrypted, whatever sslmode says.
        if matches!(hosts.get(nth), Some(Host::Unix(_))) && addresses.is_empty() {
            config.ssl_mode(SslMode::Disable);
        }
        if let Some(address) = addresses.get(nth) {
            config.hostaddr(*address);
        }
        if let Some(port) = ports.get(nth).or(ports.first()) {
            config.port(*port);
        }
        config
    };
    Ok((0..count).map(one).collect())
}

/// All but where it leads.
fn session_of(given: &Config) -> Config {
    let mut config = Config::new();
    if let Some(user) = given.get_user() {
        config.user(user);
    }
    if let Some(password) = given.get_password() {
        config.password(password);
    }
    if let Some(database) = given.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = given.get_options() {
        config.options(options);
    }
    if let Some(name) = given.get_application_name() {
        config.application_name(name);
    }
    if let Some(time) = given.get_connect_timeout() {
        config.connect_timeout(*time);
    }
    if let Some(time) = given.get_tcp_user_timeout() {
        config.tcp_user_timeout(*time);
    }
    if let Some(time) = given.get_keepalives_interval() {
        config.keepalives_interval(time);
    }
    if let Some(count) = given.get_keepalives_retries() {
        config.keepalives_retries(count);
    }
    config
        .ssl_mode(given.get_ssl_mode())
        .ssl_negotiation(given.get_ssl_negotiation())
        .channel_binding(given.get_channel_binding())
        .keepalives(given.get_keepalives())
        .keepalives_idle(given.get_keepalives_idle())
        .load_balance_hosts(given.get_load_balance_hosts())
        // A claim is a write: a standby is no use, and among several hosts the primary is found by this.
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Config {
        text.parse().expect("tokio-postgres reads it")
    }

    #[test]
    fn each_host_has_a_configuration_of_its_own_and_all_have_the_same_session() {
        let all = parsed(
            "host=a,/run/b,c port=1,2,3 user=me password=p dbname=d options='-c x=y' application_name=n \
             connect_timeout=3 tcp_user_timeout=4 keepalives=0 keepalives_idle=5 keepalives_interval=6 keepalives_retries=7 \
             sslmode=require channel_binding=require load_balance_hosts=random",
        );
        let each = split(&all).expect("they fit");
        for (config, (host, port)) in each.iter().zip([("a", 1), ("/run/b", 2), ("c", 3)]) {
            let mode = if host.starts_with('/') { "disable" } else { "require" };
            let expected = parsed(&format!(
                "host={host} port={port} user=me password=p dbname=d options='-c x=y' application_name=n connect_timeout=3 \
                 tcp_user_timeout=4 keepalives=0 keepalives_idle=5 keepalives_interval=6 keepalives_retries=7 sslmode={mode} \
                 channel_binding=require load_balance_hosts=random target_session_attrs=read-write"
            ));
            assert_eq!(*config, expected);
        }
    }

    #[test]
    fn both_forms_name_several_hosts() {
        for text in ["host=a,b port=1,2 dbname=d", "postgresql://a:1,b:2/d", "postgresql:///d?host=a&host=b&port=1,2"] {
            let each = split(&parsed(text)).expect("they fit");
            let ports: Vec<&[u16]> = each.iter().map(Config::get_ports).collect();
            assert_eq!(ports, [[1], [2]], "{text}");
            assert_eq!(each[1].get_hosts(), [Host::Tcp("b".into())], "{text}");
        }
    }

    #[test]
    fn one_port_serves_all_and_numbers_that_do_not_fit_are_refused() {
        let each = split(&parsed("host=a,b port=7")).expect("one port is for all");
        assert!(each.iter().all(|config| config.get_ports() == [7]));
        for text in ["host=a,b,c port=1,2", "host=a,b hostaddr=127.0.0.1"] {
            assert_eq!(split(&parsed(text)).err(), Some(DsnError::Hosts), "{text}");
        }
    }
}
