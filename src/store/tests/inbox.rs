//! The inbox's doors: what is fresh, what converges and what collides, alone and all at once; and what a damaged row
//! costs the others.

use ring::digest::{SHA256, digest};

use super::*;

/// A lawful notification, owned.
pub(super) struct Sample {
    notification_id: String,
    event_id: String,
    site_id: String,
    terminal_status: String,
    payload_sha256: String,
    payload: String,
}

fn hex(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Sample {
    pub(super) fn new(event_id: &str, site_id: &str, release: &str) -> Sample {
        let (a, b, c) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
        let before = format!(
            r#"{{"change_sha256":"{a}","event_id":"{event_id}","job_count":23,"lifecycle_binding_sha256":"{b}","lifecycle_sha256":"{c}","#
        );
        let after = format!(
            r#""plan_id":"plan-{event_id}","schema":"blun.cms-source-terminal-notification.v1","site_id":"{site_id}","source_sequence":42,"terminal_status":"published","website_version":"{release}"}}"#
        );
        let notification_id = format!("terminal-{}", hex(&format!("{before}{after}")));
        let payload = format!(r#"{before}"notification_id":"{notification_id}",{after}"#);
        Sample {
            notification_id,
            event_id: event_id.into(),
            site_id: site_id.into(),
            terminal_status: "published".into(),
            payload_sha256: hex(&payload),
            payload,
        }
    }

    /// What the receiver's checks would hand over.
    pub(super) fn parse(payload: &str) -> Sample {
        let fields: serde_json::Value = serde_json::from_str(payload).expect("a lawful payload is JSON");
        let field = |name: &str| fields[name].as_str().expect("a string").to_owned();
        Sample {
            notification_id: field("notification_id"),
            event_id: field("event_id"),
            site_id: field("site_id"),
            terminal_status: field("terminal_status"),
            payload_sha256: hex(payload),
            payload: payload.to_owned(),
        }
    }

    pub(super) fn new_notification(&self) -> NewNotification<'_> {
        NewNotification {
            notification_id: &self.notification_id,
            event_id: &self.event_id,
            site_id: &self.site_id,
            terminal_status: &self.terminal_status,
            payload_sha256: &self.payload_sha256,
            payload: &self.payload,
            max_attempts: 5,
        }
    }

    async fn accept(&self, db: &Database) -> Accepted {
        db.store.accept_notification(&self.new_notification()).await.expect("the database answers")
    }
}

/// Its constraints stay behind, so that a row can become what no operation makes of it.
pub(super) const UNGUARD: &str = "alter table cms_terminal_notification_inbox \
     drop constraint cms_terminal_notification_inbox_bound, drop constraint cms_terminal_notification_inbox_received_at; \
     alter table cms_terminal_notification_processing drop constraint cms_terminal_notification_processing_lawful";

pub(super) async fn inbox() -> Database {
    Database::new(Schema::Ours).await
}

#[tokio::test]
async fn the_first_is_fresh_its_replay_converges_and_another_under_its_event_collides() {
    let db = inbox().await;
    let sample = Sample::new("event", "site", "1");
    assert_eq!(sample.accept(&db).await, Accepted::Fresh);
    assert_eq!(sample.accept(&db).await, Accepted::Converged);
    assert_eq!(Sample::new("event", "site", "2").accept(&db).await, Accepted::Collision);
    assert_eq!(Sample::new("event", "other-site", "1").accept(&db).await, Accepted::Collision);
    assert_eq!(Sample::new("other", "site", "1").accept(&db).await, Accepted::Fresh);
    let status = db.store.read_notification("event").await.expect("it answers").expect("it is there");
    assert_eq!(
        (status.payload.as_str(), status.notification_id.as_str()),
        (&*sample.payload, &*sample.notification_id)
    );
    assert_eq!((status.processing_status.as_str(), status.attempts, status.max_attempts), ("pending", 0, 5));
    assert_eq!(status.next_attempt_at, status.received_at);
    assert_eq!(db.store.read_notification("nobody").await.expect("it answers"), None);
    let health = db.store.inbox_health().await.expect("it answers");
    let expected = InboxHealth { received: 2, counts: [2, 0, 0, 0, 0], due: 2, expired: 0, bad_rows: 0 };
    assert_eq!(health, expected);
}

#[tokio::test]
async fn a_forwarded_notification_is_ended_by_its_own_claim_only() {
    let db = inbox().await;
    let samples = ["event-1", "event-2", "event-3"].map(|event| Sample::new(event, "site-1", "release-1"));
    for sample in &samples {
        assert_eq!(sample.accept(&db).await, Accepted::Fresh);
    }
    let lease = Duration::from_secs(60);
    let claimed = db.store.claim_messages(Inbox::Notifications, "forward-1", 10, lease).await.unwrap();
    assert_eq!(claimed.len(), 3);
    assert!(claimed.iter().all(|message| message.sender == "site-1" && message.attempt == 1));
    let bodies: Vec<&[u8]> = claimed.iter().map(|message| message.body.as_slice()).collect();
    assert!(samples.iter().all(|sample| bodies.contains(&sample.new_notification().payload.as_bytes())));
    let delays = (Duration::from_secs(5), Duration::from_secs(300));
    for (message, ending) in claimed.iter().zip([Ending::Complete, Ending::Retry("busy", delays), Ending::Fail("bad")])
    {
        db.store.end_message(&message.claim, ending).await.unwrap();
    }
    assert_eq!(db.store.inbox_health().await.unwrap().counts, [0, 0, 1, 1, 1]);
    assert!(db.store.end_message(&claimed[0].claim, Ending::Complete).await.is_err(), "its claim is over");
    assert!(db.store.claim_messages(Inbox::Notifications, "forward-1", 10, lease).await.unwrap().is_empty());
}
