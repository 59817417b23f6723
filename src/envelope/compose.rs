//! From a composed row to its envelope: opens the task's registration, holds the row's hints against it, and has the body
//! rendered. It spells no body itself.

use std::mem;

use bytes::Bytes;

use super::announced::{Announced, IN_RESULT, RESULT};
use super::body;
use super::error::{EnvelopeFault, OpenError, RowFault};
use super::json;
use super::key::Keyring;
use super::open::{Envelope, MAX_BODY, OpenRules};
use super::registration::{Registration, SealedRegistration, open_registration};
use super::row::{Composed, Row};

/// The contract for tokens, in characters.
const TOKEN_LENGTHS: std::ops::RangeInclusive<usize> = 16..=4096;

/// The registration is the authority on where the row goes and under whose key, and takes the place of the row's hints;
/// a hint that says otherwise means that the registration is another task's, or the row was changed.
pub(super) fn compose(
    row: &mut Row,
    composed: &Composed,
    ring: &Keyring,
    rules: OpenRules,
) -> Result<Envelope, OpenError> {
    let sealed = SealedRegistration {
        account_id: &row.account_id,
        task_id: &row.task_id,
        task_type: &row.task_type,
        ciphertext: mem::take(&mut row.encrypted_body),
        nonce: &row.envelope_nonce,
    };
    let registration = open_registration(sealed, ring, rules)?;
    check_hints(row, &registration)?;
    let members = json::read_nested(RESULT, composed.result.as_bytes(), IN_RESULT)
        .map_err(|fault| OpenError::Malformed(EnvelopeFault::Json(fault)))?
        .ok_or(OpenError::Malformed(EnvelopeFault::NotAnObject))?;
    let Registration { url, operation_id, token, authentication, signing_scope_id } = registration;
    if let Some(authentication) = &authentication {
        authentication.check_row(row)?;
    }
    if operation_id.is_empty() {
        return Err(OpenError::Malformed(EnvelopeFault::Member { member: "operation_id" }));
    }
    let token = token.as_ref().map(|token| std::str::from_utf8(token.expose())).transpose();
    let token = token.ok().filter(|token| token.is_none_or(|token| TOKEN_LENGTHS.contains(&token.chars().count())));
    let token = token.ok_or(OpenError::Malformed(EnvelopeFault::Member { member: "token" }))?;
    row.url = url;
    row.operation_id = operation_id;
    row.signing_scope_id = signing_scope_id;
    let rendered = match composed.version {
        1 => body::render_v1(row, token, composed),
        version => return Err(OpenError::Row(RowFault::ComposedVersion { version })),
    };
    if rendered.len() > MAX_BODY {
        return Err(OpenError::BodyTooLarge { bytes: rendered.len() });
    }
    let announced = Announced::of_result(&members, body::notification_id(row));
    Ok(Envelope { body: Bytes::from_owner(rendered), authentication, announced })
}

/// Empty is no hint.
fn check_hints(row: &Row, registration: &Registration) -> Result<(), OpenError> {
    if !row.url.is_empty() && row.url != registration.url {
        return Err(OpenError::Mismatch { member: "url" });
    }
    if !row.operation_id.is_empty() && row.operation_id != registration.operation_id {
        return Err(OpenError::Mismatch { member: "operation_id" });
    }
    if row.signing_scope_id.is_some() && row.signing_scope_id != registration.signing_scope_id {
        return Err(OpenError::Mismatch { member: "signing_scope_id" });
    }
    Ok(())
}
