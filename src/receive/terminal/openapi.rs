//! The same capabilities for tools that read OpenAPI 3.1. It names no server: where we are reached is no part of it.

use super::canonical::Value;
use super::capabilities::{OPENAPI_DOCUMENT_SCHEMA, Operation, PRECONDITION, texts};
use super::notification::TERMINAL_STATUSES;
use super::report::{ACK_SCHEMA, ERROR_SCHEMA, PROCESSING_STATUSES, Refusal};
use super::worker::Worker;

pub(super) const DIGEST_HEADER: &str = "X-Localization-Terminal-Notification-Sha256";
pub(super) const ID_HEADER: &str = "X-Localization-Terminal-Notification-Id";
pub(super) const KEY_HEADER: &str = "Idempotency-Key";
pub(super) const STATUS_DIGEST_HEADER: &str = "X-Localization-Terminal-Status-SHA256";

const MEDIA_TYPE: &str = "application/json; charset=utf-8";

pub(super) fn document(intake: &str, capabilities: &Value, capabilities_sha256: &str) -> Value {
    let paths = Operation::ALL.into_iter().map(|of| {
        let method = of.method().to_ascii_lowercase();
        (of.path(intake).as_str().into(), Value::from([(method.as_str(), operation(of))]))
    });
    let scheme = Value::from([
        ("type", "apiKey".into()),
        ("in", "header".into()),
        ("name", "Authorization".into()),
        ("description", "A bearer token; each stands for one principal, one scope and one site.".into()),
    ]);
    Value::from([
        ("openapi", "3.1.0".into()),
        (
            "info",
            Value::from([
                ("title", "Terminal notifications, received by outboxd".into()),
                ("version", env!("CARGO_PKG_VERSION").into()),
                ("description", "Durable, idempotent intake: an acknowledgement means stored, not processed.".into()),
            ]),
        ),
        ("paths", Value::Object(paths.collect())),
        (
            "components",
            Value::from([
                ("securitySchemes", Value::from([("hostAuthentication", scheme)])),
                ("schemas", schemas(capabilities)),
            ]),
        ),
        ("security", Value::Array(vec![Value::from([("hostAuthentication", texts(&[]))])])),
        ("x-schema", OPENAPI_DOCUMENT_SCHEMA.into()),
        ("x-capabilities-sha256", capabilities_sha256.into()),
        ("x-content-free-responses", true.into()),
        ("x-servers-omitted-intentionally", true.into()),
    ])
}

