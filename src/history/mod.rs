//! What is kept of an attempt: enough to tell a buyer and an operator what was sent and how it ended. It knows no clock and no
//! database; secrets, bodies and a receiver's words never get here, and of a URL only what may be shown.

mod url;

use std::time::{Duration, Instant};

pub(crate) use url::shown;

use crate::envelope::Announced;
use crate::verdict::{Attempt, Cause, Fault};

/// One attempt that is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// When the request was begun, with connecting; or, where none was, the work on the row.
    pub(crate) fired: Instant,
    pub(crate) took: Duration,
    /// None: nothing was fired.
    pub(crate) status: Option<Status>,
    /// As `shown`.
    pub(crate) url: String,
    pub(crate) payload_bytes: Option<u32>,
    pub(crate) announced: Announced,
}

/// The outcomes of AdCP's `webhook_activity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Success,
    Failed,
    Timeout,
    ConnectionError,
}

impl Status {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Failed => "failed",
            Status::Timeout => "timeout",
            Status::ConnectionError => "connection_error",
        }
    }

    /// Of what came of a request.
    pub(crate) fn of(attempt: &Attempt) -> Status {
        match attempt {
            // One that came before the request was sent answers something else than it.
            Attempt::Replied(reply) if (200..=299).contains(&reply.status) => match reply.request_sent {
                true => Status::Success,
                false => Status::ConnectionError,
            },
            Attempt::Replied(reply) if (300..=599).contains(&reply.status) => Status::Failed,
            Attempt::Replied(_) => Status::ConnectionError,
            Attempt::Failed(failure) => match failure.fault {
                Fault::ConnectTimeout | Fault::TlsTimeout | Fault::ReplyTimeout => Status::Timeout,
                _ => Status::ConnectionError,
            },
        }
    }

    /// Of a row that was refused before there was a request: only where the receiver's name or address is why does the
    /// protocol call that an attempt.
    pub(crate) fn of_refusal(cause: Cause) -> Option<Status> {
        match cause {
            Cause::DnsTimeout => Some(Status::Timeout),
            Cause::DnsNotFound
            | Cause::DnsNoAddress
            | Cause::DnsFailed
            | Cause::DnsTooManyAddresses
            | Cause::AddressForbidden => Some(Status::ConnectionError),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Failure, Reply, Sent};

    fn replied(status: u16, request_sent: bool) -> Attempt {
        Attempt::Replied(Reply { status, request_sent, retry_after: None, challenge: None })
    }

    #[test]
    fn an_outcome_is_told_as_the_protocol_words_it() {
        let cases = [
            (replied(204, true), Status::Success),
            (replied(200, false), Status::ConnectionError),
            (replied(302, true), Status::Failed),
            (replied(410, true), Status::Failed),
            (replied(503, false), Status::Failed),
            (replied(700, true), Status::ConnectionError),
        ];
        for (attempt, expected) in cases {
            assert_eq!(Status::of(&attempt), expected, "{attempt:?}");
        }
        for (fault, expected) in
            [(Fault::ReplyTimeout, Status::Timeout), (Fault::TlsCertificate, Status::ConnectionError)]
        {
            let failed = Attempt::Failed(Failure { fault, sent: Sent::Nothing });
            assert_eq!(Status::of(&failed), expected, "{fault:?}");
        }
    }

    #[test]
    fn what_is_missing_on_our_side_is_no_attempt_to_the_buyer() {
        assert_eq!(Status::of_refusal(Cause::DnsNotFound), Some(Status::ConnectionError));
        assert_eq!(Status::of_refusal(Cause::EnvelopeUnopenable), None);
        assert_eq!(Status::of_refusal(Cause::ScopeUnknown), None);
    }
}
