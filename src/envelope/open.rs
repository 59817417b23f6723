//! Opening a row's envelope: decrypt, tell the two forms apart, check the body against the row. Whatever is wrong ends
//! as a typed refusal; what follows from it is not decided here, and the scope's text is the signer's to judge.

use std::fmt;
use std::mem;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::aad::{Aad, Binding};
use super::announced::{ANNOUNCED, Announced};
use super::compose::compose;
use super::error::{EnvelopeFault, OpenError, RowFault};
use super::json::{self, Member, Path};
use super::key::Keyring;
use super::legacy::{self, Authentication};
use super::row::Row;
use super::seal::{NONCE_LEN, TAG_LEN, unseal};

/// The reference's cap on a body, at prepare and at send.
pub(crate) const MAX_BODY: usize = 10 * 1024 * 1024;

/// No acceptable row has a longer `encrypted_body`: the largest body in base64, and a generous 1 MiB for the members
/// around it.
pub(crate) const MAX_SEALED: usize = MAX_BODY.div_ceil(3) * 4 + (1 << 20) + TAG_LEN;

/// What the configuration says about envelopes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRules {
    /// Whether rows that ask for HMAC-SHA256 are served.
    pub(crate) legacy_hmac: bool,
}

/// What a row asks to have sent.
pub(crate) struct Envelope {
    /// The HTTP body, byte for byte as it was sealed. The memory is wiped when the last handle is dropped.
    pub(crate) body: Bytes,
    /// `None` is an RFC 9421 row.
    pub(crate) authentication: Option<Authentication>,
    pub(crate) announced: Announced,
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[envelope]")
    }
}

/// Opens the row's envelope, or what a composed row's envelope is rendered from. The ciphertext is taken out of the row
/// and decrypted where it lies.
pub(crate) fn open(row: &mut Row, ring: &Keyring, rules: OpenRules) -> Result<Envelope, OpenError> {
    if row.idempotency_key.is_empty() {
        return Err(OpenError::Row(RowFault::NoIdempotencyKey));
    }
    match row.composed.take() {
        Some(composed) => compose(row, &composed, ring, rules),
        None => open_sealed(row, ring, rules),
    }
}

fn open_sealed(row: &mut Row, ring: &Keyring, rules: OpenRules) -> Result<Envelope, OpenError> {
    let (_, plaintext) = decrypt(row, ring)?;
    let (body, authentication, announced) = match read_plaintext(&plaintext, row, rules)? {
        Read::Legacy { body, authentication, announced } => (body, Some(authentication), announced),
        Read::Body(announced) => (plaintext, None, announced),
    };
    if body.len() > MAX_BODY {
        return Err(OpenError::BodyTooLarge { bytes: body.len() });
    }
    Ok(Envelope { body: Bytes::from_owner(body), authentication, announced })
}

/// The plaintext, not yet looked at, and which key of the ring it came from.
pub(super) fn decrypt(row: &mut Row, ring: &Keyring) -> Result<(usize, Zeroizing<Vec<u8>>), OpenError> {
    let nonce: [u8; NONCE_LEN] = row
        .envelope_nonce
        .as_slice()
        .try_into()
        .map_err(|_| OpenError::Row(RowFault::NonceLength { bytes: row.envelope_nonce.len() }))?;
    let sealed = mem::take(&mut row.encrypted_body);
    if sealed.len() < TAG_LEN {
        return Err(OpenError::Malformed(EnvelopeFault::NoTag { bytes: sealed.len() }));
    }
    if sealed.len() > MAX_SEALED {
        return Err(OpenError::BodyTooLarge { bytes: sealed.len() });
    }
    let aad = Aad::delivery(&Binding::from(&*row));
    unseal(sealed, &aad, nonce, ring).ok_or(OpenError::Unopenable)
}

const TASK_ID: &str = "task_id";
const TASK_TYPE: &str = "task_type";
const STATUS: &str = "status";
const OPERATION_ID: &str = "operation_id";
const IDEMPOTENCY_KEY: &str = "idempotency_key";

pub(super) const VERSION: Path = &["task_webhook_delivery_version"];
pub(super) const BODY: Path = &["body"];
const AUTHENTICATION: Path = &["authentication"];
const SCHEME: Path = &["authentication", "scheme"];
const CREDENTIALS: Path = &["authentication", "credentials"];

