//! A curl command as the request that curl would send: method, URL, fields and body. An option that is not known to leave
//! the request alone is refused, so that nothing else is verified than what was sent.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::words::words;
use super::{Body, CaptureError, Captured, MAX_HEAD, Piece, add_field};

/// Options without a value that change nothing of what is verified.
const FLAGS: [&str; 18] = [
    "--silent",
    "--show-error",
    "--verbose",
    "--include",
    "--insecure",
    "--fail",
    "--fail-with-body",
    "--location",
    "--globoff",
    "--no-buffer",
    "--compressed",
    "--http1.1",
    "--http2",
    "--no-progress-meter",
    "--progress-bar",
    "--path-as-is",
    "--ipv4",
    "--ipv6",
];
const SHORT_FLAGS: &str = "sSvikfLgN#46";
/// The same with a value.
const IGNORED: [&str; 12] = [
    "--output",
    "--max-time",
    "--connect-timeout",
    "--cacert",
    "--cert",
    "--key",
    "--resolve",
    "--connect-to",
    "--write-out",
    "--retry",
    "--dump-header",
    "--interface",
];
const SHORT_IGNORED: &str = "omwDE";

#[derive(Default)]
struct Command {
    method: Option<String>,
    url: Option<String>,
    headers: HeaderMap,
    pieces: Vec<Piece>,
    json: bool,
}

pub(super) fn read(input: &[u8]) -> Result<Captured, CaptureError> {
    let text = std::str::from_utf8(input).map_err(|_| CaptureError::NotText)?;
    let mut command = Command::default();
    let mut words = words(text.trim_end())?.into_iter().skip(1);
    let mut only_urls = false;
    while let Some(word) = words.next() {
        if only_urls || !word.starts_with('-') || word == "-" {
            command.set_url(word)?;
        } else if word == "--" {
            only_urls = true;
        } else if let Some(long) = word.strip_prefix("--") {
            command.long(&word, long, &mut words)?;
        } else {
            command.short(&word, &mut words)?;
        }
    }
    command.captured()
}

impl Command {
    fn long(&mut self, word: &str, name: &str, words: &mut impl Iterator<Item = String>) -> Result<(), CaptureError> {
        if FLAGS.contains(&word) {
            return Ok(());
        }
        let known = IGNORED.contains(&word)
            || ["request", "header", "url", "user-agent", "json"].contains(&name)
            || ["data", "data-ascii", "data-raw", "data-binary"].contains(&name);
        if !known {
            return Err(CaptureError::Option(shown(word)));
        }
        let value = words.next().ok_or_else(|| CaptureError::OptionValue(shown(word)))?;
        match name {
            "request" => self.method = Some(value),
            "header" => self.header(&value)?,
            "url" => self.set_url(value)?,
            "user-agent" => self.default_field(HeaderName::from_static("user-agent"), &value)?,
            "json" => {
                self.json = true;
                self.data(value, Data::Binary)?;
            }
            "data" | "data-ascii" => self.data(value, Data::Text)?,
            "data-raw" => self.data(value, Data::Raw)?,
            "data-binary" => self.data(value, Data::Binary)?,
            _ => {}
        }
        Ok(())
    }

    /// Short options may stand together, and the last one's value may follow it at once.
    fn short(&mut self, word: &str, words: &mut impl Iterator<Item = String>) -> Result<(), CaptureError> {
        let mut rest = &word[1..];
        while let Some(option) = rest.chars().next() {
            rest = &rest[option.len_utf8()..];
            if SHORT_FLAGS.contains(option) {
                continue;
            }
            if !"XHdA".contains(option) && !SHORT_IGNORED.contains(option) {
                return Err(CaptureError::Option(shown(&format!("-{option}"))));
            }
            let value = match rest {
                "" => words.next().ok_or_else(|| CaptureError::OptionValue(shown(&format!("-{option}"))))?,
                attached => attached.to_owned(),
            };
            match option {
                'X' => self.method = Some(value),
                'H' => self.header(&value)?,
                'd' => self.data(value, Data::Text)?,
                'A' => self.default_field(HeaderName::from_static("user-agent"), &value)?,
                _ => {}
            }
            return Ok(());
        }
        Ok(())
    }

    fn set_url(&mut self, url: String) -> Result<(), CaptureError> {
        if self.url.is_some() || url.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(CaptureError::Url);
        }
        // curl supposes http where nothing is said.
        self.url = Some(if url.contains("://") { url } else { format!("http://{url}") });
        Ok(())
    }

    /// `Name: value`; `Name;` is an empty field, and `Name:` takes one of curl's own away, of which none is verified.
    fn header(&mut self, text: &str) -> Result<(), CaptureError> {
        if text.len() > MAX_HEAD {
            return Err(CaptureError::HeadTooLarge);
        }
        match text.split_once(':') {
            Some((_, value)) if value.trim().is_empty() => Ok(()),
            Some((name, value)) => add_field(&mut self.headers, name.trim().as_bytes(), value.as_bytes(), 1),
            None => match text.strip_suffix(';') {
                Some(name) => add_field(&mut self.headers, name.trim().as_bytes(), b"", 1),
                None => Err(CaptureError::Field { line: 1 }),
            },
        }
    }

    /// A field that `--header` wins over.
    fn default_field(&mut self, name: HeaderName, value: &str) -> Result<(), CaptureError> {
        let value = HeaderValue::from_str(value).map_err(|_| CaptureError::Field { line: 1 })?;
        if !self.headers.contains_key(&name) {
            self.headers.insert(name, value);
        }
        Ok(())
    }

    fn data(&mut self, value: String, kind: Data) -> Result<(), CaptureError> {
        // A second piece is joined to the first as if both were of a form, but for JSON.
        if !self.pieces.is_empty() && !self.json {
            self.pieces.push(Piece::Text(b"&".to_vec()));
        }
        let file = value.strip_prefix('@').filter(|_| kind != Data::Raw);
        self.pieces.push(match file {
            Some("-") => return Err(CaptureError::StandardInput),
            Some(path) => Piece::File { path: path.into(), keeps_line_breaks: kind == Data::Binary },
            None => Piece::Text(value.into_bytes()),
        });
        Ok(())
    }

    fn captured(mut self) -> Result<Captured, CaptureError> {
        let target = self.url.take().ok_or(CaptureError::Url)?;
        let has_body = !self.pieces.is_empty();
        if self.json {
            self.default_field(CONTENT_TYPE, "application/json")?;
            self.default_field(ACCEPT, "application/json")?;
        } else if has_body {
            self.default_field(CONTENT_TYPE, "application/x-www-form-urlencoded")?;
        }
        let method = self.method.unwrap_or_else(|| if has_body { "POST" } else { "GET" }.to_owned());
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') {
            return Err(CaptureError::RequestLine { line: 1 });
        }
        Ok(Captured { method, target, headers: self.headers, body: Body::Pieces(self.pieces) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Text,
    Raw,
    Binary,
}

/// An option's name; a stray word that merely begins like one may be anything, and is not repeated.
fn shown(option: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'#');
    if option.len() <= 30 && option.bytes().all(plain) { option.to_owned() } else { "that stands there".to_owned() }
}
