//! The bytes of one connection: how many may come without an answer in between, and how it is closed so that the last
//! answer arrives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::heads::Follower;

/// How long a sender that has been answered may go on before the connection is reset under it.
const LINGER: Duration = Duration::from_secs(2);
/// How much of what it goes on sending is read; a closed connection with unread bytes would lose it our answer.
const LINGER_BYTES: usize = 256 << 10;

/// How much a connection may send before it has earned an answer. Floods of frames that are no request (pings,
/// settings, resets, continuations) end here.
#[derive(Clone)]
pub(super) struct Allowance {
    most: u64,
    used: Arc<AtomicU64>,
}

impl Allowance {
    pub(super) fn new(most: u64) -> Allowance {
        Allowance { most, used: Arc::default() }
    }

    /// A request was answered: it begins anew.
    pub(super) fn renew(&self) {
        self.used.store(0, Ordering::Relaxed);
    }

    /// Bytes of a body that somebody asked for, and that have bounds of their own.
    pub(super) fn refund(&self, bytes: usize) {
        let less = |used: u64| Some(used.saturating_sub(bytes as u64));
        // It always has a new value, so that it cannot fail.
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn uses_up(&self, bytes: usize) -> bool {
        self.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 > self.most
    }
}

pub(super) struct Wire<S> {
    stream: S,
    allowance: Allowance,
    /// For HTTP/1.1.
    follower: Option<Follower>,
    closing: Option<Closing>,
}

struct Closing {
    until: Pin<Box<Sleep>>,
    read: usize,
    sent: bool,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S, allowance: Allowance, follower: Option<Follower>) -> Wire<S> {
        Wire { stream, allowance, follower, closing: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let new = &buf.filled()[before..];
        if let Some(follower) = &mut self.follower {
            follower.follow(new);
        }
        if self.allowance.uses_up(new.len()) {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Says that nothing more comes from us, then reads on for a while until the other side has heard it.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Wire { stream, closing, .. } = self.get_mut();
        let closing = closing.get_or_insert_with(|| Closing {
            until: Box::pin(tokio::time::sleep(LINGER)),
            read: 0,
            sent: false,
        });
        if !closing.sent {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            closing.sent = true;
        }
        let mut scratch = [0; 4096];
        while closing.read < LINGER_BYTES {
            let mut buf = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => closing.read += buf.filled().len(),
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        closing.until.as_mut().poll(cx).map(Ok)
    }
}
