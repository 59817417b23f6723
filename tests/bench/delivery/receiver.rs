//! The receiver that every contender posts to, in a process of its own: hyper over TLS, one thread. Each of its ports is a
//! destination, with its own way to answer. It notes when each row came and keeps a few requests whole, so that their
//! signatures can be checked; it judges nothing itself.
//!
//! It is told what to do line by line on its standard input, and answers each line with one.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::processes::Process;
use super::support::certs::{Authority, Leaf};
use super::support::keys::SigningKey;
use super::support::receiver::Received;
use super::support::verify::assert_signed;

/// Every so many requests one is kept whole.
const SAMPLE_EVERY: u64 = 1000;

/// Ports that answer from the start; one more, [`DOWN`], refuses connections until it is opened.
pub const PORTS: usize = 53;
pub const DOWN: usize = PORTS;

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(long)]
    certificate: String,
    #[arg(long)]
    key: String,
}

#[derive(Serialize, Deserialize)]
enum Order {
    /// Forget everything; `rows` will come, and each is answered after `delay`.
    Reset {
        rows: usize,
        delay: Duration,
    },
    /// This port answers after a delay of its own, or never.
    Behave {
        port: usize,
        delay: Option<Duration>,
    },
    Open,
    Count,
    Report,
    Times,
}

/// What came since the last reset.
#[derive(Serialize, Deserialize, Default)]
pub struct Report {
    /// Distinct rows.
    pub rows: u64,
    /// Requests for a row that had come before.
    pub again: u64,
    /// Requests without a signature, or for no row of ours.
    pub strange: u64,
    pub connections: u64,
    /// Of all ports together, and of each.
    pub peak_in_flight: u64,
    pub peaks: Vec<u64>,
    samples: Vec<Sample>,
}

