//! One small document from a pinned destination, by GET over a connection of its own. Follows no redirect, decodes no
//! encoding, and reads no further than it was told to.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri, Version};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::Client;
use super::exchange::{AGENT, fault};
use super::io::Outgoing;
use crate::address::Pinned;
use crate::signature::Target;
use crate::verdict::Fault;

/// Why there is no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the request failed ({0:?})")]
    Fault(Fault),
    #[error("the reply has status {0}")]
    Status(u16),
    #[error("the reply is encoded")]
    Encoded,
    #[error("the document is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the document ended early or did not come in time")]
    CutOff,
}

impl Client {
    /// A document of at most `most` bytes, whole, under status 200.
    pub(crate) async fn fetch(
        &self,
        pinned: &Pinned,
        target: &Target,
        most: usize,
        deadline: Instant,
    ) -> Result<Bytes, FetchError> {
        let mut connection = self.open(pinned, None, deadline).await.map_err(FetchError::Fault)?;
        let mut request = Request::new(Outgoing::new(Bytes::new(), Arc::clone(&connection.progress)));
        let path = http::uri::PathAndQuery::try_from(target.request_target.as_str());
        *request.method_mut() = Method::GET;
        *request.version_mut() = Version::HTTP_11;
        *request.uri_mut() = Uri::from(path.map_err(|_| FetchError::Fault(Fault::Protocol))?);
        let host = HeaderValue::from_str(&target.authority).map_err(|_| FetchError::Fault(Fault::Protocol))?;
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, AGENT);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let response = timeout_at(deadline, connection.send(request)).await;
        let response = response
            .map_err(|_| FetchError::Fault(Fault::ReplyTimeout))?
            .map_err(|error| FetchError::Fault(fault(&error)))?;
        if response.status() != http::StatusCode::OK {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let encoding = response.headers().get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(FetchError::Encoded);
        }
        let mut body = response.into_body();
        let mut document = BytesMut::new();
        loop {
            match timeout_at(deadline, body.frame()).await {
                Ok(Some(Ok(frame))) => document.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Ok(None) => return Ok(document.freeze()),
                Ok(Some(Err(_))) | Err(_) => return Err(FetchError::CutOff),
            }
            if document.len() > most {
                return Err(FetchError::TooLarge(most));
            }
        }
    }
}
