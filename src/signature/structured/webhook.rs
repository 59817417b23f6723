//! Fields taken apart without a strict parse: for the checks that must come before parsing, and for the byte sequences of
//! the webhook profile, which are none by RFC 8941.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::Malformed;

/// A field split at the commas that stand outside quotes and parentheses. It works on fields that no strict parser would
/// accept.
pub(in super::super) fn split_at_commas(field: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let (mut depth, mut quoted, mut escaped, mut start) = (0_i32, false, false, 0);
    for (at, byte) in field.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                members.push(&field[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(&field[start..]);
    members
}

pub(super) fn members(field: &str) -> impl Iterator<Item = &str> {
    split_at_commas(field)
        .into_iter()
        .map(|member| member.trim_matches([' ', '\t']))
        .filter(|member| !member.is_empty())
}

/// Whether two members share a key, letter case aside: keys are lower case, so that two spellings are never two keys.
pub(in super::super) fn has_duplicate_keys(field: &str) -> bool {
    let mut keys: Vec<String> = members(field)
        .map(|member| member.split_once('=').map_or(member, |(key, _)| key).trim().to_ascii_lowercase())
        .collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// The text between the colons of a member that is a byte sequence. `None`: no such member; `Err`: it is something else.
pub(super) fn byte_sequence(field: &str, is_key: impl Fn(&str) -> bool) -> Result<Option<&str>, Malformed> {
    for member in members(field) {
        let Some((name, value)) = member.split_once('=') else { continue };
        if !is_key(name.trim()) {
            continue;
        }
        let inner = value.trim().strip_prefix(':').and_then(|rest| rest.strip_suffix(':'));
        return inner.map(Some).ok_or(Malformed);
    }
    Ok(None)
}

pub(super) fn decode_either(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()
}

pub(super) fn mixes_alphabets(text: &str) -> bool {
    text.contains(['+', '/']) && text.contains(['-', '_'])
}
