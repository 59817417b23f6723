//! What an operator is shown: which rows a filter lets through, and in which pages.

use super::*;

const A: &str = "https://a.example/hook";
const B: &str = "https://B.example:443/hook?secret=1";

async fn listed(db: &Database, filter: &Filter) -> Vec<i64> {
    let page = db.store.list_rows(filter, None, 1000).await.expect("it lists");
    assert_eq!(page.below, None, "that was all");
    page.rows.into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn each_member_of_a_filter_lets_through_what_it_names_and_all_hold_together() {
    for schema in [Schema::Ours, Schema::Sdk] {
        let db = Database::new(schema).await;
        let rows = db.insert(&[A, A, B, B]).await;
        db.run(&format!(
            "update {TABLE} set account_id = 'other', created_at = now() - interval '2 days' where id = {0}; \
             update {TABLE} set state = 'invalid', last_error = 'http_unauthorized:webhook_signature_expired' where id = {1}; \
             update {TABLE} set state = 'in_flight', lease_expires_at = '9999-01-01 00:00:00+00' where id = {2}; \
             update {TABLE} set state = 'in_flight', lease_token = 't', lease_expires_at = now() + interval '1 minute', \
             task_id = 'the task', idempotency_key = 'the key' where id = {3}",
            rows[0], rows[1], rows[2], rows[3],
        ))
        .await;
        let newest_first: Vec<i64> = rows.iter().rev().copied().collect();
        let day = Duration::from_secs(86_400);
        let any = Filter::default;
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            (any(), newest_first),
            // A composed row that nobody holds waits.
            (Filter { states: vec![RowState::Pending], ..any() }, vec![rows[2], rows[0]]),
            (Filter { states: vec![RowState::InFlight], ..any() }, vec![rows[3]]),
            (Filter { states: vec![RowState::InFlight, RowState::Invalid], ..any() }, vec![rows[3], rows[1]]),
            (Filter { account: text("other"), ..any() }, vec![rows[0]]),
            (Filter { destination: text("b.example"), ..any() }, vec![rows[3], rows[2]]),
            (Filter { code: text("http_unauthorized"), ..any() }, vec![rows[1]]),
            (Filter { task: text("the task"), ..any() }, vec![rows[3]]),
            (Filter { key: text("the key"), ..any() }, vec![rows[3]]),
            (Filter { older_than: Some(day), ..any() }, vec![rows[0]]),
            (Filter { newer_than: Some(day), ..any() }, vec![rows[3], rows[2], rows[1]]),
            (Filter { destination: text("b.example"), states: vec![RowState::Pending], ..any() }, vec![rows[2]]),
            (Filter { account: text("other"), newer_than: Some(day), ..any() }, vec![]),
        ];
        for (filter, expected) in cases {
            assert_eq!(listed(&db, &filter).await, expected, "{filter:?}");
        }
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap_and_show_no_more_of_a_url_than_its_host() {
    let db = Database::new(Schema::Ours).await;
    let mut rows = db.insert(&[B; 25]).await;
    rows.reverse();
    let (mut found, mut below) = (Vec::new(), None);
    loop {
        let page = db.store.list_rows(&Filter::default(), below, 10).await.expect("it lists");
        assert!(page.rows.iter().all(|row| row.destination == "b.example"), "{page:?}");
        found.extend(page.rows.iter().map(|row| row.id));
        below = page.below;
        if below.is_none() {
            break;
        }
    }
    assert_eq!(found, rows);
}
