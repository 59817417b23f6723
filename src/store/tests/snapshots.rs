//! Who keeps dead rows: seen whoever asks, and with its age where that may be seen.

use super::*;
use crate::store::{Holder, HolderKind};

async fn holders(store: &Store) -> (bool, Vec<Holder>) {
    let found = store.find_snapshots().await.expect("it answers");
    (found.sees_all, found.holders)
}

#[tokio::test]
async fn an_open_transaction_is_found_with_its_session_and_gone_when_it_ends() {
    let db = Database::new(Schema::Ours).await;
    let other = connect(&format!("{}&application_name=forgotten", db.url)).await;
    let pid: i32 = other.query_one("select pg_backend_pid()", &[]).await.expect("it answers").get(0);
    other.batch_execute("begin isolation level repeatable read; select from pg_class").await.expect("it begins");
    let (sees_all, found) = holders(&db.store).await;
    assert!(sees_all, "a superuser sees everything");
    let holder = found.iter().find(|holder| holder.pid == Some(pid)).expect("it holds a snapshot");
    assert_eq!(holder.kind, HolderKind::Session);
    let words = [&holder.name, &holder.user, &holder.state].map(|word| word.as_deref().unwrap_or_default());
    assert_eq!(words, ["forgotten", "postgres", "idle in transaction"]);
    assert!(holder.since.is_some_and(|age| age < Duration::from_secs(60)), "{holder:?}");
    other.batch_execute("commit").await.expect("it ends");
    assert!(holders(&db.store).await.1.iter().all(|holder| holder.pid != Some(pid)));
}

/// With the transaction's number alone, no snapshot: it wrote, and waits.
#[tokio::test]
async fn a_writer_that_waits_holds_back_what_came_after_it() {
    let db = Database::new(Schema::Ours).await;
    let other = connect(&db.url).await;
    let pid: i32 = other.query_one("select pg_backend_pid()", &[]).await.expect("it answers").get(0);
    other.batch_execute("begin; create table written (); select").await.expect("it begins");
    let (_, found) = holders(&db.store).await;
    assert!(found.iter().any(|holder| holder.pid == Some(pid)), "{found:?}");
}

#[tokio::test]
async fn a_user_without_rights_still_sees_who_holds_what_but_not_since_when() {
    let db = Database::new(Schema::Ours).await;
    let role = db.text("select 'watcher_' || current_database()", &[]).await;
    db.run(&format!("create role {role} login")).await;
    let store = Store::open(&config(&db.url.replace("postgres@", &format!("{role}@"))), silent()).expect("it opens");
    let pid = db.text("select pg_backend_pid()::text", &[]).await.parse::<i32>().expect("a number");
    db.run("begin isolation level repeatable read; select from pg_class").await;
    let (sees_all, found) = holders(&store).await;
    assert!(!sees_all);
    let holder = found.iter().find(|holder| holder.pid == Some(pid)).expect("it is seen");
    assert_eq!((holder.since, holder.user.as_deref()), (None, Some("postgres")));
    db.run(&format!("commit; grant pg_read_all_stats to {role}")).await;
    assert!(holders(&store).await.0);
    db.run(&format!("drop role {role}")).await;
}

#[tokio::test]
async fn nobody_that_holds_anything_is_an_answer_too() {
    let db = Database::new(Schema::Ours).await;
    let (sees_all, found) = holders(&db.store).await;
    let ours = found.iter().filter(|holder| matches!(holder.kind, HolderKind::Session)).count();
    assert!(sees_all && ours == 0, "{found:?}");
}
