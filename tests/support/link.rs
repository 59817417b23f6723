//! The way from a daemon to its database as a unix socket that a test can cut and mend, so that one database
//! can be down while the cluster and the other tests go on. While cut it counts who knocks. What is frozen lets nothing
//! through and stays open, as a connection does behind a firewall that forgot it.

use std::path::PathBuf;

use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::cluster::socket_directory;
use super::eventually::{PATIENCE, within};
use super::runtime::servers;

/// What Postgres calls its socket.
const SOCKET: &str = ".s.PGSQL.5432";

pub struct Link {
    directory: TempDir,
    up: watch::Sender<bool>,
    refused: watch::Receiver<usize>,
    freezes: watch::Sender<()>,
}

impl Link {
    /// Connections are closed at once until the link is mended.
    pub fn down() -> Link {
        let directory = TempDir::new().expect("the temp directory takes another");
        let _runtime = servers().enter();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).expect("a fresh directory takes a socket");
        let (up, is_up) = watch::channel(false);
        let (count, refused) = watch::channel(0);
        let (freezes, freeze) = watch::channel(());
        servers().spawn(relay(listener, is_up, count, freeze));
        Link { directory, up, refused, freezes }
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@/{database}?host={}", self.directory.path().display())
    }

    pub fn mend(&self) {
        self.up.send_replace(true);
    }

    /// Every connection breaks and none can be made.
    pub fn cut(&self) {
        self.up.send_replace(false);
    }

    /// The connections of now stay open and dumb on both sides; new ones are made as before.
    pub fn freeze(&self) {
        self.freezes.send_replace(());
    }

    /// Waits until `more` further connections were refused.
    pub async fn refused(&self, more: usize) {
        let mut refused = self.refused.clone();
        let wanted = *refused.borrow() + more;
        let reached = refused.wait_for(|count| *count >= wanted);
        within(PATIENCE, "connections to a cut link", reached).await.expect("the relay lives as long as the link");
    }
}

async fn relay(
    listener: UnixListener,
    mut up: watch::Receiver<bool>,
    refused: watch::Sender<usize>,
    mut freeze: watch::Receiver<()>,
) {
    let server: PathBuf = socket_directory().join(SOCKET);
    loop {
        let accepted = tokio::select! {
            // The link is gone, and the test with it.
            _ = refused.closed() => return,
            accepted = listener.accept() => accepted,
        };
        let (mut near, _) = accepted.expect("accepting on a unix socket works");
        if !*up.borrow_and_update() {
            refused.send_modify(|count| *count += 1);
            continue;
        }
        freeze.borrow_and_update();
        let (server, mut up, mut freeze, refused) = (server.clone(), up.clone(), freeze.clone(), refused.clone());
        servers().spawn(async move {
            let Ok(mut far) = UnixStream::connect(server).await else { return };
            let is_frozen = tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => false,
                _ = up.wait_for(|up| !up) => false,
                frozen = freeze.changed() => frozen.is_ok(),
            };
            if is_frozen {
                refused.closed().await;
            }
        });
    }
}
