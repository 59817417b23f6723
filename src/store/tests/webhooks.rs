//! The webhook inbox: one binding for each key and each task, races decided by the database, leases fenced.

use futures_util::future::join_all;

use super::webhook_inbox::InboxSample;
use super::*;

const CAPS: NonceCaps = NonceCaps { per_key: 1_000, total: 2_000 };
const KEY: &str = "whk_0123456789abcdef";

fn delivery(key: &'static str, payload: u8, observation: Option<(u8, u8)>) -> Delivery<'static> {
    Delivery {
        sender: "seller",
        idempotency_key: key,
        payload_sha256: [payload; 32],
        observation: observation.map(|(task, end)| ([task; 32], [end; 32])),
        body: b"{\"a\":1}",
        max_attempts: 3,
    }
}

fn signed(nonce: &str) -> Option<SeenSignature<'_>> {
    Some(SeenSignature { keyid: "k", nonce, kept_until: 4_000_000_000 })
}

async fn database() -> Database {
    let db = Database::new(Schema::Ours).await;
    db.store.migrate(std::time::Duration::from_secs(60), |_| {}).await.expect("the migrations apply");
    db
}

async fn accept(db: &Database, delivery: Delivery<'_>) -> Kept {
    db.store.accept_webhook(None, CAPS, false, Some(delivery)).await.expect("the database answers")
}

async fn claim(db: &Database, worker: &str, most: u16) -> Vec<Message> {
    db.store.claim_messages(Inbox::Webhooks, worker, most, Duration::from_secs(60)).await.expect("the database answers")
}

/// What a host says when it is done.
fn completing(message: &Message) -> String {
    match &message.claim {
        Claim::Webhook { id, token } => format!("select outboxd.complete_webhook({id}, '{token}')"),
        Claim::Notification(_) => unreachable!("webhooks were claimed"),
    }
}

async fn states(db: &Database) -> String {
    db.text("select string_agg(state, ' ' order by id) from adcp_webhook_inbox", &[]).await
}

async fn sqlstate(db: &Database, sql: &str) -> String {
    let error = db.client.batch_execute(sql).await.expect_err(sql);
    // The error comes before the server has let go of its locks; the next answer comes after.
    let _ = db.client.simple_query("").await;
    let error = error.as_db_error().expect("the server refused it");
    format!("{} {}", error.code().code(), error.message())
}

#[tokio::test]
async fn a_key_is_bound_to_its_first_payload() {
    let db = database().await;
    assert_eq!(accept(&db, delivery(KEY, 1, None)).await, Kept::Stored);
    assert_eq!(accept(&db, delivery(KEY, 1, None)).await, Kept::Duplicate);
    assert_eq!(accept(&db, delivery(KEY, 2, None)).await, Kept::Conflict);
    let other = Delivery { sender: "another", ..delivery(KEY, 2, None) };
    assert_eq!(accept(&db, other).await, Kept::Stored, "a key is its sender's own");
    assert_eq!(states(&db).await, "pending pending");
}

#[tokio::test]
async fn a_task_ends_once_whatever_the_key() {
    let db = database().await;
    let (second, third) = ("whk_second_0123456789", "whk_third_0123456789");
    assert_eq!(accept(&db, delivery(KEY, 1, Some((7, 1)))).await, Kept::Stored);
    assert_eq!(accept(&db, delivery(second, 2, Some((7, 1)))).await, Kept::Observed);
    assert_eq!(accept(&db, delivery(second, 2, Some((7, 1)))).await, Kept::Duplicate);
    assert_eq!(accept(&db, delivery(third, 3, Some((7, 2)))).await, Kept::Conflict);
    assert_eq!(accept(&db, delivery(third, 3, Some((8, 2)))).await, Kept::Stored, "a refused one binds nothing");
    assert_eq!(states(&db).await, "pending duplicate pending");
}

