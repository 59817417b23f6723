//! Dictionaries of RFC 8941, parsed by section 4.2 to the letter, but for duplicate keys: it refuses them, where the RFC
//! would let the last one win. Top-level lists and items are not among the fields of a signed message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Malformed;

/// A bare item. The profiles here need integers, strings and byte sequences; the others are told apart and kept.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Bare<'a> {
    Integer(i64),
    /// In thousandths, of which a decimal has no fractions.
    Decimal(i64),
    String(String),
    Token(&'a str),
    Bytes(Vec<u8>),
    Boolean(bool),
}

pub(in super::super) type Parameters<'a> = Vec<(&'a str, Bare<'a>)>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) value: Bare<'a>,
    pub(super) parameters: Parameters<'a>,
    /// With its parameters, as it was sent.
    pub(super) raw: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Bare(Bare<'a>),
    InnerList(Vec<Item<'a>>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member<'a> {
    pub(super) value: Value<'a>,
    pub(super) parameters: Parameters<'a>,
    /// Without its key, as it was sent.
    pub(super) raw: &'a str,
}

pub(super) fn dictionary(field: &str) -> Result<Vec<(&str, Member<'_>)>, Malformed> {
    let mut parser = Parser { text: field, at: 0 };
    let mut members: Vec<(&str, Member<'_>)> = Vec::new();
    parser.skip(b" ");
    if parser.peek().is_none() {
        return Ok(members);
    }
    loop {
        let key = parser.key()?;
        members.push((key, parser.member()?));
        parser.skip(b" \t");
        if parser.peek().is_none() {
            return if repeats(members.iter().map(|(key, _)| *key)) { Err(Malformed) } else { Ok(members) };
        }
        parser.expect(b',')?;
        parser.skip(b" \t");
    }
}

/// By sorting: a hostile field has thousands of keys.
fn repeats<'a>(keys: impl Iterator<Item = &'a str>) -> bool {
    let mut keys: Vec<&str> = keys.collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// The bytes under `key`; a member of another type is as good as none.
pub(super) fn byte_sequence(field: &str, key: &str) -> Result<Vec<u8>, Malformed> {
    let found = dictionary(field)?.into_iter().find(|(known, _)| *known == key);
    match found {
        Some((_, Member { value: Value::Bare(Bare::Bytes(bytes)), .. })) => Ok(bytes),
        _ => Err(Malformed),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        (self.next() == Some(byte)).then_some(()).ok_or(Malformed)
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.take_while(|byte| bytes.contains(&byte));
    }

    /// Stops at ASCII, so that the slice ends on a character boundary.
    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii() && keep(byte)) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn key(&mut self) -> Result<&'a str, Malformed> {
        let key = self.take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b));
        key.starts_with(|c: char| c.is_ascii_lowercase() || c == '*').then_some(key).ok_or(Malformed)
    }

    /// What follows a key. Without a value it stands for true.
    fn member(&mut self) -> Result<Member<'a>, Malformed> {
        let mut start = self.at;
        let value = if self.peek() == Some(b'=') {
            self.at += 1;
            start = self.at;
            if self.peek() == Some(b'(') { Value::InnerList(self.items()?) } else { Value::Bare(self.bare()?) }
        } else {
            Value::Bare(Bare::Boolean(true))
        };
        let parameters = self.parameters()?;
        Ok(Member { value, parameters, raw: &self.text[start..self.at] })
    }

    fn items(&mut self) -> Result<Vec<Item<'a>>, Malformed> {
        self.expect(b'(')?;
        let mut items = Vec::new();
        loop {
            self.skip(b" ");
            if self.peek() == Some(b')') {
                self.at += 1;
                return Ok(items);
            }
            let start = self.at;
            let value = self.bare()?;
            let parameters = self.parameters()?;
            items.push(Item { value, parameters, raw: &self.text[start..self.at] });
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return Err(Malformed);
            }
        }
    }

    fn parameters(&mut self) -> Result<Parameters<'a>, Malformed> {
        let mut parameters: Parameters<'a> = Vec::new();
        while self.peek() == Some(b';') {
            self.at += 1;
            self.skip(b" ");
            let key = self.key()?;
            let value = if self.peek() == Some(b'=') {
                self.at += 1;
                self.bare()?
            } else {
                Bare::Boolean(true)
            };
            parameters.push((key, value));
        }
        if repeats(parameters.iter().map(|(key, _)| *key)) { Err(Malformed) } else { Ok(parameters) }
    }

    fn bare(&mut self) -> Result<Bare<'a>, Malformed> {
        match self.peek().ok_or(Malformed)? {
            b'"' => self.string().map(Bare::String),
            b'-' | b'0'..=b'9' => self.number(),
            b':' => {
                self.at += 1;
                let text = self.take_while(|byte| byte != b':');
                self.expect(b':')?;
                // Section 4.2.7 lets a parser be as strict as this about padding and stray bits.
                STANDARD.decode(text).map(Bare::Bytes).map_err(|_| Malformed)
            }
            b'?' => {
                self.at += 1;
                match self.next() {
                    Some(b'0') => Ok(Bare::Boolean(false)),
                    Some(b'1') => Ok(Bare::Boolean(true)),
                    _ => Err(Malformed),
                }
            }
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                let token = self.take_while(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b));
                Ok(Bare::Token(token))
            }
            _ => Err(Malformed),
        }
    }

    fn string(&mut self) -> Result<String, Malformed> {
        self.expect(b'"')?;
        let mut text = String::new();
        loop {
            match self.next().ok_or(Malformed)? {
                b'"' => return Ok(text),
                b'\\' => match self.next() {
                    Some(byte @ (b'"' | b'\\')) => text.push(char::from(byte)),
                    _ => return Err(Malformed),
                },
                byte @ 0x20..=0x7e => text.push(char::from(byte)),
                _ => return Err(Malformed),
            }
        }
    }

    /// Section 4.2.4: an integer of at most 15 digits, or 12 digits and a fraction of one to three.
    fn number(&mut self) -> Result<Bare<'a>, Malformed> {
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        let (digits, scale) = if self.peek() == Some(b'.') {
            self.at += 1;
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            if !(1..=12).contains(&whole.len()) || !(1..=3).contains(&fraction.len()) {
                return Err(Malformed);
            }
            (format!("{whole}{fraction:0<3}"), true)
        } else if (1..=15).contains(&whole.len()) {
            (whole.to_owned(), false)
        } else {
            return Err(Malformed);
        };
        let value: i64 = digits.parse().map_err(|_| Malformed)?;
        let value = if negative { -value } else { value };
        Ok(if scale { Bare::Decimal(value) } else { Bare::Integer(value) })
    }
}
