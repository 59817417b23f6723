//! How the statements find their rows: by index, and no further than they need.

use tokio_postgres::types::Type;

use super::*;

/// The plan, as it was run, under the generic plan that a kept statement may get as well as its own.
async fn plans(db: &Database, statement: &Statement, parameters: &[Parameter<'_>]) -> Vec<String> {
    let mut plans = Vec::new();
    for mode in ["force_custom_plan", "force_generic_plan"] {
        db.run(&format!("set plan_cache_mode = {mode}; begin")).await;
        let sql = format!("explain (analyze, buffers, timing off) {}", statement.sql);
        let typed: Vec<(Parameter<'_>, Type)> =
            parameters.iter().copied().zip(statement.types.iter().cloned()).collect();
        let rows = db.client.query_typed(&sql, &typed).await.expect("it explains");
        plans.push(rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n"));
        db.run("rollback").await;
    }
    plans
}

/// Pages that the whole plan touched: the first line with buffers belongs to the topmost node.
fn pages(plan: &str) -> u64 {
    let line = plan.lines().find(|line| line.contains("Buffers: shared")).expect("the plan counts buffers");
    line.split_whitespace().filter_map(|word| word.split_once('=')).filter_map(|(_, n)| n.parse::<u64>().ok()).sum()
}

async fn fill(db: &Database, rows: u32, state: &str, available_at: &str, retry_until: &str) {
    db.run(&format!(
        "insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, \
         encrypted_body, envelope_nonce, retry_horizon_seconds, state, available_at, first_attempt_at, retry_until) \
         select 'p' || gen_random_uuid(), 'a', 't', 'completed', 'https://h' || n % 10 || '.example/x', 'o', \
         'p' || gen_random_uuid(), '\\x00', convert_to('twelve bytes', 'UTF8'), 86400, '{state}', {available_at}, \
         now() - interval '3 days', {retry_until} from generate_series(1, {rows}) as n"
    ))
    .await;
    db.run(&format!("vacuum analyze {TABLE}")).await;
}

#[tokio::test]
async fn a_claim_with_nothing_due_stops_at_once_however_much_waits() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 100_000, "pending", "now() + interval '1 hour'", "now() + interval '1 day'").await;
    let none: Vec<&str> = Vec::new();
    let rooms: Vec<i32> = Vec::new();
    let parameters: [Parameter<'_>; 7] = [&100_i64, &1_000_000_i64, &"t", &60_f64, &none, &rooms, &64];
    for plan in plans(&db, &db.store.statements.claim_due, &parameters).await {
        assert!(plan.contains(&format!("Index Scan using {TABLE}_work_idx")), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
        assert!(pages(&plan) < 50, "{plan}");
    }
}

#[tokio::test]
async fn a_claim_from_a_large_backlog_reads_what_it_takes() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 50_000, "pending", "now() - interval '1 hour' + n * interval '1 ms'", "now() + interval '1 day'").await;
    fill(&db, 50_000, "delivered", "now() - interval '2 hours'", "now() - interval '1 day'").await;
    let (full, room) = (vec!["h1.example", "h2.example"], vec![0, 3]);
    let parameters: [Parameter<'_>; 7] = [&100_i64, &1_000_000_i64, &"t", &60_f64, &full, &room, &64];
    let plan = &plans(&db, &db.store.statements.claim_due, &parameters).await[0];
    assert!(plan.contains(&format!("Index Scan using {TABLE}_work_idx")), "{plan}");
    assert!(!plan.contains("Seq Scan"), "{plan}");
}

#[tokio::test]
async fn sweeps_and_samples_follow_their_own_indexes() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "pending", "now() - interval '1 hour'", "now() + interval '1 day'").await;
    fill(&db, 80_000, "delivered", "now() - interval '2 hours'", "now() - interval '1 day'").await;
    let bound: [Parameter<'_>; 1] = [&1000_i64];
    let expire = &plans(&db, &db.store.statements.expire_overdue, &bound).await[0];
    assert!(expire.contains(&format!("{TABLE}_open_rows_idx")) && !expire.contains("Seq Scan"), "{expire}");
    assert!(pages(expire) < 50, "{expire}");
    let purge = &plans(&db, &db.store.statements.purge_settled, &bound).await[0];
    assert!(purge.contains(&format!("{TABLE}_retry_until_idx")) && !purge.contains("Seq Scan"), "{purge}");
    let sample = &plans(&db, &db.store.statements.sample_backlog, &bound).await[0];
    assert!(sample.contains(&format!("{TABLE}_work_idx")) && !sample.contains("Seq Scan"), "{sample}");
    assert!(pages(sample) < 1100, "{sample}");
}
