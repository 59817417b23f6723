//! From a pin to an encrypted stream: addresses tried in turn, the peer checked, TLS by the pinned name. Looks up no name.

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::future::{Ready, poll_fn, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use nix::errno::Errno;
use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use crate::address::Pinned;
use crate::verdict::Fault;

/// The pause before the next address is tried beside the one that has not answered yet (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Of this process, whoever asked. There is no other place in the crate that connects to a receiver, so that this is the
/// account of where bytes may have gone.
static DIALS: AtomicU64 = AtomicU64::new(0);

/// Connections begun so far, one for each address tried, whatever came of it.
pub(crate) fn dials() -> u64 {
    DIALS.load(Ordering::Relaxed)
}

pub(super) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Connects to one of the pinned addresses and to no other. A handshake that fails moves on to the addresses that
/// are left, since nothing of the request has been written.
pub(super) async fn connect(
    pinned: &Pinned,
    tls: &Arc<ClientConfig>,
    deadline: Instant,
) -> Result<(Stream, SocketAddr), Fault> {
    let mut left: VecDeque<SocketAddr> = pinned.addresses().iter().copied().collect();
    let mut fault = Fault::Connect;
    while !left.is_empty() {
        let raced = timeout_at(deadline, race(&left)).await.map_err(|_| Fault::ConnectTimeout)?;
        let (tcp, address) = match raced {
            Ok(connected) => connected,
            // After a failed handshake its fault says more than that the other addresses do not answer.
            Err(error) if left.len() == pinned.addresses().len() => return Err(error),
            Err(_) => break,
        };
        left.retain(|other| *other != address);
        match timeout_at(deadline, secure(tcp, tls, pinned.server_name().clone())).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => fault = error,
            Err(_) => return Err(Fault::TlsTimeout),
        }
    }
    Err(fault)
}

/// The first of the addresses to accept a connection. Those still under way are dropped.
async fn race(addresses: &VecDeque<SocketAddr>) -> Result<(TcpStream, SocketAddr), Fault> {
    let mut waiting = addresses.clone();
    let mut trying: JoinSet<Result<(TcpStream, SocketAddr), Fault>> = JoinSet::new();
    let mut first_fault = None;
    loop {
        if let Some(address) = waiting.pop_front() {
            trying.spawn(dial(address));
        }
        tokio::select! {
            ended = trying.join_next() => match ended {
                Some(Ok(Ok(connected))) => return Ok(connected),
                Some(Ok(Err(fault))) => {
                    // A shortage on this side is ours to mend and says nothing about the receiver.
                    if first_fault.is_none() || fault == Fault::LocalResources {
                        first_fault = Some(fault);
                    }
                }
                // A dial neither panics nor is cancelled while it is awaited; were it lost, the next one is due.
                Some(Err(_)) => {}
                None => return Err(first_fault.unwrap_or(Fault::Connect)),
            },
            () = tokio::time::sleep(STAGGER), if !waiting.is_empty() => {}
        }
    }
}

pub(super) async fn dial(address: SocketAddr) -> Result<(TcpStream, SocketAddr), Fault> {
    DIALS.fetch_add(1, Ordering::Relaxed);
    let stream = TcpStream::connect(address).await.map_err(|error| socket_fault(&error))?;
    // One request is written in few pieces and waited for: Nagle's delay would only add to it.
    stream.set_nodelay(true).map_err(|error| socket_fault(&error))?;
    match stream.peer_addr() {
        Ok(peer) if peer == address => Ok((stream, address)),
        Ok(_) => Err(Fault::PeerMismatch),
        Err(error) => Err(socket_fault(&error)),
    }
}

/// Faults of this machine, told from faults of the way to the receiver.
fn socket_fault(error: &io::Error) -> Fault {
    if is_local(error) { Fault::LocalResources } else { Fault::Connect }
}

pub(super) fn is_local(error: &io::Error) -> bool {
    let ours = [
        Errno::EMFILE,
        Errno::ENFILE,
        Errno::EADDRNOTAVAIL,
        Errno::ENOBUFS,
        Errno::ENOMEM,
        Errno::EPERM,
        Errno::EACCES,
    ];
    error.raw_os_error().is_some_and(|code| ours.contains(&Errno::from_raw(code)))
}

/// The handshake, under the pinned name. For an address literal rustls sends no SNI and matches the certificate's
/// addresses.
async fn secure(tcp: TcpStream, tls: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<Stream, Fault> {
    let connected = Connected(Some(TokioIo::new(tcp)));
    let fixed = Arc::new(FixedServerNameResolver::new(name));
    let mut connector = HttpsConnector::new(connected, Arc::clone(tls), true, fixed);
    // The connector reads nothing but the scheme from it: stream and name are already decided.
    let scheme = Uri::from_static("https://pinned/");
    let secured = async {
        poll_fn(|cx| connector.poll_ready(cx)).await?;
        connector.call(scheme).await
    };
    secured.await.map_err(|error| tls_fault(error.as_ref()))
}

/// Hands the stream that is already connected to the TLS connector: there is nothing that could dial again.
struct Connected(Option<TokioIo<TcpStream>>);

impl Service<Uri> for Connected {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<TcpStream>>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _scheme: Uri) -> Self::Future {
        ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

fn tls_fault(error: &(dyn StdError + 'static)) -> Fault {
    match rustls_error(error) {
        Some(rustls::Error::InvalidCertificate(_)) => Fault::TlsCertificate,
        Some(error) if is_about_our_certificate(error) => Fault::TlsClientAuth,
        _ => Fault::Tls,
    }
}

/// The alerts that a server has for a client's certificate: that it wants one (TLS 1.3), that none is a bad one (TLS 1.2),
/// or what is wrong with the one that it was shown; a chain whose signature is not its authority's is a decrypt_error to
/// many. None of them is about the server's own.
pub(super) fn is_about_our_certificate(error: &rustls::Error) -> bool {
    use AlertDescription as A;
    matches!(
        error,
        rustls::Error::AlertReceived(
            A::CertificateRequired
                | A::NoCertificate
                | A::BadCertificate
                | A::UnsupportedCertificate
                | A::CertificateRevoked
                | A::CertificateExpired
                | A::CertificateUnknown
                | A::UnknownCA
                | A::AccessDenied
                | A::DecryptError
        )
    )
}

/// The rustls error inside, however many I/O errors are around it. `source()` of a wrapping I/O error skips what it
/// wraps, so that those are opened by `get_ref`.
pub(super) fn rustls_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
