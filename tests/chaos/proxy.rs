//! A way that a test makes bad and good again: from TCP to TCP for receivers, from one unix socket to another for Postgres.
//! Looks at no byte.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

use crate::pause;
use crate::plan::Weather;
use crate::support::runtime::servers;

const SOCKET: &str = ".s.PGSQL.5432";

#[derive(Clone)]
pub struct Proxy {
    weather: Arc<watch::Sender<Weather>>,
    resets: Arc<watch::Sender<()>>,
}

/// What one connection goes by.
#[derive(Clone)]
struct Sky {
    weather: watch::Receiver<Weather>,
    resets: watch::Receiver<()>,
}

impl Proxy {
    fn new() -> Proxy {
        Proxy { weather: Arc::new(watch::Sender::new(Weather::Clear)), resets: Arc::new(watch::Sender::new(())) }
    }

    fn sky(&self) -> Sky {
        let (weather, mut resets) = (self.weather.subscribe(), self.resets.subscribe());
        resets.mark_unchanged();
        Sky { weather, resets }
    }

    pub async fn tcp(to: SocketAddr) -> (Proxy, SocketAddr) {
        let proxy = Proxy::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let of_all = proxy.clone();
        servers().spawn(async move {
            loop {
                // Out of descriptors for a moment, as everyone may be here.
                let Ok((mut near, _)) = listener.accept().await else { continue };
                let sky = of_all.sky();
                servers().spawn(async move {
                    if *sky.weather.borrow() == Weather::Down {
                        return reset(&near);
                    }
                    let Ok(mut far) = TcpStream::connect(to).await else { return };
                    if relay(&mut near, &mut far, sky).await == End::Reset {
                        reset(&near);
                        reset(&far);
                    }
                });
            }
        });
        (proxy, address)
    }

    /// In the directory, under the name that Postgres gives its socket.
    pub fn unix(server: &Path) -> (Proxy, TempDir) {
        let proxy = Proxy::new();
        let directory = TempDir::new_in("/tmp").expect("the temp directory takes another");
        let _runtime = servers().enter();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).expect("a fresh directory takes a socket");
        let (of_all, server): (Proxy, PathBuf) = (proxy.clone(), server.join(SOCKET));
        servers().spawn(async move {
            loop {
                let Ok((mut near, _)) = listener.accept().await else { continue };
                let (sky, server) = (of_all.sky(), server.clone());
                servers().spawn(async move {
                    if *sky.weather.borrow() == Weather::Down {
                        return;
                    }
                    let Ok(mut far) = UnixStream::connect(server).await else { return };
                    relay(&mut near, &mut far, sky).await;
                });
            }
        });
        (proxy, directory)
    }

    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// The connections of now break; new ones are made as before.
    pub fn reset(&self) {
        self.resets.send_replace(());
    }
}

/// Whoever reads or writes next gets ECONNRESET, and what is under way is lost.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

#[derive(PartialEq)]
enum End {
    Quiet,
    Reset,
}

async fn relay<S: AsyncRead + AsyncWrite + Unpin>(near: &mut S, far: &mut S, mut sky: Sky) -> End {
    let (there, back) = (sky.weather.clone(), sky.weather.clone());
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    tokio::select! {
        _ = pump(near_read, far_write, there) => End::Quiet,
        _ = pump(far_read, near_write, back) => End::Quiet,
        _ = sky.weather.wait_for(|weather| *weather == Weather::Down) => End::Reset,
        _ = sky.resets.changed() => End::Reset,
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: watch::Receiver<Weather>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = from.read(&mut buffer).await?;
        let now = *weather.borrow();
        match now {
            Weather::Late(time) => pause(time).await,
            Weather::Narrow(rate) => pause(Duration::from_secs_f64(count as f64 / rate as f64)).await,
            _ => {}
        }
        // The end of a connection is not heard of either.
        let _ = weather.wait_for(|weather| *weather != Weather::Dumb).await;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}
