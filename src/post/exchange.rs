//! One request and its reply on one connection, under the attempt's deadline. Judges no status and opens no connection.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::connect::{is_about_our_certificate, is_local, rustls_error};
use super::connection::Connection;
use super::io::{Outgoing, Unasked};
use crate::signature::SignedRequest;
use crate::verdict::{Challenge, Failure, Fault, Reply, Sent, retry_after};

/// How much of a reply's body is read, and for how long, in the hope of keeping the connection. Neither changes
/// the verdict: the body is not looked at.
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_BODY_TIME: Duration = Duration::from_secs(2);

pub(super) const AGENT: HeaderValue = HeaderValue::from_static(concat!("outboxd/", env!("CARGO_PKG_VERSION")));

/// How an exchange ended.
pub(super) enum Exchange {
    Replied {
        reply: Reply,
        after: After,
    },
    Failed(Failure),
    /// The connection was found closed before any byte of the request was written.
    Unused(Fault),
}

/// What the connection is good for when the reply is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Both messages were transferred to their ends and the peer will take another.
    Keep,
    /// Both messages were transferred to their ends.
    Close,
    /// Something of them is still under way.
    Cut,
}

/// Sends the request and waits for the head of the reply. The connection is good for nothing more unless the result
/// says so.
pub(super) async fn exchange(connection: &mut Connection, signed: &SignedRequest, deadline: Instant) -> Exchange {
    connection.progress.reset();
    let Some(request) = request(connection, signed) else {
        return Exchange::Failed(Failure { fault: Fault::Protocol, sent: Sent::Nothing });
    };
    let answered = async {
        connection.ready().await?;
        connection.send(request).await
    };
    let answered = timeout_at(deadline, answered).await;
    let all_sent = connection.progress.all_sent();
    let sent = if connection.progress.begun() { Sent::Perhaps } else { Sent::Nothing };
    let response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if sent == Sent::Nothing => return Exchange::Unused(fault(&error)),
        Ok(Err(error)) => return Exchange::Failed(Failure { fault: fault(&error), sent }),
        Err(_) => return Exchange::Failed(Failure { fault: Fault::ReplyTimeout, sent }),
    };
    killpoint!("k8");
    // hyper passes over interim replies; a 1xx that arrives here is a 101 that nobody asked for.
    if response.status().is_informational() {
        return Exchange::Failed(Failure { fault: Fault::Protocol, sent });
    }
    let reply = reply(&response, all_sent);
    let persistent = is_persistent(&response);
    let after = if !(all_sent && was_read(response, deadline).await) {
        After::Cut
    } else if persistent && is_idle(connection, deadline).await {
        After::Keep
    } else {
        After::Close
    };
    Exchange::Replied { reply, after }
}

/// Origin form, with the headers that the signature room made and those that are not signed.
fn request(connection: &Connection, signed: &SignedRequest) -> Option<Request<Outgoing>> {
    let target = http::uri::PathAndQuery::try_from(signed.request_target.as_str()).ok()?;
    let body: Bytes = signed.body.clone();
    let length = HeaderValue::from(body.len());
    let mut request = Request::new(Outgoing::new(body, Arc::clone(&connection.progress)));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = Uri::from(target);
    // A clone would be exactly full, and move for the two more.
    let mut headers = HeaderMap::with_capacity(signed.headers.len() + 2);
    headers.extend(signed.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    headers.insert(USER_AGENT, AGENT);
    headers.insert(CONTENT_LENGTH, length);
    *request.headers_mut() = headers;
    Some(request)
}

fn reply(response: &Response<Incoming>, request_sent: bool) -> Reply {
    Reply {
        status: response.status().as_u16(),
        request_sent,
        retry_after: retry_after::parse(response.headers(), SystemTime::now()),
        challenge: challenge(response.headers()),
    }
}

/// The code of a `Signature error="..."` challenge. Any other challenge, and any other text in one, is ignored.
fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    headers.get_all(WWW_AUTHENTICATE).iter().find_map(|value| {
        let (scheme, parameters) = value.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("signature") {
            return None;
        }
        parameters.split(',').find_map(|parameter| {
            let code = parameter.trim().strip_prefix("error=\"")?.strip_suffix('"')?;
            Challenge::from_code(code.as_bytes())
        })
    })
}

/// Whether the peer speaks of a next request. Two framings in one head are how replies are smuggled (RFC 9112,
/// section 6.3), so that such a connection is used up whatever it says.
fn is_persistent(response: &Response<Incoming>) -> bool {
    let headers = response.headers();
    let closes = headers.get_all(CONNECTION).iter().any(|value| {
        value.to_str().is_ok_and(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case("close")))
    });
    let ambiguous = headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH);
    response.version() == Version::HTTP_11 && !closes && !ambiguous
}

/// Reads the body to its end within the caps and throws it away.
async fn was_read(response: Response<Incoming>, deadline: Instant) -> bool {
    let mut body = response.into_body();
    let mut room = MAX_BODY_BYTES;
    let reading = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            let Some(left) = room.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return false };
            room = left;
        }
        true
    };
    timeout_at(deadline.min(Instant::now() + MAX_BODY_TIME), reading).await.unwrap_or(false)
}

/// Whether hyper too holds the exchange for ended.
async fn is_idle(connection: &mut Connection, deadline: Instant) -> bool {
    timeout_at(deadline, connection.ready()).await.is_ok_and(|ready| ready.is_ok())
}

/// Sorts a failed exchange by the type of its error.
pub(super) fn fault(error: &hyper::Error) -> Fault {
    let source = std::error::Error::source(error);
    // A request that was taken back says by its source what ended the connection.
    if let Some(cause) = source.and_then(|source| source.downcast_ref::<hyper::Error>()) {
        return fault(cause);
    }
    if error.is_parse() || error.is_user() || is_unasked(error) {
        return Fault::Protocol;
    }
    match rustls_error(error) {
        // In TLS 1.3 a server judges our certificate only after the client's side of the handshake is done.
        Some(error) if is_about_our_certificate(error) => return Fault::TlsClientAuth,
        Some(_) => return Fault::Tls,
        None => {}
    }
    match source.and_then(|source| source.downcast_ref::<std::io::Error>()) {
        Some(io) if is_local(io) => Fault::LocalResources,
        Some(io) if io.get_ref().is_some_and(|inner| inner.is::<Unasked>()) => Fault::Protocol,
        _ => Fault::Disconnected,
    }
}

/// What hyper calls an unexpected message: bytes on a connection that owes none. It has no question for it; all other
/// errors answer one of these, or have a source.
fn is_unasked(error: &hyper::Error) -> bool {
    let other = error.is_canceled()
        || error.is_closed()
        || error.is_incomplete_message()
        || error.is_body_write_aborted()
        || error.is_shutdown()
        || error.is_timeout();
    !other && std::error::Error::source(error).is_none()
}
