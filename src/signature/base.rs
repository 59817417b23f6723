//! The signature base of RFC 9421 section 2.5 and the content digest of RFC 9530: the bytes that both sides must agree
//! on. It chooses no components and reads no headers.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Digest, SHA256, digest};

/// Joins the lines of a base: one per component, then the parameters, no newline at the end. A component is named as it
/// stands in the list of covered ones: in quotes, and with its parameters.
pub(super) fn signature_base<'a>(components: impl IntoIterator<Item = (&'a str, &'a str)>, parameters: &str) -> String {
    let mut base = String::with_capacity(512);
    for (identifier, value) in components {
        base.push_str(identifier);
        base.push_str(": ");
        base.push_str(value.trim_matches([' ', '\t']));
        base.push('\n');
    }
    base.push_str("\"@signature-params\": ");
    base.push_str(parameters);
    base
}

/// The components that a webhook signature covers, in the order in which it covers them.
pub(super) const COVERED: [&str; 5] = ["@method", "@target-uri", "@authority", "content-type", "content-digest"];
/// The same as they stand in a list and in a base.
pub(super) const IDENTIFIERS: [&str; 5] =
    ["\"@method\"", "\"@target-uri\"", "\"@authority\"", "\"content-type\"", "\"content-digest\""];

/// Appends everything of `Signature-Input` after the label: the covered components and the six parameters.
pub(super) fn put_parameters(text: &mut String, created: i64, expires: i64, nonce: &str, kid: &str, algorithm: &str) {
    let mut before = '(';
    for identifier in IDENTIFIERS {
        text.push(before);
        text.push_str(identifier);
        before = ' ';
    }
    // Writing to a String cannot fail.
    let _ = write!(text, ");created={created};expires={expires};nonce=\"{nonce}\";keyid=\"");
    for c in kid.chars() {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    let _ = write!(text, "\";alg=\"{algorithm}\";tag=\"{}\"", super::TAG);
}

pub(super) fn sha256(body: &[u8]) -> Digest {
    digest(&SHA256, body)
}

/// Appends a `Content-Digest`. Standard base64 with padding, unlike the signature beside it: that is how the reference and its
/// vectors spell them.
pub(super) fn put_content_digest(text: &mut String, body: &[u8]) {
    text.push_str("sha-256=:");
    STANDARD.encode_string(sha256(body), text);
    text.push(':');
}

#[cfg(test)]
mod tests;
