//! What a claim takes, what it leaves, and what it grants.

use std::collections::HashSet;

use super::*;

const A: &str = "https://a.example/hook";
const B: &str = "https://b.example/hook";

fn taken(batch: &[Claimed]) -> Vec<i64> {
    batch.iter().map(|claimed| claimed.lease().id).collect()
}

#[tokio::test]
async fn a_claim_grants_a_lease_counts_the_attempt_and_starts_the_horizon() {
    let db = Database::new(Schema::Ours).await;
    let inserted = db.insert(&["https://A.example:8443/hook?x", "https://b.example?x", "https://c.example#x"]).await;
    let batch = db.store.claim_due(&request(7)).await.expect("the claim works").rows;
    assert_eq!(taken(&batch), inserted);
    let mut destinations = Vec::new();
    for claimed in batch {
        let Claimed::Whole { lease, row, facts } = claimed else { panic!("the row is whole") };
        assert_eq!((row.attempt_count, row.encrypted_body.len()), (1, 100));
        assert!(inserted.contains(&lease.id));
        assert_eq!(row.envelope_nonce, b"twelve bytes");
        assert_eq!((row.task_type.as_str(), row.signing_scope_id), ("create_media_buy", None));
        assert!(facts.due_for < Duration::from_secs(600) && facts.due_for > Duration::from_millis(500));
        assert_eq!(facts.since_first_attempt, Duration::ZERO);
        assert_eq!(facts.until_retry_until, Duration::from_secs(86_400));
        destinations.push(facts.destination);
    }
    assert_eq!(destinations, ["a.example:8443", "b.example", "c.example"]);
    assert_eq!(db.show(inserted[0]).await, "in_flight 1 07070707070707070707070707070707 leased begun - -");
    let sql = format!(
        "select (available_at = lease_expires_at and retry_until = first_attempt_at + interval '86400 seconds' \
         and updated_at = first_attempt_at and lease_expires_at = updated_at + interval '60 seconds')::text \
         from {TABLE} where id = $1"
    );
    assert_eq!(db.text(&sql, &[&inserted[0]]).await, "true");
}

#[tokio::test]
async fn rows_that_are_not_due_are_left() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    db.run(&format!("update {TABLE} set available_at = now() + interval '1 hour' where id = {}", rows[0])).await;
    db.outlive(&rows[1..2]).await;
    assert_eq!(db.claim(1).await.iter().map(|lease| lease.id).collect::<Vec<_>>(), rows[2..]);
    assert!(db.claim(2).await.is_empty(), "a live lease is left");
}

#[tokio::test]
async fn lapsed_lease_is_claimed_again() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 3]).await;
    db.claim(1).await;
    let horizon = format!("select retry_until::text from {TABLE} where id = $1");
    let before = db.text(&horizon, &[&rows[0]]).await;
    db.lapse(&rows[..1]).await;
    // As the SDK leaves a lapsed row, and as a host may have inserted one.
    db.run(&format!(
        "update {TABLE} set available_at = now() - interval '1 hour', \
         lease_expires_at = case when id = {} then now() - interval '1 second' end where id in ({}, {})",
        rows[1], rows[1], rows[2]
    ))
    .await;
    let mut again: Vec<i64> = db.claim(2).await.iter().map(|lease| lease.id).collect();
    again.sort_unstable();
    assert_eq!(again, rows);
    assert_eq!(db.show(rows[0]).await, "in_flight 2 02020202020202020202020202020202 leased begun - -");
    assert_eq!(db.text(&horizon, &[&rows[0]]).await, before, "the horizon never moves");
}

#[tokio::test]
async fn f6_grants_use_the_clock_not_the_transaction_start() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A]).await;
    let statements = Statements::render(&table());
    db.run("begin").await;
    while db.text("select (clock_timestamp() - now() > interval '100 ms')::text", &[]).await != "true" {}
    let none: [&str; 0] = [];
    let rooms: [i32; 0] = [];
    let (names, rooms, others) = (none.as_slice(), rooms.as_slice(), None::<i32>);
    let parameters: [Parameter<'_>; 10] =
        [&10_i64, &1000_i64, &"t", &60_f64, &names, &rooms, &10, &names, &rooms, &others];
    db.client.query(&statements.claim_due.sql, &parameters).await.expect("it claims inside a transaction too");
    let sql = format!(
        "select (lease_expires_at - now() > interval '60.1 seconds' and first_attempt_at - now() > interval '0.1 s')\
         ::text from {TABLE} where id = $1"
    );
    assert_eq!(db.text(&sql, &[&rows[0]]).await, "true");
}

