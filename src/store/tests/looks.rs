//! Looks around destinations without room: what they take, what they pass over, and what they tell of it.

use super::*;

const A: &str = "https://a.example/hook";
const B: &str = "https://b.example/hook";
const FULL: &str = "https://full.example/hook";

/// In their order from the head, with nothing by name.
fn from_head() -> Around {
    Around { after: Position::HEAD, most: 100, named: Vec::new() }
}

fn named(destinations: &[&str]) -> Around {
    Around { most: 0, named: destinations.iter().map(|name| ((*name).into(), Position::HEAD)).collect(), ..from_head() }
}

async fn look(db: &Database, request: &ClaimRequest, around: &Around) -> (Vec<i64>, Seen) {
    let (rows, seen) = db.store.claim_around(request, around, u32::MAX).await.expect("it claims");
    (rows.iter().map(|claimed| claimed.lease().id).collect(), seen)
}

fn names(seen: &Seen) -> Vec<&str> {
    seen.left.iter().map(|(name, _)| name.as_str()).collect()
}

fn ids_left(seen: &Seen) -> Vec<i64> {
    seen.left.iter().map(|(_, first)| first.id).collect()
}

/// All columns that a claim writes, but for the moments themselves.
async fn written(db: &Database, id: i64) -> String {
    let sql = format!(
        "select concat_ws(' ', state, attempt_count, lease_token, lease_expires_at = available_at, \
         lease_expires_at - updated_at, first_attempt_at = updated_at, retry_until - first_attempt_at) \
         from {TABLE} where id = $1"
    );
    db.text(&sql, &[&id]).await
}

#[tokio::test]
async fn a_look_around_grants_what_a_claim_grants() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A, B, "https://c.example:443/x", "https://C.example:4430?x", "nonsense"]).await;
    let (batch, seen) = db.store.claim_around(&request(7), &from_head(), u32::MAX).await.expect("it claims");
    let mut destinations = Vec::new();
    for claimed in &batch {
        let Claimed::Whole { row, facts, .. } = claimed else { panic!("the row is whole") };
        assert_eq!((row.attempt_count, row.encrypted_body.len()), (1, 100));
        assert_eq!((facts.since_first_attempt, facts.until_retry_until.as_secs()), (Duration::ZERO, 86_400));
        assert!(facts.due_for > Duration::from_millis(500));
        destinations.push(facts.destination.as_str());
    }
    assert_eq!(destinations, ["a.example", "b.example", "c.example", "c.example:4430", ""]);
    assert_eq!((seen.scanned, seen.left.len()), (5, 0));
    assert_eq!(seen.last.map(|last| last.id), rows.last().copied());
    assert!(seen.looking < Duration::from_secs(5));
    let others = db.insert(&[A]).await;
    db.claim(7).await;
    assert_eq!(written(&db, rows[0]).await, written(&db, others[0]).await);
    let composed = |claimed: &Claimed| matches!(claimed, Claimed::Whole { facts, .. } if facts.composed);
    assert!(!batch.iter().any(composed));
}

#[tokio::test]
async fn rows_without_room_are_passed_over_and_told_by_the_first_of_each_destination() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[FULL, A, FULL, A, B, A, FULL]).await;
    let mut request = request(1);
    request.rooms = vec![room("full.example", 0), room("a.example", 2)];
    let (taken, seen) = look(&db, &request, &from_head()).await;
    assert_eq!(taken, [rows[1], rows[3], rows[4]]);
    assert_eq!((names(&seen), ids_left(&seen)), (vec!["a.example", "full.example"], vec![rows[5], rows[0]]));
    assert_eq!(db.show(rows[0]).await, "pending 0 - free fresh - -", "a row without room is not touched");
    // From there on, what is in front is not looked at again.
    let around = Around { after: seen.left[0].1.just_before(), ..from_head() };
    request.rooms.clear();
    let (taken, seen) = look(&db, &request, &around).await;
    assert_eq!((taken, seen.scanned), (vec![rows[5], rows[6]], 2));
}

