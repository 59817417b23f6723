//! Exports a span for each attempt to an OpenTelemetry collector (OTLP over HTTP, protobuf). No delivery waits for it: what finds
//! no room, and what the collector does not take, is dropped and counted. It tells nothing of a row that a log line does not.

use std::mem;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use ring::digest::{SHA256, digest};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::metrics;
use crate::config::Tracing;

/// Spans that may wait for the collector, of about a KiB each.
const ROOM: usize = 2048;
/// Spans in one request.
const MOST: usize = 512;
/// How long the first of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// For one batch, with the tries that the exporter gives it.
const EXPORT: Duration = Duration::from_secs(5);
/// How long the end of the process waits for the last batch.
const LAST_BATCH: Duration = Duration::from_secs(2);

const NAME: &str = "deliver webhook";
static SCOPE: LazyLock<InstrumentationScope> = LazyLock::new(|| {
    InstrumentationScope::builder(env!("CARGO_PKG_NAME")).with_version(env!("CARGO_PKG_VERSION")).build()
});

enum Word {
    Span(Box<SpanData>),
    /// Answered when all before it was exported, or could not be.
    Mark(oneshot::Sender<()>),
}

/// Where the spans of one outbox's attempts go, if anywhere.
#[derive(Clone, Default)]
pub(crate) struct Spans {
    queue: Option<mpsc::Sender<Word>>,
    /// Its name, where several are served.
    outbox: Option<Arc<str>>,
}

/// The span of an attempt under way. Dropped without an end, it is never heard of.
pub(crate) struct Begun {
    context: SpanContext,
    parent: SpanId,
    at: SystemTime,
    since: Instant,
}

/// What is told of an attempt when it is over.
pub(crate) struct Told {
    pub(crate) row: i64,
    pub(crate) attempt: i32,
    /// Our outcome code, and whether it is the good one.
    pub(crate) code: &'static str,
    pub(crate) delivered: bool,
    /// Host and port, where the URL named any.
    pub(crate) destination: Option<(String, u16)>,
    /// The receiver's answer, where there was one.
    pub(crate) status: Option<u16>,
}

impl Spans {
    /// `instance` names this process among the replicas.
    pub(crate) fn start(tracing: &Tracing, instance: &str) -> Result<Spans, ExporterBuildError> {
        let Some(endpoint) = &tracing.otlp_endpoint else { return Ok(Spans::default()) };
        // What is not said here the exporter may read from OTEL_* variables: nothing but the headers is left to them.
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(HyperClient::with_default_connector(EXPORT, None))
            .with_endpoint(endpoint.to_string())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(EXPORT)
            .build()?;
        let resource = [
            KeyValue::new("service.name", env!("CARGO_PKG_NAME")),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ];
        exporter.set_resource(&Resource::builder_empty().with_attributes(resource).build());
        metrics::begin_spans();
        let (queue, words) = mpsc::channel(ROOM);
        tokio::spawn(export(Collector { exporter, is_away: false }, words));
        let collector = endpoint.authority().map(ToString::to_string);
        tracing::info!(collector, "a span of each attempt is exported");
        Ok(Spans { queue: Some(queue), outbox: None })
    }

    /// The same for one of several outboxes.
    pub(crate) fn of_outbox(&self, outbox: Option<&Arc<str>>) -> Spans {
        Spans { queue: self.queue.clone(), outbox: outbox.cloned() }
    }

    /// An attempt begins now: under `parent` (a well-formed traceparent and the tracestate beside it), or, without one, in a
    /// trace that all attempts of this `key` have. None where nothing is exported, or where whoever began the trace does not
    /// record it.
    pub(crate) fn begin(&self, parent: Option<(&str, Option<&str>)>, key: Option<&str>) -> Option<Begun> {
        self.queue.as_ref()?;
        let ids = RandomIdGenerator::default();
        let (trace, parent, flags, state) = match parent {
            Some((parent, state)) => {
                let (trace, span, flags) = parts(parent)?;
                // A list that its own rules forbid goes on in the header, as it was given.
                let state: TraceState = state.and_then(|state| state.parse().ok()).unwrap_or_default();
                (trace, span, flags, state)
            }
            None => {
                let trace = key.map_or_else(|| ids.new_trace_id(), trace_of);
                (trace, SpanId::INVALID, TraceFlags::SAMPLED, TraceState::NONE)
            }
        };
        flags.is_sampled().then(|| Begun {
            context: SpanContext::new(trace, ids.new_span_id(), flags, false, state),
            parent,
            at: SystemTime::now(),
            since: Instant::now(),
        })
    }

