//! The text of a signing scope: what it may be, and which file it names. It opens no file.

use std::fmt::Write;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::ResolveError;

/// The reference's limit, in bytes of UTF-8.
const MAX_BYTES: usize = 255;
/// Longer names do not fit beside a suffix into the 255 bytes that file systems allow.
const MAX_FILE_NAME: usize = 240;

/// Whether a text may be a scope: not empty, not too long, and printable as Python has it, so that both fleets accept
/// the same rows.
pub(crate) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_BYTES && text.chars().all(is_printable)
}

/// The scope that signs for a row: its own, or the default one.
pub(super) fn chosen<'a>(scope: Option<&'a str>, default: Option<&'a str>) -> Result<&'a str, ResolveError> {
    let scope = scope.or(default).ok_or(ResolveError::ScopeRequired)?;
    if is_scope(scope) { Ok(scope) } else { Err(ResolveError::ScopeMalformed) }
}

fn is_printable(c: char) -> bool {
    use GeneralCategory as G;
    match c.general_category() {
        G::Control | G::Format | G::Surrogate | G::PrivateUse | G::Unassigned => false,
        G::LineSeparator | G::ParagraphSeparator => false,
        G::SpaceSeparator => c == ' ',
        _ => true,
    }
}

/// The scope percent-encoded but for RFC 3986's unreserved characters, so that no scope can name a path; where that grows
/// too long, the hash of the scope.
pub(super) fn file_name(scope: &str) -> String {
    let mut name = String::with_capacity(scope.len() + 5);
    for byte in scope.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            name.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name.push_str(".json");
    if name.len() <= MAX_FILE_NAME {
        return name;
    }
    let hash = ring::digest::digest(&ring::digest::SHA256, scope.as_bytes());
    format!("sha256-{}.json", crate::hex::encode(hash.as_ref()))
}
