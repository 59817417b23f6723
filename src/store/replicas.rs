//! The list of running replicas. It judges none of them.

use super::claim::read;
use super::{Answer, Kind, Parameter, Store, StoreError};

/// What a replica says of itself.
pub(crate) struct NewReplica<'a> {
    pub(crate) replica: &'a str,
    pub(crate) host: &'a str,
    pub(crate) pid: i32,
    pub(crate) version: &'static str,
    /// Fingerprints, the key that seals first.
    pub(crate) envelope_keys: Vec<String>,
    pub(crate) signing_kids: Vec<String>,
}

/// One that is alive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Replica {
    pub(crate) replica: String,
    pub(crate) version: String,
    pub(crate) envelope_keys: Vec<String>,
    pub(crate) signing_kids: Vec<String>,
    pub(crate) seconds_unseen: f64,
}

impl Store {
    /// `sql/replicas/find_replicas.sql`: whether the list is there, and whether we may write it.
    async fn find_replicas(&self) -> Result<(bool, bool), StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        self.read_one(&self.statements.find_replicas, &parameters, |answer| {
            Ok((read(answer, "present")?, read(answer, "writable")?))
        })
        .await
    }

    /// `sql/replicas/record_replica.sql`: how many are alive. None on a schema of before the list, or without the right to
    /// write it.
    pub(crate) async fn record_replica(&self, replica: &NewReplica<'_>) -> Result<Option<u64>, StoreError> {
        if self.find_replicas().await? != (true, true) {
            return Ok(None);
        }
        self.renew_replica(replica).await.map(Some)
    }

    /// The same where the list was found before; it is an error where it is not there any more.
    pub(crate) async fn renew_replica(&self, replica: &NewReplica<'_>) -> Result<u64, StoreError> {
        let NewReplica { replica, host, pid, version, envelope_keys, signing_kids } = replica;
        let parameters: [Parameter<'_>; 6] = [replica, host, pid, version, envelope_keys, signing_kids];
        self.read_one(&self.statements.record_replica, &parameters, |answer| {
            Ok(read::<i64>(answer, "alive")?.unsigned_abs())
        })
        .await
    }

    /// `sql/replicas/remove_replica.sql`
    async fn remove_replica(&self, replica: &str) -> Result<(), StoreError> {
        self.read_all(&self.statements.remove_replica, &[&replica], |_| Ok(())).await.map(drop)
    }

    /// The same, where there is a list to be taken off.
    pub(crate) async fn leave_replicas(&self, replica: &str) -> Result<(), StoreError> {
        match self.find_replicas().await? {
            (true, true) => self.remove_replica(replica).await,
            _ => Ok(()),
        }
    }

    /// `sql/replicas/list_replicas.sql`: those that are alive; nothing where there is no list.
    pub(crate) async fn list_replicas(&self) -> Result<Option<Vec<Replica>>, StoreError> {
        let (present, _) = self.find_replicas().await?;
        if !present {
            return Ok(None);
        }
        self.read_all(&self.statements.list_replicas, &[], read_replica).await.map(Some)
    }
}

fn read_replica(answer: &Answer) -> Result<Replica, Kind> {
    Ok(Replica {
        replica: read(answer, "replica")?,
        version: read(answer, "version")?,
        envelope_keys: read(answer, "envelope_keys")?,
        signing_kids: read(answer, "signing_kids")?,
        seconds_unseen: read(answer, "seconds_unseen")?,
    })
}