    /// The attempt is over.
    pub(crate) fn end(&self, begun: Begun, told: Told) {
        let Some(queue) = &self.queue else { return };
        let span = SpanData {
            parent_span_is_remote: begun.parent != SpanId::INVALID,
            parent_span_id: begun.parent,
            span_context: begun.context,
            span_kind: SpanKind::Client,
            name: NAME.into(),
            start_time: begun.at,
            // By a clock that nobody sets.
            end_time: begun.at + begun.since.elapsed(),
            attributes: self.attributes(&told),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: if told.delivered { Status::Unset } else { Status::error("") },
            instrumentation_scope: SCOPE.clone(),
        };
        if queue.try_send(Word::Span(Box::new(span))).is_err() {
            metrics::spans("dropped", 1);
        }
    }

    /// By OpenTelemetry's conventions for HTTP clients, as far as they go.
    fn attributes(&self, told: &Told) -> Vec<KeyValue> {
        let mut attributes = vec![
            KeyValue::new("outboxd.row", told.row),
            KeyValue::new("outboxd.attempt", i64::from(told.attempt)),
            KeyValue::new("outboxd.outcome", told.code),
        ];
        if let Some(outbox) = &self.outbox {
            attributes.push(KeyValue::new("outboxd.outbox", outbox.clone()));
        }
        if let Some((host, port)) = &told.destination {
            attributes.push(KeyValue::new("http.request.method", "POST"));
            attributes.push(KeyValue::new("server.address", host.clone()));
            attributes.push(KeyValue::new("server.port", i64::from(*port)));
        }
        if let Some(status) = told.status {
            attributes.push(KeyValue::new("http.response.status_code", i64::from(status)));
        }
        if !told.delivered {
            attributes.push(KeyValue::new("error.type", told.code));
        }
        attributes
    }

    /// To be called before the process ends: what waits is exported, unless that takes long.
    pub(crate) async fn close(&self) {
        let Some(queue) = &self.queue else { return };
        let (mark, exported) = oneshot::channel();
        let last = async {
            // Who exports ends with the process, and the mark with it.
            if queue.send(Word::Mark(mark)).await.is_ok() {
                let _ = exported.await;
            }
        };
        if timeout(LAST_BATCH, last).await.is_err() {
            tracing::warn!("stopping with spans that the collector did not take in time");
        }
    }
}

impl Begun {
    /// What a request of this attempt says (W3C Trace Context).
    pub(crate) fn traceparent(&self) -> String {
        let context = &self.context;
        format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags())
    }
}

fn parts(parent: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let mut parts = parent.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    Some((trace, span, TraceFlags::new(flags)))
}

/// The same wherever and whenever it is tried, so that a row's attempts by all replicas are one trace. It tells nobody the key.
fn trace_of(key: &str) -> TraceId {
    let mut id = [0; 16];
    id.copy_from_slice(&digest(&SHA256, key.as_bytes()).as_ref()[..16]);
    TraceId::from_bytes(id)
}

struct Collector {
    exporter: SpanExporter,
    /// Whether it did not take the batch before, so that an outage is told of once.
    is_away: bool,
}

impl Collector {
    async fn take(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        if spans == 0 {
            return;
        }
        // The exporter's own limit lets a last try go on past it.
        let fault = match timeout(EXPORT, self.exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", EXPORT.as_secs())),
        };
        metrics::spans(if fault.is_none() { "exported" } else { "failed" }, spans);
        match (mem::replace(&mut self.is_away, fault.is_some()), fault) {
            (false, Some(fault)) => {
                tracing::warn!(
                    fault,
                    "the collector takes no spans; until it does they are lost, and deliveries go on"
                );
            }
            (true, None) => tracing::info!("the collector takes spans again"),
            _ => {}
        }
    }
}

async fn export(mut collector: Collector, mut words: mpsc::Receiver<Word>) {
    let mut batch = Vec::new();
    while let Some(mark) = gather(&mut words, &mut batch).await {
        collector.take(mem::take(&mut batch)).await;
        // Whoever waited may have given up.
        let _ = mark.map(|mark| mark.send(()));
    }
}

/// Waits for a span and then a little for others, which a mark cuts short. None when there will be no more.
async fn gather(words: &mut mpsc::Receiver<Word>, batch: &mut Vec<SpanData>) -> Option<Option<oneshot::Sender<()>>> {
    let mut next = Some(words.recv().await?);
    let ends = Instant::now() + GATHER;
    while let Some(word) = next {
        match word {
            Word::Span(span) => batch.push(*span),
            Word::Mark(mark) => return Some(Some(mark)),
        }
        if batch.len() == MOST {
            break;
        }
        next = timeout_at(ends, words.recv()).await.ok().flatten();
    }
    Some(None)
}
