//! Gathers, on a delivery's way, what a record of it is made of. What a record tells is decided in `history`.

use tokio::time::Instant;

use super::Ending;
use crate::envelope::{Announced, Envelope};
use crate::history::{Record, Status, shown};
use crate::verdict::Verdict;

#[derive(Default)]
pub(super) struct Draft {
    url: String,
    payload_bytes: Option<u32>,
    announced: Announced,
    /// When the request was begun.
    pub(super) fired: Option<Instant>,
}

impl Draft {
    /// The row was looked into; where it could not be opened, its own columns are all there is.
    pub(super) fn saw(&mut self, url: &str, envelope: Option<&Envelope>) {
        self.url = shown(url);
        if let Some(envelope) = envelope {
            self.payload_bytes = u32::try_from(envelope.body.len()).ok();
            self.announced = envelope.announced.clone();
        }
    }

    /// `started` stands in for the request where there was none. A row that is given back was not attempted.
    pub(super) fn complete(self, ending: &Ending, verdict: &Verdict, started: Instant) -> Option<Box<Record>> {
        let status = match ending {
            Ending::GivenBack(_) => return None,
            Ending::Refused(_) if matches!(verdict, Verdict::GiveBack { .. }) => return None,
            Ending::Refused(cause) => Status::of_refusal(*cause),
            Ending::Attempted(attempt) => Some(Status::of(attempt)),
            Ending::CutOff => Some(Status::ConnectionError),
        };
        let fired = self.fired.unwrap_or(started);
        Some(Box::new(Record {
            fired: fired.into_std(),
            took: fired.elapsed(),
            status,
            url: self.url,
            payload_bytes: self.payload_bytes,
            announced: self.announced,
        }))
    }
}
