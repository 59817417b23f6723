//! Every place where something lies sealed under the envelope key, read and replaced in batches. It opens and seals
//! nothing.

use tokio_postgres::types::FromSqlOwned;

use super::claim::read;
use super::statement::{Statement, Statements};
use super::{Answer, Kind, Parameter, Store, StoreError};
use crate::envelope::{Aad, Binding};

/// One such place: three statements of the same shape in each, and how to spell what an item is bound to. A new one is an
/// entry in the list below, its statements, and a line in `sql/sealed/find_places.sql`; everything else goes by the list.
pub(crate) struct Place {
    /// For people, logs and the metric's label; `sql/sealed/find_places.sql` knows it by this name.
    pub(crate) name: &'static str,
    /// How many are looked at for one list of keys: more cost memory (200,000 keys are 10 MiB), fewer cost time.
    stride: i64,
    list: fn(&Statements) -> &Statement,
    read: fn(&Statements) -> &Statement,
    reseal: fn(&Statements) -> &Statement,
    aads: fn(&Answer) -> Vec<Aad>,
}

impl Place {
    /// The list that decides what a new key reaches and an old one is needed for: what is missing here is lost when a key
    /// is dropped. Registrations move into the outbox when their tasks end, so they come first: whatever a walk through
    /// the one did not meet any more, it meets in the other.
    pub(crate) const ALL: [Place; 4] = [
        Place {
            name: "registrations",
            stride: 20_000,
            list: |statements| &statements.list_registrations,
            read: |statements| &statements.read_registrations,
            reseal: |statements| &statements.reseal_registrations,
            aads: |answer| registration(answer).into_iter().collect(),
        },
        Place {
            name: "outbox",
            stride: 200_000,
            list: |statements| &statements.list_outbox,
            read: |statements| &statements.read_outbox,
            reseal: |statements| &statements.reseal_outbox,
            aads: |answer| match answer.try_get("composed") {
                Ok(true) => registration(answer).into_iter().collect(),
                _ => delivery(answer).into_iter().collect(),
            },
        },
        Place {
            name: "signing_keys",
            stride: 20_000,
            list: |statements| &statements.list_scope_keys,
            read: |statements| &statements.read_scope_keys,
            reseal: |statements| &statements.reseal_scope_keys,
            aads: |answer| signing_key(answer).into_iter().collect(),
        },
        Place {
            name: "client_certificates",
            stride: 20_000,
            list: |statements| &statements.list_scope_clients,
            read: |statements| &statements.read_scope_clients,
            reseal: |statements| &statements.reseal_scope_clients,
            aads: |answer| {
                column::<String>(answer, "scope").iter().map(|scope| Aad::client_certificate(scope)).collect()
            },
        },
    ];
}

/// How a place stands in this database, for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The host keeps nothing of the kind.
    Absent,
    Forbidden,
    Readable,
    Writable,
}

/// A stretch of keys, to be gone on after the last one that was looked at.
pub(crate) struct Listed {
    pub(crate) keys: Vec<String>,
    /// Nothing where there is nothing more.
    pub(crate) after: Option<String>,
}

pub(crate) struct SealedItem {
    pub(crate) key: String,
    /// What it is bound to: one, or each that it may be. None where a column is null that may not be.
    pub(crate) aads: Vec<Aad>,
    pub(crate) content: Content,
    pub(crate) seconds_old: f64,
}

pub(crate) enum Content {
    Whole {
        ciphertext: Vec<u8>,
        nonce: Vec<u8>,
    },
    /// It did not fit into the bytes that were allowed.
    NoRoom,
    /// Null, or larger than anything that is ever opened.
    Unusable,
}

/// A new envelope for what was read.
pub(crate) struct Replacement {
    pub(crate) key: String,
    pub(crate) was: Vec<u8>,
    pub(crate) ciphertext: Vec<u8>,
    pub(crate) nonce: Vec<u8>,
    /// Of the key that opened the old one.
    pub(crate) fingerprint: String,
}

/// Claims fetch no larger one either.
const LARGEST: i64 = 16 << 20;

