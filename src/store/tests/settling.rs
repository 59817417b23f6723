//! The fence: a row is settled by the holder of its lease, while it is in flight, and by no one else.

use super::*;

const A: &str = "https://a.example/hook";

/// Asks all four statements to settle these leases, and returns what each answered.
async fn settle_every_way(store: &Store, leases: &[Lease]) -> [Vec<Settled>; 4] {
    let delivered: Vec<_> = leases.iter().map(|lease| Delivered { lease: lease.clone(), http_status: 200 }).collect();
    let retried: Vec<_> = leases
        .iter()
        .map(|lease| Retried { lease: lease.clone(), delay: Duration::ZERO, http_status: None, error: "x".into() })
        .collect();
    let quarantined: Vec<_> =
        leases.iter().map(|lease| Quarantined { lease: lease.clone(), http_status: None, error: "x".into() }).collect();
    let back: Vec<_> = leases.iter().map(|lease| GivenBack { lease: lease.clone(), delay: Duration::ZERO }).collect();
    [
        store.settle_delivered(&delivered, None).await.expect("it answers"),
        store.settle_retried(&retried, None).await.expect("it answers"),
        store.settle_quarantined(&quarantined, None).await.expect("it answers"),
        store.give_back(&back).await.expect("it answers"),
    ]
}

#[tokio::test]
async fn each_verdict_writes_its_columns() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    let leases = db.claim(1).await;
    let [a, b, c, d] = leases.as_slice() else { panic!("four rows were claimed") };
    let delivered = [Delivered { lease: a.clone(), http_status: 204 }];
    let retried = [
        Retried {
            lease: b.clone(),
            delay: Duration::from_secs(90),
            http_status: Some(503),
            error: "http_server_error".into(),
        },
        Retried {
            lease: c.clone(),
            delay: Duration::from_millis(1500),
            http_status: None,
            error: "dns_timeout".into(),
        },
    ];
    let quarantined = [Quarantined { lease: d.clone(), http_status: Some(410), error: "http_gone".into() }];
    let answers = [
        db.store.settle_delivered(&delivered, None).await.expect("it answers"),
        db.store.settle_retried(&retried, None).await.expect("it answers"),
        db.store.settle_quarantined(&quarantined, None).await.expect("it answers"),
    ];
    assert_eq!(answers[0], [Settled { id: a.id, state: RowState::Delivered }]);
    assert_eq!(ids(&answers[1]), [b.id, c.id]);
    assert_eq!(answers[2], [Settled { id: d.id, state: RowState::Invalid }]);
    assert_eq!(db.show(rows[0]).await, "delivered 1 - free begun 204 -");
    assert_eq!(db.show(rows[1]).await, "pending 1 - free begun 503 http_server_error");
    assert_eq!(db.show(rows[2]).await, "pending 1 - free begun - dns_timeout");
    assert_eq!(db.show(rows[3]).await, "invalid 1 - free begun 410 http_gone");
    let delays = format!(
        "select string_agg(round(extract(epoch from available_at - updated_at)::numeric, 1)::text, ' ' order by id) \
         from {TABLE} where state = 'pending'"
    );
    assert_eq!(db.text(&delays, &[]).await, "90.0 1.5");
    let delivered_at = format!("select (delivered_at is not null)::text from {TABLE} where id = $1");
    assert_eq!(db.text(&delivered_at, &[&rows[0]]).await, "true");
}

#[tokio::test]
async fn p3_lost_lease_is_not_settled() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 2]).await;
    let stale = db.claim(1).await;
    db.lapse(&rows).await;
    let held = db.claim(2).await;
    assert_eq!(held.len(), 2);
    assert!(settle_every_way(&db.store, &stale).await.iter().all(Vec::is_empty));
    assert_eq!(db.show(rows[0]).await, "in_flight 2 02020202020202020202020202020202 leased begun - -");
    let lost = db.store.read_lost(&[stale[0].clone(), held[1].clone()]).await.expect("it answers");
    let seen: Vec<_> = lost.iter().map(|lost| (lost.id, lost.state, lost.attempt_count, lost.still_held)).collect();
    assert!(seen.contains(&(rows[0], RowState::InFlight, 2, false)), "{seen:?}");
    assert!(seen.contains(&(rows[1], RowState::InFlight, 2, true)), "{seen:?}");
}

