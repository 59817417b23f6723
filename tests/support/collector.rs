//! An OpenTelemetry collector on loopback, as far as spans need one: it takes OTLP over HTTP, reads it by OpenTelemetry's own
//! messages and keeps what came. It can be told to refuse, or to say nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use super::eventually::{PATIENCE, within};
use super::keys::hex;
use super::runtime::servers;

#[derive(Clone, Copy)]
pub enum Manner {
    Takes,
    Refuses(u16),
    /// The request is read and never answered.
    Silent,
}

/// A request as it came, taken or not.
#[derive(Clone)]
pub struct Asked {
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A span that was taken.
#[derive(Clone, Debug)]
pub struct Exported {
    pub name: String,
    pub kind: i32,
    pub trace: String,
    pub id: String,
    /// Empty for the first of a trace.
    pub parent: String,
    pub state: String,
    /// In seconds since 1970.
    pub start: f64,
    pub end: f64,
    pub is_error: bool,
    /// What is said in words of its status.
    pub description: String,
    pub attributes: Value,
    pub resource: Value,
}

struct Shared {
    manner: Mutex<Manner>,
    asked: Mutex<Vec<Asked>>,
    exported: Mutex<Vec<Exported>>,
    /// So many requests, and so many spans.
    arrived: watch::Sender<(usize, usize)>,
    end: Notify,
}

pub struct Collector {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Collector {
    pub async fn start() -> Collector {
        let shared = Arc::new(Shared {
            manner: Mutex::new(Manner::Takes),
            asked: Mutex::default(),
            exported: Mutex::default(),
            arrived: watch::Sender::new((0, 0)),
            end: Notify::new(),
        });
        let serving = Arc::clone(&shared);
        let starting = servers().spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
            let address = listener.local_addr().expect("it is bound");
            servers().spawn(accept(listener, serving));
            address
        });
        Collector { address: starting.await.expect("binding does not panic"), shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    pub fn behaves(&self, manner: Manner) {
        *self.shared.manner.lock().expect("no holder panics") = manner;
    }

    /// All requests so far, once there are at least `count`.
    pub async fn asked(&self, count: usize) -> Vec<Asked> {
        let what = format!("{count} requests for the collector");
        self.wait(&what, |(asked, _)| asked >= count).await;
        self.shared.asked.lock().expect("no holder panics").clone()
    }

    /// All spans so far by their start, once there are at least `count`.
    pub async fn spans(&self, count: usize) -> Vec<Exported> {
        let what = format!("{count} spans");
        self.wait(&what, |(_, spans)| spans >= count).await;
        let mut spans = self.shared.exported.lock().expect("no holder panics").clone();
        spans.sort_by(|one, other| one.start.total_cmp(&other.start));
        spans
    }

    async fn wait(&self, what: &str, mut enough: impl FnMut((usize, usize)) -> bool) {
        let mut arrived = self.shared.arrived.subscribe();
        let waiting = arrived.wait_for(|counts| enough(*counts));
        within(PATIENCE, what, waiting).await.expect("the collector lives");
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.end.notify_one();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            () = shared.end.notified() => return,
            accepted = listener.accept() => accepted.expect("accepting on loopback works").0,
        };
        let shared = Arc::clone(&shared);
        servers().spawn(async move {
            let answering = service_fn(|request| answer(request, Arc::clone(&shared)));
            // A daemon that was killed meanwhile is no fault here.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answering).await;
        });
    }
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    // One that was cut off says nothing.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let manner = *shared.manner.lock().expect("no holder panics");
    let target = head.uri.to_string();
    shared.asked.lock().expect("no holder panics").push(Asked { target, headers: head.headers, body: body.clone() });
    let mut taken = 0;
    if let Manner::Takes = manner {
        let request = ExportTraceServiceRequest::decode(body).expect("the daemon speaks OTLP");
        let spans: Vec<Exported> = request.resource_spans.into_iter().flat_map(exported).collect();
        taken = spans.len();
        shared.exported.lock().expect("no holder panics").extend(spans);
    }
    shared.arrived.send_modify(|(asked, spans)| {
        *asked += 1;
        *spans += taken;
    });
    let status = match manner {
        Manner::Takes => 200,
        Manner::Refuses(status) => status,
        Manner::Silent => std::future::pending().await,
    };
    let reply = Response::builder().status(status).header("content-type", "application/x-protobuf");
    Ok(reply.body(Full::default()).expect("a status is one"))
}

fn exported(of: ResourceSpans) -> Vec<Exported> {
    let resource = attributes(of.resource.expect("every span has a resource").attributes);
    let spans = of.scope_spans.into_iter().flat_map(|scope| {
        let name = scope.scope.expect("every span has a scope").name;
        assert_eq!(name, "outboxd");
        scope.spans
    });
    spans.map(|span| read(span, resource.clone())).collect()
}

fn read(span: Span, resource: Value) -> Exported {
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    assert!(span.events.is_empty() && span.links.is_empty(), "{span:?}");
    let status = span.status.unwrap_or_default();
    Exported {
        name: span.name,
        kind: span.kind,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        state: span.trace_state,
        start: seconds(span.start_time_unix_nano),
        end: seconds(span.end_time_unix_nano),
        is_error: status.code() == StatusCode::Error,
        description: status.message,
        attributes: attributes(span.attributes),
        resource,
    }
}

fn attributes(given: Vec<KeyValue>) -> Value {
    let value = |value: AnyValue| match value {
        AnyValue::StringValue(text) => Value::from(text),
        AnyValue::IntValue(number) => Value::from(number),
        other => panic!("an attribute is text or a number, and not {other:?}"),
    };
    let pairs = given.into_iter().map(|pair| {
        let given = pair.value.and_then(|any| any.value).expect("every attribute has a value");
        (pair.key, value(given))
    });
    Value::Object(pairs.collect::<Map<_, _>>())
}
