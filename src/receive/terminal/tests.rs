//! The contract's cases through the whole profile but for sockets and Postgres, byte for byte; where we answer otherwise
//! on purpose, that is listed here, and nothing else may be.

use std::collections::BTreeMap;

use base64::Engine as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use serde_json::Value as Json;

use super::checks::{Errand, Head, Rules};
use super::principals::Credentials;
use super::report::{self, Refusal};
use super::worker::{Standing, Worker};
use super::*;
use crate::store::NotificationStatus;

const CASES: &str = include_str!("../../../tests/vectors/cms/cases.json");

/// Cases without a mark that we answer otherwise, and why.
const MENDED: &[(&str, &str, &str)] = &[
    ("sequence/inbox-one-failed#3-intake-new", "200", "a failed notification stops no intake"),
    ("sequence/inbox-one-failed#4-intake-replay", "200", "a failed notification stops no intake"),
    ("sequence/inbox-expired-lease#3-intake-new", "200", "a lease that nobody swept yet stops no intake"),
    ("sequence/inbox-expired-lease#4-intake-replay", "200", "a lease that nobody swept yet stops no intake"),
    ("storage/app-inbox-row-tampered#2-unrelated-blocked", "200", "a bad row blocks itself, not the others"),
    ("storage/app-processing-row-forged#2-unrelated-blocked", "200", "a bad row blocks itself, not the others"),
    // Faults of the reference's process that have no counterpart: there is no shared connection with a transaction to
    // be open on, no database file to guard, no fork, and no clock but the database's.
    ("storage/app-nested-transaction", "200", "no such fault"),
    ("storage/app-guard-raises", "200", "no such fault"),
    ("storage/app-foreign-process", "200", "no such fault"),
    ("storage/app-clock-inf", "200", "no such fault"),
    // Marked as quirks.
    ("semantics/terminal-status/empty-list", "400 request_invalid", "a body that is wrong for ever is no 503"),
    ("semantics/terminal-status/object", "400 request_invalid", "a body that is wrong for ever is no 503"),
    ("storage/app-db-closed", "503 storage_unavailable", "what is wrong is the storage, not ourselves"),
];

/// The inbox of the contract's section 8, for one group of cases.
#[derive(Default)]
struct Model {
    rows: Vec<(NotificationStatus, bool)>,
}

impl Model {
    fn accept(&mut self, new: &Notification, sha256: &str, payload: &str) -> Result<(), Refusal> {
        let touched: Vec<_> = self
            .rows
            .iter()
            .filter(|(row, _)| row.event_id == new.event_id || row.notification_id == new.notification_id)
            .collect();
        match touched.as_slice() {
            [] => {}
            [(_, true)] => return Err(Refusal::ProcessingStateInvalid),
            [(row, _)] if row.payload == payload => return Ok(()),
            _ => return Err(Refusal::IdempotencyCollision),
        }
        let row = NotificationStatus {
            notification_id: new.notification_id.clone(),
            event_id: new.event_id.clone(),
            site_id: new.site_id.clone(),
            terminal_status: new.terminal_status.clone(),
            payload_sha256: sha256.into(),
            payload: payload.into(),
            received_at: 123.5,
            processing_status: "pending".into(),
            attempts: 0,
            max_attempts: 5,
            next_attempt_at: 123.5,
            lease_expires_at: None,
            lease_expired: false,
            last_error_code: None,
            processed_at: None,
        };
        self.rows.push((row, false));
        Ok(())
    }

    fn health(&self) -> InboxHealth {
        let count = |status: &str| self.rows.iter().filter(|(row, _)| row.processing_status == status).count() as i64;
        InboxHealth {
            received: self.rows.len() as i64,
            counts: report::PROCESSING_STATUSES.map(count),
            due: count("pending"),
            expired: self.rows.iter().filter(|(row, _)| row.lease_expired).count() as i64,
            bad_rows: self.rows.iter().filter(|(_, bad)| *bad).count() as i64,
        }
    }

