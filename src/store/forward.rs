//! Stored messages of either inbox, taken under a lease to be forwarded, and what came of each. The host's functions do the
//! work; nothing here knows what a message says.

use std::time::Duration;

use super::claim::read;
use super::{Answer, Parameter, Store, StoreError};

/// Which inbox messages are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inbox {
    Notifications,
    Webhooks,
}

/// A message that is ours to forward until its lease ends.
pub(crate) struct Message {
    pub(crate) claim: Claim,
    /// Whom it came from: a webhook's sender, a notification's site.
    pub(crate) sender: String,
    /// What it is known by, whoever sees it twice.
    pub(crate) idempotency_key: String,
    pub(crate) attempt: i32,
    pub(crate) body: Vec<u8>,
}

/// The right to say what became of a message.
pub(crate) enum Claim {
    Webhook {
        id: i64,
        token: String,
    },
    /// The document that the claim gave.
    Notification(String),
}

/// What becomes of a forwarded message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending<'a> {
    Complete,
    /// With its error code, and the shortest and the longest delay.
    Retry(&'a str, (Duration, Duration)),
    Fail(&'a str),
}

impl Store {
    /// `sql/inbox/webhook_claim.sql` or `sql/inbox/notification_claim.sql`
    pub(crate) async fn claim_messages(
        &self,
        inbox: Inbox,
        worker: &str,
        most: u16,
        lease: Duration,
    ) -> Result<Vec<Message>, StoreError> {
        let lease = lease.as_secs_f64();
        if inbox == Inbox::Webhooks {
            let parameters: [Parameter<'_>; 3] = [&worker, &i32::from(most), &lease];
            return self.read_all(&self.statements.webhook_claim, &parameters, read_webhook).await;
        }
        let mut messages = Vec::new();
        let parameters: [Parameter<'_>; 2] = [&worker, &lease];
        // The contract claims one at a time.
        while messages.len() < usize::from(most) {
            match self.read_all(&self.statements.notification_claim, &parameters, read_notification).await {
                Ok(claimed) if claimed.is_empty() => break,
                Ok(claimed) => messages.extend(claimed),
                // Those that are claimed already are not given up for it.
                Err(_) if !messages.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(messages)
    }

    /// `sql/inbox/{webhook,notification}_{complete,retry,fail}.sql`
    pub(crate) async fn end_message(&self, claim: &Claim, ending: Ending<'_>) -> Result<(), StoreError> {
        let statements = &self.statements;
        let seconds = |delays: (Duration, Duration)| (delays.0.as_secs_f64(), delays.1.as_secs_f64());
        let done = |_: &Answer| Ok(());
        match (claim, ending) {
            (Claim::Webhook { id, token }, Ending::Complete) => {
                self.read_one(&statements.webhook_complete, &[id, token], done).await
            }
            (Claim::Webhook { id, token }, Ending::Retry(code, delays)) => {
                let (base, longest) = seconds(delays);
                self.read_one(&statements.webhook_retry, &[id, token, &code, &base, &longest], done).await
            }
            (Claim::Webhook { id, token }, Ending::Fail(code)) => {
                self.read_one(&statements.webhook_fail, &[id, token, &code], done).await
            }
            (Claim::Notification(claim), Ending::Complete) => {
                self.read_one(&statements.notification_complete, &[claim], done).await
            }
            (Claim::Notification(claim), Ending::Retry(code, delays)) => {
                let (base, longest) = seconds(delays);
                self.read_one(&statements.notification_retry, &[claim, &code, &base, &longest], done).await
            }
            (Claim::Notification(claim), Ending::Fail(code)) => {
                self.read_one(&statements.notification_fail, &[claim, &code], done).await
            }
        }
    }
}

fn read_webhook(answer: &Answer) -> Result<Message, super::Kind> {
    Ok(Message {
        claim: Claim::Webhook { id: read(answer, "id")?, token: read(answer, "lease_token")? },
        sender: read(answer, "sender")?,
        idempotency_key: read(answer, "idempotency_key")?,
        attempt: read(answer, "attempt")?,
        body: read(answer, "body")?,
    })
}

fn read_notification(answer: &Answer) -> Result<Message, super::Kind> {
    Ok(Message {
        claim: Claim::Notification(read(answer, "claim")?),
        sender: read(answer, "site_id")?,
        idempotency_key: read(answer, "notification_id")?,
        attempt: read(answer, "attempt")?,
        body: read::<String>(answer, "payload")?.into_bytes(),
    })
}
