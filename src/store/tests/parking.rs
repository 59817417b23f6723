//! The list of parked destinations: whose word counts, who probes, and who may look.

use super::*;
use crate::store::parking::{NewParked, ProbeAnswer};

const NAME: &str = "buyer.example.com";
const LASTS: Duration = Duration::from_secs(15);

fn parked(destination: &str, seconds: f64) -> NewParked<'_> {
    NewParked { destination, seconds, reason: "timeout", trips: 2 }
}

impl Database {
    async fn park(&self, seconds: f64, replica: &str) {
        self.store.park_destinations(&[parked(NAME, seconds)], replica).await.expect("it writes");
    }

    /// Whether a replica won, and for how many whole seconds it has to wait where not.
    async fn probe(&self, replica: &str) -> (bool, u64) {
        let asked = [NAME.to_owned()];
        let mut answers = self.store.claim_probes(&asked, replica, LASTS).await.expect("it answers");
        let ProbeAnswer { destination, won, left } = answers.pop().expect("each is answered");
        assert_eq!((destination.as_str(), answers.len()), (NAME, 0));
        (won, left.as_secs_f64().ceil() as u64)
    }

    /// For how many seconds, rounded up, a replica has to leave it alone; nothing where it is not listed.
    async fn left(&self, replica: &str) -> Option<u64> {
        let list = self.store.read_parked(10, replica).await.expect("it reads");
        list.first().map(|one| one.left.as_secs_f64().ceil() as u64)
    }

    /// As though the pause of every destination had just passed.
    async fn over(&self) {
        self.run(&format!("update {TABLE}_parked set parked_until = clock_timestamp()")).await;
    }
}

#[tokio::test]
async fn a_pause_is_never_shortened_and_ends_a_probe() {
    let db = Database::new(Schema::Ours).await;
    db.park(60.0, "a").await;
    db.park(5.0, "b").await;
    assert_eq!(db.left("c").await, Some(60));
    db.over().await;
    assert_eq!(db.probe("a").await, (true, 0));
    db.park(4.0, "a").await;
    assert_eq!((db.left("a").await, db.left("b").await), (Some(4), Some(4)), "nobody waits for the probe any more");
    let kept = format!("select concat_ws(' ', reason, trips, replica, since < parked_until) from {TABLE}_parked");
    assert_eq!(db.text(&kept, &[]).await, "timeout 2 a t");
}

#[tokio::test]
async fn one_replica_probes_and_the_others_wait_for_it() {
    let db = Database::new(Schema::Ours).await;
    assert_eq!(db.probe("a").await, (true, 0), "what is not listed may be tried");
    db.park(30.0, "a").await;
    assert_eq!(db.probe("a").await, (false, 30));
    db.over().await;
    assert_eq!(db.probe("b").await, (true, 0));
    assert_eq!(db.probe("a").await, (false, 15));
    assert_eq!(db.probe("b").await, (true, 0), "its own turn, with another row");
    assert_eq!((db.left("a").await, db.left("b").await), (Some(15), Some(0)));
    db.run(&format!("update {TABLE}_parked set probe_until = clock_timestamp()")).await;
    assert_eq!(db.probe("a").await, (true, 0), "whoever probes and says nothing loses its turn");
}

#[tokio::test]
async fn replicas_that_probe_in_the_same_moment_have_one_winner() {
    let db = Database::new(Schema::Ours).await;
    for _ in 0..20 {
        db.park(1.0, "a").await;
        db.over().await;
        let names = ["a", "b", "c", "d"];
        let won = futures_util::future::join_all(names.map(|replica| db.probe(replica))).await;
        assert_eq!(won.iter().filter(|(won, _)| *won).count(), 1, "{won:?}");
        db.run(&format!("delete from {TABLE}_parked")).await;
    }
}

