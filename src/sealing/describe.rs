//! What can be told of a sealed row without its secrets: which key opens it, how it is authenticated, where it goes, and
//! everything that the daemon would have against it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::batch::{Batch, BatchFault};
use super::bytes::{from_either, to_base64};
use super::fault::ItemFault;
use super::object::Object;
use super::sealer::{Sealer, written};
use crate::address::Destination;
use crate::envelope::{
    Authentication, Form, Hint, OpenError, Registration, Row, SealedRegistration, inspect_delivery,
    inspect_registration,
};

/// A row as it is stored.
pub(crate) enum Stored {
    Outbox(Box<Row>),
    Registration { columns: [String; 3], ciphertext: Vec<u8>, nonce: Vec<u8> },
}

/// For a person or for `jq`; absent members do not apply.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) struct Description {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Whether some held key opens it.
    opens: bool,
    /// The fingerprint of that key, and its place among the held ones, the newest being 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_place: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signing_scope_id: Option<String>,
    /// Host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    has_token: Option<bool>,
    sealed_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<usize>,
    /// Of the body: whether each is the row's.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<BTreeMap<&'static str, &'static str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

#[derive(Serialize)]
struct Problem {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl From<ItemFault> for Problem {
    fn from(fault: ItemFault) -> Problem {
        Problem { code: fault.code(), message: fault.to_string(), hint: None }
    }
}

impl Stored {
    /// Rows as `row_to_json` prints them, or as `outboxd seal` printed them joined with their columns. Other columns
    /// are passed over.
    pub(crate) fn read_batch(text: &[u8]) -> Result<Vec<Result<Stored, ItemFault>>, BatchFault> {
        Ok(Batch::read(text)?.items.into_iter().map(Stored::read).collect())
    }

    fn read(json: &RawValue) -> Result<Stored, ItemFault> {
        let mut object = Object::read(json)?;
        let kind = object.optional_text("kind")?;
        let registered = binary(&mut object, "webhook_registration")?;
        let sealed = binary(&mut object, "encrypted_body")?;
        let (ciphertext, nonce) = (sealed_as(&mut object, "ciphertext")?, sealed_as(&mut object, "nonce")?);
        let is_registration = match (&registered, &sealed, kind.as_deref()) {
            (Some(_), None, _) | (None, None, Some("registration")) => true,
            (None, Some(_), _) | (None, None, Some("delivery")) => false,
            _ => return Err(ItemFault::Member { member: "kind", problem: "cannot be told from the columns" }),
        };
        let needed = |bytes: Option<Vec<u8>>, member| bytes.ok_or(ItemFault::Member { member, problem: "is missing" });
        if is_registration {
            let own = binary(&mut object, "webhook_registration_nonce")?;
            return Ok(Stored::Registration {
                columns: [object.text("account_id")?, object.text("task_id")?, object.text("task_type")?],
                ciphertext: needed(registered.or(ciphertext), "webhook_registration")?,
                nonce: needed(own.or(nonce), "webhook_registration_nonce")?,
            });
        }
        let own = binary(&mut object, "envelope_nonce")?;
        Ok(Stored::Outbox(Box::new(Row {
            account_id: object.text("account_id")?,
            task_id: object.text("task_id")?,
            task_type: object.text("task_type")?,
            terminal_status: object.text("terminal_status")?,
            url: object.text("url")?,
            operation_id: object.text("operation_id")?,
            idempotency_key: object.text("idempotency_key")?,
            signing_scope_id: object.optional_text("signing_scope_id")?,
            encrypted_body: needed(sealed.or(ciphertext), "encrypted_body")?,
            envelope_nonce: needed(own.or(nonce), "envelope_nonce")?,
            attempt_count: 0,
            composed: None,
        })))
    }
}

fn binary(object: &mut Object<'_>, member: &'static str) -> Result<Option<Vec<u8>>, ItemFault> {
    let Some(text) = object.optional_text(member)? else { return Ok(None) };
    let problem = "is neither hex after \\x nor base64";
    from_either(&text).map(Some).ok_or(ItemFault::Member { member, problem })
}

/// As `outboxd seal` names it, in whichever spelling was kept.
fn sealed_as(object: &mut Object<'_>, member: &'static str) -> Result<Option<Vec<u8>>, ItemFault> {
    let base64 = if member == "nonce" { "nonce_base64" } else { "ciphertext_base64" };
    Ok(binary(object, member)?.or(binary(object, base64)?))
}

impl Description {
    fn new(kind: &'static str, task_id: String, sealed_bytes: usize) -> Description {
        Description {
            kind,
            id: None,
            task_id,
            state: None,
            last_error: None,
            opens: false,
            key: None,
            key_place: None,
            scheme: None,
            signing_scope_id: None,
            destination: None,
            operation_id: None,
            has_token: None,
            sealed_bytes,
            body_bytes: None,
            members: None,
            problems: Vec::new(),
            body: None,
            body_base64: None,
        }
    }

