//! Delivery body v1, spelt byte by byte. FROZEN: a row must give the same bytes at every attempt, in every release, or its
//! idempotency key would stand for two payloads. Another form is another version beside this one.

use zeroize::Zeroizing;

use super::row::{Composed, Row};

/// The members in the order of the reference's writer, with its spacing and its escapes; the result as the host spelt it.
pub(super) fn render_v1(row: &Row, token: Option<&str>, composed: &Composed) -> Zeroizing<Vec<u8>> {
    // An escape has up to six bytes for each byte of its character; growing would leave copies behind unwiped.
    let texts = [&row.idempotency_key, &row.operation_id, &row.task_id, &row.task_id, &row.task_type];
    let most: usize = texts.iter().map(|text| text.len() * 6).sum::<usize>() + token.map_or(0, |token| token.len() * 6);
    let mut body = Zeroizing::new(Vec::with_capacity(most + composed.result.len() + 512));
    body.push(b'{');
    member(&mut body, "idempotency_key", &row.idempotency_key);
    if let Some(id) = notification_id(row) {
        member(&mut body, "notification_id", &id);
    }
    member(&mut body, "operation_id", &row.operation_id);
    member(&mut body, "task_id", &row.task_id);
    member(&mut body, "task_type", &row.task_type);
    if let Some(protocol) = protocol(&row.task_type) {
        member(&mut body, "protocol", protocol);
    }
    member(&mut body, "status", &row.terminal_status);
    member(&mut body, "timestamp", &timestamp(composed.composed_at_micros));
    if let Some(token) = token {
        member(&mut body, "token", token);
    }
    name(&mut body, "result");
    body.extend_from_slice(composed.result.as_bytes());
    body.push(b'}');
    body
}

/// Delivery reports are events of their own, told apart by their idempotency keys.
pub(super) fn notification_id(row: &Row) -> Option<String> {
    (row.task_type != "media_buy_delivery").then(|| format!("{}.terminal", row.task_id))
}

fn member(body: &mut Vec<u8>, key: &str, value: &str) {
    name(body, key);
    quote(body, value);
}

fn name(body: &mut Vec<u8>, key: &str) {
    if body.len() > 1 {
        body.extend_from_slice(b", ");
    }
    quote(body, key);
    body.extend_from_slice(b": ");
}

/// Printable ASCII as it is, all else escaped in lowercase hex, surrogate pairs beyond U+FFFF.
fn quote(body: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    body.push(b'"');
    for character in text.chars() {
        let short: &[u8] = match character {
            '"' => b"\\\"",
            '\\' => b"\\\\",
            '\n' => b"\\n",
            '\r' => b"\\r",
            '\t' => b"\\t",
            '\u{8}' => b"\\b",
            '\u{c}' => b"\\f",
            ' '..='~' => {
                body.push(character as u8);
                continue;
            }
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let digit = |shift: u32| HEX[usize::from(*unit >> shift & 0xf)];
                    body.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
                }
                continue;
            }
        };
        body.extend_from_slice(short);
    }
    body.push(b'"');
}

/// RFC 3339 in UTC; six digits of a fraction, or none where it is zero.
fn timestamp(micros: i64) -> String {
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The Gregorian date of a day since 1970-01-01, in years that begin in March, so that the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Only what the reference maps; the other types' bodies have no such member.
fn protocol(task_type: &str) -> Option<&'static str> {
    Some(match task_type {
        "create_media_buy"
        | "update_media_buy"
        | "get_products"
        | "sync_accounts"
        | "get_account_financials"
        | "sync_event_sources"
        | "sync_audiences"
        | "sync_catalogs"
        | "log_event"
        | "sync_reporting_receipts"
        | "sync_reporting_status" => "media-buy",
        "sync_creatives" | "get_creative_delivery" => "creative",
        "activate_signal" | "get_signals" => "signals",
        "create_property_list"
        | "update_property_list"
        | "get_property_list"
        | "list_property_lists"
        | "delete_property_list" => "governance",
        "get_brand_identity" | "get_rights" | "acquire_rights" => "brand",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1, "1970-01-01T00:00:00.000001Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_123_000, "2024-02-29T23:59:59.123000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
            (1_767_323_045_678_901, "2026-01-02T03:04:05.678901Z"),
        ] {
            assert_eq!(timestamp(micros), text);
        }
    }
}
