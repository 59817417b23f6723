//! A receiver that plays any script over real TLS on loopback, and what a post to it comes to.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::address::name_server::NameServer;
use crate::address::{Destination, Policy, UrlRules, pin};
use crate::secret::Secret;
use crate::signature::{Moment, Scheme, sign};
use crate::verdict::Reply;

mod handshake;
mod identity;
mod reuse;
mod single;

const NAME: &str = "hooks.example.com";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

type Served = TlsStream<TcpStream>;

/// Far beyond what any of these tests takes; a test of the deadline uses `soon`.
fn patient() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(1500)
}

/// A certificate authority that clients made by it trust alone.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Authority { certificate, issuer: rcgen::Issuer::new(params, key) }
    }

    fn leaf(&self, name: &str, last_year: i32) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn server(&self, name: &str) -> ServerConfig {
        let (chain, key) = self.leaf(name, 2100);
        let mut config = server_builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }

    fn client(&self) -> Client {
        self.client_with(PoolLimits::default())
    }

    fn client_with(&self, limits: PoolLimits) -> Client {
        Client::new(Arc::new(tls_config(std::slice::from_ref(&self.certificate), false).unwrap()), limits)
    }
}

fn server_builder() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
}

/// Accepts connections, shakes hands and plays the script on each. Stops when dropped.
struct Receiver {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Receiver {
    /// On every address of loopback: 127.0.0.2 and its like reach it too.
    async fn start<F, S>(config: ServerConfig, script: S) -> Receiver
    where
        S: Fn(Served) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let script = Arc::new(script);
        Receiver::start_plain("0.0.0.0", move |tcp| {
            let (shaken, script) = (acceptor.accept(tcp), Arc::clone(&script));
            async move {
                if let Ok(stream) = shaken.await {
                    script(stream).await;
                }
            }
        })
        .await
    }

    /// Reads a request, says this, and waits for the client to close.
    async fn saying(authority: &Authority, reply: impl Into<Vec<u8>>) -> Receiver {
        let reply: Vec<u8> = reply.into();
        Receiver::start(authority.server(NAME), move |mut stream| {
            let reply = reply.clone();
            async move {
                while read_request(&mut stream).await.is_some() {
                    if stream.write_all(&reply).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    async fn start_plain<F, S>(host: &str, script: S) -> Receiver
    where
        S: Fn(TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&accepted);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut playing = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                playing.spawn(script(tcp));
            }
        });
        Receiver { address: SocketAddr::from(([127, 0, 0, 1], port)), accepted, _tasks: tasks }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// A request as it came over the wire; `None` when the client has closed.
async fn read_request(stream: &mut Served) -> Option<(String, Vec<u8>)> {
    let head = read_head(stream).await?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

async fn read_head(stream: &mut Served) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Waits until the client has closed, with or without a farewell.
async fn closed(stream: &mut Served) {
    let mut rest = [0; 1024];
    while let Ok(1..) = stream.read(&mut rest).await {}
}

fn destination(host: &str, port: u16) -> Destination {
    let text = format!("https://{host}:{port}/hooks/a?x=1");
    Destination::parse(&text, &UrlRules::default()).unwrap()
}

fn request_of(destination: &Destination, body: Bytes) -> SignedRequest {
    let credentials = Secret::from("sesame-sesame-sesame-sesame-sesame".to_owned());
    let moment = Moment { unix_seconds: 1_767_322_800, nonce: [7; 16] };
    sign(Scheme::Bearer(&credentials), destination.target(), body, moment).unwrap()
}

/// The name, pinned to these addresses of loopback.
async fn pinned_to(destination: &Destination, addresses: &[&str]) -> Pinned {
    let server = NameServer::with_addresses(addresses).await;
    let policy = Policy::new(vec!["127.0.0.0/8".parse().unwrap()], Vec::new());
    pin(destination, &policy, &server.resolver()).await.unwrap()
}

/// Posts a small body to the receiver under its usual name.
async fn post(client: &Client, receiver: &Receiver, fresh: bool, deadline: Instant) -> Posted {
    post_body(client, receiver, Bytes::from_static(b"{}"), fresh, deadline).await
}

async fn post_body(client: &Client, receiver: &Receiver, body: Bytes, fresh: bool, deadline: Instant) -> Posted {
    let destination = destination(NAME, receiver.address.port());
    let pinned = pinned_to(&destination, &["127.0.0.1"]).await;
    client.post(&pinned, None, request_of(&destination, body), fresh, deadline).await
}

fn replied(posted: &Posted) -> &Reply {
    match &posted.attempt {
        Attempt::Replied(reply) => reply,
        Attempt::Failed(failure) => panic!("no reply: {failure:?}"),
    }
}

fn failed(posted: &Posted) -> Failure {
    match &posted.attempt {
        Attempt::Failed(failure) => *failure,
        Attempt::Replied(reply) => panic!("a reply: {reply:?}"),
    }
}
