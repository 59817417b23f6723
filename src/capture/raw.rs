//! The bytes of an HTTP/1.1 request, and what `curl -v` prints of one. Strict where two readers could differ, lenient about
//! line ends, which editors change.

use http::HeaderMap;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

use super::{Body, CaptureError, Captured, MAX_HEAD, add_field};

pub(super) fn read(input: &[u8]) -> Result<Captured, CaptureError> {
    let is_printed = lines(input).take(64).any(|(line, _)| line.strip_prefix(b"> ").is_some_and(is_request_line));
    if is_printed { printed(input) } else { plain(input) }
}

/// Each line without its end, and what follows it.
fn lines(input: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = input;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, after) = end.map_or((rest, &rest[rest.len()..]), |end| (&rest[..end], &rest[end + 1..]));
        rest = after;
        Some((line.strip_suffix(b"\r").unwrap_or(line), after))
    })
}

fn is_request_line(line: &[u8]) -> bool {
    request_line(line).is_some()
}

/// Method and target.
fn request_line(line: &[u8]) -> Option<(&str, &str)> {
    let (rest, version) = std::str::from_utf8(line).ok()?.rsplit_once(' ')?;
    let (method, target) = rest.split_once(' ')?;
    let known = ["HTTP/1.1", "HTTP/1.0", "HTTP/2", "HTTP/2.0", "HTTP/3"].contains(&version);
    let token = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let whole = !target.is_empty() && !target.contains(|c: char| c.is_ascii_whitespace() || c.is_control());
    (known && token && whole).then_some((method, target))
}

struct Head {
    method: String,
    target: String,
    headers: HeaderMap,
}

/// Reads a head line by line.
#[derive(Default)]
struct Reader {
    head: Option<Head>,
    bytes: usize,
}

impl Reader {
    fn take(&mut self, line: &[u8], number: usize) -> Result<(), CaptureError> {
        self.bytes += line.len();
        if self.bytes > MAX_HEAD {
            return Err(CaptureError::HeadTooLarge);
        }
        let Some(head) = &mut self.head else {
            if line.starts_with(b"HTTP/") {
                return Err(CaptureError::Reply);
            }
            let (method, target) = request_line(line).ok_or(CaptureError::RequestLine { line: number })?;
            let (method, target) = (method.to_owned(), target.to_owned());
            self.head = Some(Head { method, target, headers: HeaderMap::new() });
            return Ok(());
        };
        // A line that begins with white space would go on with the one before: a form that receivers refuse.
        let colon = line.iter().position(|byte| *byte == b':').ok_or(CaptureError::Field { line: number })?;
        add_field(&mut head.headers, &line[..colon], &line[colon + 1..], number)
    }
}

fn plain(input: &[u8]) -> Result<Captured, CaptureError> {
    let mut reader = Reader::default();
    let mut body: &[u8] = &[];
    for (number, (line, after)) in (1..).zip(lines(input)) {
        if line.is_empty() {
            body = after;
            break;
        }
        reader.take(line, number)?;
    }
    let head = reader.head.ok_or(CaptureError::Empty)?;
    let body = match Length::of(&head.headers)? {
        Length::Chunked => unchunked(body)?,
        Length::Unsaid => body.to_vec(),
        Length::Said(said) => exactly(body, said)?,
    };
    Ok(Captured { method: head.method, target: head.target, headers: head.headers, body: Body::Here(body) })
}

/// curl marks what it sends by `> `, what it receives by `< ` and its own words by `* `, and counts bodies in braces. The
/// body itself is not printed, but somebody may have added it.
fn printed(input: &[u8]) -> Result<Captured, CaptureError> {
    let mut reader = Reader::default();
    let mut rest: Vec<&[u8]> = Vec::new();
    let mut ended = false;
    for (number, (line, _)) in (1..).zip(lines(input)) {
        match line.strip_prefix(b">").map(|line| line.strip_prefix(b" ").unwrap_or(line)) {
            Some(_) if ended => return Err(CaptureError::Several),
            Some([]) => ended = reader.head.is_some(),
            Some(line) => reader.take(line, number)?,
            None if line.starts_with(b"* ") || line.starts_with(b"<") => {}
            None if line.starts_with(b"{ [") || line.starts_with(b"} [") => {}
            None if ended => rest.push(line),
            None => {}
        }
    }
    let head = reader.head.ok_or(CaptureError::Empty)?;
    let given = rest.join(&b'\n');
    let body = match Length::of(&head.headers)? {
        Length::Said(0) => Body::Here(Vec::new()),
        Length::Said(said) => exactly(&given, said).map_or(Body::Missing, Body::Here),
        Length::Chunked => Body::Missing,
        Length::Unsaid => Body::Here(Vec::new()),
    };
    Ok(Captured { method: head.method, target: head.target, headers: head.headers, body })
}

enum Length {
    Said(usize),
    Chunked,
    Unsaid,
}

impl Length {
    fn of(headers: &HeaderMap) -> Result<Length, CaptureError> {
        let coded: Vec<_> = headers.get_all(TRANSFER_ENCODING).iter().collect();
        let lengths: Vec<_> = headers.get_all(CONTENT_LENGTH).iter().collect();
        match (coded.as_slice(), lengths.as_slice()) {
            ([], []) => Ok(Length::Unsaid),
            ([], [length]) => {
                let digits = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                digits.and_then(|digits| digits.parse().ok()).map(Length::Said).ok_or(CaptureError::Length)
            }
            ([coding], []) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(Length::Chunked),
            (_, []) => Err(CaptureError::Coding),
            _ => Err(CaptureError::Length),
        }
    }
}

/// Line breaks after the last byte come from how it was written down.
fn exactly(given: &[u8], said: usize) -> Result<Vec<u8>, CaptureError> {
    let found = given.len();
    match given.split_at_checked(said) {
        None => Err(CaptureError::BodyShort { found, said }),
        Some((body, rest)) if rest.iter().all(|byte| matches!(byte, b'\r' | b'\n')) => Ok(body.to_vec()),
        Some(_) => Err(CaptureError::BodyLong { found, said }),
    }
}

/// RFC 9112 section 7.1. Trailers are passed over: nothing that is verified stands there.
fn unchunked(mut rest: &[u8]) -> Result<Vec<u8>, CaptureError> {
    let mut body = Vec::new();
    loop {
        let (line, after) = lines(rest).next().ok_or(CaptureError::Chunks)?;
        let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(size).ok().filter(|size| size.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).ok_or(CaptureError::Chunks)?;
        if size == 0 {
            return Ok(body);
        }
        let (chunk, after) = after.split_at_checked(size).ok_or(CaptureError::Chunks)?;
        body.extend_from_slice(chunk);
        rest = after.strip_prefix(b"\r\n").or(after.strip_prefix(b"\n")).ok_or(CaptureError::Chunks)?;
    }
}
