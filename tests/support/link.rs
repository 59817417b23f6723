//! The way from a daemon to its database as a unix socket that a test can cut and mend, so that one database
//! can be down while the cluster and the other tests go on.

use std::path::PathBuf;
use std::sync::Mutex;

use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::cluster::socket_directory;
use super::runtime::servers;

/// What Postgres calls its socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// Down when made.
pub struct Link {
    directory: TempDir,
    relay: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    pub fn down() -> Link {
        Link { directory: TempDir::new().expect("the temp directory takes another"), relay: Mutex::default() }
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@/{database}?host={}", self.directory.path().display())
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    pub fn mend(&self) {
        let _runtime = servers().enter();
        let listener = UnixListener::bind(self.socket()).expect("the socket is gone while the link is down");
        let relay = servers().spawn(relay(listener, socket_directory().join(SOCKET)));
        *self.relay.lock().expect("no holder panics") = Some(relay);
    }

    /// Every connection breaks and none can be made.
    pub async fn cut(&self) {
        let relay = self.relay.lock().expect("no holder panics").take().expect("the link is up");
        std::fs::remove_file(self.socket()).expect("the link is up");
        relay.abort();
        // The set of connections is dropped with the relay, which is over when it was joined.
        let _ = relay.await;
    }
}

async fn relay(listener: UnixListener, server: PathBuf) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (mut near, _) = listener.accept().await.expect("accepting on a unix socket works");
        let server = server.clone();
        connections.spawn(async move {
            let mut far = UnixStream::connect(server).await?;
            copy_bidirectional(&mut near, &mut far).await
        });
    }
}
