//! Why an envelope was refused, as facts sorted by what follows from them. No content of a row is in them.

use thiserror::Error;

/// Every way in which [`super::open()`] can end without an envelope; each variant has one cause code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum OpenError {
    /// The tag fits under no held key. The row may be good and the key ours to supply, so this proves nothing
    /// against the row.
    #[error("no held key opens the envelope")]
    Unopenable,
    #[error("the row is malformed: {0}")]
    Row(RowFault),
    #[error("the envelope is malformed: {0}")]
    Malformed(EnvelopeFault),
    #[error("the sealed body's {member} is not the row's")]
    Mismatch { member: &'static str },
    #[error("the row asks for HMAC-SHA256, which is switched off")]
    HmacDisabled,
    #[error("the sealed credentials cannot be sent in a header")]
    CredentialsUnsendable,
    #[error("{bytes} bytes are more than a body may have")]
    BodyTooLarge { bytes: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum RowFault {
    #[error("the nonce has {bytes} bytes, not 12")]
    NonceLength { bytes: usize },
    #[error("the idempotency key is empty")]
    NoIdempotencyKey,
    #[error("the idempotency key cannot be a webhook-id, which is visible ASCII without a full stop")]
    NoMessageId,
    #[error("version {version} of a composed body is not known here")]
    ComposedVersion { version: i16 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum EnvelopeFault {
    #[error("{bytes} bytes of ciphertext cannot hold a tag")]
    NoTag { bytes: usize },
    #[error("{bytes} bytes are more than a registration may have")]
    RegistrationTooLarge { bytes: usize },
    #[error("the plaintext is not acceptable JSON: {0}")]
    Json(JsonFault),
    #[error("the plaintext is not a JSON object")]
    NotAnObject,
    #[error("the version is not the integer 1")]
    Version,
    #[error("the member {member} is missing or of a wrong type")]
    Member { member: &'static str },
    #[error("the authentication scheme is none of Bearer, HMAC-SHA256 and Standard-Webhooks")]
    Scheme,
    #[error("the credentials are not whsec_ and 24 to 64 bytes in base64")]
    StandardSecret,
    #[error("the credentials are empty")]
    NoCredentials,
    #[error("the body has the member task_webhook_delivery_version, which marks a legacy envelope")]
    ReservedMember,
    #[error("the legacy body is not strict base64")]
    Base64,
    #[error("legacy authentication carries a signing scope")]
    ScopeWithAuthentication,
    #[error("the registered URL is refused: {0}")]
    Url(UrlFault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum JsonFault {
    /// Also: another encoding than UTF-8, a byte order mark, NaN, a lone surrogate, a number beyond a double.
    #[error("not strict JSON")]
    Syntax,
    #[error("a key occurs twice in one object")]
    DuplicateKey,
    #[error("nested too deep")]
    TooDeep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum UrlFault {
    #[error("longer than 2048 characters")]
    TooLong,
    #[error("not an absolute https URL")]
    NotHttps,
    #[error("no host")]
    NoHost,
    #[error("user information in it")]
    Userinfo,
    #[error("not a URL")]
    Unparsable,
}
