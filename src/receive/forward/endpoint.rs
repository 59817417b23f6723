//! A hand-over by one plain HTTP/1.1 POST to this machine: a loopback address or a unix socket, and nowhere else, since a
//! message travels in clear. It follows no redirect and reads no reply body.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Request};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::outcome::Outcome;
use crate::store::Message;

pub(super) struct Endpoint {
    place: Place,
    host: HeaderValue,
    target: String,
}

enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointError {
    #[error("it is no http URL")]
    NotHttp,
    #[error("it does not name a loopback address")]
    NotLoopback,
}

impl Endpoint {
    pub(super) fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
            let host = HeaderValue::from_static("localhost");
            return Ok(Endpoint { place: Place::Unix(path.into()), host, target: "/".into() });
        }
        let uri: http::Uri = text.parse().map_err(|_| EndpointError::NotHttp)?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or(EndpointError::NotHttp)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        // A name could be led elsewhere.
        let address: IpAddr = host.parse().map_err(|_| EndpointError::NotLoopback)?;
        if !address.is_loopback() {
            return Err(EndpointError::NotLoopback);
        }
        let header = HeaderValue::from_str(authority.as_str()).map_err(|_| EndpointError::NotHttp)?;
        Ok(Endpoint {
            place: Place::Tcp(SocketAddr::new(address, authority.port_u16().unwrap_or(80))),
            host: header,
            target: uri.path_and_query().map_or("/".into(), |target| target.as_str().to_owned()),
        })
    }

    pub(super) async fn post(&self, message: &Message) -> Outcome {
        let posted = match &self.place {
            Place::Tcp(address) => match TcpStream::connect(address).await {
                Ok(stream) => self.post_over(stream, message).await,
                Err(_) => return Outcome::Retry("forward_connect_failed".into()),
            },
            Place::Unix(path) => match UnixStream::connect(path).await {
                Ok(stream) => self.post_over(stream, message).await,
                Err(_) => return Outcome::Retry("forward_connect_failed".into()),
            },
        };
        posted.map_or_else(|_| Outcome::Retry("forward_disconnected".into()), Outcome::of_status)
    }

    async fn post_over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        message: &Message,
    ) -> hyper::Result<u16> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(&message.body)));
        *request.method_mut() = http::Method::POST;
        // It was cut from a URI.
        *request.uri_mut() = self.target.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("outboxd-attempt", HeaderValue::from(message.attempt));
        for (name, text) in [("idempotency-key", &message.idempotency_key), ("outboxd-sender", &message.sender)] {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        }
        let exchange = sender.send_request(request);
        tokio::pin!(exchange, connection);
        tokio::select! {
            biased;
            reply = &mut exchange => reply.map(|reply| reply.status().as_u16()),
            ended = &mut connection => {
                ended?;
                exchange.await.map(|reply| reply.status().as_u16())
            }
        }
    }
}
