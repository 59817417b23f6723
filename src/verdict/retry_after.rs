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

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, RFC 9110's own example.
    const NOW: u64 = 784_111_777;

    fn parse_with(values: &[&[u8]], date: &[&str]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(RETRY_AFTER, HeaderValue::from_bytes(value).unwrap());
        }
        for value in date {
            headers.append(DATE, HeaderValue::from_str(value).unwrap());
        }
        parse(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)).map(|hint| hint.as_secs())
    }

    #[test]
    fn f8_seconds_and_all_three_date_forms_are_understood() {
        let table = [
            ("0", 0),
            ("1", 1),
            ("0120", 120),
            (" 7\t", 7),
            ("86400", 86_400),
            ("86401", 86_400),
            ("18446744073709551615", 86_400),
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Sunday, 06-Nov-94 08:50:37 GMT", 60),
            ("Sun Nov  6 08:50:37 1994", 60),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        ];
        for (value, seconds) in table {
            assert_eq!(parse_with(&[value.as_bytes()], &[]), Some(seconds), "{value}");
        }
    }

    #[test]
    fn whatever_is_not_one_plain_value_is_ignored() {
        let table: [&[&[u8]]; 18] = [
            &[],
            &[b""],
            &[b" "],
            &[b"-1"],
            &[b"+1"],
            &[b"1.5"],
            &[b"1e3"],
            &[b"0x10"],
            &[b"1 2"],
            &[b"5, 10"],
            &[b"18446744073709551616"],
            &[b"99999999999999999999999999999999999999999999"],
            &[b"5", b"5"],
            &[b"Sun, 06 Nov 1994 08:49:36 GMT"],
            &[b"Mon, 06 Nov 1994 08:50:37 GMT"],
            &[b"Sun, 06 Nov 1994 08:50:37 CET"],
            &[b"soon"],
            &[b"\xff\xfe"],
        ];
        for values in table {
            assert_eq!(parse_with(values, &[]), None, "{values:?}");
        }
    }

    #[test]
    fn a_date_is_compared_with_the_receivers_own_clock_unless_that_is_a_day_off() {
        let until = b"Sun, 06 Nov 1994 09:00:00 GMT".as_slice();
        let by_our_clock = Some(623);
        let table: [(&[&str], Option<u64>); 7] = [
            (&[], by_our_clock),
            (&["Sun, 06 Nov 1994 08:59:50 GMT"], Some(10)),
            (&["Sun, 06 Nov 1994 08:00:00 GMT"], Some(3600)),
            (&["Sun, 06 Nov 1994 09:00:01 GMT"], None),
            (&["Thu, 01 Jan 1970 00:00:00 GMT"], by_our_clock),
            (&["yesterday"], by_our_clock),
            (&["Sun, 06 Nov 1994 08:59:50 GMT", "Sun, 06 Nov 1994 08:59:50 GMT"], by_our_clock),
        ];
        for (date, expected) in table {
            assert_eq!(parse_with(&[until], date), expected, "{date:?}");
        }
        assert_eq!(parse_with(&[b"5"], &["Thu, 01 Jan 1970 00:00:00 GMT"]), Some(5), "seconds need no clock");
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe_and_bounded(
            value in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                "[SMTWF][a-z]{2,8},? [0-9 -]{2}.?[A-Z][a-z]{2}.?[0-9]{2,4} [0-9:]{8} ?(GMT|[0-9]{4})".prop_map(String::into_bytes),
            ],
            date in ".{0,40}",
        ) {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.insert(RETRY_AFTER, value);
            }
            if let Ok(date) = HeaderValue::from_str(&date) {
                headers.insert(DATE, date);
            }
            let hint = parse(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW));
            prop_assert!(hint.unwrap_or_default() <= MAX_HINT);
        }
    }
}
