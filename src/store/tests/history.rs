//! Attempts are written beside their rows' settles, once, and their days come and go without anybody waiting.

use super::*;

const A: &str = "https://a.example/hook";
const ATTEMPTS: &str = "adcp_task_webhook_outbox_attempts";

fn attempt(url: &str) -> NewAttempt<'_> {
    NewAttempt {
        fired_ago: 0.5,
        took: Duration::from_millis(120),
        status: Some("failed"),
        payload_bytes: Some(321),
        url,
        notification_type: Some("scheduled"),
        notification_id: None,
        sequence_number: Some(7),
    }
}

async fn recorded(db: &Database) -> String {
    let sql = format!(
        "select string_agg(concat_ws(' ', outbox_id - (select min(id) from {TABLE}), attempt, status, http_status, \
         coalesce(code, '-'), took_ms, payload_bytes, a.url, notification_type, sequence_number), E'\\n' order by outbox_id, attempt) \
         from {ATTEMPTS} as a join {TABLE} as o on o.id = a.outbox_id and o.account_id = a.account_id \
         and o.task_id = a.task_id and o.idempotency_key = a.idempotency_key"
    );
    db.text(&sql, &[]).await
}

#[tokio::test]
async fn p3_each_settle_writes_its_attempt_once_and_a_lost_lease_none() {
    let db = Database::new(Schema::Ours).await;
    db.insert(&[A; 4]).await;
    let leases = db.claim(1).await;
    let [a, b, c, lost] = leases.as_slice() else { panic!("four rows were claimed") };
    let stale = Lease { id: lost.id, token: token(9) };
    let delivered = [a, &stale].map(|lease| Delivered { lease: lease.clone(), http_status: 204 });
    let retried = [b, &stale].map(|lease| Retried {
        lease: lease.clone(),
        delay: Duration::from_secs(90),
        http_status: Some(503),
        error: "http_server_error".into(),
    });
    let quarantined = [c, &stale].map(|lease| Quarantined {
        lease: lease.clone(),
        http_status: Some(410),
        error: "http_gone".into(),
    });
    let attempts = [attempt(A), attempt(A)];
    for expected in [1, 0] {
        let done = db.store.settle_delivered(&delivered, Some(&attempts)).await.expect("it answers");
        assert_eq!(done.len(), expected, "only under the lease, and only once");
        let done = db.store.settle_retried(&retried, Some(&attempts)).await.expect("it answers");
        assert_eq!(done.len(), expected);
        let done = db.store.settle_quarantined(&quarantined, Some(&attempts)).await.expect("it answers");
        assert_eq!(done.len(), expected);
    }
    assert_eq!(
        recorded(&db).await,
        "0 1 failed 204 - 120 321 https://a.example/hook scheduled 7\n\
         1 1 failed 503 http_server_error 120 321 https://a.example/hook scheduled 7\n\
         2 1 failed 410 http_gone 120 321 https://a.example/hook scheduled 7"
    );
    let placed = format!("select string_agg(distinct tableoid::regclass::text, ' ') from {ATTEMPTS}");
    let today = db.text("select to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')", &[]).await;
    assert!(
        db.text(&placed, &[]).await.starts_with(&format!("{ATTEMPTS}_2")),
        "in the partition of a day like {today}"
    );
}

