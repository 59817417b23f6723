//! A request as somebody captured it: the bytes of HTTP/1.1, what `curl -v` prints of them, or the curl command that sends
//! them. It opens no file, runs nothing and judges nothing; what comes out is what a receiver would have seen.

mod command;
mod error;
mod raw;
#[cfg(test)]
mod tests;
mod words;

use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use self::error::CaptureError;

/// The reference's cap on a body, and room for what stands around it.
pub(crate) const MAX_BYTES: usize = (10 << 20) + (1 << 20);
/// Far above what servers take, far below what would be felt.
const MAX_HEAD: usize = 256 << 10;
const MAX_FIELDS: usize = 256;

#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) method: String,
    /// What stood between method and version, or the URL of a command: a path, or a whole URL.
    target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Here(Vec<u8>),
    /// The pieces of a command's body, some of which are in files.
    Pieces(Vec<Piece>),
    /// Only its length was captured.
    Missing,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Vec<u8>),
    /// `--data` takes line breaks out of what it reads, `--data-binary` does not.
    File {
        path: PathBuf,
        keeps_line_breaks: bool,
    },
}

impl Captured {
    pub(crate) fn read(input: &[u8]) -> Result<Captured, CaptureError> {
        if input.len() > MAX_BYTES {
            return Err(CaptureError::TooLarge);
        }
        let input = input.strip_prefix("\u{feff}".as_bytes()).unwrap_or(input);
        let blank = input.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let input = &input[blank..];
        if input.is_empty() {
            return Err(CaptureError::Empty);
        }
        let prompted = input.strip_prefix(b"$ ").unwrap_or(input);
        if prompted.strip_prefix(b"curl").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_whitespace)) {
            return command::read(prompted);
        }
        raw::read(input)
    }

    /// What the sender aimed at. `origin` stands in for what the capture says of scheme and host, and is needed where it
    /// says nothing of the host.
    pub(crate) fn url(&self, origin: Option<&str>) -> Result<String, CaptureError> {
        let (own, target) = match self.target.split_once("://") {
            Some((scheme, rest)) if !self.target.starts_with('/') => {
                let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                (Some(format!("{scheme}://{authority}")), path)
            }
            _ if self.target.starts_with('/') => (None, self.target.as_str()),
            _ => return Err(CaptureError::Target),
        };
        let host = || self.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        let origin = origin.map(str::to_owned).or(own).or_else(|| host().map(|host| format!("https://{host}")));
        Ok(format!("{}{target}", origin.ok_or(CaptureError::NoHost)?))
    }
}

/// One field, its value without the white space around it.
fn add_field(headers: &mut HeaderMap, name: &[u8], value: &[u8], line: usize) -> Result<(), CaptureError> {
    if headers.len() >= MAX_FIELDS {
        return Err(CaptureError::TooManyFields);
    }
    let name = HeaderName::from_bytes(name).map_err(|_| CaptureError::Field { line })?;
    let value = HeaderValue::from_bytes(value.trim_ascii()).map_err(|_| CaptureError::Field { line })?;
    headers.append(name, value);
    Ok(())
}
