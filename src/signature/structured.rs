//! The structured fields (RFC 8941) of a signed message: `Signature-Input` parsed strictly, `Signature` and
//! `Content-Digest` by member. It judges syntax, never meaning.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// One member of `Signature-Input`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignatureInput<'a> {
    pub(super) label: &'a str,
    pub(super) components: Vec<Component>,
    pub(super) parameters: Vec<(&'a str, Bare)>,
    /// The member as it was sent, without its label: the last line of the signature base.
    pub(super) raw: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: String,
    /// Parameters select parts of a component; no component of this profile has any.
    pub(super) has_parameters: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bare {
    Integer(i64),
    String(String),
    /// Tokens, decimals, booleans and byte sequences, which no parameter of this profile is.
    Other,
}

impl SignatureInput<'_> {
    pub(super) fn parameter(&self, name: &str) -> Option<&Bare> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// Parses the whole field: RFC 8941 section 4.2 fails a field as a whole, so a broken second label spoils the first.
/// Duplicate labels and parameters are refused where the RFC would let the last one win.
pub(super) fn signature_inputs(field: &str) -> Result<Vec<SignatureInput<'_>>, Malformed> {
    let mut parser = Parser { text: field, at: 0 };
    let mut members: Vec<SignatureInput<'_>> = Vec::new();
    parser.skip(b" \t");
    loop {
        let label = parser.key()?;
        if members.iter().any(|member| member.label == label) {
            return Err(Malformed);
        }
        parser.expect(b'=')?;
        members.push(parser.inner_list(label)?);
        parser.skip(b" \t");
        if parser.peek().is_none() {
            return Ok(members);
        }
        parser.expect(b',')?;
        parser.skip(b" \t");
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

    fn inner_list(&mut self, label: &'a str) -> Result<SignatureInput<'a>, Malformed> {
        let start = self.at;
        self.expect(b'(')?;
        let mut components = Vec::new();
        loop {
            self.skip(b" ");
            if self.peek() == Some(b')') {
                self.at += 1;
                break;
            }
            let Bare::String(name) = self.bare()? else { return Err(Malformed) };
            let has_parameters = !self.parameters()?.is_empty();
            components.push(Component { name, has_parameters });
            if !matches!(self.peek(), Some(b' ' | b')')) {
                return Err(Malformed);
            }
        }
        let parameters = self.parameters()?;
        Ok(SignatureInput { label, components, parameters, raw: &self.text[start..self.at] })
    }

    fn parameters(&mut self) -> Result<Vec<(&'a str, Bare)>, Malformed> {
        let mut parameters: Vec<(&'a str, Bare)> = Vec::new();
        while self.peek() == Some(b';') {
            self.at += 1;
            self.skip(b" ");
            let key = self.key()?;
            let value = if self.peek() == Some(b'=') {
                self.at += 1;
                self.bare()?
            } else {
                Bare::Other
            };
            if parameters.iter().any(|(known, _)| *known == key) {
                return Err(Malformed);
            }
            parameters.push((key, value));
        }
        Ok(parameters)
    }

    fn bare(&mut self) -> Result<Bare, Malformed> {
        match self.peek().ok_or(Malformed)? {
            b'"' => self.string().map(Bare::String),
            b'-' | b'0'..=b'9' => self.number(),
            b':' => {
                self.at += 1;
                self.take_while(|byte| byte != b':');
                self.expect(b':').map(|()| Bare::Other)
            }
            b'?' => {
                self.at += 1;
                matches!(self.next(), Some(b'0' | b'1')).then_some(Bare::Other).ok_or(Malformed)
            }
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.take_while(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b));
                Ok(Bare::Other)
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

    fn number(&mut self) -> Result<Bare, Malformed> {
        let text = self.take_while(|byte| byte == b'-' || byte == b'.' || byte.is_ascii_digit());
        if text.contains('.') {
            return text.parse::<f64>().map(|_| Bare::Other).map_err(|_| Malformed);
        }
        // Section 3.3.1: at most 15 digits, which also keeps every sum of two of them in range.
        if text.trim_start_matches('-').len() > 15 {
            return Err(Malformed);
        }
        text.parse().map(Bare::Integer).map_err(|_| Malformed)
    }
}

/// A field split at the commas that stand outside quotes and parentheses. It works on fields that no strict parser would
/// accept, for the checks that must come before parsing.
pub(super) fn split_at_commas(field: &str) -> Vec<&str> {
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

fn members(field: &str) -> impl Iterator<Item = &str> {
    split_at_commas(field)
        .into_iter()
        .map(|member| member.trim_matches([' ', '\t']))
        .filter(|member| !member.is_empty())
}

/// Whether two members share a key, letter case aside: keys are lower case, so that two spellings are never two keys.
pub(super) fn has_duplicate_keys(field: &str) -> bool {
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

/// Padded standard base64, as RFC 8941 demands, or the unpadded base64url that the profile emits. Either only in its one
/// canonical spelling, so that no second text stands for the same signature.
pub(super) fn decode_either(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()
}

pub(super) fn mixes_alphabets(text: &str) -> bool {
    text.contains(['+', '/']) && text.contains(['-', '_'])
}

#[cfg(test)]
mod tests;
