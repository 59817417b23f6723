//! A task's sealed registration: where its webhook goes and how it authenticates; opened and sealed. It does not deliver
//! to it, and leaves addresses to the address policy and scope text to the signer.

use zeroize::Zeroizing;

use super::aad::Aad;
use super::error::{EnvelopeFault, OpenError, RowFault, UrlFault};
use super::json::{Member, Path};
use super::key::Keyring;
use super::legacy::{self, Authentication};
use super::open::{OpenRules, read_object};
use super::seal::{NONCE_LEN, TAG_LEN, unseal};
use crate::secret::Secret;

/// Far above what a URL of 2048 characters, a token of 4096 and credentials need.
pub(super) const MAX_SEALED_REGISTRATION: usize = 1 << 20;

/// The wire contract, section 1.4; counted in code points.
const MAX_URL: usize = 2048;

/// A registration as stored, with the columns that it is bound to.
pub(crate) struct SealedRegistration<'a> {
    pub(crate) account_id: &'a str,
    pub(crate) task_id: &'a str,
    pub(crate) task_type: &'a str,
    pub(crate) ciphertext: Vec<u8>,
    pub(crate) nonce: &'a [u8],
}

/// What the buyer registered for one task.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) url: String,
    pub(crate) operation_id: String,
    pub(crate) token: Option<Secret>,
    pub(crate) authentication: Option<Authentication>,
    pub(crate) signing_scope_id: Option<String>,
}

const URL: Path = &["url"];
const OPERATION_ID: Path = &["operation_id"];
const TOKEN: Path = &["token"];
const AUTHENTICATION: Path = &["authentication"];
const SCHEME: Path = &["authentication", "scheme"];
const CREDENTIALS: Path = &["authentication", "credentials"];
const SIGNING_SCOPE_ID: Path = &["signing_scope_id"];

pub(crate) fn open_registration(
    sealed: SealedRegistration<'_>,
    ring: &Keyring,
    rules: OpenRules,
) -> Result<Registration, OpenError> {
    let (_, plaintext) = decrypt(sealed, ring)?;
    parse(&plaintext, rules)
}

/// The plaintext, not yet looked at, and which key of the ring it came from.
pub(super) fn decrypt(
    sealed: SealedRegistration<'_>,
    ring: &Keyring,
) -> Result<(usize, Zeroizing<Vec<u8>>), OpenError> {
    let nonce: [u8; NONCE_LEN] =
        sealed.nonce.try_into().map_err(|_| OpenError::Row(RowFault::NonceLength { bytes: sealed.nonce.len() }))?;
    let bytes = sealed.ciphertext.len();
    if bytes < TAG_LEN {
        return Err(OpenError::Malformed(EnvelopeFault::NoTag { bytes }));
    }
    if bytes > MAX_SEALED_REGISTRATION {
        return Err(OpenError::Malformed(EnvelopeFault::RegistrationTooLarge { bytes }));
    }
    let aad = Aad::registration(sealed.account_id, sealed.task_id, sealed.task_type);
    unseal(sealed.ciphertext, &aad, nonce, ring).ok_or(OpenError::Unopenable)
}

pub(super) fn parse(plaintext: &[u8], rules: OpenRules) -> Result<Registration, OpenError> {
    let [url, operation_id, token, object, scheme, credentials, scope] =
        read_object(plaintext, [URL, OPERATION_ID, TOKEN, AUTHENTICATION, SCHEME, CREDENTIALS, SIGNING_SCOPE_ID])?;
    let url = text(url, "url")?.ok_or(missing("url"))?;
    let operation_id = text(operation_id, "operation_id")?.ok_or(missing("operation_id"))?;
    let token = text(token, "token")?.map(Secret::from);
    let signing_scope_id = text(scope, "signing_scope_id")?;
    let authentication = match object {
        Member::Absent | Member::Null => None,
        object => Some(legacy::authentication(&object, &scheme, &credentials, rules)?),
    };
    check_url(&url).map_err(|fault| OpenError::Malformed(EnvelopeFault::Url(fault)))?;
    if authentication.is_some() && signing_scope_id.is_some() {
        return Err(OpenError::Malformed(EnvelopeFault::ScopeWithAuthentication));
    }
    Ok(Registration { url, operation_id, token, authentication, signing_scope_id })
}

fn missing(member: &'static str) -> OpenError {
    OpenError::Malformed(EnvelopeFault::Member { member })
}

/// A string, or `None` where the member is null or absent.
fn text(member: Member<'_>, name: &'static str) -> Result<Option<String>, OpenError> {
    match member {
        Member::Absent | Member::Null => Ok(None),
        Member::Text(text) => Ok(Some(text.to_owned())),
        _ => Err(missing(name)),
    }
}

/// The rules of registering. `url::Url` repairs much that the reference refuses (`https:/host`, tabs, an empty user),
/// so the authority is judged as it is written before the parser has its say.
fn check_url(text: &str) -> Result<(), UrlFault> {
    if text.chars().count() > MAX_URL {
        return Err(UrlFault::TooLong);
    }
    let (scheme, rest) = text.split_once("://").ok_or(UrlFault::NotHttps)?;
    if !scheme.eq_ignore_ascii_case("https") {
        return Err(UrlFault::NotHttps);
    }
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(UrlFault::Userinfo);
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(UrlFault::NoHost);
    }
    if text.chars().any(char::is_control) || authority.contains(char::is_whitespace) {
        return Err(UrlFault::Unparsable);
    }
    let url = url::Url::parse(text).map_err(|_| UrlFault::Unparsable)?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(UrlFault::NoHost);
    }
    Ok(())
}
