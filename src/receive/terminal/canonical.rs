//! JSON as this contract compares it: a strict parser that keeps numbers and lone surrogates as they were written, and
//! the one canonical spelling of every value. No other room's JSON is affected, and none of it is lenient.

use std::collections::BTreeMap;

/// CPython, whose limit this is, refuses to convert longer ones.
const INTEGER_DIGITS: usize = 4300;
/// CPython gives up near 994; it depends on its call stack, so that any number thereabouts is right.
const DEPTH: usize = 900;

pub(super) type Object = BTreeMap<Text, Value>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// In canonical decimal; of any size.
    Integer(String),
    Float(f64),
    Text(Text),
    Array(Vec<Value>),
    Object(Object),
}

/// UTF-8, but for surrogates without their other half, which stand as UTF-8 would spell them. The order of these bytes
/// is the order of code points.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text(Vec<u8>);

impl Text {
    /// None for what has no UTF-8.
    pub(super) fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.as_bytes().to_vec())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number.to_string())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Value {
        Value::Array(items)
    }
}

impl<const N: usize> From<[(&str, Value); N]> for Value {
    fn from(members: [(&str, Value); N]) -> Value {
        Value::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Value {
    pub(super) fn as_object(&self) -> Option<&Object> {
        match self {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => text.as_str(),
            _ => None,
        }
    }

    /// The canonical spelling; none where there is none, as for infinity and half a surrogate pair.
    pub(super) fn canonical(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        write(self, &mut out)?;
        Some(out)
    }
}

pub(super) fn get<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.get(&Text::from(name))
}

fn write(value: &Value, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Null => out.extend(b"null"),
        Value::Bool(true) => out.extend(b"true"),
        Value::Bool(false) => out.extend(b"false"),
        Value::Integer(digits) => out.extend(digits.as_bytes()),
        Value::Float(number) => out.extend(spell(*number)?.as_bytes()),
        Value::Text(text) => write_text(text, out)?,
        Value::Array(items) => {
            out.push(b'[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (position, (name, member)) in members.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                write_text(name, out)?;
                out.push(b':');
                write(member, out)?;
            }
            out.push(b'}');
        }
    }
    Some(())
}

