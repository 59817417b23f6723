//! The demo: what a newcomer sees first must hold what it promises, and leave nothing behind.

use nix::sys::signal::Signal;

use crate::support::cluster;
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::PATIENCE;

#[tokio::test]
async fn the_demo_delivers_what_can_be_delivered_and_leaves_nothing_behind() {
    let config = Config::empty();
    let home = config.path("tmp");
    std::fs::create_dir(&home).expect("our directory is ours");
    let config = config.environment("TMPDIR", home.to_str().expect("temp paths are UTF-8"));
    let ended = Daemon::command(&config, &["demo", "--rows", "200"]).wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    // Steady ones verify one attempt of each, the one who fails twice three of each, the one who is gone one.
    for words in
        ["buyer one, steady", "230 verified by the buyers, 0 refused", "0 lost, 0 accepted twice, 0 with changed bytes"]
    {
        assert!(ended.output.contains(words), "no {words:?} in\n{}", ended.output);
    }
    let together: Vec<u64> = ended
        .output
        .lines()
        .find_map(|line| line.trim().strip_prefix("together"))
        .expect("the ledger has a sum")
        .split_ascii_whitespace()
        .map(|number| number.parse().expect("the ledger is of numbers"))
        .collect();
    assert_eq!(together, [200, 180, 20, 10, 10], "{}", ended.output);
    let left: Vec<_> = std::fs::read_dir(&home).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The host's walk-through, run as it stands in the page.
#[tokio::test]
async fn the_five_minutes_with_psql_end_with_a_delivered_webhook() {
    let page = include_str!("../../sql/host/README.md");
    let block = page.split("```sh\n").find(|block| block.starts_with("task=$(psql")).expect("the page has it");
    let script = block.split("```").next().expect("it ends");
    let daemon = Daemon::command(&Config::empty(), &["demo", "--rows", "20", "--stay"]);
    daemon.line(0, &["export BUYER="]).await;
    let lines = daemon.text();
    let exports: Vec<&str> = lines.lines().map(str::trim).filter(|line| line.starts_with("export ")).collect();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_outboxd")).parent().expect("a file has one");
    let path = format!("{}:{}:/usr/bin:/bin", binary.display(), cluster::programs().display());
    let output = std::process::Command::new("bash")
        .args(["-euc", &format!("{}\n{script}", exports.join("\n"))])
        .env_clear()
        .env("PATH", path)
        .output()
        .expect("bash is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    daemon.line(0, &["received", "signature verified"]).await;
    daemon.signal(Signal::SIGINT);
    let ended = daemon.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
}

#[tokio::test]
async fn the_receivers_demo_loses_nothing_through_a_kill_and_leaves_nothing_behind() {
    let config = Config::empty();
    let home = config.path("tmp");
    std::fs::create_dir(&home).expect("our directory is ours");
    let config = config.environment("TMPDIR", home.to_str().expect("temp paths are UTF-8"));
    let ended = Daemon::command(&config, &["receive", "--demo"]).wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    for words in ["400 sent, 0 lost", "bytes, 0 did not", "40 of 40 refused with 409"] {
        assert!(ended.output.contains(words), "no {words:?} in\n{}", ended.output);
    }
    let left: Vec<_> = std::fs::read_dir(&home).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}
