//! Many rows at an operator's word: counted first, changed only when told, noted with who and why, and beside daemons that
//! go on delivering.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::cluster::{TABLE, connect};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::eventually::{PATIENCE, eventually};
use crate::support::host::{Host, Registration};
use crate::support::receiver::{Answer, Gate, Receiver};
use crate::support::seal::{Draft, EnvelopeKey};
use crate::support::tool::{Done, outboxd};
use crate::support::world::World;

const BECAUSE: [&str; 5] = ["--run", "--reason", "INC-7", "--actor", "dana"];

async fn steer(config: &Config, words: &[&str]) -> Done {
    outboxd(config, words, "").await
}

/// The same for good.
async fn run(config: &Config, words: &[&str]) -> Done {
    steer(config, &[words, &BECAUSE].concat()).await
}

fn report(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// One row's answer to a question about it, as text.
async fn of_row(world: &World, task: &str, what: &str) -> String {
    let sql = format!("select coalesce(({what})::text, 'null') from {TABLE} where task_id = $1");
    world.database.value(&sql, &[&task]).await
}

async fn audit(world: &World, what: &str) -> String {
    world.database.value(&format!("select ({what})::text from {TABLE}_audit"), &[]).await
}

/// Finished rows without a daemon's help, an hour into a horizon of a day, or a second past it.
async fn finish(world: &World, state: &str, code: &str, past: bool) {
    let sql = format!(
        "update {TABLE} set state = $1, last_error = $2, attempt_count = 3, lease_token = null, lease_expires_at = null, \
         first_attempt_at = now() - interval '1 hour', \
         retry_until = case when $3 then now() - interval '1 second' else now() + interval '23 hours' end"
    );
    world.database.execute(&sql, &[&state, &code, &past]).await;
}

#[tokio::test]
async fn a_quarantined_row_is_delivered_as_it_was_once_its_receiver_is_mended() {
    let world = World::new().await;
    world.receiver.answers(vec![Answer::status(410)]);
    let draft = world.insert("/hooks", 1).await.remove(0);
    let config = world.config();
    let _daemon = Daemon::start(&config).await;
    world.all_are("invalid").await;
    let horizon = of_row(&world, &draft.task_id, "retry_until").await;

    let counted = steer(&config, &["requeue", "--code", "http_gone"]).await;
    assert_eq!(counted.code, Some(0), "{counted:?}");
    assert!(counted.stdout.contains("would requeue 1 row\nnothing was changed"), "{counted:?}");
    assert_eq!(audit(&world, "count(*)").await, "0", "a dry run was noted");
    let other = steer(&config, &["requeue", "--code", "http_legal", "--json"]).await;
    assert_eq!(report(&other)["matched"], 0);
    assert_eq!(world.count_of("invalid").await, 1, "a dry run changed something");

    world.receiver.answer(|_, _| Answer::status(200));
    let done = run(&config, &["requeue", "--code", "http_gone"]).await;
    assert!(done.code == Some(0) && done.stdout.starts_with("requeued 1 row in "), "{done:?}");
    world.all_are("delivered").await;
    let received = world.receiver.wait_for(2).await;
    assert_eq!(received[0].body, received[1].body);
    assert_eq!(received[1].idempotency_key(), draft.idempotency_key);
    assert_eq!(of_row(&world, &draft.task_id, "retry_until").await, horizon, "the horizon moved");
    assert_eq!(of_row(&world, &draft.task_id, "attempt_count").await, "2");
    let noted = "concat_ws(' ', min(action), min(actor), min(reason), min(filter::text), count(*), min(cardinality(ids)), \
                 min(cardinality(former_keys)))";
    assert_eq!(audit(&world, noted).await, "requeue dana INC-7 {\"code\": \"http_gone\"} 1 1 0");
}

impl World {
    async fn count_of(&self, state: &str) -> usize {
        self.database.count(state).await
    }
}

#[tokio::test]
async fn past_its_horizon_a_row_gets_a_fresh_key_in_row_and_body_and_that_is_said_and_noted() {
    let world = World::new().await;
    let host = Host::on(&world.database).await;
    let registration = Registration::to(world.receiver.url("/composed"));
    let composed = host.issue(&world.key, "create_media_buy", &registration).await;
    assert_eq!(host.complete(&composed, "{\"n\": 1.0}").await, Ok(true));
    let hmac = Draft::to(world.receiver.url("/hmac")).authentication("HMAC-SHA256", "h".repeat(40).as_str());
    let drafts = [world.insert("/hooks", 1).await.remove(0), hmac];
    world.database.insert(&world.seal(vec![drafts[1].clone()])).await;
    let lost = world.insert_under(&EnvelopeKey::new(), "/lost", 1).await.remove(0);
    finish(&world, "expired", "http_server_error", true).await;
    let composed_key = of_row(&world, &composed, "idempotency_key").await;

    let config = world.config().set("envelope.legacy_hmac", true);
    let counted = steer(&config, &["requeue", "--all"]).await;
    let said = "would requeue 4 rows\n  0 under the idempotency key that they have\n  4 past their horizon, under a fresh \
                key and with a new horizon; 3 of these are opened and sealed again\n";
    assert!(counted.stdout.starts_with(said), "{counted:?}");
    let done = run(&config, &["requeue", "--all", "--json"]).await;
    // What no held key opens cannot get one.
    assert_eq!(done.code, Some(65), "{done:?}");
    let id = of_row(&world, &lost.task_id, "id").await;
    assert_eq!(report(&done)["first_unopenable"].to_string(), format!("[{id}]"));
    assert_eq!((&report(&done)["changed"], &report(&done)["fresh_keys"]), (&3.into(), &3.into()));
    assert_eq!(
        of_row(&world, &lost.task_id, "state || idempotency_key").await,
        format!("expired{}", lost.idempotency_key)
    );
    world.database.execute(&format!("delete from {TABLE} where task_id = $1"), &[&lost.task_id]).await;
    let former = "string_agg(array_to_string(former_keys, ' '), ' ')";
    let former = audit(&world, former).await;
    for key in [&drafts[0].idempotency_key, &drafts[1].idempotency_key, &composed_key] {
        assert!(former.contains(key.as_str()), "{key} is not in {former}");
    }

    let _daemon = Daemon::start(&config).await;
    world.all_are("delivered").await;
    let received = world.receiver.wait_for(3).await;
    for draft in &drafts {
        let key = of_row(&world, &draft.task_id, "idempotency_key").await;
        assert!(key != draft.idempotency_key && key.len() == 40 && key.starts_with("whk_"), "{key}");
        let sent = received.iter().find(|sent| sent.json()["task_id"] == draft.task_id).expect("it is delivered");
        let expected = String::from_utf8(draft.body()).expect("bodies are text").replace(&draft.idempotency_key, &key);
        assert_eq!(String::from_utf8_lossy(&sent.body), expected);
        assert_eq!(
            of_row(&world, &draft.task_id, "attempt_count, retry_until > now() + interval '23 hours'").await,
            "(1,t)"
        );
    }
    let sent = received.iter().find(|sent| sent.json()["task_id"] == composed.as_str()).expect("it is delivered");
    Host::assert_body(&sent.body, &composed, &registration, "completed", "{\"n\": 1.0}");
    assert_ne!(sent.idempotency_key(), composed_key);
    assert_eq!(sent.idempotency_key(), of_row(&world, &composed, "idempotency_key").await);
}

#[tokio::test]
async fn a_run_that_is_interrupted_goes_on_where_it_was_and_changes_each_row_once() {
    // `make steer` has a hundred thousand.
    let many = std::env::var("STEER_ROWS").map_or(3000, |rows| rows.parse().expect("a number of rows"));
    let world = World::new().await;
    for chunk in 0..many / 1000 {
        assert_eq!(world.insert("/hooks", 1000).await.len(), 1000, "chunk {chunk}");
    }
    finish(&world, "invalid", "http_gone", false).await;
    let config = world.config();
    let begun = Instant::now();
    let counted = steer(&config, &["requeue", "--code", "http_gone", "--json"]).await;
    let took = begun.elapsed();
    assert_eq!(report(&counted)["matched"], many);
    assert!(took < Duration::from_secs(2), "counting took {took:?}");
    println!("{many} rows counted in {took:?}");
    // The rows that are requeued are delivered at once, and others' beside them: of the slots that are shipped one destination
    // gets a quarter.
    let config = config.set("delivery.slots", 256);
    let _daemon = Daemon::start(&config).await;
    // So slow that it is not through before it is interrupted.
    let rate = (many / 10).min(5000);
    let spelt = rate.to_string();
    let words = ["requeue", "--code", "http_gone", "--batch", "100", "--rate", &spelt];
    let begun = Instant::now();
    let first = Daemon::command(&config, &[&words[..], &BECAUSE].concat());
    eventually("some are requeued", async || {
        let noted: i64 = world.database.value(&format!("select count(*) from {TABLE}_audit"), &[]).await;
        if noted >= 3 { Ok(()) } else { Err(noted) }
    })
    .await;
    let elsewhere = Receiver::start().await;
    world.database.insert(&world.seal(vec![Draft::to(elsewhere.url("/other"))])).await;
    elsewhere.wait_for(1).await;
    first.signal(Signal::SIGINT);
    let ended = first.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(75), "{}", ended.output);
    // What a command prints and what it complains of come in any order.
    let run_id = ended.output.split_once("--resume ").and_then(|(_, rest)| rest.split_whitespace().next());
    let run_id = run_id.expect("it says how to go on");
    let before: i64 =
        world.database.value(&format!("select sum(cardinality(ids))::bigint from {TABLE}_audit"), &[]).await;
    assert!((300..many as i64).contains(&before), "{before}");
    let most = begun.elapsed().as_secs_f64() * rate as f64 + 200.0;
    assert!(before as f64 <= most, "{before} rows in {:?} at {rate} a second", begun.elapsed());
    let resumed = run(&config, &["requeue", "--resume", run_id, "--rate", "0", "--json"]).await;
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(report(&resumed)["changed_before"], before);
    assert_eq!(report(&resumed)["changed"], many as i64 - before);
    println!(
        "{before} requeued at {rate} a second, then {} in {} s",
        report(&resumed)["changed"],
        report(&resumed)["seconds"]
    );
    let distinct = format!(
        "select count(distinct row_id) || ' ' || count(*) || ' ' || count(distinct run) from {TABLE}_audit, unnest(ids) as row_id"
    );
    let distinct: String = world.database.value(&distinct, &[]).await;
    assert_eq!(distinct, format!("{many} {many} 1"));
    let patience = PATIENCE + Duration::from_millis(20 * many as u64);
    world.all_are_within(patience, "delivered").await;
    assert_eq!(world.receiver.tally().len(), many);
    assert!(world.receiver.tally().values().all(|times| *times == 1));
    let strange = run(&config, &["cancel", "--resume", run_id]).await;
    assert_eq!(strange.code, Some(64), "{strange:?}");
    assert_eq!(run(&config, &["requeue", "--resume", "none"]).await.code, Some(66));
}