fn write_text(text: &Text, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'"');
    for byte in text.as_str()?.bytes() {
        match byte {
            b'"' => out.extend(b"\\\""),
            b'\\' => out.extend(b"\\\\"),
            0x08 => out.extend(b"\\b"),
            0x09 => out.extend(b"\\t"),
            0x0A => out.extend(b"\\n"),
            0x0C => out.extend(b"\\f"),
            0x0D => out.extend(b"\\r"),
            0..0x20 => out.extend(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    Some(())
}

/// The fewest digits that read back as the same number, laid out as Python's repr does.
fn spell(number: f64) -> Option<String> {
    if !number.is_finite() {
        return None;
    }
    let text = format!("{number:e}");
    // Rust writes every finite number as digits, "e" and an exponent.
    let (digits, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if (-4..16).contains(&exponent) {
        // Rust's plain notation is never scientific.
        let plain = number.to_string();
        return Some(if plain.contains('.') { plain } else { plain + ".0" });
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{digits}e{sign}{:02}", exponent.unsigned_abs()))
}

/// The text is not JSON, or says one name twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson;

/// Exactly one value, in UTF-8 without a byte order mark.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, NotJson> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotJson)?;
    let mut parser = Parser { rest: text.as_bytes() };
    parser.skip_space();
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.rest.is_empty() { Ok(value) } else { Err(NotJson) }
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn next(&mut self) -> Result<u8, NotJson> {
        let (first, rest) = self.rest.split_first().ok_or(NotJson)?;
        self.rest = rest;
        Ok(*first)
    }

    fn take(&mut self, word: &[u8]) -> Result<(), NotJson> {
        self.rest = self.rest.strip_prefix(word).ok_or(NotJson)?;
        Ok(())
    }

    /// Whether the next byte is this one, which is then passed.
    fn passes(&mut self, byte: u8) -> bool {
        let passes = self.rest.first() == Some(&byte);
        if passes {
            self.rest = &self.rest[1..];
        }
        passes
    }

    fn value(&mut self, depth: usize) -> Result<Value, NotJson> {
        if depth > DEPTH {
            return Err(NotJson);
        }
        match self.rest.first().ok_or(NotJson)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.text().map(Value::Text),
            b't' => self.take(b"true").map(|()| Value::Bool(true)),
            b'f' => self.take(b"false").map(|()| Value::Bool(false)),
            b'n' => self.take(b"null").map(|()| Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(NotJson),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, NotJson> {
        self.take(b"{")?;
        let mut members = Object::new();
        self.skip_space();
        if self.passes(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.skip_space();
            let name = self.text()?;
            self.skip_space();
            self.take(b":")?;
            self.skip_space();
            let value = self.value(depth + 1)?;
            if members.insert(name, value).is_some() {
                return Err(NotJson);
            }
            self.skip_space();
            match self.next()? {
                b',' => {}
                b'}' => return Ok(Value::Object(members)),
                _ => return Err(NotJson),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, NotJson> {
        self.take(b"[")?;
        let mut items = Vec::new();
        self.skip_space();
        if self.passes(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            match self.next()? {
                b',' => {}
                b']' => return Ok(Value::Array(items)),
                _ => return Err(NotJson),
            }
        }
    }

    fn number(&mut self) -> Result<Value, NotJson> {
        let whole = self.rest;
        let negative = self.passes(b'-');
        let digits = self.digits()?;
        if digits > 1 && whole[usize::from(negative)] == b'0' {
            return Err(NotJson);
        }
        let mut is_float = false;
        if self.passes(b'.') {
            is_float = true;
            self.digits()?;
        }
        if self.passes(b'e') || self.passes(b'E') {
            is_float = true;
            let _ = self.passes(b'+') || self.passes(b'-');
            self.digits()?;
        }
        let text = &whole[..whole.len() - self.rest.len()];
        let text = std::str::from_utf8(text).map_err(|_| NotJson)?;
        if is_float {
            return text.parse().map(Value::Float).map_err(|_| NotJson);
        }
        if digits > INTEGER_DIGITS {
            return Err(NotJson);
        }
        Ok(Value::Integer(if text == "-0" { "0".into() } else { text.into() }))
    }

    /// How many there are: at least one.
    fn digits(&mut self) -> Result<usize, NotJson> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[count..];
        if count == 0 { Err(NotJson) } else { Ok(count) }
    }

    fn text(&mut self) -> Result<Text, NotJson> {
        self.take(b"\"")?;
        let mut out = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Ok(Text(out)),
                b'\\' => self.escape(&mut out)?,
                0..0x20 => return Err(NotJson),
                byte => out.push(byte),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), NotJson> {
        out.push(match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => 0x0A,
            b'r' => 0x0D,
            b't' => 0x09,
            b'u' => return self.code_unit(out),
            _ => return Err(NotJson),
        });
        Ok(())
    }

    fn code_unit(&mut self, out: &mut Vec<u8>) -> Result<(), NotJson> {
        let unit = self.four_hex()?;
        let mut code = unit;
        if (0xD800..0xDC00).contains(&unit) {
            let here = self.rest;
            let low = self.take(b"\\u").and_then(|()| self.four_hex());
            match low {
                Ok(low) if (0xDC00..0xE000).contains(&low) => code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00),
                // Not its other half: whatever it is, it is read on its own.
                _ => self.rest = here,
            }
        }
        match char::from_u32(code) {
            Some(char) => out.extend(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {
                out.extend([0xE0 | (code >> 12) as u8, 0x80 | (code >> 6 & 0x3F) as u8, 0x80 | (code & 0x3F) as u8])
            }
        }
        Ok(())
    }

    fn four_hex(&mut self) -> Result<u32, NotJson> {
        let mut code = 0;
        for _ in 0..4 {
            code = code * 16 + char::from(self.next()?).to_digit(16).ok_or(NotJson)?;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn respelled(text: &str) -> Option<String> {
        parse(text.as_bytes()).ok()?.canonical().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn floats_are_spelled_as_python_spells_them() {
        for (given, spelled) in [
            ("42.0", "42.0"),
            ("1e15", "1000000000000000.0"),
            ("1e16", "1e+16"),
            ("1.5e300", "1.5e+300"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1e-7", "1e-07"),
            ("5e-324", "5e-324"),
            ("-0.0", "-0.0"),
            ("1e-400", "0.0"),
            ("123456789012345680.0", "1.2345678901234568e+17"),
            ("9007199254740993.0", "9007199254740992.0"),
        ] {
            assert_eq!(respelled(given).as_deref(), Some(spelled), "{given}");
        }
        assert_eq!(respelled("1e400"), None);
    }

    #[test]
    fn texts_are_escaped_only_where_they_must_be() {
        let given = r#""\u0061\/\u000a\u001F\u007f\u2028\ud83d\ude00\b\"""#;
        assert_eq!(respelled(given).unwrap(), "\"a/\\n\\u001f\u{7f}\u{2028}\u{1f600}\\b\\\"\"");
        for alone in [r#""\ud800""#, r#""\ude00\ud83d""#, r#""\ud83dx""#, r#""\ud83d\n""#] {
            assert!(parse(alone.as_bytes()).is_ok(), "{alone}");
            assert_eq!(respelled(alone), None, "{alone}");
        }
    }

    #[test]
    fn names_are_sorted_by_code_point_and_said_once() {
        assert_eq!(respelled("{\"😀\":1, \"～\":2}").unwrap(), "{\"～\":2,\"😀\":1}");
        for twice in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"\ud800":1,"\ud800":1}}]"#] {
            assert_eq!(parse(twice.as_bytes()), Err(NotJson), "{twice}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(850).as_bytes()).is_ok());
        assert!(parse(nested(1000).as_bytes()).is_err());
        assert!(parse("9".repeat(4300).as_bytes()).is_ok());
        assert!(parse("9".repeat(4301).as_bytes()).is_err());
        for bad in [
            "",
            " ",
            "01",
            "-01",
            "+1",
            "1.",
            ".5",
            "-",
            "1e",
            "1e+",
            "NaN",
            "Infinity",
            "-Infinity",
            "nul",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "'a'",
            "1 2",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\t\"",
            "\"",
            "[1",
            "{\"a\"",
            "\u{feff}1",
            "1\0",
            "/**/1",
            "\u{a0}1",
            "{\"a\" 1}",
            "\"\\u+123\"",
        ] {
            assert_eq!(parse(bad.as_bytes()), Err(NotJson), "{bad}");
        }
        assert_eq!(parse(b"\"\xed\xa0\x80\""), Err(NotJson));
    }

    proptest! {
        #[test]
        fn any_float_reads_back_as_itself(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            prop_assert_eq!(spell(number).unwrap().parse::<f64>().unwrap().to_bits(), bits);
        }

        #[test]
        fn what_is_canonical_stays_as_it_is(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(once) = parse(&bytes).ok().and_then(|value| value.canonical()) {
                prop_assert_eq!(parse(&once).unwrap().canonical().unwrap(), once);
            }
        }
    }
}
