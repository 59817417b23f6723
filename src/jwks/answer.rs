//! What the listener answers to whom: which document, whole or "not modified", and what is here instead. It knows no socket.

use std::time::SystemTime;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;

use super::publication::{Document, Publication};

pub(super) type Reply = Response<Full<Bytes>>;

/// A receiver that honours it asks once in five minutes. Those that do not keep sets for half an hour (wire contract,
/// section 3.4), so that a new key is published that long before it signs.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=300");
const UNCACHED: HeaderValue = HeaderValue::from_static("no-store");
const KEY_SET: HeaderValue = HeaderValue::from_static("application/jwk-set+json");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HERE: &str =
    "here are /.well-known/jwks.json and, by signing scope, /scopes/<scope, percent-encoded>/jwks.json\n";

/// How a request ended, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Sent,
    NotModified,
    NotFound,
    NotAllowed,
}

impl End {
    pub(super) fn label(self) -> &'static str {
        match self {
            End::Sent => "sent",
            End::NotModified => "not_modified",
            End::NotFound => "not_found",
            End::NotAllowed => "not_allowed",
        }
    }
}

pub(super) fn answer(head: &Parts, published: &Publication, now: SystemTime) -> (End, Reply) {
    let (end, mut reply) = choose(head, published);
    // What is cached needs an age. A clock of ours writes nothing that a header could not have.
    if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(now)) {
        reply.headers_mut().insert(header::DATE, date);
    }
    (end, reply)
}

fn choose(head: &Parts, published: &Publication) -> (End, Reply) {
    if head.method != Method::GET && head.method != Method::HEAD {
        let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD only\n");
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return (End::NotAllowed, reply);
    }
    let Some(document) = find(head.uri.path(), published) else {
        return (End::NotFound, plain(StatusCode::NOT_FOUND, HERE));
    };
    let mut reply = Response::new(Full::default());
    let headers = reply.headers_mut();
    headers.insert(header::ETAG, document.tag.clone());
    headers.insert(header::CACHE_CONTROL, CACHED);
    if is_held(&head.headers, &document.tag) {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        return (End::NotModified, reply);
    }
    headers.insert(header::CONTENT_TYPE, KEY_SET);
    *reply.body_mut() = Full::new(document.bytes.clone());
    (End::Sent, reply)
}

fn find<'a>(path: &str, published: &'a Publication) -> Option<&'a Document> {
    if path == "/.well-known/jwks.json" {
        return Some(&published.all);
    }
    let scope = path.strip_prefix("/scopes/")?.strip_suffix("/jwks.json")?;
    published.by_scope.get(&decoded(scope)?)
}

/// One path segment, percent-decoded.
fn decoded(segment: &str) -> Option<String> {
    if segment.contains('/') {
        return None;
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(segment.len()), segment.as_bytes());
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (&[high, low], tail) = rest.split_first_chunk::<2>()?;
        let digit = |digit: u8| char::from(digit).to_digit(16);
        bytes.push(u8::try_from(digit(high)? << 4 | digit(low)?).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

/// RFC 9110 section 13.1.2: any of the tags, compared weakly, or `*`.
fn is_held(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let lines = headers.get_all(header::IF_NONE_MATCH).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|held| held == b"*" || held.strip_prefix(b"W/").unwrap_or(held) == tag.as_bytes())
}

fn plain(status: StatusCode, text: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, PLAIN);
    reply.headers_mut().insert(header::CACHE_CONTROL, UNCACHED);
    reply
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::Request;
    use ring::rand::SystemRandom;

    use super::*;
    use crate::jwks::publication::Signers;
    use crate::signature::{Algorithm, SigningKey};
    use crate::signer::SigningKeys;

    fn published(scopes: &[&str]) -> Publication {
        let one = |kid: &str| {
            SigningKeys::single(SigningKey::generate(Algorithm::Ed25519, Some(kid), &SystemRandom::new()).unwrap().0)
        };
        let signers: Signers = scopes.iter().map(|scope| (Some(scope.to_string()), one("k"))).collect();
        Publication::of(&signers, UNIX_EPOCH, None).0
    }

    fn ask(method: Method, path: &str, held: &[&str], published: &Publication) -> (End, Reply) {
        let mut request = Request::builder().method(method).uri(path);
        for held in held {
            request = request.header("if-none-match", *held);
        }
        answer(&request.body(()).unwrap().into_parts().0, published, UNIX_EPOCH)
    }

    #[test]
    fn scopes_are_found_by_their_names_percent_encoded_and_nothing_else_is() {
        let published = published(&["tenant:alpha/1", "é", "a b", "%2F"]);
        for (path, end) in [
            ("/.well-known/jwks.json", End::Sent),
            ("/.well-known/jwks.json?x=1", End::Sent),
            ("/scopes/tenant%3Aalpha%2F1/jwks.json", End::Sent),
            ("/scopes/tenant:alpha%2f1/jwks.json", End::Sent),
            ("/scopes/%C3%A9/jwks.json", End::Sent),
            ("/scopes/a%20b/jwks.json", End::Sent),
            ("/scopes/%252F/jwks.json", End::Sent),
            ("/scopes/tenant:alpha/1/jwks.json", End::NotFound),
            ("/scopes/%2F/jwks.json", End::NotFound),
            ("/scopes/%/jwks.json", End::NotFound),
            ("/scopes/%zz/jwks.json", End::NotFound),
            ("/scopes/%C3/jwks.json", End::NotFound),
            ("/scopes//jwks.json", End::NotFound),
            ("/scopes/jwks.json", End::NotFound),
            ("/.well-known/jwks.json/", End::NotFound),
            ("/", End::NotFound),
        ] {
            assert_eq!(ask(Method::GET, path, &[], &published).0, end, "{path}");
        }
    }

    #[test]
    fn whoever_holds_the_document_is_told_so_and_no_more() {
        let published = published(&["a"]);
        let tag = published.all.tag.to_str().unwrap().to_owned();
        let weak = format!("W/{tag}");
        let among = format!("\"other\" ,{weak}, \"third\"");
        for held in [&[tag.as_str()][..], &[&weak], &[&among], &["*"], &["\"other\"", &tag]] {
            let (end, reply) = ask(Method::GET, "/.well-known/jwks.json", held, &published);
            assert_eq!((end, reply.status()), (End::NotModified, StatusCode::NOT_MODIFIED), "{held:?}");
            assert_eq!(reply.headers()[header::ETAG], tag.as_str());
            assert_eq!(reply.headers()[header::CACHE_CONTROL], "public, max-age=300");
            assert!(!reply.headers().contains_key(header::CONTENT_TYPE));
        }
        for held in [&["\"other\""][..], &[""], &[tag.trim_matches('"')], &["W/"], &[&tag[..5]]] {
            let (end, reply) = ask(Method::GET, "/.well-known/jwks.json", held, &published);
            assert_eq!((end, reply.status()), (End::Sent, StatusCode::OK), "{held:?}");
        }
    }

    #[test]
    fn other_methods_are_refused() {
        let published = published(&["a"]);
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE, Method::CONNECT] {
            let path = if method == Method::CONNECT { "host:443" } else { "/.well-known/jwks.json" };
            let (end, reply) = ask(method, path, &[], &published);
            assert_eq!((end, reply.status()), (End::NotAllowed, StatusCode::METHOD_NOT_ALLOWED));
            assert_eq!(reply.headers()[header::ALLOW], "GET, HEAD");
        }
        assert_eq!(ask(Method::HEAD, "/.well-known/jwks.json", &[], &published).0, End::Sent);
    }
}