    /// What only the database knows.
    pub(crate) fn stands(mut self, id: Option<i64>, state: String, last_error: Option<String>) -> Description {
        (self.id, self.state, self.last_error) = (id, Some(state), last_error);
        self
    }

    /// Whether the daemon has nothing against it.
    pub(crate) fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    pub(crate) fn to_json(&self, pretty: bool) -> String {
        if !pretty {
            return written(self);
        }
        // As for one line: strings, numbers and booleans only.
        serde_json::to_string_pretty(self).expect("strings always serialize")
    }

    fn problem(&mut self, fault: ItemFault) {
        self.problems.push(fault.into());
    }
}

impl Sealer<'_> {
    /// `with_body` shows what the receiver would get, and never the credentials that go with it.
    pub(crate) fn describe(&self, stored: Stored, with_body: bool) -> Description {
        match stored {
            Stored::Outbox(row) => self.describe_row(*row, with_body),
            Stored::Registration { columns: [account_id, task_id, task_type], ciphertext, nonce } => {
                let mut told = Description::new("registration", task_id.clone(), ciphertext.len());
                let (account_id, task_id, task_type) = (&*account_id, &*task_id, &*task_type);
                let sealed = SealedRegistration { account_id, task_id, task_type, ciphertext, nonce: &nonce };
                self.tell_registration(&mut told, sealed);
                told
            }
        }
    }

    fn describe_row(&self, row: Row, with_body: bool) -> Description {
        let mut told = Description::new("delivery", row.task_id.clone(), row.encrypted_body.len());
        let kept = Kept::of(&row);
        let ciphertext = row.encrypted_body.clone();
        let seen = match inspect_delivery(row, self.keyring, self.rules) {
            Ok(seen) => seen,
            Err((_, Some(Hint::Registration))) => {
                self.describe_composed(&mut told, &kept, ciphertext);
                return told;
            }
            Err((error, hint)) => {
                self.tell_place(&mut told, &kept.url);
                told.operation_id = Some(kept.operation_id);
                told.signing_scope_id = kept.signing_scope_id;
                told.problems.insert(0, self.unopened(error, hint));
                return told;
            }
        };
        self.tell_key(&mut told, seen.key);
        told.scheme = match seen.form {
            Form::Rfc9421 => Some("rfc9421"),
            Form::Bearer => Some("bearer"),
            Form::HmacSha256 => Some("hmac-sha256"),
            Form::StandardWebhooks => Some("standard-webhooks"),
            Form::Unreadable => None,
        };
        if let Some(refusal) = seen.refusal {
            told.problem(ItemFault::Envelope(refusal));
        }
        self.tell_place(&mut told, &kept.url);
        if let Err(fault) = self.judge_scope(kept.signing_scope_id.as_deref(), seen.form != Form::Rfc9421) {
            told.problem(fault);
        }
        told.operation_id = Some(kept.operation_id);
        told.signing_scope_id = kept.signing_scope_id;
        told.members = seen.members.map(|members| {
            members.into_iter().map(|(name, same)| (name, if same { "same" } else { "differs" })).collect()
        });
        told.body_bytes = seen.body.as_ref().map(|body| body.len());
        if let Some(body) = seen.body.filter(|_| with_body) {
            match std::str::from_utf8(&body) {
                Ok(text) => told.body = Some(text.to_owned()),
                Err(_) => told.body_base64 = Some(to_base64(&body)),
            }
        }
        told
    }

