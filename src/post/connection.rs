//! One HTTP/1.1 connection and the one request at a time that it carries. Knows nothing of pools or verdicts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, Write};
use rustls_pki_types::ServerName;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::exchange::fault;
use super::io::{Outgoing, Progress, Watched};
use crate::certificate::IdentityId;
use crate::verdict::Fault;

/// The largest reply head (wire contract, section 5.4, allows 100 KiB; honest ones are under 8).
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// How long a farewell to an idle connection may take before it is cut.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a kept connection may be used for again: the same name, verified in its certificate, at the same pinned
/// address and port, by whom we were there. The scheme is always https.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) server_name: ServerName<'static>,
    pub(super) address: SocketAddr,
    /// Also where the receiver did not ask: what it may have learned of one identity is not another's to use.
    pub(super) identity: Option<IdentityId>,
}

pub(super) struct Connection {
    pub(super) key: Key,
    pub(super) opened: Instant,
    pub(super) progress: Arc<Progress>,
    sender: SendRequest<Outgoing>,
    farewell: oneshot::Sender<()>,
    driver: JoinHandle<Option<Fault>>,
}

impl Connection {
    /// Starts HTTP on the stream. Writes nothing yet.
    pub(super) async fn start<S>(stream: S, key: Key) -> hyper::Result<Connection>
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let progress = Arc::new(Progress::default());
        let watched = Watched::new(stream, Arc::clone(&progress));
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .max_header_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(watched)
            .await?;
        let (farewell, parting) = oneshot::channel();
        let driver = tokio::spawn(drive(connection, parting));
        Ok(Connection { key, opened: Instant::now(), progress, sender, farewell, driver })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Waits until the connection can take a request; an error says that it never will.
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        self.sender.ready().await
    }

    pub(super) async fn send(&mut self, request: Request<Outgoing>) -> hyper::Result<Response<Incoming>> {
        self.sender.send_request(request).await
    }

    /// Why the connection ended, once it has.
    pub(super) async fn ended_by(self, deadline: Instant) -> Option<Fault> {
        timeout_at(deadline, self.driver).await.ok()?.ok()?
    }

    /// Closes in good order. A connection that is merely dropped is cut: whatever it still had to say or to hear is
    /// of no use.
    pub(super) fn close(self) {
        // The receiving task may have ended with the connection already.
        let _ = self.farewell.send(());
    }
}

/// Moves bytes until the connection ends; returns the fault that ended it.
async fn drive<S>(connection: http1::Connection<Watched<S>, Outgoing>, parting: oneshot::Receiver<()>) -> Option<Fault>
where
    S: Read + Write + Unpin + Send + 'static,
{
    tokio::pin!(connection);
    tokio::select! {
        ended = &mut connection => ended.err().map(|error| fault(&error)),
        parted = parting => {
            if parted.is_ok() {
                // Nothing is owed on it any more, so that it does not matter how the farewell goes.
                let _ = timeout(FAREWELL, &mut connection).await;
            }
            None
        }
    }
}
