//! The real binary as a child process: started with a real file, watched by its output, its metrics and its
//! exit. It deliberately reaches into nothing; what a test learns, an operator could.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::config::Config;
use super::eventually::{PATIENCE, eventually, within};
use super::metrics::Metrics;
use super::namespace::Namespace;
use super::runtime;

pub struct Daemon {
    pid: Pid,
    output: Arc<Output>,
    exit: watch::Receiver<Option<ExitStatus>>,
    config: Config,
}

/// What the process printed, both streams together, line by line.
struct Output {
    lines: Mutex<Vec<(Instant, String)>>,
    count: watch::Sender<usize>,
}

/// What a command that ends by itself left.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub output: String,
}

impl Daemon {
    /// Running and ready.
    pub async fn start(config: &Config) -> Daemon {
        let daemon = Daemon::spawn(config);
        daemon.ready().await;
        daemon
    }

    /// Running, but not waited for.
    pub fn spawn(config: &Config) -> Daemon {
        Daemon::command(config, &["run"])
    }

    /// Running in another network, where its admin listener is out of reach.
    pub fn spawn_inside(network: &Namespace, config: &Config) -> Daemon {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", network.path().display())).arg(env!("CARGO_BIN_EXE_outboxd"));
        Daemon::begin(command, config, &config.write(), &["run"])
    }

    /// Running, and taking this file for `/etc/resolv.conf`.
    #[cfg(feature = "otlp")]
    pub fn spawn_resolving_by(servers: &Path, config: &Config) -> Daemon {
        let mount = format!("mount --bind '{}' /etc/resolv.conf && exec \"$@\"", servers.display());
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &mount, "sh"]);
        command.arg(env!("CARGO_BIN_EXE_outboxd"));
        Daemon::begin(command, config, &config.write(), &["run"])
    }

    /// Any subcommand with this configuration.
    pub fn command(config: &Config, arguments: &[&str]) -> Daemon {
        Daemon::with_file(config, &config.write(), arguments)
    }

    /// The same with a configuration file that the test wrote itself.
    pub fn with_file(config: &Config, file: &Path, arguments: &[&str]) -> Daemon {
        Daemon::begin(Command::new(env!("CARGO_BIN_EXE_outboxd")), config, file, arguments)
    }

    fn begin(mut command: Command, config: &Config, file: &Path, arguments: &[&str]) -> Daemon {
        command.args(arguments).arg("--config").arg(file);
        command.env_remove("OUTBOXD_DATABASE__URL").env("NO_COLOR", "1");
        command.envs(slots_of_the_run(config));
        command.envs(config.environment.iter().map(|(name, value)| (name, value)));
        let mut child = runtime::spawn(&command).expect("the binary and setpriv are there");
        let output = Arc::new(Output { lines: Mutex::default(), count: watch::Sender::new(0) });
        let readers = [
            collect(child.stdout.take().expect("stdout is piped"), &output),
            collect(child.stderr.take().expect("stderr is piped"), &output),
        ];
        let pid = Pid::from_raw(child.id().cast_signed());
        let (ended, exit) = watch::channel(None);
        thread::spawn(move || {
            let status = child.wait().expect("it is our child");
            // Whoever sees the exit also sees every line.
            for reader in readers {
                reader.join().expect("a reader does not panic");
            }
            ended.send_replace(Some(status));
        });
        Daemon { pid, output, exit, config: config.clone() }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub async fn ready(&self) {
        eventually("readyz is green", async || match self.get("/readyz").await {
            Ok((200, _)) => Ok(()),
            other => {
                assert!(self.exit.borrow().is_none(), "the daemon ended: {}", self.text());
                Err(format!("{other:?}\n{}", self.text()))
            }
        })
        .await;
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    pub fn signal(&self, signal: Signal) {
        // Between this look and the kill the process may end and be reaped, but its number is not given to
        // another within microseconds.
        if self.exit.borrow().is_none() {
            let _ = kill(self.pid, signal);
        }
    }

    /// What the kernel tells of it.
    pub fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.pid)).expect("it runs")
    }

    /// Bytes of memory that it holds now.
    pub fn resident(&self) -> u64 {
        self.figure("VmRSS:")
    }

    /// The most that it ever held.
    pub fn peak(&self) -> u64 {
        self.figure("VmHWM:")
    }

    /// Bytes of files in its memory: of its own code, and of libraries.
    pub fn mapped(&self) -> u64 {
        self.figure("RssFile:")
    }

    fn figure(&self, of: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(of)).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Every byte of its memory that it may write to. Only root may look.
    pub fn memory(&self) -> Vec<u8> {
        let mut memory = File::open(format!("/proc/{}/mem", self.pid)).expect("root may look");
        let mut all = Vec::new();
        for line in self.proc("maps").lines().filter(|line| line.contains(" rw")) {
            let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
            let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).expect("an address"));
            memory.seek(SeekFrom::Start(from)).expect("any place can be sought");
            // What was unmapped since, and the kernel's own pages, cannot be read.
            let _ = memory.by_ref().take(to - from).read_to_end(&mut all);
        }
        all
    }

    pub fn is_running(&self) -> bool {
        self.exit.borrow().is_none()
    }

    pub async fn wait_exit(&self, limit: Duration) -> Ended {
        let mut exit = self.exit.clone();
        let what = format!("the daemon's exit\n{}", self.text());
        let status = within(limit, &what, exit.wait_for(Option::is_some)).await.expect("the waiter outlives the child");
        let status = status.expect("it was waited for");
        Ended { code: status.code().or_else(|| status.signal().map(|signal| -signal)), output: self.text() }
    }

    /// Stopped as systemd and Kubernetes stop it; it ends well, within this time.
    pub async fn drains(&self, limit: Duration) -> Ended {
        self.signal(Signal::SIGTERM);
        let ended = self.wait_exit(limit).await;
        assert_eq!(ended.code, Some(0), "{}", ended.output);
        ended
    }

    pub async fn kill(&self) {
        self.signal(Signal::SIGKILL);
        self.wait_exit(PATIENCE).await;
    }

    pub fn lines(&self) -> Vec<(Instant, String)> {
        self.output.lines.lock().expect("no holder panics").clone()
    }

    pub fn text(&self) -> String {
        self.lines().into_iter().map(|(_, line)| line + "\n").collect()
    }

    /// The first line, from line `from` on, that holds all of `parts`.
    pub async fn line(&self, from: usize, parts: &[&str]) -> String {
        let mut count = self.output.count.subscribe();
        let search = async {
            loop {
                count.borrow_and_update();
                let found =
                    self.lines().into_iter().skip(from).find(|(_, l)| parts.iter().all(|part| l.contains(part)));
                if let Some((_, line)) = found {
                    return line;
                }
                count.changed().await.expect("the output outlives the daemon");
            }
        };
        within(PATIENCE, &format!("a line with {parts:?} in\n{}", self.text()), search).await
    }

    /// The daemon says which port it was given: `admin listening addr=127.0.0.1:12345`.
    pub async fn admin(&self) -> SocketAddr {
        let line = self.line(0, &["admin listening", "127.0.0.1:"]).await;
        let (_, rest) = line.split_once("127.0.0.1:").expect("it was looked for");
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        SocketAddr::from(([127, 0, 0, 1], port.parse().expect("the port is a number")))
    }

    /// GET of the admin listener: status and body.
    pub async fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.admin().await).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await?;
        let reply = String::from_utf8_lossy(&reply);
        let status = reply.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
        let body = reply.split_once("\r\n\r\n").map(|(_, body)| body.to_string());
        Ok((status, body.unwrap_or_default()))
    }

    pub async fn metrics(&self) -> Metrics {
        let (status, body) = self.get("/metrics").await.expect("the admin listener answers");
        assert_eq!(status, 200, "{body}");
        Metrics::parse(&body)
    }
}

