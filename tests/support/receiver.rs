//! A scriptable HTTPS receiver on loopback that speaks HTTP/1.1 by hand, so that it can also speak it badly.
//! It records every request and deliberately judges none; `verify` does that.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certs::{Authority, Leaf};
use super::eventually::{PATIENCE, ticks, within};
use super::moment::moment;
use super::runtime::servers;

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub at: Instant,
    /// The same on the machine's clock, in seconds since 1970.
    pub moment: f64,
    /// The status that it was to be answered with, once it was to be; nothing where the answer has none.
    pub answered: Option<u16>,
    /// Which connection it came over, counted from 0.
    pub connection: usize,
    /// The certificate that the client showed on it.
    pub client: Option<Vec<u8>>,
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// As `nc -l` would have stored it.
    pub fn raw(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        [&bytes, b"\r\n".as_slice(), &self.body].concat()
    }

    pub fn idempotency_key(&self) -> String {
        self.json()["idempotency_key"].as_str().expect("every body has a key").to_string()
    }
}

/// What a request is answered with.
#[derive(Clone)]
pub enum Answer {
    Reply {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// The status line is sent when the head has come, then the connection is closed with the body unread.
    Early(u16),
    /// None, and the body is never read.
    Unread,
    /// None, though the whole request was read; the connection stays open.
    Silent,
    /// The connection is closed when the request has come.
    Close,
    /// These bytes, then the connection is closed.
    Garbage(Vec<u8>),
    /// A head that never ends.
    EndlessHead,
    /// A head that never ends and comes a byte at a time, so that no single read is slow.
    Drip,
    /// A good head with this status, then a body that never ends.
    EndlessBody(u16),
    /// The other answer once the gate opens.
    When(Gate, Box<Answer>),
}

impl Answer {
    pub fn status(status: u16) -> Answer {
        Answer::Reply { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(self, name: &'static str, value: &str) -> Answer {
        match self {
            Answer::Reply { status, mut headers, body } => {
                headers.push((name, value.to_string()));
                Answer::Reply { status, headers, body }
            }
            other => other,
        }
    }

    pub fn body(self, text: &str) -> Answer {
        match self {
            Answer::Reply { status, headers, .. } => Answer::Reply { status, headers, body: text.into() },
            other => other,
        }
    }

    pub fn when(self, gate: &Gate) -> Answer {
        Answer::When(gate.clone(), Box::new(self))
    }

    fn code(&self) -> Option<u16> {
        match self {
            Answer::Reply { status, .. } | Answer::EndlessBody(status) => Some(*status),
            _ => None,
        }
    }
}

/// Closed until it is opened, then open for good.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub fn closed() -> Gate {
        Gate(Arc::new(watch::Sender::new(false)))
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn passed(&self) {
        // The sender lives in self, so waiting ends only by the gate's opening.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

type Script = dyn Fn(&str, usize) -> Answer + Send + Sync;
type Sink = dyn Fn(Received) + Send + Sync;

struct Shared {
    /// Asked with the request target and how many requests for that target came before.
    script: Mutex<Arc<Script>>,
    seen: Mutex<HashMap<String, usize>>,
    received: Mutex<Vec<Received>>,
    sink: OnceLock<Box<Sink>>,
    arrived: watch::Sender<usize>,
    connections: AtomicUsize,
    end: Notify,
}

pub struct Receiver {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Receiver {
    /// With a certificate for loopback and the names in `certs::NAMES`; answers 200 to everything.
    pub async fn start() -> Receiver {
        Receiver::with_leaf(Authority::shared().receiver_leaf()).await
    }

    pub async fn with_leaf(leaf: Leaf) -> Receiver {
        Receiver::with_tls(leaf.server_config()).await
    }

    /// Talks to no client without a certificate of this authority.
    pub async fn demanding(clients: &Authority) -> Receiver {
        Receiver::with_tls(Authority::shared().receiver_leaf().demanding_config(clients)).await
    }

    async fn with_tls(config: Arc<ServerConfig>) -> Receiver {
        let shared = Arc::new(Shared {
            script: Mutex::new(Arc::new(|_: &str, _| Answer::status(200))),
            seen: Mutex::default(),
            received: Mutex::default(),
            sink: OnceLock::new(),
            arrived: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
            end: Notify::new(),
        });
        let acceptor = TlsAcceptor::from(config);
        let serving = Arc::clone(&shared);
        let starting = servers().spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
            let address = listener.local_addr().expect("it is bound");
            servers().spawn(accept(listener, acceptor, serving));
            address
        });
        Receiver { address: starting.await.expect("binding does not panic"), shared }
    }

    /// By loopback address, so that no DNS is needed.
    pub fn url(&self, target: &str) -> String {
        format!("https://{}{target}", self.address)
    }

    pub fn url_by_name(&self, name: &str, target: &str) -> String {
        format!("https://{name}:{}{target}", self.address.port())
    }

    /// Decides every answer from now on by request target and the count of earlier requests for it.
    pub fn answer(&self, script: impl Fn(&str, usize) -> Answer + Send + Sync + 'static) {
        *self.shared.script.lock().expect("no holder panics") = Arc::new(script);
    }

    /// From now on each request is handed to this, with what it is to be answered, and not kept.
    pub fn tell(&self, sink: impl Fn(Received) + Send + Sync + 'static) {
        assert!(self.shared.sink.set(Box::new(sink)).is_ok(), "it is told already");
    }

    /// Each target gets these answers in turn, and the last one for ever.
    pub fn answers(&self, sequence: Vec<Answer>) {
        self.answer(move |_, nth| sequence[nth.min(sequence.len() - 1)].clone());
    }

    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no holder panics").clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// All requests so far, once there are at least `count`.
    pub async fn wait_for(&self, count: usize) -> Vec<Received> {
        let mut arrived = self.shared.arrived.subscribe();
        let what = format!("{count} requests (there are {})", self.received().len());
        within(PATIENCE, &what, arrived.wait_for(|arrived| *arrived >= count)).await.expect("the receiver lives");
        self.received()
    }

    /// How many times each body came, by idempotency key; panics if one key came with two bodies.
    pub fn tally(&self) -> HashMap<String, usize> {
        let mut bodies: HashMap<String, HashSet<Vec<u8>>> = HashMap::new();
        let mut times = HashMap::new();
        for request in self.received() {
            let key = request.idempotency_key();
            bodies.entry(key.clone()).or_default().insert(request.body);
            *times.entry(key).or_default() += 1;
        }
        assert!(bodies.values().all(|bodies| bodies.len() == 1), "a key came with two bodies");
        times
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.end.notify_one();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            () = shared.end.notified() => return,
            accepted = listener.accept() => accepted.expect("accepting on loopback works").0,
        };
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        servers().spawn(async move {
            let connection = shared.connections.fetch_add(1, Ordering::SeqCst);
            // A client that gives up in the handshake or later has had its way; the test sees what was recorded.
            if let Ok(stream) = acceptor.accept(stream).await {
                let _ = converse(BufStream::new(stream), connection, &shared).await;
            }
        });
    }
}

type Stream = BufStream<TlsStream<TcpStream>>;

async fn converse(mut stream: Stream, connection: usize, shared: &Shared) -> std::io::Result<()> {
    let client = stream.get_ref().get_ref().1.peer_certificates().map(|chain| chain[0].to_vec());
    while let Some(mut request) = read_head(&mut stream, connection).await? {
        request.client.clone_from(&client);
        let nth = {
            let mut seen = shared.seen.lock().expect("no holder panics");
            let count = seen.entry(request.target.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let script = Arc::clone(&shared.script.lock().expect("no holder panics"));
        let answer = script(&request.target, nth);
        if let Answer::Early(status) = answer {
            stream.write_all(format!("HTTP/1.1 {status} Early\r\nContent-Length: 0\r\n\r\n").as_bytes()).await?;
            return stream.flush().await;
        }
        if let Answer::Unread = answer {
            return std::future::pending().await;
        }
        let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        stream.read_exact(&mut request.body).await?;
        request.moment = moment();
        let kept = keep(request, &answer, shared);
        let mut answer = answer;
        while let Answer::When(gate, then) = answer {
            gate.passed().await;
            answer = *then;
        }
        if let Some(nth) = kept {
            shared.received.lock().expect("no holder panics")[nth].answered = answer.code();
        }
        if !send(&mut stream, answer).await? {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

/// Which of the kept requests it is now.
fn keep(mut request: Received, answer: &Answer, shared: &Shared) -> Option<usize> {
    if let Some(sink) = shared.sink.get() {
        request.answered = answer.code();
        sink(request);
        return None;
    }
    let count = {
        let mut received = shared.received.lock().expect("no holder panics");
        received.push(request);
        received.len()
    };
    // Threads may pass each other between the lines above and this one.
    shared.arrived.send_modify(|arrived| *arrived = count.max(*arrived));
    Some(count - 1)
}

async fn read_head(stream: &mut Stream, connection: usize) -> std::io::Result<Option<Received>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) if head.is_empty() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let head = String::from_utf8(head).map_err(std::io::Error::other)?;
    let mut lines = head.trim_end().split("\r\n");
    let mut start = lines.next().unwrap_or_default().split(' ').map(str::to_string);
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.into(), value.into())).collect();
    Ok(Some(Received {
        at: Instant::now(),
        moment: moment(),
        answered: None,
        connection,
        client: None,
        method: start.next().unwrap_or_default(),
        target: start.next().unwrap_or_default(),
        headers,
        body: Vec::new(),
    }))
}

/// Whether the connection may be used again.
async fn send(stream: &mut Stream, answer: Answer) -> std::io::Result<bool> {
    match answer {
        Answer::Reply { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await?;
            stream.flush().await?;
            Ok(true)
        }
        // Early and gated answers are seen to before, and one that reads nothing has no end.
        Answer::Early(_) | Answer::When(..) | Answer::Unread | Answer::Close => Ok(false),
        Answer::Silent => std::future::pending().await,
        Answer::Garbage(bytes) => {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            Ok(false)
        }
        Answer::EndlessHead => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            endless(stream, b"X-Endless: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await
        }
        Answer::Drip => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX-Drip: ").await?;
            let mut ticks = ticks(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                stream.write_all(b"a").await?;
                stream.flush().await?;
            }
        }
        Answer::EndlessBody(status) => {
            let head = format!("HTTP/1.1 {status} Scripted\r\nTransfer-Encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            endless(stream, b"10\r\naaaaaaaaaaaaaaaa\r\n").await
        }
    }
}

/// Until the other side has had enough.
async fn endless(stream: &mut Stream, piece: &[u8]) -> std::io::Result<bool> {
    loop {
        stream.write_all(piece).await?;
        stream.flush().await?;
    }
}
