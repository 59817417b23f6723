//! Every check of the contract in its order, from a request's head to what is to be done. Pure: the credentials, the
//! documents and our own standing are arguments, and nothing is stored here.

use http::HeaderMap;

use super::canonical::{Object, Value, get, parse};
use super::capabilities::{MAX_BODY_BYTES, Operation, PRECONDITION, STATUS_REQUEST_SCHEMA};
use super::headers::{Fields, is_framed, is_json_utf8, length};
use super::notification::{self, FIELDS, Notification, is_token, sha256};
use super::openapi::{DIGEST_HEADER, ID_HEADER, KEY_HEADER, STATUS_DIGEST_HEADER};
use super::principals::Known;
use super::report::Refusal;
use super::worker::Standing;

/// What of a request's head is judged.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) method: &'a str,
    /// As it was sent: an encoded spelling is another path.
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    pub(super) secure: bool,
    pub(super) repeated_length: bool,
}

pub(super) struct Rules {
    pub(super) intake_path: String,
    pub(super) require_https: bool,
}

/// A request whose head is in order.
pub(super) struct Admitted<'a> {
    pub(super) operation: Operation,
    fields: Fields<'a>,
    /// The body to be read; zero for operations without one.
    pub(super) length: usize,
}

/// What the request is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Nothing,
    Notification(Notification),
    Event { event_id: String, site_id: String },
}

/// What is left to do, by whom it was asked for aside.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Errand {
    Accept { notification: Notification, sha256: String },
    Status { event_id: String, site_id: String },
    Capabilities,
    OpenApi,
    Health,
    Readiness,
}

impl Rules {
    /// Everything before the body.
    pub(super) fn admit<'a>(&self, head: Head<'a>, standing: Standing) -> Result<Admitted<'a>, Refusal> {
        match Operation::of_control_path(head.path) {
            Some(operation) => self.admit_control(operation, head, standing),
            None => self.admit_intake(head, standing),
        }
    }

    fn admit_intake<'a>(&self, head: Head<'a>, standing: Standing) -> Result<Admitted<'a>, Refusal> {
        require(standing.takes_in(), Refusal::RuntimeUnavailable)?;
        require(head.path == self.intake_path, Refusal::PathNotFound)?;
        require(head.method == Operation::Notification.method(), Refusal::MethodNotAllowed)?;
        let fields = self.check_envelope(head)?;
        Ok(Admitted { operation: Operation::Notification, fields, length: body_length(fields)? })
    }

    fn admit_control<'a>(
        &self,
        operation: Operation,
        head: Head<'a>,
        standing: Standing,
    ) -> Result<Admitted<'a>, Refusal> {
        require(!standing.closed, Refusal::RuntimeUnavailable)?;
        let fields = self.check_envelope(head)?;
        require(head.method == operation.method(), Refusal::MethodNotAllowed)?;
        if operation.request().is_some() {
            return Ok(Admitted { operation, fields, length: body_length(fields)? });
        }
        require(matches!(fields.get("content-length"), None | Some(b"0")), Refusal::BodyInvalid)?;
        require(fields.get("content-type").is_none(), Refusal::ContentType)?;
        Ok(Admitted { operation, fields, length: 0 })
    }

    fn check_envelope<'a>(&self, head: Head<'a>) -> Result<Fields<'a>, Refusal> {
        require(head.secure || !self.require_https, Refusal::HttpsRequired)?;
        require(head.query.is_none_or(str::is_empty), Refusal::QueryRejected)?;
        require(!is_framed(head.headers), Refusal::FramingInvalid)?;
        require(!head.repeated_length, Refusal::HeadersInvalid)?;
        Fields::check(head.headers)
    }
}

fn body_length(fields: Fields<'_>) -> Result<usize, Refusal> {
    require(fields.get("content-type").is_some_and(is_json_utf8), Refusal::ContentType)?;
    let length = fields.get("content-length").and_then(length).ok_or(Refusal::ContentLengthRequired)?;
    require(length > 0, Refusal::BodyInvalid)?;
    require(length <= MAX_BODY_BYTES, Refusal::BodyTooLarge)?;
    Ok(length)
}

