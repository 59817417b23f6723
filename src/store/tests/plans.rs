//! How the statements find their rows: by index, and no further than they need.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::*;
use crate::store::Watermark;

/// The plan that a daemon's session keeps, as it was run; the work is undone. One that is made for these parameters, as commands
/// have it, reads hardly less.
pub(super) async fn plan(db: &Database, statement: &Statement, parameters: &[Parameter<'_>]) -> String {
    let client = db.store.door.pool.get().await.expect("a connection is free");
    let asked = prepare(&client, "asked", statement, parameters).await;
    // The first time, catalogs are read as well.
    explain(&client, &asked).await;
    let kept = explain(&client, &asked).await;
    let afresh = "set plan_cache_mode = force_custom_plan; set enable_hashjoin = on; set enable_mergejoin = on";
    client.batch_execute(afresh).await.expect("anybody may");
    let afresh = explain(&client, &asked).await;
    client.batch_execute("reset all; deallocate asked").await.expect("it was prepared");
    assert!(pages(&kept) <= pages(&afresh) * 5 / 4 + 20, "kept: {kept}\n\nafresh: {afresh}");
    kept
}

/// The statement by a name, and what calls it with these parameters.
async fn prepare(client: &Client, name: &str, statement: &Statement, parameters: &[Parameter<'_>]) -> String {
    let types: Vec<&str> = statement.types.iter().map(Type::name).collect();
    let types = if types.is_empty() { String::new() } else { format!("({})", types.join(", ")) };
    client.batch_execute(&format!("prepare {name} {types} as {}", statement.sql)).await.expect("it can be prepared");
    let mut literals = Vec::new();
    for (parameter, kind) in parameters.iter().zip(&statement.types) {
        let quoted = client.query_typed("select quote_nullable($1::text)", &[(*parameter, kind.clone())]).await;
        literals.push(quoted.expect("it has a text")[0].get::<_, String>(0));
    }
    let literals = if literals.is_empty() { String::new() } else { format!("({})", literals.join(", ")) };
    format!("execute {name} {literals}")
}

async fn explain(client: &Client, asked: &str) -> String {
    client.batch_execute("begin").await.expect("it begins");
    let rows = client.query(&format!("explain (analyze, buffers, timing off, summary off) {asked}"), &[]).await;
    client.batch_execute("rollback").await.expect("it is undone");
    rows.expect("it explains").iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

/// Everything is found by this index, none of it by reading or sorting more than is wanted.
fn assert_by_index(plan: &str, index: &str, most_pages: u64) {
    assert!(plan.contains(&format!("Index Scan using {TABLE}_{index}")), "{plan}");
    assert!(!plan.contains("Seq Scan on") && !plan.contains("Bitmap"), "{plan}");
    assert!(pages(plan) <= most_pages, "{} pages: {plan}", pages(plan));
}

/// Pages that the whole plan touched: the first line with buffers belongs to the topmost node.
pub(super) fn pages(plan: &str) -> u64 {
    let line = plan.lines().find(|line| line.contains("Buffers: shared")).expect("the plan counts buffers");
    let counts = line.split_whitespace().filter_map(|word| word.split_once('='));
    counts.filter(|(what, _)| ["hit", "read"].contains(what)).filter_map(|(_, n)| n.parse::<u64>().ok()).sum()
}

pub(super) async fn fill(db: &Database, rows: u32, state: &str, available_at: &str, retry_until: &str) {
    db.run(&format!("alter table {TABLE} set (autovacuum_enabled = off)")).await;
    put(db, rows, state, available_at, retry_until).await;
}

pub(super) async fn put(db: &Database, rows: u32, state: &str, available_at: &str, retry_until: &str) {
    db.run(&format!(
        "insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, \
         encrypted_body, envelope_nonce, retry_horizon_seconds, state, available_at, first_attempt_at, retry_until) \
         select 'p' || gen_random_uuid(), 'a', 't', 'completed', 'https://h' || n % 10 || '.example/x', 'o', \
         'p' || gen_random_uuid(), convert_to(repeat('x', 500), 'UTF8'), convert_to('twelve bytes', 'UTF8'), 86400, \
         '{state}', {available_at}, now() - interval '3 days', {retry_until} from generate_series(1, {rows}) as n"
    ))
    .await;
}

pub(super) async fn analyze(db: &Database) {
    db.run(&format!("vacuum analyze {TABLE}")).await;
}

pub(super) async fn claim_plan(db: &Database, full: &[&str]) -> String {
    let (full, rooms) = (full.to_vec(), vec![0; full.len()]);
    let (accounts, shares, others) = (Vec::<&str>::new(), Vec::<i32>::new(), None::<i32>);
    let parameters: [Parameter<'_>; 10] =
        [&100_i64, &1_000_000_i64, &"t", &60_f64, &full, &rooms, &64, &accounts, &shares, &others];
    plan(db, &db.store.statements.claim_due, &parameters).await
}

/// What a look around asks with: all in their order from the head, and some destinations by name.
struct Looking<'a> {
    full: &'a [&'a str],
    rooms: Vec<i32>,
    in_flight: Vec<i32>,
    named: &'a [&'a str],
    times: Vec<DatabaseTime>,
    ids: Vec<i64>,
}

impl<'a> Looking<'a> {
    fn past(full: &'a [&'a str], named: &'a [&'a str]) -> Looking<'a> {
        Looking {
            full,
            rooms: vec![0; full.len()],
            in_flight: vec![64; full.len()],
            named,
            times: vec![Position::HEAD.at; named.len()],
            ids: vec![Position::HEAD.id; named.len()],
        }
    }

    fn parameters(&self) -> [Parameter<'_>; 14] {
        [
            &100_i64,
            &1_000_000_i64,
            &"t",
            &60_f64,
            &self.full,
            &self.rooms,
            &self.in_flight,
            &64,
            &Position::HEAD.at,
            &Position::HEAD.id,
            &400_i64,
            &self.named,
            &self.times,
            &self.ids,
        ]
    }
}