    /// What the configuration does to the rows after the first request of its group.
    fn spoil(&mut self, config: &str) {
        for (row, bad) in &mut self.rows {
            match config {
                "app-inbox-row-tampered" | "app-processing-row-forged" => *bad = true,
                "inbox-one-failed" | "inbox-one-failed-unmanaged" => {
                    row.processing_status = "failed".into();
                    row.attempts = 1;
                    row.last_error_code = Some("handler.rejected".into());
                }
                "inbox-expired-lease" => {
                    row.processing_status = "leased".into();
                    row.attempts = 1;
                    row.lease_expires_at = Some(123.5001);
                    row.lease_expired = true;
                }
                _ => {}
            }
        }
    }
}

struct Case<'a>(&'a Json);

impl Case<'_> {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn standing(&self) -> Standing {
        let worker = match self.text("config") {
            "worker-running" | "inbox-one-failed" | "inbox-expired-lease" => Worker::Running,
            "worker-starting" => Worker::Starting,
            "worker-stopping" => Worker::Stopping,
            "worker-stopped" => Worker::Stopped,
            "worker-failed" => Worker::Failed,
            _ => Worker::Unmanaged,
        };
        Standing { worker, closed: self.text("config") == "runtime-closed" }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for pair in self.0["headers"].as_array().unwrap() {
            let name = HeaderName::from_bytes(pair[0].as_str().unwrap().as_bytes()).unwrap();
            // The vectors hold bytes as the characters of the same numbers.
            let value: Vec<u8> = pair[1].as_str().unwrap().trim().chars().map(|c| u8::try_from(c).unwrap()).collect();
            headers.append(name, HeaderValue::from_bytes(&value).unwrap());
        }
        headers
    }

    fn answer(&self, credentials: &Credentials, model: &mut Model) -> Result<Reply, Refusal> {
        let config = self.text("config");
        let intake = if config == "custom-path" { "/receiver/v2/terminal" } else { capabilities::DEFAULT_PATH };
        let rules = Rules { intake_path: intake.into(), require_https: config == "https-required" };
        let documents = Documents::new(intake).filter(|_| config != "capabilities-drift");
        let headers = self.headers();
        let head = Head {
            method: self.text("method"),
            path: self.text("path"),
            query: Some(self.text("query")),
            headers: &headers,
            secure: false,
            repeated_length: false,
        };
        let standing = self.standing();
        let admitted = rules.admit(head, standing)?;
        let sent = base64::engine::general_purpose::STANDARD.decode(self.text("body_b64")).unwrap();
        let body = sent.get(..admitted.length).ok_or(Refusal::BodyInvalid)?;
        let subject = admitted.read(body)?;
        let sha256 = documents.as_ref().map(|documents| documents.capabilities_sha256.as_str());
        admitted.authorise(&subject, credentials.recognise(admitted.authorization()), sha256)?;
        let documents = documents.as_ref().unwrap();
        let sha256 = documents.capabilities_sha256.as_str();
        if ["app-db-closed", "app-db-locked"].contains(&config) {
            return Err(Refusal::StorageUnavailable);
        }
        match admitted.errand(subject, body) {
            Errand::Accept { notification, sha256 } => {
                model.accept(&notification, &sha256, std::str::from_utf8(body).unwrap())?;
                Ok(report::acknowledge(&notification, &sha256))
            }
            Errand::Status { event_id, site_id } => {
                let row = model.rows.iter().find(|(row, _)| row.event_id == event_id && row.site_id == site_id);
                Ok(report::status(&row.ok_or(Refusal::NotFound)?.0, sha256))
            }
            Errand::Capabilities => Ok(report::send(StatusCode::OK, documents.capabilities.clone())),
            Errand::OpenApi => Ok(report::send(StatusCode::OK, documents.openapi.clone())),
            Errand::Health => Ok(report::health(standing, Some(&model.health()), sha256)),
            Errand::Readiness => Ok(report::readiness(standing, Some(&model.health()), sha256)),
        }
    }
}