/// The members of a body that must be the row's, in the order of [`check_binding`].
const BOUND: [Path; 5] = [&[TASK_ID], &[TASK_TYPE], &[STATUS], &[OPERATION_ID], &[IDEMPOTENCY_KEY]];

/// What a plaintext turned out to be. Its body has been checked.
pub(super) enum Read {
    /// An RFC 9421 row: the plaintext is the body.
    Body(Announced),
    /// What a legacy-auth row's plaintext wraps.
    Legacy { body: Zeroizing<Vec<u8>>, authentication: Authentication, announced: Announced },
}

/// Reads the plaintext once, as either form.
pub(super) fn read_plaintext(plaintext: &[u8], row: &Row, rules: OpenRules) -> Result<Read, OpenError> {
    let [version, body, object, scheme, credentials, members @ ..] = read_object(
        plaintext,
        [
            VERSION,
            BODY,
            AUTHENTICATION,
            SCHEME,
            CREDENTIALS,
            MEMBERS[0],
            MEMBERS[1],
            MEMBERS[2],
            MEMBERS[3],
            MEMBERS[4],
            MEMBERS[5],
            MEMBERS[6],
            MEMBERS[7],
            MEMBERS[8],
        ],
    )?;
    match version {
        Member::Absent => {
            return Ok(Read::Body(judge_body(members, row)?));
        }
        Member::Integer(1) => {}
        _ => return Err(OpenError::Malformed(EnvelopeFault::Version)),
    }
    let authentication = legacy::authentication(&object, &scheme, &credentials, rules)?;
    authentication.check_row(row)?;
    let Member::Text(body) = body else {
        return Err(OpenError::Malformed(EnvelopeFault::Member { member: "body" }));
    };
    let body = legacy::decode_body(&body)?;
    let announced = judge_body(read_object(&body, MEMBERS)?, row)?;
    if row.signing_scope_id.is_some() {
        return Err(OpenError::Malformed(EnvelopeFault::ScopeWithAuthentication));
    }
    Ok(Read::Legacy { body, authentication, announced })
}

/// The members that are looked at in a body: those that are bound to the row, and those that it announces.
const MEMBERS: [Path; 9] =
    [BOUND[0], BOUND[1], BOUND[2], BOUND[3], BOUND[4], ANNOUNCED[0], ANNOUNCED[1], ANNOUNCED[2], ANNOUNCED[3]];

fn judge_body(members: [Member<'_>; 9], row: &Row) -> Result<Announced, OpenError> {
    let [task, kind, status, operation, key, announced @ ..] = members;
    check_binding(&[task, kind, status, operation, key], row)?;
    Ok(Announced::of_body(&announced))
}

pub(super) fn read_object<const N: usize>(document: &[u8], paths: [Path; N]) -> Result<[Member<'_>; N], OpenError> {
    json::read(document, paths)
        .map_err(|fault| OpenError::Malformed(EnvelopeFault::Json(fault)))?
        .ok_or(OpenError::Malformed(EnvelopeFault::NotAnObject))
}

/// A body sealed for one row must not be delivered as another's, even by someone who holds the key.
fn check_binding(bound: &[Member<'_>; 5], row: &Row) -> Result<(), OpenError> {
    match compare(bound, row).into_iter().find(|(_, same)| !same) {
        Some((member, _)) => Err(OpenError::Mismatch { member }),
        None => Ok(()),
    }
}

/// Each bound member's name, and whether it is the row's.
pub(super) type Comparison = [(&'static str, bool); 5];

fn compare(bound: &[Member<'_>; 5], row: &Row) -> Comparison {
    let [task_id, task_type, status, operation_id, idempotency_key] = bound;
    let same = |found: &Member<'_>, column: &str| matches!(found, Member::Text(text) if **text == *column);
    [
        (TASK_ID, same(task_id, &row.task_id)),
        (TASK_TYPE, same(task_type, &row.task_type)),
        (STATUS, same(status, &row.terminal_status)),
        (OPERATION_ID, same(operation_id, &row.operation_id)),
        (IDEMPOTENCY_KEY, same(idempotency_key, &row.idempotency_key)),
    ]
}

pub(super) fn compare_body(body: &[u8], row: &Row) -> Result<Comparison, OpenError> {
    Ok(compare(&read_object(body, BOUND)?, row))
}