pub(super) async fn around_plan(db: &Database, full: &[&str], named: &[&str]) -> String {
    plan(db, &db.store.statements.claim_around, &Looking::past(full, named).parameters()).await
}

/// The same where accounts have a share.
pub(super) async fn by_account_plan(db: &Database, full: &[&str], named: &[&str]) -> String {
    let (rooms, in_flight) = (Vec::<i32>::new(), Vec::<i32>::new());
    let (destinations, shares) = (Vec::<&str>::new(), vec![0; full.len()]);
    let times: Vec<DatabaseTime> = named.iter().map(|_| Position::HEAD.at).collect();
    let ids: Vec<i64> = named.iter().map(|_| Position::HEAD.id).collect();
    let parameters: [Parameter<'_>; 18] = [
        &100_i64,
        &1_000_000_i64,
        &"t",
        &60_f64,
        &destinations,
        &rooms,
        &in_flight,
        &64,
        &full,
        &shares,
        &64,
        &Position::HEAD.at,
        &Position::HEAD.id,
        &400_i64,
        &named,
        &times,
        &ids,
        &20,
    ];
    plan(db, &db.store.statements.claim_around_by_account, &parameters).await
}

const SOON: &str = "now() + interval '1 hour'";
pub(super) const LONG_AGO: &str = "now() - interval '2 hours' + n * interval '1 ms'";
pub(super) const HORIZON_AHEAD: &str = "now() + interval '1 day'";
const HORIZON_PAST: &str = "now() - interval '1 day'";

#[tokio::test]
async fn a_claim_with_nothing_due_stops_at_once_however_much_waits() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 100_000, "pending", SOON, HORIZON_AHEAD).await;
    assert_by_index(&claim_plan(&db, &[]).await, "work_idx", 20);
    analyze(&db).await;
    assert_by_index(&claim_plan(&db, &[]).await, "work_idx", 20);
}

