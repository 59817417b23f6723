//! A request's header fields under the contract's rules: one value for each name, none of them empty or long, not too
//! many. What HTTP itself forbids, the server has refused before.

use http::HeaderMap;

use super::report::Refusal;

const MAX_FIELDS: usize = 64;
const MAX_VALUE_BYTES: usize = 4096;

/// Fields that kept the rules.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(&'a HeaderMap);

impl<'a> Fields<'a> {
    /// A name with `_` is another name than the one with `-`.
    pub(super) fn check(headers: &'a HeaderMap) -> Result<Fields<'a>, Refusal> {
        let kept = headers.keys_len() <= MAX_FIELDS
            // A name that is repeated shows as more values than names.
            && headers.len() == headers.keys_len()
            && headers.values().all(|value| (1..=MAX_VALUE_BYTES).contains(&value.len()));
        if kept { Ok(Fields(headers)) } else { Err(Refusal::HeadersInvalid) }
    }

    pub(super) fn get(self, name: &str) -> Option<&'a [u8]> {
        self.0.get(name).map(http::HeaderValue::as_bytes)
    }

    /// Byte for byte.
    pub(super) fn is(self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value.as_bytes())
    }
}

/// Whether the body is framed by anything but its length.
pub(super) fn is_framed(headers: &HeaderMap) -> bool {
    headers.get_all(http::header::TRANSFER_ENCODING).iter().any(|value| !value.is_empty())
}

/// Spaces count for nothing, wherever they are; tabs and other blanks do.
pub(super) fn is_json_utf8(content_type: &[u8]) -> bool {
    let bare = content_type.iter().filter(|byte| **byte != b' ').map(u8::to_ascii_lowercase);
    bare.eq(b"application/json;charset=utf-8".iter().copied())
}

/// A decimal number of any width, capped at what no body may be.
pub(super) fn length(value: &[u8]) -> Option<usize> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(value.iter().fold(0usize, |sum, digit| sum.saturating_mul(10).saturating_add(usize::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_any_width_are_numbers() {
        assert_eq!(length(b"000577"), Some(577));
        assert_eq!(length("9".repeat(4000).as_bytes()), Some(usize::MAX));
        for bad in ["", "+5", "-5", "0x10", "5.0", "5,5", " 5"] {
            assert_eq!(length(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(length("²".as_bytes()), None);
    }

    #[test]
    fn spaces_in_a_content_type_count_for_nothing_and_tabs_do() {
        assert!(is_json_utf8(b"APPLICATION/JSON ; charset = utf-8"));
        assert!(is_json_utf8(b"appli cation/json;charset=UTF-8"));
        for bad in ["application/json", "application/json;charset=\"utf-8\"", "application/json;\tcharset=utf-8"] {
            assert!(!is_json_utf8(bad.as_bytes()), "{bad}");
        }
    }
}
