//! From what one POST came to, to its class and cause. It does not know how often the row was tried.

use super::attempt::{Attempt, Failure, Fault, Reply};
use super::cause::{Cause, Class};

/// Which table judges a reply's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusPolicy {
    Default,
    /// As the SDK's worker judges, for fleets that mix both.
    Sdk,
}

pub(crate) fn classify(attempt: &Attempt, policy: StatusPolicy) -> (Class, Cause) {
    match attempt {
        Attempt::Replied(reply) => {
            let cause = of_reply(reply);
            (of_status(reply.status, cause, policy), cause)
        }
        Attempt::Failed(failure) => {
            let cause = of_failure(failure);
            (cause.class(policy), cause)
        }
    }
}

fn of_reply(reply: &Reply) -> Cause {
    match reply.status {
        // Both speak of the body, which the receiver cannot have seen.
        200..=299 | 409 if !reply.request_sent => Cause::ReplyBeforeRequest,
        200..=299 => Cause::Delivered,
        300..=399 => Cause::HttpRedirect,
        401 => Cause::HttpUnauthorized,
        408 | 421 | 425 => Cause::HttpRetryable,
        409 => Cause::HttpConflict,
        410 => Cause::HttpGone,
        413 => Cause::HttpTooLarge,
        429 => Cause::HttpThrottled,
        451 => Cause::HttpLegal,
        400..=499 => Cause::HttpClientError,
        500..=599 => Cause::HttpServerError,
        // A final 1xx, or a number that HTTP does not define.
        _ => Cause::ProtocolError,
    }
}

/// The SDK sends again after 408, 425, 429 and from 500 up; of our retryable causes, 421 alone is final to it.
fn of_status(status: u16, cause: Cause, policy: StatusPolicy) -> Class {
    match (status, policy) {
        (421, StatusPolicy::Sdk) => Class::Quarantine,
        _ => cause.class(policy),
    }
}

fn of_failure(failure: &Failure) -> Cause {
    match failure.fault {
        Fault::ConnectTimeout => Cause::ConnectTimeout,
        Fault::Connect => Cause::ConnectFailed,
        Fault::PeerMismatch => Cause::PeerMismatch,
        Fault::LocalResources => Cause::LocalResources,
        Fault::TlsTimeout => Cause::TlsTimeout,
        Fault::TlsCertificate => Cause::TlsCertificate,
        Fault::TlsClientAuth => Cause::TlsClientAuth,
        Fault::Tls => Cause::TlsFailed,
        Fault::ReplyTimeout => Cause::ReplyTimeout,
        Fault::Disconnected => Cause::Disconnected,
        Fault::Protocol => Cause::ProtocolError,
    }
}
