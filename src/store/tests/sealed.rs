//! The places where something lies sealed: what is listed and read, what is replaced and what is left alone, and the list
//! of replicas.

use super::*;

const OUTBOX: &Place = &Place::ALL[1];
const REGISTRATIONS: &Place = &Place::ALL[0];
const MARK: &str = "9999-01-01 00:00:00+00";

fn replacement(key: &str) -> Replacement {
    Replacement {
        key: key.into(),
        was: b"twelve bytes".to_vec(),
        ciphertext: b"sealed again".to_vec(),
        nonce: b"another none".to_vec(),
        fingerprint: "old".into(),
    }
}

impl Database {
    async fn listed(&self, place: &Place) -> Vec<String> {
        let mut keys = Vec::new();
        let mut after = Some(String::new());
        while let Some(from) = after {
            let listed = self.store.list_sealed(place, &from).await.expect("it lists");
            keys.extend(listed.keys);
            after = listed.after;
        }
        keys
    }

    async fn resealed(&self, place: &Place, keys: &[String]) -> Vec<String> {
        let items: Vec<Replacement> = keys.iter().map(|key| replacement(key)).collect();
        let mut done = self.store.reseal(place, &items).await.expect("it works");
        done.sort_unstable_by_key(|key| keys.iter().position(|one| one == key));
        done
    }
}

