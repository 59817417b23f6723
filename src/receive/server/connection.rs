//! One connection from its first byte to its last: handshake, HTTP/1.1 or HTTP/2, each request to the application, the end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use super::body::Body;
use super::crowd::Guest;
use super::heads::{Follower, Heads, Lengths};
use super::listener::Stream;
use super::wire::{Allowance, Wire};
use super::{Application, Arrival, Event, Server};
use crate::deliver::Phase;

/// All of a request's head. More than any real one; less than what 1,000 attackers could fill memory with.
const HEAD_BYTES: usize = 64 << 10;
/// Field lines of one head. Profiles have lower limits of their own, and an answer for what exceeds them.
const HEAD_FIELDS: usize = 100;
/// Requests of one HTTP/2 connection at once.
const STREAMS: u32 = 16;
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Streams that were reset before we took them up, and streams that we reset for errors, before the connection goes.
const RESET_STREAMS: usize = 20;
/// What a connection may send for one answer, bodies that are read aside: the heads of all streams, twice.
const ALLOWANCE: u64 = 2 << 20;

struct Service<A> {
    server: Arc<Server<A>>,
    guest: Arc<Guest>,
    allowance: Allowance,
    heads: Heads,
    peer: Option<IpAddr>,
    tls: bool,
    activity: watch::Sender<Activity>,
}

#[derive(Clone, Copy)]
struct Activity {
    /// Requests that have no answer yet.
    under_way: usize,
    /// When the connection was opened, or a request last began or ended.
    since: Instant,
}

/// Ends with the connection: by the peer, by us after the drain, or for another that needs its place.
pub(super) async fn run<A: Application>(stream: Stream, guest: Guest, server: Arc<Server<A>>) {
    let guest = Arc::new(guest);
    server.application.observe(Event::Connections(server.crowd.size()));
    tokio::select! {
        biased;
        () = guest.asked_to_leave() => server.application.observe(Event::MadeRoom),
        () = server.phases.reached(Phase::Cut) => {}
        () = speak(stream, &guest, &server) => {}
    }
    drop(guest);
    server.application.observe(Event::Connections(server.crowd.size()));
}

async fn speak<A: Application>(stream: Stream, guest: &Arc<Guest>, server: &Arc<Server<A>>) {
    let service = Service {
        server: server.clone(),
        guest: guest.clone(),
        allowance: Allowance::new(ALLOWANCE),
        heads: Heads::default(),
        peer: stream.address(),
        tls: server.tls.is_some(),
        activity: watch::Sender::new(Activity { under_way: 0, since: Instant::now() }),
    };
    let Some(acceptor) = &server.tls else {
        return http1(stream, service).await;
    };
    let handshake = tokio::time::timeout(server.bounds.head_timeout, acceptor.accept(stream)).await;
    let Ok(Ok(stream)) = handshake else { return };
    match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => http2(stream, service).await,
        _ => http1(stream, service).await,
    }
}

async fn http1<A: Application, S: AsyncRead + AsyncWrite + Unpin>(stream: S, service: Service<A>) {
    let service = Arc::new(service);
    let follower = Follower::new(service.heads.clone());
    let io = TokioIo::new(Wire::new(stream, service.allowance.clone(), Some(follower)));
    let (limits, phases) = (service.server.bounds.clone(), service.server.phases.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS)
        // A sender may close its side once it has said all.
        .half_close(true)
        .auto_date_header(false)
        .serve_connection(io, service_fn(move |request| answer(service.clone(), request)));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = phases.reached(Phase::Draining) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn http2<A: Application, S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, service: Service<A>) {
    let service = Arc::new(service);
    let io = TokioIo::new(Wire::new(stream, service.allowance.clone(), None));
    let (limits, phases) = (service.server.bounds.clone(), service.server.phases.clone());
    let served = service.clone();
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEAD_BYTES as u32)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(RESET_STREAMS)
        .auto_date_header(false)
        .serve_connection(io, service_fn(move |request| answer(served.clone(), request)));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = service.idle(limits.idle_timeout) => {}
        () = phases.reached(Phase::Draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    // A peer that does not go when asked is not waited for; with a request under way it was not idle.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = service.idle(limits.head_timeout) => {}
    }
}

impl<A: Application> Service<A> {
    /// Resolves once there was no request for this long.
    async fn idle(&self, limit: Duration) {
        let mut activity = self.activity.subscribe();
        loop {
            let Activity { under_way, since } = *activity.borrow_and_update();
            tokio::select! {
                // The sender lives as long as `self`, so that waiting cannot fail.
                _ = activity.changed() => {}
                () = tokio::time::sleep_until(since + limit), if under_way == 0 => return,
            }
        }
    }

    /// A request is under way from now until what this returns is dropped, as it also is with a request given up.
    fn begin(self: &Arc<Self>) -> UnderWay {
        self.activity.send_modify(|activity| {
            *activity = Activity { under_way: activity.under_way + 1, since: Instant::now() };
        });
        UnderWay(self.activity.clone())
    }

    /// TLS that ended here, or at a proxy that is trusted to say so in the one way we listen to.
    fn arrival(&self, request: &Request<Incoming>, lengths: Lengths) -> Arrival {
        let trusted = &self.server.bounds.trusted_proxies;
        let believed = match self.peer {
            Some(address) => trusted.networks.iter().any(|network| network.contains(&address)),
            None => trusted.unix,
        };
        let mut said = request.headers().get_all("x-forwarded-proto").iter();
        let says_https = said.next().is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"));
        let secure = self.tls || (believed && says_https && said.next().is_none());
        Arrival { peer: self.peer, secure, repeated_length: lengths.repeated }
    }
}

struct UnderWay(watch::Sender<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|activity| {
            *activity = Activity { under_way: activity.under_way - 1, since: Instant::now() };
        });
    }
}

async fn answer<A: Application>(
    service: Arc<Service<A>>,
    request: Request<Incoming>,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let began = Instant::now();
    let _under_way = service.begin();
    let turn = Arc::new(service.guest.serve());
    let lengths = service.heads.next();
    let arrival = service.arrival(&request, lengths);
    let (head, incoming) = request.into_parts();
    let server = &service.server;
    let body = Body {
        incoming,
        turn: turn.clone(),
        timeout: server.bounds.body_timeout,
        memory: server.memory.clone(),
        allowance: service.allowance.clone(),
    };
    let mut reply = server.application.answer(&head, arrival, body).await;
    if lengths.last {
        // Heads behind this body would go by unseen.
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    service.allowance.renew();
    server.application.observe(Event::Answered { status: reply.status().as_u16(), took: began.elapsed() });
    Ok(reply)
}
