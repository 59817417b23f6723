//! What HTTP/1.1 heads say and hyper does not pass on: that Content-Length stood there twice. hyper folds equal ones into
//! one, as it may; a profile may have to refuse them. Nothing is judged or changed here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Enough of a line to know either field by, with a length that any profile takes.
const LINE_BYTES: usize = 64;

/// One for each head that went by and was not asked about yet.
#[derive(Clone, Default)]
pub(super) struct Heads(Arc<Mutex<VecDeque<Lengths>>>);

/// How the body of a request is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lengths {
    /// Content-Length stood there more than once.
    pub(super) repeated: bool,
    /// Where the next head begins cannot be told from here.
    pub(super) last: bool,
}

impl Heads {
    /// Of the next request, in the order that they came in.
    pub(super) fn next(&self) -> Lengths {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or_default()
    }
}

/// Follows the bytes of a connection as they are read.
pub(super) struct Follower {
    heads: Heads,
    at: At,
}

enum At {
    Head {
        line: Vec<u8>,
        begun: bool,
        length: Option<Option<u64>>,
        repeated: bool,
        framed: bool,
    },
    Body {
        left: u64,
    },
    /// Behind a body whose end is not told by a length.
    Lost,
}

impl At {
    fn start() -> At {
        At::Head { line: Vec::new(), begun: false, length: None, repeated: false, framed: false }
    }
}

impl Follower {
    pub(super) fn new(heads: Heads) -> Follower {
        Follower { heads, at: At::start() }
    }

    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.at {
                At::Lost => return,
                At::Body { left } => {
                    let passed = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= passed as u64;
                    bytes = &bytes[passed..];
                    if *left == 0 {
                        self.at = At::start();
                    }
                }
                At::Head { line, .. } => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    let room = LINE_BYTES.saturating_sub(line.len());
                    line.extend_from_slice(&part[..part.len().min(room)]);
                    bytes = &bytes[end.map_or(bytes.len(), |end| end + 1)..];
                    if end.is_some() {
                        self.end_line();
                    }
                }
            }
        }
    }

    fn end_line(&mut self) {
        let At::Head { line, begun, length, repeated, framed } = &mut self.at else { return };
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        if text.is_empty() && *begun {
            let known = length.unwrap_or(Some(0));
            let lost = *framed || known.is_none();
            let seen = Lengths { repeated: *repeated, last: lost };
            self.heads.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(seen);
            self.at = match known {
                Some(0) if !lost => At::start(),
                Some(left) if !lost => At::Body { left },
                _ => At::Lost,
            };
            return;
        }
        // Empty lines before a request line count for nothing.
        *begun |= !text.is_empty();
        if let Some(value) = value_of(text, b"content-length") {
            *repeated |= length.is_some();
            let digits = std::str::from_utf8(value).ok().map(str::trim);
            *length = Some(digits.and_then(|digits| digits.parse().ok()));
        }
        *framed |= value_of(text, b"transfer-encoding").is_some();
        line.clear();
    }
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = line.split_at_checked(name.len())?;
    rest.strip_prefix(b":").filter(|_| head.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the bytes are cut.
    fn heads(bytes: &[u8]) -> Vec<Lengths> {
        let mut seen = Vec::new();
        for size in [1, 7, bytes.len()] {
            let heads = Heads::default();
            let mut follower = Follower::new(heads.clone());
            bytes.chunks(size).for_each(|chunk| follower.follow(chunk));
            let these: Vec<Lengths> = heads.0.lock().unwrap().iter().copied().collect();
            assert!(seen.is_empty() || seen == these, "cut by {size}");
            seen = these;
        }
        seen
    }

    #[test]
    fn a_repeated_length_is_seen_and_bodies_are_passed_over() {
        let once = Lengths::default();
        let twice = Lengths { repeated: true, last: false };
        let pipelined = b"\r\nPOST /a HTTP/1.1\r\nContent-Length: 36\r\n\r\nContent-Length: 1\r\nContent-Length: 1GET / HTTP/1.1\r\n\
            Host: a\r\n\r\nPOST / HTTP/1.1\r\ncontent-length:  1 \r\nCONTENT-LENGTH: 1\r\n\r\nx";
        assert_eq!(heads(pipelined), [once, once, twice]);
    }

    #[test]
    fn behind_a_body_without_a_length_nothing_is_claimed() {
        let lost = Lengths { repeated: false, last: true };
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST / HTTP/1.1\r\n\r\n";
        assert_eq!(heads(chunked), [lost]);
        let long = format!("POST / HTTP/1.1\r\nContent-Length: {}1\r\n\r\nx", "0".repeat(100));
        assert_eq!(heads(long.as_bytes()), [Lengths { repeated: false, last: false },]);
    }
}
