//! The canonical form of a payload (RFC 8785) and hashes of it: what two spellings of one JSON document have in common.
//! It takes only documents that the strict reader has passed, and refuses the one thing that the form cannot express:
//! integers that a double would change.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use ring::digest::{Context, SHA256};

/// The document holds an integer beyond ±(2^53 - 1), or is no JSON after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the document has no canonical form")]
pub(super) struct NotCanonical;

/// The largest integer that every reader of JSON takes for the same number.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A document in its canonical form.
pub(super) struct Canonical {
    text: String,
    /// The top-level members in the order of the form: name, and where the value stands in it.
    members: Vec<Place>,
}

/// A member's name, and where its value stands in the text.
type Place = (String, Range<usize>);

impl Canonical {
    /// `document` must have passed the strict reader: that bounds its depth, and so this recursion.
    pub(super) fn of(document: &[u8]) -> Result<Canonical, NotCanonical> {
        let rest = std::str::from_utf8(document).map_err(|_| NotCanonical)?;
        let mut scan = Scan { rest, out: String::with_capacity(document.len()) };
        scan.blank();
        let members = if scan.rest.starts_with('{') {
            scan.object()?
        } else {
            scan.value()?;
            Vec::new()
        };
        Ok(Canonical { text: scan.out, members })
    }

    pub(super) fn sha256(&self) -> [u8; 32] {
        hash([self.text.as_bytes()])
    }

    /// The hash of the object that has only these of the top-level members. `names` must be in the form's order.
    pub(super) fn sha256_of(&self, names: &[&str]) -> [u8; 32] {
        let kept = self.members.iter().filter(|(name, _)| names.contains(&name.as_str()));
        let mut text = String::from("{");
        for (position, (name, place)) in kept.enumerate() {
            separate(position, &mut text);
            string(name, &mut text);
            text.push(':');
            text.push_str(&self.text[place.clone()]);
        }
        text.push('}');
        hash([text.as_bytes()])
    }
}

pub(super) fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.into_iter().for_each(|part| context.update(part));
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

fn separate(position: usize, out: &mut String) {
    if position > 0 {
        out.push(',');
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            // Writing to a String cannot fail.
            c if c < ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// As ECMAScript writes numbers (Number::toString): the shortest digits that mean this double, and an exponent only
/// outside 1e-7 to 1e21.
fn write_number(number: f64, out: &mut String) {
    if number == 0.0 {
        out.push('0');
        return;
    }
    if number < 0.0 {
        out.push('-');
    }
    // serde_json too writes the shortest digits, and of two such the even one, as ECMAScript demands; only its notation
    // differs. A finite number has a text.
    let text = serde_json::Number::from_f64(number.abs()).map(|number| number.to_string()).unwrap_or_default();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let written = format!("{whole}{part}");
    let leading = written.len() - written.trim_start_matches('0').len();
    let digits = written.trim_matches('0');
    // Where the decimal point stands, counted from the first digit.
    let before_point = i32::try_from(whole.len()).unwrap_or_default() - i32::try_from(leading).unwrap_or_default();
    let point = before_point + exponent.parse::<i32>().unwrap_or_default();
    let count = i32::try_from(digits.len()).unwrap_or_default();
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or_default());
    let written = match point {
        1..=21 if count <= point => write!(out, "{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, part) = digits.split_at(usize::try_from(point).unwrap_or_default());
            write!(out, "{whole}.{part}")
        }
        -5..=0 => write!(out, "0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            write!(out, "{first}{dot}{rest}e{:+}", point - 1)
        }
    };
    // Writing to a String cannot fail.
    debug_assert!(written.is_ok());
}

/// Walks a document that is known to be JSON and writes its form; whatever is no JSON is refused all the same.
struct Scan<'a> {
    rest: &'a str,
    out: String,
}

