//! The demo's buyers: HTTPS servers on loopback that verify every signature before they answer by their character.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const BODY_CAP: usize = 1 << 20;

/// How a buyer behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Character {
    /// Accepts what is signed right.
    Steady,
    /// Answers 503 to the first two attempts of each notification.
    FailsTwice,
    /// Answers 410 to everything.
    Gone,
    /// Does not listen.
    Dead,
}

/// What the buyers saw, by idempotency key.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) verified: u64,
    pub(super) refused: u64,
    pub(super) notifications: HashMap<String, Receipt>,
}

pub(super) struct Receipt {
    pub(super) first: Instant,
    pub(super) attempts: u32,
    pub(super) accepted: u32,
    body: Bytes,
    /// Whether every attempt carried the same bytes.
    pub(super) same_bytes: bool,
}

/// Checks one request against the seller's published key.
pub(super) type Check = dyn Fn(&http::request::Parts, &str, &[u8]) -> bool + Send + Sync;

pub(super) struct Buyers {
    pub(super) ca_pem: String,
    acceptor: TlsAcceptor,
    check: Arc<Check>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

impl Buyers {
    pub(super) fn new(check: Arc<Check>) -> anyhow::Result<Buyers> {
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;
        Ok(Buyers { ca_pem: issuer.pem(), acceptor: TlsAcceptor::from(Arc::new(tls)), check, ledger: Arc::default() })
    }

    /// The tasks whose webhooks were accepted.
    pub(super) fn accepted(&self) -> BTreeSet<String> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let accepted = ledger.notifications.values().filter(|receipt| receipt.accepted > 0);
        accepted.filter_map(|receipt| member(&receipt.body, "task_id")).collect()
    }

    /// Opens one buyer's door and returns its address.
    pub(super) async fn open(&self, character: Character) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        if character != Character::Dead {
            let (acceptor, check, ledger) = (self.acceptor.clone(), self.check.clone(), self.ledger.clone());
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, check, ledger) = (acceptor.clone(), check.clone(), ledger.clone());
                    tokio::spawn(async move {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let service = service_fn(move |request| {
                            let (check, ledger) = (check.clone(), ledger.clone());
                            async move { Ok::<_, Infallible>(answer(request, character, &*check, &ledger).await) }
                        });
                        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        }
        Ok(address)
    }
}

async fn answer(
    request: Request<Incoming>,
    character: Character,
    check: &Check,
    ledger: &Mutex<Ledger>,
) -> Response<Full<Bytes>> {
    let arrived = Instant::now();
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_CAP).collect().await.map(|body| body.to_bytes()) else {
        return status(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let url = format!("https://{host}{}", parts.uri);
    let verified = check(&parts, &url, &body);
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    if !verified {
        ledger.refused += 1;
        return status(StatusCode::UNAUTHORIZED);
    }
    ledger.verified += 1;
    let key = member(&body, "idempotency_key").unwrap_or_default();
    let receipt = ledger.notifications.entry(key).or_insert_with(|| Receipt {
        first: arrived,
        attempts: 0,
        accepted: 0,
        body: body.clone(),
        same_bytes: true,
    });
    receipt.attempts += 1;
    receipt.same_bytes &= receipt.body == body;
    match character {
        Character::FailsTwice if receipt.attempts <= 2 => status(StatusCode::SERVICE_UNAVAILABLE),
        Character::Gone => status(StatusCode::GONE),
        _ => {
            receipt.accepted += 1;
            status(StatusCode::OK)
        }
    }
}

fn member(body: &[u8], name: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(body.get(name)?.as_str()?.to_owned())
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = status;
    reply
}