#[tokio::test]
async fn a_run_keeps_to_its_rate_and_its_limit() {
    let world = World::new().await;
    world.insert("/hooks", 300).await;
    let begun = Instant::now();
    let done =
        run(&world.config(), &["expire", "--all", "--rate", "200", "--batch", "50", "--limit", "210", "--json"]).await;
    let took = begun.elapsed();
    assert_eq!((done.code, &report(&done)["changed"]), (Some(0), &210.into()), "{done:?}");
    assert!(took >= Duration::from_millis(1000), "{took:?} for 210 rows at 200 a second");
    assert_eq!((world.count_of("expired").await, world.count_of("pending").await), (210, 90));
    // What was never tried has a horizon all the same, or nothing would ever delete it.
    let horizon =
        format!("select bool_and(retry_until > now() and attempt_count = 0) from {TABLE} where state = 'expired'");
    assert!(world.database.value::<bool>(&horizon, &[]).await);
    let back = run(&world.config(), &["requeue", "--all", "--json"]).await;
    assert_eq!(report(&back)["changed"], 210);
    let fresh = format!("select bool_and(retry_until is null and first_attempt_at is null) from {TABLE}");
    assert!(world.database.value::<bool>(&fresh, &[]).await, "its horizon began without an attempt");
}

#[tokio::test]
async fn a_row_under_a_live_lease_is_waited_for_and_its_verdict_stands() {
    let world = World::new().await;
    let (gate, config) = (Gate::closed(), world.config().set("delivery.slots", 2));
    let reply = gate.clone();
    world.receiver.answer(move |target, _| match target {
        "/slow" => Answer::status(200).when(&reply),
        _ => Answer::status(503),
    });
    let slow = world.insert("/slow", 1).await.remove(0);
    let other = world.insert("/down", 1).await.remove(0);
    let _daemon = Daemon::start(&config).await;
    world.receiver.wait_for(2).await;
    let cancelling = Daemon::command(&config, &[&["cancel", "--account", "acc_1"][..], &BECAUSE].concat());
    eventually("what is free is cancelled", async || match world.database.row(&other.task_id).await {
        row if row.state == "invalid" && row.last_error.as_deref() == Some("cancelled") => Ok(()),
        row => Err(row),
    })
    .await;
    assert!(cancelling.is_running(), "it did not wait: {}", cancelling.text());
    gate.open();
    let ended = cancelling.wait_exit(PATIENCE).await;
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    assert_eq!(world.database.row(&slow.task_id).await.state, "delivered");
    assert!(ended.output.starts_with("cancelled 1 row in "), "{}", ended.output);
}