#[tokio::test]
async fn of_many_at_once_one_is_stored_and_all_equal_ones_are_acknowledged() {
    let db = database().await;
    let all = (0..64u8).map(|n| {
        let db = &db;
        async move {
            let nonce = format!("nonce-{n}");
            // Half of them carry the payload 1, the others one of their own under the same key.
            let payload = if n % 2 == 0 { 1 } else { n };
            let payload = if n == 1 { 99 } else { payload };
            (payload, db.store.accept_webhook(signed(&nonce), CAPS, false, Some(delivery(KEY, payload, None))).await)
        }
    });
    let outcomes = join_all(all).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(|(payload, outcome)| (payload, outcome.unwrap())).collect();
    let stored: Vec<u8> = outcomes.iter().filter(|(_, o)| *o == Kept::Stored).map(|(p, _)| *p).collect();
    assert_eq!(stored.len(), 1);
    for (payload, outcome) in outcomes.iter().filter(|(_, outcome)| *outcome != Kept::Stored) {
        let expected = if *payload == stored[0] { Kept::Duplicate } else { Kept::Conflict };
        assert_eq!(*outcome, expected);
    }
    assert_eq!(states(&db).await, "pending");
}

#[tokio::test]
async fn of_many_keys_for_one_task_one_speaks() {
    let db = database().await;
    let keys: Vec<&'static str> = (0..32).map(|n| &*format!("whk_key_number_{n:05}").leak()).collect();
    let all = keys.iter().map(|key| accept(&db, delivery(key, 1, Some((7, 1)))));
    let outcomes = join_all(all).await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Kept::Stored).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Kept::Observed).count(), 31);
}

#[tokio::test]
async fn what_another_session_has_not_committed_is_in_progress() {
    let db = database().await;
    db.run(&format!(
        "begin; insert into adcp_webhook_inbox (sender, idempotency_key, payload_sha256, body, max_attempts) \
         values ('seller', '{KEY}', decode(repeat('01', 32), 'hex'), 'x', 3)"
    ))
    .await;
    assert_eq!(accept(&db, delivery(KEY, 1, None)).await, Kept::InProgress);
    db.run("commit").await;
    assert_eq!(accept(&db, delivery(KEY, 1, None)).await, Kept::Duplicate);
}

#[tokio::test]
async fn a_signature_is_accepted_once_and_the_caps_are_kept() {
    let db = database().await;
    let caps = NonceCaps { per_key: 2, total: 3 };
    let ask = async |keyid: &str, nonce: &str| {
        let seen = SeenSignature { keyid, nonce, kept_until: 4_000_000_000 };
        db.store.accept_webhook(Some(seen), caps, true, None).await.unwrap()
    };
    assert_eq!(ask("a", "1").await, Kept::Unkeyed);
    assert_eq!(ask("a", "1").await, Kept::Replayed);
    assert_eq!(ask("a", "2").await, Kept::Unkeyed);
    assert_eq!(ask("a", "3").await, Kept::Crowded, "the key's share is full");
    assert_eq!(ask("a", "2").await, Kept::Replayed, "what is remembered is not forgotten for room");
    assert_eq!(ask("b", "1").await, Kept::Unkeyed, "a nonce is its key's own");
    assert_eq!(ask("b", "2").await, Kept::Crowded, "all share the total");
    let mut counts = db.store.sample_webhook_nonces().await.unwrap();
    counts.sort_by(|a, b| a.keyid.cmp(&b.keyid));
    let count = |keyid: &str, nonces| NonceCount { keyid: keyid.into(), nonces };
    assert_eq!(counts, [count("a", 2), count("b", 1)]);
    assert_eq!(db.store.purge_webhook_nonces(Duration::ZERO, 100).await.unwrap(), 0);
    db.run("update adcp_webhook_inbox_nonces set expires_at = now() - interval '1 minute' where keyid = 'a'").await;
    assert_eq!(db.store.purge_webhook_nonces(Duration::from_secs(300), 100).await.unwrap(), 0);
    assert_eq!(db.store.purge_webhook_nonces(Duration::ZERO, 1).await.unwrap(), 1);
    assert_eq!(ask("a", "4").await, Kept::Unkeyed);
}

