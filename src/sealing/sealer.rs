//! Sealing items: read, judge where they would be posted to and under which scope, seal. What comes back holds nothing
//! of an item but its kind and task.

use serde::Serialize;
use serde_json::value::RawValue;

use super::batch::{Batch, BatchFault};
use super::bytes::{to_base64, to_bytea};
use super::fault::ItemFault;
use super::item::{Authentication, Delivery, Item, Registration};
use crate::address::{Destination, Policy, UrlRules, judge_literal};
use crate::deliver::Snapshot;
use crate::envelope::{
    Credentials, Keyring, NONCE_LEN, OpenRules, RegistrationDraft, Row, seal_delivery, seal_registration,
};
use crate::secret::random;
use crate::signer::{Provider, ResolveError, is_scope};

/// Which items may, must or must not name a signing scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeRule {
    /// One fixed key signs all.
    Never,
    /// A default scope stands in, or nothing is known of the signing.
    May,
    Must,
}

/// What an item is judged and sealed by.
#[derive(Clone, Copy)]
pub(crate) struct Sealer<'a> {
    pub(crate) keyring: &'a Keyring,
    pub(crate) rules: OpenRules,
    pub(crate) url_rules: &'a UrlRules,
    pub(crate) policy: &'a Policy,
    pub(crate) scopes: ScopeRule,
}

/// What became of a batch.
pub(crate) struct Outcome {
    /// One answer an item in the batch's order and spelling; in a fault's place, what is wrong.
    pub(crate) answers: String,
    pub(super) is_one_document: bool,
    /// By the item's place in the batch, from 0.
    pub(crate) faults: Vec<(usize, ItemFault)>,
    /// The kinds of what was sealed.
    pub(super) sealed: Vec<&'static str>,
}

#[derive(Serialize)]
struct Sealed {
    kind: &'static str,
    task_id: String,
    key: String,
    ciphertext: String,
    ciphertext_base64: String,
    nonce: String,
    nonce_base64: String,
}

#[derive(Serialize)]
struct Refused {
    error: Fault,
}

/// A fault as JSON.
#[derive(Serialize)]
pub(super) struct Fault {
    index: usize,
    code: &'static str,
    message: String,
}

impl Fault {
    pub(super) fn new(index: usize, fault: &ItemFault) -> Fault {
        Fault { index, code: fault.code(), message: fault.to_string() }
    }
}

impl<'a> Sealer<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Sealer<'a> {
        let scopes = match &snapshot.provider {
            Provider::Fixed { .. } => ScopeRule::Never,
            Provider::Scopes(directory) if directory.has_default() => ScopeRule::May,
            Provider::Tables(tables) if tables.iter().all(|table| table.has_default()) => ScopeRule::May,
            Provider::Scopes(_) | Provider::Tables(_) => ScopeRule::Must,
        };
        Sealer {
            keyring: &snapshot.keyring,
            rules: snapshot.open_rules,
            url_rules: &snapshot.url_rules,
            policy: &snapshot.policy,
            scopes,
        }
    }

    /// Every item by itself; whether answers are of use beside faults is the caller's to say.
    pub(crate) fn seal_batch(&self, text: &[u8]) -> Result<Outcome, BatchFault> {
        let batch = Batch::read(text)?;
        let (mut answers, mut faults, mut sealed) = (Vec::with_capacity(batch.items.len()), Vec::new(), Vec::new());
        for (index, json) in batch.items.iter().enumerate() {
            match self.seal(json) {
                Ok(answer) => {
                    sealed.push(answer.kind);
                    answers.push(written(&answer));
                }
                Err(fault) => {
                    answers.push(written(&Refused { error: Fault::new(index, &fault) }));
                    faults.push((index, fault));
                }
            }
        }
        Ok(Outcome { answers: batch.answer(&answers), is_one_document: batch.is_one_document(), faults, sealed })
    }

    fn seal(&self, json: &RawValue) -> Result<Sealed, ItemFault> {
        let item = Item::read(json)?;
        let kind = item.kind();
        let nonce: [u8; NONCE_LEN] = random();
        let (task_id, ciphertext) = match item {
            Item::Registration(registration) => self.registration(*registration, nonce)?,
            Item::Delivery(delivery) => self.delivery(*delivery, nonce)?,
        };
        Ok(Sealed {
            kind,
            task_id,
            key: self.keyring.newest().fingerprint(),
            ciphertext: to_bytea(&ciphertext),
            ciphertext_base64: to_base64(&ciphertext),
            nonce: to_bytea(&nonce),
            nonce_base64: to_base64(&nonce),
        })
    }

    fn registration(&self, item: Registration, nonce: [u8; NONCE_LEN]) -> Result<(String, Vec<u8>), ItemFault> {
        self.judge_scope(item.signing_scope_id.as_deref(), item.authentication.is_some())?;
        self.judge_url(&item.url)?;
        let draft = RegistrationDraft {
            url: &item.url,
            operation_id: &item.operation_id,
            token: item.token.as_ref().map(|token| token.as_str()),
            authentication: item.authentication.as_ref().map(credentials),
            signing_scope_id: item.signing_scope_id.as_deref(),
        };
        let columns = [item.task.account_id.as_str(), &item.task.task_id, &item.task.task_type];
        let sealed =
            seal_registration(columns, &draft, self.keyring, nonce, self.rules).map_err(ItemFault::Envelope)?;
        Ok((item.task.task_id, sealed))
    }

    fn delivery(&self, item: Delivery, nonce: [u8; NONCE_LEN]) -> Result<(String, Vec<u8>), ItemFault> {
        self.judge_scope(item.signing_scope_id.as_deref(), item.authentication.is_some())?;
        self.judge_url(&item.url)?;
        let mut row = Row {
            account_id: item.task.account_id,
            task_id: item.task.task_id,
            task_type: item.task.task_type,
            terminal_status: item.terminal_status,
            url: item.url,
            operation_id: item.operation_id,
            idempotency_key: item.idempotency_key,
            signing_scope_id: item.signing_scope_id,
            encrypted_body: Vec::new(),
            envelope_nonce: Vec::new(),
            attempt_count: 0,
            composed: None,
        };
        let authentication = item.authentication.as_ref().map(credentials);
        seal_delivery(&mut row, item.body, authentication, self.keyring, nonce, self.rules)
            .map_err(ItemFault::Envelope)?;
        Ok((row.task_id, row.encrypted_body))
    }

    pub(super) fn judge_url(&self, url: &str) -> Result<(), ItemFault> {
        let destination = Destination::parse(url, self.url_rules).map_err(ItemFault::Url)?;
        judge_literal(&destination, self.policy).map_err(ItemFault::Address)
    }

    /// Rows with legacy authentication are not signed, and so need no scope.
    pub(super) fn judge_scope(&self, scope: Option<&str>, legacy: bool) -> Result<(), ItemFault> {
        match (scope, self.scopes) {
            (Some(_), ScopeRule::Never) => Err(ItemFault::Scope(ResolveError::ScopeUnexpected)),
            (Some(scope), _) if !is_scope(scope) => Err(ItemFault::Scope(ResolveError::ScopeMalformed)),
            (None, ScopeRule::Must) if !legacy => Err(ItemFault::Scope(ResolveError::ScopeRequired)),
            _ => Ok(()),
        }
    }
}

fn credentials(given: &Authentication) -> Credentials<'_> {
    Credentials { scheme: &given.scheme, credentials: &given.credentials }
}

pub(super) fn written(answer: &impl Serialize) -> String {
    // Structs of strings and numbers serialize whatever they hold.
    serde_json::to_string(answer).expect("strings always serialize")
}
