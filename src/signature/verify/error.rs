//! Why a signed request is refused: the closed list of codes that a receiver may tell a sender.

/// `Display` is the code of the webhook profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.code())]
pub(crate) enum VerifyError {
    /// Of the request-signing profile alone: nothing is signed, where it must be.
    Required,
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
    /// Only the caller's replay store can find this out.
    Replayed,
    TargetUriMalformed,
    /// Only the caller reads the body as a document.
    BodyMalformed,
}

/// Which profile's codes are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Webhook,
    Request,
}

impl VerifyError {
    /// The code of the webhook profile.
    pub(crate) fn code(self) -> &'static str {
        self.code_of(Family::Webhook)
    }

    pub(crate) fn code_of(self, family: Family) -> &'static str {
        let (webhook, request) = match self {
            VerifyError::Required => ("webhook_signature_required", "request_signature_required"),
            VerifyError::HeaderMalformed => {
                ("webhook_signature_header_malformed", "request_signature_header_malformed")
            }
            VerifyError::ParamsIncomplete => {
                ("webhook_signature_params_incomplete", "request_signature_params_incomplete")
            }
            VerifyError::TagInvalid => ("webhook_signature_tag_invalid", "request_signature_tag_invalid"),
            VerifyError::AlgNotAllowed => ("webhook_signature_alg_not_allowed", "request_signature_alg_not_allowed"),
            VerifyError::WindowInvalid => ("webhook_signature_window_invalid", "request_signature_window_invalid"),
            VerifyError::ComponentsIncomplete => {
                ("webhook_signature_components_incomplete", "request_signature_components_incomplete")
            }
            VerifyError::KeyUnknown => ("webhook_signature_key_unknown", "request_signature_key_unknown"),
            VerifyError::KeyPurposeInvalid => {
                ("webhook_signature_key_purpose_invalid", "request_signature_key_purpose_invalid")
            }
            VerifyError::KeyRevoked => ("webhook_signature_key_revoked", "request_signature_key_revoked"),
            VerifyError::RevocationStale => {
                ("webhook_signature_revocation_stale", "request_signature_revocation_stale")
            }
            VerifyError::RateAbuse => ("webhook_signature_rate_abuse", "request_signature_rate_abuse"),
            VerifyError::Invalid => ("webhook_signature_invalid", "request_signature_invalid"),
            VerifyError::DigestMismatch => ("webhook_signature_digest_mismatch", "request_signature_digest_mismatch"),
            VerifyError::Replayed => ("webhook_signature_replayed", "request_signature_replayed"),
            VerifyError::TargetUriMalformed => ("webhook_target_uri_malformed", "request_target_uri_malformed"),
            VerifyError::BodyMalformed => ("webhook_body_malformed", "request_body_malformed"),
        };
        match family {
            Family::Webhook => webhook,
            Family::Request => request,
        }
    }
}
