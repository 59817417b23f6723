//! Reads `Retry-After` as a duration. Any bytes are safe to read; whether the hint is followed is not decided here.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, HeaderName, RETRY_AFTER};

/// No receiver may park a row for longer by one reply.
pub(crate) const MAX_HINT: Duration = Duration::from_secs(24 * 60 * 60);

/// The hint of a reply, at most [`MAX_HINT`]. `None` where it is absent, repeated, past or senseless.
pub(crate) fn parse(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = only_value(headers, &RETRY_AFTER)?;
    let hint = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Empty and beyond 64 bits are errors here, not the longest wait: such a value says nothing.
        Duration::from_secs(value.parse().ok()?)
    } else {
        let until = httpdate::parse_http_date(value).ok()?;
        until.duration_since(receivers_clock(headers, now)).ok()?
    };
    Some(hint.min(MAX_HINT))
}

/// The receiver means its own clock, so its own `Date` is the one to compare with, unless that is a day off.
fn receivers_clock(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    let date = only_value(headers, &DATE).and_then(|value| httpdate::parse_http_date(value).ok());
    let is_sane = |date: &SystemTime| {
        let skew = date.duration_since(now).unwrap_or_else(|earlier| earlier.duration());
        skew <= MAX_HINT
    };
    date.filter(is_sane).unwrap_or(now)
}

fn only_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        None => value.to_str().ok().map(|text| text.trim_matches([' ', '\t'])),
        Some(_) => None,
    }
}
