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
    BodyMalformed,
    ModeMismatch,
}

impl Challenge {
    pub(crate) const ALL: [Challenge; 18] = [
        Challenge::SignatureRequired,
        Challenge::HeaderMalformed,
        Challenge::ParamsIncomplete,
        Challenge::TagInvalid,
        Challenge::AlgNotAllowed,
        Challenge::WindowInvalid,
        Challenge::ComponentsIncomplete,
        Challenge::KeyUnknown,
        Challenge::KeyPurposeInvalid,
        Challenge::KeyRevoked,
        Challenge::RevocationStale,
        Challenge::RateAbuse,
        Challenge::Invalid,
        Challenge::DigestMismatch,
        Challenge::Replayed,
        Challenge::TargetUriMalformed,
        Challenge::BodyMalformed,
        Challenge::ModeMismatch,
    ];

    pub(crate) fn code(self) -> &'static str {
        match self {
            Challenge::SignatureRequired => "webhook_signature_required",
            Challenge::HeaderMalformed => "webhook_signature_header_malformed",
            Challenge::ParamsIncomplete => "webhook_signature_params_incomplete",
            Challenge::TagInvalid => "webhook_signature_tag_invalid",
            Challenge::AlgNotAllowed => "webhook_signature_alg_not_allowed",
            Challenge::WindowInvalid => "webhook_signature_window_invalid",
            Challenge::ComponentsIncomplete => "webhook_signature_components_incomplete",
            Challenge::KeyUnknown => "webhook_signature_key_unknown",
            Challenge::KeyPurposeInvalid => "webhook_signature_key_purpose_invalid",
            Challenge::KeyRevoked => "webhook_signature_key_revoked",
            Challenge::RevocationStale => "webhook_signature_revocation_stale",
            Challenge::RateAbuse => "webhook_signature_rate_abuse",
            Challenge::Invalid => "webhook_signature_invalid",
            Challenge::DigestMismatch => "webhook_signature_digest_mismatch",
            Challenge::Replayed => "webhook_signature_replayed",
            Challenge::TargetUriMalformed => "webhook_target_uri_malformed",
            Challenge::BodyMalformed => "webhook_body_malformed",
            Challenge::ModeMismatch => "webhook_mode_mismatch",
        }
    }

    /// `None` for any text that is not exactly a code of the list, so that no receiver's words get further than here.
    pub(crate) fn from_code(code: &[u8]) -> Option<Self> {
        Challenge::ALL.into_iter().find(|challenge| challenge.code().as_bytes() == code)
    }
}