#[tokio::test]
async fn a_lapsed_lease_that_nobody_took_still_settles() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A]).await;
    let leases = db.claim(1).await;
    db.lapse(&rows).await;
    assert_eq!(ids(&settle_every_way(&db.store, &leases).await[0]), rows);
}

#[tokio::test]
async fn a_second_settle_changes_nothing_and_the_first_is_found() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A]).await;
    let leases = db.claim(1).await;
    let answers = settle_every_way(&db.store, &leases).await;
    assert_eq!(answers.map(|answer| answer.len()), [1, 0, 0, 0]);
    let lost = db.store.read_lost(&leases).await.expect("it answers");
    assert_eq!(lost, [Lost { id: rows[0], state: RowState::Delivered, attempt_count: 1, still_held: false }]);
    db.run(&format!("delete from {TABLE}")).await;
    assert!(db.store.read_lost(&leases).await.expect("it answers").is_empty());
}

#[tokio::test]
async fn p11_nothing_leaves_a_final_state_even_where_a_token_was_left_behind() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    let leases = db.claim(1).await;
    db.lapse(&rows).await;
    db.outlive(&rows[..1]).await;
    for (id, state) in rows.iter().zip(["delivered", "expired", "invalid", "pending"]) {
        db.run(&format!("update {TABLE} set state = '{state}' where id = {id}")).await;
    }
    let mut before = Vec::new();
    for id in &rows[..3] {
        before.push(db.show(*id).await);
    }
    assert!(settle_every_way(&db.store, &leases).await.iter().all(Vec::is_empty));
    assert_eq!(db.store.expire_overdue(100, None).await.expect("it answers").rows, 0);
    assert_eq!(db.claim(2).await.iter().map(|lease| lease.id).collect::<Vec<_>>(), rows[3..]);
    for (id, before) in rows.iter().zip(before) {
        assert_eq!(db.show(*id).await, before);
    }
}

#[tokio::test]
async fn a_retry_after_the_horizon_expires_the_row() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A]).await;
    let leases = db.claim(1).await;
    db.outlive(&rows).await;
    let retried = [Retried {
        lease: leases[0].clone(),
        delay: Duration::from_secs(1),
        http_status: Some(500),
        error: "http_server_error".into(),
    }];
    let answer = db.store.settle_retried(&retried, None).await.expect("it answers");
    assert_eq!(answer, [Settled { id: rows[0], state: RowState::Expired }]);
    assert_eq!(db.show(rows[0]).await, "expired 1 - free begun 500 http_server_error");
}

#[tokio::test]
async fn give_back_restores_the_count_and_the_horizon() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A]).await;
    let leases = db.claim(1).await;
    let back = |lease: &Lease| [GivenBack { lease: lease.clone(), delay: Duration::ZERO }];
    db.store.give_back(&back(&leases[0])).await.expect("it answers");
    assert_eq!(db.show(rows[0]).await, "pending 0 - free fresh - -");
    let leases = db.claim(2).await;
    let retried =
        [Retried { lease: leases[0].clone(), delay: Duration::ZERO, http_status: Some(503), error: "e".into() }];
    db.store.settle_retried(&retried, None).await.expect("it answers");
    let leases = db.claim(3).await;
    let answer = db.store.give_back(&back(&leases[0])).await.expect("it answers");
    assert_eq!(answer, [Settled { id: rows[0], state: RowState::Pending }]);
    assert_eq!(db.show(rows[0]).await, "pending 1 - free begun 503 e", "what the attempt before left stays");
}

#[tokio::test]
async fn nothing_to_settle_asks_nothing() {
    let url = "postgresql://nobody@/none?host=/nonexistent";
    let store = Store::open(&config(url), silent()).expect("a good configuration");
    assert!(settle_every_way(&store, &[]).await.iter().all(Vec::is_empty));
    assert!(store.read_lost(&[]).await.expect("it asks nothing").is_empty());
}
