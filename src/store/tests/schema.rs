//! The files and the schema: every file is used, every statement fits, migrations may be repeated, and the
//! preflight names what is wrong.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::store::migrate::{Missing, Passed, Step, host_files};
use crate::store::preflight::Fact;

fn sql_files(below: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let entries = std::fs::read_dir(root.join(below)).expect("the directory is in the repository");
    entries
        .map(|entry| entry.expect("it can be read").path())
        .map(|path| path.strip_prefix(&root).expect("it is below").with_extension("").display().to_string())
        .collect()
}

async fn migrate(store: &Store) -> Vec<Passed> {
    let mut passed = Vec::new();
    store.migrate(Duration::from_secs(60), |one| passed.push(one)).await.expect("the migrations apply");
    passed
}

/// The steps of the numbered migrations alone.
fn numbered(passed: &[Passed]) -> Vec<&Step> {
    passed.iter().filter(|one| one.file.starts_with('0')).map(|one| &one.step).collect()
}

async fn facts(db: &Database) -> Vec<Fact> {
    db.store.preflight().await.expect("it answers").into_iter().map(|finding| finding.fact).collect()
}

#[test]
fn every_statement_file_is_used_and_says_what_it_is_for() {
    let statements = Statements::render(&table());
    let used: BTreeSet<String> = statements.all().iter().map(|statement| statement.label.to_owned()).collect();
    let rooms = [
        "outbox", "inbox", "registry", "sealed", "replicas", "parking", "scopes", "steer", "ledger", "demo", "history",
    ];
    let files: BTreeSet<String> = rooms.into_iter().flat_map(sql_files).collect();
    assert_eq!(used, files);
    for statement in statements.all() {
        for part in ["-- Purpose: ", "-- Parameters: ", "-- Guard: "] {
            assert!(statement.sql.contains(part), "{} lacks {part}", statement.label);
        }
        assert!(!statement.sql.contains(":\""), "{} keeps a variable", statement.label);
    }
}

#[tokio::test]
async fn every_statement_prepares_with_the_types_that_we_pass() {
    for schema in [Schema::Ours, Schema::Sdk] {
        let db = Database::new(schema).await;
        migrate(&db.store).await;
        for statement in Statements::render(&table()).all() {
            // Making the ledger takes two statements, which cannot be prepared; migrate has run them.
            if statement.label == "ledger/create_ledger" {
                continue;
            }
            let untyped = db.client.prepare(&statement.sql).await.expect(statement.label);
            assert_eq!(untyped.params(), statement.types, "{}", statement.label);
            db.client.prepare_typed(&statement.sql, &statement.types).await.expect(statement.label);
        }
    }
}

#[tokio::test]
async fn migrations_apply_to_nothing_to_an_sdk_made_database_and_twice() {
    for schema in [Schema::Empty, Schema::Sdk, Schema::Ours] {
        let db = Database::new(schema).await;
        let first = migrate(&db.store).await;
        let host = host_files();
        assert_eq!(first.iter().filter(|one| one.step == Step::Applied).count(), first.len() - host.len());
        assert_eq!(first.last().map(|one| (one.file, &one.step)), Some(("grants.sql", &Step::Replaced)));
        assert!(numbered(&migrate(&db.store).await).iter().all(|step| **step == Step::AlreadyThere));
        assert!(db.store.find_missing().await.expect("it answers").is_empty());
        assert_eq!(facts(&db).await, []);
        let ledger = "select string_agg(schema_name || ' ' || outbox_table || ' ' || file, ',' order by version) \
                      from outboxd.migrations where version < 3";
        let expected = format!("public {TABLE} 0001_outbox.sql,public {TABLE} 0002_tasks.sql");
        assert_eq!(db.text(ledger, &[]).await, expected);
    }
}

#[tokio::test]
async fn an_sdk_made_database_lacks_only_what_is_ours() {
    let db = Database::new(Schema::Sdk).await;
    let missing = db.store.find_missing().await.expect("it answers");
    let made: Vec<&Missing> = missing.iter().filter(|one| one.version.is_some_and(|version| version <= 3)).collect();
    assert_eq!(made, [&Missing { version: Some(3), object: format!("index {TABLE}_open_rows_idx") }]);
    let expire = Fact::IndexMissing(crate::store::preflight::IndexUse::Expire);
    let (attempts, audit) = (Fact::AttemptsMissing, Fact::AuditMissing);
    assert_eq!(
        facts(&db).await,
        [Fact::ParkingMissing, audit, attempts, Fact::StorageUntuned, expire, Fact::DestinationIndexMissing]
    );
}

