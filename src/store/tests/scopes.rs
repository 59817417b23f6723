//! The table of signing scopes: what is written is read, what did not change is not read again, and what must not be
//! overwritten is not.

use super::*;
use crate::store::scopes::Written;
use crate::store::{ChangedScope, ClientDraft, KeyDraft, Retired, ScopeDraft, StoredKey, StoredScope};

const NOW: f64 = 1_800_000_000.0;
const BOTH: Written = Written { scope: true, key: true };

fn key(key_id: &str, thumbprint: &str, window: (Option<f64>, Option<f64>)) -> Option<KeyDraft> {
    let (not_before, not_after) = window;
    let key = StoredKey { key_id: key_id.into(), not_before, not_after, sealed: vec![1; 40], nonce: vec![2; 12] };
    Some(KeyDraft { thumbprint: thumbprint.into(), key })
}

fn draft(scope: &str, key: Option<KeyDraft>) -> ScopeDraft<'_> {
    ScopeDraft { scope, algorithms: Some(vec!["ed25519"]), client: ClientDraft::Leave, key }
}

async fn migrated() -> Database {
    let db = Database::new(Schema::Ours).await;
    db.store.migrate(std::time::Duration::from_secs(60), |_| {}).await.expect("the migrations apply");
    db
}

async fn read(db: &Database, held: &[(&str, &str)]) -> Vec<ChangedScope> {
    let held: Vec<(String, String)> =
        held.iter().map(|(scope, stamp)| ((*scope).to_owned(), (*stamp).to_owned())).collect();
    db.store.read_scopes(&held).await.expect("it answers")
}

async fn stamp(db: &Database, scope: &str) -> String {
    read(db, &[(scope, "")]).await.pop().expect("it is not held").stamp
}

async fn stored(db: &Database, scope: &str) -> StoredScope {
    read(db, &[(scope, "")]).await.pop().and_then(|changed| changed.stored).expect("it is known")
}

#[tokio::test]
async fn only_what_changed_is_answered_whoever_changed_it() {
    let db = migrated().await;
    let unknown = read(&db, &[("alpha", "")]).await.pop().expect("it is answered");
    assert!(unknown.stored.is_none());
    assert!(read(&db, &[("alpha", &unknown.stamp)]).await.is_empty(), "unknown it stays");
    let written = db.store.put_scope(&draft("alpha", key("k1", "t1", (None, Some(NOW))))).await.expect("it writes");
    assert_eq!(written, BOTH);
    db.store.put_scope(&draft("beta", key("k1", "t2", (None, None)))).await.expect("it writes");

    let mut changed = read(&db, &[("alpha", &unknown.stamp), ("beta", ""), ("gamma", "")]).await;
    changed.sort_by(|one, other| one.scope.cmp(&other.scope));
    let names: Vec<&str> = changed.iter().map(|one| one.scope.as_str()).collect();
    assert_eq!(names, ["alpha", "beta", "gamma"]);
    let alpha = changed[0].stored.as_ref().expect("it is known");
    assert_eq!((alpha.algorithms.as_slice(), alpha.decommissioned), (&["ed25519".to_owned()][..], false));
    let stored = &alpha.keys[0];
    assert_eq!((stored.key_id.as_str(), stored.not_before, stored.not_after), ("k1", None, Some(NOW)));
    assert_eq!((stored.sealed.as_slice(), stored.nonce.as_slice()), (&[1; 40][..], &[2; 12][..]));

    let (table, keys) = (format!("{TABLE}_scopes"), format!("{TABLE}_scope_keys"));
    for change in [
        format!("update {keys} set sealed = '\\x00'"),
        format!("update {keys} set nonce = decode('000102030405060708090a0b', 'hex')"),
        format!("update {keys} set not_after = not_after + interval '1 second' where scope = 'alpha'"),
        format!("update {keys} set not_before = to_timestamp(5) where scope = 'alpha'"),
        format!("update {keys} set key_id = 'k2' where scope = 'alpha'"),
        format!("update {table} set algorithms = '{{ecdsa-p256-sha256}}'"),
        format!("update {table} set client = '\\x00', client_nonce = decode('000102030405060708090a0b', 'hex')"),
        format!("update {table} set decommissioned_at = now()"),
        format!("delete from {keys} where scope = 'alpha'"),
        format!("delete from {table} where scope = 'alpha'"),
    ] {
        let held = stamp(&db, "alpha").await;
        assert!(read(&db, &[("alpha", &held)]).await.is_empty());
        db.run(&change).await;
        assert_eq!(read(&db, &[("alpha", &held)]).await.len(), 1, "{change}");
    }
    assert_eq!(stamp(&db, "alpha").await, unknown.stamp);
}

