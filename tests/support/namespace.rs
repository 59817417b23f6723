//! A network namespace in which every address of both families is this one machine: whatever connects to anywhere connects
//! to a listener here, and the kernel keeps count. It deliberately filters nothing, so that nothing is hidden by it.

use std::collections::BTreeSet;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use nix::sched::{CloneFlags, unshare};

type Order = Box<dyn FnOnce() + Send>;

/// A thread that left the test's network. It ends, and the namespace with it, when this is dropped and the last process
/// inside is gone.
pub struct Namespace {
    orders: mpsc::Sender<Order>,
    path: PathBuf,
}

/// Where connections arrived that were accepted on one port.
#[derive(Clone)]
pub struct Sink(Arc<Mutex<BTreeSet<IpAddr>>>);

impl Sink {
    pub fn destinations(&self) -> BTreeSet<IpAddr> {
        self.0.lock().expect("no holder panics").clone()
    }
}

impl Namespace {
    /// What stands in the way, where it cannot be made: it needs root and the kernel's leave.
    pub fn new() -> Result<Namespace, String> {
        let (orders, inbox) = mpsc::channel::<Order>();
        let (made, outcome) = mpsc::channel();
        thread::spawn(move || {
            let entered = enter();
            let lives = entered.is_ok();
            made.send(entered).expect("the maker waits");
            if lives {
                inbox.into_iter().for_each(|order| order());
            }
        });
        let path = outcome.recv().expect("the thread answers")?;
        Ok(Namespace { orders, path })
    }

    /// For `nsenter --net`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does `work` inside; a socket that it makes stays inside wherever it is used.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = mpsc::channel();
        let order = Box::new(move || done.send(work()).expect("the asker waits"));
        self.orders.send(order).expect("the thread lives as long as this");
        result.recv().expect("the work does not panic")
    }

    /// From now on this address is one of the machine's own.
    pub fn take_on(&self, address: &str) {
        let command = format!("address add {address} dev lo");
        self.run(move || ip(&command)).unwrap_or_else(|error| panic!("{error}"));
    }

    /// TCP connections that were begun from inside, of both families, to whatever port, answered or not. Unix sockets and
    /// DNS over UDP are none.
    pub fn connects(&self) -> u64 {
        self.run(|| {
            // `/proc/net` would be the network of the process, which this thread left.
            let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("Linux counts");
            let mut tcp = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
            let names = tcp.next().expect("a line of names");
            let values = tcp.next().expect("a line of values");
            let mut pairs = names.split(' ').zip(values.split(' '));
            let (_, opened) = pairs.find(|(name, _)| *name == "ActiveOpens").expect("Linux counts these");
            opened.parse().expect("a number")
        })
    }

    /// Accepts on this port of every address there is, and hangs up.
    pub fn sink(&self, port: u16) -> Sink {
        let listener = self.run(move || TcpListener::bind(("::", port)).expect("the namespace is new"));
        let sink = Sink(Arc::default());
        let seen = sink.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let address = stream.local_addr().expect("it is connected").ip().to_canonical();
                seen.0.lock().expect("no holder panics").insert(address);
            }
        });
        sink
    }
}

/// Leaves the network of the test and makes one in which everything is local.
fn enter() -> Result<PathBuf, String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))?;
    for arguments in ["link set lo up", "route add local 0.0.0.0/0 dev lo", "-6 route add local ::/0 dev lo"] {
        ip(arguments)?;
    }
    let thread = nix::unistd::gettid();
    Ok(format!("/proc/{}/task/{thread}/ns/net", std::process::id()).into())
}

/// On the network of the thread that asks.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
