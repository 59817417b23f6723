//! Claims where accounts have a share: what they leave out, what they tell of it, and by which index.

use super::*;

const A: &str = "https://a.example/hook";
const B: &str = "https://b.example/hook";

impl Database {
    /// Due rows of accounts, oldest first, with the index by account.
    async fn with_accounts(rows: &[(&str, &str)]) -> (Database, Vec<i64>) {
        let db = Database::new(Schema::Ours).await;
        db.run(&db.store.account_index()).await;
        let urls: Vec<&str> = rows.iter().map(|(_, url)| *url).collect();
        let ids = db.insert(&urls).await;
        for (id, (account, _)) in ids.iter().zip(rows) {
            db.client
                .execute(&format!("update {TABLE} set account_id = $1 where id = $2"), &[account, id])
                .await
                .expect("it writes");
        }
        (db, ids)
    }
}

fn shared(number: u8, rooms: &[(&str, u32)], others: u32) -> ClaimRequest {
    let rooms = rooms.iter().map(|(account, room)| ((*account).into(), *room)).collect();
    ClaimRequest { accounts: Some(AccountRooms { rooms, others }), ..request(number) }
}

fn around(most: u32, pairs: &[&str]) -> Around {
    let named = pairs.iter().map(|pair| ((*pair).into(), Position::HEAD)).collect();
    Around { after: Position::HEAD, most, named }
}

async fn look(db: &Database, request: &ClaimRequest, around: &Around, each: u32) -> (Vec<i64>, Vec<(String, i64)>) {
    let (rows, seen) = db.store.claim_around(request, around, each).await.expect("it claims");
    let left = seen.left.into_iter().map(|(pair, first)| (pair, first.id)).collect();
    (rows.iter().map(|claimed| claimed.lease().id).collect(), left)
}

fn left(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
    pairs.iter().map(|(pair, id)| ((*pair).to_owned(), *id)).collect()
}

#[tokio::test]
async fn a_claim_from_the_head_leaves_an_account_its_share_and_no_more() {
    let (db, ids) = Database::with_accounts(&[("x", A), ("x", B), ("x", A), ("y", A), ("z", B)]).await;
    let taken = async |request: &ClaimRequest| -> Vec<i64> {
        let found = db.store.claim_due(request).await.expect("it claims");
        found.rows.iter().map(|claimed| claimed.lease().id).collect()
    };
    assert_eq!(taken(&shared(1, &[("y", 0)], 1)).await, [ids[0], ids[4]]);
    assert_eq!(taken(&shared(1, &[("x", 0)], 100)).await, [ids[3]]);
    assert_eq!(taken(&request(1)).await, [ids[1], ids[2]], "without shares nobody is left out");
}

#[tokio::test]
async fn rows_are_left_by_account_and_destination_and_taken_up_by_both() {
    let (db, ids) = Database::with_accounts(&[("x", A), ("x", A), ("y", A), ("x", B), ("y", B)]).await;
    let (taken, behind) = look(&db, &shared(1, &[("x", 1)], 9), &around(100, &[]), 100).await;
    assert_eq!(
        (taken, behind),
        (vec![ids[0], ids[2], ids[4]], left(&[("a.example/x", ids[1]), ("b.example/x", ids[3])]))
    );
    let named = around(0, &["a.example/x", "b.example/x", "b.example/nobody"]);
    let mut full = shared(1, &[("x", 5)], 9);
    full.rooms = vec![room("a.example", 0)];
    let (taken, behind) = look(&db, &full, &named, 100).await;
    assert_eq!((taken, behind), (vec![ids[3]], left(&[("a.example/x", ids[1])])));
    assert_eq!(look(&db, &shared(1, &[], 9), &named, 100).await, (vec![ids[1]], Vec::new()));
}

#[tokio::test]
async fn accounts_take_turns_at_a_destination_and_neither_room_is_exceeded() {
    let (db, ids) = Database::with_accounts(&[("x", A), ("x", A), ("x", A), ("y", A), ("y", B), ("y", B)]).await;
    let mut tight = shared(1, &[("y", 2)], 9);
    tight.rooms = vec![room("a.example", 3)];
    let (taken, behind) = look(&db, &tight, &around(100, &[]), 100).await;
    // Of x the first two, and of y the first of each destination.
    assert_eq!(taken, [ids[0], ids[1], ids[3], ids[4]]);
    assert_eq!(behind, left(&[("a.example/x", ids[2]), ("b.example/y", ids[5])]));
}

#[tokio::test]
async fn of_those_that_are_named_each_takes_no_more_than_it_may_and_is_not_found_twice() {
    let (db, ids) = Database::with_accounts(&[("x", A), ("x", A), ("x", A), ("y", A)]).await;
    let (taken, behind) = look(&db, &shared(1, &[], 9), &around(100, &["a.example/x"]), 2).await;
    assert_eq!((taken, behind), (vec![ids[0], ids[1], ids[3]], left(&[("a.example/x", ids[2])])));
}

#[tokio::test]
async fn a_row_for_which_both_have_room_is_found_whatever_stands_before_it() {
    let mut rows = vec![("full", A); 50];
    rows.extend([("other", A), ("other", B)]);
    let (db, ids) = Database::with_accounts(&rows).await;
    let mut request = shared(1, &[("full", 0)], 1);
    request.rooms = vec![room("a.example", 1)];
    assert_eq!(look(&db, &request, &around(100, &[]), 100).await.0, [ids[50]]);
}

#[tokio::test]
async fn no_account_is_too_long_or_too_strange() {
    let long = "\u{1F600}".repeat(3000);
    let names = [long.as_str(), "", "a/b", "x y"];
    let rows: Vec<(&str, &str)> = names.iter().map(|name| (*name, A)).collect();
    let (db, ids) = Database::with_accounts(&rows).await;
    let listed = db.store.list_due("", 10, true).await.expect("it lists");
    let names: Vec<&str> = listed.iter().map(|one| one.destination.as_str()).collect();
    let cut = format!("a.example/{}", "\u{1F600}".repeat(200));
    assert_eq!(names, ["a.example/", "a.example/a/b", "a.example/x y", cut.as_str()]);
    let (taken, _) = look(&db, &shared(1, &[("a/b", 0)], 9), &around(0, &names), 9).await;
    assert_eq!(taken, [ids[0], ids[1], ids[3]]);
    assert_eq!(
        db.store.list_due("a.example/a/b", 1, true).await.expect("it lists")[0].first_due.map(|due| due.id),
        Some(ids[2])
    );
}

#[tokio::test]
async fn whether_accounts_are_found_is_known_from_the_preflight_and_the_statement_helps() {
    let db = Database::new(Schema::Ours).await;
    assert_eq!(db.store.preflight().await.expect("it answers"), []);
    assert!(!db.store.finds_by_account());
    let statement = db.store.account_index();
    assert!(statement.starts_with("create index concurrently") && !statement.contains('\n'), "{statement}");
    for _ in 0..2 {
        db.run(&statement).await;
    }
    db.store.preflight().await.expect("it answers");
    assert!(db.store.finds_by_account());
}
