//! Somebody takes a table or a column away while the daemon runs, and gives it back.

use std::time::Instant;

use super::Scene;
use crate::support::cluster::TABLE;
use crate::support::daemon::Daemon;
use crate::support::history::moment;

async fn taken_and_given_back(fault: &str, take: &str, give: &str, named: &str) {
    let mut scene = Scene::shared().await;
    let daemon = Daemon::start(&scene.config()).await;
    scene.deliver(20).await;
    let from = moment();
    scene.world.database.execute(take, &[]).await;
    let readiness = scene.is_red(&daemon, named).await;
    scene.stays_red(&daemon).await;
    scene.world.database.execute(give, &[]).await;
    let back = Instant::now();
    let recovery = scene.recovers(&daemon, back).await;
    scene.broken(fault, from);
    scene.judged(fault, &readiness, recovery).await;
}

#[tokio::test]
async fn p1_a_table_that_is_missing_at_run_time_is_named_and_waited_for() {
    let (take, give) = (format!("ALTER TABLE {TABLE} RENAME TO away"), format!("ALTER TABLE away RENAME TO {TABLE}"));
    taken_and_given_back("table missing at run time", &take, &give, TABLE).await;
}

#[tokio::test]
async fn p1_a_column_that_is_missing_at_run_time_is_named_and_waited_for() {
    let rename = |from: &str, to: &str| format!("ALTER TABLE {TABLE} RENAME COLUMN {from} TO {to}");
    let (take, give) = (rename("lease_expires_at", "away"), rename("away", "lease_expires_at"));
    taken_and_given_back("column missing at run time", &take, &give, "lease_expires_at").await;
}
