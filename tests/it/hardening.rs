//! The memory of the process stays its own: no core dump, no look from outside by another process of its user, and no
//! secret in it once it is done with.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::json;

use crate::support::config::text;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::runtime;
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::world::World;

/// `nobody` where the tests run as root, whose processes cannot be told apart by who owns them; else ourselves.
fn unprivileged() -> u32 {
    if Uid::effective().is_root() { 65_534 } else { Uid::effective().as_raw() }
}

fn as_unprivileged() -> Vec<String> {
    match Uid::effective().is_root() {
        true => ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"].map(String::from).into(),
        false => Vec::new(),
    }
}

/// A program that waits for its standard input, in a directory of its own, allowed to dump as much core as it likes.
struct Waiting {
    child: Child,
    dir: tempfile::TempDir,
}

impl Waiting {
    fn start(program: &str, arguments: &[&str]) -> Waiting {
        let dir = tempfile::tempdir().expect("a directory can be made");
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("it is ours");
        // By descriptor, because an unprivileged user may have no way to where the binary lies.
        let script = "cd \"$1\" || exit; exec 3<\"$2\"; ulimit -c unlimited 2>/dev/null; shift 2; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(dir.path()).arg(program);
        command.args(as_unprivileged()).arg("/proc/self/fd/3").args(arguments);
        command.env("OUTBOXD_ENVELOPE__KEYS", "0f".repeat(32)).env_remove("OUTBOXD_CONFIG");
        let child = runtime::spawn(&command).expect("sh and setpriv are there");
        Waiting { child, dir }
    }

    fn outboxd(command: &str) -> Waiting {
        Waiting::start(env!("CARGO_BIN_EXE_outboxd"), &[command])
    }

    fn proc(&self, file: &str) -> PathBuf {
        format!("/proc/{}/{file}", self.child.id()).into()
    }

    /// Until it has become the program: until then it is a shell.
    async fn is(&self, name: &str) {
        eventually("the program runs", async || {
            let running = std::fs::read_to_string(self.proc("cmdline")).unwrap_or_default();
            let user = std::fs::read_to_string(self.proc("status")).unwrap_or_default();
            let unprivileged = user.contains(&format!("Uid:\t{}\t", unprivileged()));
            if running.contains(name) && !running.contains("setpriv") && unprivileged { Ok(()) } else { Err(running) }
        })
        .await;
    }