#[tokio::test]
async fn only_what_is_finished_and_past_its_horizon_is_purged() {
    let world = World::new().await;
    world.insert("/hooks", 3).await;
    finish(&world, "delivered", "", true).await;
    world.insert("/hooks", 2).await;
    let later = format!(
        "update {TABLE} set state = 'delivered', first_attempt_at = now(), retry_until = now() + interval '1 day' \
                         where state = 'pending'"
    );
    world.database.execute(&later, &[]).await;
    world.insert("/hooks", 1).await;
    let done = run(&world.config(), &["purge", "--all", "--json"]).await;
    assert_eq!((done.code, &report(&done)["changed"]), (Some(0), &3.into()), "{done:?}");
    assert_eq!((world.count_of("delivered").await, world.count_of("pending").await), (2, 1));
}

#[tokio::test]
async fn what_would_be_a_slip_is_refused_before_anything_is_asked() {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let config = world.config();
    for (words, said) in [
        (&["cancel"][..], "or --all"),
        (&["cancel", "--all", "--run"], "--reason"),
        (&["cancel", "--all", "--run", "--reason", " "], "say why"),
        (&["cancel", "--state", "delivered"], "cancel is not for rows in state delivered"),
        (&["requeue", "--state", "in_flight"], "requeue is not for rows in state in_flight"),
        (&["purge", "--state", "pending"], "purge is not for rows in state pending"),
        (
            &["requeue", "--all", "--resume", "x", "--run", "--reason", "y"],
            "--resume goes on with the filter of its run",
        ),
        (&["destinations", "--park", "x.example"], "--for"),
        (&["destinations", "--cap", "x.example", "--most", "0", "--reason", "y"], "--most"),
        (&["destinations", "--park", "x.example", "--for", "8d", "--reason", "y"], "from 1s to 7d"),
    ] {
        let refused = steer(&config, words).await;
        assert!(refused.code == Some(64) && refused.stderr.contains(said), "{words:?}: {refused:?}");
    }
    assert_eq!(world.count_of("pending").await, 1);
}

