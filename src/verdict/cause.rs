//! The closed list of causes, with the code that metrics, logs, `last_error` and the runbook share. It does not look at
//! attempts.

use std::fmt;

use super::classify::StatusPolicy;

/// What is to become of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Delivered,
    /// Soon again: the fault is likely to pass by itself.
    Retry,
    /// Seldom, but to the horizon: somebody has to mend something first.
    RetrySlow,
    /// As `RetrySlow` for a time of grace, then quarantined: it may be the row, and it may be a key that we lack.
    RetryThenQuarantine,
    /// Never again: the row, or the receiver's own word, proves that no attempt can succeed.
    Quarantine,
    /// Not attempted, so not counted either.
    GiveBack,
}

impl Class {
    /// What happens to the row, in the words of the runbook.
    pub(crate) fn consequence(self) -> &'static str {
        match self {
            Class::Delivered => "done",
            Class::Retry => "retried soon",
            Class::RetrySlow => "retried seldom",
            Class::RetryThenQuarantine => "retried seldom, then quarantined",
            Class::Quarantine => "quarantined",
            Class::GiveBack => "given back",
        }
    }
}

/// Who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    Ours,
    Host,
    Receiver,
}

impl Blame {
    pub(crate) fn who(self) -> &'static str {
        match self {
            Blame::Ours => "operator",
            Blame::Host => "host",
            Blame::Receiver => "receiver",
        }
    }
}

macro_rules! causes {
    ($($name:ident $code:literal $class:ident $sdk:ident $blame:ident $meaning:literal,)+) => {
        /// Why a row is where it is. The codes are a public interface and never change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Cause {
            $($name,)+
        }

        impl Cause {
            pub(crate) const ALL: &'static [Cause] = &[$(Cause::$name,)+];

            pub(crate) fn code(self) -> &'static str {
                match self {
                    $(Cause::$name => $code,)+
                }
            }

            /// What becomes of a row for this cause, where the status of a reply does not say more.
            pub(crate) fn class(self, policy: StatusPolicy) -> Class {
                let (default, sdk) = match self {
                    $(Cause::$name => (Class::$class, Class::$sdk),)+
                };
                match policy {
                    StatusPolicy::Default => default,
                    StatusPolicy::Sdk => sdk,
                }
            }

            pub(crate) fn blame(self) -> Blame {
                match self {
                    $(Cause::$name => Blame::$blame,)+
                }
            }

            /// One sentence for the runbook.
            pub(crate) fn meaning(self) -> &'static str {
                match self {
                    $(Cause::$name => $meaning,)+
                }
            }
        }
    };
}

