//! The documents that are answered with: errors, acknowledgement, status, health and readiness, each in its one
//! canonical spelling. No error carries anything of the request.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body_util::Full;

use super::canonical::Value;
use super::notification::Notification;
use super::worker::{Standing, Worker};
use crate::receive::Reply;
use crate::store::{InboxHealth, NotificationStatus};

pub(super) const ERROR_SCHEMA: &str = "blun.cms-source-terminal-notification-http-error.v1";
pub(super) const ACK_SCHEMA: &str = "blun.cms-source-terminal-notification-ack.v1";
pub(super) const STATUS_SCHEMA: &str = "blun.cms-terminal-receiver-status-response.v1";
pub(super) const HEALTH_SCHEMA: &str = "blun.cms-terminal-receiver-health.v1";
pub(super) const READINESS_SCHEMA: &str = "blun.cms-terminal-receiver-readiness.v1";

/// In the order of the counts that the store gives.
pub(super) const PROCESSING_STATUSES: [&str; 5] = ["pending", "leased", "retry_wait", "succeeded", "failed"];

/// Every refusal that can be answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    RuntimeUnavailable,
    PathNotFound,
    MethodNotAllowed,
    HttpsRequired,
    QueryRejected,
    FramingInvalid,
    HeadersInvalid,
    ContentType,
    ContentLengthRequired,
    BodyInvalid,
    BodyTooLarge,
    JsonInvalid,
    RequestInvalid,
    CanonicalBodyRequired,
    HeaderBindingInvalid,
    AuthenticationUnavailable,
    AuthenticationFailed,
    AuthorizationFailed,
    CapabilitiesInvalid,
    CapabilitiesPreconditionRequired,
    CapabilitiesPreconditionFailed,
    IdempotencyCollision,
    NotFound,
    SchemaAltered,
    ProcessingStateInvalid,
    StorageUnavailable,
    HealthInvalid,
}

impl Refusal {
    /// The code without its prefix, and the HTTP status. A sender tries again only after a 5xx.
    pub(super) fn code(self) -> (&'static str, u16) {
        match self {
            Refusal::RuntimeUnavailable => ("runtime_unavailable", 503),
            Refusal::PathNotFound => ("path_not_found", 404),
            Refusal::MethodNotAllowed => ("method_not_allowed", 405),
            Refusal::HttpsRequired => ("https_required", 400),
            Refusal::QueryRejected => ("query_rejected", 400),
            Refusal::FramingInvalid => ("framing_invalid", 400),
            Refusal::HeadersInvalid => ("headers_invalid", 400),
            Refusal::ContentType => ("content_type", 415),
            Refusal::ContentLengthRequired => ("content_length_required", 411),
            Refusal::BodyInvalid => ("body_invalid", 400),
            Refusal::BodyTooLarge => ("body_too_large", 413),
            Refusal::JsonInvalid => ("json_invalid", 400),
            Refusal::RequestInvalid => ("request_invalid", 400),
            Refusal::CanonicalBodyRequired => ("canonical_body_required", 400),
            Refusal::HeaderBindingInvalid => ("header_binding_invalid", 400),
            Refusal::AuthenticationUnavailable => ("authentication_unavailable", 503),
            Refusal::AuthenticationFailed => ("authentication_failed", 401),
            Refusal::AuthorizationFailed => ("authorization_failed", 403),
            Refusal::CapabilitiesInvalid => ("capabilities_invalid", 503),
            Refusal::CapabilitiesPreconditionRequired => ("capabilities_precondition_required", 428),
            Refusal::CapabilitiesPreconditionFailed => ("capabilities_precondition_failed", 412),
            Refusal::IdempotencyCollision => ("idempotency_collision", 409),
            Refusal::NotFound => ("not_found", 404),
            Refusal::SchemaAltered => ("schema_altered", 503),
            Refusal::ProcessingStateInvalid => ("processing_state_invalid", 503),
            Refusal::StorageUnavailable => ("storage_unavailable", 503),
            Refusal::HealthInvalid => ("health_invalid", 503),
        }
    }
}

/// A code as it stands on the wire.
fn prefixed(code: &str) -> Value {
    format!("notification_receiver.{code}").as_str().into()
}

pub(super) fn refuse(refusal: Refusal) -> Reply {
    let (code, status) = refusal.code();
    let document = [("schema", ERROR_SCHEMA.into()), ("status", "BLOCK".into()), ("error_code", prefixed(code))];
    reply(status, &document.into())
}

pub(super) fn acknowledge(notification: &Notification, sha256: &str) -> Reply {
    let document = [
        ("schema", ACK_SCHEMA.into()),
        ("notification_id", notification.notification_id.as_str().into()),
        ("event_id", notification.event_id.as_str().into()),
        ("site_id", notification.site_id.as_str().into()),
        ("status", "accepted".into()),
        ("notification_sha256", sha256.into()),
    ];
    reply(200, &document.into())
}

