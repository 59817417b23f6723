//! How far one request got: whether a byte of it was written, and whether all of it was written and flushed. Changes no byte.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

/// The progress of the request that a connection carries now. Shared by its stream, its body and the attempt.
#[derive(Debug, Default)]
pub(super) struct Progress {
    begun: AtomicBool,
    body_taken: AtomicBool,
    flushed: AtomicBool,
}

impl Progress {
    /// Called between requests, when neither stream nor body is in use.
    pub(super) fn reset(&self) {
        self.begun.store(false, Ordering::Release);
        self.body_taken.store(false, Ordering::Release);
        self.flushed.store(false, Ordering::Release);
    }

    /// Whether any byte may have left. Set before the write is tried: a TLS stream may fail after it sent a record.
    pub(super) fn begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether everything was written and flushed.
    pub(super) fn all_sent(&self) -> bool {
        self.flushed.load(Ordering::Acquire)
    }
}

/// A stream that notes writes and flushes in a [`Progress`].
pub(super) struct Watched<S> {
    inner: S,
    progress: Arc<Progress>,
}

impl<S> Watched<S> {
    pub(super) fn new(inner: S, progress: Arc<Progress>) -> Watched<S> {
        Watched { inner, progress }
    }
}

impl<S: Read + Unpin> Read for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

/// Bytes of the peer's were there before our request was begun: whatever they are, they are no answer to it.
#[derive(Debug, thiserror::Error)]
#[error("the peer spoke before it was asked")]
pub(super) struct Unasked;

impl<S: Read + Unpin> Watched<S> {
    /// The last look before the first byte of a request: a connection on which something has come, or which has ended,
    /// is not written to. hyper looks too, but only when it happens to be polled in between.
    fn begin(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.progress.begun() {
            return Ok(());
        }
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        match Pin::new(&mut self.inner).poll_read(cx, buffer.unfilled()) {
            Poll::Pending => {}
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Err(io::ErrorKind::NotConnected.into()),
            Poll::Ready(Ok(())) => return Err(io::Error::other(Unasked)),
            Poll::Ready(Err(error)) => return Err(error),
        }
        self.progress.begun.store(true, Ordering::Release);
        Ok(())
    }
}

/// Whether the kernel has part of what was to be written, and no room for the rest.
#[cfg(debug_assertions)]
fn is_partial(written: &Poll<io::Result<usize>>, of: usize) -> bool {
    matches!(written, Poll::Ready(Ok(some)) if *some < of)
}

impl<S: Read + Write + Unpin> Write for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.begin(cx)?;
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        killpoint!("k6", is_partial(&written, buf.len()));
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.begin(cx)?;
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        killpoint!("k6", is_partial(&written, bufs.iter().map(|buf| buf.len()).sum()));
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// hyper flushes the stream only when its own buffer is empty, so that a flush that ends after the body was
    /// taken says that every byte of the request is with the kernel.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        let whole = self.progress.begun() && self.progress.body_taken.load(Ordering::Acquire);
        if whole && matches!(flushed, Poll::Ready(Ok(()))) {
            self.progress.flushed.store(true, Ordering::Release);
            killpoint!("k7");
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A request body of one piece that notes when hyper has taken it.
pub(super) struct Outgoing {
    bytes: Option<Bytes>,
    progress: Arc<Progress>,
}

impl Outgoing {
    pub(super) fn new(bytes: Bytes, progress: Arc<Progress>) -> Outgoing {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        if bytes.is_none() {
            progress.body_taken.store(true, Ordering::Release);
        }
        Outgoing { bytes, progress }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let taken = self.bytes.take();
        self.progress.body_taken.store(true, Ordering::Release);
        Poll::Ready(taken.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // A body held in memory is shorter than 2^64 bytes.
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;

    use super::*;

    async fn write(stream: &mut Watched<TokioIo<tokio::io::DuplexStream>>, bytes: &[u8]) {
        let written = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await.unwrap();
        assert_eq!(written, bytes.len());
        poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await.unwrap();
    }

    #[tokio::test]
    async fn a_request_is_sent_when_its_body_was_taken_and_flushed() {
        let (ours, _theirs) = tokio::io::duplex(64);
        let progress = Arc::new(Progress::default());
        let mut stream = Watched::new(TokioIo::new(ours), Arc::clone(&progress));
        let mut body = Outgoing::new(Bytes::from_static(b"{}"), Arc::clone(&progress));
        assert!(!progress.begun());
        write(&mut stream, b"POST / HTTP/1.1\r\n\r\n").await;
        assert!(progress.begun() && !progress.all_sent());
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().unwrap();
        assert!(body.is_end_stream() && !progress.all_sent());
        write(&mut stream, &frame.into_data().unwrap()).await;
        assert!(progress.all_sent());
        progress.reset();
        assert!(!progress.begun() && !progress.all_sent());
    }

    #[tokio::test]
    async fn a_write_that_fails_counts_as_begun() {
        let (ours, theirs) = tokio::io::duplex(64);
        let progress = Arc::new(Progress::default());
        let mut stream = Watched::new(TokioIo::new(ours), Arc::clone(&progress));
        write(&mut stream, b"x").await;
        drop(theirs);
        assert!(poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"x")).await.is_err());
        assert!(progress.begun() && !progress.all_sent());
    }

    #[tokio::test]
    async fn nothing_is_written_where_the_peer_has_spoken_or_gone() {
        use tokio::io::AsyncWriteExt;
        let progress = Arc::new(Progress::default());
        let (ours, mut theirs) = tokio::io::duplex(64);
        theirs.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        let mut stream = Watched::new(TokioIo::new(ours), Arc::clone(&progress));
        let refused = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"POST")).await.unwrap_err();
        assert!(refused.get_ref().unwrap().is::<Unasked>());

        let (ours, theirs) = tokio::io::duplex(64);
        drop(theirs);
        let mut stream = Watched::new(TokioIo::new(ours), Arc::clone(&progress));
        let refused = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"POST")).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotConnected);
        assert!(!progress.begun());
    }
}
