//! What an attempt's end says of its destination as a whole: of its pace, and whether it is there at all. Judges no row.

use std::time::Duration;

use super::Ending;
use crate::claim::{Outcome, Reason};
use crate::verdict::{Attempt, Backoff, Cause, Fault, Reply, honours_retry_after};

pub(super) fn told(ending: &Ending) -> Outcome {
    match ending {
        Ending::GivenBack(_) | Ending::CutOff => Outcome::Unknown,
        // Of what is refused before the network is tried, only this is about where it goes.
        Ending::Refused(Cause::DnsFailed | Cause::DnsTimeout) => Outcome::Failed(Reason::Resolver),
        Ending::Refused(_) => Outcome::Unknown,
        Ending::Attempted(Attempt::Replied(reply)) => of_reply(reply),
        Ending::Attempted(Attempt::Failed(failure)) => of_fault(failure.fault),
    }
}

/// Behind one host may stand many buyers: what one of them is answered must not hold back the others, so that only what a
/// proxy says of the whole counts against it.
fn of_reply(reply: &Reply) -> Outcome {
    match reply.status {
        200..=299 if reply.request_sent => Outcome::Accepted,
        429 => Outcome::Throttled,
        502..=504 => Outcome::Failed(Reason::Unavailable),
        _ => Outcome::Answered,
    }
}

fn of_fault(fault: Fault) -> Outcome {
    match fault {
        Fault::Connect => Outcome::Failed(Reason::Connect),
        Fault::ConnectTimeout | Fault::TlsTimeout | Fault::ReplyTimeout => Outcome::Failed(Reason::Timeout),
        Fault::Tls | Fault::TlsCertificate => Outcome::Failed(Reason::Tls),
        Fault::Disconnected | Fault::Protocol => Outcome::Failed(Reason::Connection),
        // Ours: the certificate that a scope shows, this machine's resources, and what lies between.
        Fault::TlsClientAuth | Fault::LocalResources | Fault::PeerMismatch => Outcome::Unknown,
    }
}

/// How long the receiver asked to be left alone, for all rows of its destination. Shorter than what the one row waits:
/// behind one host may stand many buyers, and one of them must not silence the others for a day.
pub(super) fn asked_pause(ending: &Ending, backoff: &Backoff) -> Option<Duration> {
    match ending {
        Ending::Attempted(Attempt::Replied(reply)) if honours_retry_after(reply.status) => {
            reply.retry_after.map(|asked| asked.min(backoff.cap))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Failure, Sent};

    fn replied(status: u16, request_sent: bool) -> Ending {
        Ending::Attempted(Attempt::Replied(Reply { status, request_sent, retry_after: None, challenge: None }))
    }

    fn failed(fault: Fault) -> Ending {
        Ending::Attempted(Attempt::Failed(Failure { fault, sent: Sent::Perhaps }))
    }

    #[test]
    fn one_buyers_refusal_is_no_failure_of_its_host() {
        for status in (100..600).filter(|status| !(200..300).contains(status) && ![429, 502, 503, 504].contains(status))
        {
            assert_eq!(told(&replied(status, true)), Outcome::Answered, "{status}");
        }
        assert_eq!(told(&replied(200, true)), Outcome::Accepted);
        assert_eq!(told(&replied(200, false)), Outcome::Answered);
        assert_eq!(told(&replied(429, true)), Outcome::Throttled);
        assert_eq!(told(&replied(503, false)), Outcome::Failed(Reason::Unavailable));
    }

    #[test]
    fn what_is_ours_tells_nothing_of_the_destination() {
        for ending in [
            Ending::CutOff,
            Ending::GivenBack(Cause::Drained),
            Ending::Refused(Cause::EnvelopeUnopenable),
            Ending::Refused(Cause::DnsNotFound),
            failed(Fault::LocalResources),
            failed(Fault::TlsClientAuth),
            failed(Fault::PeerMismatch),
        ] {
            assert_eq!(told(&ending), Outcome::Unknown);
        }
    }

    #[test]
    fn a_destination_that_is_not_there_has_failed() {
        for (fault, reason) in [
            (Fault::Connect, Reason::Connect),
            (Fault::ConnectTimeout, Reason::Timeout),
            (Fault::ReplyTimeout, Reason::Timeout),
            (Fault::TlsCertificate, Reason::Tls),
            (Fault::Disconnected, Reason::Connection),
        ] {
            assert_eq!(told(&failed(fault)), Outcome::Failed(reason));
        }
        assert_eq!(told(&Ending::Refused(Cause::DnsFailed)), Outcome::Failed(Reason::Resolver));
    }
}