    fn core_limits(&self) -> Option<String> {
        let limits = std::fs::read_to_string(self.proc("limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size"))?;
        Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Who may look: the process's user where it is dumpable, else root alone.
    fn owner(&self) -> u32 {
        std::fs::metadata(self.proc("environ")).expect("it runs").uid()
    }

    fn shows_its_environment(&self) -> bool {
        let mut command: Vec<String> = as_unprivileged();
        command.extend(["cat".into(), self.proc("environ").display().to_string()]);
        let looked =
            Command::new(&command[0]).args(&command[1..]).stderr(Stdio::null()).output().expect("cat is there");
        looked.status.success() && !looked.stdout.is_empty()
    }

    fn end_by(mut self, signal: Signal) -> std::process::ExitStatus {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
        let status = self.child.wait().expect("it is our child");
        let left: Vec<_> = std::fs::read_dir(self.dir.path()).expect("it is there").collect();
        assert!(left.is_empty(), "{left:?}");
        status
    }
}

#[tokio::test]
async fn no_other_process_of_its_user_can_look_into_it() {
    let control = Waiting::start("/bin/cat", &[]);
    control.is("/proc/self/fd/3").await;
    assert_eq!(control.owner(), unprivileged());
    assert!(control.shows_its_environment(), "the look itself fails");
    for command in ["seal", "open"] {
        let waiting = Waiting::outboxd(command);
        waiting.is(command).await;
        eventually("it is closed", async || match (waiting.owner(), waiting.core_limits()) {
            (0, Some(limits)) if limits == "0 0 bytes" => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        assert!(!waiting.shows_its_environment(), "{command}: the envelope key is there to read");
    }
}

#[tokio::test]
async fn no_crash_leaves_a_core() {
    // SIGSEGV would not do: the runtime's guard of the stack takes the first one that is only sent; nor SIGQUIT, which is ignored by
    // whatever a shell starts in the background.
    for signal in [Signal::SIGABRT, Signal::SIGXCPU, Signal::SIGTRAP] {
        let waiting = Waiting::outboxd("seal");
        waiting.is("seal").await;
        eventually("cores are off", async || match waiting.core_limits() {
            Some(limits) if limits == "0 0 bytes" => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        let status = waiting.end_by(signal);
        assert_eq!(status.signal(), Some(signal as i32));
        assert!(!status.core_dumped());
    }
}

#[tokio::test]
async fn the_daemon_is_closed_from_the_start() {
    let world = World::new().await;
    let daemon = Daemon::start(&world.config()).await;
    let limits = daemon.proc("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("Linux tells it");
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..], ["0", "0", "bytes"], "{core}");
}

fn occurrences(memory: &[u8], needle: &[u8]) -> usize {
    memory.windows(needle.len()).filter(|window| *window == needle).count()
}

/// Whatever of these is left in the daemon's memory, once it is done with them.
async fn are_wiped(daemon: &Daemon, needles: &[(&str, Vec<u8>)]) {
    eventually("the secrets are wiped", async || {
        let memory = daemon.memory();
        let left: Vec<&str> =
            needles.iter().filter(|(_, needle)| occurrences(&memory, needle) > 0).map(|(name, _)| *name).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
    })
    .await;
}

#[tokio::test]
async fn what_was_read_opened_and_replaced_is_wiped() {
    if !Uid::effective().is_root() {
        eprintln!("only root may look into the daemon");
        return;
    }
    let (world, next) = (World::new().await, EnvelopeKey::new());
    let config = world.config().set("envelope.legacy_hmac", true);
    let daemon = Daemon::start(&config).await;
    assert!(occurrences(&daemon.memory(), &world.key.0) > 0, "the key that it holds is not found either");
    let jwk = world.signer.private_jwk();
    let pem = world.signer.pem();
    let read = [
        ("the envelope key as its file has it", world.key.hex().into_bytes()),
        ("the signing key as its file has it", pem.lines().nth(1).expect("PEM has a second line").as_bytes().to_vec()),
        ("the signing key's seed", URL_SAFE_NO_PAD.decode(jwk["d"].as_str().expect("it is private")).expect("base64")),
    ];
    are_wiped(&daemon, &read).await;

    let (token, secret, hmac) = ("canary-token-5d1f0c5e", "canary-body-93ab11d0", "canary-hmac-1badb002");
    let drafts = (0..20).map(|nth| {
        let mut draft = Draft::to(world.receiver.url("/"));
        draft.token = Some(token.into());
        draft.result = json!({ "secret": secret });
        if nth % 2 == 0 { draft } else { draft.authentication("HMAC-SHA256", hmac) }
    });
    world.database.insert(&world.seal(drafts.collect())).await;
    world.all_are("delivered").await;
    // Not a bearer token: HTTP's own buffer for the head of a request has a copy that is not ours to wipe.
    let opened = [("the token", token), ("the body", secret), ("the HMAC secret", hmac)];
    are_wiped(&daemon, &opened.map(|(name, text)| (name, text.as_bytes().to_vec()))).await;

    let file = config.file("next.key", next.hex());
    config.set("envelope.key_files", vec![text(&file)]).write();
    let from = daemon.lines().len();
    daemon.signal(Signal::SIGHUP);
    daemon.line(from, &["reloaded"]).await;
    are_wiped(&daemon, &[("the envelope key of before", world.key.0.to_vec())]).await;
    assert!(occurrences(&daemon.memory(), &next.0) > 0, "the key that it holds is not found either");
}
