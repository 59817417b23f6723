//! Log lines are worth less than deliveries: where they cannot be written, or nobody reads them, everything else goes on.

use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::config::{Config, text};
use crate::support::eventually::eventually;
use crate::support::runtime;
use crate::support::world::World;

/// Enough for more lines than a pipe holds.
const ROWS: usize = 400;

/// A daemon whose output goes where the shell sends it, and else into pipes that nobody reads.
fn spawn(config: &Config, redirection: &str) -> Child {
    let mut command = Command::new("sh");
    let file = config.write();
    let run = format!("exec {} run --config {} {redirection}", env!("CARGO_BIN_EXE_outboxd"), text(&file));
    command.args(["-c", &run]).env_remove("OUTBOXD_DATABASE__URL");
    runtime::spawn(&command).expect("sh is there")
}

async fn delivers_and_ends_well(redirection: &str) {
    let world = World::new().await;
    let config = world.config().set("log.filter", "outboxd=trace").set("admin.listen", "");
    let mut daemon = spawn(&config, redirection);
    world.insert("/hooks", ROWS).await;
    world.all_are("delivered").await;
    kill(Pid::from_raw(daemon.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    let status = eventually("it ends", async || daemon.try_wait().expect("it is our child").ok_or("it runs")).await;
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_disk_that_is_full_of_logs_stops_no_delivery() {
    delivers_and_ends_well(">/dev/full 2>&1").await;
}

#[tokio::test]
async fn a_reader_of_logs_that_has_stopped_stops_no_delivery() {
    delivers_and_ends_well("").await;
}

/// Also for what is wrong before there is a log.
#[tokio::test]
async fn an_exit_status_is_right_where_its_reason_cannot_be_written() {
    let config = Config::empty().set("delivery.slots", 0);
    let mut daemon = spawn(&config, ">/dev/full 2>&1");
    let status = eventually("it ends", async || daemon.try_wait().expect("it is our child").ok_or("it runs")).await;
    assert_eq!(status.code(), Some(78));
}
