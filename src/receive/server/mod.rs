//! The door to the network: listens, bounds how many connections there are and how long each may keep us waiting, and
//! hands every request to the profile. It judges no request.

mod body;
mod connection;
mod crowd;
mod heads;
mod listener;
mod tls;
mod wire;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

pub(crate) use body::{Body, BodyError};
pub(crate) use listener::Listener;
pub(crate) use tls::{Certificate, CertificateError};

use super::Profile;
use crate::config::{Receive, Trusted};
use crate::deliver::{Phase, Phases};
use crate::telemetry::metrics;
use crowd::Crowd;

/// How long to wait after a failed accept: for want of descriptors it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a request came to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The other end of the connection; none on a unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// It came by TLS: to this listener, or to a proxy that is trusted to say so.
    pub(crate) secure: bool,
    /// Content-Length stood there more than once with one value, which the head does not show.
    pub(crate) repeated_length: bool,
}

#[derive(Debug, Clone)]
struct Limits {
    head_timeout: Duration,
    body_timeout: Duration,
    idle_timeout: Duration,
}

pub(crate) struct Server {
    profile: Arc<Profile>,
    limits: Limits,
    tls: Option<TlsAcceptor>,
    trusted: Trusted,
    crowd: Arc<Crowd>,
    /// Bytes of request bodies that may be held at once.
    memory: Arc<Semaphore>,
    phases: Phases,
}

impl Server {
    pub(crate) fn new(
        settings: &Receive,
        certificate: Option<&Arc<Certificate>>,
        profile: Arc<Profile>,
        phases: Phases,
    ) -> Server {
        Server {
            profile,
            limits: Limits {
                head_timeout: settings.head_timeout,
                body_timeout: settings.body_timeout,
                idle_timeout: settings.idle_timeout,
            },
            tls: certificate.map(|certificate| tls::acceptor(certificate.clone())),
            trusted: settings.trusted_proxies.clone(),
            crowd: Crowd::new(settings.max_connections),
            memory: Arc::new(Semaphore::new(settings.max_body_memory.min(Semaphore::MAX_PERMITS))),
            phases,
        }
    }

    /// Accepts until the drain begins, then waits for the last connection to end.
    pub(crate) async fn run(self: Arc<Self>, listener: Listener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.phases.reached(Phase::Draining) => break,
            };
            let Ok(peer) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            match self.crowd.enter() {
                Some(guest) => drop(tokio::spawn(connection::run(peer, guest, self.clone()))),
                None => metrics::receive_turned_away(),
            }
        }
        drop(listener);
        self.crowd.left().await;
    }

    pub(crate) fn connections(&self) -> usize {
        self.crowd.size()
    }
}
