//! What must hold of every `Retry-After`: it is bounded, a repeated one says nothing, and seconds are read as they stand.

use std::time::{Duration, SystemTime};

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};

use super::fields::cut;
use crate::verdict::retry_after::{MAX_HINT, parse};

/// RFC 9110's own example of a date.
const NOW: u64 = 784_111_777;

/// Fields: the value, a second value where not empty, the reply's date where not empty.
pub(super) fn check(data: &[u8]) {
    let [value, again, date] = cut(data);
    let mut headers = HeaderMap::new();
    let Ok(first) = HeaderValue::from_bytes(value) else { return };
    headers.append(RETRY_AFTER, first);
    if let Ok(date) = HeaderValue::from_bytes(date)
        && !date.is_empty()
    {
        headers.append(DATE, date);
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let hint = parse(&headers, now);
    assert!(hint.is_none_or(|hint| hint <= MAX_HINT), "{hint:?}");
    let text = std::str::from_utf8(value).unwrap_or_default().trim_matches([' ', '\t']);
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().ok().map(|seconds: u64| Duration::from_secs(seconds.min(MAX_HINT.as_secs())));
        assert_eq!(hint, seconds, "{text:?}");
    } else if hint.is_some() {
        // The shortest of the three forms, "Sun Nov  6 08:49:37 1994", has 24 characters.
        assert!(text.len() >= 24 && text.is_ascii(), "{text:?} is taken for a date");
    }
    if let Ok(again) = HeaderValue::from_bytes(again)
        && !again.is_empty()
    {
        headers.append(RETRY_AFTER, again);
        assert_eq!(parse(&headers, now), None, "{text:?} and another");
    }
}
