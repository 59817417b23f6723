//! A host's commit is heard at once, and what is not heard is found.

use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::host::{Host, Registration};
use crate::support::world::World;

/// Far below the time between two looks of these tests.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_task_that_ends_in_sql_is_delivered_at_once_and_again_after_the_ear_was_cut_off() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let registration = Registration::to(world.receiver.url("/hooks"));
    let daemon = Daemon::start(&world.config().set("delivery.poll_interval", "60s")).await;
    let ears = "select count(*) from pg_stat_activity where datname = current_database() and query like '%listen outboxd_wake%' \
                and pid <> pg_backend_pid()";
    let listening = async || match world.database.value::<i64>(ears, &[]).await {
        1 => Ok(()),
        other => Err(other),
    };
    eventually("the daemon listens", listening).await;
    let task = host.issue(&world.key, "create_media_buy", &registration).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    world.all_are_within(SOON, "delivered").await;

    let cut = ears.replace("count(*)", "count(pg_terminate_backend(pid))");
    assert_eq!(world.database.value::<i64>(&cut, &[]).await, 1);
    let task = host.issue(&world.key, "create_media_buy", &registration).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    world.all_are_within(SOON, "delivered").await;
    eventually("the daemon listens again", listening).await;
    assert!(daemon.is_running());
}

#[tokio::test]
async fn without_an_ear_rows_are_found_by_looking() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let _daemon = Daemon::start(&world.config().set("database.prepared_statements", false)).await;
    let task = host.issue(&world.key, "create_media_buy", &Registration::to(world.receiver.url("/hooks"))).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    world.all_are_within(SOON, "delivered").await;
}