    /// A row whose body is still to be rendered: its ciphertext is its task's registration, which is the authority.
    fn describe_composed(&self, told: &mut Description, row: &Kept, ciphertext: Vec<u8>) {
        told.kind = "composed";
        let [account_id, task_id, task_type] = [&*row.account_id, &*row.task_id, &*row.task_type];
        let sealed = SealedRegistration { account_id, task_id, task_type, ciphertext, nonce: &row.nonce };
        let Some(registration) = self.tell_registration(told, sealed) else { return };
        let differs = |hint: &str, sealed: &str| !hint.is_empty() && hint != sealed;
        let scope = registration.signing_scope_id.as_deref();
        for (member, wrong) in [
            ("url", differs(&row.url, &registration.url)),
            ("operation_id", differs(&row.operation_id, &registration.operation_id)),
            ("signing_scope_id", row.signing_scope_id.is_some() && row.signing_scope_id.as_deref() != scope),
        ] {
            if wrong {
                told.problem(ItemFault::Envelope(OpenError::Mismatch { member }));
            }
        }
    }

    fn tell_registration(&self, told: &mut Description, sealed: SealedRegistration<'_>) -> Option<Registration> {
        let seen = match inspect_registration(sealed, self.keyring, self.rules) {
            Ok(seen) => seen,
            Err(error) => {
                told.problems.push(self.unopened(error, None));
                return None;
            }
        };
        self.tell_key(told, seen.key);
        let registration = match seen.outcome {
            Ok(registration) => registration,
            Err(refusal) => {
                told.problem(ItemFault::Envelope(refusal));
                return None;
            }
        };
        told.scheme = Some(match &registration.authentication {
            None => "rfc9421",
            Some(Authentication::Bearer(_)) => "bearer",
            Some(Authentication::HmacSha256(_)) => "hmac-sha256",
            Some(Authentication::StandardWebhooks(_)) => "standard-webhooks",
        });
        self.tell_place(told, &registration.url);
        let scope = registration.signing_scope_id.as_deref();
        if let Err(fault) = self.judge_scope(scope, registration.authentication.is_some()) {
            told.problem(fault);
        }
        told.operation_id = Some(registration.operation_id.clone());
        told.signing_scope_id = registration.signing_scope_id.clone();
        told.has_token = Some(registration.token.is_some());
        Some(registration)
    }

    fn tell_key(&self, told: &mut Description, key: usize) {
        told.opens = true;
        told.key = self.keyring.newest_first().get(key).map(|key| key.fingerprint());
        told.key_place = Some(key + 1);
    }

    fn tell_place(&self, told: &mut Description, url: &str) {
        told.destination = Destination::parse(url, self.url_rules).ok().map(|destination| destination.origin());
        if let Err(fault) = self.judge_url(url) {
            told.problem(fault);
        }
    }

    fn unopened(&self, error: OpenError, hint: Option<Hint>) -> Problem {
        let mut problem = Problem::from(ItemFault::Envelope(error));
        if error == OpenError::Unopenable {
            let held: Vec<String> = self.keyring.newest_first().iter().map(|key| key.fingerprint()).collect();
            problem.hint = Some(match hint {
                Some(hint) => hint.to_string(),
                None => format!(
                    "held: {}; either another key sealed it, or a column it is bound to, the nonce or the ciphertext \
                     was changed since",
                    held.join(", ")
                ),
            });
        }
        problem
    }
}

/// What of a row is told after the envelope room has taken it.
struct Kept {
    account_id: String,
    task_id: String,
    task_type: String,
    url: String,
    operation_id: String,
    signing_scope_id: Option<String>,
    nonce: Vec<u8>,
}

impl Kept {
    fn of(row: &Row) -> Kept {
        Kept {
            account_id: row.account_id.clone(),
            task_id: row.task_id.clone(),
            task_type: row.task_type.clone(),
            url: row.url.clone(),
            operation_id: row.operation_id.clone(),
            signing_scope_id: row.signing_scope_id.clone(),
            nonce: row.envelope_nonce.clone(),
        }
    }
}
