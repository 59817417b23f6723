//! A row belongs to the holder of its lease, whatever a late reply says.

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::metrics::LEASES_LOST;
use crate::support::receiver::{Answer, Gate};
use crate::support::seal::Draft;
use crate::support::world::World;

#[tokio::test]
async fn p3_a_lease_lost_while_the_reply_was_under_way_is_counted_and_not_settled() {
    let world = World::new().await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |target, _| match target {
        "/refused" => Answer::status(503).when(&held),
        _ => Answer::status(200).when(&held),
    });
    let drafts: Vec<Draft> =
        ["/taken", "/settled", "/refused"].iter().map(|target| Draft::to(world.receiver.url(target))).collect();
    world.database.insert(&world.seal(drafts.clone())).await;
    // All three are in flight together.
    let daemon = Daemon::start(&world.config().set("delivery.slots", 3)).await;
    world.receiver.wait_for(3).await;
    for target in ["/taken", "/refused"] {
        let sql = "UPDATE adcp_task_webhook_outbox SET lease_token = 'another holder', attempt_count = 2, \
                   lease_expires_at = now() + interval '1 hour' WHERE url = $1";
        assert_eq!(world.database.execute(sql, &[&world.receiver.url(target)]).await, 1);
    }
    let sql = "UPDATE adcp_task_webhook_outbox SET state = 'invalid', lease_token = NULL, lease_expires_at = NULL, \
               last_error = 'http_gone' WHERE url = $1";
    assert_eq!(world.database.execute(sql, &[&world.receiver.url("/settled")]).await, 1);
    let before = world.database.rows().await;
    gate.open();
    eventually("the lost leases are counted", async || {
        let metrics = daemon.metrics().await;
        let delivered = metrics.total(LEASES_LOST, &[("code", "delivered")]);
        let refused = metrics.total(LEASES_LOST, &[("code", "http_server_error")]);
        if (delivered, refused) == (2.0, 1.0) { Ok(()) } else { Err(metrics.text) }
    })
    .await;
    assert_eq!(world.database.rows().await, before);
}