#[tokio::test]
async fn an_effect_and_its_acknowledgement_are_one_transaction() {
    let db = database().await;
    accept(&db, delivery(KEY, 1, None)).await;
    db.run("create table effects (id bigint)").await;
    let claim = "select id::text || ' ' || lease_token from outboxd.claim_webhooks('host-1')";
    let claimed = db.text(claim, &[]).await;
    let (id, token) = claimed.split_once(' ').unwrap();
    db.run(&format!(
        "begin; insert into effects values ({id}); select outboxd.complete_webhook({id}, '{token}'); rollback"
    ))
    .await;
    assert_eq!(
        db.text("select count(*)::text || (select state from adcp_webhook_inbox) from effects", &[]).await,
        "0leased"
    );
    db.run(&format!(
        "begin; insert into effects values ({id}); select outboxd.complete_webhook({id}, '{token}'); commit"
    ))
    .await;
    let again = format!("begin; insert into effects values ({id}); select outboxd.complete_webhook({id}, '{token}')");
    assert_eq!(sqlstate(&db, &again).await, "55000 processing_claim_lost");
    db.run("rollback").await;
    assert_eq!(
        db.text("select count(*)::text || (select state from adcp_webhook_inbox) from effects", &[]).await,
        "1succeeded"
    );
    assert_eq!(accept(&db, delivery(KEY, 1, None)).await, Kept::Duplicate, "a handled one stays bound");
}

#[tokio::test]
async fn a_lapsed_lease_is_swept_and_its_old_holder_refused() {
    let db = database().await;
    accept(&db, delivery(KEY, 1, None)).await;
    let first = claim(&db, "one", 10).await;
    assert_eq!(first.len(), 1);
    assert!(claim(&db, "two", 10).await.is_empty());
    db.run("update adcp_webhook_inbox set lease_expires_at = now() - interval '1 second'").await;
    let late = completing(&first[0]);
    assert_eq!(sqlstate(&db, &late).await, "55000 processing_lease_expired");
    let second = claim(&db, "two", 10).await;
    assert_eq!((second.len(), second[0].attempt), (1, 2));
    assert_eq!(sqlstate(&db, &late).await, "55000 processing_claim_lost");
    db.store.end_message(&second[0].claim, Ending::Complete).await.unwrap();
    assert_eq!(states(&db).await, "succeeded");
}

#[tokio::test]
async fn a_holder_in_the_middle_of_completing_is_not_swept() {
    let db = database().await;
    accept(&db, delivery(KEY, 1, None)).await;
    let held = claim(&db, "one", 1).await;
    db.run(&format!("begin; {}", completing(&held[0]))).await;
    let other = connect(&db.url).await;
    // The row's committed version is still the leased one; its lease ends while the transaction is open.
    let claim = "select count(*) from outboxd.claim_webhooks('two')";
    assert_eq!(other.query_one(claim, &[]).await.unwrap().get::<_, i64>(0), 0);
    db.run("commit").await;
    assert_eq!(states(&db).await, "succeeded");
}