// Columns: variant, code, class by default, class under the SDK's policy, blame, meaning.
causes! {
    Delivered "delivered" Delivered Delivered Receiver
        "The receiver answered 2xx to the whole request.",
    HttpRedirect "http_redirect" RetrySlow Quarantine Receiver
        "The receiver answered with a redirect, which is never followed.",
    HttpUnauthorized "http_unauthorized" RetrySlow Quarantine Receiver
        "The receiver answered 401; a signature error code after the colon is its reason.",
    HttpClientError "http_client_error" RetrySlow Quarantine Receiver
        "The receiver answered with a 4xx that has no cause of its own.",
    HttpConflict "http_conflict" Quarantine Quarantine Receiver
        "The receiver answered 409: it holds another payload under this idempotency key.",
    HttpGone "http_gone" Quarantine Quarantine Receiver
        "The receiver answered 410: the endpoint is gone for good.",
    HttpTooLarge "http_too_large" Quarantine Quarantine Receiver
        "The receiver answered 413: it does not take a body of this size.",
    HttpLegal "http_legal" Quarantine Quarantine Receiver
        "The receiver answered 451: it may not take this delivery.",
    HttpThrottled "http_throttled" Retry Retry Receiver
        "The receiver answered 429 and asks for fewer deliveries.",
    HttpRetryable "http_retryable" Retry Retry Receiver
        "The receiver answered 408, 421 or 425 and asks for another try.",
    HttpServerError "http_server_error" Retry Retry Receiver
        "The receiver answered with a 5xx.",
    ReplyBeforeRequest "reply_before_request" Retry Retry Receiver
        "A 2xx or 409 came before the whole request was sent, so it cannot be about its body.",
    ConnectTimeout "connect_timeout" Retry Retry Receiver
        "No connection was made before the attempt's deadline.",
    ConnectFailed "connect_failed" Retry Retry Receiver
        "The connection was refused, unreachable or reset.",
    PeerMismatch "peer_mismatch" Retry Retry Ours
        "The connection's peer was not the address that had been checked.",
    LocalResources "local_resources" Retry Retry Ours
        "This machine could not open a connection: descriptors, ports, memory or firewall.",
    TlsTimeout "tls_timeout" Retry Retry Receiver
        "The TLS handshake did not end before the attempt's deadline.",
    TlsCertificate "tls_certificate" Retry Retry Receiver
        "The receiver's certificate is expired, names another host or has no trusted issuer.",
    TlsClientAuth "tls_client_auth" Retry Retry Ours
        "The receiver demands a client certificate, or refuses the one it was shown.",
    TlsFailed "tls_failed" Retry Retry Receiver
        "The TLS handshake failed for another reason.",
    ReplyTimeout "reply_timeout" Retry Retry Receiver
        "No reply came before the attempt's deadline.",
    Disconnected "disconnected" Retry Retry Receiver
        "The connection ended before a whole reply head.",
    ProtocolError "protocol_error" Retry Retry Receiver
        "What came back is not an acceptable HTTP/1.1 reply.",
    DnsNotFound "dns_not_found" RetrySlow Retry Receiver
        "The host name does not exist.",
    DnsNoAddress "dns_no_address" Retry Retry Receiver
        "The host name has no address.",
    DnsFailed "dns_failed" Retry Retry Receiver
        "The host name could not be resolved.",
    DnsTimeout "dns_timeout" Retry Retry Receiver
        "Name resolution did not end before the attempt's deadline.",
    ResolverDown "resolver_down" GiveBack GiveBack Ours
        "The name servers answer nothing at all; nothing is claimed until they do.",
    DnsTooManyAddresses "dns_too_many_addresses" RetrySlow Retry Receiver
        "The host name has more addresses than are checked.",
    AddressForbidden "address_forbidden" RetrySlow Quarantine Receiver
        "The host name resolves to an address that the egress policy refuses.",
    LiteralForbidden "literal_forbidden" Quarantine Quarantine Host
        "The URL names an address that the egress policy refuses.",
    UrlRefused "url_refused" Quarantine Quarantine Host
        "The URL breaks the rules for webhook URLs.",
    RowMalformed "row_malformed" Quarantine Quarantine Host
        "A column holds what no writer of the outbox may store.",
    EnvelopeUnopenable "envelope_unopenable" RetryThenQuarantine Quarantine Ours
        "No held key opens the envelope: a key is missing here, or the row was changed.",
    EnvelopeMalformed "envelope_malformed" Quarantine Quarantine Host
        "The opened envelope is not a body or legacy envelope of the contract.",
    EnvelopeMismatch "envelope_mismatch" Quarantine Quarantine Host
        "The sealed body is not about the row's task, operation, status or idempotency key.",
    HmacDisabled "hmac_disabled" Quarantine Quarantine Host
        "The row asks for HMAC-SHA256, which the configuration has switched off.",
    CredentialsUnsendable "credentials_unsendable" Quarantine Quarantine Host
        "The sealed credentials hold characters that no header can carry.",
    BodyTooLarge "body_too_large" Quarantine Quarantine Host
        "The body has more than 10 MiB.",
    ScopeDecommissioned "scope_decommissioned" Quarantine Quarantine Host
        "The row's signing scope was decommissioned.",
    ScopeMalformed "scope_malformed" Quarantine Quarantine Host
        "The row's signing scope is no acceptable text.",
    ScopeUnknown "scope_unknown" RetrySlow Quarantine Ours
        "No key is known for the row's signing scope.",
    ScopeRequired "scope_required" RetrySlow Quarantine Ours
        "The row has no signing scope, and no default scope is configured.",
    ScopeUnexpected "scope_unexpected" RetrySlow Quarantine Ours
        "The row has a signing scope, but one fixed key is configured.",
    SigningKeyRefused "signing_key_refused" RetrySlow Quarantine Ours
        "The scope's key has an algorithm that the scope does not advertise.",
    SigningUnavailable "signing_unavailable" Retry Retry Ours
        "The signing key could not be had just now.",
    Cancelled "cancelled" Quarantine Quarantine Ours
        "An operator took the row out of delivery (`outboxd cancel`); the audit says who and why.",
    ClocksApart "clocks_apart" GiveBack GiveBack Ours
        "This machine's clock is more than 30 s off the database's, so that receivers would refuse our signatures.",
    LeaseShort "lease_short" GiveBack GiveBack Ours
        "Too little of the lease was left for a whole attempt.",
    Drained "drained" GiveBack GiveBack Ours
        "The daemon was stopping before the attempt began.",
    Internal "internal" RetrySlow Retry Ours
        "The daemon failed in a way that it should not.",
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
