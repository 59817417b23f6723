//! The indexes that an operator may make for listing: the same is listed with and without, and what each look goes by.

use std::sync::Mutex;

use super::list_plans::make_list_indexes;
use super::plans::{HORIZON_AHEAD, LONG_AGO, fill};
use super::*;

const A: &str = "https://a.example/hook";
const B: &str = "https://B.example:443/hook?secret=1";

/// A store that writes down which statements it ran.
fn observed(db: &Database) -> (Store, Arc<Mutex<Vec<&'static str>>>) {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let seen = ran.clone();
    let observer: Observer = Arc::new(move |one| seen.lock().expect("nobody panics").push(one.statement));
    (Store::open(&config(&db.url), observer).expect("a good configuration"), ran)
}

/// One page, and by which statements it was found, each once.
async fn look(db: &Database, filter: &Filter) -> (Page, Vec<&'static str>) {
    let (store, ran) = observed(db);
    let page = store.list_rows(filter, None, 50).await.expect("it lists");
    let mut ran: Vec<&'static str> = ran.lock().expect("nobody panics").clone();
    ran.dedup();
    (page, ran)
}

fn of_account(account: &str) -> Filter {
    Filter { account: Some(account.to_owned()), ..Filter::default() }
}

fn to_destination(destination: &str) -> Filter {
    Filter { destination: Some(destination.to_owned()), ..Filter::default() }
}

/// All pages: their rows, and what each goes on below.
async fn pages_of(db: &Database, filter: &Filter, limit: u32) -> Vec<(Vec<ShownRow>, Option<i64>)> {
    let (mut pages, mut below) = (Vec::new(), None);
    loop {
        let page = db.store.list_rows(filter, below, limit).await.expect("it lists");
        below = page.below;
        let ageless = |row| ShownRow { age: Duration::ZERO, next_in: None, ..row };
        pages.push((page.rows.into_iter().map(ageless).collect(), below));
        if below.is_none() {
            return pages;
        }
    }
}

/// Longer than an index page, and not to be packed into one either.
fn long() -> String {
    (0..10_000).map(|nth: u32| char::from_u32(0x4E00 + nth * 7919 % 20_000).expect("it is a letter")).collect()
}

#[tokio::test]
async fn the_same_rows_come_in_the_same_pages_whichever_indexes_there_are() {
    let db = Database::new(Schema::Ours).await;
    db.insert(&[A, A, B, "https://c.example:8443/x", B, A, ""].repeat(100)).await;
    let twin = format!("{}z", long());
    db.run(&format!(
        "update {TABLE} set account_id = (array['big', 'x', 'big', '', 'it''s', 'X', 'big', 'big '])[id % 8 + 1]; \
         update {TABLE} set account_id = '{}' where id % 50 = 7; update {TABLE} set account_id = '{twin}' where id % 50 = 8; \
         update {TABLE} set state = 'delivered' where id % 3 > 0; \
         update {TABLE} set state = 'invalid', last_error = 'http_gone' where id % 20 = 1",
        long()
    ))
    .await;
    let accounts = ["big", "x", "X", "", "it's", "big ", "nobody", twin.as_str(), &long(), &long()[..600]];
    let mut filters: Vec<Filter> = accounts.into_iter().map(of_account).collect();
    filters.extend(["a.example", "b.example", "c.example:8443", "c.example", "", "B.example"].map(to_destination));
    let both = Filter { account: Some("big".into()), ..to_destination("b.example") };
    let ended = vec![RowState::Expired, RowState::Invalid];
    let open = vec![RowState::Pending, RowState::InFlight];
    filters.extend([
        Filter { states: ended, ..both.clone() },
        Filter { states: open, ..both.clone() },
        Filter { states: vec![RowState::Delivered], ..both.clone() },
        Filter { code: Some("http_gone".into()), ..both.clone() },
        Filter { older_than: Some(Duration::from_secs(86_400)), ..both.clone() },
        both,
    ]);
    let listed = async || {
        let mut all = Vec::new();
        for filter in &filters {
            for limit in [1, 7, 1000] {
                all.push((filter.clone(), limit, pages_of(&db, filter, limit).await));
            }
        }
        all
    };
    let without = listed().await;
    let most = without.iter().map(|(_, _, pages)| pages.len()).max();
    assert!(most > Some(200), "{most:?}: there are pages to speak of");
    let statements = &db.store.statements;
    for making in [&statements.index_list_accounts.sql, &statements.index_list_destinations.sql] {
        db.run(making).await;
        for (with, without) in listed().await.iter().zip(&without) {
            assert_eq!(with, without);
        }
    }
    // And by the second alone.
    db.run(&format!("drop index {TABLE}_list_account_idx")).await;
    assert_eq!(listed().await, without);
}