impl Admitted<'_> {
    pub(super) fn authorization(&self) -> Option<&[u8]> {
        self.fields.get("authorization")
    }

    /// What the body says, bound to the head. The sender is not known yet: the contract binds first.
    pub(super) fn read(&self, body: &[u8]) -> Result<Subject, Refusal> {
        match self.operation {
            Operation::Notification => self.read_notification(body).map(Subject::Notification),
            Operation::Status => self.read_status(body),
            _ => Ok(Subject::Nothing),
        }
    }

    fn read_notification(&self, body: &[u8]) -> Result<Notification, Refusal> {
        let value = parse(body).map_err(|_| Refusal::JsonInvalid)?;
        let object = exactly(&value, &FIELDS)?;
        let canonical = value.canonical().filter(|canonical| canonical.len() <= MAX_BODY_BYTES);
        require(canonical.ok_or(Refusal::RequestInvalid)? == body, Refusal::CanonicalBodyRequired)?;
        let notification = notification::read(object).ok_or(Refusal::RequestInvalid)?;
        let bound = self.fields.is(KEY_HEADER, &notification.notification_id)
            && self.fields.is(ID_HEADER, &notification.notification_id)
            && self.fields.is(DIGEST_HEADER, &sha256(body));
        require(bound, Refusal::HeaderBindingInvalid)?;
        Ok(notification)
    }

    fn read_status(&self, body: &[u8]) -> Result<Subject, Refusal> {
        let value = parse(body).map_err(|_| Refusal::JsonInvalid)?;
        let object = exactly(&value, &["schema", "event_id", "site_id"])?;
        let text = |name| get(object, name).and_then(Value::as_str);
        let token = |name| text(name).filter(|text| is_token(text)).ok_or(Refusal::RequestInvalid);
        require(text("schema") == Some(STATUS_REQUEST_SCHEMA), Refusal::RequestInvalid)?;
        let (event_id, site_id) = (token("event_id")?, token("site_id")?);
        require(value.canonical().is_some_and(|canonical| canonical == body), Refusal::RequestInvalid)?;
        require(self.fields.is(STATUS_DIGEST_HEADER, &sha256(body)), Refusal::HeaderBindingInvalid)?;
        Ok(Subject::Event { event_id: event_id.to_owned(), site_id: site_id.to_owned() })
    }

    /// Whether whoever the credentials say it is may do this, knowing what we can do.
    pub(super) fn authorise(
        &self,
        subject: &Subject,
        whom: Option<&Known>,
        capabilities_sha256: Option<&str>,
    ) -> Result<(), Refusal> {
        let (scope, site) = match whom {
            None | Some(Known::NoPrincipal) => return Err(Refusal::AuthenticationFailed),
            Some(Known::Unsaid) => return Err(Refusal::AuthenticationUnavailable),
            Some(Known::Unfit) => return Err(Refusal::AuthorizationFailed),
            Some(Known::Principal { scope, site_id }) => (scope, site_id),
        };
        let own_site = match subject {
            Subject::Nothing => true,
            Subject::Notification(notification) => notification.site_id == *site,
            Subject::Event { site_id, .. } => site_id == site,
        };
        require(scope == self.operation.scope() && own_site, Refusal::AuthorizationFailed)?;
        let current = capabilities_sha256.ok_or(Refusal::CapabilitiesInvalid)?;
        if self.operation.has_precondition() {
            let known = self.fields.get(PRECONDITION).ok_or(Refusal::CapabilitiesPreconditionRequired)?;
            require(known == current.as_bytes(), Refusal::CapabilitiesPreconditionFailed)?;
        }
        Ok(())
    }

    pub(super) fn errand(&self, subject: Subject, body: &[u8]) -> Errand {
        match (self.operation, subject) {
            (_, Subject::Notification(notification)) => Errand::Accept { notification, sha256: sha256(body) },
            (_, Subject::Event { event_id, site_id }) => Errand::Status { event_id, site_id },
            (Operation::Capabilities, Subject::Nothing) => Errand::Capabilities,
            (Operation::OpenApi, Subject::Nothing) => Errand::OpenApi,
            (Operation::Health, Subject::Nothing) => Errand::Health,
            // Intake and status have a subject, so that only readiness is left.
            (_, Subject::Nothing) => Errand::Readiness,
        }
    }
}

fn require(holds: bool, refusal: Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(refusal) }
}

/// An object of these members, no more and no fewer.
fn exactly<'a>(value: &'a Value, fields: &[&str]) -> Result<&'a Object, Refusal> {
    let object = value.as_object().ok_or(Refusal::RequestInvalid)?;
    let exact = object.len() == fields.len() && fields.iter().all(|field| get(object, field).is_some());
    if exact { Ok(object) } else { Err(Refusal::RequestInvalid) }
}
