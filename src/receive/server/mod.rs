//! A door to the network: listens, bounds how many connections there are and how long each may keep us waiting, and hands
//! every request to its application. It judges no request.

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

use http::request::Parts;

use super::Reply;
use crate::config::{Receive, Trusted};
use crate::deliver::{Phase, Phases};
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

/// Who judges requests.
pub(crate) trait Application: Send + Sync + 'static {
    /// Whatever goes wrong is an answer too.
    fn answer(&self, head: &Parts, arrival: Arrival, body: Body) -> impl Future<Output = Reply> + Send;

    /// What happens beside the answers, for whoever counts it.
    fn observe(&self, event: Event);
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// So many connections are open.
    Connections(usize),
    /// A connection was closed for another.
    MadeRoom,
    /// There was no room, and nobody who could have made it.
    TurnedAway,
    Answered {
        status: u16,
        took: Duration,
    },
}

/// How many may come, and how long each may take.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// For a handshake and for each head.
    pub(crate) head_timeout: Duration,
    pub(crate) body_timeout: Duration,
    /// Of an HTTP/2 connection without a request.
    pub(crate) idle_timeout: Duration,
    pub(crate) max_connections: usize,
    /// Bytes of request bodies, over all connections.
    pub(crate) max_body_memory: usize,
    pub(crate) trusted_proxies: Trusted,
}

impl From<&Receive> for Bounds {
    fn from(settings: &Receive) -> Bounds {
        Bounds {
            head_timeout: settings.head_timeout,
            body_timeout: settings.body_timeout,
            idle_timeout: settings.idle_timeout,
            max_connections: settings.max_connections,
            max_body_memory: settings.max_body_memory,
            trusted_proxies: settings.trusted_proxies.clone(),
        }
    }
}

pub(crate) struct Server<A> {
    application: Arc<A>,
    bounds: Bounds,
    tls: Option<TlsAcceptor>,
    crowd: Arc<Crowd>,
    /// Bytes of request bodies that may be held at once.
    memory: Arc<Semaphore>,
    phases: Phases,
}

impl<A: Application> Server<A> {
    pub(crate) fn new(
        bounds: Bounds,
        certificate: Option<&Arc<Certificate>>,
        application: Arc<A>,
        phases: Phases,
    ) -> Server<A> {
        Server {
            application,
            tls: certificate.map(|certificate| tls::acceptor(certificate.clone())),
            crowd: Crowd::new(bounds.max_connections),
            memory: Arc::new(Semaphore::new(bounds.max_body_memory.min(Semaphore::MAX_PERMITS))),
            bounds,
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
                None => self.application.observe(Event::TurnedAway),
            }
        }
        drop(listener);
        self.crowd.left().await;
    }

    pub(crate) fn connections(&self) -> usize {
        self.crowd.size()
    }
}
