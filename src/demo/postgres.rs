//! A Postgres cluster of one's own for the demo and the tests: made, waited for, stopped and removed.
//! It deliberately knows no schema and speaks no SQL; its users connect to `url` like to any other server.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::sys::statvfs::statvfs;
use nix::unistd::{Pid, User, geteuid};

const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "outboxd-pg-";
/// A container's /dev/shm often has 64 MiB, which an empty cluster (40 MiB) and one WAL switch fill.
const ROOM_WANTED: u64 = 1 << 30;
/// `sun_path` holds 107 bytes, and Postgres appends `/.s.PGSQL.5432.lock` to the directory.
const LONGEST_DIRECTORY: usize = 85;
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// A fast shutdown takes about 30 ms; a checkpoint on a busy disk may take seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How the cluster is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Keep fsync, synchronous_commit and full_page_writes on, and the data on the temp directory's disk
    /// instead of in memory: for whoever measures speed or survives a crash.
    pub durable: bool,
    /// The directory to make the cluster's own directory in.
    pub base: Option<PathBuf>,
    /// Extra settings, each as `-c name=value`; they win over those that `durable` chose.
    pub settings: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ThrowawayError {
    #[error(
        "no Postgres server programs (initdb, postgres) in /usr/lib/postgresql/*/bin or on PATH: \
         apt-get install postgresql"
    )]
    NotInstalled,
    #[error("Postgres refuses to run as root and `setpriv` is not on PATH: apt-get install util-linux")]
    NoSetpriv,
    #[error("Postgres refuses to run as root and there is no user `postgres` or `nobody` to run it as")]
    NoUser,
    #[error("the directory {0} is too long for a unix socket ({LONGEST_DIRECTORY} bytes): set TMPDIR to a shorter one")]
    PathTooLong(PathBuf),
    #[error("cannot prepare {path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}")]
    Run { program: String, source: io::Error },
    #[error("initdb failed ({status}): {output}")]
    Initdb { status: ExitStatus, output: String },
    #[error("postgres ended before it was ready ({status}): {log}")]
    Ended { status: String, log: String },
    #[error("postgres was not ready within {} s: {log}", START_TIMEOUT.as_secs())]
    NotReady { log: String },
}

/// A running cluster. Dropping it stops the server and removes its directory; if this process is killed
/// instead, the kernel sends the server SIGINT and the next `start` removes the directory.
#[derive(Debug)]
pub struct Throwaway {
    directory: PathBuf,
    programs: PathBuf,
    server: Option<Server>,
}

#[derive(Debug)]
struct Server {
    pid: Pid,
    /// Locked only so that a cluster can be shared by the threads of a test binary.
    ended: Mutex<Receiver<ExitStatus>>,
    keeper: JoinHandle<()>,
}

impl Server {
    fn wait(&self, timeout: Duration) -> Result<ExitStatus, RecvTimeoutError> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(timeout)
    }
}

impl Throwaway {
    /// Makes and starts a cluster with trust authentication for user `postgres`, on a unix socket only.
    pub fn start(options: &Options) -> Result<Throwaway, ThrowawayError> {
        let programs = find_programs().ok_or(ThrowawayError::NotInstalled)?;
        let account = Account::choose()?;
        let base = options.base.clone().unwrap_or_else(|| choose_base(options.durable));
        remove_stale(&base);
        let directory = make_directory(&base, &account)?;
        // From here on the value owns the directory, so that every early return removes it.
        let mut cluster = Throwaway { directory, programs, server: None };
        cluster.initialise(&account)?;
        cluster.server = Some(cluster.launch(&account, options)?);
        cluster.await_ready()?;
        Ok(cluster)
    }