/// The token table of the vectors as a credentials file: what throws there says nobody here.
fn credentials(meta: &Json) -> Credentials {
    let entries: Vec<Json> = meta["tokens"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(token, principal)| {
            let mut entry = serde_json::json!({"token_sha256": notification::sha256(token.as_bytes())});
            if principal.get("__raise__").is_none() {
                entry["principal"] = principal.clone();
            }
            entry
        })
        .collect();
    Credentials::parse(serde_json::json!({"credentials": entries}).to_string().as_bytes()).unwrap()
}

async fn read(reply: Reply) -> (u16, String) {
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// What the case asks for and is not so.
fn differs(expect: &Json, status: u16, body: &str) -> bool {
    if u64::from(status) != expect["status"].as_u64().unwrap() {
        return true;
    }
    match expect["openapi_sha256"].as_str() {
        // The prose is ours, and with it the digest; the rest is tested below.
        Some(_) => !body.contains("\"openapi_sha256\""),
        None => Some(body) != expect["ack"].as_str().or_else(|| expect["body"].as_str()),
    }
}

#[tokio::test]
async fn every_case_of_the_contract_is_answered_to_the_byte() {
    let vectors: Json = serde_json::from_str(CASES).unwrap();
    let credentials = credentials(&vectors["meta"]);
    let mut mended: BTreeMap<&str, &str> = MENDED.iter().map(|(name, answer, _)| (*name, *answer)).collect();
    let (mut model, mut group, mut ran, mut wrong) = (Model::default(), "", 0, Vec::new());
    for case in vectors["cases"].as_array().unwrap() {
        let case = Case(case);
        if case.text("group") != group {
            (group, model) = (case.0["group"].as_str().unwrap(), Model::default());
        }
        // What a server makes of these is seen only through one: tests/it/receive_terminal.rs.
        if !case.0["transport"].is_null() {
            continue;
        }
        ran += 1;
        let reply = case.answer(&credentials, &mut model).unwrap_or_else(report::refuse);
        let (status, body) = read(reply).await;
        if case.0["index"] == 0 {
            model.spoil(case.text("config"));
        }
        let name = case.0["name"].as_str().unwrap();
        if !differs(&case.0["expect"], status, &body) {
            continue;
        }
        let code = body.split("notification_receiver.").nth(1).and_then(|rest| rest.split('"').next());
        let answer = [Some(status.to_string().as_str()), code].into_iter().flatten().collect::<Vec<_>>().join(" ");
        if mended.remove(name) != Some(answer.as_str()) {
            wrong.push(format!("{name}: {answer} {body:.300}\n  wanted {}", case.0["expect"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(mended.is_empty(), "listed and not so: {mended:?}");
    assert_eq!(ran, 523);
}

#[test]
fn the_openapi_document_hangs_together() {
    let documents = Documents::new(capabilities::DEFAULT_PATH).unwrap();
    let envelope: Json = serde_json::from_slice(&documents.openapi).unwrap();
    let document = &envelope["openapi"];
    let canonical = canonical::parse(document.to_string().as_bytes()).unwrap().canonical().unwrap();
    assert_eq!(envelope["openapi_sha256"], notification::sha256(&canonical));
    assert_eq!(document["x-capabilities-sha256"], documents.capabilities_sha256.as_str());
    assert_eq!(envelope["capabilities_sha256"], documents.capabilities_sha256.as_str());
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["x-schema"], capabilities::OPENAPI_DOCUMENT_SCHEMA);
    assert!(document.get("servers").is_none());
    assert_eq!(document["paths"].as_object().unwrap().len(), 6);
    for reference in document.to_string().split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name} is referred to and not there");
    }
    assert!(documents.openapi.len() <= 1_000_000);
}
