//! The inbox's doors: what is fresh, what converges and what collides, alone and all at once; and what a damaged row
//! costs the others.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use tokio_postgres::error::SqlState;

use super::*;

/// A lawful notification, owned.
pub(super) struct Sample {
    notification_id: String,
    event_id: String,
    site_id: String,
    terminal_status: String,
    payload_sha256: String,
    payload: String,
}

fn hex(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Sample {
    pub(super) fn new(event_id: &str, site_id: &str, release: &str) -> Sample {
        let (a, b, c) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
        let before = format!(
            r#"{{"change_sha256":"{a}","event_id":"{event_id}","job_count":23,"lifecycle_binding_sha256":"{b}","lifecycle_sha256":"{c}","#
        );
        let after = format!(
            r#""plan_id":"plan-{event_id}","schema":"blun.cms-source-terminal-notification.v1","site_id":"{site_id}","source_sequence":42,"terminal_status":"published","website_version":"{release}"}}"#
        );
        let notification_id = format!("terminal-{}", hex(&format!("{before}{after}")));
        let payload = format!(r#"{before}"notification_id":"{notification_id}",{after}"#);
        Sample {
            notification_id,
            event_id: event_id.into(),
            site_id: site_id.into(),
            terminal_status: "published".into(),
            payload_sha256: hex(&payload),
            payload,
        }
    }

    /// What the receiver's checks would hand over.
    pub(super) fn parse(payload: &str) -> Sample {
        let fields: serde_json::Value = serde_json::from_str(payload).expect("a lawful payload is JSON");
        let field = |name: &str| fields[name].as_str().expect("a string").to_owned();
        Sample {
            notification_id: field("notification_id"),
            event_id: field("event_id"),
            site_id: field("site_id"),
            terminal_status: field("terminal_status"),
            payload_sha256: hex(payload),
            payload: payload.to_owned(),
        }
    }

    pub(super) fn new_notification(&self) -> NewNotification<'_> {
        NewNotification {
            notification_id: &self.notification_id,
            event_id: &self.event_id,
            site_id: &self.site_id,
            terminal_status: &self.terminal_status,
            payload_sha256: &self.payload_sha256,
            payload: &self.payload,
            max_attempts: 5,
        }
    }

    async fn accept(&self, db: &Database) -> Accepted {
        db.store.accept_notification(&self.new_notification()).await.expect("the database answers")
    }
}

/// Its constraints stay behind, so that a row can become what no operation makes of it.
pub(super) const UNGUARD: &str = "alter table cms_terminal_notification_inbox \
     drop constraint cms_terminal_notification_inbox_bound, drop constraint cms_terminal_notification_inbox_received_at; \
     alter table cms_terminal_notification_processing drop constraint cms_terminal_notification_processing_lawful";

pub(super) async fn inbox() -> Database {
    Database::new(Schema::Ours).await
}

#[tokio::test]
async fn the_first_is_fresh_its_replay_converges_and_another_under_its_event_collides() {
    let db = inbox().await;
    let sample = Sample::new("event", "site", "1");
    assert_eq!(sample.accept(&db).await, Accepted::Fresh);
    assert_eq!(sample.accept(&db).await, Accepted::Converged);
    assert_eq!(Sample::new("event", "site", "2").accept(&db).await, Accepted::Collision);
    assert_eq!(Sample::new("event", "other-site", "1").accept(&db).await, Accepted::Collision);
    assert_eq!(Sample::new("other", "site", "1").accept(&db).await, Accepted::Fresh);
    let status = db.store.read_notification("event").await.expect("it answers").expect("it is there");
    assert_eq!(
        (status.payload.as_str(), status.notification_id.as_str()),
        (&*sample.payload, &*sample.notification_id)
    );
    assert_eq!((status.processing_status.as_str(), status.attempts, status.max_attempts), ("pending", 0, 5));
    assert_eq!(status.next_attempt_at, status.received_at);
    assert_eq!(db.store.read_notification("nobody").await.expect("it answers"), None);
    let health = db.store.inbox_health().await.expect("it answers");
    let expected = InboxHealth { received: 2, counts: [2, 0, 0, 0, 0], due: 2, expired: 0, bad_rows: 0 };
    assert_eq!(health, expected);
}

#[tokio::test]
async fn of_those_accepted_together_each_is_stored_once_and_the_taken_ones_are_told() {
    let db = inbox().await;
    assert_eq!(db.store.accept_notifications(&[]).await, Ok(Vec::new()));
    let stored = Sample::new("event-1", "site", "1");
    assert_eq!(stored.accept(&db).await, Accepted::Fresh);
    let samples = [
        stored,
        Sample::new("event-2", "site", "1"),
        Sample::new("event-2", "site", "1"),
        Sample::new("event-1", "other-site", "1"),
        Sample::new("event-3", "site", "1"),
    ];
    let new: Vec<_> = samples.iter().map(Sample::new_notification).collect();
    let told = db.store.accept_notifications(&new).await.expect("the database answers");
    assert_eq!(told, [Together::Taken, Together::Stored, Together::Taken, Together::Taken, Together::Stored]);
    let converged = [Accepted::Converged, Accepted::Converged, Accepted::Converged, Accepted::Collision];
    for (new, expected) in new.iter().zip(converged) {
        assert_eq!(db.store.converge_notification(new).await, Ok(expected));
    }
    let absent = Sample::new("event-4", "site", "1");
    assert_eq!(db.store.converge_notification(&absent.new_notification()).await, Ok(Accepted::Fresh));
    assert_eq!(db.store.inbox_health().await.expect("it answers").counts, [4, 0, 0, 0, 0]);
}

#[tokio::test]
async fn a_forwarded_notification_is_ended_by_its_own_claim_only() {
    let db = inbox().await;
    let samples = ["event-1", "event-2", "event-3"].map(|event| Sample::new(event, "site-1", "release-1"));
    for sample in &samples {
        assert_eq!(sample.accept(&db).await, Accepted::Fresh);
    }
    let lease = Duration::from_secs(60);
    let claimed = db.store.claim_messages(Inbox::Notifications, "forward-1", 10, lease).await.unwrap();
    assert_eq!(claimed.len(), 3);
    assert!(claimed.iter().all(|message| message.sender == "site-1" && message.attempt == 1));
    let bodies: Vec<&[u8]> = claimed.iter().map(|message| message.body.as_slice()).collect();
    assert!(samples.iter().all(|sample| bodies.contains(&sample.new_notification().payload.as_bytes())));
    let delays = (Duration::from_secs(5), Duration::from_secs(300));
    for (message, ending) in claimed.iter().zip([Ending::Complete, Ending::Retry("busy", delays), Ending::Fail("bad")])
    {
        db.store.end_message(&message.claim, ending).await.unwrap();
    }
    assert_eq!(db.store.inbox_health().await.unwrap().counts, [0, 0, 1, 1, 1]);
    assert!(db.store.end_message(&claimed[0].claim, Ending::Complete).await.is_err(), "its claim is over");
    assert!(db.store.claim_messages(Inbox::Notifications, "forward-1", 10, lease).await.unwrap().is_empty());
}

/// As many connections as there are senders, each asking at the same time.
const SENDERS: usize = 64;

/// The cluster's connections are for all tests: those that need many take turns.
static WIDE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn wide_store(db: &Database) -> Store {
    let config = StoreConfig { pool_size: SENDERS, ..config(&db.url) };
    Store::open(&config, silent()).expect("a good configuration")
}

async fn send_all(store: &Store, samples: &[Sample]) -> Vec<Result<Accepted, StoreError>> {
    let sending: Vec<_> = samples.iter().map(Sample::new_notification).collect();
    join_all(sending.iter().map(|new| store.accept_notification(new))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn senders_of_the_same_notification_are_all_told_that_it_is_stored_and_it_is_once() {
    let (_turn, db) = (WIDE.lock().await, inbox().await);
    let store = wide_store(&db);
    for round in 0..3 {
        let samples: Vec<Sample> = (0..SENDERS).map(|_| Sample::new(&format!("event-{round}"), "site", "1")).collect();
        let told = send_all(&store, &samples).await;
        let count = |outcome| told.iter().filter(|one| **one == Ok(outcome)).count();
        assert_eq!((count(Accepted::Fresh), count(Accepted::Converged)), (1, SENDERS - 1), "{told:?}");
    }
    assert_eq!(db.store.inbox_health().await.expect("it answers").counts, [3, 0, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_colliding_notifications_exactly_one_is_stored_and_only_its_senders_are_told_so() {
    let (_turn, db) = (WIDE.lock().await, inbox().await);
    let store = wide_store(&db);
    // Each of eight bodies of one event comes from eight senders.
    let samples: Vec<Sample> =
        (0..SENDERS).map(|n| Sample::new("event", "site", &format!("release-{}", n % 8))).collect();
    let told = send_all(&store, &samples).await;
    let stored = db.store.read_notification("event").await.expect("it answers").expect("one won");
    for (sample, told) in samples.iter().zip(&told) {
        let won = sample.notification_id == stored.notification_id;
        let lawful = match told {
            Ok(Accepted::Fresh | Accepted::Converged) => won,
            Ok(Accepted::Collision) => !won,
            Err(_) => false,
        };
        assert!(lawful, "{told:?} where the winner {}", if won { "is this" } else { "is another" });
    }
    assert_eq!(told.iter().filter(|one| **one == Ok(Accepted::Fresh)).count(), 1);
    assert_eq!(db.store.inbox_health().await.expect("it answers").received, 1);
}

#[tokio::test]
async fn whoever_waits_for_a_sender_that_rolls_back_stores_it_himself() {
    let db = inbox().await;
    let sample = Sample::new("event", "site", "1");
    let mut other = connect(&db.url).await;
    let transaction = other.transaction().await.expect("it begins");
    let Sample { notification_id, event_id, site_id, terminal_status, payload_sha256, payload } = &sample;
    let insert = "insert into cms_terminal_notification_inbox values ($1, $2, $3, $4, $5, $6, 1)";
    let row: [&(dyn ToSql + Sync); 6] = [notification_id, event_id, site_id, terminal_status, payload_sha256, payload];
    transaction.execute(insert, &row).await.expect("it takes the row");
    let waiting = "select (count(*) > 0)::text from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    let (accepted, ()) = tokio::join!(sample.accept(&db), async {
        while db.text(waiting, &[]).await == "false" {
            tokio::task::yield_now().await;
        }
        transaction.rollback().await.expect("it ends");
    });
    assert_eq!(accepted, Accepted::Fresh);
    assert_eq!(sample.accept(&db).await, Accepted::Converged);
}

/// `claim_notification` of one worker, parsed.
async fn claim(client: &tokio_postgres::Client, worker: &str, lease: f64) -> Option<Value> {
    let sql = "select outboxd.claim_notification($1, $2)::text";
    let row = client.query_one(sql, &[&worker, &lease]).await.expect("claiming never fails");
    row.get::<_, Option<String>>(0).map(|text| serde_json::from_str(&text).expect("jsonb is JSON"))
}

fn answer(claim: &Value) -> String {
    let field = |name: &str| claim[name].as_str().expect("text").to_owned();
    serde_json::json!({
        "schema": "blun.cms-terminal-notification-processing-ack.v1",
        "notification_id": field("notification_id"),
        "event_id": field("event_id"),
        "site_id": field("site_id"),
        "status": "processed",
        "notification_sha256": field("payload_sha256"),
    })
    .to_string()
}

/// The contract's code where it is refused.
async fn complete(client: &tokio_postgres::Client, claim: &Value) -> Result<(), String> {
    let sql = "select outboxd.complete_notification($1::text::jsonb, $2::text::jsonb)::text";
    match client.query_one(sql, &[&claim.to_string(), &answer(claim)]).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.as_db_error().expect("the server answers").message().to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_at_once_take_every_notification_once_and_wait_for_nobody() {
    let (_turn, db) = (WIDE.lock().await, inbox().await);
    let ending = Arc::new(connect(&db.url).await);
    let samples: Vec<Sample> = (0..200).map(|n| Sample::new(&format!("event-{n}"), "site", "1")).collect();
    send_all(&db.store, &samples).await;
    // Somebody holds the oldest row's lock; no worker may wait for him.
    let mut holder = connect(&db.url).await;
    let transaction = holder.transaction().await.expect("it begins");
    let lock = "select notification_id from cms_terminal_notification_processing order by created_at, notification_id limit 1 for update";
    let locked: String = transaction.query_one(lock, &[]).await.expect("a row").get(0);
    let workers = (0..SENDERS).map(|n| {
        let (url, ending) = (db.url.clone(), ending.clone());
        tokio::spawn(async move {
            let client = connect(&url).await;
            // Far beyond what growing a table takes, for which there is a lock too; the holder never lets go.
            client.batch_execute("set lock_timeout = '5s'").await.expect("it is set");
            let mut taken = Vec::new();
            while let Some(claim) = claim(&client, &format!("worker-{n}"), 600.0).await {
                complete(&ending, &claim).await.expect("its lease is live");
                taken.push(claim["notification_id"].as_str().expect("text").to_owned());
            }
            taken
        })
    });
    let taken: Vec<String> =
        join_all(workers).await.into_iter().flat_map(|one| one.expect("no worker fails")).collect();
    let distinct: BTreeSet<&String> = taken.iter().collect();
    assert_eq!((taken.len(), distinct.len()), (199, 199));
    assert!(!distinct.contains(&locked));
    transaction.rollback().await.expect("it ends");
    assert_eq!(db.store.inbox_health().await.expect("it answers").counts, [1, 0, 0, 199, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dead_holders_row_has_one_successor_and_the_dead_ones_claim_is_refused() {
    let db = inbox().await;
    Sample::new("event", "site", "1").accept(&db).await;
    let dead = {
        let holder = connect(&db.url).await;
        claim(&holder, "dead", 0.05).await.expect("it is due")
    };
    let clients = join_all((0..16).map(|_| connect(&db.url))).await;
    let mut successors = Vec::new();
    while successors.is_empty() {
        let claims = join_all(clients.iter().map(|client| claim(client, "successor", 600.0))).await;
        successors = claims.into_iter().flatten().collect();
    }
    let [successor] = successors.as_slice() else { panic!("{} successors", successors.len()) };
    assert_eq!((&dead["attempt"], &successor["attempt"]), (&Value::from(1), &Value::from(2)));
    let lost = Err("notification_receiver.processing_claim_lost".to_owned());
    assert_eq!(complete(&db.client, &dead).await, lost);
    assert_eq!(complete(&db.client, successor).await, Ok(()));
    assert_eq!(complete(&db.client, successor).await, lost);
}

#[tokio::test]
async fn effect_and_completion_commit_together_though_the_lease_ends_between_them() {
    let db = inbox().await;
    Sample::new("event", "site", "1").accept(&db).await;
    let mut host = connect(&db.url).await;
    let held = claim(&host, "host", 0.5).await.expect("it is due");
    let transaction = host.transaction().await.expect("it begins");
    transaction
        .batch_execute("create table effects (id text); insert into effects values ('done')")
        .await
        .expect("an effect");
    let sql = "select outboxd.complete_notification($1::text::jsonb, $2::text::jsonb)";
    transaction.query_one(sql, &[&held.to_string(), &answer(&held)]).await.expect("its lease is live");
    let ended = "select (outboxd.inbox_clock() > lease_expires_at)::text from cms_terminal_notification_processing";
    while db.text(ended, &[]).await != "true" {
        tokio::task::yield_now().await;
    }
    assert_eq!(claim(&db.client, "other", 600.0).await, None, "its row is locked until it commits");
    transaction.commit().await.expect("it commits");
    let status = db.store.read_notification("event").await.expect("it answers").expect("it is there");
    assert_eq!(status.processing_status, "succeeded");
}

#[tokio::test]
async fn damaged_rows_are_named_and_passed_over_and_stop_neither_the_others_nor_intake() {
    let db = inbox().await;
    for event in ["waiting", "payload", "leased", "halved", "sound"] {
        Sample::new(event, "site", "1").accept(&db).await;
    }
    let of = |event: &str| {
        format!(
            "notification_id = (select notification_id from cms_terminal_notification_inbox where event_id = '{event}')"
        )
    };
    db.run(UNGUARD).await;
    db.run(&format!(
        "update cms_terminal_notification_processing set last_error_code = 'forged' where {};\
         update cms_terminal_notification_inbox set payload_json = replace(payload_json, '42', '43') where event_id = 'payload';\
         update cms_terminal_notification_processing set status = 'leased', lease_owner = 'w', lease_token = 't', \
         lease_expires_at = 1 where {};\
         delete from cms_terminal_notification_processing where {};",
        of("waiting"),
        of("leased"),
        of("halved")
    ))
    .await;
    for event in ["waiting", "payload", "leased", "halved"] {
        let replayed = db.store.accept_notification(&Sample::new(event, "site", "1").new_notification()).await;
        assert!(matches!(replayed, Err(StoreError { kind: Kind::Damaged(_), .. })), "{event}: {replayed:?}");
        let read = db.store.read_notification(event).await;
        assert!(matches!(read, Err(StoreError { kind: Kind::Damaged(_), .. })), "{event}: {read:?}");
    }
    assert_eq!(Sample::new("late", "site", "1").accept(&db).await, Accepted::Fresh);
    let mut taken = Vec::new();
    while let Some(claim) = claim(&db.client, "worker", 600.0).await {
        complete(&db.client, &claim).await.expect("its lease is live");
        taken.push(claim["event_id"].as_str().expect("text").to_owned());
    }
    assert_eq!(taken, ["sound", "late"]);
    assert_eq!(db.store.inbox_health().await.expect("it answers").bad_rows, 3, "claims met three of them");

    // Two rows at a time, so that the sweep takes several stretches.
    let sweep = async || {
        let (mut next, mut rows, mut damaged, mut released) = (Some(String::new()), 0, 0, 0);
        while let Some(after) = next {
            let swept = db.store.sweep_notifications(&after, 2).await.expect("it sweeps");
            (rows, damaged, released) = (rows + swept.rows, damaged + swept.damaged, released + swept.released);
            next = swept.next;
        }
        (rows, damaged, released)
    };
    assert_eq!(sweep().await, (6, 4, 0));
    let named = "select string_agg(event_id || ' ' || quarantined_for, ', ' order by event_id) from outboxd.notifications where quarantined_for is not null";
    let state = "processing_state_invalid";
    let expected = format!("halved {state}, leased {state}, payload stored_binding_invalid, waiting {state}");
    assert_eq!(db.text(named, &[]).await, expected);
    assert_eq!(db.store.inbox_health().await.expect("it answers").bad_rows, 4);

    db.run("update cms_terminal_notification_processing set last_error_code = null where last_error_code = 'forged'")
        .await;
    assert_eq!(sweep().await, (6, 3, 1));
    assert_eq!(claim(&db.client, "worker", 600.0).await.expect("it is let go")["event_id"], "waiting");
}

#[tokio::test]
async fn constraints_refuse_what_is_not_bound_or_not_lawful() {
    let db = inbox().await;
    let insert = "insert into cms_terminal_notification_inbox values ($1, $2, $3, $4, $5, $6, 1)";
    let sample = Sample::new("event", "site", "1");
    let refused = async |change: &dyn Fn(&mut Sample)| {
        let mut changed = Sample { ..Sample::new("event", "site", "1") };
        change(&mut changed);
        let Sample { notification_id, event_id, site_id, terminal_status, payload_sha256, payload } = &changed;
        let row: [&(dyn ToSql + Sync); 6] =
            [notification_id, event_id, site_id, terminal_status, payload_sha256, payload];
        let error = db.client.execute(insert, &row).await.expect_err("a constraint refuses it");
        assert_eq!(error.code(), Some(&SqlState::CHECK_VIOLATION));
    };
    // Bound afresh after each, so that only the change itself is wrong.
    let rebind = |sample: &mut Sample, from: &str, to: &str| {
        let without = format!(r#""notification_id":"{}","#, sample.notification_id);
        let source = sample.payload.replace(&without, "").replacen(from, to, 1);
        sample.notification_id = format!("terminal-{}", hex(&source));
        let with = format!(r#""notification_id":"{}","plan_id""#, sample.notification_id);
        sample.payload = source.replacen(r#""plan_id""#, &with, 1);
        sample.payload_sha256 = hex(&sample.payload);
    };
    refused(&|s| s.event_id = "other".into()).await;
    refused(&|s| s.site_id = "other".into()).await;
    refused(&|s| s.terminal_status = "deleted".into()).await;
    refused(&|s| s.payload_sha256 = "0".repeat(64)).await;
    refused(&|s| s.notification_id = format!("terminal-{}", "0".repeat(64))).await;
    refused(&|s| s.payload.push(' ')).await;
    for (from, to) in [
        (r#""job_count":23"#, r#""job_count":0"#),
        (r#""job_count":23"#, r#""job_count":23.0"#),
        (r#""source_sequence":42"#, r#""source_sequence":-1"#),
        (r#""plan_id":"plan-event""#, r#""plan_id":"""#),
        (r#""plan_id":"plan-event""#, r#""plan_id":"plan\\u0041""#),
        (r#""website_version":"1""#, r#""website_version":"é""#),
        (r#""lifecycle_sha256":"cc"#, r#""lifecycle_sha256":"Cc"#),
        ("notification.v1", "notification.v2"),
        (r#"{"change"#, r#"{"added":1,"change"#),
    ] {
        refused(&|s| rebind(s, from, to)).await;
    }
    let longest = "7".repeat(4300);
    refused(&|s| rebind(s, ":23,", &format!(":{longest}7,"))).await;
    refused(&|s| rebind(s, r#":"1""#, &format!(r#":"{}""#, "v".repeat(257)))).await;
    let mut largest = Sample::new("large", "site", &"v".repeat(256));
    rebind(&mut largest, ":23,", &format!(":{longest},"));
    assert_eq!(largest.accept(&db).await, Accepted::Fresh);
    assert_eq!(sample.accept(&db).await, Accepted::Fresh);
}

#[tokio::test]
async fn each_role_can_do_its_part_and_no_other() {
    let db = inbox().await;
    let as_role = |role: &str| {
        let config = StoreConfig { pool_size: 1, ..config(&db.url) };
        let store = Store::open(&config, silent()).expect("a good configuration");
        let set = format!("set role {role}");
        async move {
            let client = store.door.pool.get().await.expect("a connection is free");
            client.batch_execute(&set).await.expect("grants.sql made the role");
            drop(client);
            store
        }
    };
    let daemon = as_role("outboxd_daemon").await;
    let sample = Sample::new("event", "site", "1");
    for expected in [Accepted::Fresh, Accepted::Converged] {
        assert_eq!(daemon.accept_notification(&sample.new_notification()).await, Ok(expected));
    }
    assert!(daemon.read_notification("event").await.expect("it may read").is_some());
    assert_eq!(daemon.sweep_notifications("", 10).await.expect("it may sweep").rows, 1);
    assert_eq!(daemon.inbox_health().await.expect("it may count").received, 1);
    let host = as_role("outboxd_host").await;
    let refused = host.accept_notification(&sample.new_notification()).await.expect_err("hosts store nothing");
    assert_eq!(refused.kind, Kind::Permission);
    let client = host.door.pool.get().await.expect("a connection is free");
    let claimed = claim(&client, "host", 600.0).await.expect("it is due");
    complete(&client, &claimed).await.expect("it holds the lease");
    for (role, sql) in [
        ("outboxd_host", "select payload_json from cms_terminal_notification_inbox"),
        ("outboxd_host", "select outboxd._sweep_leases(0)"),
        // It claims what it forwards, but ends no task.
        ("outboxd_daemon", "select outboxd.complete_task('t', '{}')"),
        ("outboxd_daemon", "update cms_terminal_notification_inbox set site_id = 'x'"),
        ("outboxd_reader", "select payload_json from cms_terminal_notifications"),
        ("outboxd_reader", "select outboxd.claim_notification('w')"),
    ] {
        let error = db.client.batch_execute(&format!("set role {role}; {sql}")).await.expect_err(sql);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{role}: {sql}");
        db.run("reset role; set role outboxd_reader; select * from outboxd.notifications; reset role").await;
    }
}
