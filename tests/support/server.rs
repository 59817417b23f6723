//! A Postgres server of a test's own, of any major version that is installed, to be stopped, killed, copied and promoted. Unlike
//! the cluster that tests share it writes durably to its own memory file system, so that what was committed outlives a crash.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};

use super::cluster::{Database, connect, migrating, programs};
use super::eventually::eventually;
use super::runtime;

/// The same scheme as the product's throwaway clusters, which remove what a killed process left.
const PREFIX: &str = "outboxd-pg-";
const BASES: [&str; 2] = ["/dev/shm", "/tmp"];

pub struct Server {
    directory: PathBuf,
    programs: PathBuf,
    settings: Vec<String>,
    process: Option<Child>,
    /// Of the small file system that only it sees, in MiB.
    space: Option<u32>,
}

impl Server {
    /// Of Debian's version, with settings as `name=value`, running.
    pub async fn start(settings: &[&str]) -> Server {
        let mut server = Server::new(&programs(), settings.iter().map(ToString::to_string).collect());
        server.initialise();
        server.restart().await;
        server
    }

    /// Of another major version; tests/needs.sh installs them.
    pub async fn of_major(major: u32) -> Server {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let programs = root.join(format!("target/majors/node_modules/postgres-{major}/native"));
        assert!(programs.is_dir(), "{} is missing: sh tests/needs.sh test", programs.display());
        let mut server = Server::new(&programs.join("bin"), Vec::new());
        // Whom it runs as may have no way to where we are.
        if !as_user(Path::new("test")).arg("-x").arg(programs.join("bin/postgres")).status().expect("it runs").success()
        {
            run(Command::new("cp").arg("-r").arg(&programs).arg(&server.directory));
            server.programs = server.directory.join("native/bin");
        }
        server.initialise();
        server.restart().await;
        server
    }

    /// With a small file system for a tablespace, which is gone when it stops.
    pub async fn with_space(mebibytes: u32) -> Server {
        let mut server = Server::new(&programs(), Vec::new());
        server.space = Some(mebibytes);
        fs::create_dir(server.space()).expect("it is new");
        server.initialise();
        server.restart().await;
        server
    }

    fn new(programs: &Path, settings: Vec<String>) -> Server {
        Server { directory: new_directory(), programs: programs.to_path_buf(), settings, process: None, space: None }
    }

    pub fn space(&self) -> PathBuf {
        self.directory.join("space")
    }

    fn initialise(&self) {
        let data = self.data();
        let mut command = as_user(&self.programs.join("initdb"));
        command.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        // What pg_rewind needs.
        command.arg("--data-checksums");
        run(&mut command);
    }

    /// A hot standby of this one, running.
    pub async fn standby(&self) -> Server {
        let mut standby = Server::new(&self.programs, self.settings.clone());
        let mut command = as_user(&self.programs.join("pg_basebackup"));
        command
            .arg("-D")
            .arg(standby.data())
            .args(["-R", "-X", "stream", "-c", "fast", "-d"])
            .arg(self.url("postgres"));
        run(&mut command);
        standby.restart().await;
        standby
    }

    /// Makes of a primary that crashed a standby of the one that took its place, to be started. What it alone had is lost.
    pub async fn rewind(&self, primary: &Server) {
        // One that was promoted a moment ago still gives its old timeline, which would need no rewinding.
        primary.client("postgres").await.batch_execute("checkpoint").await.expect("it is the primary");
        let mut command = as_user(&self.programs.join("pg_rewind"));
        let source = format!("user=postgres dbname=postgres host={}", primary.directory.display());
        command.arg("-D").arg(self.data()).args(["-R", "--no-sync", "--source-server", &source]);
        run(&mut command);
    }

    pub async fn promote(&self) {
        self.client("postgres").await.batch_execute("select pg_promote()").await.expect("it is a standby");
    }