/// `TEST_SLOTS=1 cargo test`, or 512: every daemon whose test leaves that open gets so many slots, and may give all of them
/// to one destination.
fn slots_of_the_run(config: &Config) -> Vec<(String, String)> {
    let Ok(slots) = std::env::var("TEST_SLOTS") else { return Vec::new() };
    let slots: usize = slots.parse().expect("TEST_SLOTS is a number");
    // With fewer than two for each outbox that is listed it would refuse to start.
    let slots = slots.max(2 * config.outboxes()).to_string();
    let open = ["slots", "per_destination", "per_destination_start"].into_iter().filter(|name| {
        // One that the test sets is part of what it tests, and so are the others then.
        !config.sets("delivery.slots") && !config.sets(&format!("delivery.{name}"))
    });
    open.map(|name| (format!("OUTBOXD_DELIVERY__{}", name.to_uppercase()), slots.clone())).collect()
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if thread::panicking() {
            eprintln!("--- outboxd {} ---\n{}", self.pid, self.text());
        }
    }
}

fn collect(stream: impl Read + Send + 'static, output: &Arc<Output>) -> thread::JoinHandle<()> {
    let output = Arc::clone(output);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            output.lines.lock().expect("no holder panics").push((Instant::now(), line));
            output.count.send_modify(|count| *count += 1);
        }
    })
}
