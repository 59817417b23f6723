//! Processes of the real SDK, told what to do in JSON lines. They are forks of one process, since importing
//! the SDK costs many CPU-seconds; a fork costs nothing, so every test has its own and may kill it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{UnixListener, UnixStream};

use super::eventually::within;
use super::runtime;

/// Beside the work itself, the first call may wait for the import on a busy machine.
const LONGEST: Duration = Duration::from_secs(240);

pub struct Peer {
    pid: Pid,
    stream: tokio::sync::Mutex<BufStream<UnixStream>>,
}

impl Peer {
    pub async fn seller() -> Peer {
        Peer::start("seller").await
    }

    pub async fn receiver() -> Peer {
        Peer::start("receiver").await
    }

    /// The SDK's registry of agents and its store of proposals.
    pub async fn registry() -> Peer {
        Peer::start("registry").await
    }

    /// What the SDK says of URLs and rows.
    pub async fn oracle() -> Peer {
        Peer::start("oracle").await
    }

    async fn start(role: &'static str) -> Peer {
        let directory = TempDir::new().expect("the temp directory takes another");
        let socket = directory.path().join("peer");
        let listener = UnixListener::bind(&socket).expect("a fresh directory takes a socket");
        // The import blocks; a test's own runtime must go on meanwhile.
        let pid = tokio::task::spawn_blocking(move || {
            Zygote::shared()
                .lock()
                .expect("no holder panics")
                .fork(role, socket.to_str().expect("temp paths are UTF-8"))
        });
        let pid = within(LONGEST, "the SDK's import", pid).await.unwrap_or_else(|error| panic!("{error}"));
        let (stream, _) = within(LONGEST, "the fork calls back", listener.accept()).await.expect("accepting works");
        Peer { pid, stream: tokio::sync::Mutex::new(BufStream::new(stream)) }
    }

    /// Panics with the peer's traceback if it fails.
    pub async fn call(&self, command: &str, arguments: Value) -> Value {
        self.try_call(command, arguments).await.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub async fn try_call(&self, command: &str, arguments: Value) -> Result<Value, String> {
        let mut request = arguments;
        request["do"] = command.into();
        let mut stream = self.stream.lock().await;
        let exchange = async {
            stream.write_all(format!("{request}\n").as_bytes()).await?;
            stream.flush().await?;
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            std::io::Result::Ok(line)
        };
        let line = within(LONGEST, command, exchange).await.expect("the peer lives");
        let mut answer: Value = serde_json::from_str(&line).expect("the peer answers in JSON");
        match answer.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_string()),
            None => Ok(answer["ok"].take()),
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid, signal).expect("the peer lives");
    }

    /// SIGKILL; over when the kernel has closed its socket.
    pub async fn kill(self) {
        self.signal(Signal::SIGKILL);
        let mut stream = self.stream.lock().await;
        let mut rest = String::new();
        within(LONGEST, "the peer's end", stream.read_line(&mut rest)).await.expect("the socket ends cleanly");
        assert_eq!(rest, "", "the peer had something to say");
    }
}

struct Zygote {
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Zygote {
    fn shared() -> &'static Mutex<Zygote> {
        static SHARED: LazyLock<Mutex<Zygote>> = LazyLock::new(|| Mutex::new(Zygote::start()));
        &SHARED
    }

    fn start() -> Zygote {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let python = std::env::var_os("OUTBOXD_TEST_PYTHON").map_or(root.join("target/venv/bin/python"), PathBuf::from);
        assert!(
            python.is_file(),
            "the tests against the real SDK need {}; make it with: python3 -m venv target/venv && \
             target/venv/bin/pip install -r tests/interop/requirements.txt",
            python.display()
        );
        let mut command = Command::new(python);
        command.arg(root.join("tests/interop/zygote.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = runtime::spawn(&command).expect("Python starts");
        let errors = BufReader::new(child.stderr.take().expect("stderr is piped"));
        thread::spawn(move || errors.lines().map_while(Result::ok).for_each(|line| eprintln!("sdk: {line}")));
        let orders = child.stdin.take().expect("stdin is piped");
        let replies = BufReader::new(child.stdout.take().expect("stdout is piped"));
        thread::spawn(move || child.wait());
        let mut zygote = Zygote { orders, replies };
        assert_eq!(zygote.reply(), json!({"ready": true}));
        zygote
    }

    fn fork(&mut self, role: &str, socket: &str) -> Pid {
        writeln!(self.orders, "{}", json!({"role": role, "socket": socket})).expect("the zygote lives");
        let pid = self.reply()["pid"].as_i64().expect("the zygote answers with a number");
        Pid::from_raw(i32::try_from(pid).expect("process ids fit"))
    }

    fn reply(&mut self) -> Value {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("the zygote's output is text");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the SDK did not import; see its output above"))
    }
}