#[tokio::test]
async fn a_destination_that_answered_is_let_go_unless_somebody_knows_better() {
    let db = Database::new(Schema::Ours).await;
    db.park(30.0, "a").await;
    let let_go = async |replica| db.store.let_go_destinations(&[NAME], replica).await.expect("it answers");
    let_go("a").await;
    assert_eq!(db.left("a").await, Some(30), "it was parked since");
    db.over().await;
    assert!(db.probe("b").await.0);
    let_go("a").await;
    assert_eq!(db.left("a").await, Some(15), "another tries it");
    let_go("b").await;
    assert_eq!(db.left("a").await, None);
}

#[tokio::test]
async fn what_nobody_came_back_to_is_forgotten_and_nothing_else() {
    let db = Database::new(Schema::Ours).await;
    db.store.park_destinations(&[parked("old", 1.0), parked("new", 1.0)], "a").await.expect("it writes");
    db.run(&format!(
        "update {TABLE}_parked set parked_until = now() - interval '61 minutes' where destination = 'old'"
    ))
    .await;
    db.store.forget_parked().await.expect("it answers");
    assert_eq!(db.text(&format!("select string_agg(destination, ' ') from {TABLE}_parked"), &[]).await, "new");
}

#[tokio::test]
async fn an_operator_is_shown_what_is_parked_and_what_waits() {
    let db = Database::new(Schema::Ours).await;
    db.insert(&["https://buyer.example.com/a", "https://Other.example.com:8443/b", "https://other.example.com:8443/c"])
        .await;
    db.store.park_destinations(&[parked(NAME, 9.5), parked("gone.example.com", 1.0)], "a").await.expect("it writes");
    let (shown, are_more) = db.store.list_destinations(10, 100, 10).await.expect("it answers");
    let told: Vec<(&str, u64, bool)> =
        shown.iter().map(|one| (one.destination.as_str(), one.due, one.parked.is_some())).collect();
    let other = ("other.example.com:8443", 2, false);
    assert_eq!(told, [(NAME, 1, true), ("gone.example.com", 0, true), other]);
    let one = shown[0].parked.as_ref().expect("it is parked");
    assert_eq!((one.reason.as_str(), one.trips, one.replica.as_str(), &one.prober), ("timeout", 2, "a", &None));
    assert!(one.left > Duration::from_secs(9) && one.since < Duration::from_secs(5), "{one:?}");
    assert!(!are_more && shown.iter().all(|one| !one.is_more));
    // Who is parked is shown however few are looked at.
    let (shown, are_more) = db.store.list_destinations(1, 100, 10).await.expect("it answers");
    assert_eq!((shown.len(), are_more), (1, true));
    db.insert(&["https://other.example.com:8443/x"; 20]).await;
    let (shown, _) = db.store.list_destinations(10, 1, 10).await.expect("it answers");
    let other = shown.iter().find(|one| one.parked.is_none()).expect("it has rows due");
    assert_eq!(
        (other.due, other.is_more),
        (10, true),
        "no more are counted than were asked for, and no fewer than ten"
    );
    assert_eq!(db.store.release_by_hand(NAME, "why", "me").await, Ok(true));
    assert_eq!(db.store.release_by_hand(NAME, "why", "me").await, Ok(false));
}

#[tokio::test]
async fn the_daemons_role_keeps_the_list_and_the_readers_looks_at_it() {
    let db = Database::new(Schema::Ours).await;
    for (part, shares) in [("daemon", true), ("reader", false)] {
        let role = db.text("select $1 || '_' || current_database()", &[&part]).await;
        db.run(&format!("create role {role} login; grant outboxd_{part} to {role}")).await;
        let store =
            Store::open(&config(&db.url.replace("postgres@", &format!("{role}@"))), silent()).expect("it opens");
        assert_eq!(store.shares_parking().await, Ok(shares));
        assert_eq!(store.read_parked(10, "a").await, Ok(Vec::new()));
        let written = store.park_destinations(&[parked(NAME, 1.0)], "a").await;
        assert_eq!(written.is_ok(), shares, "{written:?}");
        db.run(&format!("drop owned by {role}; drop role {role}; delete from {TABLE}_parked")).await;
    }
    let sdk = Database::new(Schema::Sdk).await;
    assert_eq!(sdk.store.shares_parking().await, Ok(false));
}
