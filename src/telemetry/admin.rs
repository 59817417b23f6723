//! The admin listener: /metrics, /livez, /readyz over plain HTTP/1.1. Shows no row, key or setting.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::health::Health;

/// Enough for a scraper, two probes and a person; more are closed at once.
const CONNECTIONS: usize = 32;
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: PrometheusHandle,
}

/// Binds and serves until the returned task is dropped. Returns the address that was bound.
pub(crate) async fn listen(address: SocketAddr, admin: Admin) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(serve(listener, admin));
    Ok(bound)
}

async fn serve(listener: TcpListener, admin: Admin) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // An accept fails for want of descriptors, or because the peer has gone: neither may end the listener, and
        // neither may spin.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(permit) = room.clone().try_acquire_owned() else { continue };
        let admin = admin.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let reply = answer(&request, &admin);
                async { Ok::<_, Infallible>(reply) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
            drop(permit);
        });
    }
}

fn answer(request: &Request<Incoming>, admin: &Admin) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD only\n".into());
    }
    match request.uri().path() {
        "/metrics" => metrics(admin),
        "/livez" => state(admin.health.live()),
        "/readyz" => state(admin.health.ready()),
        _ => plain(StatusCode::NOT_FOUND, "here are /metrics, /livez and /readyz\n".into()),
    }
}

fn state(state: Result<String, String>) -> Response<Full<Bytes>> {
    match state {
        Ok(text) => plain(StatusCode::OK, text),
        Err(reasons) => plain(StatusCode::SERVICE_UNAVAILABLE, reasons),
    }
}

fn metrics(admin: &Admin) -> Response<Full<Bytes>> {
    let mut reply = plain(StatusCode::OK, admin.metrics.render());
    let format = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply.headers_mut().insert(header::CONTENT_TYPE, format);
    reply
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = status;
    let format = header::HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(header::CONTENT_TYPE, format);
    reply
}