#[tokio::test]
async fn a_claim_from_a_backlog_reads_what_it_takes_whatever_the_statistics_say() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    // The statistics know of no open row.
    fill(&db, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    // 100 rows: a lock, two versions and nine index entries each.
    assert_by_index(&claim_plan(&db, &[]).await, "work_idx", 4000);
    assert_by_index(&claim_plan(&db, &["h1.example", "h2.example"]).await, "work_idx", 4000);
    analyze(&db).await;
    assert_by_index(&claim_plan(&db, &[]).await, "work_idx", 4000);

    let fresh = Database::new(Schema::Ours).await;
    fill(&fresh, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    assert_by_index(&claim_plan(&fresh, &[]).await, "work_idx", 4000);
}

/// 20,000 rows of full destinations, and behind them some of one that is not.
async fn fill_with_full(db: &Database) {
    fill(db, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    db.insert(&["https://other.example/x"; 5]).await;
}

const FULL: [&str; 10] = [
    "h0.example",
    "h1.example",
    "h2.example",
    "h3.example",
    "h4.example",
    "h5.example",
    "h6.example",
    "h7.example",
    "h8.example",
    "h9.example",
];

#[tokio::test]
async fn a_look_around_reads_no_more_than_it_may_whatever_the_statistics_say() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    fill_with_full(&db).await;
    let fresh = Database::new(Schema::Ours).await;
    fill_with_full(&fresh).await;
    for db in [&db, &fresh] {
        for _ in 0..2 {
            // 400 rows in their order, all of them passed over, and five by name.
            let plan = around_plan(db, &FULL, &["other.example", "nobody.example"]).await;
            assert!(plan.contains(&format!("Index Scan using {TABLE}_destination_idx")), "{plan}");
            assert_by_index(&plan, "work_idx", 800);
            assert!(plan.contains("rows=400 loops=1") && plan.contains("rows=6 loops=1"), "{plan}");
            // As many as a claim takes, by name and in their order.
            let plan = around_plan(db, &FULL[..5], &FULL[5..]).await;
            assert_by_index(&plan, "work_idx", 5000);
            assert!(plan.contains("rows=101 loops=1"), "{plan}");
            analyze(db).await;
        }
    }
}

#[tokio::test]
async fn a_look_past_an_account_that_has_its_share_reads_no_more_than_it_may() {
    let db = Database::new(Schema::Ours).await;
    db.run(&db.store.account_index()).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    fill(&db, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    db.insert(&["https://other.example/x"; 5]).await;
    for _ in 0..2 {
        let plan = by_account_plan(&db, &["a"], &["other.example/account", "h1.example/a"]).await;
        assert_by_index(&plan, "work_idx", 800);
        assert!(plan.contains(&format!("Index Scan using {TABLE}_account_idx")), "{plan}");
        assert!(plan.contains("rows=400 loops=1") && plan.contains("rows=6 loops=1"), "{plan}");
        let listed = self::plan(&db, &db.store.statements.list_due_by_account, &[&"", &200_i64]).await;
        assert!(listed.contains("rows=11 loops=1"), "{listed}");
        assert_by_index(&listed, "account_idx", 200);
        analyze(&db).await;
    }
}

#[tokio::test]
async fn destinations_are_listed_by_a_step_for_each_however_many_rows_they_have() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    fill_with_full(&db).await;
    fill(&db, 20_000, "pending", SOON, HORIZON_AHEAD).await;
    for _ in 0..2 {
        let plan = plan(&db, &db.store.statements.list_due, &[&"", &200_i64]).await;
        assert!(plan.contains("rows=11 loops=1"), "{plan}");
        assert_by_index(&plan, "destination_idx", 200);
        analyze(&db).await;
    }
}

#[tokio::test]
async fn an_operator_is_shown_destinations_at_a_bounded_cost_however_many_rows_wait() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    fill_with_full(&db).await;
    fill(&db, 20_000, "pending", SOON, HORIZON_AHEAD).await;
    for _ in 0..2 {
        let plan = plan(&db, &db.store.statements.list_destinations, &[&5000_i64, &1100_i64, &1000_i64]).await;
        // Eleven of a hundred rows each, one of which has five.
        assert!(plan.contains("rows=91 loops=11"), "{plan}");
        // The list of what is parked is small, and read whole.
        assert!(!plan.contains(&format!("Seq Scan on {TABLE} ")) && !plan.contains("Bitmap"), "{plan}");
        assert!(pages(&plan) <= 3000, "{} pages: {plan}", pages(&plan));
        analyze(&db).await;
    }
}

#[tokio::test]
async fn a_settle_looks_up_each_row_whatever_the_statistics_say() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    fill(&db, 20_000, "in_flight", SOON, HORIZON_AHEAD).await;
    db.run(&format!("update {TABLE} set lease_token = 't' where id > 39900")).await;
    let (ids, tokens, statuses) = ((39_901..=40_000).collect::<Vec<i64>>(), vec!["t"; 100], vec![200; 100]);
    let plan = plan(&db, &db.store.statements.settle_delivered, &[&ids, &tokens, &statuses]).await;
    assert!(plan.contains("rows=100 loops=1"), "{plan}");
    assert_by_index(&plan, "pkey", 3000);
}

