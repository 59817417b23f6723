//! The demo's doors: a certificate for all of them, and the scripted buyers, which verify every signature before they
//! answer by their character. Those that keep what they accept are a real inbox, and not here.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpSocket;
use tokio_rustls::TlsAcceptor;

use super::host::write_private;
use super::ledger::Receipt;

const BODY_CAP: usize = 1 << 20;
const BACKLOG: u32 = 1024;

/// How a buyer behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Character {
    /// Accepts what is signed right: the real inbox.
    Steady,
    /// Answers 500 to the first two attempts of each notification.
    FailsTwice,
    /// Answers 410 to everything.
    Gone,
    /// Does not listen.
    Dead,
}

/// What the scripted buyers saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) refused: u64,
    /// One for each request that was signed right.
    pub(super) receipts: Vec<Receipt>,
    /// By idempotency key.
    attempts: HashMap<String, u32>,
}

/// Checks one request against the seller's published key.
pub(super) type Check = dyn Fn(&http::request::Parts, &str, &[u8]) -> bool + Send + Sync;

/// A port of one's own, on which nobody listens yet. The kernel gives it to nobody who does not ask for it by number.
pub(super) fn reserve() -> anyhow::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

pub(super) struct Scripted {
    acceptor: TlsAcceptor,
    check: Arc<Check>,
    pub(super) seen: Arc<Mutex<Seen>>,
    /// The port of whoever is dead stays so.
    silent: Vec<TcpSocket>,
}

impl Scripted {
    /// Leaves the authority's certificate and the buyers' own in `home`.
    pub(super) fn new(home: &Path, check: Arc<Check>) -> anyhow::Result<Scripted> {
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;
        write_private(&home.join("ca.pem"), issuer.pem().as_bytes())?;
        write_private(&home.join("buyer.pem"), leaf.pem().as_bytes())?;
        write_private(&home.join("buyer.key"), key.serialize_pem().as_bytes())?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;
        Ok(Scripted { acceptor: TlsAcceptor::from(Arc::new(tls)), check, seen: Arc::default(), silent: Vec::new() })
    }

    /// Opens one buyer's door and returns its address.
    pub(super) fn open(&mut self, character: Character) -> anyhow::Result<SocketAddr> {
        let (socket, address) = reserve()?;
        if character == Character::Dead {
            self.silent.push(socket);
            return Ok(address);
        }
        let listener = socket.listen(BACKLOG)?;
        let (acceptor, check, seen) = (self.acceptor.clone(), self.check.clone(), self.seen.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, check, seen) = (acceptor.clone(), check.clone(), seen.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let (check, seen) = (check.clone(), seen.clone());
                        async move { Ok::<_, Infallible>(answer(request, character, &*check, &seen).await) }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(address)
    }
}

async fn answer(
    request: Request<Incoming>,
    character: Character,
    check: &Check,
    seen: &Mutex<Seen>,
) -> Response<Full<Bytes>> {
    let at = SystemTime::now();
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_CAP).collect().await.map(|body| body.to_bytes()) else {
        return status(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let verified = check(&parts, &format!("https://{host}{}", parts.uri), &body);
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if !verified {
        seen.refused += 1;
        return status(StatusCode::UNAUTHORIZED);
    }
    let key = member(&body, "idempotency_key").unwrap_or_default();
    let attempts = seen.attempts.entry(key.clone()).or_default();
    *attempts += 1;
    let reply = match character {
        Character::FailsTwice if *attempts <= 2 => StatusCode::INTERNAL_SERVER_ERROR,
        Character::Gone => StatusCode::GONE,
        _ => StatusCode::OK,
    };
    seen.receipts.push(Receipt { key, at, accepted: reply == StatusCode::OK, body: body.to_vec() });
    status(reply)
}

pub(super) fn member(body: &[u8], name: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(body.get(name)?.as_str()?.to_owned())
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = status;
    reply
}