#[derive(Serialize, Deserialize)]
struct Sample {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What all ports have in common.
struct Ledger {
    ports: Vec<Port>,
    /// Microseconds since 1970; 0 for what has not come.
    times: RefCell<Vec<u64>>,
    report: RefCell<Report>,
    in_flight: Cell<u64>,
}

struct Port {
    /// None: it never answers.
    delay: Cell<Option<Duration>>,
    in_flight: Cell<u64>,
    peak: Cell<u64>,
}

/// A request until it is answered or its sender is gone.
struct Held {
    ledger: Rc<Ledger>,
    port: usize,
}

#[tokio::main(flavor = "current_thread")]
pub async fn receive(arguments: Arguments) {
    tokio::task::LocalSet::new().run_until(serve(arguments)).await;
}

/// Ends with its standard input.
async fn serve(arguments: Arguments) {
    let text = |path: &str| std::fs::read_to_string(path).expect("the file is there");
    let leaf = Leaf::from_pem(&text(&arguments.certificate), &text(&arguments.key));
    let acceptor = TlsAcceptor::from(leaf.server_config());
    let ports = (0..=PORTS)
        .map(|_| Port { delay: Cell::new(Some(Duration::ZERO)), in_flight: Cell::new(0), peak: Cell::new(0) })
        .collect();
    let (times, report) = (RefCell::default(), RefCell::default());
    let ledger = Rc::new(Ledger { ports, times, report, in_flight: Cell::new(0) });
    let mut sockets: Vec<TcpSocket> = (0..=PORTS).map(|_| bound()).collect();
    let names: Vec<_> = sockets.iter().map(|socket| socket.local_addr().expect("it is bound")).collect();
    println!("{}", serde_json::to_string(&names).expect("addresses are strings"));
    let listen = |socket: TcpSocket, port| {
        let listener = socket.listen(1024).expect("loopback is there");
        spawn_local(accept(listener, acceptor.clone(), Rc::clone(&ledger), port));
    };
    let mut down = sockets.pop();
    sockets.into_iter().enumerate().for_each(|(port, socket)| listen(socket, port));
    let (sender, mut orders) = mpsc::unbounded_channel();
    // It ends with the input; the channel with it.
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    while let Some(line) = orders.recv().await {
        let order = serde_json::from_str(&line).expect("orders are JSON");
        if matches!(order, Order::Open) {
            down.take().into_iter().for_each(|socket| listen(socket, DOWN));
        }
        println!("{}", ledger.obey(order));
    }
}

/// Its port is ours, and refuses connections until somebody listens.
fn bound() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("descriptors are left");
    socket.bind("127.0.0.1:0".parse().expect("it is an address")).expect("loopback is there");
    socket
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, ledger: Rc<Ledger>, port: usize) {
    loop {
        let (stream, _) = listener.accept().await.expect("descriptors are left");
        let (acceptor, ledger) = (acceptor.clone(), Rc::clone(&ledger));
        spawn_local(async move {
            stream.set_nodelay(true).expect("it is a TCP socket");
            // A client that is killed in the middle of it is nothing to us.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            ledger.report.borrow_mut().connections += 1;
            let service = service_fn(|request| answer(Rc::clone(&ledger), port, request));
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    ledger: Rc<Ledger>,
    port: usize,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let held = ledger.hold(port);
    ledger.note(head.method.as_str(), head.uri.path(), &head.headers, &body);
    drop(body);
    match ledger.ports[port].delay.get() {
        Some(Duration::ZERO) => {}
        Some(delay) => tokio::time::sleep(delay).await,
        None => std::future::pending().await,
    }
    drop(held);
    Ok(Response::new(Empty::new()))
}

impl Drop for Held {
    fn drop(&mut self) {
        for count in [&self.ledger.in_flight, &self.ledger.ports[self.port].in_flight] {
            count.set(count.get() - 1);
        }
    }
}

impl Ledger {
    fn hold(self: &Rc<Ledger>, port: usize) -> Held {
        let of = &self.ports[port];
        for count in [&self.in_flight, &of.in_flight] {
            count.set(count.get() + 1);
        }
        of.peak.set(of.peak.get().max(of.in_flight.get()));
        let mut report = self.report.borrow_mut();
        report.peak_in_flight = report.peak_in_flight.max(self.in_flight.get());
        Held { ledger: Rc::clone(self), port }
    }

    fn note(&self, method: &str, target: &str, headers: &HeaderMap, body: &Bytes) {
        let (mut report, mut times) = (self.report.borrow_mut(), self.times.borrow_mut());
        let row = target.strip_prefix("/rows/").and_then(|row| row.parse::<usize>().ok());
        match row.and_then(|row| times.get_mut(row)) {
            Some(time) if headers.contains_key("signature") => {
                if *time == 0 {
                    report.rows += 1;
                    *time = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970").as_micros() as u64;
                } else {
                    report.again += 1;
                }
            }
            _ => report.strange += 1,
        }
        if report.rows % SAMPLE_EVERY == 1 {
            let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            report.samples.push(Sample { method: method.into(), target: target.into(), headers, body: body.to_vec() });
        }
    }

    fn obey(&self, order: Order) -> String {
        let answer = match order {
            Order::Reset { rows, delay } => {
                for port in &self.ports {
                    port.delay.set(Some(delay));
                    port.peak.set(0);
                }
                *self.times.borrow_mut() = vec![0; rows];
                *self.report.borrow_mut() = Report::default();
                serde_json::to_string(&())
            }
            Order::Behave { port, delay } => {
                self.ports[port].delay.set(delay);
                serde_json::to_string(&())
            }
            Order::Open => serde_json::to_string(&()),
            Order::Count => serde_json::to_string(&self.report.borrow().rows),
            Order::Report => {
                self.report.borrow_mut().peaks = self.ports.iter().map(|port| port.peak.get()).collect();
                serde_json::to_string(&*self.report.borrow())
            }
            Order::Times => serde_json::to_string(&*self.times.borrow()),
        };
        answer.expect("numbers and strings are JSON")
    }
}

impl Report {
    /// Panics unless each row came once and every request that was kept is signed by the key.
    pub fn assert_sound(&self, key: &SigningKey) {
        assert_eq!((self.again, self.strange), (0, 0), "rows came again, or strange requests");
        assert!(!self.samples.is_empty(), "nothing came");
        for sample in &self.samples {
            let request = Received {
                at: std::time::Instant::now(),
                moment: 0.0,
                answered: None,
                connection: 0,
                client: None,
                method: sample.method.clone(),
                target: sample.target.clone(),
                headers: sample.headers.clone(),
                body: sample.body.clone(),
            };
            assert_signed(&request, key);
        }
    }
}

/// The receiver's process, from the side of who gives the orders.
pub struct Receiver {
    pub process: Process,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    authorities: Vec<String>,
}

impl Receiver {
    pub fn start(home: &std::path::Path) -> Receiver {
        let leaf = Authority::shared().receiver_leaf();
        let (certificate, key) = (home.join("receiver.pem"), home.join("receiver.key"));
        std::fs::write(&certificate, &leaf.certificate_pem).expect("the directory is ours");
        std::fs::write(&key, &leaf.key_pem).expect("the directory is ours");
        let mut command = Process::ourselves("receiver");
        command.arg("--certificate").arg(certificate).arg("--key").arg(key);
        let (process, orders, answers) = Process::talking("receiver", &command);
        let mut receiver = Receiver { process, orders, answers, authorities: Vec::new() };
        receiver.authorities = serde_json::from_str(&receiver.line()).expect("it says where it listens");
        receiver
    }

    pub fn url(&self, row: usize) -> String {
        self.url_at(0, row)
    }

    pub fn url_at(&self, port: usize, row: usize) -> String {
        format!("https://{}/rows/{row}", self.authorities[port])
    }

    pub fn reset(&mut self, rows: usize, delay: Duration) {
        self.ask(&Order::Reset { rows, delay })
    }

    /// This port answers after so long, or never; until the next reset.
    pub fn behave(&mut self, port: usize, delay: Option<Duration>) {
        self.ask(&Order::Behave { port, delay })
    }

    /// The port that was down is so no longer.
    pub fn open(&mut self) {
        self.ask(&Order::Open)
    }

    /// When each row came first, in microseconds since 1970; 0 for what has not come.
    pub fn times(&mut self) -> Vec<u64> {
        self.ask(&Order::Times)
    }

    /// Distinct rows that came.
    pub fn count(&mut self) -> u64 {
        self.ask(&Order::Count)
    }

    pub fn report(&mut self) -> Report {
        self.ask(&Order::Report)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&mut self, order: &Order) -> T {
        let order = serde_json::to_string(order).expect("numbers are JSON");
        writeln!(self.orders, "{order}").expect("the receiver lives");
        serde_json::from_str(&self.line()).expect("it answers in JSON")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the receiver lives");
        assert!(!line.is_empty(), "the receiver ended: {}", self.process.said());
        line.trim_end().to_owned()
    }
}