#[tokio::test]
async fn a_key_id_keeps_its_key_and_no_two_keys_begin_together() {
    let db = migrated().await;
    db.store.put_scope(&draft("alpha", key("k1", "t1", (None, None)))).await.expect("it writes");
    let other = db.store.put_scope(&draft("alpha", key("k1", "t2", (None, None)))).await.expect("it answers");
    assert_eq!(other, Written { scope: true, key: false });
    let again = db.store.put_scope(&draft("alpha", key("k1", "t1", (None, Some(NOW))))).await.expect("it writes");
    assert_eq!(again, BOTH);
    let error =
        db.store.put_scope(&draft("alpha", key("k2", "t2", (None, None)))).await.expect_err("both begin at once");
    assert_eq!(error.kind, Kind::Other { sqlstate: "23505".into() });
    db.store.put_scope(&draft("alpha", key("k2", "t2", (Some(NOW), None)))).await.expect("it writes");
    assert_eq!(db.store.list_scopes("", 10).await.expect("it answers"), ["alpha"]);
    assert!(db.store.list_scopes("alpha", 10).await.expect("it answers").is_empty());
}

#[tokio::test]
async fn a_retired_key_ends_sooner_and_never_later() {
    let db = migrated().await;
    let put = async |id, thumbprint, window| {
        db.store.put_scope(&draft("alpha", key(id, thumbprint, window))).await.expect("it writes");
    };
    put("k1", "t1", (None, None)).await;
    put("k2", "t2", (Some(NOW + 10.0), None)).await;
    let retire = async |id, end| db.store.retire_key("alpha", id, end).await.expect("it answers");
    assert_eq!(retire("k1", NOW).await, Some(Retired::Ends(NOW)));
    assert_eq!(retire("k1", NOW + 5.0).await, Some(Retired::Ends(NOW)));
    assert_eq!(retire("k1", NOW - 5.0).await, Some(Retired::Ends(NOW - 5.0)));
    assert_eq!(retire("k2", NOW).await, Some(Retired::TakenAway));
    assert_eq!(retire("k2", NOW).await, None);
    assert_eq!(db.store.remove_key("alpha", "k2").await, Ok(false));
    let kept = stored(&db, "alpha").await;
    assert_eq!(kept.keys.iter().map(|key| key.key_id.as_str()).collect::<Vec<_>>(), ["k1"]);
    assert_eq!(db.store.remove_key("alpha", "k1").await, Ok(true));
    assert!(stored(&db, "alpha").await.keys.is_empty());
}

#[tokio::test]
async fn a_tombstone_is_final_and_keeps_no_key() {
    let db = migrated().await;
    let client = ClientDraft::Put { sealed: vec![3; 40], nonce: vec![4; 12] };
    let with_client = ScopeDraft { client, ..draft("alpha", key("k1", "t1", (None, None))) };
    db.store.put_scope(&with_client).await.expect("it writes");
    assert_eq!(stored(&db, "alpha").await.client, Some((vec![3; 40], vec![4; 12])));
    db.store.put_scope(&draft("alpha", None)).await.expect("it writes");
    assert!(stored(&db, "alpha").await.client.is_some(), "it was to be left");

    assert_eq!(db.store.decommission_scope("alpha").await.expect("it answers"), 1);
    assert_eq!(db.store.decommission_scope("never:known").await.expect("it answers"), 0);
    let refused = db.store.put_scope(&draft("alpha", key("k2", "t2", (None, None)))).await.expect("it answers");
    assert_eq!(refused, Written { scope: false, key: false });
    for scope in db.store.list_scopes("", 10).await.expect("it answers") {
        let stored = stored(&db, &scope).await;
        assert!(stored.decommissioned && stored.keys.is_empty() && stored.client.is_none(), "{scope}");
    }
    // A key that somebody had written beside a tombstone goes with the next try.
    db.run(&format!(
        "insert into {TABLE}_scope_keys (scope, key_id, thumbprint, sealed, nonce) \
         values ('alpha', 'k', 't', '\\x00', '\\x000102030405060708090a0b')"
    ))
    .await;
    assert_eq!(db.store.decommission_scope("alpha").await.expect("it answers"), 1);
}

#[tokio::test]
async fn the_daemons_role_reads_scopes_and_writes_none() {
    let db = migrated().await;
    db.store.put_scope(&draft("alpha", key("k1", "t1", (None, None)))).await.expect("it writes");
    let role = db.text("select 'delivers_' || current_database()", &[]).await;
    db.run(&format!("create role {role} login; grant outboxd_daemon to {role}")).await;
    let url = db.url.replace("postgres@", &format!("{role}@"));
    let store = Store::open(&config(&url), silent()).expect("it opens");
    assert_eq!(store.read_scopes(&[("alpha".into(), String::new())]).await.expect("it reads").len(), 1);
    assert_eq!(store.list_scopes("", 10).await.expect("it lists").len(), 1);
    for refused in [
        store.put_scope(&draft("alpha", None)).await.map(drop),
        store.retire_key("alpha", "k1", NOW).await.map(drop),
        store.remove_key("alpha", "k1").await.map(drop),
        store.decommission_scope("alpha").await.map(drop),
    ] {
        assert_eq!(refused.expect_err("it may not").kind, Kind::Permission);
    }
    db.run(&format!("drop owned by {role}; drop role {role}")).await;
}
