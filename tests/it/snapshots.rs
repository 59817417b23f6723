//! Whoever keeps dead rows from being removed is shown and named, and what it asks is not.

use crate::support::cluster::connect;
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::world::World;

const AGE: &str = "outboxd_oldest_snapshot_seconds";

#[tokio::test]
async fn a_forgotten_transaction_is_named_and_its_end_is_told() {
    let world = World::new().await;
    let url = format!("{}&application_name=nightly-report", world.database.url);
    let forgotten = connect(&url).await;
    let pid: i32 = forgotten.query_one("select pg_backend_pid()", &[]).await.expect("it answers").get(0);
    let question = "begin isolation level repeatable read; select 'a secret' from adcp_task_webhook_outbox";
    forgotten.batch_execute(question).await.expect("it begins");
    let daemon = Daemon::start(&world.config().set("sweep.snapshot_warning", "2s")).await;
    let line = daemon.line(0, &["an old snapshot keeps dead rows"]).await;
    let said =
        [&format!("\"pid\":{pid},"), "nightly-report", "\"user\":\"postgres\"", "idle in transaction", "session"];
    assert!(said.iter().all(|word| line.contains(*word)), "{line}");
    assert!(daemon.metrics().await.total(AGE, &[]) >= 2.0);
    forgotten.batch_execute("rollback").await.expect("it ends");
    daemon.line(0, &["no old snapshot is held any more"]).await;
    eventually("the gauge falls", async || match daemon.metrics().await.total(AGE, &[]) {
        age if age < 2.0 => Ok(()),
        age => Err(age),
    })
    .await;
    assert!(!daemon.text().contains("secret"), "{}", daemon.text());
}

#[tokio::test]
async fn a_user_that_may_not_see_it_is_told_which_right_it_lacks() {
    let world = World::new().await;
    let name = &world.database.name;
    let role = format!("daemon_of_{name}");
    let grant = format!("create role {role} login; grant outboxd_daemon to {role}");
    world.database.client.batch_execute(&grant).await.expect("migrate made the role");
    let url = world.database.url.replace("postgres@", &format!("{role}@"));
    let daemon = Daemon::start(&world.config().set("database.url", url)).await;
    daemon.line(0, &["grant pg_read_all_stats"]).await;
    world.insert("/hooks", 1).await;
    world.all_are("delivered").await;
    assert_eq!(daemon.text().matches("pg_read_all_stats").count(), 1);
}
