//! TCP and unix listeners as one, and the connections that come from them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::config::Listen;

/// Owner and group may connect; whom else to let in is said by the directory that the socket is in.
const SOCKET_MODE: u32 = 0o660;

pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// Goes with its listener, so that a later start finds the path free.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// None on a unix socket.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip().to_canonical()),
            Stream::Unix(_) => None,
        }
    }
}

impl Listener {
    pub(crate) async fn bind(listen: &Listen) -> io::Result<Listener> {
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address).await.map(Listener::Tcp),
            Listen::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                let file = SocketFile(path.clone());
                std::fs::set_permissions(path, PermissionsExt::from_mode(SOCKET_MODE))?;
                Ok(Listener::Unix(listener, file))
            }
        }
    }

    /// What was bound, as the log tells it.
    pub(crate) fn name(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().as_ref().map(SocketAddr::to_string).unwrap_or_default(),
            Listener::Unix(_, file) => format!("unix:{}", file.0.display()),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are small and whole; nothing is gained by waiting for more to send.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

/// A socket that a killed process left refuses connections; one that is in use accepts them and stays.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