#[tokio::test]
async fn retries_follow_the_ladder_to_failed_and_can_be_requeued() {
    let db = database().await;
    accept(&db, delivery(KEY, 1, None)).await;
    for (attempt, expected) in [(1, "retry_wait 5"), (2, "retry_wait 10"), (3, "failed 0")] {
        db.run("update adcp_webhook_inbox set available_at = now() - interval '1 second'").await;
        let held = claim(&db, "one", 1).await;
        assert_eq!(held[0].attempt, attempt);
        let delays = (Duration::from_secs(5), Duration::from_secs(300));
        db.store.end_message(&held[0].claim, Ending::Retry("busy", delays)).await.unwrap();
        let shown = "select state || ' ' || round(extract(epoch from available_at - updated_at))::text \
                     from adcp_webhook_inbox";
        assert_eq!(db.text(shown, &[]).await, expected);
    }
    assert_eq!(db.store.sample_webhook_inbox(10).await.unwrap(), InboxSample { due: 0, lapsed: 0, failed: 1 });
    let id = db.text("select id::text from adcp_webhook_inbox", &[]).await;
    assert_eq!(db.text(&format!("select outboxd.requeue_webhook({id})::text"), &[]).await, "true");
    assert_eq!(db.text(&format!("select outboxd.requeue_webhook({id})::text"), &[]).await, "false");
    let held = claim(&db, "one", 1).await;
    db.store.end_message(&held[0].claim, Ending::Fail("refused")).await.unwrap();
    assert_eq!(states(&db).await, "failed");
}

#[tokio::test]
async fn the_functions_refuse_senseless_arguments() {
    let db = database().await;
    for (sql, code) in [
        ("select outboxd.claim_webhooks('')", "processing_worker_invalid"),
        ("select outboxd.claim_webhooks('a b')", "processing_worker_invalid"),
        ("select outboxd.claim_webhooks('a', 1, interval '0')", "processing_lease_invalid"),
        ("select outboxd.claim_webhooks('a', 1, interval '2 days')", "processing_lease_invalid"),
        ("select outboxd.retry_webhook(1, 't', 'Bad')", "processing_error_invalid"),
        ("select outboxd.retry_webhook(1, 't', 'bad', interval '0')", "processing_delay_invalid"),
        ("select outboxd.fail_webhook(1, 't', null)", "processing_error_invalid"),
    ] {
        assert_eq!(sqlstate(&db, sql).await, format!("22023 {code}"), "{sql}");
    }
    assert_eq!(sqlstate(&db, "select outboxd.fail_webhook(1, 't', 'bad')").await, "55000 processing_claim_lost");
}

#[tokio::test]
async fn only_what_is_settled_and_old_is_purged() {
    let db = database().await;
    accept(&db, delivery(KEY, 1, None)).await;
    accept(&db, delivery("whk_another_0123456789", 1, None)).await;
    let held = claim(&db, "one", 1).await;
    db.store.end_message(&held[0].claim, Ending::Complete).await.unwrap();
    db.run("update adcp_webhook_inbox set received_at = now() - interval '30 days'").await;
    let day = Duration::from_secs(86_400);
    assert_eq!(db.store.purge_settled_webhooks(day, 10).await.unwrap(), 0, "retention counts from the end");
    db.run("update adcp_webhook_inbox set settled_at = now() - interval '25 hours' where settled_at is not null").await;
    assert_eq!(db.store.purge_settled_webhooks(day, 10).await.unwrap(), 1);
    assert_eq!(states(&db).await, "pending");
}

#[tokio::test]
async fn a_host_role_runs_the_functions_and_reaches_no_table() {
    let db = database().await;
    accept(&db, delivery(KEY, 1, None)).await;
    db.run("set role outboxd_host").await;
    assert_eq!(db.text("select count(*)::text from outboxd.claim_webhooks('host')", &[]).await, "1");
    assert!(sqlstate(&db, "select * from adcp_webhook_inbox").await.starts_with("42501"));
    assert!(sqlstate(&db, "select outboxd._hold_webhook(1, 'x')").await.starts_with("42501"));
    db.run("reset role; set role outboxd_daemon").await;
    let accept = "select outboxd._accept_webhook(null, null, null, false, 1, 1, 'seller', 'whk_of_the_daemon_1', \
                  decode(repeat('01', 32), 'hex'), null, null, 'x', 3)";
    assert_eq!(db.text(accept, &[]).await, "stored");
}
