//! What happened, held against what was promised: from what hosts committed, receivers got, the table went through and a test
//! broke on purpose, it tells what was lost, unexpected, duplicated and why, changed, or settled by somebody who did not hold it.
//! It judges a record that is complete; it waits for nothing, and how the faults are made is no concern of it.

// Spelt out, since the crate's own simulation takes this file in from elsewhere.
#[path = "history/judge.rs"]
mod judge;
#[path = "history/report.rs"]
mod report;

use ring::digest::{SHA256, digest};

pub use super::moment::{Moment, moment};
pub use report::Report;

pub type Fingerprint = [u8; 32];

pub fn fingerprint(body: &[u8]) -> Fingerprint {
    digest(&SHA256, body).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// All of it. `steps` and `rows` are read from the database by `History::read`, where `History::record` was told to write them.
#[derive(Clone, Default)]
pub struct History {
    pub enqueued: Vec<Enqueued>,
    pub receipts: Vec<Receipt>,
    pub faults: Vec<Fault>,
    pub steps: Vec<Step>,
    pub rows: Vec<Row>,
}

/// What a host put into the outbox.
#[derive(Clone)]
pub struct Enqueued {
    pub key: String,
    pub body: Fingerprint,
    pub commit: Commit,
}

/// Whether the row is there, as its host knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    Known,
    /// The connection broke before the answer.
    Unknown,
    RolledBack,
}

/// One whole request, as a receiver got it.
#[derive(Clone)]
pub struct Receipt {
    pub key: String,
    pub body: Fingerprint,
    /// When it was there, before it was answered.
    pub at: Moment,
    /// What the receiver made of it, whether or not the reply arrived; nothing where it had no word to say.
    pub answered: Option<u16>,
}

impl Receipt {
    fn is_accepted(&self) -> bool {
        self.answered.is_some_and(|status| (200..300).contains(&status))
    }
}

/// What a test broke, of whom, and for how long. Of nobody: of all, such as their database.
#[derive(Clone)]
pub struct Fault {
    /// The cause that duplicates are put down to: `kill`, `stop`, `database cut`.
    pub what: String,
    /// By the name under which it connects to the database.
    pub worker: Option<String>,
    /// From before the fault until after it was mended.
    pub from: Moment,
    pub until: Moment,
}

impl Fault {
    /// A kill, which is over at once. To be made before the signal is sent.
    pub fn kill(worker: &str) -> Fault {
        let now = moment();
        Fault { what: "kill".into(), worker: Some(worker.into()), from: now, until: now + 1.0 }
    }

    pub fn between(what: &str, worker: Option<&str>, from: Moment, until: Moment) -> Fault {
        Fault { what: what.into(), worker: worker.map(Into::into), from, until }
    }
}

/// One change of one row, as the table's trigger saw it: committed, and in the order of the row's life.
#[derive(Clone, Debug)]
pub struct Step {
    pub key: String,
    /// `application_name` of the session.
    pub worker: String,
    /// When the statement began, which is what its conditions go by, and when the row was written.
    pub asked: Moment,
    pub at: Moment,
    /// Whether the statement compared the row's token with one that it was given.
    pub fenced: bool,
    /// Nothing before an insert, and after a delete.
    pub before: Option<Side>,
    pub after: Option<Side>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    pub state: String,
    pub token: Option<String>,
    /// The end of the lease, wherever the row keeps it.
    pub lease_until: Option<Moment>,
    pub attempts: i32,
    pub error: Option<String>,
    pub retry_until: Option<Moment>,
}

/// A row of the table at the end.
#[derive(Clone, Debug)]
pub struct Row {
    pub key: String,
    pub state: String,
}

fn is_final(state: &str) -> bool {
    matches!(state, "delivered" | "expired" | "invalid")
}

impl Side {
    fn is_held(&self) -> bool {
        self.state == "in_flight" && self.token.is_some()
    }

    fn is_held_at(&self, moment: Moment) -> bool {
        self.is_held() && self.lease_until.is_some_and(|until| until > moment)
    }
}