#[tokio::test]
async fn it_takes_an_operators_right_and_a_migrated_database() {
    let world = World::new().await;
    world.insert("/hooks", 2).await;
    let role = format!("user_of_{}", world.database.name);
    world
        .database
        .client
        .batch_execute(&format!("create role {role} login in role outboxd_daemon"))
        .await
        .expect("it is new");
    let config = world.config().set("database.url", world.database.url.replace("postgres@", &format!("{role}@")));
    let refused = steer(&config, &["cancel", "--all"]).await;
    assert!(refused.code == Some(77) && refused.stderr.contains("grant it outboxd_operator"), "{refused:?}");
    world.database.client.batch_execute(&format!("grant outboxd_operator to {role}")).await.expect("the owner may");
    let done = run(&config, &["cancel", "--all"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let again = run(&config, &["requeue", "--all"]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(audit(&world, "string_agg(distinct db_user, ' ')").await, role);
    world.database.client.batch_execute(&format!("drop table {TABLE}_audit")).await.expect("the owner may");
    let absent = steer(&config, &["cancel", "--all"]).await;
    assert!(absent.code == Some(78) && absent.stderr.contains("run `outboxd migrate`"), "{absent:?}");
}

#[tokio::test]
async fn an_outbox_in_another_schema_of_the_same_database_is_steered_by_the_same_functions() {
    let world = World::new().await;
    world.insert("/hooks", 1).await;
    let tenant = world.database.schema("tenant").await;
    let config = world.config().set("database.url", tenant.url.as_str());
    let migrated = steer(&config, &["migrate"]).await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    tenant.insert(&world.seal(Draft::many(&world.receiver.url("/hooks"), 2))).await;
    let done = run(&config, &["cancel", "--all", "--json"]).await;
    assert_eq!((done.code, &report(&done)["changed"]), (Some(0), &2.into()), "{done:?}");
    assert_eq!(world.count_of("pending").await, 1, "another outbox was touched");
    assert_eq!(audit(&world, "count(*)").await, "0");
    assert_eq!(tenant.value::<i64>(&format!("select count(*) from {TABLE}_audit"), &[]).await, 1);
}

#[tokio::test]
async fn a_destination_is_parked_and_let_go_by_hand_and_both_are_noted() {
    let world = World::new().await;
    let config = world.config();
    let url = world.receiver.url("/hooks");
    let name = url.split('/').nth(2).expect("a URL has an authority");
    let parked = steer(
        &config,
        &["destinations", "--park", &url, "--for", "2h", "--reason", "their maintenance", "--actor", "dana"],
    )
    .await;
    assert!(parked.code == Some(0) && parked.stdout.starts_with(&format!("{name} is parked for 2h")), "{parked:?}");
    let daemon = Daemon::start(&config).await;
    world.insert("/hooks", 3).await;
    let elsewhere = Receiver::start().await;
    for turn in 1..=3 {
        world.database.insert(&world.seal(vec![Draft::to(elsewhere.url("/free"))])).await;
        elsewhere.wait_for(turn).await;
    }
    assert_eq!(world.receiver.received().len(), 0, "it was attempted although it is parked: {}", daemon.text());
    let shown = steer(&config, &["destinations"]).await;
    assert!(shown.stdout.contains("operator") && shown.stdout.contains("seen by dana"), "{shown:?}");
    let released =
        steer(&config, &["destinations", "--resume", name, "--reason", "done early", "--actor", "dana"]).await;
    assert_eq!(released.code, Some(0), "{released:?}");
    world.receiver.wait_for(3).await;
    world.all_are("delivered").await;
    let noted = "string_agg(action || ' ' || actor || ' ' || reason, ', ' order by id)";
    assert_eq!(audit(&world, noted).await, "park dana their maintenance, release dana done early");
}

#[tokio::test]
async fn a_destination_is_capped_by_hand_below_what_it_would_begin_with_until_the_cap_is_taken_back() {
    let world = World::new().await;
    // One slot more than a destination begins with.
    let (config, gate) = (world.config().set("delivery.slots", 9), Gate::closed());
    let held = gate.clone();
    world.receiver.answer(move |_, _| Answer::status(200).when(&held));
    let url = world.receiver.url("/hooks");
    let name = url.split('/').nth(2).expect("a URL has an authority");
    let words = ["destinations", "--cap", name, "--most", "2", "--reason", "they asked for it", "--actor", "dana"];
    let capped = steer(&config, &words).await;
    assert!(capped.code == Some(0) && capped.stdout.contains("gets 2 attempts at once at most"), "{capped:?}");
    let daemon = Daemon::start(&config).await;
    world.insert("/hooks", 20).await;
    world.receiver.wait_for(2).await;
    // Whatever was to be claimed until others' rows are delivered has been.
    let elsewhere = Receiver::start().await;
    for turn in 1..=3 {
        world.database.insert(&world.seal(vec![Draft::to(elsewhere.url("/free"))])).await;
        elsewhere.wait_for(turn).await;
    }
    assert_eq!(world.receiver.received().len(), 2, "{}", daemon.text());
    let shown = steer(&config, &["destinations"]).await;
    assert!(shown.stdout.contains("at most 2 at once, said dana"), "{shown:?}");
    let shown = report(&steer(&config, &["destinations", "--json"]).await);
    assert_eq!((&shown["caps"][0]["destination"], &shown["caps"][0]["most"]), (&name.into(), &2.into()));
    let undone = steer(&config, &["destinations", "--uncap", name]).await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(steer(&config, &["destinations", "--uncap", name]).await.code, Some(66));
    gate.open();
    world.all_are("delivered").await;
    assert_eq!(audit(&world, "string_agg(action, ' ' order by id)").await, "cap uncap");
}

#[tokio::test]
async fn a_host_with_the_role_does_the_same_in_sql() {
    let world = World::new().await;
    world.insert("/hooks", 5).await;
    finish(&world, "invalid", "envelope_unopenable:x", false).await;
    let host = connect(&world.database.url).await;
    host.batch_execute("set role outboxd_operator; set search_path = pg_catalog").await.expect("migrate made the role");
    let ask = async |call: &str| {
        let sql =
            format!("select concat_ws(' ', matched, changed, fresh_key, needs_command, held) from outboxd.{call}");
        match host.query_one(&sql, &[]).await {
            Ok(row) => row.get::<_, String>(0),
            Err(error) => error.code().expect("the server refuses").code().to_owned(),
        }
    };
    let filter = r#"'{"code": "envelope_unopenable"}'"#;
    assert_eq!(ask(&format!("requeue_deliveries({filter})")).await, "5 0 0 0 0");
    assert_eq!(ask(&format!("requeue_deliveries({filter}, 'mended', true, 2)")).await, "2 2 0 0 0");
    assert_eq!(ask("cancel_deliveries('{}', 'enough', true)").await, "2 2 0 0 0");
    assert_eq!(ask("expire_deliveries('{}')").await, "0 0 0 0 0");
    assert_eq!(ask("purge_deliveries('{}', 'room', true)").await, "0 0 0 0 0");
    assert_eq!(ask("requeue_deliveries('[]')").await, "OD301");
    assert_eq!(ask(r#"requeue_deliveries('{"states": ["in_flight"]}')"#).await, "OD302");
    assert_eq!(ask(&format!("requeue_deliveries({filter}, null, true)")).await, "OD303");
    finish(&world, "expired", "x", true).await;
    assert_eq!(ask("requeue_deliveries('{}', 'late', true)").await, "5 0 0 5 0", "sealed rows are the command's");
    let listed =
        "select string_agg(concat_ws(' ', action, rows, reason), ', ' order by at) from outboxd.list_changes()";
    let listed: String = host.query_one(listed, &[]).await.expect("an operator may").get(0);
    assert_eq!(listed, "requeue 2 mended, cancel 2 enough");
    let refused = host.query_one(&format!("select 1 from public.{TABLE}_audit where false"), &[]).await;
    assert!(refused.is_err(), "it answered a row");
}
