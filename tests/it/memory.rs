//! How much memory deliveries take: little for small bodies however many are under way, and for large ones no more than the
//! slots hold.

use serde_json::json;

use crate::support::daemon::Daemon;
use crate::support::receiver::{Answer, Gate};
use crate::support::seal::Draft;
use crate::support::world::World;

const MIB: u64 = 1 << 20;
const MANY: usize = 1000;
/// The largest body that is delivered.
const LARGE: usize = 10 << 20;

/// With a body of so many bytes.
fn draft(world: &World, bytes: usize) -> Draft {
    let mut draft = Draft::to(world.receiver.url("/hooks"));
    draft.result = json!({ "text": "" });
    draft.result = json!({ "text": "a".repeat(bytes - draft.body().len()) });
    assert_eq!(draft.body().len(), bytes);
    draft
}

#[tokio::test]
async fn a_thousand_small_deliveries_under_way_fit_into_64_mib() {
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(200).when(&held));
    let drafts = (0..MANY).map(|_| draft(&world, 1024)).collect();
    world.database.insert(&world.seal(drafts)).await;
    let config = world.config().set("delivery.slots", MANY).set("delivery.per_destination", MANY);
    let config = config.set("delivery.per_destination_start", MANY).set("egress.attempt_timeout", "50s");
    let daemon = Daemon::start(&config.set("log.filter", "info")).await;
    world.receiver.wait_for(MANY).await;
    gate.open();
    world.all_are("delivered").await;
    let (peak, code) = (daemon.peak(), daemon.mapped());
    // A release build has 12 MiB of code in memory, a debug build nearly three times that: it is left out, and room for it too.
    assert!(peak - code <= (64 - 16) * MIB, "{} KiB, and {} KiB of code", (peak - code) >> 10, code >> 10);
}

#[tokio::test]
async fn large_bodies_take_no_more_than_the_slots_hold() {
    const SLOTS: usize = 8;
    let world = World::new().await;
    let config = world.config().set("delivery.slots", SLOTS).set("delivery.per_destination", SLOTS);
    let daemon = Daemon::start(&config).await;
    world.insert("/hooks", 1).await;
    world.all_are("delivered").await;
    let before = daemon.peak();
    for _ in 0..2 {
        let drafts = (0..SLOTS).map(|_| draft(&world, LARGE)).collect();
        world.database.insert(&world.seal(drafts)).await;
    }
    world.all_are("delivered").await;
    let grown = daemon.peak() - before;
    // Besides what the slots hold there is what one claim brings, and what the allocator keeps.
    assert!(grown <= 2 * (SLOTS * LARGE) as u64, "{} KiB", grown >> 10);
}
