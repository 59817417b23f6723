//! A host that writes only SQL: tasks are issued, brought forward and ended by functions, and their webhooks leave.

mod contract;
mod differential;
mod semantics;

use std::io::Write;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::interop::{buyer, seller, signing};
use crate::support::cluster::{TABLE, psql};
use crate::support::daemon::Daemon;
use crate::support::eventually::eventually;
use crate::support::host::{Host, Registration};
use crate::support::keys::hex;
use crate::support::receiver::{Answer, Gate};
use crate::support::world::World;

const SPELT: &str = "{ \"z\" : 1.50e+3,\t\"a\":\"\\u00e9é\\/\", \"n\": -0 }";

#[tokio::test]
async fn a_host_with_psql_alone_commits_business_and_webhook_together_or_neither() {
    let world = World::new().await;
    let registration = Registration::to(world.receiver.url("/hooks"));
    world.database.client.batch_execute("create table orders (id text)").await.expect("a table of the host's own");
    world.database.client.batch_execute("grant all on orders to outboxd_host").await.expect("and its right on it");
    let script = |task: &str, ending: &str| {
        let (sealed, nonce) = registration.seal(&world.key, "acc_1", task, "create_media_buy");
        format!(
            "set role outboxd_host;\n\
             select outboxd.issue_task('acc_1', 'create_media_buy', null, '\\x{}', '\\x{}', '{task}', '{}');\n\
             begin;\n\
             insert into orders values ('{task}');\n\
             select outboxd.complete_task('{task}', '{{\"media_buy_id\":\"mb_1\",  \"n\":1.0}}');\n\
             {ending};\n",
            hex(&sealed),
            hex(&nonce),
            registration.url
        )
    };
    let run = |script: String| {
        let mut child = psql(&world.database.name).stdin(Stdio::piped()).spawn().expect("psql is installed");
        child.stdin.take().expect("it is piped").write_all(script.as_bytes()).expect("psql reads");
        assert!(child.wait().expect("it ends").success());
    };
    run(script("task_rolled_back", "rollback"));
    assert_eq!(world.database.rows().await, []);
    let state: String = world.database.value("select state from decisioning_tasks", &[]).await;
    assert_eq!(state, "submitted");
    run(script("task_committed", "commit"));
    let orders: String = world.database.value("select string_agg(id, ' ') from orders", &[]).await;
    assert_eq!(orders, "task_committed");
    let _daemon = Daemon::start(&world.config()).await;
    let received = world.receiver.wait_for(1).await;
    let result = "{\"media_buy_id\":\"mb_1\",  \"n\":1.0}";
    Host::assert_body(&received[0].body, "task_committed", &registration, "completed", result);
    world.assert_signed(&received[0]);
    world.all_are("delivered").await;
}

#[tokio::test]
async fn every_attempt_and_every_replica_sends_the_same_bytes() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let registration = Registration {
        token: Some("a token of the buyer é".into()),
        ..Registration::to(world.receiver.url("/hooks"))
    };
    let task = host.issue(&world.key, "sync_creatives", &registration).await;
    assert_eq!(host.complete(&task, SPELT).await, Ok(true));
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, nth| match nth {
        0 => Answer::status(503),
        1 => Answer::status(200).when(&held),
        _ => Answer::status(200),
    });
    let daemon = Daemon::start(&world.hasty_config()).await;
    world.receiver.wait_for(2).await;
    // It dies with the row in its hands; its heir sends the same.
    daemon.signal(Signal::SIGKILL);
    let _heir = Daemon::start(&world.hasty_config()).await;
    let received = world.receiver.wait_for(3).await;
    world.all_are("delivered").await;
    gate.open();
    for request in &received {
        assert_eq!(request.body, received[0].body);
        Host::assert_body(&request.body, &task, &registration, "completed", SPELT);
        world.assert_signed(request);
    }
    assert_eq!(world.database.rows().await[0].attempt_count, 3);
}

#[tokio::test]
async fn composed_rows_in_flight_when_a_daemon_is_killed_are_delivered_after_the_lease() {
    const ROWS: usize = 50;
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let gate = Gate::closed();
    let held = gate.clone();
    world.receiver.answer(move |_, nth| match nth {
        0 => Answer::status(200).when(&held),
        _ => Answer::status(200),
    });
    for nth in 0..ROWS {
        let registration = Registration::to(world.receiver.url(&format!("/row/{nth}")));
        let task = host.issue(&world.key, "create_media_buy", &registration).await;
        assert_eq!(host.complete(&task, "{}").await, Ok(true));
    }
    let config = world
        .hasty_config()
        .set("delivery.slots", ROWS)
        .set("delivery.per_destination", ROWS)
        .set("delivery.per_destination_start", ROWS);
    let daemon = Daemon::start(&config).await;
    world.receiver.wait_for(ROWS).await;
    daemon.signal(Signal::SIGKILL);
    let _heir = Daemon::start(&config).await;
    let rows = world.all_are("delivered").await;
    gate.open();
    assert!(rows.iter().all(|row| row.attempt_count == 2), "{rows:?}");
    let tally = world.receiver.tally();
    assert!(tally.len() == ROWS && tally.values().all(|times| *times == 2), "{tally:?}");
}

