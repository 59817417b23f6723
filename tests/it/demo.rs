//! The demo: what a newcomer sees first must hold what it promises, and leave nothing behind.

use std::time::Duration;

use crate::support::config::Config;
use crate::support::daemon::Daemon;

#[tokio::test]
async fn the_demo_delivers_what_can_be_delivered_and_leaves_nothing_behind() {
    let config = Config::empty();
    let home = config.path("tmp");
    std::fs::create_dir(&home).expect("our directory is ours");
    let config = config.environment("TMPDIR", home.to_str().expect("temp paths are UTF-8"));
    let ended = Daemon::command(&config, &["demo", "--rows", "200"]).wait_exit(Duration::from_secs(60)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    for words in ["buyer one, steady", "0 refused", "0 lost, 0 accepted twice, 0 with changed bytes"] {
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

#[tokio::test]
async fn the_receivers_demo_loses_nothing_through_a_kill_and_leaves_nothing_behind() {
    let config = Config::empty();
    let home = config.path("tmp");
    std::fs::create_dir(&home).expect("our directory is ours");
    let config = config.environment("TMPDIR", home.to_str().expect("temp paths are UTF-8"));
    let ended = Daemon::command(&config, &["receive", "--demo"]).wait_exit(Duration::from_secs(60)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    for words in ["400 sent, 0 lost", "bytes, 0 did not", "40 of 40 refused with 409"] {
        assert!(ended.output.contains(words), "no {words:?} in\n{}", ended.output);
    }
    let left: Vec<_> = std::fs::read_dir(&home).expect("it is there").collect();
    assert!(left.is_empty(), "{left:?}");
}
