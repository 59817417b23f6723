//! What this receiver can do, as the document that senders pin by its digest. It depends on this build and on the
//! intake path, and on nothing else, so that replicas of one version agree.

use super::canonical::Value;
use super::notification::{FIELDS, SCHEMA, TERMINAL_STATUSES, sha256};
use super::report::{ACK_SCHEMA, ERROR_SCHEMA, HEALTH_SCHEMA, PROCESSING_STATUSES, READINESS_SCHEMA, STATUS_SCHEMA};

pub(super) const PRECONDITION: &str = "X-Localization-Capabilities-SHA256";
pub(super) const DEFAULT_PATH: &str = "/v1/localization/terminal-notifications";
pub(super) const PRINCIPAL_SCHEMA: &str = "blun.cms-source-terminal-notification-principal.v1";
pub(super) const STATUS_REQUEST_SCHEMA: &str = "blun.cms-terminal-receiver-status-request.v1";
pub(super) const CAPABILITIES_SCHEMA: &str = "blun.cms-terminal-receiver-capabilities-response.v3";
pub(super) const OPENAPI_SCHEMA: &str = "blun.cms-terminal-receiver-openapi-response.v1";
pub(super) const OPENAPI_DOCUMENT_SCHEMA: &str = "blun.cms-terminal-receiver-openapi.v2";
pub(super) const MAX_BODY_BYTES: usize = 16_384;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Notification,
    Capabilities,
    OpenApi,
    Health,
    Readiness,
    Status,
}

impl Operation {
    pub(super) const ALL: [Operation; 6] = [
        Operation::Notification,
        Operation::Capabilities,
        Operation::OpenApi,
        Operation::Health,
        Operation::Readiness,
        Operation::Status,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Notification => "notification",
            Operation::Capabilities => "capabilities",
            Operation::OpenApi => "openapi",
            Operation::Health => "health",
            Operation::Readiness => "readiness",
            Operation::Status => "status",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Operation::Notification | Operation::Status => "POST",
            _ => "GET",
        }
    }

    /// Control paths do not move with the intake path.
    pub(super) fn path(self, intake: &str) -> String {
        match self {
            Operation::Notification => intake.to_owned(),
            control => format!("{DEFAULT_PATH}/{}", control.name()),
        }
    }

    pub(super) fn of_control_path(path: &str) -> Option<Operation> {
        let name = path.strip_prefix(DEFAULT_PATH)?.strip_prefix('/')?;
        Operation::ALL.into_iter().filter(|of| *of != Operation::Notification).find(|of| of.name() == name)
    }

    pub(super) fn scope(self) -> &'static str {
        match self {
            Operation::Notification => "terminal-notification:write",
            Operation::Capabilities => "terminal-notification-capabilities:read",
            Operation::OpenApi => "terminal-notification-openapi:read",
            Operation::Health => "terminal-notification-health:read",
            Operation::Readiness => "terminal-notification-readiness:read",
            Operation::Status => "terminal-notification-status:read",
        }
    }

    /// Discovery alone can be asked for by who does not know the document yet.
    pub(super) fn has_precondition(self) -> bool {
        self != Operation::Capabilities
    }

    pub(super) fn request(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Operation::Notification => Some((SCHEMA, &FIELDS)),
            Operation::Status => Some((STATUS_REQUEST_SCHEMA, &["schema", "event_id", "site_id"])),
            _ => None,
        }
    }

    pub(super) fn response(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Operation::Notification => {
                (ACK_SCHEMA, &["schema", "notification_id", "event_id", "site_id", "status", "notification_sha256"])
            }
            Operation::Capabilities => (CAPABILITIES_SCHEMA, &["schema", "capabilities"]),
            Operation::OpenApi => (OPENAPI_SCHEMA, &["schema", "openapi", "openapi_sha256", "capabilities_sha256"]),
            Operation::Health => (
                HEALTH_SCHEMA,
                &[
                    "schema",
                    "status",
                    "runtime_state",
                    "worker_state",
                    "inbox_status",
                    "received",
                    "processing_counts",
                    "processing_due",
                    "expired_leases",
                    "failed",
                    "error_code",
                    "capabilities_sha256",
                ],
            ),
            Operation::Readiness => (
                READINESS_SCHEMA,
                &["schema", "status", "worker_state", "inbox_status", "error_code", "capabilities_sha256"],
            ),
            Operation::Status => (
                STATUS_SCHEMA,
                &[
                    "schema",
                    "notification_id",
                    "event_id",
                    "site_id",
                    "terminal_status",
                    "notification_sha256",
                    "processing_status",
                    "attempts",
                    "max_attempts",
                    "next_attempt_at",
                    "lease_expires_at",
                    "lease_expired",
                    "last_error_code",
                    "processed_at",
                    "capabilities_sha256",
                ],
            ),
        }
    }
}

