//! A peer that does what its script says, over TCP or TLS, and counts what came of it. The script is data; what a
//! well-behaved peer would do is not in it. `receiver` is the peer that understands requests.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::eventually::ticks;
use super::runtime::servers;

#[derive(Clone, Debug)]
pub enum Step {
    /// Reads one byte.
    Byte,
    /// Reads a request's head.
    Head,
    /// Reads a whole request.
    Request,
    Say(Vec<u8>),
    /// Below TLS, where there is TLS.
    SayRaw(Vec<u8>),
    /// The same again and again, as fast as it goes, until the other side has had enough.
    Flood(Vec<u8>),
    /// A byte at a time of the same again and again, so that no single read is slow.
    Drip(Vec<u8>),
    /// New TLS keys again and again.
    Rekey,
    /// Reads until the other side closes.
    Wait,
    /// Neither reads nor writes nor closes.
    Deaf,
    /// Lets the other side take in what was said: a reset takes away what was not read yet.
    Pause,
    Close,
    Reset,
}

/// What a peer is. Its steps are begun anew for every request.
#[derive(Clone)]
pub enum Nature {
    /// Nobody listens.
    Absent,
    /// Its queue of connections is full: Linux leaves further ones unanswered.
    Full,
    Tcp(Vec<Step>),
    Tls(Arc<ServerConfig>, Vec<Step>),
    /// As TLS, and these bytes come with the server's own part of the handshake.
    Hasty(Arc<ServerConfig>, Vec<u8>, Vec<Step>),
}

pub struct Abuser {
    pub address: SocketAddr,
    /// The heads of requests, by connection.
    seen: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Abuser {
    pub async fn start(nature: Nature) -> Abuser {
        let seen: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
        let noting = Arc::clone(&seen);
        let starting = servers().spawn(async move {
            let socket = TcpSocket::new_v4().expect("there is IPv4");
            socket.bind("127.0.0.1:0".parse().expect("an address")).expect("loopback has a free port");
            let address = socket.local_addr().expect("it is bound");
            match nature {
                // Bound all the same, so that nobody else comes to listen there.
                Nature::Absent => hold(socket),
                Nature::Full => {
                    let listener = socket.listen(1).expect("a bound socket listens");
                    let mut queued = Vec::new();
                    while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
                        queued.push(stream.expect("the queue takes it"));
                    }
                    hold((listener, queued));
                }
                nature => {
                    let listener = socket.listen(1024).expect("a bound socket listens");
                    servers().spawn(accept(listener, nature, noting));
                }
            }
            address
        });
        Abuser { address: starting.await.expect("binding does not panic"), seen }
    }

    pub fn url(&self, target: &str) -> String {
        format!("https://{}{target}", self.address)
    }

    pub fn connections(&self) -> Vec<Vec<String>> {
        self.seen.lock().expect("no holder panics").clone()
    }
}

/// Until the test binary ends.
fn hold(what: impl Send + 'static) {
    servers().spawn(async move {
        let _held = what;
        std::future::pending::<()>().await;
    });
}

async fn accept(listener: TcpListener, nature: Nature, noting: Arc<Mutex<Vec<Vec<String>>>>) {
    loop {
        let (tcp, _) = listener.accept().await.expect("accepting on loopback works");
        let mut seen = noting.lock().expect("no holder panics");
        seen.push(Vec::new());
        let note = Note { seen: Arc::clone(&noting), connection: seen.len() - 1 };
        // What goes wrong is the other side's doing, and the daemon's verdict tells it.
        servers().spawn(play(nature.clone(), tcp, note));
    }
}

struct Note {
    seen: Arc<Mutex<Vec<Vec<String>>>>,
    connection: usize,
}