    /// Starts it, at first or again.
    pub async fn restart(&mut self) {
        let mut command = as_user(Path::new("sh"));
        // A pipe that nobody reads would stop it when full.
        command.args(["-c", "exec \"$0\" \"$@\" >>\"$LOG\" 2>&1"]).arg(self.programs.join("postgres"));
        command.env("LOG", self.directory.join("log")).arg("-D").arg(self.data()).arg("-k").arg(&self.directory);
        // What a crash may not lose must have left the process, and need not have reached a disk.
        for setting in ["listen_addresses=", "fsync=off", "max_connections=100"] {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        if let Some(mebibytes) = self.space {
            command = with_mount(&command, &self.space(), mebibytes);
        }
        let pid_file = self.data().join("postmaster.pid");
        // The processes of one that was killed hold its memory until they have noticed.
        eventually("the server is ready", async || {
            let status = self.process.as_mut().map(|process| process.try_wait().expect("it is our child"));
            if matches!(status, None | Some(Some(_))) {
                self.process = Some(runtime::spawn(&command).expect("setpriv is installed"));
            }
            let pid = self.process.as_ref().map(|process| process.id().to_string());
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            let mut lines = text.lines();
            match (lines.next().map(str::to_string) == pid, lines.nth(6).map(str::trim)) {
                (true, Some("ready")) => Ok(()),
                other => Err(format!("{other:?}\n{}", self.log())),
            }
        })
        .await;
    }

    /// `SIGINT` is its fast shutdown, `SIGQUIT` its immediate one, and `SIGKILL` a crash.
    pub fn stop(&mut self, signal: Signal) {
        let mut process = self.process.take().expect("it runs");
        kill(Pid::from_raw(process.id().cast_signed()), signal).expect("it is our child");
        process.wait().expect("it is our child");
    }

    /// The postmaster and everything that it started.
    pub fn signal_all(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        let postmaster = process.id().cast_signed();
        let of_it = |pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
            parent == Some(postmaster)
        };
        let all = fs::read_dir("/proc").expect("it is Linux").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).filter(of_it);
        for pid in std::iter::once(postmaster).chain(pids) {
            // One may have ended since it was listed.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@/{database}?host={}", self.directory.display())
    }

    pub async fn client(&self, database: &str) -> tokio_postgres::Client {
        connect(&self.url(database)).await
    }

    /// A database with the schema of `outboxd migrate`.
    pub async fn database(&self, name: &str) -> Database {
        self.client("postgres").await.batch_execute(&format!("create database {name}")).await.expect("it is new");
        let output = migrating(&self.url(name));
        assert!(output.status.success(), "migrate failed: {}", String::from_utf8_lossy(&output.stderr));
        self.open(name).await
    }

    /// One that is there.
    pub async fn open(&self, name: &str) -> Database {
        Database { name: name.into(), url: self.url(name), client: self.client(name).await }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.is_some() {
            // One that is stopped hears nothing else.
            self.signal_all(Signal::SIGCONT);
            self.stop(Signal::SIGQUIT);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Below the memory file system, where a socket's path is short.
fn new_directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = BASES.iter().find(|base| Path::new(base).is_dir()).expect("one of them is there");
    let name = format!("{PREFIX}{}-s{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let directory = Path::new(base).join(name);
    DirBuilder::new().mode(0o700).create(&directory).expect("it is new");
    own(&directory);
    directory
}

fn user() -> User {
    let user = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
    user.expect("one of them exists wherever a server runs")
}

/// Gives it to whom the server runs as.
fn own(path: &Path) {
    if geteuid().is_root() {
        chown(path, Some(user().uid), Some(user().gid)).expect("root may");
    }
}

/// The same with a file system of its own at `place`, which ends with it.
fn with_mount(command: &Command, place: &Path, mebibytes: u32) -> Command {
    let mut within = Command::new("unshare");
    let user = user();
    let mount = format!(
        "mount -t tmpfs -o size={mebibytes}m,mode=700,uid={},gid={} space '{}' && exec \"$@\"",
        user.uid,
        user.gid,
        place.display()
    );
    within.args(["--mount", "--propagation", "private", "sh", "-c", &mount, "sh"]);
    within.arg(command.get_program()).args(command.get_args());
    within.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    within
}

/// It refuses to run as root. The death signal is set last, since a change of user clears it.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if geteuid().is_root() {
        let user = user();
        command.args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid), "--clear-groups".into()]);
    }
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command.env("LC_ALL", "C");
    command
}

fn run(command: &mut Command) {
    let output = command.current_dir("/").stdin(Stdio::null()).output().expect("it is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
