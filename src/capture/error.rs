//! Why a capture is not read. Nothing of its content is told but where in it the fault is.

use super::{MAX_BYTES, MAX_FIELDS, MAX_HEAD};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error("it is empty")]
    Empty,
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("its head is larger than {MAX_HEAD} bytes")]
    HeadTooLarge,
    #[error("it has more than {MAX_FIELDS} header fields")]
    TooManyFields,
    #[error("it is a reply; what is verified is the request")]
    Reply,
    #[error("line {line} is no request line such as `POST /hooks HTTP/1.1`, and it is no curl command either")]
    RequestLine { line: usize },
    #[error("line {line} is no header field such as `Name: value`")]
    Field { line: usize },
    #[error("its request target is neither a path nor a URL")]
    Target,
    #[error("it names no host; give --url with the scheme and host that the sender aimed at")]
    NoHost,
    #[error("it holds more than one request")]
    Several,
    #[error("its Content-Length is no number, or comes twice, or stands beside Transfer-Encoding")]
    Length,
    #[error("its body has {found} bytes where Content-Length says {said}: the capture is cut off, or was edited")]
    BodyShort { found: usize, said: usize },
    #[error("its body has {found} bytes where Content-Length says {said}: more than the request was captured")]
    BodyLong { found: usize, said: usize },
    #[error("its chunked body is not well formed")]
    Chunks,
    #[error("it has a transfer coding that is not chunked")]
    Coding,
    #[error("a quote is not closed")]
    Quote,
    #[error("a shell would expand something in it; write out what the expansion gives")]
    Expansion,
    #[error("a shell would do more than run curl with it; give the curl command alone")]
    Shell,
    #[error("the curl option {0} is not understood here; take it out if it changes nothing of the request")]
    Option(String),
    #[error("the curl option {0} lacks its value")]
    OptionValue(String),
    #[error("the curl command has no URL, or more than one")]
    Url,
    #[error("the curl command is not UTF-8")]
    NotText,
    #[error("the curl command reads from standard input; name a file")]
    StandardInput,
}