#[tokio::test]
async fn a_full_destination_is_passed_over_and_others_get_their_room() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A, A, A, A, B, B, B, "https://full.example/", "https://roomy.example/"]).await;
    let mut request = request(1);
    request.default_room = 2;
    request.rooms = vec![room("full.example", 0), room("a.example", 3)];
    let batch = db.store.claim_due(&request).await.expect("the claim works").rows;
    assert_eq!(taken(&batch), [rows[0], rows[1], rows[2], rows[4], rows[5], rows[8]]);
    assert_eq!(db.show(rows[3]).await, "pending 0 - free fresh - -", "a row without room is not touched");
}

#[tokio::test]
async fn the_byte_budget_is_kept_and_one_row_is_always_granted() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    let mut first = request(1);
    first.max_bytes = 250;
    assert_eq!(taken(&db.store.claim_due(&first).await.expect("the claim works").rows), rows[..2]);
    let mut second = request(2);
    second.max_bytes = 1;
    let batch = db.store.claim_due(&second).await.expect("the claim works").rows;
    assert_eq!(taken(&batch), [rows[2]]);
}

#[tokio::test]
async fn a_row_limit_takes_the_oldest() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 5]).await;
    let mut request = request(1);
    request.max_rows = 2;
    let batch = db.store.claim_due(&request).await.expect("the claim works").rows;
    assert_eq!(taken(&batch), rows[..2]);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_broken_and_fails_no_other() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 3]).await;
    db.run(&format!(
        "alter table {TABLE} alter column url drop not null; \
         update {TABLE} set url = null where id = {}; \
         update {TABLE} set encrypted_body = convert_to(repeat('x', 16777217), 'UTF8') where id = {}",
        rows[0], rows[1]
    ))
    .await;
    let batch = db.store.claim_due(&request(1)).await.expect("the claim works").rows;
    let reasons: Vec<Option<Broken>> = batch
        .iter()
        .map(|claimed| match claimed {
            Claimed::Broken { reason, .. } => Some(*reason),
            Claimed::Whole { .. } => None,
        })
        .collect();
    let oversize = Broken::Oversize { bytes: 16_777_217 };
    assert_eq!(taken(&batch), rows);
    assert_eq!(reasons, [Some(Broken::Column { name: "url" }), Some(oversize), None]);
}

#[tokio::test]
async fn a_column_of_another_type_breaks_its_rows_and_not_the_claim() {
    let db = Database::new(Schema::Ours).await;
    db.insert(&[A]).await;
    db.run(&format!("alter table {TABLE} alter column task_type type integer using 1")).await;
    let batch = db.store.claim_due(&request(1)).await.expect("the claim works").rows;
    assert!(matches!(batch[0], Claimed::Broken { reason: Broken::Column { name: "task_type" }, .. }));
}

#[tokio::test]
async fn a_claim_does_not_wait_for_rows_that_another_holds() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 3]).await;
    db.run(&format!("begin; select from {TABLE} where id = {} for update", rows[0])).await;
    assert_eq!(db.claim(1).await.iter().map(|lease| lease.id).collect::<Vec<_>>(), rows[1..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p4_claimers_at_the_same_time_never_get_one_row_twice() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 400]).await;
    let store = Arc::new(Store::open(&StoreConfig { pool_size: 8, ..config(&db.url) }, silent()).expect("it opens"));
    let claimers: Vec<_> = (0..8_u8)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                // Another claimer may hold all that one claim sees, so an empty answer is not yet the end.
                let mut empty = 0;
                while empty < 3 {
                    let request = ClaimRequest { max_rows: 7, ..request(number) };
                    let batch = store.claim_due(&request).await.expect("the claim works").rows;
                    empty = if batch.is_empty() { empty + 1 } else { 0 };
                    mine.extend(taken(&batch));
                }
                mine
            })
        })
        .collect();
    let mut all = Vec::new();
    for claimer in claimers {
        all.extend(claimer.await.expect("no claimer panics"));
    }
    assert_eq!(all.len(), rows.len());
    assert_eq!(all.iter().copied().collect::<HashSet<_>>().len(), rows.len());
}
