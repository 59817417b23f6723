//! The exchange with a receiver in memory, for fuzzing: the same code as over the network from the HTTP connection up,
//! with neither addresses nor TLS. Not part of the daemon.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::connection::{Connection, Key};
use super::exchange::{After, Exchange, exchange};
use crate::signature::SignedRequest;
use crate::verdict::{Attempt, Failure, Sent};

/// How a receiver behaves that says these bytes.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) says: Vec<u8>,
    /// How much of it at a time.
    pub(crate) piece: usize,
    /// Whether it answers as soon as it has the head, and reads no further.
    pub(crate) early: bool,
    /// What follows what it says: silence up to the deadline, or the end of the stream.
    pub(crate) silent: bool,
}

pub(crate) struct Outcome {
    pub(crate) attempt: Attempt,
    pub(crate) kept: bool,
    /// Whether the receiver has read the request to its end.
    pub(crate) was_read: bool,
    /// What a second request over the kept connection came to, to which the receiver says nothing more.
    pub(crate) second: Option<Attempt>,
}

/// Turns that a task is given to notice what has happened; on one thread nothing takes more than a few.
const TURNS: usize = 64;

pub(crate) async fn rehearse(script: Script, request: &SignedRequest, deadline: Instant) -> Outcome {
    // Smaller than a request that is not to be read, so that it cannot be written whole.
    let (ours, theirs) = tokio::io::duplex(if script.early { 1024 } else { 1 << 20 });
    let address = SocketAddr::from(([192, 0, 2, 1], 443));
    let key = Key { server_name: name(), address, identity: None };
    // Starting HTTP writes and reads nothing.
    let mut connection = Connection::start(TokioIo::new(ours), key).await.expect("nothing can fail yet");
    let said = Arc::new(AtomicBool::new(false));
    let playing = tokio::spawn(play(theirs, script, Arc::clone(&said)));
    let first = exchange(&mut connection, request, deadline).await;
    let kept = matches!(first, Exchange::Replied { after: After::Keep, .. });
    let mut second = None;
    if kept {
        for _ in 0..TURNS {
            if said.load(Ordering::Acquire) {
                break;
            }
            yield_now().await;
        }
        second = Some(attempt(exchange(&mut connection, request, deadline).await));
    }
    connection.close();
    let was_read = playing.await.unwrap_or_default();
    for _ in 0..4 {
        yield_now().await;
    }
    Outcome { attempt: attempt(first), kept, was_read, second }
}

fn name() -> ServerName<'static> {
    ServerName::try_from("hooks.example.com").expect("a host name")
}

fn attempt(ended: Exchange) -> Attempt {
    match ended {
        Exchange::Replied { reply, .. } => Attempt::Replied(reply),
        Exchange::Failed(failure) => Attempt::Failed(failure),
        Exchange::Unused(fault) => Attempt::Failed(Failure { fault, sent: Sent::Nothing }),
    }
}

/// Whether the request was read to its end.
async fn play(mut stream: DuplexStream, script: Script, said: Arc<AtomicBool>) -> bool {
    let was_read = hear(&mut stream, script.early).await;
    for piece in script.says.chunks(script.piece.max(1)) {
        // The client hangs up when it has heard enough.
        if stream.write_all(piece).await.is_err() {
            return was_read;
        }
        yield_now().await;
    }
    said.store(true, Ordering::Release);
    if script.silent {
        // Until the client hangs up; what else it says is heard and not answered.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        return was_read;
    }
    // A client that goes on is to see its next request accepted, and then the end.
    let mut next = [0; 64];
    let turns = async {
        for _ in 0..TURNS {
            yield_now().await;
        }
    };
    tokio::select! {
        _ = stream.read(&mut next) => {}
        () = turns => {}
    }
    was_read
}

/// Reads one request, or only its head.
async fn hear(stream: &mut DuplexStream, only_head: bool) -> bool {
    let mut heard = Vec::new();
    loop {
        if let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&heard[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if only_head || heard.len() >= end + 4 + length.unwrap_or(0) {
                return !only_head;
            }
        }
        if stream.read_buf(&mut heard).await.unwrap_or(0) == 0 {
            return false;
        }
    }
}

/// Long enough that only a receiver that is silent can reach it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Short, because it is waited for.
pub(crate) const IMPATIENCE: Duration = Duration::from_millis(3);