#[tokio::test]
async fn nothing_that_a_host_writes_is_too_long_for_an_index() {
    let db = Database::new(Schema::Ours).await;
    make_list_indexes(&db).await;
    let rows = db.insert(&[A, &format!("https://{}/x", long()), B]).await;
    let twin = format!("{}z", long());
    for (id, account) in rows.iter().zip([long(), twin.clone(), "\u{1F600}".repeat(10_000)]) {
        let renamed = format!("update {TABLE} set account_id = $1 where id = $2");
        db.client.execute(&renamed, &[&account, id]).await.expect("it fits");
        let (page, ran) = look(&db, &of_account(&account)).await;
        assert_eq!(page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), [*id]);
        assert!(ran.contains(&"outbox/list_by_account"), "{ran:?}");
    }
    let cut: String = long().chars().take(260).collect();
    assert_eq!(look(&db, &to_destination(&cut)).await.0.rows.len(), 1);
}

#[tokio::test]
async fn a_long_look_names_the_index_that_is_missing_and_one_that_is_not_valid_is_not_gone_by() {
    let db = Database::new(Schema::Ours).await;
    fill(&db, 120_000, "delivered", LONG_AGO, HORIZON_AHEAD).await;
    let cases = [
        (of_account("nobody"), ListedBy::Account, "list_account_idx", "outbox/list_by_account"),
        (to_destination("nobody.example"), ListedBy::Destination, "list_dest_idx", "outbox/list_by_destination"),
    ];
    for (filter, by, index, statement) in cases {
        let (page, ran) = look(&db, &filter).await;
        assert_eq!(ran, ["outbox/find_list_indexes", "outbox/list_rows"]);
        let missed = page.missed.expect("it was long");
        assert_eq!((missed.looked, missed.by, missed.drop), (120_000, by, None));
        let begins = format!("create index concurrently if not exists \"{TABLE}_{index}\" on public.\"{TABLE}\" (");
        assert!(missed.create.starts_with(&begins) && !missed.create.contains('\n'), "{}", missed.create);
        for _ in 0..2 {
            db.run("set search_path = pg_temp").await;
            db.run(&missed.create).await;
        }
        let (page, ran) = look(&db, &filter).await;
        assert_eq!((page.missed, ran), (None, vec!["outbox/find_list_indexes", statement]));

        let broken =
            format!("update pg_index set indisvalid = false where indexrelid = 'public.{TABLE}_{index}'::regclass");
        db.run(&broken).await;
        let (page, ran) = look(&db, &filter).await;
        assert_eq!(ran, ["outbox/find_list_indexes", "outbox/list_rows"]);
        let missed = page.missed.expect("it was long");
        db.run(&missed.drop.expect("one is in the way")).await;
        db.run(&missed.create).await;
        assert_eq!(look(&db, &filter).await.0.missed, None);
    }
    // Who finds a page of rows soon is told nothing, and nobody is whom no index would serve.
    db.run(&format!("drop index public.{TABLE}_list_account_idx")).await;
    assert_eq!(look(&db, &of_account("a")).await.0.missed, None);
    let old = Filter { older_than: Some(Duration::from_secs(86_400)), ..Filter::default() };
    assert_eq!(look(&db, &old).await.0.missed, None);
}

#[tokio::test]
async fn open_rows_for_a_destination_are_found_however_many_others_are_open() {
    let db = Database::new(Schema::Ours).await;
    let first = db.insert(&["https://other.example/x"; 3]).await;
    fill(&db, 25_000, "pending", LONG_AGO, HORIZON_AHEAD).await;
    let open = Filter { states: vec![RowState::Pending, RowState::InFlight], ..to_destination("other.example") };
    let (page, ran) = look(&db, &open).await;
    assert_eq!(ran, ["outbox/find_list_indexes", "outbox/list_open_by_destination"]);
    assert_eq!(page.rows.iter().rev().map(|row| row.id).collect::<Vec<_>>(), first);
    db.run(&format!("drop index {TABLE}_destination_idx")).await;
    let (slow, ran) = look(&db, &open).await;
    assert_eq!(ran, ["outbox/find_list_indexes", "outbox/list_open", "outbox/list_rows"]);
    assert_eq!(slow.rows.len(), page.rows.len());
}

#[tokio::test]
async fn the_longest_name_of_a_table_leaves_room_for_those_of_its_indexes() {
    let db = Database::new(Schema::Empty).await;
    let table = TableName::parse(&"a".repeat(45)).expect("a legal name");
    let store = Store::open(&StoreConfig { table, ..config(&db.url) }, silent()).expect("it opens");
    store.migrate(Duration::from_secs(60), |_| {}).await.expect("the migrations apply");
    let absent = store.find_list_indexes().await.expect("it answers");
    for by in [ListedBy::Account, ListedBy::Destination] {
        assert!(!absent.serve(by));
        db.run(&store.missed_index(by, &absent, 1).create).await;
        assert!(store.find_list_indexes().await.expect("it answers").serve(by), "{by:?}");
    }
}
