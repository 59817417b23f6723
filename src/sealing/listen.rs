//! The sealing listener: POST /seal over HTTP/1.1, for sidecars on this machine. It logs no request, and an answer shows
//! nothing of what was asked but kinds and task ids.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::hmac;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use super::batch::BatchFault;
use super::sealer::{Fault, Outcome, Sealer, written};
use super::socket::{Socket, Stream};
use crate::config::SealingAddress;
use crate::deliver::{Phase, Phases, Snapshot};
use crate::secret::{append, random};
use crate::telemetry::metrics;

/// Callers are few and local; more are closed at once.
const CONNECTIONS: usize = 32;
/// For the head of a request, and so for a kept connection between two of them.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest webhook body in base64, and room for the members around it.
const MAX_REQUEST: usize = 16 << 20;

struct Desk {
    snapshot: Arc<ArcSwap<Snapshot>>,
    /// Whether a caller without a token may be let in, because the file system judged it already.
    is_guarded: bool,
    /// Tokens are compared by their codes under this key, which takes the same time wherever they differ.
    comparing: hmac::Key,
}

/// Binds, and serves until the drain; the task ends when whoever was being answered has been.
pub(crate) fn listen(
    address: &SealingAddress,
    snapshot: Arc<ArcSwap<Snapshot>>,
    phases: Phases,
) -> std::io::Result<JoinHandle<()>> {
    let socket = Socket::bind(address)?;
    tracing::info!(addr = %socket.place(), "sealing listening");
    let comparing = hmac::Key::new(hmac::HMAC_SHA256, &random::<32>());
    let desk = Arc::new(Desk { snapshot, is_guarded: socket.is_guarded(), comparing });
    Ok(tokio::spawn(serve(socket, desk, phases)))
}

async fn serve(socket: Socket, desk: Arc<Desk>, phases: Phases) {
    let (room, callers) = (Arc::new(Semaphore::new(CONNECTIONS)), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            () = phases.reached(Phase::Draining) => break,
            accepted = socket.accept() => accepted,
        };
        // An accept fails for want of descriptors, or because the peer has gone: neither may end the listener, and
        // neither may spin.
        let Ok(stream) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(permit) = room.clone().try_acquire_owned() else { continue };
        let (desk, phases) = (desk.clone(), phases.clone());
        callers.spawn(async move {
            converse(stream, &desk, &phases).await;
            drop(permit);
        });
    }
    drop(socket);
    callers.close();
    callers.wait().await;
}

