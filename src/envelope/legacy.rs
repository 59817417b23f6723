//! The members that carry legacy authentication, in a delivery envelope and in a registration alike. It does not
//! authenticate anything.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

use super::error::{EnvelopeFault, OpenError, RowFault};
use super::json::Member;
use super::open::OpenRules;
use super::row::Row;
use crate::secret::{Secret, from_whsec};

/// Padding is demanded and whitespace refused, but the unused bits of the last character may be set: the reference
/// takes them, and they change no byte of the body.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// How a row without an RFC 9421 signature authenticates itself to its receiver.
#[derive(Debug, Clone)]
pub(crate) enum Authentication {
    Bearer(Secret),
    HmacSha256(Secret),
    /// The decoded key, not the `whsec_` text. No scheme of the reference: its workers quarantine such a row.
    StandardWebhooks(Secret),
}

impl Authentication {
    /// Standard Webhooks signs the row's idempotency key as `webhook-id`, and a full stop in it would leave open where the
    /// timestamp begins.
    pub(super) fn check_row(&self, row: &Row) -> Result<(), OpenError> {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'.';
        match self {
            Authentication::StandardWebhooks(_) if !row.idempotency_key.bytes().all(fits) => {
                Err(OpenError::Row(RowFault::NoMessageId))
            }
            _ => Ok(()),
        }
    }
}

/// The rules for a scheme and its credentials, in the order of the wire contract, section 2.3.
pub(super) fn authentication(
    object: &Member<'_>,
    scheme: &Member<'_>,
    credentials: &Member<'_>,
    rules: OpenRules,
) -> Result<Authentication, OpenError> {
    let wrong = |member| OpenError::Malformed(EnvelopeFault::Member { member });
    let Member::Object = object else { return Err(wrong("authentication")) };
    let Member::Text(scheme) = scheme else { return Err(wrong("scheme")) };
    let Member::Text(credentials) = credentials else { return Err(wrong("credentials")) };
    let bearer = match &**scheme {
        "Bearer" => true,
        "HMAC-SHA256" => false,
        "Standard-Webhooks" => return standard_webhooks(credentials),
        _ => return Err(OpenError::Malformed(EnvelopeFault::Scheme)),
    };
    if credentials.is_empty() {
        return Err(OpenError::Malformed(EnvelopeFault::NoCredentials));
    }
    if !bearer && !rules.legacy_hmac {
        return Err(OpenError::HmacDisabled);
    }
    let line_break = credentials.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
    if line_break || bearer && !fits_a_header(credentials) {
        return Err(OpenError::CredentialsUnsendable);
    }
    let secret = Secret::new(credentials.as_bytes().to_vec());
    Ok(if bearer { Authentication::Bearer(secret) } else { Authentication::HmacSha256(secret) })
}

fn standard_webhooks(credentials: &str) -> Result<Authentication, OpenError> {
    from_whsec(credentials.as_bytes())
        .map(Authentication::StandardWebhooks)
        .ok_or(OpenError::Malformed(EnvelopeFault::StandardSecret))
}

/// A field value of RFC 9110 section 5.5 without obs-text: the reference cannot send text beyond ASCII, and a space
/// or tab at the end would not arrive.
fn fits_a_header(credentials: &str) -> bool {
    credentials.trim_matches([' ', '\t']) == credentials
        && credentials.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

pub(super) fn decode_body(body: &str) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    // Room for the whole body at once: growing would leave unwiped pieces behind.
    let mut decoded = Zeroizing::new(vec![0; base64::decoded_len_estimate(body.len())]);
    let len = BASE64.decode_slice(body, &mut decoded).map_err(|_| OpenError::Malformed(EnvelopeFault::Base64))?;
    decoded.truncate(len);
    Ok(decoded)
}
