//! Where the sealing listener listens: a unix socket of this user and group, or a loopback address.

use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, net};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use crate::config::SealingAddress;

/// Owner and group. The group is what a sidecar's user is put into.
const MODE: u32 = 0o660;

pub(super) enum Socket {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Socket {
    pub(super) fn bind(address: &SealingAddress) -> Result<Socket> {
        let within = |place: String| move |error: Error| Error::new(error.kind(), format!("{place}: {error}"));
        match address {
            SealingAddress::Unix(path) => bind_unix(path).map_err(within(path.display().to_string())),
            SealingAddress::Tcp(address) => bind_tcp(address).map_err(within(address.to_string())),
        }
    }

    pub(super) async fn accept(&self) -> Result<Box<dyn Stream>> {
        match self {
            Socket::Unix(listener, _) => Ok(Box::new(listener.accept().await?.0)),
            Socket::Tcp(listener) => Ok(Box::new(listener.accept().await?.0)),
        }
    }

    /// Whether the file system keeps other users of this machine out.
    pub(super) fn is_guarded(&self) -> bool {
        matches!(self, Socket::Unix(..))
    }

    pub(super) fn place(&self) -> String {
        match self {
            Socket::Unix(_, file) => format!("unix:{}", file.path.display()),
            // A bound listener has an address.
            Socket::Tcp(listener) => listener.local_addr().map(|address| address.to_string()).unwrap_or_default(),
        }
    }
}

fn bind_tcp(address: &net::SocketAddr) -> Result<Socket> {
    let listener = net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(Socket::Tcp(TcpListener::from_std(listener)?))
}

/// Made under another name and moved to its own when its mode is right, so that there is no moment in which everybody
/// may connect. Moving also replaces what an earlier process left.
fn bind_unix(path: &Path) -> Result<Socket> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Error::new(ErrorKind::AlreadyExists, "there is something else than a socket"));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(Error::new(ErrorKind::AddrInUse, "another process is listening there"));
        }
        Ok(_) | Err(_) => {}
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let unnamed = PathBuf::from(name);
    if fs::symlink_metadata(&unnamed).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(&unnamed)?;
    }
    let listener = UnixListener::bind(&unnamed)?;
    fs::set_permissions(&unnamed, fs::Permissions::from_mode(MODE))?;
    fs::rename(&unnamed, path)?;
    let found = fs::symlink_metadata(path)?;
    Ok(Socket::Unix(listener, SocketFile { path: path.to_owned(), identity: (found.dev(), found.ino()) }))
}

/// Removes the socket's file when the listener goes, unless a successor has put its own there.
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if ours {
            // Left behind it does no harm: the next process replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