#[tokio::test]
async fn a_dropped_object_is_missing_and_made_again() {
    let db = Database::new(Schema::Ours).await;
    migrate(&db.store).await;
    db.run(&format!("drop index {TABLE}_work_idx; drop table decisioning_tasks cascade")).await;
    let missing: Vec<_> =
        db.store.find_missing().await.expect("it answers").into_iter().map(|missing| missing.object).collect();
    assert!(missing.contains(&format!("index {TABLE}_work_idx")), "{missing:?}");
    assert!(missing.contains(&"table decisioning_tasks".to_owned()), "{missing:?}");
    let again = migrate(&db.store).await;
    assert_eq!(numbered(&again)[..3], [&Step::Applied, &Step::Applied, &Step::AlreadyThere]);
    assert!(db.store.find_missing().await.expect("it answers").is_empty());
}

#[tokio::test]
async fn a_lost_or_altered_host_function_is_told_and_replaced() {
    let db = Database::new(Schema::Ours).await;
    migrate(&db.store).await;
    db.run("create or replace function outboxd.serves() returns text language sql as $$ select 'changed' $$").await;
    let missing = db.store.find_missing().await.expect("it answers");
    let expected = Missing { version: None, object: "function outboxd.serves as of this release".into() };
    assert_eq!(missing, [expected]);
    migrate(&db.store).await;
    assert!(db.store.find_missing().await.expect("it answers").is_empty());
    db.run("drop function outboxd.serves()").await;
    let missing = db.store.find_missing().await.expect("it answers");
    assert_eq!(missing, [Missing { version: None, object: "function outboxd.serves".into() }]);
}

#[tokio::test]
async fn migrators_at_the_same_time_do_not_disturb_each_other() {
    let db = Database::new(Schema::Empty).await;
    let (a, b, c) = tokio::join!(migrate(&db.store), migrate(&db.store), migrate(&db.store));
    let made = [&a, &b, &c].into_iter().flatten().filter(|one| one.step == Step::Applied).count();
    assert_eq!(made, numbered(&a).len(), "each migration was applied by one of them");
}

#[tokio::test]
async fn two_outboxes_in_one_database_have_ledgers_and_indexes_of_their_own() {
    let db = Database::new(Schema::Ours).await;
    migrate(&db.store).await;
    let other = TableName::parse("other_box").expect("a legal name");
    let store = Store::open(&StoreConfig { table: other, ..config(&db.url) }, silent()).expect("it opens");
    let passed = migrate(&store).await;
    assert!(numbered(&passed).iter().all(|step| **step == Step::Applied));
    assert_eq!(
        passed.last().map(|one| one.step.clone()),
        Some(Step::Kept { serving: format!("public.{TABLE}") }),
        "the host functions go on serving the first"
    );
    assert!(store.find_missing().await.expect("it answers").is_empty());
    assert!(store.preflight().await.expect("it answers").is_empty());
    assert!(store.claim_due(&request(1)).await.expect("it claims from its own table").rows.is_empty());
}

#[tokio::test]
async fn the_files_run_in_psql_with_its_own_variables() {
    let db = Database::new(Schema::Empty).await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut command = Command::new(cluster().programs().join("psql"));
    command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &db.url, "-v", "outbox=my_box"]);
    for suffix in [
        "work_idx",
        "retry_until_idx",
        "open_rows_idx",
        "composed",
        "hints",
        "replicas",
        "parked",
        "keys",
        "scopes",
        "scope_keys",
        "scope_keys_idx",
        "destination_idx",
        "ended_idx",
        "attempts",
        "attempts_default",
        "attempts_key_idx",
        "attempts_acc_idx",
        "attempts_at_idx",
        "audit",
        "audit_run_idx",
        "traces",
        "caps",
    ] {
        command.args(["-v", &format!("outbox_{suffix}=my_box_{suffix}")]);
    }
    let mut files: Vec<String> = sql_files("migrations").into_iter().collect();
    files.push("outbox/probe".into());
    for file in files {
        command.arg("-f").arg(root.join(file).with_extension("sql"));
    }
    let output = command.output().expect("psql is beside the server");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let index =
        "select string_agg(indexname, ' ' order by indexname) from pg_indexes where indexname like '%my_box%idx'";
    assert_eq!(
        db.text(index, &[]).await,
        "my_box_attempts_acc_idx my_box_attempts_at_idx my_box_attempts_default_account_id_fired_at_idx \
         my_box_attempts_default_idempotency_key_idx my_box_attempts_default_settled_at_idx my_box_attempts_key_idx \
         my_box_audit_run_idx my_box_destination_idx my_box_ended_idx my_box_open_rows_idx my_box_retry_until_idx my_box_scope_keys_idx my_box_work_idx"
    );
}

