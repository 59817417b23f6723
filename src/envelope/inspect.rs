//! Looking into an envelope for a person: everything that can be told of it, also where opening refuses it. It shows no
//! credentials, and a body only where it can be told from them.

use zeroize::Zeroizing;

use super::aad::{Aad, Binding};
use super::error::OpenError;
use super::json::Member;
use super::key::Keyring;
use super::legacy::{self, Authentication};
use super::open::{BODY, Comparison, OpenRules, Read, VERSION, compare_body, decrypt, read_object, read_plaintext};
use super::registration::{self, Registration, SealedRegistration};
use super::row::Row;
use super::seal::{NONCE_LEN, unseal};

/// How the row would be authenticated to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Rfc9421,
    Bearer,
    HmacSha256,
    StandardWebhooks,
    /// A legacy envelope whose scheme cannot be read.
    Unreadable,
}

/// A delivery envelope that some held key opens.
pub(crate) struct Inspection {
    /// Which key of the ring, the newest being 0.
    pub(crate) key: usize,
    pub(crate) form: Form,
    /// Only where it can be told from credentials.
    pub(crate) body: Option<Zeroizing<Vec<u8>>>,
    /// Only where the body is JSON that can be read.
    pub(crate) members: Option<Comparison>,
    /// What the daemon has against it.
    pub(crate) refusal: Option<OpenError>,
}

/// A registration that some held key opens.
pub(crate) struct Registered {
    pub(crate) key: usize,
    pub(crate) outcome: Result<Registration, OpenError>,
}

/// What was tried besides, and fits where the row as it stands does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Hint {
    #[error("it opens with a null signing_scope_id: the column was set after sealing")]
    ScopeAdded,
    #[error("it opens with an empty signing_scope_id: null and empty are not the same to the seal")]
    ScopeEmptied,
    #[error("it opens with the other terminal_status: the column was changed after sealing")]
    OtherStatus,
    #[error("it opens as the registration of its task: the ciphertext was taken from there")]
    Registration,
}

pub(crate) fn inspect_delivery(
    mut row: Row,
    ring: &Keyring,
    rules: OpenRules,
) -> Result<Inspection, (OpenError, Option<Hint>)> {
    let sealed = row.encrypted_body.clone();
    let (key, plaintext) = match decrypt(&mut row, ring) {
        Ok(decrypted) => decrypted,
        Err(OpenError::Unopenable) => return Err((OpenError::Unopenable, guess(&row, &sealed, ring))),
        Err(error) => return Err((error, None)),
    };
    let (opened, refusal) = match read_plaintext(&plaintext, &row, rules) {
        Ok(opened) => (Some(opened), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let (form, body) = match opened {
        Some(Read::Legacy { body, authentication, .. }) => (form_of(&authentication), Some(body)),
        Some(Read::Body(_)) | None => take_apart(plaintext),
    };
    let members = body.as_ref().and_then(|body| compare_body(body, &row).ok());
    Ok(Inspection { key, form, body, members, refusal })
}

/// The two forms told apart where the daemon would not go on.
fn take_apart(plaintext: Zeroizing<Vec<u8>>) -> (Form, Option<Zeroizing<Vec<u8>>>) {
    const AUTHENTICATION: &[&str] = &["authentication"];
    const SCHEME: &[&str] = &["authentication", "scheme"];
    const CREDENTIALS: &[&str] = &["authentication", "credentials"];
    let paths = [VERSION, BODY, AUTHENTICATION, SCHEME, CREDENTIALS];
    let legacy = match read_object(&plaintext, paths) {
        Ok([Member::Absent, ..]) => None,
        Ok([_, Member::Text(body), object, scheme, credentials]) => {
            let rules = OpenRules { legacy_hmac: true };
            let form = match legacy::authentication(&object, &scheme, &credentials, rules) {
                Ok(authentication) => form_of(&authentication),
                Err(_) => Form::Unreadable,
            };
            Some((form, legacy::decode_body(&body).ok()))
        }
        // Broken, so that whether credentials are in it cannot be told.
        Ok(_) | Err(_) => Some((Form::Unreadable, None)),
    };
    legacy.unwrap_or((Form::Rfc9421, Some(plaintext)))
}

fn form_of(authentication: &Authentication) -> Form {
    match authentication {
        Authentication::Bearer(_) => Form::Bearer,
        Authentication::HmacSha256(_) => Form::HmacSha256,
        Authentication::StandardWebhooks(_) => Form::StandardWebhooks,
    }
}

pub(crate) fn inspect_registration(
    sealed: SealedRegistration<'_>,
    ring: &Keyring,
    rules: OpenRules,
) -> Result<Registered, OpenError> {
    let (key, plaintext) = registration::decrypt(sealed, ring)?;
    Ok(Registered { key, outcome: registration::parse(&plaintext, rules) })
}

/// The usual ways in which a row and its envelope come apart, tried one by one.
fn guess(row: &Row, sealed: &[u8], ring: &Keyring) -> Option<Hint> {
    let nonce: [u8; NONCE_LEN] = row.envelope_nonce.as_slice().try_into().ok()?;
    let binding = Binding::from(row);
    let other_status = if row.terminal_status == "completed" { "failed" } else { "completed" };
    let tries = [
        (Hint::ScopeAdded, Aad::delivery(&Binding { signing_scope_id: None, ..binding })),
        (Hint::ScopeEmptied, Aad::delivery(&Binding { signing_scope_id: Some(""), ..binding })),
        (Hint::OtherStatus, Aad::delivery(&Binding { terminal_status: other_status, ..binding })),
        (Hint::Registration, Aad::registration(&row.account_id, &row.task_id, &row.task_type)),
    ];
    tries.into_iter().find_map(|(hint, aad)| unseal(sealed.to_vec(), &aad, nonce, ring).map(|_| hint))
}
