//! What is judged of a request by its head alone: where it goes, what it says it is, and who is asked to vouch for it.
//! It reads no body, knows no key and verifies nothing.

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method};

use super::refusal::Refusal;
use crate::signature::verify::is_signed;
use crate::signature::{is_hmac, is_standard};

/// Refuses what no body could mend.
pub(super) fn head(head: &Parts, path_prefix: &str) -> Result<(), Refusal> {
    if !head.uri.path().starts_with(path_prefix) {
        return Err(Refusal::NotFound);
    }
    if head.method != Method::POST {
        return Err(Refusal::Method);
    }
    if !is_json(&head.headers) {
        return Err(Refusal::ContentType);
    }
    // What is signed and kept are the bytes of the document; decoding would also let a small body become a large one.
    let encoded = |value: &http::HeaderValue| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if head.headers.get_all(CONTENT_ENCODING).iter().any(encoded) {
        return Err(Refusal::ContentEncoding);
    }
    Ok(())
}

/// Parameters are ignored here; the signed value must match in full. A second line is the signature's business.
fn is_json(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type
        .and_then(|text| text.split(';').next())
        .is_some_and(|text| text.trim().eq_ignore_ascii_case("application/json"))
}

/// Which scheme a request asks to be judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme<'a> {
    /// Both of its headers are there. Nothing else is tried then: whoever could take a signature off could put another
    /// credential on.
    Rfc9421,
    Hmac,
    StandardWebhooks,
    Bearer(&'a [u8]),
    None,
}

pub(super) fn scheme(headers: &HeaderMap) -> Scheme<'_> {
    if is_signed(headers) {
        return Scheme::Rfc9421;
    }
    if is_hmac(headers) {
        return Scheme::Hmac;
    }
    if is_standard(headers) {
        return Scheme::StandardWebhooks;
    }
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    match (lines.next().and_then(|value| bearer(value.as_bytes())), lines.next()) {
        (Some(token), None) => Scheme::Bearer(token),
        _ => Scheme::None,
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(uri: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_first_fault_of_a_head_is_its_answer() {
        let json = ("content-type", "application/json; charset=utf-8");
        assert_eq!(head(&parts("/hooks/a", &[json]), "/hooks/"), Ok(()));
        assert_eq!(head(&parts("/other", &[json]), "/hooks/"), Err(Refusal::NotFound));
        for media_type in ["text/plain", "application/json5", "application/json, text/plain", ""] {
            let head = head(&parts("/", &[("content-type", media_type)]), "/");
            assert_eq!(head, Err(Refusal::ContentType), "{media_type}");
        }
        assert_eq!(head(&parts("/", &[]), "/"), Err(Refusal::ContentType));
        assert_eq!(head(&parts("/", &[json, ("content-encoding", "gzip")]), "/"), Err(Refusal::ContentEncoding));
        assert_eq!(head(&parts("/", &[json, ("content-encoding", "identity")]), "/"), Ok(()));
        let mut get = parts("/", &[json]);
        get.method = Method::GET;
        assert_eq!(head(&get, "/"), Err(Refusal::Method));
    }

    #[test]
    fn a_signature_leaves_no_choice_of_scheme() {
        let with = |headers: &[(&'static str, &str)]| format!("{:?}", scheme(&parts("/", headers).headers));
        let (s, i) = (("signature", "x"), ("signature-input", "x"));
        let (h, b) = (("x-adcp-signature", "x"), ("authorization", "Bearer x"));
        assert_eq!(with(&[s, i, h, b]), "Rfc9421");
        assert_eq!(with(&[s, h, b]), "Hmac", "one header of two is no signature");
        let w = ("webhook-signature", "x");
        assert_eq!(
            (with(&[w, b]), with(&[w, h]), with(&[s, i, w])),
            ("StandardWebhooks".into(), "Hmac".into(), "Rfc9421".into())
        );
        assert_eq!(with(&[b]), "Bearer([120])");
        assert_eq!(with(&[b, b]), "None");
        assert_eq!(with(&[s]), "None");
        assert_eq!(with(&[("authorization", "Basic x")]), "None");
    }
}
