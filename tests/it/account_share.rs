//! The rows of one account hold no more of the slots than its share, and keep no other account's waiting.

use std::time::Duration;

use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::metrics::ACCOUNTS_FULL;
use crate::support::receiver::{Answer, Gate, Receiver};
use crate::support::seal::Draft;
use crate::support::world::World;

const SLOTS: usize = 20;
const SHARE: usize = 5;

fn drafts(account: &str, url: &str, count: usize) -> Vec<Draft> {
    let mut drafts = Draft::many(url, count);
    drafts.iter_mut().for_each(|draft| draft.account_id = account.into());
    drafts
}

fn config(world: &World) -> Config {
    let config = world.config().set("delivery.slots", SLOTS).set("delivery.account_share", 0.25);
    config.set("egress.attempt_timeout", "50s")
}

/// Rows of one account for two receivers that answer when the gate opens, and the receiver that shares them with nobody.
async fn crowded(world: &World) -> (Gate, Receiver) {
    let other = Receiver::start().await;
    let gate = Gate::closed();
    for receiver in [&world.receiver, &other] {
        let held = gate.clone();
        receiver.answer(move |target, _| match target {
            "/held" => Answer::status(200).when(&held),
            _ => Answer::status(200),
        });
    }
    for url in [world.receiver.url("/held"), other.url("/held")] {
        world.database.insert(&world.seal(drafts("big", &url, 300))).await;
    }
    (gate, other)
}

/// How many rows of an account have been tried.
async fn tried(world: &World, account: &str) -> i64 {
    let sql = "select count(*) from adcp_task_webhook_outbox where attempt_count > 0 and account_id = $1";
    world.database.value(sql, &[&account]).await
}

async fn full_accounts_are(daemon: &Daemon, count: f64) {
    eventually(&format!("{count} accounts have their share"), async || {
        match daemon.metrics().await.total(ACCOUNTS_FULL, &[]) {
            full if full == count => Ok(()),
            full => Err(full),
        }
    })
    .await;
}

async fn share_is_kept(world: &World, daemon: &Daemon, gate: &Gate, other: &Receiver) {
    full_accounts_are(daemon, 1.0).await;
    // Whoever comes is served at once, where the account has rows as well.
    for nth in 1..=3 {
        let url = other.url("/small");
        world.database.insert(&world.seal(drafts("small", &url, 2))).await;
        eventually("the others' rows come", async || {
            let came = other.received().iter().filter(|one| one.target == "/small").count();
            if came == 2 * nth { Ok(()) } else { Err(came) }
        })
        .await;
    }
    assert_eq!(tried(world, "big").await, SHARE as i64);
    gate.open();
    world.all_are_within(Duration::from_secs(60), "delivered").await;
    full_accounts_are(daemon, 0.0).await;
}

#[tokio::test]
async fn an_account_holds_its_share_of_the_slots_and_no_more() {
    let world = World::new().await;
    let (gate, other) = crowded(&world).await;
    let config = config(&world);
    let warned = Daemon::command(&config, &["check"]).wait_exit(PATIENCE).await;
    let (_, statement) = warned.output.split_once("have their share: run ").expect("it says what to do");
    let statement = statement.lines().next().expect("it is in one line");
    world.database.client.batch_execute(statement).await.expect("the statement does it");
    let checked = Daemon::command(&config, &["check"]).wait_exit(PATIENCE).await;
    assert!(!checked.output.contains("account_share"), "{}", checked.output);
    let daemon = Daemon::start(&config).await;
    assert!(!daemon.text().contains("account_share"), "{}", daemon.text());
    share_is_kept(&world, &daemon, &gate, &other).await;
}

#[tokio::test]
async fn without_the_index_the_share_is_kept_as_well_and_the_start_says_what_it_costs() {
    let world = World::new().await;
    let (gate, other) = crowded(&world).await;
    let daemon = Daemon::start(&config(&world)).await;
    daemon.line(0, &["delivery.account_share is set", "create index concurrently"]).await;
    share_is_kept(&world, &daemon, &gate, &other).await;
}
