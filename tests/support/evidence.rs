//! A history from what the other parts of the suite saw: its database, its drafts, its receiver. Judges nothing.

use super::cluster::{Database, TABLE};
use super::history::{Commit, Enqueued, History, Receipt, fingerprint};
use super::receiver::Received;
use super::recorder;
use super::seal::Draft;

impl History {
    /// From now on, whoever writes. Each worker needs an `application_name` of its own in its URL.
    pub async fn record(database: &Database) {
        recorder::record(&database.client, TABLE).await;
    }

    /// Adds what was recorded, and how the rows stand now.
    pub async fn read(&mut self, database: &Database) {
        recorder::read_into(self, &database.client, TABLE).await;
    }
}

impl Enqueued {
    pub fn of(draft: &Draft, commit: Commit) -> Enqueued {
        Enqueued { key: draft.idempotency_key.clone(), body: fingerprint(&draft.body()), commit }
    }
}

impl Receipt {
    pub fn of(request: &Received) -> Receipt {
        Receipt {
            key: request.idempotency_key(),
            body: fingerprint(&request.body),
            at: request.moment,
            answered: request.answered,
        }
    }
}