pub(super) fn texts(items: &[&str]) -> Value {
    Value::Array(items.iter().map(|item| Value::from(*item)).collect())
}

/// The document without its digest, which is the digest's source.
pub(super) fn document(intake: &str) -> Value {
    let operations = Operation::ALL.into_iter().map(|of| (of.name().into(), describe(of, intake))).collect();
    Value::from([
        ("schema", "blun.cms-terminal-receiver-capabilities.v3".into()),
        ("api_schema", "blun.cms-terminal-receiver-api.v3".into()),
        ("authentication_request_schema", "blun.cms-source-terminal-notification-http-auth.v1".into()),
        ("principal_schema", PRINCIPAL_SCHEMA.into()),
        ("error_schema", ERROR_SCHEMA.into()),
        ("openapi_document_schema", OPENAPI_DOCUMENT_SCHEMA.into()),
        (
            "limits",
            Value::from([
                ("max_body_bytes", (MAX_BODY_BYTES as i64).into()),
                ("max_header_value_bytes", 4096.into()),
                ("max_headers", 64.into()),
                ("max_response_bytes", 1_000_000.into()),
                ("processing_max_attempts_min", 1.into()),
                ("processing_max_attempts_max", 20.into()),
            ]),
        ),
        ("operations", Value::Object(operations)),
        ("processing_statuses", texts(&PROCESSING_STATUSES)),
        ("terminal_statuses", texts(&TERMINAL_STATUSES)),
        ("semantics", Value::from([("non_discovery_operations_require_exact_capability_precondition", true.into())])),
    ])
}

fn describe(of: Operation, intake: &str) -> Value {
    let (response_schema, response_fields) = of.response();
    let request = of.request();
    Value::from([
        ("method", of.method().into()),
        ("path", of.path(intake).as_str().into()),
        ("scope", of.scope().into()),
        ("success_status", 200.into()),
        ("request_schema", request.map(|(schema, _)| schema).into()),
        ("request_fields", texts(request.map_or(&[], |(_, fields)| fields))),
        ("response_schema", response_schema.into()),
        ("response_fields", texts(response_fields)),
        ("capabilities_precondition_header", of.has_precondition().then_some(PRECONDITION).into()),
    ])
}

/// The digest that senders name, and the document with it.
pub(super) fn digested(document: Value) -> Option<(String, Value)> {
    let digest = sha256(&document.canonical()?);
    let Value::Object(mut members) = document else { return None };
    members.insert("sha256".into(), digest.as_str().into());
    Some((digest, Value::Object(members)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_of_the_contract() {
        for (path, digest) in [
            (DEFAULT_PATH.to_owned(), "56487bdc181c35bacc01f5009ec22ac80fc579cd2a70952eb2a0879acb72b283"),
            ("/receiver/v2/terminal".to_owned(), "fa0e005641aaf14cf9d68517e2644556465f49077f7825160e9e294807200673"),
            (format!("/{}", "a".repeat(255)), "ad69c15c4345cb0161cfce0bb8f7da4ee590393dc5a23645e53d368ec73b0e25"),
        ] {
            assert_eq!(digested(document(&path)).unwrap().0, digest, "{path}");
        }
        assert_eq!(document(DEFAULT_PATH).canonical().unwrap().len(), 3918);
    }

    #[test]
    fn scopes_are_pairwise_distinct_and_control_paths_lead_back() {
        for of in Operation::ALL {
            assert_eq!(Operation::ALL.iter().filter(|other| other.scope() == of.scope()).count(), 1);
            let found = Operation::of_control_path(&of.path("/elsewhere"));
            assert_eq!(found, Some(of).filter(|of| *of != Operation::Notification));
        }
        assert_eq!(Operation::of_control_path(&format!("{DEFAULT_PATH}/notification")), None);
    }
}
