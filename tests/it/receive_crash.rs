//! An acknowledged notification is stored, whenever the process or its database goes; what was not acknowledged may be
//! sent again and converges.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::support::cluster::Database;
use crate::support::eventually::{PATIENCE, eventually, within};
use crate::support::inbox::{self, Answer, Inbox, listening};
use crate::support::link::Link;
use crate::support::{config::Config, daemon::Daemon};

const SENDERS: usize = 24;

/// One sender for each event, all at once. Returns what was answered, once `cut` has struck after `acks` of them.
async fn send_all(inbox: &Inbox, events: &[String], acks: usize, cut: impl AsyncFnOnce()) -> Vec<Option<Answer>> {
    let (count, mut counted) = watch::channel(0);
    let count = Arc::new(count);
    let sending = futures_util::future::join_all(events.iter().map(|event| {
        let count = count.clone();
        async move {
            let answer = match tokio::net::TcpStream::connect(inbox.address).await {
                Ok(stream) => inbox::exchange(stream, &inbox::notification(event)).await,
                Err(_) => None,
            };
            if answer.as_ref().is_some_and(|answer| answer.status == 200) {
                count.send_modify(|count| *count += 1);
            }
            answer
        }
    }));
    let cutting = async {
        let _ = counted.wait_for(|count| *count >= acks).await;
        cut().await;
    };
    let (answers, ()) = within(PATIENCE, "the senders", futures_util::future::join(sending, cutting)).await;
    answers
}

async fn stored(database: &Database) -> Vec<String> {
    let rows = database.client.query("SELECT event_id FROM cms_terminal_notification_inbox", &[]).await;
    rows.expect("the inbox is there").iter().map(|row| row.get(0)).collect()
}

/// What was acknowledged is stored, and everything sent again converges on the very same answers.
async fn nothing_was_lost(inbox: &Inbox, acknowledged: &BTreeMap<String, Answer>, sent: &[String]) {
    let stored = stored(&inbox.database).await;
    let lost: Vec<&String> = acknowledged.keys().filter(|event| !stored.contains(event)).collect();
    assert!(lost.is_empty(), "acknowledged and not stored: {lost:?}");
    for event in sent {
        let answer = inbox.ask(&inbox::notification(event)).await.expect("an answer");
        assert_eq!(answer.status, 200, "{event}");
        if let Some(first) = acknowledged.get(event) {
            assert_eq!(first.body, answer.body, "{event}");
        }
    }
    let works: i64 = inbox.database.value("SELECT count(*) FROM cms_terminal_notification_processing", &[]).await;
    assert_eq!(usize::try_from(works).expect("few"), sent.len());
    assert_eq!(inbox.received().await, works);
}

#[tokio::test]
async fn whenever_it_is_killed_what_it_acknowledged_is_stored() {
    let mut inbox = Inbox::start(|config| config).await;
    let (mut acknowledged, mut sent) = (BTreeMap::new(), Vec::new());
    for acks in [0, 1, 2, 3, 5, 8, 12, 16, 20, 23] {
        let events: Vec<String> = (0..SENDERS).map(|n| format!("event-{acks}-{n}")).collect();
        let answers = send_all(&inbox, &events, acks, async || inbox.daemon.kill().await).await;
        for (event, answer) in events.iter().zip(answers) {
            if let Some(answer) = answer.filter(|answer| answer.status == 200) {
                acknowledged.insert(event.clone(), answer);
            }
        }
        sent.extend(events);
        let config: Config = inbox.daemon.config().clone();
        let daemon = Daemon::command(&config, &["receive"]);
        daemon.ready().await;
        let address = listening(&daemon).await;
        inbox = Inbox { database: inbox.database, daemon, address };
    }
    nothing_was_lost(&inbox, &acknowledged, &sent).await;
}

#[tokio::test]
async fn whenever_its_database_goes_it_answers_503_and_a_replay_converges() {
    let database = Database::new().await;
    let link = Link::down();
    link.mend();
    let config = inbox::with_writer(inbox::config(&link.url(&database.name)));
    let inbox = Inbox::over(database, &config).await;
    let (mut acknowledged, mut sent) = (BTreeMap::new(), Vec::new());
    for acks in [0, 1, 3, 6, 12, 20] {
        let events: Vec<String> = (0..SENDERS).map(|n| format!("event-{acks}-{n}")).collect();
        let answers = send_all(&inbox, &events, acks, async || link.cut()).await;
        for (event, answer) in events.iter().zip(answers) {
            let answer = answer.unwrap_or_else(|| panic!("{event} was not answered"));
            match answer.summary().as_str() {
                "200" => drop(acknowledged.insert(event.clone(), answer)),
                "503 storage_unavailable" => {}
                other => panic!("{event}: {other}"),
            }
        }
        sent.extend(events);
        link.mend();
        inbox.daemon.ready().await;
    }
    nothing_was_lost(&inbox, &acknowledged, &sent).await;
}

#[tokio::test]
async fn without_its_tables_it_says_so_and_takes_up_when_they_are_there() {
    let database = Database::empty().await;
    let config = inbox::with_writer(inbox::config(&database.url));
    let daemon = Daemon::command(&config, &["receive"]);
    let address = listening(&daemon).await;
    let inbox = Inbox { database, daemon, address };
    let answer = inbox.ask(&inbox::notification("event-1")).await.expect("an answer");
    assert_eq!(answer.summary(), "503 schema_altered");
    eventually("readyz says why", async || match inbox.daemon.get("/readyz").await {
        Ok((503, text)) if text.contains("outboxd migrate") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(Daemon::command(&config, &["migrate"]).wait_exit(PATIENCE).await.code, Some(0));
    inbox.daemon.ready().await;
    assert_eq!(inbox.ask(&inbox::notification("event-1")).await.expect("an answer").summary(), "200");
}