async fn play(nature: Nature, tcp: TcpStream, note: Note) -> Option<()> {
    match nature {
        Nature::Absent | Nature::Full => None,
        Nature::Tcp(steps) => converse(Plain(tcp), &steps, &note).await,
        Nature::Tls(config, steps) => {
            let stream = TlsAcceptor::from(config).accept(tcp).await.ok()?;
            converse(stream, &steps, &note).await
        }
        Nature::Hasty(config, bytes, steps) => {
            let hasty = |session: &mut rustls::ServerConnection| {
                session.writer().write_all(&bytes).expect("a session buffers a few bytes");
            };
            let stream = TlsAcceptor::from(config).accept_with(tcp, hasty).await.ok()?;
            converse(stream, &steps, &note).await
        }
    }
}

/// What steps need besides reading and writing.
trait Stream: AsyncRead + AsyncWrite + Unpin {
    fn tcp(&mut self) -> &mut TcpStream;
    fn rekey(&mut self) {}
}

struct Plain(TcpStream);

impl Stream for Plain {
    fn tcp(&mut self) -> &mut TcpStream {
        &mut self.0
    }
}

impl Stream for TlsStream<TcpStream> {
    fn tcp(&mut self) -> &mut TcpStream {
        self.get_mut().0
    }

    fn rekey(&mut self) {
        self.get_mut().1.refresh_traffic_keys().expect("TLS 1.3 can");
    }
}

macro_rules! delegate {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $value:ty;)+) => {
        $(fn $name(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
            $($argument: $kind),*
        ) -> std::task::Poll<std::io::Result<$value>> {
            std::pin::Pin::new(&mut self.0).$name(cx, $($argument),*)
        })+
    };
}

impl AsyncRead for Plain {
    delegate! { poll_read(buffer: &mut tokio::io::ReadBuf<'_>) -> (); }
}

impl AsyncWrite for Plain {
    delegate! { poll_write(bytes: &[u8]) -> usize; poll_flush() -> (); poll_shutdown() -> (); }
}

/// `None` where the other side has gone.
async fn converse(mut stream: impl Stream, steps: &[Step], note: &Note) -> Option<()> {
    loop {
        for step in steps {
            match step {
                Step::Byte => stream.read_u8().await.map(drop).ok()?,
                Step::Head => note.head(&mut stream).await.map(drop)?,
                Step::Request => {
                    let length = note.head(&mut stream).await?;
                    let mut body = vec![0; length];
                    stream.read_exact(&mut body).await.ok()?;
                }
                Step::Say(bytes) => say(&mut stream, bytes).await?,
                Step::SayRaw(bytes) => say(stream.tcp(), bytes).await?,
                Step::Flood(piece) => loop {
                    say(&mut stream, piece).await?;
                },
                Step::Drip(piece) => {
                    let mut ticks = ticks(Duration::from_millis(50));
                    for byte in piece.iter().cycle() {
                        ticks.tick().await;
                        say(&mut stream, &[*byte]).await?;
                    }
                }
                Step::Rekey => loop {
                    stream.rekey();
                    stream.flush().await.ok()?;
                    tokio::task::yield_now().await;
                },
                Step::Wait => loop {
                    if stream.read_u8().await.is_err() {
                        return None;
                    }
                },
                // With the connection open until the test binary ends.
                Step::Deaf => std::future::pending().await,
                Step::Pause => {
                    let mut ticks = ticks(Duration::from_millis(700));
                    ticks.tick().await;
                    ticks.tick().await;
                }
                Step::Close => return stream.shutdown().await.ok(),
                Step::Reset => {
                    // Nothing is left to be sent, so that it does not matter how long that may take.
                    stream.tcp().set_zero_linger().ok()?;
                    return None;
                }
            }
        }
    }
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).await.ok()?;
    stream.flush().await.ok()
}

impl Note {
    /// Reads a head and writes it down; says how long its body is.
    async fn head(&self, stream: &mut (impl AsyncRead + Unpin)) -> Option<usize> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        self.seen.lock().expect("no holder panics")[self.connection].push(head);
        Some(length.unwrap_or(0))
    }
}
