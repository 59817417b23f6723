//! `outboxd migrate` as a person runs it: what is missing, what was applied, and the same for another tool.

use crate::support::cluster::{self, Database};
use crate::support::config::Config;
use crate::support::daemon::{Daemon, Ended};
use crate::support::eventually::PATIENCE;

const SDK_SCHEMA: &str = include_str!("../vectors/sdk_schema.sql");

async fn migrate(url: &str, words: &[&str]) -> Ended {
    let config = Config::empty().set("database.url", url);
    let arguments: Vec<&str> = std::iter::once("migrate").chain(words.iter().copied()).collect();
    Daemon::command(&config, &arguments).wait_exit(PATIENCE).await
}

#[tokio::test]
async fn a_database_that_the_sdk_made_is_completed_once_and_left_alone_after() {
    let database = Database::empty().await;
    cluster::connect(&database.url).await.batch_execute(SDK_SCHEMA).await.expect("the fixture applies");
    let ended = migrate(&database.url, &["--check"]).await;
    assert!(ended.code == Some(78) && ended.output.contains("missing  index"), "{}", ended.output);
    let ended = migrate(&database.url, &[]).await;
    assert!(ended.code == Some(0) && ended.output.contains("applied"), "{}", ended.output);
    let ended = migrate(&database.url, &[]).await;
    assert!(ended.code == Some(0) && ended.output.contains("already there"), "{}", ended.output);
    assert_eq!(migrate(&database.url, &["--check"]).await.code, Some(0));
}

#[tokio::test]
async fn what_print_prints_makes_the_same_schema() {
    let printed = migrate("postgresql:///?host=/nonexistent", &["--print"]).await;
    assert_eq!(printed.code, Some(0), "{}", printed.output);
    let database = Database::empty().await;
    cluster::connect(&database.url).await.batch_execute(&printed.output).await.expect("psql would take it");
    let ended = migrate(&database.url, &["--check"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
}
