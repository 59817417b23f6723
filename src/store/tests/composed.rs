//! Composed rows under the same statements: marked for ever, leased by available_at, and never seen by whoever does not
//! know them.

use super::*;
use crate::store::ReadComposed;

impl Database {
    /// Issues and completes a task with a registration that nobody opens here.
    async fn compose(&self, task: &str) -> i64 {
        let sql = "select outboxd.issue_task('acc', 'create_media_buy', null, decode(repeat('00', 40), 'hex'), \
                   decode(repeat('00', 12), 'hex'), $1, 'https://buyer.example/hooks')";
        self.text(sql, &[&task]).await;
        self.run(&format!("select outboxd.complete_task('{task}', '{{ \"a\" : 1.0 }}')")).await;
        let row = self.client.query_one(&format!("select id from {TABLE} where task_id = $1"), &[&task]).await;
        row.expect("its row is there").get(0)
    }

    async fn mark(&self, id: i64) -> String {
        let sql = format!(
            "select concat_ws(' ', state, coalesce(lease_token, '-'), extract(year from lease_expires_at at time zone \
             'UTC'), case when available_at > clock_timestamp() then 'waits' else 'due' end) from {TABLE} where id = $1"
        );
        self.text(&sql, &[&id]).await
    }

    /// Ends a composed row's lease or delay.
    async fn ripen(&self, id: i64) {
        self.run(&format!("update {TABLE} set available_at = now() - interval '1 second' where id = {id}")).await;
    }
}

fn lease(id: i64, number: u8) -> Lease {
    Lease { id, token: token(number) }
}

#[tokio::test]
async fn a_composed_row_keeps_its_mark_through_every_state_but_the_last() {
    let db = Database::new(Schema::Ours).await;
    let id = db.compose("task_1").await;
    assert_eq!(db.mark(id).await, "in_flight - 9999 due");
    assert_eq!(db.store.sample_backlog(10, &[]).await.expect("it answers").due, 1);
    let claimed = db.store.claim_due(&request(1)).await.expect("it claims").rows;
    assert!(matches!(&claimed[..], [Claimed::Whole { facts, row, .. }]
        if facts.composed && facts.destination == "buyer.example" && row.attempt_count == 1));
    assert_eq!(db.mark(id).await, "in_flight 01010101010101010101010101010101 9999 waits");
    assert!(db.claim(2).await.is_empty(), "its lease is live");
    let retried = Retried {
        lease: lease(id, 1),
        delay: Duration::from_secs(60),
        http_status: Some(503),
        error: "http_server_error".into(),
    };
    let settled = db.store.settle_retried(&[retried], None).await.expect("it settles");
    assert_eq!(settled, [Settled { id, state: RowState::Pending }]);
    assert_eq!(db.mark(id).await, "in_flight - 9999 waits");
    db.ripen(id).await;
    assert_eq!(db.claim(3).await, [lease(id, 3)]);
    let given_back = GivenBack { lease: lease(id, 3), delay: Duration::ZERO };
    let settled = db.store.give_back(&[given_back]).await.expect("it settles");
    assert_eq!(settled, [Settled { id, state: RowState::Pending }]);
    assert_eq!(db.mark(id).await, "in_flight - 9999 due");
    let lost = db.store.read_lost(&[lease(id, 3)]).await.expect("it answers");
    assert_eq!((lost[0].state, lost[0].still_held), (RowState::Pending, false));
    assert_eq!(db.claim(4).await, [lease(id, 4)]);
    // Its holder died: the lease ends, and another takes it.
    db.ripen(id).await;
    assert_eq!(db.claim(5).await, [lease(id, 5)]);
    let late = Delivered { lease: lease(id, 4), http_status: 200 };
    assert!(db.store.settle_delivered(&[late], None).await.expect("it answers").is_empty());
    let delivered = Delivered { lease: lease(id, 5), http_status: 200 };
    assert_eq!(ids(&db.store.settle_delivered(&[delivered], None).await.expect("it settles")), [id]);
    assert_eq!(db.show(id).await, "delivered 3 - free begun 200 -");
}

#[tokio::test]
async fn a_composed_row_expires_after_its_horizon_but_not_under_a_live_lease() {
    let db = Database::new(Schema::Ours).await;
    let id = db.compose("task_1").await;
    db.claim(1).await;
    db.outlive(&[id]).await;
    assert_eq!(db.store.expire_overdue(10, None).await.expect("it answers").rows, 0);
    db.ripen(id).await;
    assert_eq!(db.store.expire_overdue(10, None).await.expect("it answers").rows, 1);
    assert_eq!(db.show(id).await, "expired 1 - free begun - -");
    assert_eq!(db.store.purge_settled(10, None, Duration::ZERO).await.expect("it answers").rows, 1);
    assert_eq!(db.text(&format!("select count(*)::text from {TABLE}_composed"), &[]).await, "0");
}

#[tokio::test]
async fn what_a_row_is_rendered_from_is_read_within_the_bytes_allowed() {
    let db = Database::new(Schema::Ours).await;
    let tasks = ["task_1".to_owned(), "task_2".to_owned(), "unknown".to_owned()];
    for task in &tasks[..2] {
        db.compose(task).await;
    }
    let read = db.store.read_composed(&tasks, 1).await.expect("it answers");
    assert_eq!(read.len(), 2);
    let Some(ReadComposed::Whole(first)) = read.get("task_1") else { panic!("the first is always granted") };
    assert_eq!((first.version, first.result.as_str()), (1, "{ \"a\" : 1.0 }"));
    assert!(matches!(read.get("task_2"), Some(ReadComposed::NoRoom)));
}

/// The claim and the sweeps of the release before composed rows, against a schema that has them: expand, then contract.
#[tokio::test]
async fn a_daemon_of_the_release_before_leaves_composed_rows_alone() {
    let db = Database::new(Schema::Ours).await;
    let id = db.compose("task_1").await;
    let sealed = db.insert(&["https://buyer.example/hooks"]).await;
    let before = |name: &str| {
        let path = format!("{}/tests/vectors/before_composed/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        table().substitute(&std::fs::read_to_string(path).expect("it is in the repository"))
    };
    let none: [&str; 0] = [];
    let rooms: [i32; 0] = [];
    let claimed = db
        .client
        .query(&before("claim_due"), &[&100i64, &(1i64 << 20), &"old", &60f64, &&none[..], &&rooms[..], &100i32])
        .await
        .expect("the old claim works on the new schema");
    assert_eq!(claimed.iter().map(|row| row.get::<_, i64>("id")).collect::<Vec<_>>(), sealed);
    db.outlive(&[id]).await;
    assert!(db.client.query(&before("expire_overdue"), &[&10i64]).await.expect("it works").is_empty());
    assert_eq!(db.mark(id).await, "in_flight - 9999 due");
}

/// A daemon of this release on the schema of the one before, and an SDK-made one: no table of composed rows at all.
#[tokio::test]
async fn a_schema_without_composed_rows_is_served() {
    for schema in [Schema::Ours, Schema::Sdk] {
        let db = Database::new(schema).await;
        db.run(&format!("drop table if exists {TABLE}_composed")).await;
        let rows = db.insert(&["https://buyer.example/hooks"]).await;
        assert_eq!(db.claim(1).await, [lease(rows[0], 1)]);
        let delivered = Delivered { lease: lease(rows[0], 1), http_status: 200 };
        assert_eq!(ids(&db.store.settle_delivered(&[delivered], None).await.expect("it settles")), rows);
    }
}