    /// The connection string of a database in this cluster, as libpq and its likes read it.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@/{database}?host={}", self.directory.display())
    }

    /// The directory of the unix socket (`host` in a connection string).
    pub fn socket_directory(&self) -> &Path {
        &self.directory
    }

    /// Where this server's programs are: `psql`, `pg_dump` and the rest.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// The server's process id.
    pub fn pid(&self) -> Option<i32> {
        self.server.as_ref().map(|server| server.pid.as_raw())
    }

    /// What the server wrote to its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Stops the server and removes its directory, as dropping does.
    pub fn stop(self) {
        drop(self);
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn initialise(&self, account: &Account) -> Result<(), ThrowawayError> {
        let mut command = account.command(&self.programs.join("initdb"), Keep::Nothing);
        command.arg("-D").arg(self.data());
        command.args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|source| ThrowawayError::Run { program: "initdb".into(), source })?;
        if output.status.success() {
            return Ok(());
        }
        Err(ThrowawayError::Initdb {
            status: output.status,
            output: last_lines(&String::from_utf8_lossy(&output.stderr)),
        })
    }

    /// PR_SET_PDEATHSIG fires when the *thread* that forked ends, so the server is forked by a thread that
    /// lives exactly as long as the server does.
    fn launch(&self, account: &Account, options: &Options) -> Result<Server, ThrowawayError> {
        let mut command = account.command(&self.programs.join("postgres"), Keep::DieWithUs);
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.directory);
        let mut settings = vec!["listen_addresses=".to_string(), "max_connections=200".into()];
        if !options.durable {
            settings.extend(["fsync=off", "synchronous_commit=off", "full_page_writes=off"].map(String::from));
        }
        settings.extend(options.settings.iter().map(|(name, value)| format!("{name}={value}")));
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        let path = self.directory.join("log");
        let log = File::create(&path).map_err(|source| ThrowawayError::Directory { path, source })?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);

        let (spawned, spawn) = mpsc::channel();
        let (over, ended) = mpsc::channel();
        let keeper = thread::spawn(move || match command.spawn() {
            Err(source) => {
                let _ = spawned.send(Err(source));
            }
            Ok(mut child) => {
                let _ = spawned.send(Ok(child.id()));
                if let Ok(status) = child.wait() {
                    let _ = over.send(status);
                }
            }
        });
        let run = |source| ThrowawayError::Run { program: "postgres".into(), source };
        let pid = spawn.recv().map_err(|_| run(io::ErrorKind::BrokenPipe.into()))?.map_err(run)?;
        Ok(Server { pid: Pid::from_raw(pid.cast_signed()), ended: Mutex::new(ended), keeper })
    }

    /// The server writes `ready` into the eighth line of its pid file when it takes connections; pg_ctl
    /// waits for the same sign.
    fn await_ready(&self) -> Result<(), ThrowawayError> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            let pid_file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            if pid_file.lines().nth(7).is_some_and(|status| status.trim() == "ready") {
                return Ok(());
            }
            match server.wait(Duration::from_millis(10)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(status) => {
                    return Err(ThrowawayError::Ended { status: status.to_string(), log: last_lines(&self.log()) });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ThrowawayError::Ended { status: "unknown".into(), log: last_lines(&self.log()) });
                }
            }
        }
        Err(ThrowawayError::NotReady { log: last_lines(&self.log()) })
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            // SIGINT is Postgres' fast shutdown, SIGQUIT its immediate one. A send fails only where the
            // server is gone already.
            for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGKILL] {
                if server.wait(Duration::ZERO) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                let _ = signal::kill(server.pid, signal);
                if server.wait(STOP_TIMEOUT) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            let _ = server.keeper.join();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether a program is to be ended when this process ends, however it ends.
enum Keep {
    Nothing,
    DieWithUs,
}

/// Whom the server runs as: ourselves, or another user where we are root.
struct Account {
    user: Option<User>,
    setpriv: Option<PathBuf>,
}

impl Account {
    fn choose() -> Result<Account, ThrowawayError> {
        let setpriv = on_path("setpriv");
        if !geteuid().is_root() {
            return Ok(Account { user: None, setpriv });
        }
        if setpriv.is_none() {
            return Err(ThrowawayError::NoSetpriv);
        }
        let user = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
        Ok(Account { user: Some(user.ok_or(ThrowawayError::NoUser)?), setpriv })
    }

    /// `program` under this account, out of our process group (a terminal's Ctrl-C must reach us alone,
    /// since we still have to settle rows) and out of our environment (PG* variables would steer it).
    fn command(&self, program: &Path, keep: Keep) -> Command {
        use std::os::unix::process::CommandExt;

        let mut words: Vec<OsString> = Vec::new();
        if let Some(setpriv) = &self.setpriv {
            words.push(setpriv.into());
            if let Some(user) = &self.user {
                words.push(format!("--reuid={}", user.name).into());
                words.push(format!("--regid={}", user.gid).into());
                words.push("--init-groups".into());
            }
            if let Keep::DieWithUs = keep {
                // setpriv's name for it; without the prefix SIG it knows INT only from util-linux 2.39 on.
                words.extend(["--pdeathsig".into(), "INT".into()]);
            }
        }
        words.push(program.into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir("/").process_group(0).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C").env("TZ", "UTC");
        command
    }
}

fn find_programs() -> Option<PathBuf> {
    let complete = |directory: &Path| directory.join("initdb").is_file() && directory.join("postgres").is_file();
    let newest = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(_, directory)| complete(directory))
        .max();
    if let Some((_, directory)) = newest {
        return Some(directory);
    }
    let directory = fs::canonicalize(on_path("initdb")?).ok()?.parent()?.to_path_buf();
    complete(&directory).then_some(directory)
}

fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|d| d.join(program)).find(|file| file.is_file())
}

