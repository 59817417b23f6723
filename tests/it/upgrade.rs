//! A rolling upgrade: the version before composed rows and this one, each on the other's schema, at the same time.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::support::cluster::{Database, TABLE};
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::host::{Host, Registration};
use crate::support::keys::SigningKey;
use crate::support::receiver::Receiver;
use crate::support::seal::EnvelopeKey;
use crate::support::world::World;

macro_rules! before {
    ($file:literal) => {
        include_str!(concat!("../vectors/before_composed/", $file, ".sql"))
    };
}

/// As the store does it: `:"outbox"` and `:"outbox_suffix"` are the table and what is named after it.
fn rendered(sql: &str) -> String {
    sql.replace(":\"outbox", &format!("\"{TABLE}"))
}

async fn old_schema() -> Database {
    let database = Database::empty().await;
    for migration in [before!("0001_outbox"), before!("0002_tasks"), before!("0003_open_rows_index")] {
        database.client.batch_execute(&rendered(migration)).await.expect("it applied when it was new");
    }
    database
}

#[tokio::test]
async fn this_daemon_serves_the_schema_before_it_and_one_that_is_migrated_under_it() {
    let world = World {
        database: old_schema().await,
        receiver: Receiver::start().await,
        key: EnvelopeKey::new(),
        signer: SigningKey::ed25519("test-ed25519-1"),
    };
    world.insert("/before", 20).await;
    let daemon = Daemon::start(&world.config()).await;
    world.all_are("delivered").await;
    let migrated = Daemon::command(&world.config(), &["migrate"]).wait_exit(PATIENCE).await;
    assert_eq!(migrated.code, Some(0), "{}", migrated.output);
    let host = Host::on(&world.database).await;
    let task = host.issue(&world.key, "create_media_buy", &Registration::to(world.receiver.url("/after"))).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    world.insert("/beside", 20).await;
    world.all_are("delivered").await;
    assert!(daemon.is_running());
    assert_eq!(world.receiver.tally().len(), 41);
}

#[tokio::test]
async fn the_daemon_before_claims_and_settles_its_own_kind_on_todays_schema_and_leaves_composed_rows() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let task = host.issue(&world.key, "create_media_buy", &Registration::to(world.receiver.url("/composed"))).await;
    assert_eq!(host.complete(&task, "{}").await, Ok(true));
    world.insert("/sealed", 4).await;
    let client = &world.database.client;
    let none: (Vec<String>, Vec<i32>) = Default::default();
    let claim = rendered(before!("claim_due"));
    let claimed: Vec<Row> = client
        .query(&claim, &[&100i64, &(1i64 << 30), &"the token before", &60f64, &none.0, &none.1, &64i32])
        .await
        .expect("its claim works");
    let ids: Vec<i64> = claimed.iter().map(|row| row.get("id")).collect();
    assert_eq!(ids.len(), 4, "it took a composed row");
    let token = vec!["the token before"];
    let settle = async |sql: &str, nth: usize, more: &[&(dyn ToSql + Sync)]| {
        let id = vec![ids[nth]];
        let parameters: Vec<&(dyn ToSql + Sync)> =
            [&id as &(dyn ToSql + Sync), &token].into_iter().chain(more.iter().copied()).collect();
        let settled =
            client.query(&rendered(sql), &parameters).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(settled.len(), 1, "{sql}");
    };
    let (no_delay, unavailable, gone) = (vec![0f64], vec![Some(503i32)], vec![Some(410i32)]);
    settle(before!("settle_delivered"), 0, &[&vec![200i32]]).await;
    settle(before!("settle_retried"), 1, &[&no_delay, &unavailable, &vec!["http_server_error"]]).await;
    settle(before!("give_back"), 2, &[&no_delay]).await;
    settle(before!("settle_quarantined"), 3, &[&gone, &vec!["http_gone"]]).await;
    for sql in [before!("expire_overdue"), before!("purge_settled"), before!("sample_backlog")] {
        client.query(&rendered(sql), &[&1000i64]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    let composed = world.database.row(&task).await;
    assert_eq!((composed.attempt_count, composed.lease_token), (0, None));
    let _daemon = Daemon::start(&world.config()).await;
    eventually("what is left is delivered", async || {
        let ends = (world.database.count("delivered").await, world.database.count("invalid").await);
        if ends == (4, 1) { Ok(()) } else { Err(format!("{ends:?}")) }
    })
    .await;
}
