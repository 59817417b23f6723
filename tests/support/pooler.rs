//! PgBouncer in transaction mode before the test cluster, or a server of a test's own. It deliberately has no other mode: the others keep sessions, and
//! are no different from the server to a daemon.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};

use nix::unistd::{User, chown};
use tempfile::TempDir;
use tokio::net::UnixStream;

use super::cluster::socket_directory;
use super::eventually::eventually;
use super::runtime;

const SOCKET: &str = ".s.PGSQL.5432";

pub struct Pooler {
    directory: TempDir,
    child: Child,
}

impl Pooler {
    pub async fn start() -> Pooler {
        Pooler::before(&socket_directory(), "server_login_retry = 1\n").await
    }

    /// Before the server whose socket is there, with more settings.
    pub async fn before(server: &Path, more: &str) -> Pooler {
        // Below /tmp, since a socket's path must be short.
        let directory = TempDir::new_in("/tmp").expect("the temp directory takes another");
        let path = directory.path();
        let settings = format!(
            "[databases]\n* = host={}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {}\nlisten_port = 5432\n\
             pool_mode = transaction\nauth_type = any\nauth_file =\n{more}",
            server.display(),
            path.display()
        )
        .replace("* = host", "* = user=postgres host");
        let file = path.join("pgbouncer.ini");
        fs::write(&file, settings).expect("it is ours");
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
        // It refuses to run as root.
        let mut command = Command::new("setpriv");
        if nix::unistd::geteuid().is_root() {
            let user = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
            let user = user.expect("one of them exists wherever the cluster runs");
            chown(path, Some(user.uid), Some(user.gid)).expect("root may");
            chown(&file, Some(user.uid), Some(user.gid)).expect("root may");
            command.args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid), "--clear-groups".into()]);
        }
        command.arg("/usr/sbin/pgbouncer").arg(&file);
        let child = runtime::spawn(&command).expect("pgbouncer is installed");
        eventually("the pooler answers", async || UnixStream::connect(path.join(SOCKET)).await.map(drop)).await;
        Pooler { directory, child }
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@/{database}?host={}", self.directory.path().display())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
