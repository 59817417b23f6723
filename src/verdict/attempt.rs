//! What one POST came to: the facts that a verdict is made of, and nothing of what the receiver wrote.

use std::time::Duration;

/// The end of one attempt. A reply of any status is a fact to judge, not an error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attempt {
    Replied(Reply),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Whether every byte of our request had been written and flushed when the head arrived. A 2xx
    /// without it answers something other than our body.
    pub(crate) request_sent: bool,
    /// `Retry-After`, already parsed and bounded; `None` where absent, repeated or senseless.
    pub(crate) retry_after: Option<Duration>,
    /// The `webhook_*` code of a `WWW-Authenticate: Signature error="..."` challenge, from the closed list.
    pub(crate) challenge: Option<Challenge>,
}

/// An attempt that ended without a usable reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    /// Whether any byte of the request may have reached the receiver.
    pub(crate) sent: Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Nothing,
    Perhaps,
}

/// Why there is no reply, by the stage that ended the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The deadline passed while connecting.
    ConnectTimeout,
    /// Refused, unreachable or reset while connecting.
    Connect,
    /// The socket's peer is not the pinned address.
    PeerMismatch,
    /// This machine could not open a connection: descriptors, ports, memory, firewall.
    LocalResources,
    /// The deadline passed during the TLS handshake.
    TlsTimeout,
    /// The certificate does not name the host, is expired, or no trusted anchor signed it.
    TlsCertificate,
    /// The peer demands a client certificate.
    TlsClientAuth,
    /// Any other failed handshake: no shared version or suite, an alert, a reset.
    Tls,
    /// The deadline passed after the request was begun.
    ReplyTimeout,
    /// The connection ended before a full reply head.
    Disconnected,
    /// What came back is not an acceptable HTTP/1.1 reply head: garbage, over 64 KiB, 101.
    Protocol,
}

/// The error codes an AdCP receiver may give in a 401 challenge (wire contract, section 8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Challenge {
    SignatureRequired,
    HeaderMalformed,
    ParamsIncomplete,
    TagInvalid,
    AlgNotAllowed,
    WindowInvalid,
    ComponentsIncomplete,
    KeyUnknown,
    KeyPurposeInvalid,
    KeyRevoked,
    RevocationStale,
    RateAbuse,
    Invalid,
    DigestMismatch,
    Replayed,
    TargetUriMalformed,
}