async fn converse(stream: Box<dyn Stream>, desk: &Arc<Desk>, phases: &Phases) {
    let service = service_fn(|request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(answer(request, desk).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = phases.reached(Phase::Draining) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection => {}
        () = phases.reached(Phase::Cut) => {}
    }
}

/// How a request ended: the label that is counted, and the answer's status.
#[derive(Clone, Copy)]
enum End {
    Sealed,
    Partial,
    Refused,
    Malformed,
    Unauthorized,
    TooLarge,
    Slow,
    Elsewhere(StatusCode),
    Failed,
}

impl End {
    fn label(self) -> &'static str {
        match self {
            End::Sealed => "sealed",
            End::Partial => "partial",
            End::Refused => "refused",
            End::Malformed => "malformed",
            End::Unauthorized => "unauthorized",
            End::TooLarge => "too_large",
            End::Slow => "slow",
            End::Elsewhere(_) => "elsewhere",
            End::Failed => "failed",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            End::Sealed | End::Partial => StatusCode::OK,
            End::Refused => StatusCode::UNPROCESSABLE_ENTITY,
            End::Malformed => StatusCode::BAD_REQUEST,
            End::Unauthorized => StatusCode::UNAUTHORIZED,
            End::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            End::Slow => StatusCode::REQUEST_TIMEOUT,
            End::Elsewhere(status) => status,
            End::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

async fn answer(request: Request<Incoming>, desk: Arc<Desk>) -> Response<Full<Bytes>> {
    let (end, text, format) = match judge(request, desk).await {
        Ok((end, outcome)) => {
            outcome.sealed.iter().for_each(|kind| metrics::sealed(kind));
            let format = if outcome.is_one_document { "application/json" } else { "application/x-ndjson" };
            (end, outcome.answers, format)
        }
        Err((end, text)) => (end, text, "application/json"),
    };
    metrics::sealing_request(end.label());
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = end.status();
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match end {
        End::Unauthorized => drop(headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        End::Elsewhere(StatusCode::METHOD_NOT_ALLOWED) => {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        _ => {}
    }
    reply
}

type Refusal = (End, String);

async fn judge(request: Request<Incoming>, desk: Arc<Desk>) -> Result<(End, Outcome), Refusal> {
    if request.uri().path() != "/seal" {
        return Err(refuse(End::Elsewhere(StatusCode::NOT_FOUND), "not_found", "here is POST /seal"));
    }
    if request.method() != Method::POST {
        return Err(refuse(End::Elsewhere(StatusCode::METHOD_NOT_ALLOWED), "method_not_allowed", "POST only"));
    }
    let snapshot = desk.snapshot.load_full();
    if !desk.admits(&snapshot, request.headers().get(header::AUTHORIZATION)) {
        return Err(refuse(End::Unauthorized, "unauthorized", "the bearer token is missing or not the right one"));
    }
    let partial = match request.uri().query() {
        None | Some("") => false,
        Some("partial=true") => true,
        Some(_) => return Err(refuse(End::Malformed, "query_malformed", "the only query is partial=true")),
    };
    let body = match tokio::time::timeout(BODY_TIMEOUT, read(request.into_body())).await {
        Ok(body) => body?,
        Err(_) => return Err(refuse(End::Slow, "body_slow", "the body did not come in time")),
    };
    // A large batch takes longer than a worker thread should be kept.
    let sealing = tokio::task::spawn_blocking(move || Sealer::of(&snapshot).seal_batch(&body));
    let outcome = match sealing.await {
        Ok(outcome) => outcome.map_err(|fault: BatchFault| refuse(End::Malformed, "batch_malformed", fault))?,
        Err(_) => return Err(refuse(End::Failed, "internal_error", "sealing failed")),
    };
    match (outcome.faults.is_empty(), partial) {
        (true, _) => Ok((End::Sealed, outcome)),
        (false, true) => Ok((End::Partial, outcome)),
        (false, false) => {
            let errors = outcome.faults.iter().map(|(index, fault)| Fault::new(*index, fault)).collect();
            Err((End::Refused, written(&Errors { errors }) + "\n"))
        }
    }
}

#[derive(Serialize)]
struct Errors {
    errors: Vec<Fault>,
}

#[derive(Serialize)]
struct Whole {
    error: Saying,
}

#[derive(Serialize)]
struct Saying {
    code: &'static str,
    message: String,
}

fn refuse(end: End, code: &'static str, message: impl ToString) -> Refusal {
    (end, written(&Whole { error: Saying { code, message: message.to_string() } }) + "\n")
}

/// Into one buffer where the length is told.
async fn read(mut body: Incoming) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let too_large = || refuse(End::TooLarge, "too_large", format!("a request may have {MAX_REQUEST} bytes"));
    let told = usize::try_from(body.size_hint().exact().unwrap_or(0)).unwrap_or(usize::MAX);
    if told > MAX_REQUEST {
        return Err(too_large());
    }
    let mut text = Zeroizing::new(Vec::with_capacity(told));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| refuse(End::Malformed, "body_cut", "the body broke off"))?;
        let Some(data) = frame.data_ref() else { continue };
        if text.len() + data.len() > MAX_REQUEST {
            return Err(too_large());
        }
        append(&mut text, data);
    }
    Ok(text)
}

impl Desk {
    /// A reload may have taken the token away; on a loopback address nobody is let in then.
    fn admits(&self, snapshot: &Snapshot, given: Option<&HeaderValue>) -> bool {
        let Some(token) = &snapshot.sealing_token else { return self.is_guarded };
        let Some(given) = given.and_then(|value| bearer(value.as_bytes())) else { return false };
        let code = hmac::sign(&self.comparing, token.expose());
        hmac::verify(&self.comparing, given, code.as_ref()).is_ok()
    }
}

/// The scheme is case-insensitive (RFC 9110 section 11.1), the token is not.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}