fn operation(of: Operation) -> Value {
    let mut responses = super::canonical::Object::new();
    responses.insert("200".into(), response("Done", &schema_name(of, "Response")));
    for refusal in refusals(of) {
        let status = refusal.code().1.to_string();
        responses.entry(status.as_str().into()).or_insert_with(|| response("Refused", "Error"));
    }
    if matches!(of, Operation::Health | Operation::Readiness) {
        responses.insert("503".into(), either("Not well, or refused", &[&schema_name(of, "Response"), "Error"]));
    }
    let codes: Vec<String> =
        refusals(of).iter().map(|refusal| format!("notification_receiver.{}", refusal.code().0)).collect();
    let mut members = vec![
        ("operationId", Value::from(of.name())),
        ("parameters", Value::Array(parameters(of))),
        ("responses", Value::Object(responses)),
        ("x-scope", of.scope().into()),
        ("x-error-codes", Value::Array(codes.iter().map(|code| code.as_str().into()).collect())),
    ];
    if of.request().is_some() {
        let content = content(reference(&schema_name(of, "Request")));
        members.push(("requestBody", Value::from([("required", true.into()), ("content", content)])));
    }
    Value::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn schema_name(of: Operation, kind: &str) -> String {
    let name = of.name();
    format!("{}{}{kind}", name[..1].to_ascii_uppercase(), &name[1..])
}

fn reference(schema: &str) -> Value {
    Value::from([("$ref", format!("#/components/schemas/{schema}").as_str().into())])
}

fn content(schema: Value) -> Value {
    Value::from([(MEDIA_TYPE, Value::from([("schema", schema)]))])
}

fn response(description: &str, schema: &str) -> Value {
    Value::from([("description", description.into()), ("content", content(reference(schema)))])
}

fn either(description: &str, schemas: &[&str]) -> Value {
    let one_of = Value::Array(schemas.iter().map(|schema| reference(schema)).collect());
    Value::from([("description", description.into()), ("content", content(Value::from([("oneOf", one_of)])))])
}

fn parameters(of: Operation) -> Vec<Value> {
    let mut names = match of {
        Operation::Notification => vec![KEY_HEADER, ID_HEADER, DIGEST_HEADER],
        Operation::Status => vec![STATUS_DIGEST_HEADER],
        _ => Vec::new(),
    };
    if of.has_precondition() {
        names.push(PRECONDITION);
    }
    let parameter = |name: &str| {
        let schema = if name.to_ascii_lowercase().ends_with("sha256") { sha256() } else { text() };
        Value::from([("name", name.into()), ("in", "header".into()), ("required", true.into()), ("schema", schema)])
    };
    names.into_iter().map(parameter).collect()
}

/// What an operation can be refused with.
fn refusals(of: Operation) -> Vec<Refusal> {
    let mut list = vec![
        Refusal::MethodNotAllowed,
        Refusal::HttpsRequired,
        Refusal::QueryRejected,
        Refusal::FramingInvalid,
        Refusal::HeadersInvalid,
        Refusal::ContentType,
        Refusal::BodyInvalid,
        Refusal::AuthenticationUnavailable,
        Refusal::AuthenticationFailed,
        Refusal::AuthorizationFailed,
        Refusal::CapabilitiesInvalid,
        Refusal::RuntimeUnavailable,
    ];
    if of.has_precondition() {
        list.extend([Refusal::CapabilitiesPreconditionRequired, Refusal::CapabilitiesPreconditionFailed]);
    }
    if of.request().is_some() {
        list.extend([
            Refusal::ContentLengthRequired,
            Refusal::BodyTooLarge,
            Refusal::JsonInvalid,
            Refusal::RequestInvalid,
            Refusal::HeaderBindingInvalid,
            Refusal::SchemaAltered,
            Refusal::ProcessingStateInvalid,
            Refusal::StorageUnavailable,
        ]);
    }
    match of {
        Operation::Notification => {
            list.extend([Refusal::PathNotFound, Refusal::CanonicalBodyRequired, Refusal::IdempotencyCollision]);
        }
        Operation::Status => list.push(Refusal::NotFound),
        Operation::Health => list.push(Refusal::HealthInvalid),
        _ => {}
    }
    list
}

fn text() -> Value {
    Value::from([("type", "string".into())])
}

fn constant(value: &str) -> Value {
    Value::from([("const", value.into())])
}

fn one_of(values: &[&str]) -> Value {
    Value::from([("enum", texts(values))])
}

fn sha256() -> Value {
    Value::from([("type", "string".into()), ("pattern", "^[0-9a-f]{64}$".into())])
}

fn count(least: i64) -> Value {
    Value::from([("type", "integer".into()), ("minimum", least.into())])
}

fn optional(schema: Value) -> Value {
    Value::from([("anyOf", Value::Array(vec![schema, Value::from([("type", "null".into())])]))])
}

fn schemas(capabilities: &Value) -> Value {
    let mut all = super::canonical::Object::new();
    for of in Operation::ALL {
        if let Some((schema, fields)) = of.request() {
            all.insert(schema_name(of, "Request").as_str().into(), object(fields, |name| field(name, schema)));
        }
        let (schema, fields) = of.response();
        all.insert(schema_name(of, "Response").as_str().into(), object(fields, |name| field(name, schema)));
    }
    all.insert("Capabilities".into(), Value::from([("const", capabilities.clone())]));
    all.insert("Error".into(), object(&["schema", "status", "error_code"], |name| field(name, ERROR_SCHEMA)));
    Value::Object(all)
}

/// Exactly these members, no more and no fewer.
fn object(fields: &[&str], schema_of: impl Fn(&str) -> Value) -> Value {
    let properties = fields.iter().map(|name| ((*name).into(), schema_of(name))).collect();
    Value::from([
        ("type", "object".into()),
        ("additionalProperties", false.into()),
        ("required", texts(fields)),
        ("properties", Value::Object(properties)),
    ])
}

fn field(name: &str, schema: &str) -> Value {
    let worker_states: Vec<&str> = Worker::ALL.into_iter().map(Worker::name).collect();
    match name {
        "schema" => constant(schema),
        "status" if schema == ACK_SCHEMA => constant("accepted"),
        "status" if schema == ERROR_SCHEMA => constant("BLOCK"),
        "status" => one_of(&["ok", "blocked", "ready", "not_ready"]),
        "event_id" | "site_id" | "plan_id" | "website_version" => {
            Value::from([("type", "string".into()), ("pattern", "^[A-Za-z0-9_.:-]{1,256}$".into())])
        }
        "notification_id" => Value::from([("type", "string".into()), ("pattern", "^terminal-[0-9a-f]{64}$".into())]),
        "source_sequence" | "job_count" | "max_attempts" => count(1),
        "attempts" => count(0),
        "received" | "processing_due" | "expired_leases" | "failed" => optional(count(0)),
        "processing_counts" => optional(object(&PROCESSING_STATUSES, |_| count(0))),
        "lifecycle_sha256" => optional(sha256()),
        "terminal_status" => one_of(&TERMINAL_STATUSES),
        "processing_status" => one_of(&PROCESSING_STATUSES),
        "runtime_state" => constant("open"),
        "worker_state" => one_of(&worker_states),
        "inbox_status" => optional(one_of(&["ok", "blocked"])),
        "lease_expired" => Value::from([("type", "boolean".into())]),
        "next_attempt_at" => Value::from([("type", "number".into())]),
        "lease_expires_at" | "processed_at" => optional(Value::from([("type", "number".into())])),
        "last_error_code" => optional(text()),
        "error_code" if schema == ERROR_SCHEMA => text(),
        "error_code" => optional(text()),
        "capabilities" => reference("Capabilities"),
        "openapi" => Value::from([("type", "object".into())]),
        _ => sha256(),
    }
}
