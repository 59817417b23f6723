//! How the rows of an account or for a destination are found by the indexes that operators may make, and that claims find theirs
//! by none of these.

use super::plans::{
    HORIZON_AHEAD, LONG_AGO, analyze, around_plan, by_account_plan, claim_plan, fill, pages, plan, put,
};
use super::*;

/// Both indexes, by the statements that operators are given.
pub(super) async fn make_list_indexes(db: &Database) {
    for statement in [&db.store.statements.index_list_accounts, &db.store.statements.index_list_destinations] {
        db.run(&statement.sql).await;
    }
}

async fn list_plan(db: &Database, statement: &Statement, account: Option<&str>, to: Option<&str>, look: i64) -> String {
    let (states, none, seconds) = (None::<Vec<&str>>, None::<&str>, None::<f64>);
    let parameters: [Parameter<'_>; 11] =
        [&states, &account, &to, &none, &none, &none, &seconds, &seconds, &i64::MAX, &50_i64, &look];
    plan(db, statement, &parameters).await
}

/// Both times by this index alone, the newest first as they stand there.
fn assert_in_order(plan: &str, index: &str, most_pages: u64) {
    assert_eq!(plan.matches(&format!("Index Scan Backward using {TABLE}_{index}")).count(), 2, "{plan}");
    assert_eq!(plan.matches(" Scan ").count(), 3, "the third is of the bound: {plan}");
    assert!(!plan.contains("Sort") && pages(plan) <= most_pages, "{} pages: {plan}", pages(plan));
}

#[tokio::test]
async fn rows_are_listed_by_the_index_and_no_further_than_the_bound_whatever_the_statistics_say() {
    let db = Database::new(Schema::Ours).await;
    make_list_indexes(&db).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    // The statistics know of one account and ten destinations, and of none of the rows that come last.
    analyze(&db).await;
    let like = "task_type, terminal_status, operation_id, encrypted_body, envelope_nonce, retry_horizon_seconds, state, available_at, \
                first_attempt_at, retry_until";
    db.run(&format!(
        "insert into {TABLE} (task_id, account_id, url, idempotency_key, {like}) \
         select 'q' || task_id, 'b', replace(url, 'https://', 'https://new-'), 'q' || idempotency_key, {like} from {TABLE}"
    ))
    .await;
    let fresh = Database::new(Schema::Ours).await;
    make_list_indexes(&fresh).await;
    fill(&fresh, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    for db in [&db, &fresh] {
        let statements = &db.store.statements;
        for _ in 0..2 {
            for (account, bound) in [("a", 400), ("b", 400), ("nobody", 20), ("", 20)] {
                let plan = list_plan(db, &statements.list_by_account, Some(account), None, 100).await;
                assert_in_order(&plan, "list_account_idx", bound);
            }
            for (destination, bound) in [("h3.example", 400), ("new-h3.example", 400), ("nobody.example", 20)] {
                let plan = list_plan(db, &statements.list_by_destination, None, Some(destination), 100).await;
                assert_in_order(&plan, "list_dest_idx", bound);
            }
            analyze(db).await;
        }
    }
}

#[tokio::test]
async fn open_rows_for_one_destination_are_listed_by_the_index_by_destination() {
    let db = Database::new(Schema::Ours).await;
    make_list_indexes(&db).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    put(&db, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    db.insert(&["https://other.example/x"; 5]).await;
    for _ in 0..2 {
        let statement = &db.store.statements.list_open_by_destination;
        let plan = list_plan(&db, statement, None, Some("other.example"), 20_000).await;
        assert!(plan.contains(&format!("Index Scan using {TABLE}_destination_idx")), "{plan}");
        assert!(!plan.contains("Seq Scan on") && pages(&plan) <= 200, "{} pages: {plan}", pages(&plan));
        analyze(&db).await;
    }
}

/// Each delivered row is in these indexes too: a claim that found its rows by one would read past all of them. Where the statistics
/// expect a row or none, the height of a tree may decide between two that serve, and so none of these may serve a claim at all.
#[tokio::test]
async fn a_listing_index_serves_no_claim_even_where_there_is_no_other() {
    let db = Database::new(Schema::Ours).await;
    make_list_indexes(&db).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    put(&db, 100, "pending", LONG_AGO, HORIZON_AHEAD).await;
    db.run(&format!("drop index {TABLE}_destination_idx")).await;
    for _ in 0..2 {
        let listed = plan(&db, &db.store.statements.list_due, &[&"", &200_i64]).await;
        let claims = [claim_plan(&db, &["h7.example"]).await, around_plan(&db, &[], &["h7.example"]).await];
        let by_account = by_account_plan(&db, &["a"], &["h7.example/a"]).await;
        for plan in claims.iter().chain([&listed, &by_account]) {
            assert!(!plan.contains("_list_"), "{plan}");
        }
        analyze(&db).await;
    }
}
