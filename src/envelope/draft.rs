//! From what a host wants sealed to what is stored. Everything passes the checks of opening first, so that nothing is
//! sealed that the daemon would refuse. Where a URL leads is not judged here.

use std::mem;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use zeroize::Zeroizing;

use super::aad::{Aad, Binding};
use super::error::{EnvelopeFault, OpenError, RowFault};
use super::json::Member;
use super::key::Keyring;
use super::open::{MAX_BODY, OpenRules, VERSION, read_object, read_plaintext};
use super::registration::{self, MAX_SEALED_REGISTRATION};
use super::row::Row;
use super::seal::{NONCE_LEN, TAG_LEN, seal};

/// Legacy authentication as a host names it.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Credentials<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) credentials: &'a str,
}

/// What a buyer registered, in the member order of the reference; absent members are spelt as null.
#[derive(Serialize)]
pub(crate) struct RegistrationDraft<'a> {
    pub(crate) url: &'a str,
    pub(crate) operation_id: &'a str,
    pub(crate) token: Option<&'a str>,
    pub(crate) authentication: Option<Credentials<'a>>,
    pub(crate) signing_scope_id: Option<&'a str>,
}

#[derive(Serialize)]
struct LegacyDraft<'a> {
    task_webhook_delivery_version: u8,
    body: &'a str,
    authentication: Credentials<'a>,
}

/// Seals `body` into the row, under the newest key. The nonce must be fresh.
pub(crate) fn seal_delivery(
    row: &mut Row,
    body: Zeroizing<Vec<u8>>,
    authentication: Option<Credentials<'_>>,
    ring: &Keyring,
    nonce: [u8; NONCE_LEN],
    rules: OpenRules,
) -> Result<(), OpenError> {
    if row.idempotency_key.is_empty() {
        return Err(OpenError::Row(RowFault::NoIdempotencyKey));
    }
    if body.len() > MAX_BODY {
        return Err(OpenError::BodyTooLarge { bytes: body.len() });
    }
    let mut plaintext = match authentication {
        None => {
            let [version] = read_object(&body, [VERSION])?;
            if !matches!(version, Member::Absent) {
                return Err(OpenError::Malformed(EnvelopeFault::ReservedMember));
            }
            body
        }
        Some(authentication) => {
            let body = Zeroizing::new(STANDARD.encode(&*body));
            // Escapes make six bytes of one at most, and the rest is short. A buffer that grew would leave copies behind.
            let room = body.len() + 6 * (authentication.scheme.len() + authentication.credentials.len()) + 256;
            written(&LegacyDraft { task_webhook_delivery_version: 1, body: &body, authentication }, room)
        }
    };
    read_plaintext(&plaintext, row, rules)?;
    let aad = Aad::delivery(&Binding::from(&*row));
    row.encrypted_body = seal(&aad, ring.newest(), nonce, mem::take(&mut *plaintext));
    row.envelope_nonce = nonce.to_vec();
    Ok(())
}

/// The ciphertext, under the newest key. The nonce must be fresh.
pub(crate) fn seal_registration(
    [account_id, task_id, task_type]: [&str; 3],
    draft: &RegistrationDraft<'_>,
    ring: &Keyring,
    nonce: [u8; NONCE_LEN],
    rules: OpenRules,
) -> Result<Vec<u8>, OpenError> {
    let [token, scheme, credentials] = [
        draft.token,
        draft.authentication.map(|authentication| authentication.scheme),
        draft.authentication.map(|authentication| authentication.credentials),
    ];
    let texts = [Some(draft.url), Some(draft.operation_id), token, scheme, credentials, draft.signing_scope_id];
    let most: usize = texts.into_iter().flatten().map(|text| 6 * text.len()).sum();
    let mut plaintext = written(draft, most + 256);
    let bytes = plaintext.len() + TAG_LEN;
    if bytes > MAX_SEALED_REGISTRATION {
        return Err(OpenError::Malformed(EnvelopeFault::RegistrationTooLarge { bytes }));
    }
    registration::parse(&plaintext, rules)?;
    let aad = Aad::registration(account_id, task_id, task_type);
    Ok(seal(&aad, ring.newest(), nonce, mem::take(&mut *plaintext)))
}

/// Compact JSON with raw UTF-8, as the reference writes both kinds.
fn written(draft: &impl Serialize, room: usize) -> Zeroizing<Vec<u8>> {
    let mut text = Zeroizing::new(Vec::with_capacity(room));
    // Structs of strings serialize whatever they hold, and a Vec takes every write.
    serde_json::to_writer(&mut *text, draft).expect("strings always serialize");
    text
}