#[tokio::test]
async fn the_preflight_refuses_a_table_that_would_lose_rows() {
    let db = Database::new(Schema::Ours).await;
    db.run(&format!("drop table {TABLE}_composed, {TABLE}_traces; alter table {TABLE} set unlogged")).await;
    let findings = db.store.preflight().await.expect("it answers");
    assert_eq!(findings, [Finding { severity: Severity::Refuse, fact: Fact::Unlogged }]);
    db.run(&format!(
        "alter table {TABLE} set logged; alter table {TABLE} rename to box; \
                     create view {TABLE} as select * from box"
    ))
    .await;
    assert!(facts(&db).await.contains(&Fact::NotATable { kind: "v".into() }));
    db.run(&format!("drop view {TABLE}")).await;
    assert_eq!(facts(&db).await, [Fact::TableMissing]);
}

#[tokio::test]
async fn the_preflight_names_columns_checks_and_indexes_that_do_not_fit() {
    let db = Database::new(Schema::Ours).await;
    db.run(&format!(
        "alter table {TABLE} drop column last_error; \
         alter table {TABLE} alter column operation_id type integer using 1; \
         alter table {TABLE} alter column url drop not null; \
         alter table {TABLE} alter column task_type type varchar(80); \
         alter table {TABLE} drop constraint {TABLE}_state_check; \
         alter table {TABLE} drop constraint {TABLE}_envelope_nonce_check; \
         alter table {TABLE} add check (state in ('pending', 'in_flight', 'delivered', 'expired')); \
         drop index {TABLE}_work_idx; \
         create function nothing() returns trigger language plpgsql as 'begin return new; end'; \
         create trigger t before update on {TABLE} for each row execute function nothing()"
    ))
    .await;
    let found = facts(&db).await;
    let operation_id = Fact::ColumnType { column: "operation_id", found: "integer".into(), wanted: "text" };
    assert_eq!(
        found,
        [
            Fact::TriggersOrRules,
            Fact::ColumnNullable { column: "url" },
            operation_id,
            Fact::ColumnMissing { column: "last_error" },
            Fact::Unchecked { column: "envelope_nonce" },
            Fact::StateForbidden { state: "invalid" },
            Fact::IndexMissing(crate::store::preflight::IndexUse::Claim),
        ]
    );
    let lease = Lease { id: 1, token: token(1) };
    let quarantined = [Quarantined { lease, http_status: None, error: String::new() }];
    let error = db.store.settle_quarantined(&quarantined, None).await.expect_err("the column is gone").to_string();
    assert!(error.contains("last_error") && error.contains("42703"), "{error}");
}

#[tokio::test]
async fn the_preflight_names_privileges_that_the_user_lacks() {
    let db = Database::new(Schema::Ours).await;
    let role = db.text("select 'clerk_' || current_database()", &[]).await;
    let columns = "state, attempt_count, available_at, lease_token, lease_expires_at, first_attempt_at, retry_until, \
                   delivered_at, last_http_status, last_error";
    db.run(&format!(
        "create role {role} login; grant select on {TABLE} to {role}; grant update ({columns}) on {TABLE} to {role}; \
         alter table {TABLE} enable row level security"
    ))
    .await;
    let url = db.url.replace("postgres@", &format!("{role}@"));
    let store = Store::open(&config(&url), silent()).expect("it opens");
    let findings = store.preflight().await.expect("it answers");
    let expected = [
        (Severity::Warn, Fact::Undeletable),
        (Severity::Warn, Fact::ComposedUnreadable),
        (Severity::Warn, Fact::ReplicasUnwritable),
        (Severity::Warn, Fact::ParkingUnwritable),
        (Severity::Warn, Fact::AttemptsUnwritable),
        (Severity::Warn, Fact::RowSecurity),
        (Severity::Refuse, Fact::Unwritable { columns: vec!["updated_at"] }),
    ];
    assert_eq!(findings, expected.map(|(severity, fact)| Finding { severity, fact }));
    let error = store.claim_due(&request(1)).await.expect_err("updated_at may not be written");
    assert_eq!(error.kind, Kind::Permission);
    db.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn a_missing_table_is_named() {
    let db = Database::new(Schema::Empty).await;
    let error = db.store.claim_due(&request(1)).await.expect_err("there is no table");
    assert!(matches!(&error.kind, Kind::Schema { sqlstate, .. } if sqlstate == "42P01"), "{error}");
    assert!(error.to_string().contains(TABLE), "{error}");
}