fn texts(ids: &[i64]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn every_place_is_known_by_its_name_in_the_catalog_question() {
    let db = Database::new(Schema::Ours).await;
    for place in &Place::ALL {
        assert_eq!(db.store.find_place(place).await, Ok(Access::Writable), "{}", place.name);
    }
    db.run("drop table decisioning_tasks cascade").await;
    assert_eq!(db.store.find_place(REGISTRATIONS).await, Ok(Access::Absent));
    let role = db.text("select 'sealer_' || current_database()", &[]).await;
    db.run(&format!("create role {role} login; grant select on {TABLE} to {role}")).await;
    let store = Store::open(&config(&db.url.replace("postgres@", &format!("{role}@"))), silent()).expect("it opens");
    assert_eq!(store.find_place(OUTBOX).await, Ok(Access::Readable));
    db.run(&format!("revoke select on {TABLE} from {role}")).await;
    assert_eq!(store.find_place(OUTBOX).await, Ok(Access::Forbidden));
    db.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn only_open_rows_without_a_live_lease_are_replaced_and_only_what_was_read() {
    let db = Database::new(Schema::Ours).await;
    let ids = db.insert(&["https://h.example/x"; 12]).await;
    let set = async |nth: usize, what: &str| {
        db.run(&format!("update {TABLE} set {what} where id = {}", ids[nth])).await;
    };
    let soon = "now() + interval '1 minute'";
    set(1, &format!("state = 'in_flight', lease_token = 't', lease_expires_at = {soon}, available_at = {soon}")).await;
    set(2, "state = 'in_flight', lease_token = 't', lease_expires_at = now() - interval '1 second'").await;
    set(3, &format!("state = 'in_flight', lease_expires_at = '{MARK}', available_at = {soon}")).await;
    set(4, &format!("state = 'in_flight', lease_expires_at = '{MARK}', lease_token = 't', available_at = {soon}"))
        .await;
    set(5, &format!("state = 'in_flight', lease_expires_at = '{MARK}', lease_token = 't', available_at = now()")).await;
    set(6, "state = 'delivered'").await;
    set(7, "state = 'expired'").await;
    set(8, "state = 'invalid'").await;
    set(9, "envelope_nonce = convert_to('others nonce', 'UTF8')").await;
    set(10, "state = 'in_flight', lease_token = 't', lease_expires_at = null").await;
    let before = format!(
        "select md5(string_agg((to_jsonb(o) - 'encrypted_body' - 'envelope_nonce')::text, '' order by id)) \
                          from {TABLE} as o"
    );
    let rest = db.text(&before, &[]).await;
    let locker = connect(&db.url).await;
    locker
        .batch_execute(&format!("begin; select from {TABLE} where id = {} for update", ids[11]))
        .await
        .expect("it locks");
    let keys = texts(&ids);
    let replaced = db.resealed(OUTBOX, &keys).await;
    let expected: Vec<String> = [0, 2, 3, 5, 10].iter().map(|nth: &usize| keys[*nth].clone()).collect();
    assert_eq!(replaced, expected);
    assert_eq!(db.text(&before, &[]).await, rest, "another column was touched");
    assert!(db.resealed(OUTBOX, &keys).await.is_empty(), "what was replaced has another nonce");
    let noted = "select string_agg(fingerprint || ' ' || (newest_row_at > now() - interval '1 minute'), ',') \
                 from adcp_task_webhook_outbox_keys";
    assert_eq!(db.text(noted, &[]).await, "old true");
}

/// On the same page and with nothing changed that an index holds, which the test before this one sees, Postgres writes no
/// index entry.
#[tokio::test]
async fn a_row_that_is_replaced_stays_on_its_page_where_there_is_room() {
    let db = Database::new(Schema::Ours).await;
    db.run(&format!("alter table {TABLE} set (fillfactor = 40, autovacuum_enabled = off)")).await;
    let ids = db.insert(&["https://h.example/x"; 40]).await;
    let pages = format!("select string_agg(((ctid::text::point)[0])::text, ' ' order by id) from {TABLE}");
    let before = db.text(&pages, &[]).await;
    assert_eq!(db.resealed(OUTBOX, &texts(&ids)).await.len(), 40);
    assert_eq!(db.text(&pages, &[]).await, before);
}

#[tokio::test]
async fn what_is_listed_are_open_rows_by_id_and_tasks_with_a_registration() {
    let db = Database::new(Schema::Ours).await;
    let ids = db.insert(&["https://h.example/x"; 5]).await;
    // Neither time nor state changes the order.
    db.run(&format!("update {TABLE} set available_at = now() + interval '1 day' where id = {}", ids[0])).await;
    db.run(&format!("update {TABLE} set state = 'delivered' where id = {}", ids[2])).await;
    let expected: Vec<String> = [0, 1, 3, 4].iter().map(|nth: &usize| ids[*nth].to_string()).collect();
    assert_eq!(db.listed(OUTBOX).await, expected);
    db.run(
        "insert into decisioning_tasks (task_id, account_id, task_type, created_at, updated_at, webhook_registration, \
         webhook_registration_nonce) \
         select 'task_' || lpad(n::text, 6, '0'), 'a', 't', 1, 1, case when n % 1000 = 0 then '\\x00'::bytea end, \
         convert_to('twelve bytes', 'UTF8') from generate_series(1, 45000) as n",
    )
    .await;
    let listed = db.listed(REGISTRATIONS).await;
    let expected: Vec<String> = (1..=45).map(|n| format!("task_{:06}", n * 1000)).collect();
    assert_eq!(listed, expected);
    assert_eq!(db.resealed(REGISTRATIONS, &listed[..3]).await, &listed[..3]);
    let noted = "select extract(year from newest_row_at at time zone 'UTC')::text from adcp_task_webhook_outbox_keys";
    assert_eq!(db.text(noted, &[]).await, "1970");
}

#[tokio::test]
async fn large_rows_wait_for_a_batch_with_room_and_too_large_ones_are_not_fetched() {
    let db = Database::new(Schema::Ours).await;
    let ids = db.insert(&["https://h.example/x"; 4]).await;
    db.run(&format!(
        "alter table {TABLE} alter encrypted_body set storage external; \
         update {TABLE} set encrypted_body = convert_to(repeat('x', 16777217), 'UTF8') where id = {}",
        ids[3]
    ))
    .await;
    let keys = texts(&ids);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let shape = |items: Vec<SealedItem>| -> String {
        let letter = |item: SealedItem| match item.content {
            Content::Whole { .. } => 'w',
            Content::NoRoom => '-',
            Content::Unusable => 'u',
        };
        items.into_iter().map(letter).collect()
    };
    let read =
        async |keys: &[&str], bytes| shape(db.store.read_sealed_items(OUTBOX, keys, bytes).await.expect("it reads"));
    assert_eq!(read(&keys, 200).await, "ww-u");
    assert_eq!(read(&keys, 1).await, "w--u");
    assert_eq!(read(&keys[3..], 1 << 24).await, "u");
    assert_eq!(shape(db.store.read_newest("", 2, 1 << 24).await.expect("it reads")), "u-");
    assert_eq!(shape(db.store.read_newest(keys[3], 2, 1 << 24).await.expect("it reads")), "ww");
}

#[tokio::test]
async fn the_daemons_role_may_seal_again_and_write_itself_down_and_may_not_change_where_rows_go() {
    let db = Database::new(Schema::Ours).await;
    let user = db.text("select 'daemon_' || current_database()", &[]).await;
    db.run(&format!("create role {user} login in role outboxd_daemon")).await;
    let url = db.url.replace("postgres@", &format!("{user}@"));
    let store = Store::open(&config(&url), silent()).expect("it opens");
    for place in &Place::ALL {
        assert_eq!(store.find_place(place).await, Ok(Access::Writable), "{}", place.name);
        store.list_sealed(place, "").await.expect(place.name);
        store.read_sealed_items(place, &["1"], 1).await.expect(place.name);
        store.reseal(place, &[replacement("1")]).await.expect(place.name);
    }
    store.read_newest("", 1, 1).await.expect("it may look");
    store.list_key_uses().await.expect("it may look");
    assert_eq!(store.record_replica(&replica("r1")).await, Ok(Some(1)));
    store.leave_replicas("r1").await.expect("it may leave");
    let client = connect(&url).await;
    let moved = client.execute(&format!("update {TABLE} set url = 'https://elsewhere.example'"), &[]).await;
    assert!(moved.is_err());
    assert!(client.execute("select result from decisioning_tasks", &[]).await.is_err());
    db.run(&format!("drop owned by {user}; drop role {user}")).await;
}

fn replica(name: &str) -> NewReplica<'_> {
    NewReplica {
        replica: name,
        host: "host",
        pid: 7,
        version: "0.0.0",
        envelope_keys: vec!["new".into(), "old".into()],
        signing_kids: vec!["kid".into()],
    }
}

#[tokio::test]
async fn a_replica_is_listed_while_it_is_seen_and_forgotten_after_a_day() {
    let db = Database::new(Schema::Ours).await;
    let list = async || {
        let replicas = db.store.list_replicas().await.expect("it lists").expect("there is a list");
        replicas.into_iter().map(|replica| replica.replica).collect::<Vec<String>>()
    };
    for (name, alive) in [("r1", 1), ("r2", 2), ("r3", 3), ("r1", 3)] {
        assert_eq!(db.store.record_replica(&replica(name)).await, Ok(Some(alive)));
    }
    assert_eq!(list().await, ["r1", "r2", "r3"]);
    let age = async |name: &str, by: &str| {
        db.run(&format!("update {TABLE}_replicas set seen_at = seen_at - interval '{by}' where replica = '{name}'"))
            .await;
    };
    age("r1", "61 seconds").await;
    age("r2", "2 days").await;
    age("r3", "2 days").await;
    assert_eq!(list().await, [] as [&str; 0]);
    assert_eq!(db.store.record_replica(&replica("r2")).await, Ok(Some(1)), "it was suspended for days");
    assert_eq!(list().await, ["r2"]);
    let kept = format!("select string_agg(replica, ' ' order by replica) from {TABLE}_replicas");
    assert_eq!(db.text(&kept, &[]).await, "r1 r2");
    db.store.leave_replicas("r2").await.expect("it leaves");
    assert_eq!(db.text(&kept, &[]).await, "r1");
}

#[tokio::test]
async fn a_schema_of_before_the_list_has_no_replicas_and_takes_none() {
    let db = Database::new(Schema::Sdk).await;
    assert_eq!(db.store.list_replicas().await, Ok(None));
    assert_eq!(db.store.record_replica(&replica("r1")).await, Ok(None));
    assert_eq!(db.store.leave_replicas("r1").await, Ok(()));
}
