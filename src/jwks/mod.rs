//! Publishes the public halves of the signing keys, as receivers look them up: a listener of its own, whose documents follow
//! the keys in use. It signs nothing, holds no private key longer than those who do, and serves nothing else.

mod answer;
mod board;
mod publication;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::request::Parts;
use tokio::task::JoinHandle;

use crate::config::Listen;
use crate::deliver::{Phase, Phases, Snapshot};
use crate::receive::Reply;
use crate::receive::server::{Application, Arrival, Body, Bounds, Event, Listener, Server};
use board::Board;
pub(crate) use publication::Publication;

/// Documents are small and cached by whoever asks, so that few connections serve many; each holds a head of 64 KiB at most.
const CONNECTIONS: usize = 256;
/// For a request's head, and so for a kept connection between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long whoever is being answered may take when the listener closes.
const FAREWELL: Duration = Duration::from_secs(1);

/// Where key sets are published, if anywhere.
pub(crate) struct Publisher {
    snapshot: Arc<ArcSwap<Snapshot>>,
    open: Option<Open>,
}

/// A listener that is served.
struct Open {
    listen: Listen,
    board: Arc<Board>,
    phases: Phases,
    serving: JoinHandle<()>,
    keeping: JoinHandle<()>,
}

impl Publisher {
    pub(crate) fn new(snapshot: Arc<ArcSwap<Snapshot>>) -> Publisher {
        Publisher { snapshot, open: None }
    }

    /// Takes hold of the address, if it is another than that of now. What is served does not change yet.
    pub(crate) async fn bind(&self, listen: Option<&Listen>) -> std::io::Result<Option<Listener>> {
        let current = self.open.as_ref().map(|open| &open.listen);
        match listen.filter(|wanted| Some(*wanted) != current) {
            Some(wanted) => Listener::bind(wanted).await.map(Some),
            None => Ok(None),
        }
    }

    /// Publishes the keys of the snapshot at `listen`: on the listener that is open, or on `bound`, which was made for it.
    pub(crate) async fn publish(&mut self, listen: Option<&Listen>, bound: Option<Listener>) {
        match (listen, bound, &self.open) {
            (Some(_), None, Some(open)) => {
                open.board.renew(&self.snapshot).await;
                open.board.listen_anew();
            }
            (Some(listen), Some(bound), _) => {
                let open = Open::serve(listen.clone(), bound, self.snapshot.clone()).await;
                self.close().await;
                self.open = Some(open);
            }
            _ => self.close().await,
        }
    }

    pub(crate) async fn close(&mut self) {
        if let Some(open) = self.open.take() {
            open.close().await;
        }
    }
}

impl Open {
    async fn serve(listen: Listen, listener: Listener, snapshot: Arc<ArcSwap<Snapshot>>) -> Open {
        // Nobody is answered before there is something to answer with.
        let board = Arc::new(Board::new(&snapshot).await);
        let phases = Phases::new();
        let bounds = Bounds {
            head_timeout: HEAD_TIMEOUT,
            body_timeout: HEAD_TIMEOUT,
            idle_timeout: HEAD_TIMEOUT,
            max_connections: CONNECTIONS,
            max_body_memory: 0,
            trusted_proxies: crate::config::Trusted::default(),
        };
        tracing::info!(addr = listener.name(), keys = board.published().keys(), "jwks listening");
        let server = Arc::new(Server::new(bounds, None, board.clone(), phases.clone()));
        let serving = tokio::spawn(server.run(listener));
        let keeping = tokio::spawn(board.clone().keep(snapshot));
        Open { listen, board, phases, serving, keeping }
    }

    async fn close(mut self) {
        self.keeping.abort();
        self.phases.enter(Phase::Draining);
        if tokio::time::timeout(FAREWELL, &mut self.serving).await.is_err() {
            self.phases.enter(Phase::Cut);
        }
    }
}

impl Application for Board {
    async fn answer(&self, head: &Parts, _: Arrival, _: Body) -> Reply {
        let (end, reply) = answer::answer(head, &self.published(), std::time::SystemTime::now());
        crate::telemetry::metrics::jwks_request(end.label());
        reply
    }

    fn observe(&self, _: Event) {}
}