#[tokio::test]
async fn an_attempt_without_a_day_is_kept_and_moved_when_its_day_is_made() {
    let db = Database::new(Schema::Ours).await;
    let days = format!(
        "select coalesce(string_agg(c.relname, ' '), '') from pg_inherits join pg_class as c on c.oid = inhrelid \
         where inhparent = '{ATTEMPTS}'::regclass and c.relname ~ '[0-9]$'"
    );
    for day in db.text(&days, &[]).await.split(' ') {
        db.run(&format!("drop table {day}")).await;
    }
    db.insert(&[A]).await;
    let lease = db.claim(1).await.remove(0);
    let delivered = [Delivered { lease, http_status: 200 }];
    let done = db.store.settle_delivered(&delivered, Some(&[attempt(A)])).await.expect("it answers");
    assert_eq!(done.len(), 1, "a settle does not fail for want of a partition");
    let fallback = format!("select count(*)::text from {ATTEMPTS}_default");
    assert_eq!(db.text(&fallback, &[]).await, "1");
    let kept = db.store.keep_attempts(Some(2), Duration::from_secs(30 * 86_400)).await.expect("it answers");
    assert_eq!((kept.made, kept.dropped, kept.busy), (3, 0, false), "today and two days to come");
    assert_eq!(db.text(&fallback, &[]).await, "0", "it is moved to its day");
    assert_eq!(db.text(&format!("select count(*)::text from {ATTEMPTS}"), &[]).await, "1");
    let again = db.store.keep_attempts(Some(2), Duration::from_secs(30 * 86_400)).await.expect("it answers");
    assert_eq!((again.made, again.dropped), (0, 0));
}

#[tokio::test]
async fn a_day_is_dropped_when_all_of_it_is_older_than_attempts_are_kept() {
    let db = Database::new(Schema::Ours).await;
    let dated = async |ago: i32| {
        let sql = format!("select to_char((clock_timestamp() at time zone 'UTC')::date - {ago}, 'YYYYMMDD')");
        let day = db.text(&sql, &[]).await;
        db.run(&format!(
            "create table {ATTEMPTS}_{day} partition of {ATTEMPTS} for values from ('{day} 00:00+00') to ('{day} 24:00+00')"
        ))
        .await;
        format!("{ATTEMPTS}_{day}")
    };
    let days = [dated(32).await, dated(31).await, dated(30).await, dated(29).await];
    let keep = Duration::from_secs(30 * 86_400);
    for expected in [1, 1, 0] {
        let kept = db.store.keep_attempts(None, keep).await.expect("it answers");
        assert_eq!((kept.made, kept.dropped), (0, expected));
    }
    let left = format!(
        "select coalesce(string_agg(relname, ' ' order by relname), '') from pg_class where relname in \
                        ('{}') and relkind = 'r'",
        days.join("', '")
    );
    assert_eq!(db.text(&left, &[]).await, format!("{} {}", days[2], days[3]));
}

#[tokio::test]
async fn whoever_holds_a_lock_is_not_waited_for_and_days_are_made_while_others_write() {
    let db = Database::new(Schema::Ours).await;
    let keep = Duration::from_secs(30 * 86_400);
    let reader = connect(&db.url).await;
    reader
        .batch_execute(&format!(
            "begin; insert into {ATTEMPTS} (fired_at, took_ms, outbox_id, attempt, account_id, task_id, task_type, \
             idempotency_key, url) values (now(), 1, 1, 1, 'a', 't', 't', 'k', '')"
        ))
        .await
        .expect("it writes");
    let kept = db.store.keep_attempts(Some(5), keep).await.expect("it answers");
    assert_eq!((kept.made, kept.busy), (2, false), "the two days that nobody had made");
    reader.batch_execute("rollback").await.expect("it ends");
    db.run(&format!(
        "create table {ATTEMPTS}_20200101 partition of {ATTEMPTS} for values from ('2020-01-01') to ('2020-01-02')"
    ))
    .await;
    reader.batch_execute(&format!("begin; lock table {ATTEMPTS} in access share mode")).await.expect("it reads");
    let kept = db.store.keep_attempts(Some(5), keep).await.expect("it answers");
    assert_eq!((kept.dropped, kept.busy), (0, true), "left for the next time");
    reader.batch_execute("rollback").await.expect("it ends");
    let kept = db.store.keep_attempts(Some(5), keep).await.expect("it answers");
    assert_eq!((kept.dropped, kept.busy), (1, false));
}

#[tokio::test]
async fn only_a_history_can_be_kept() {
    let db = Database::new(Schema::Ours).await;
    let refused =
        db.client.query("select * from outboxd.keep_attempts('decisioning_tasks'::regclass, 3, 1)", &[]).await;
    assert_eq!(refused.expect_err("it is none").code().map(|code| code.code()), Some("22023"));
}
