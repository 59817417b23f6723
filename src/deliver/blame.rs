//! Each stage's refusal as a cause: the one place where the rooms' errors meet the list of codes.

use crate::address::{PinError, UrlError};
use crate::envelope::OpenError;
use crate::signature::SignError;
use crate::signer::ResolveError;
use crate::verdict::Cause;

pub(crate) fn open(error: &OpenError) -> Cause {
    match error {
        OpenError::Unopenable => Cause::EnvelopeUnopenable,
        OpenError::Row(_) => Cause::RowMalformed,
        OpenError::Malformed(_) => Cause::EnvelopeMalformed,
        OpenError::Mismatch { .. } => Cause::EnvelopeMismatch,
        OpenError::HmacDisabled => Cause::HmacDisabled,
        OpenError::CredentialsUnsendable => Cause::CredentialsUnsendable,
        OpenError::BodyTooLarge { .. } => Cause::BodyTooLarge,
    }
}

pub(crate) fn url(_: &UrlError) -> Cause {
    Cause::UrlRefused
}

pub(crate) fn pin(error: &PinError) -> Cause {
    match error {
        PinError::Forbidden { .. } => Cause::AddressForbidden,
        PinError::ForbiddenLiteral { .. } => Cause::LiteralForbidden,
        PinError::NameNotFound => Cause::DnsNotFound,
        PinError::NoAddress => Cause::DnsNoAddress,
        PinError::Dns(_) => Cause::DnsFailed,
        PinError::Timeout => Cause::DnsTimeout,
        PinError::TooManyAddresses => Cause::DnsTooManyAddresses,
    }
}

pub(crate) fn resolve(error: &ResolveError) -> Cause {
    match error {
        ResolveError::Decommissioned => Cause::ScopeDecommissioned,
        ResolveError::Unknown => Cause::ScopeUnknown,
        ResolveError::Unavailable(_) | ResolveError::OutsideWindows => Cause::SigningUnavailable,
        ResolveError::AlgorithmNotAdvertised => Cause::SigningKeyRefused,
        ResolveError::ScopeRequired => Cause::ScopeRequired,
        ResolveError::ScopeUnexpected => Cause::ScopeUnexpected,
        ResolveError::ScopeMalformed => Cause::ScopeMalformed,
    }
}

pub(super) fn sign(error: &SignError) -> Cause {
    match error {
        SignError::CredentialsUnsendable => Cause::CredentialsUnsendable,
        SignError::IdUnsendable => Cause::RowMalformed,
        SignError::TargetUnsendable => Cause::UrlRefused,
        SignError::Key(_) => Cause::SigningUnavailable,
    }
}