impl Store {
    /// `sql/sealed/find_places.sql`
    pub(crate) async fn find_place(&self, place: &Place) -> Result<Access, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        let found = self
            .read_all(&self.statements.find_places, &parameters, |answer| {
                let access = match (read(answer, "present")?, read(answer, "readable")?, read(answer, "writable")?) {
                    (false, _, _) => Access::Absent,
                    (true, false, _) => Access::Forbidden,
                    (true, true, false) => Access::Readable,
                    (true, true, true) => Access::Writable,
                };
                Ok((read::<String>(answer, "place")?, access))
            })
            .await?;
        let found = found.into_iter().find(|(name, _)| name == place.name);
        found
            .map(|(_, access)| access)
            .ok_or(StoreError::new("sealed/find_places", Kind::Unreadable { column: "place" }))
    }

    /// `sql/sealed/list_*.sql`
    pub(crate) async fn list_sealed(&self, place: &Place, after: &str) -> Result<Listed, StoreError> {
        self.read_one((place.list)(&self.statements), &[&after, &place.stride], |answer| {
            Ok(Listed { keys: read(answer, "keys")?, after: read(answer, "after")? })
        })
        .await
    }

    /// `sql/sealed/read_*.sql`, by key: those that are there still, in order.
    pub(crate) async fn read_sealed_items(
        &self,
        place: &Place,
        keys: &[&str],
        max_bytes: i64,
    ) -> Result<Vec<SealedItem>, StoreError> {
        let statement = (place.read)(&self.statements);
        self.read_all(statement, &[&keys, &max_bytes], |answer| read_item(answer, (place.aads)(answer))).await
    }

    /// `sql/sealed/reseal_*.sql`: the keys of those that were replaced.
    pub(crate) async fn reseal(&self, place: &Place, items: &[Replacement]) -> Result<Vec<String>, StoreError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<&str> = items.iter().map(|item| item.key.as_str()).collect();
        let was: Vec<&[u8]> = items.iter().map(|item| item.was.as_slice()).collect();
        let ciphertexts: Vec<&[u8]> = items.iter().map(|item| item.ciphertext.as_slice()).collect();
        let nonces: Vec<&[u8]> = items.iter().map(|item| item.nonce.as_slice()).collect();
        let fingerprints: Vec<&str> = items.iter().map(|item| item.fingerprint.as_str()).collect();
        let parameters: [Parameter<'_>; 5] = [&keys, &was, &ciphertexts, &nonces, &fingerprints];
        self.read_all((place.reseal)(&self.statements), &parameters, |answer| read(answer, "key")).await
    }

    /// `sql/sealed/read_newest.sql`: the newest first, and whatever their state.
    pub(crate) async fn read_newest(
        &self,
        before: &str,
        rows: i64,
        max_bytes: i64,
    ) -> Result<Vec<SealedItem>, StoreError> {
        // The mark of a composed row is gone once it is finished.
        let aads = |answer: &Answer| delivery(answer).into_iter().chain(registration(answer)).collect();
        let parameters: [Parameter<'_>; 3] = [&before, &rows, &max_bytes];
        self.read_all(&self.statements.read_newest, &parameters, |answer| read_item(answer, aads(answer))).await
    }

    /// `sql/sealed/list_key_uses.sql`: fingerprint, and the age of its newest row that was sealed again.
    pub(crate) async fn list_key_uses(&self) -> Result<Vec<(String, f64)>, StoreError> {
        self.read_all(&self.statements.list_key_uses, &[], |answer| {
            Ok((read(answer, "fingerprint")?, read(answer, "seconds_old")?))
        })
        .await
    }
}

fn read_item(answer: &Answer, aads: Vec<Aad>) -> Result<SealedItem, Kind> {
    let ciphertext: Option<Vec<u8>> = read(answer, "ciphertext")?;
    let bytes: Option<i64> = read(answer, "bytes")?;
    let content = match (ciphertext, read(answer, "nonce")?) {
        (Some(ciphertext), Some(nonce)) => Content::Whole { ciphertext, nonce },
        (None, _) if bytes.is_some_and(|bytes| bytes <= LARGEST) => Content::NoRoom,
        _ => Content::Unusable,
    };
    let seconds_old: Option<f64> = read(answer, "seconds_old")?;
    Ok(SealedItem { key: read(answer, "key")?, aads, content, seconds_old: seconds_old.unwrap_or_default() })
}

/// Null where the table, which is not ours alone, allows what no writer may store.
fn column<T: FromSqlOwned>(answer: &Answer, name: &str) -> Option<T> {
    answer.try_get(name).ok()
}

fn registration(answer: &Answer) -> Option<Aad> {
    let text = |name| column::<String>(answer, name);
    Some(Aad::registration(&text("account_id")?, &text("task_id")?, &text("task_type")?))
}

fn signing_key(answer: &Answer) -> Option<Aad> {
    Some(Aad::signing_key(&column::<String>(answer, "scope")?, &column::<String>(answer, "key_id")?))
}

fn delivery(answer: &Answer) -> Option<Aad> {
    let text = |name| column::<String>(answer, name);
    Some(Aad::delivery(&Binding {
        account_id: &text("account_id")?,
        task_id: &text("task_id")?,
        task_type: &text("task_type")?,
        terminal_status: &text("terminal_status")?,
        url: &text("url")?,
        operation_id: &text("operation_id")?,
        idempotency_key: &text("idempotency_key")?,
        signing_scope_id: column::<Option<String>>(answer, "signing_scope_id")?.as_deref(),
    }))
}