impl Scan<'_> {
    fn value(&mut self) -> Result<(), NotCanonical> {
        self.blank();
        match self.rest.as_bytes().first() {
            Some(b'{') => self.object().map(drop),
            Some(b'[') => self.array(),
            Some(b'"') => {
                let text = self.text()?.into_owned();
                string(&text, &mut self.out);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn blank(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn take(&mut self, expected: char) -> bool {
        self.blank();
        let Some(rest) = self.rest.strip_prefix(expected) else { return false };
        self.rest = rest;
        true
    }

    /// Whether another item follows; `end` closes the list.
    fn goes_on(&mut self, end: char) -> Result<bool, NotCanonical> {
        if self.take(end) {
            return Ok(false);
        }
        if self.take(',') { Ok(true) } else { Err(NotCanonical) }
    }

    /// The members' values are written as they come and put in order at the end, so that no tree of them is built.
    fn object(&mut self) -> Result<Vec<Place>, NotCanonical> {
        self.take('{');
        let base = self.out.len();
        let mut members: Vec<Place> = Vec::new();
        let mut more = !self.take('}');
        while more {
            self.blank();
            let name = self.text()?.into_owned();
            if !self.take(':') {
                return Err(NotCanonical);
            }
            let begin = self.out.len();
            self.value()?;
            members.push((name, begin..self.out.len()));
            more = self.goes_on('}')?;
        }
        // By UTF-16 code units (RFC 8785, section 3.2.3), which differs from UTF-8's order beyond the first plane.
        members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        let mut text = String::with_capacity(self.out.len() - base + 16 * members.len() + 2);
        text.push('{');
        for (position, (name, place)) in members.iter_mut().enumerate() {
            separate(position, &mut text);
            string(name, &mut text);
            text.push(':');
            let begin = base + text.len();
            text.push_str(&self.out[place.clone()]);
            *place = begin..base + text.len();
        }
        text.push('}');
        self.out.truncate(base);
        self.out.push_str(&text);
        Ok(members)
    }

    fn array(&mut self) -> Result<(), NotCanonical> {
        self.take('[');
        self.out.push('[');
        let mut more = !self.take(']');
        while more {
            self.value()?;
            more = self.goes_on(']')?;
            if more {
                self.out.push(',');
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn text(&mut self) -> Result<Cow<'_, str>, NotCanonical> {
        let inner = self.rest.strip_prefix('"').ok_or(NotCanonical)?;
        let mut escaped = false;
        let end = inner.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let end = end.ok_or(NotCanonical)?;
        let (quoted, rest) = self.rest.split_at(end + 2);
        self.rest = rest;
        if !quoted.contains('\\') {
            return Ok(Cow::Borrowed(&quoted[1..quoted.len() - 1]));
        }
        serde_json::from_str(quoted).map(Cow::Owned).map_err(|_| NotCanonical)
    }

    fn number(&mut self) -> Result<(), NotCanonical> {
        let end = self.rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let (literal, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let is_integer = literal.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
        if is_integer && !literal.trim_start_matches('-').parse::<u64>().is_ok_and(|n| n <= MAX_SAFE_INTEGER) {
            return Err(NotCanonical);
        }
        let number: f64 = literal.parse().map_err(|_| NotCanonical)?;
        if !number.is_finite() {
            return Err(NotCanonical);
        }
        write_number(number, &mut self.out);
        Ok(())
    }

    fn word(&mut self) -> Result<(), NotCanonical> {
        for word in ["true", "false", "null"] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                self.out.push_str(word);
                return Ok(());
            }
        }
        Err(NotCanonical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(document: &str) -> String {
        Canonical::of(document.as_bytes()).unwrap().text
    }

    #[test]
    fn the_example_of_the_rfc_comes_out_as_printed_there() {
        // RFC 8785, section 3.2.2 and 3.2.3.
        let document = "{\"numbers\":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],\
                        \"string\":\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\
                        \"literals\":[null,true,false]}";
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                        \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(form(document), expected);
        let keys = "{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,\"\\u00f6\":7}";
        assert_eq!(
            form(keys),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}"
        );
    }

    #[test]
    fn numbers_are_written_as_ecmascript_does() {
        // RFC 8785, appendix B, and the edges of each notation.
        for (bits, expected) in [
            (0x0000000000000000, "0"),
            (0x8000000000000000, "0"),
            (0x0000000000000001, "5e-324"),
            (0x8000000000000001, "-5e-324"),
            (0x7fefffffffffffff, "1.7976931348623157e+308"),
            (0x4340000000000000, "9007199254740992"),
            (0x4430000000000000, "295147905179352830000"),
            (0x44b52d02c7e14af5, "9.999999999999997e+22"),
            (0x44b52d02c7e14af6, "1e+23"),
            (0x444b1ae4d6e2ef4e, "999999999999999700000"),
            (0x444b1ae4d6e2ef50, "1e+21"),
            (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
            (0x3eb0c6f7a0b5ed8d, "0.000001"),
            (0x41b3de4355555553, "333333333.3333332"),
            (0x41b3de4355555557, "333333333.33333343"),
            (0xbecbf647612f3696, "-0.0000033333333333333333"),
            (0x43143ff3c1cb0959, "1424953923781206.2"),
        ] {
            let mut text = String::new();
            write_number(f64::from_bits(bits), &mut text);
            assert_eq!(text, expected, "{bits:016x}");
        }
    }

    #[test]
    fn an_integer_that_a_double_would_change_has_no_form() {
        for good in ["9007199254740991", "-9007199254740991", "9007199254740993.0", "1e20", "-0"] {
            assert!(Canonical::of(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["9007199254740992", "-9007199254740992", "18446744073709551616", "[1,{\"a\":9007199254740993}]"] {
            assert!(Canonical::of(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn spellings_of_one_document_have_one_hash_and_members_can_be_picked() {
        let a = Canonical::of(br#"{"b": 1.0, "a": "\u0041", "c": [ ]}"#).unwrap();
        let b = Canonical::of(br#"{"a":"A","c":[],"b":1}"#).unwrap();
        assert_eq!(a.sha256(), b.sha256());
        assert_eq!(a.sha256_of(&["a", "b"]), hash([br#"{"a":"A","b":1}"#.as_slice()]));
        assert_eq!(a.sha256_of(&["z"]), hash([b"{}".as_slice()]));
    }
}
