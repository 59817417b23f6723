//! A host's commit is heard at once, and what is not heard is found.

use std::time::{Duration, Instant};

use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::host::{Host, Registration};
use crate::support::link::Link;
use crate::support::pooler::Pooler;
use crate::support::world::World;

async fn hears(daemon: &Daemon, expected: f64) {
    eventually("the ear is as it should be", async || {
        match daemon.metrics().await.total("outboxd_wakeups_heard", &[]) {
            heard if heard == expected => Ok(()),
            heard => Err(heard),
        }
    })
    .await;
}

/// Far below the time between two looks of these tests.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_task_that_ends_in_sql_is_delivered_at_once_and_again_after_the_ear_was_cut_off() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let registration = Registration::to(world.receiver.url("/hooks"));
    let daemon = Daemon::start(&world.config().set("delivery.poll_interval", "60s")).await;
    // By what it says to itself. A connection of the pool that once proved it shows that for as long as it is idle.
    let ears = "select count(*) from pg_stat_activity where datname = current_database() \
                and query ~ 'listen outboxd_wake|pg_backend_pid\\(\\) as ear,' and pid <> pg_backend_pid()";
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

/// The time that it takes to notice, by the promise: 15 s. What a loaded machine adds is none of it.
#[tokio::test]
async fn a_connection_that_went_silent_is_noticed_and_what_it_missed_is_delivered() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let registration = Registration::to(world.receiver.url("/hooks"));
    let link = Link::down();
    link.mend();
    let config = world.config().set("database.url", link.url(&world.database.name));
    let daemon = Daemon::start(&config.set("delivery.poll_interval", "60s")).await;
    hears(&daemon, 1.0).await;
    link.freeze();
    let frozen = Instant::now();
    let task = host.issue(&world.key, "create_media_buy", &registration).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    daemon.line(0, &["not heard any more", "outbox/beat_ear: no answer within 8 s"]).await;
    assert!(frozen.elapsed() < Duration::from_secs(15), "noticed after {:?}", frozen.elapsed());
    world.all_are_within(SOON, "delivered").await;
    hears(&daemon, 1.0).await;
}

#[tokio::test]
async fn behind_a_pooler_without_sessions_it_is_found_out_that_nothing_is_heard() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let pooler = Pooler::start().await;
    let config = world.config().set("database.url", pooler.url(&world.database.name));
    let daemon = Daemon::start(&config.set("database.prepared_statements", false)).await;
    daemon.line(0, &["hosts' wake-ups are not heard; rows are found by looking", "lets no notification through"]).await;
    hears(&daemon, 0.0).await;
    let task = host.issue(&world.key, "create_media_buy", &Registration::to(world.receiver.url("/hooks"))).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    world.all_are_within(SOON, "delivered").await;
    assert_eq!(daemon.text().matches("are not heard").count(), 1, "{}", daemon.text());
}

/// What needs no pooler is heard without prepared statements too.
#[tokio::test]
async fn unnamed_statements_alone_do_not_make_it_deaf() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let config = world.config().set("database.prepared_statements", false).set("delivery.poll_interval", "60s");
    let daemon = Daemon::start(&config).await;
    hears(&daemon, 1.0).await;
    let task = host.issue(&world.key, "create_media_buy", &Registration::to(world.receiver.url("/hooks"))).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    world.all_are_within(SOON, "delivered").await;
    assert!(daemon.metrics().await.total("outboxd_wakeups_total", &[]) >= 1.0);
}
