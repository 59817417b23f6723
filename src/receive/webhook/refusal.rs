//! Every way in which a webhook is not taken, with its status and code: the one list that replies, logs and metrics use.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use http_body_util::Full;

use crate::receive::Reply;
use crate::receive::server::BodyError;
use crate::signature::verify::VerifyError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    NotFound,
    Method,
    ContentType,
    ContentEncoding,
    BodyTooLarge,
    BodyShort,
    BodyLate,
    /// Too much memory is held by other bodies.
    Busy,
    SignatureMissing,
    Signature(VerifyError),
    LegacyFailed,
    /// There is no key set that could be judged by.
    KeysUnavailable,
    BodyInvalidJson,
    NotIJson,
    KeyMissing,
    KeyInvalid,
    Conflict,
    InProgress,
    StoreUnavailable,
}

impl Refusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Refusal::NotFound => StatusCode::NOT_FOUND,
            Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::ContentType | Refusal::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::BodyLate => StatusCode::REQUEST_TIMEOUT,
            Refusal::SignatureMissing | Refusal::Signature(_) | Refusal::LegacyFailed => StatusCode::UNAUTHORIZED,
            Refusal::BodyShort
            | Refusal::BodyInvalidJson
            | Refusal::NotIJson
            | Refusal::KeyMissing
            | Refusal::KeyInvalid => StatusCode::BAD_REQUEST,
            Refusal::Conflict => StatusCode::CONFLICT,
            Refusal::Busy | Refusal::KeysUnavailable | Refusal::InProgress | Refusal::StoreUnavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// A closed list: no code holds anything that a sender wrote.
    pub(super) fn code(self) -> &'static str {
        match self {
            Refusal::NotFound => "not_found",
            Refusal::Method => "method_not_allowed",
            Refusal::ContentType => "content_type_invalid",
            Refusal::ContentEncoding => "content_encoding_invalid",
            Refusal::BodyTooLarge => "body_too_large",
            Refusal::BodyShort => "body_incomplete",
            Refusal::BodyLate => "body_timeout",
            Refusal::Busy => "busy",
            Refusal::SignatureMissing => "signature_missing",
            Refusal::Signature(error) => error.code(),
            Refusal::LegacyFailed => "signature_legacy_failed",
            Refusal::KeysUnavailable => "keys_unavailable",
            Refusal::BodyInvalidJson => "body_invalid_json",
            Refusal::NotIJson => "payload_not_i_json",
            Refusal::KeyMissing => "idempotency_key_missing",
            Refusal::KeyInvalid => "idempotency_key_invalid",
            Refusal::Conflict => "idempotency_conflict",
            Refusal::InProgress => "in_progress",
            Refusal::StoreUnavailable => "store_unavailable",
        }
    }

    /// The code of the challenge that goes with a 401.
    fn challenge(self) -> Option<&'static str> {
        match self {
            // The reference answers so where there is no signature to find fault with.
            Refusal::SignatureMissing => Some(VerifyError::HeaderMalformed.code()),
            Refusal::LegacyFailed => Some(VerifyError::Invalid.code()),
            Refusal::Signature(error) => Some(error.code()),
            _ => None,
        }
    }

    /// How long the sender had better wait, in seconds.
    fn retry_after(self) -> Option<u16> {
        match self {
            Refusal::Busy | Refusal::InProgress => Some(1),
            Refusal::StoreUnavailable => Some(5),
            Refusal::KeysUnavailable => Some(10),
            _ => None,
        }
    }

    pub(super) fn reply(self) -> Reply {
        let mut reply = answer(self.status(), &format!("{{\"error\":\"{}\"}}", self.code()));
        let headers = reply.headers_mut();
        if self == Refusal::Method {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(code) = self.challenge() {
            // Codes are lower-case words.
            let challenge = HeaderValue::from_str(&format!("Signature error=\"{code}\""));
            headers.insert(WWW_AUTHENTICATE, challenge.expect("a code is visible ASCII"));
        }
        reply
    }
}

pub(super) fn answer(status: StatusCode, text: &str) -> Reply {
    let mut reply = Reply::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Refusal {
        match error {
            BodyError::Short => Refusal::BodyShort,
            BodyError::TooLarge => Refusal::BodyTooLarge,
            BodyError::Late => Refusal::BodyLate,
            BodyError::Crowded => Refusal::Busy,
        }
    }
}

impl From<VerifyError> for Refusal {
    fn from(error: VerifyError) -> Refusal {
        Refusal::Signature(error)
    }
}