fn choose_base(durable: bool) -> PathBuf {
    let roomy =
        statvfs(SHARED_MEMORY).is_ok_and(|fs| fs.blocks_available().saturating_mul(fs.fragment_size()) >= ROOM_WANTED);
    if roomy && !durable { PathBuf::from(SHARED_MEMORY) } else { std::env::temp_dir() }
}

fn make_directory(base: &Path, account: &Account) -> Result<PathBuf, ThrowawayError> {
    use std::os::unix::fs::{DirBuilderExt, chown};

    static NEXT: AtomicU32 = AtomicU32::new(0);
    let path = base.join(format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    if path.as_os_str().len() > LONGEST_DIRECTORY {
        return Err(ThrowawayError::PathTooLong(path));
    }
    let made = fs::DirBuilder::new().mode(0o700).create(&path).and_then(|()| match &account.user {
        Some(user) => chown(&path, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
        None => Ok(()),
    });
    made.map_err(|source| ThrowawayError::Directory { path: path.clone(), source })?;
    Ok(path)
}

/// Removes what killed processes left. Errors are not ours to report: another start may be removing the
/// same directory, or it belongs to another user.
fn remove_stale(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|rest| rest.split_once('-'));
        let Some(owner) = owner.and_then(|(pid, _)| pid.parse().ok()) else {
            continue;
        };
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && !is_alive(owner) && !server_pid(&entry.path()).is_some_and(is_alive) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A server whose owner was killed a moment ago may still be shutting down.
fn server_pid(directory: &Path) -> Option<i32> {
    fs::read_to_string(directory.join("data/postmaster.pid")).ok()?.lines().next()?.parse().ok()
}

fn is_alive(pid: i32) -> bool {
    // EPERM also means that the process exists.
    signal::kill(Pid::from_raw(pid), None) != Err(nix::errno::Errno::ESRCH)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(url: &str) -> tokio_postgres::Config {
        url.parse().expect("our own url parses")
    }

    async fn query(url: &str, sql: &str) -> String {
        let (client, connection) = connect(url).connect(tokio_postgres::NoTls).await.expect("the cluster answers");
        tokio::spawn(connection);
        client.query_one(sql, &[]).await.expect("a simple question is answered").get(0)
    }

    #[tokio::test]
    async fn a_cluster_answers_and_leaves_nothing_behind() {
        let settings = vec![("work_mem".to_string(), "9MB".to_string())];
        let cluster = Throwaway::start(&Options { settings, ..Options::default() }).expect("Postgres is installed");
        let url = cluster.url("postgres");
        assert_eq!(query(&url, "select current_setting('work_mem')").await, "9MB");
        assert_eq!(query(&url, "select current_setting('fsync')").await, "off");
        let (directory, pid) = (cluster.directory.clone(), cluster.pid().expect("it runs"));
        cluster.stop();
        assert!(!directory.exists());
        assert!(!is_alive(pid));
    }

    #[test]
    fn a_setting_that_postgres_refuses_is_reported_with_its_log() {
        let settings = vec![("no_such_setting".to_string(), "1".to_string())];
        let error = Throwaway::start(&Options { settings, ..Options::default() }).expect_err("it must not start");
        assert!(matches!(error, ThrowawayError::Ended { .. }), "{error}");
        assert!(error.to_string().contains("no_such_setting"), "{error}");
    }

    #[test]
    fn the_server_outlives_the_thread_that_started_it() {
        let started = thread::spawn(|| Throwaway::start(&Options::default())).join().expect("no panic");
        let cluster = started.expect("Postgres is installed");
        let ended = cluster.server.as_ref().map(|server| server.wait(Duration::from_millis(300)));
        assert_eq!(ended, Some(Err(RecvTimeoutError::Timeout)));
    }

    /// This very test is run again as a process of its own, told by the variable to hold a cluster.
    #[tokio::test]
    async fn the_server_dies_with_a_process_that_is_killed() {
        use std::io::{BufRead, BufReader, Read};

        const HOLD: &str = "OUTBOXD_TEST_HOLDS_A_CLUSTER";
        if std::env::var_os(HOLD).is_some() {
            let cluster = Throwaway::start(&Options::default()).expect("Postgres is installed");
            println!("\nurl={}", cluster.url("postgres"));
            let _ = std::io::stdin().read(&mut [0]);
            return;
        }
        let mut holder = Command::new(std::env::current_exe().expect("a test binary has a path"))
            .args(["--exact", "demo::postgres::tests::the_server_dies_with_a_process_that_is_killed", "--nocapture"])
            .env(HOLD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary runs");
        let output = BufReader::new(holder.stdout.take().expect("it is piped"));
        let url = output.lines().map_while(Result::ok).find_map(|line| line.strip_prefix("url=").map(String::from));
        let url = url.expect("the holder prints its url");
        let (_client, connection) = connect(&url).connect(tokio_postgres::NoTls).await.expect("the cluster answers");
        holder.kill().expect("it runs");
        holder.wait().expect("it is our child");
        let ended = tokio::time::timeout(Duration::from_secs(60), connection).await;
        assert!(ended.is_ok(), "the server still serves after its owner's death");
    }

    #[test]
    fn a_directory_of_a_dead_process_is_removed_and_one_of_a_live_process_is_kept() {
        let base = tempfile::tempdir().expect("a temp directory");
        let mut child = Command::new("true").spawn().expect("true runs");
        let dead = base.path().join(format!("{PREFIX}{}-0", child.id()));
        child.wait().expect("true ends");
        let live = base.path().join(format!("{PREFIX}{}-0", std::process::id()));
        let other = base.path().join("outboxd-pg-notes");
        for directory in [&dead, &live, &other] {
            fs::create_dir(directory).expect("a fresh directory");
        }
        remove_stale(base.path());
        assert_eq!([dead.exists(), live.exists(), other.exists()], [false, true, true]);
    }

    #[test]
    fn a_directory_too_long_for_a_socket_is_refused_before_anything_is_made() {
        let base = Some(PathBuf::from(format!("/tmp/{}", "x".repeat(90))));
        let error = Throwaway::start(&Options { base, ..Options::default() }).expect_err("it must not start");
        assert!(matches!(error, ThrowawayError::PathTooLong(_)), "{error}");
    }
}
