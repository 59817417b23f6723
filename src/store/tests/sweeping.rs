//! Expiring, purging and sampling: off the way of claims, and never under a live lease.

use super::*;

const A: &str = "https://a.example/hook";

#[tokio::test]
async fn f5_expire_never_touches_a_live_lease() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    let leases = db.claim(1).await;
    db.lapse(&rows[1..2]).await;
    db.run(&format!("update {TABLE} set state = 'pending' where id = {}", rows[2])).await;
    db.outlive(&rows[..3]).await;
    let expired = db.store.expire_overdue(100, None).await.expect("it answers");
    assert_eq!(expired.rows, 2, "a lapsed row and a pending one");
    assert_eq!(db.show(rows[2]).await, "expired 1 - free begun - -");
    assert_eq!(db.show(rows[1]).await, "expired 1 - free begun - -");
    // The holder of the live lease can still record its 2xx.
    let delivered = [Delivered { lease: leases[0].clone(), http_status: 200 }];
    assert_eq!(ids(&db.store.settle_delivered(&delivered, None).await.expect("it answers")), rows[..1]);
}

#[tokio::test]
async fn expire_keeps_to_its_limit_and_does_not_wait() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    db.outlive(&rows).await;
    db.run(&format!("begin; select from {TABLE} where id = {} for update", rows[0])).await;
    assert_eq!(db.store.expire_overdue(2, None).await.expect("it answers").rows, 2);
    assert_eq!(db.store.expire_overdue(2, None).await.expect("it answers").rows, 1);
}

#[tokio::test]
async fn purge_deletes_finished_rows_past_their_horizon_and_nothing_else() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 7]).await;
    db.claim(1).await;
    let states = ["delivered", "expired", "invalid", "pending", "in_flight", "delivered", "delivered"];
    for (id, state) in rows.iter().zip(states) {
        db.run(&format!("update {TABLE} set state = '{state}' where id = {id}")).await;
    }
    db.outlive(&rows[..5]).await;
    db.outlive(&rows[6..]).await;
    let other = connect(&db.url).await;
    other.batch_execute(&format!("begin; select from {TABLE} where id = {} for update", rows[6])).await.expect("locks");
    assert_eq!(db.store.purge_settled(2, None, Duration::ZERO).await.expect("it answers").rows, 2);
    assert_eq!(db.store.purge_settled(10, None, Duration::ZERO).await.expect("it answers").rows, 1);
    let left = format!("select string_agg(id::text, ' ' order by id) from {TABLE}");
    assert_eq!(db.text(&left, &[]).await, format!("{} {} {} {}", rows[3], rows[4], rows[5], rows[6]));
}

#[tokio::test]
async fn what_was_not_delivered_is_kept_for_longer() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    db.claim(1).await;
    for (id, state) in rows.iter().zip(["delivered", "expired", "invalid", "expired"]) {
        db.run(&format!("update {TABLE} set state = '{state}' where id = {id}")).await;
    }
    // A day past their horizon; the last one three.
    db.outlive(&rows).await;
    db.run(&format!(
        "update {TABLE} set first_attempt_at = now() - interval '4 days', retry_until = now() - interval '3 days' where id = {}",
        rows[3]
    ))
    .await;
    let two_days = Duration::from_secs(2 * 86_400);
    assert_eq!(db.store.purge_settled(10, None, two_days).await.expect("it answers").rows, 2);
    let left = format!("select string_agg(id::text, ' ' order by id) from {TABLE}");
    assert_eq!(db.text(&left, &[]).await, format!("{} {}", rows[1], rows[2]));
}

#[tokio::test]
async fn the_backlog_counts_due_rows_up_to_its_bound() {
    let db = Database::new(Schema::Ours).await;
    let empty = db.store.sample_backlog(100, &[]).await.expect("it answers");
    assert_eq!(empty, Backlog { due: 0, oldest: Duration::ZERO, oldest_claimable: Duration::ZERO });
    let rows = db.insert(&[A; 6]).await;
    db.run(&format!("update {TABLE} set available_at = now() + interval '1 hour' where id = {}", rows[0])).await;
    db.run(&format!("update {TABLE} set available_at = now() - interval '1 hour' where id = {}", rows[1])).await;
    let all = db.store.sample_backlog(100, &[]).await.expect("it answers");
    assert_eq!(all.due, 5);
    assert!(all.oldest > Duration::from_secs(3599) && all.oldest < Duration::from_secs(4200), "{all:?}");
    assert!(all.oldest_claimable >= all.oldest - Duration::from_secs(1), "{all:?}");
    assert_eq!(db.store.sample_backlog(3, &[]).await.expect("it answers").due, 3);
    db.claim(1).await;
    assert_eq!(db.store.sample_backlog(100, &[]).await.expect("it answers").due, 0, "leased rows are not due");
}

/// Rows that wait for a destination to come back say nothing of whether the others are served.
#[tokio::test]
async fn rows_of_parked_destinations_are_left_out_of_the_claimable_age() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A, A, "https://B.example:443/x", "https://c.example/"]).await;
    for (row, minutes) in rows.iter().zip([50, 40, 30, 10]) {
        let at = format!("now() - interval '{minutes} minutes'");
        db.run(&format!("update {TABLE} set available_at = {at} where id = {row}")).await;
    }
    let minutes = async |limit: u32, parked: &[&str]| {
        let parked: Vec<String> = parked.iter().map(|name| name.to_string()).collect();
        let backlog = db.store.sample_backlog(limit, &parked).await.expect("it answers");
        [backlog.oldest, backlog.oldest_claimable].map(|age| age.as_secs() / 60)
    };
    assert_eq!(minutes(100, &[]).await, [50, 50]);
    assert_eq!(minutes(100, &["a.example"]).await, [50, 30]);
    assert_eq!(minutes(100, &["a.example", "b.example"]).await, [50, 10]);
    assert_eq!(minutes(100, &["a.example", "b.example", "c.example"]).await, [50, 0]);
    // The bound is reached before a row that could be claimed.
    assert_eq!(minutes(2, &["a.example"]).await, [50, 0], "rows cannot be found by destination yet");
    db.store.preflight().await.expect("it looks");
    assert_eq!(minutes(2, &["a.example"]).await, [50, 30]);
    assert_eq!(minutes(2, &["a.example", "b.example", "c.example"]).await, [50, 0]);
}
