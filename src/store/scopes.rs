//! Signing scopes and their keys as the table has them: what is secret stays sealed. It opens nothing and judges nothing.

use super::claim::read;
use super::{Answer, Kind, Parameter, Store, StoreError};

/// One scope, as it stands.
pub(crate) struct StoredScope {
    pub(crate) algorithms: Vec<String>,
    pub(crate) decommissioned: bool,
    /// The client certificate with its key: ciphertext and nonce.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) keys: Vec<StoredKey>,
}

pub(crate) struct StoredKey {
    pub(crate) key_id: String,
    /// In Unix seconds, as every moment here.
    pub(crate) not_before: Option<f64>,
    pub(crate) not_after: Option<f64>,
    pub(crate) sealed: Vec<u8>,
    pub(crate) nonce: Vec<u8>,
}

/// A scope that is not as it is held.
pub(crate) struct ChangedScope {
    pub(crate) scope: String,
    /// What it is held under from now on.
    pub(crate) stamp: String,
    /// Nothing where the scope is not known.
    pub(crate) stored: Option<StoredScope>,
}

/// What is to be written of a scope.
pub(crate) struct ScopeDraft<'a> {
    pub(crate) scope: &'a str,
    /// Nothing leaves them as they are.
    pub(crate) algorithms: Option<Vec<&'a str>>,
    pub(crate) client: ClientDraft,
    pub(crate) key: Option<KeyDraft>,
}

pub(crate) enum ClientDraft {
    Leave,
    TakeAway,
    Put { sealed: Vec<u8>, nonce: Vec<u8> },
}

pub(crate) struct KeyDraft {
    pub(crate) thumbprint: String,
    pub(crate) key: StoredKey,
}

/// What of a draft was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    /// Not where the scope is decommissioned.
    pub(crate) scope: bool,
    /// Not where its key id stands for another key.
    pub(crate) key: bool,
}

/// How a key was retired.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Retired {
    Ends(f64),
    /// It had not begun to sign.
    TakenAway,
}

impl Store {
    /// `sql/scopes/read_scopes.sql`: scopes with the stamps under which they are held.
    pub(crate) async fn read_scopes(&self, held: &[(String, String)]) -> Result<Vec<ChangedScope>, StoreError> {
        let (scopes, stamps): (Vec<&str>, Vec<&str>) =
            held.iter().map(|(scope, stamp)| (scope.as_str(), stamp.as_str())).unzip();
        self.read_all(&self.statements.read_scopes, &[&scopes, &stamps], |answer| {
            let known: bool = read(answer, "known")?;
            Ok(ChangedScope {
                scope: read(answer, "scope")?,
                stamp: read(answer, "stamp")?,
                stored: known.then(|| read_scope(answer)).transpose()?,
            })
        })
        .await
    }

    /// `sql/scopes/list_scopes.sql`; as many as `limit`: there is probably more.
    pub(crate) async fn list_scopes(&self, after: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&after, &i64::from(limit)];
        self.read_all(&self.statements.list_scopes, &parameters, |answer| read(answer, "scope")).await
    }

    /// `sql/scopes/put_scope.sql`
    pub(crate) async fn put_scope(&self, draft: &ScopeDraft<'_>) -> Result<Written, StoreError> {
        let (written, client, client_nonce) = match &draft.client {
            ClientDraft::Leave => (false, None, None),
            ClientDraft::TakeAway => (true, None, None),
            ClientDraft::Put { sealed, nonce } => (true, Some(sealed), Some(nonce)),
        };
        let key = draft.key.as_ref();
        let parameters: [Parameter<'_>; 11] = [
            &draft.scope,
            &draft.algorithms,
            &written,
            &client,
            &client_nonce,
            &key.map(|draft| &draft.key.key_id),
            &key.map(|draft| &draft.thumbprint),
            &key.and_then(|draft| draft.key.not_before),
            &key.and_then(|draft| draft.key.not_after),
            &key.map(|draft| &draft.key.sealed),
            &key.map(|draft| &draft.key.nonce),
        ];
        self.read_one(&self.statements.put_scope, &parameters, |answer| {
            Ok(Written { scope: read(answer, "scope_written")?, key: read(answer, "key_written")? })
        })
        .await
    }

    /// `sql/scopes/retire_key.sql`; nothing where there is no such key.
    pub(crate) async fn retire_key(&self, scope: &str, key_id: &str, end: f64) -> Result<Option<Retired>, StoreError> {
        let retired = self
            .read_all(&self.statements.retire_key, &[&scope, &key_id, &end], |answer| {
                Ok(read::<Option<f64>>(answer, "ends")?.map_or(Retired::TakenAway, Retired::Ends))
            })
            .await?;
        Ok(retired.into_iter().next())
    }

    /// `sql/scopes/remove_key.sql`: whether there was such a key.
    pub(crate) async fn remove_key(&self, scope: &str, key_id: &str) -> Result<bool, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&scope, &key_id];
        let gone = self.read_all(&self.statements.remove_key, &parameters, |answer| read::<String>(answer, "key_id"));
        Ok(!gone.await?.is_empty())
    }

    /// `sql/scopes/decommission_scope.sql` and, once that is committed, `sql/scopes/delete_keys.sql`: how many keys were
    /// deleted.
    pub(crate) async fn decommission_scope(&self, scope: &str) -> Result<u64, StoreError> {
        self.read_one(&self.statements.decommission_scope, &[&scope], |answer| {
            read::<f64>(answer, "decommissioned_at")
        })
        .await?;
        self.read_one(&self.statements.delete_keys, &[&scope], |answer| Ok(read::<i64>(answer, "keys")?.unsigned_abs()))
            .await
    }
}

fn read_scope(answer: &Answer) -> Result<StoredScope, Kind> {
    let key_ids: Vec<String> = read(answer, "key_ids")?;
    let beginnings: Vec<Option<f64>> = read(answer, "beginnings")?;
    let ends: Vec<Option<f64>> = read(answer, "ends")?;
    let sealed: Vec<Vec<u8>> = read(answer, "sealed")?;
    let nonces: Vec<Vec<u8>> = read(answer, "nonces")?;
    let times = beginnings.into_iter().zip(ends);
    let keys = key_ids.into_iter().zip(times).zip(sealed.into_iter().zip(nonces));
    let keys = keys.map(|((key_id, (not_before, not_after)), (sealed, nonce))| StoredKey {
        key_id,
        not_before,
        not_after,
        sealed,
        nonce,
    });
    let client: Option<Vec<u8>> = read(answer, "client")?;
    let nonce: Option<Vec<u8>> = read(answer, "client_nonce")?;
    Ok(StoredScope {
        algorithms: read(answer, "algorithms")?,
        decommissioned: read(answer, "decommissioned")?,
        client: client.zip(nonce),
        keys: keys.collect(),
    })
}