#[tokio::test]
async fn no_more_rows_are_looked_at_in_their_order_than_were_asked_for() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[FULL, FULL, FULL, A]).await;
    let mut request = request(1);
    request.rooms = vec![room("full.example", 0)];
    let around = Around { most: 2, ..from_head() };
    let (taken, seen) = look(&db, &request, &around).await;
    assert_eq!((taken.len(), seen.scanned, ids_left(&seen)), (0, 2, vec![rows[0]]));
    let last = seen.last.expect("some were scanned");
    assert_eq!(last.id, rows[1]);
    let (taken, seen) = look(&db, &request, &Around { after: last, ..around }).await;
    assert_eq!((taken, seen.scanned), (vec![rows[3]], 2));
}

#[tokio::test]
async fn named_destinations_are_taken_from_where_they_were_left_up_to_their_room() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[FULL, A, A, A, B, A, "https://A.example:443/other"]).await;
    let mut request = request(1);
    request.rooms = vec![room("a.example", 2)];
    let (taken, seen) = look(&db, &request, &named(&["a.example", "b.example", "nobody.example"])).await;
    assert_eq!(taken, [rows[1], rows[2], rows[4]]);
    assert_eq!((names(&seen), ids_left(&seen)), (vec!["a.example"], vec![rows[3]]));
    assert_eq!((seen.scanned, seen.last), (0, None));
    let mut around = named(&["a.example"]);
    around.named[0].1 = seen.left[0].1;
    request.rooms.clear();
    let (taken, seen) = look(&db, &request, &around).await;
    assert_eq!((taken, seen.left.len()), (vec![rows[5], rows[6]], 0), "the first left is before the place");
}

#[tokio::test]
async fn what_is_named_is_not_found_twice() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A, B, A]).await;
    let around = Around { most: 100, ..named(&["a.example"]) };
    let (taken, seen) = look(&db, &request(1), &around).await;
    assert_eq!((taken, seen.scanned, seen.left.len()), (rows, 3, 0));
}

#[tokio::test]
async fn whoever_has_the_fewest_in_flight_goes_first() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A, A, A, A, B, B, "https://c.example/"]).await;
    let mut request = request(1);
    request.max_rows = 4;
    request.rooms = vec![DestinationRoom { destination: "b.example".into(), room: 50, in_flight: 1 }];
    let (taken, seen) = look(&db, &request, &from_head()).await;
    assert_eq!(taken, [rows[0], rows[1], rows[4], rows[6]]);
    assert_eq!(ids_left(&seen), [rows[2], rows[5]]);
}

#[tokio::test]
async fn the_byte_budget_of_a_look_around_is_kept_and_what_exceeds_it_is_told() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A, B, A, B]).await;
    let mut small = request(1);
    small.max_bytes = 250;
    let (taken, seen) = look(&db, &small, &from_head()).await;
    assert_eq!((taken, ids_left(&seen)), (vec![rows[0], rows[1]], vec![rows[2], rows[3]]));
    small.max_bytes = 1;
    let (taken, _) = look(&db, &small, &from_head()).await;
    assert_eq!(taken, [rows[2]], "one row is granted whatever its size");
}

#[tokio::test]
async fn a_row_that_somebody_holds_keeps_no_other_from_being_claimed() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 4]).await;
    db.run(&format!("begin; select from {TABLE} where id = {} for update", rows[0])).await;
    let mut request = request(1);
    request.rooms = vec![room("a.example", 1)];
    let (taken, seen) = look(&db, &request, &named(&["a.example"])).await;
    assert_eq!((taken.len(), ids_left(&seen)), (0, vec![rows[1]]), "the look goes on from behind it");
    let mut around = named(&["a.example"]);
    around.named[0].1 = seen.left[0].1.just_before();
    assert_eq!(look(&db, &request, &around).await.0, [rows[1]]);
}