/// A daemon starts on an empty table, and no statistics are made until after the backlog has come.
#[tokio::test]
async fn a_plan_that_was_made_when_the_table_was_empty_serves_a_large_one() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 0, "pending", LONG_AGO, HORIZON_AHEAD).await;
    let looking = Looking::past(&FULL[..2], &["h3.example"]);
    let (accounts, shares, others) = (Vec::<&str>::new(), Vec::<i32>::new(), None::<i32>);
    let (ids, tokens, statuses) = ((39_901..=40_000).collect::<Vec<i64>>(), vec!["t"; 100], vec![200; 100]);
    let (seconds, text, whole) = (vec![1.0_f64; 100], vec!["http_server_error"; 100], vec![1_i64; 100]);
    let claim: [Parameter<'_>; 10] =
        [&100_i64, &1_000_000_i64, &"t", &60_f64, &looking.full, &looking.rooms, &64, &accounts, &shares, &others];
    let around = looking.parameters();
    let delivered: [Parameter<'_>; 3] = [&ids, &tokens, &statuses];
    let failed = vec!["failed"; 100];
    let attempts: [Parameter<'_>; 8] = [&seconds, &statuses, &failed, &statuses, &text, &text, &text, &whole];
    let recorded = [&delivered[..], &attempts].concat();
    let retried: [Parameter<'_>; 5] = [&ids, &tokens, &seconds, &statuses, &text];
    let given_back: [Parameter<'_>; 3] = [&ids, &tokens, &seconds];
    let sample: [Parameter<'_>; 2] = [&1000_i64, &accounts];
    let (bounded, kept) =
        ([&1000_i64 as Parameter<'_>, &None::<i64>], [&1000_i64 as Parameter<'_>, &None::<i64>, &0.0_f64]);
    let s = &db.store.statements;
    let cases: [(&Statement, &[Parameter<'_>], &str, u64); 9] = [
        (&s.claim_due, &claim, "work_idx", 5000),
        (&s.claim_around, &around, "work_idx", 5000),
        (&s.settle_delivered, &delivered, "pkey", 3000),
        (&s.settle_delivered_recorded, &recorded, "pkey", 4500),
        (&s.settle_retried, &retried, "pkey", 4000),
        (&s.give_back, &given_back, "pkey", 4000),
        (&s.expire_overdue, &bounded, "open_rows_idx", 20),
        (&s.purge_settled, &kept, "retry_until_idx", 20),
        (&s.sample_backlog, &sample, "work_idx", 1100),
    ];
    let client = db.store.door.pool.get().await.expect("a connection is free");
    let mut asked = Vec::new();
    for (nth, (statement, parameters, ..)) in cases.iter().enumerate() {
        let ask = prepare(&client, &format!("asked_{nth}"), statement, parameters).await;
        explain(&client, &ask).await;
        asked.push(ask);
    }
    put(&db, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    put(&db, 20_000, "in_flight", SOON, HORIZON_AHEAD).await;
    put(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    db.run(&format!("update {TABLE} set lease_token = 't' where id between 39901 and 40000")).await;
    for (ask, (_, _, index, most_pages)) in asked.iter().zip(&cases) {
        assert_by_index(&explain(&client, ask).await, index, *most_pages);
    }
}

#[tokio::test]
async fn sweeps_and_samples_follow_their_own_indexes() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    fill(&db, 50_000, "delivered", LONG_AGO, HORIZON_PAST).await;
    for _ in 0..2 {
        let expire = plan(&db, &db.store.statements.expire_overdue, &[&1000_i64, &None::<i64>]).await;
        assert_by_index(&expire, "open_rows_idx", 20);
        let sample = plan(&db, &db.store.statements.sample_backlog, &[&1000_i64, &Vec::<&str>::new()]).await;
        assert_by_index(&sample, "work_idx", 1100);
        let parked = vec!["buyer.example.com"];
        let sample = plan(&db, &db.store.statements.sample_backlog, &[&1000_i64, &parked]).await;
        assert_by_index(&sample, "work_idx", 1100);
        let purge = plan(&db, &db.store.statements.purge_settled, &[&1000_i64, &None::<i64>, &0.0_f64]).await;
        assert_by_index(&purge, "retry_until_idx", 20_000);
        analyze(&db).await;
    }
}

/// While a snapshot is held, what was deleted stays in the index: whoever began anew would read all of it for each batch.
#[tokio::test]
async fn a_sweep_does_not_read_again_what_it_has_swept_however_old_a_snapshot_is_held() {
    let db = Database::new(Schema::Ours).await;
    let each = "now() - interval '1 day' + n * interval '1 ms'";
    fill(&db, 6000, "delivered", LONG_AGO, each).await;
    fill(&db, 6000, "pending", LONG_AGO, each).await;
    let reader = connect(&db.url).await;
    let held = format!("begin isolation level repeatable read; select from {TABLE} limit 1");
    reader.batch_execute(&held).await.expect("it begins");
    let (mut expired_to, mut purged_to) = (None, None);
    for _ in 0..5 {
        let expired = db.store.expire_overdue(1000, expired_to).await.expect("it answers");
        let purged = db.store.purge_settled(1000, purged_to, Duration::ZERO).await.expect("it answers");
        assert_eq!((expired.rows, purged.rows), (1000, 1000));
        (expired_to, purged_to) = (expired.ended_at, purged.ended_at);
    }
    let from = |mark: Option<Watermark>| mark.map(Watermark::micros);
    let statements = &db.store.statements;
    let kept: [Parameter<'_>; 1] = [&0.0_f64];
    for (statement, to, index, more) in [
        (&statements.expire_overdue, expired_to, "open_rows_idx", &kept[..0]),
        (&statements.purge_settled, purged_to, "retry_until_idx", &kept[..]),
    ] {
        let (from, nothing) = (from(to), None::<i64>);
        let going_on: [Parameter<'_>; 2] = [&10_i64, &from];
        assert_by_index(&plan(&db, statement, &[&going_on[..], more].concat()).await, index, 500);
        let anew: [Parameter<'_>; 2] = [&10_i64, &nothing];
        let anew = pages(&plan(&db, statement, &[&anew[..], more].concat()).await);
        assert!(anew > 1000, "only {anew} pages: the test shows nothing");
    }
    // What was passed over is found by the pass after.
    assert_eq!(db.store.purge_settled(1, purged_to, Duration::ZERO).await.expect("it answers").rows, 1);
    assert_eq!(db.store.purge_settled(10_000, None, Duration::ZERO).await.expect("it answers").rows, 5999);
}

#[tokio::test]
async fn open_rows_are_listed_from_their_own_index_however_many_are_finished() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    fill(&db, 2_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    for _ in 0..2 {
        for after in ["", "21000"] {
            let listed = plan(&db, &db.store.statements.list_outbox, &[&after, &1000_i64]).await;
            assert!(listed.contains(&format!("using {TABLE}_work_idx")), "{listed}");
            assert!(!listed.contains("Seq Scan on") && pages(&listed) <= 2500, "{} pages: {listed}", pages(&listed));
        }
        analyze(&db).await;
    }
}

#[tokio::test]
async fn sealed_rows_are_read_and_replaced_by_their_ids_whatever_the_statistics_say() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 20_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    analyze(&db).await;
    fill(&db, 20_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    let keys: Vec<String> = (39_501..=40_000).map(|id: i32| id.to_string()).collect();
    let (was, sealed) = (vec![b"twelve bytes".as_slice(); 500], vec![[0_u8; 100].as_slice(); 500]);
    let read = plan(&db, &db.store.statements.read_outbox, &[&keys, &(1_i64 << 24)]).await;
    assert_by_index(&read, "pkey", 2000);
    let fingerprints = vec!["f"; 500];
    let parameters: [Parameter<'_>; 5] = [&keys, &was, &sealed, &was, &fingerprints];
    let replaced = plan(&db, &db.store.statements.reseal_outbox, &parameters).await;
    assert!(replaced.contains("rows=500 loops=1"), "{replaced}");
    // Twice by the key, a lock and a new version each; where that is on another page, an entry in each index.
    assert_by_index(&replaced, "pkey", 16_000);
}

#[tokio::test]
async fn a_replay_is_compared_with_what_is_stored_under_its_keys_and_nothing_else_is_read() {
    let db = Database::new(Schema::Ours).await;
    db.run(inbox::UNGUARD).await;
    db.run(
        "insert into cms_terminal_notification_inbox \
         select 'terminal-' || n, 'event-' || n, 'site', 'published', 'sha-' || n, 'payload', 1 \
           from generate_series(1, 20000) as n; \
         insert into cms_terminal_notification_processing \
                (notification_id, status, attempts, max_attempts, next_attempt_at, created_at, updated_at) \
         select notification_id, 'pending', 0, 5, 1, 1, 1 from cms_terminal_notification_inbox",
    )
    .await;
    for _ in 0..2 {
        let replayed: [Parameter<'_>; 6] = [&"terminal-7", &"event-7", &"site", &"published", &"sha-7", &"payload"];
        let plan = plan(&db, &db.store.statements.compare_notification, &replayed).await;
        assert!(!plan.contains("Seq Scan on cms") && !plan.contains("Bitmap"), "{plan}");
        // Most of them the catalog's, where this session judges a row for the first time.
        assert!(pages(&plan) <= 300, "{} pages: {plan}", pages(&plan));
        db.run("vacuum analyze").await;
    }
}