#[tokio::test]
async fn the_sdks_receiver_accepts_what_a_sql_host_wrote_and_its_worker_leaves_it_alone() {
    let world = World::new().await;
    let config = world.config().set("envelope.legacy_hmac", true);
    let seller = seller(&world, &config, json!({"signing": signing(&world.signer)})).await;
    let (buyer, origin) = buyer(&config, &[&world.signer]).await;
    let host = Host::on(&world.database).await;
    seller.call("work", json!({"workers": 2})).await;
    let error = r#"{"code": "INTERNAL_ERROR", "message": "no luck: ü", "recovery": "terminal"}"#;
    let mut tasks = Vec::new();
    for (task_type, token) in
        [("create_media_buy", None), ("get_signals", Some("a token of the buyer")), ("search_brands", None)]
    {
        let registration =
            Registration { token: token.map(str::to_owned), ..Registration::to(format!("{origin}/hooks")) };
        let done = host.issue(&world.key, task_type, &registration).await;
        assert_eq!(host.complete(&done, "{\"media_buy_id\" : \"mb_1\", \"n\": [1.0, null]}").await, Ok(true));
        let failed = host.issue(&world.key, task_type, &registration).await;
        assert_eq!(host.fail(&failed, error).await, Ok(true));
        tasks.extend([done, failed]);
    }
    // A registration that the SDK sealed, completed in SQL.
    let task = json!({"url": format!("{origin}/hooks"), "operation_id": "op_sdk", "token": "a token of the buyer"});
    let issued = seller.call("issue", json!({"tasks": [task]})).await;
    let issued = issued[0].as_str().expect("an id").to_owned();
    assert_eq!(host.complete(&issued, "{}").await, Ok(true));
    tasks.push(issued);
    // The worker is awake: its own row leaves, and the others stay as they are.
    let plain = json!({"tasks": [{"url": format!("{origin}/plain"), "operation_id": "op_1"}]});
    seller.call("emit", plain).await;
    buyer.call("wait", json!({"count": 1})).await;
    eventually("the worker settled its own row", async || match world.database.count("delivered").await {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    let untouched =
        format!("select count(*) from {TABLE} where state = 'in_flight' and attempt_count = 0 and lease_token is null");
    assert_eq!(world.database.value::<i64>(&untouched, &[]).await, tasks.len() as i64);
    let _daemon = Daemon::start(&config).await;
    let records = buyer.call("wait", json!({"count": tasks.len() + 1})).await;
    for record in records.as_array().expect("a list").iter().filter(|record| record["target"] == "/hooks") {
        assert_eq!((&record["status"], &record["reason"]), (&json!(200), &json!(null)), "{record}");
        assert_eq!(record["duplicate"], false, "{record}");
    }
    world.all_are("delivered").await;
    seller.call("rest", json!({})).await;
}

#[tokio::test]
async fn a_row_that_cannot_be_rendered_is_quarantined_and_says_why() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let registration = Registration::to(world.receiver.url("/hooks"));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let task = host.issue(&world.key, "create_media_buy", &registration).await;
        assert_eq!(host.complete(&task, "{}").await, Ok(true));
        tasks.push(task);
    }
    let [orphan, lured, later, _good] = &tasks[..] else { panic!("there are four") };
    world.database.execute(&format!("delete from {TABLE}_composed where task_id = $1"), &[orphan]).await;
    let lure = format!("update {TABLE} set url = 'https://127.0.0.1:1/elsewhere' where task_id = $1");
    world.database.execute(&lure, &[lured]).await;
    world.database.execute(&format!("update {TABLE}_composed set version = 2 where task_id = $1"), &[later]).await;
    let _daemon = Daemon::start(&world.config()).await;
    eventually("all rows ended", async || match world.database.count("invalid").await {
        3 if world.database.count("delivered").await == 1 => Ok(()),
        other => Err(other),
    })
    .await;
    let error = async |task: &str| world.database.row(task).await.last_error.expect("it says why");
    assert_eq!(error(orphan).await, "row_malformed");
    assert_eq!(error(lured).await, "envelope_mismatch");
    assert_eq!(error(later).await, "row_malformed");
    assert_eq!(world.receiver.received().len(), 1);
}
