//! What destinations that never answer, or slowly, cost those that do: next to nothing of their time, and none of their rows.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually, ticks};
use crate::support::moment::{Moment, moment};
use crate::support::receiver::{Answer, Gate, Receiver};
use crate::support::runtime::servers;
use crate::support::seal::Draft;
use crate::support::world::World;

const HEALTHY: usize = 8;
/// One row for each of them.
const ROUND: Duration = Duration::from_millis(250);
const ROUNDS: usize = 20;
const DEAD: usize = 400;
const SLOW: usize = 60;
const SLOWNESS: Duration = Duration::from_secs(1);
const SLOTS: usize = 32;
const CAP: usize = 8;
/// What the machine may be late by while other tests use it.
const SLACK: f64 = 0.3;

/// Rows for the healthy at a steady pace, and when each of them was there to be found.
async fn rounds(world: &World, healthy: &[Receiver]) -> HashMap<String, Moment> {
    let (mut sent, mut pace) = (HashMap::new(), ticks(ROUND));
    for _ in 0..ROUNDS {
        pace.tick().await;
        let drafts: Vec<Draft> = healthy.iter().map(|receiver| Draft::to(receiver.url("/healthy"))).collect();
        let keys: Vec<String> = drafts.iter().map(|draft| draft.idempotency_key.clone()).collect();
        let rows = world.seal(drafts);
        let now = moment();
        world.database.insert(&rows).await;
        sent.extend(keys.into_iter().map(|key| (key, now)));
    }
    sent
}

/// How long the slowest but one in twenty took, when all have come.
async fn p95(healthy: &[Receiver], sent: &HashMap<String, Moment>) -> f64 {
    let mut delays = eventually("every row of the healthy comes", async || {
        let mut came: HashMap<String, Moment> = HashMap::new();
        for one in healthy.iter().flat_map(Receiver::received) {
            came.entry(one.idempotency_key()).or_insert(one.moment);
        }
        let delays: Vec<f64> = sent.iter().filter_map(|(key, sent)| Some(came.get(key)? - sent)).collect();
        if delays.len() == sent.len() { Ok(delays) } else { Err(format!("{} of {}", delays.len(), sent.len())) }
    })
    .await;
    delays.sort_by(f64::total_cmp);
    delays[delays.len() * 95 / 100]
}

#[tokio::test]
async fn dead_and_slow_destinations_keep_no_row_of_the_others_waiting() {
    let world = World::new().await;
    let mut healthy = Vec::new();
    for _ in 0..HEALTHY {
        healthy.push(Receiver::start().await);
    }
    let config = world.hasty_config().set("delivery.slots", SLOTS).set("delivery.per_destination", CAP);
    let daemon = Daemon::start(&config.set("delivery.poll_interval", "20ms")).await;
    let alone = p95(&healthy, &rounds(&world, &healthy).await).await;

    let (dead, slow) = (&world.receiver, Receiver::start().await);
    let gate = Gate::closed();
    let held = gate.clone();
    dead.answer(move |_, _| Answer::status(200).when(&held));
    slow.answer(|_, _| {
        let answered = Gate::closed();
        let opened = answered.clone();
        servers().spawn(async move {
            let mut later = ticks(SLOWNESS);
            later.tick().await;
            later.tick().await;
            opened.open();
        });
        Answer::status(200).when(&answered)
    });
    world.insert("/dead", DEAD).await;
    world.database.insert(&world.seal(Draft::many(&slow.url("/slow"), SLOW))).await;
    dead.wait_for(1).await;
    slow.wait_for(1).await;
    let among = p95(&healthy, &rounds(&world, &healthy).await).await;
    eprintln!("p95 of the healthy: alone {:.0} ms, among the others {:.0} ms", alone * 1e3, among * 1e3);
    assert!(among <= 2.0 * alone + SLACK, "{:.0} ms, and alone {:.0} ms", among * 1e3, alone * 1e3);

    // Nor is anything of the others lost.
    gate.open();
    let name = dead.address.to_string();
    Daemon::command(daemon.config(), &["destinations", "--release", &name]).wait_exit(PATIENCE).await;
    world.all_are("delivered").await;
}