pub(super) fn status(stored: &NotificationStatus, capabilities_sha256: &str) -> Reply {
    let document = [
        ("schema", STATUS_SCHEMA.into()),
        ("notification_id", stored.notification_id.as_str().into()),
        ("event_id", stored.event_id.as_str().into()),
        ("site_id", stored.site_id.as_str().into()),
        ("terminal_status", stored.terminal_status.as_str().into()),
        ("notification_sha256", stored.payload_sha256.as_str().into()),
        ("processing_status", stored.processing_status.as_str().into()),
        ("attempts", i64::from(stored.attempts).into()),
        ("max_attempts", i64::from(stored.max_attempts).into()),
        ("next_attempt_at", Value::Float(stored.next_attempt_at)),
        ("lease_expires_at", stored.lease_expires_at.map(Value::Float).into()),
        ("lease_expired", stored.lease_expired.into()),
        ("last_error_code", stored.last_error_code.as_deref().into()),
        ("processed_at", stored.processed_at.map(Value::Float).into()),
        ("capabilities_sha256", capabilities_sha256.into()),
    ];
    reply(200, &document.into())
}

/// An inbox with bad rows counts as one that cannot be read: its numbers would be wrong.
fn readable(inbox: Option<&InboxHealth>) -> Option<&InboxHealth> {
    inbox.filter(|inbox| inbox.bad_rows == 0)
}

fn is_ok(inbox: Option<&InboxHealth>) -> bool {
    inbox.is_some_and(|inbox| inbox.counts[4] == 0 && inbox.expired == 0)
}

fn word(ok: bool) -> Value {
    if ok { "ok".into() } else { "blocked".into() }
}

pub(super) fn health(standing: Standing, inbox: Option<&InboxHealth>, capabilities_sha256: &str) -> Reply {
    let inbox = readable(inbox);
    if inbox.is_some_and(|inbox| !adds_up(inbox)) {
        return refuse(Refusal::HealthInvalid);
    }
    let (worker, inbox_ok) = (standing.worker, is_ok(inbox));
    let worker_ok = matches!(worker, Worker::Unmanaged | Worker::Running);
    let ok = worker_ok && inbox_ok;
    let error = match (worker.error(), worker_ok, inbox_ok) {
        (Some(error), ..) => Some(error),
        (None, false, _) => Some("worker_not_ready"),
        (None, true, false) => Some("storage_blocked"),
        (None, true, true) => None,
    };
    let counts = |inbox: &InboxHealth| {
        let named = PROCESSING_STATUSES.into_iter().zip(inbox.counts);
        Value::Object(named.map(|(name, count)| (name.into(), count.into())).collect())
    };
    let document = [
        ("schema", HEALTH_SCHEMA.into()),
        ("status", word(ok)),
        ("runtime_state", "open".into()),
        ("worker_state", worker.name().into()),
        ("inbox_status", word(inbox_ok)),
        ("received", inbox.map(|inbox| inbox.received).into()),
        ("processing_counts", inbox.map(counts).into()),
        ("processing_due", inbox.map(|inbox| inbox.due).into()),
        ("expired_leases", inbox.map(|inbox| inbox.expired).into()),
        ("failed", inbox.map(|inbox| inbox.counts[4]).into()),
        ("error_code", error.map(prefixed).into()),
        ("capabilities_sha256", capabilities_sha256.into()),
    ];
    reply(if ok { 200 } else { 503 }, &document.into())
}

/// A report that contradicts itself is not sent.
fn adds_up(inbox: &InboxHealth) -> bool {
    let [pending, leased, retry_wait, ..] = inbox.counts;
    inbox.counts.iter().sum::<i64>() == inbox.received && inbox.due <= pending + retry_wait && inbox.expired <= leased
}

/// The inbox is looked at only for a worker that runs: `inbox` is not asked for where [`Worker::Running`] is not.
pub(super) fn readiness(standing: Standing, inbox: Option<&InboxHealth>, capabilities_sha256: &str) -> Reply {
    let worker = standing.worker;
    let running = worker == Worker::Running;
    let (ready, inbox_status, error) = match (running, is_ok(readable(inbox))) {
        (false, _) => (false, Value::Null, Some(worker.error().unwrap_or("worker_not_ready"))),
        (true, true) => (true, word(true), None),
        (true, false) => (false, word(false), Some("storage_blocked")),
    };
    let document = [
        ("schema", READINESS_SCHEMA.into()),
        ("status", if ready { "ready".into() } else { "not_ready".into() }),
        ("worker_state", worker.name().into()),
        ("inbox_status", inbox_status),
        ("error_code", error.map(prefixed).into()),
        ("capabilities_sha256", capabilities_sha256.into()),
    ];
    reply(if ready { 200 } else { 503 }, &document.into())
}

/// The five header fields that every answer has, and no other.
pub(super) fn reply(status: u16, document: &Value) -> Reply {
    // Our documents hold no infinite number and no half of a surrogate pair.
    let body = document.canonical().expect("our own documents have a canonical form");
    send(StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE), body.into())
}

pub(super) fn send(status: StatusCode, body: Bytes) -> Reply {
    let length = body.len();
    let mut reply = Reply::new(Full::new(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply
}
