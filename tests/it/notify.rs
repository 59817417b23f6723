//! What systemd is told: ready, alive, reloading, stopping.

use nix::sys::signal::Signal;
use tokio::net::UnixDatagram;

use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, within};
use crate::support::world::World;

async fn heard(socket: &UnixDatagram, wanted: &str) -> String {
    within(PATIENCE, wanted, async {
        loop {
            let mut buffer = [0; 1024];
            let length = socket.recv(&mut buffer).await.expect("the socket is open");
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.contains(wanted) {
                return message;
            }
        }
    })
    .await
}

#[tokio::test]
async fn systemd_hears_that_it_is_ready_alive_reloading_and_stopping() {
    let world = World::new().await;
    let config = world.config();
    let path = config.path("notify.sock");
    let socket = UnixDatagram::bind(&path).expect("our directory is ours");
    let config = config
        .environment("NOTIFY_SOCKET", path.to_str().expect("temp paths are UTF-8"))
        .environment("WATCHDOG_USEC", "200000");
    let daemon = Daemon::start(&config).await;
    heard(&socket, "READY=1").await;
    heard(&socket, "WATCHDOG=1").await;
    daemon.signal(Signal::SIGHUP);
    let message = heard(&socket, "RELOADING=1").await;
    assert!(message.contains("MONOTONIC_USEC="), "systemd would end the service: {message}");
    heard(&socket, "READY=1").await;
    daemon.signal(Signal::SIGTERM);
    heard(&socket, "STOPPING=1").await;
    assert_eq!(daemon.wait_exit(PATIENCE).await.code, Some(0));
}