#[tokio::test]
async fn rows_that_are_not_due_are_left_by_every_kind_of_look() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A; 5]).await;
    db.run(&format!("update {TABLE} set available_at = now() + interval '1 hour' where id = {}", rows[0])).await;
    db.outlive(&rows[1..2]).await;
    // An SDK worker's lease, and one that lapsed.
    let lease = |id: i64, end: &str| {
        format!(
            "update {TABLE} set state = 'in_flight', lease_token = 'x', lease_expires_at = now() {end} where id = {id}"
        )
    };
    db.run(&lease(rows[2], "+ interval '1 minute'")).await;
    db.run(&lease(rows[3], "- interval '1 second'")).await;
    let around = Around { most: 100, ..named(&["b.example"]) };
    let mut none = request(1);
    none.rooms = vec![room("a.example", 0)];
    let (_, seen) = look(&db, &none, &around).await;
    assert_eq!((seen.scanned, ids_left(&seen)), (2, vec![rows[3]]));
    let listed = db.store.list_due("", 10, false).await.expect("it lists");
    assert_eq!(listed.iter().map(|one| one.first_due.map(|due| due.id)).collect::<Vec<_>>(), [Some(rows[3])]);
    let (taken, seen) = look(&db, &request(1), &named(&["a.example"])).await;
    assert_eq!((taken, seen.left.len()), (vec![rows[3], rows[4]], 0));
    assert_eq!(db.store.list_due("", 10, false).await.expect("it lists")[0].first_due, None);
}

#[tokio::test]
async fn a_composed_rows_mark_survives_a_look_around() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[A]).await;
    db.run(&format!("update {TABLE} set state = 'in_flight', lease_expires_at = '9999-01-01 00:00:00+00'")).await;
    let (batch, _) = db.store.claim_around(&request(1), &named(&["a.example"]), u32::MAX).await.expect("it claims");
    assert!(matches!(&batch[0], Claimed::Whole { facts, .. } if facts.composed));
    let sql = format!(
        "select (lease_expires_at = '9999-01-01 00:00:00+00' and available_at < now() + interval '2 minutes')::text \
         from {TABLE} where id = $1"
    );
    assert_eq!(db.text(&sql, &[&rows[0]]).await, "true");
}

#[tokio::test]
async fn destinations_are_listed_in_order_with_the_first_row_due_of_each() {
    let db = Database::new(Schema::Ours).await;
    let rows = db.insert(&[B, A, B, "nonsense", "https://c.example/"]).await;
    db.run(&format!("update {TABLE} set available_at = now() + interval '1 hour' where id = {}", rows[4])).await;
    let list = async |from: &str, most: u32| -> Vec<(String, Option<i64>)> {
        let listed = db.store.list_due(from, most, false).await.expect("it lists");
        listed.into_iter().map(|one| (one.destination, one.first_due.map(|due| due.id))).collect()
    };
    let all = [("", Some(rows[3])), ("a.example", Some(rows[1])), ("b.example", Some(rows[0])), ("c.example", None)];
    let all = all.map(|(name, first)| (name.to_owned(), first));
    assert_eq!(list("", 10).await, all);
    assert_eq!(list("", 2).await, all[..2]);
    assert_eq!(list("a.example", 10).await, all[1..]);
    assert_eq!(list("d", 10).await, []);
}

#[tokio::test]
async fn no_url_is_too_long_or_too_strange_for_the_index() {
    let db = Database::new(Schema::Ours).await;
    let long = format!("https://{}/x", "\u{1F600}".repeat(5000));
    let urls =
        [long.as_str(), "", "https://", "https:///x", "https://:443", "https://user:443@h.example:443:443/", "a/b/c/d"];
    db.insert(&urls).await;
    let (batch, _) = db.store.claim_around(&request(1), &from_head(), u32::MAX).await.expect("it claims");
    let destinations: Vec<&str> = batch
        .iter()
        .map(|claimed| match claimed {
            Claimed::Whole { facts, .. } => facts.destination.as_str(),
            Claimed::Broken { .. } => panic!("the row is whole"),
        })
        .collect();
    assert_eq!(destinations[0].chars().count(), 260);
    assert_eq!(destinations[1..], ["", "", "", "", "user:443@h.example:443", "c"]);
}

#[tokio::test]
async fn whether_rows_are_found_by_destination_is_known_from_the_preflight() {
    let db = Database::new(Schema::Ours).await;
    assert!(!db.store.finds_by_destination(), "nothing is known before");
    db.store.preflight().await.expect("it answers");
    assert!(db.store.finds_by_destination());
    db.run(&format!("drop index {TABLE}_destination_idx")).await;
    let findings = db.store.preflight().await.expect("it answers");
    assert_eq!(findings.len(), 1);
    assert!(findings[0].to_string().contains("run `outboxd migrate`"), "{}", findings[0]);
    assert!(!db.store.finds_by_destination());
}
