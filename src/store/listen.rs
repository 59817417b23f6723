//! Hears the hosts' wake-ups on a connection of its own, outside the pool. It says that something happened and never what:
//! claims find that out, and look without it too.

use std::future::poll_fn;

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect;
use super::error::{Kind, StoreError, Unavailable};
use super::{OpenError, Store, StoreConfig};

/// How the connection for wake-ups is made. `None` of it behind poolers that keep no session: they take the statement
/// and let nothing through.
pub(super) struct Ear {
    postgres: tokio_postgres::Config,
    tls: MakeRustlsConnect,
}

impl Ear {
    pub(super) fn new(config: &StoreConfig) -> Result<Option<Ear>, OpenError> {
        if !config.prepared_statements {
            return Ok(None);
        }
        let (postgres, tls) = connect::session(config)?;
        Ok(Some(Ear { postgres, tls: MakeRustlsConnect::new(tls) }))
    }
}

impl Store {
    /// Whether wake-ups can be heard at all.
    pub(crate) fn hears(&self) -> bool {
        self.ear.is_some()
    }

    /// `sql/outbox/listen_wake.sql`: notifies `wake` for each wake-up, and once at the beginning for those that were missed
    /// before. Returns when the connection has ended.
    pub(crate) async fn hear(&self, wake: &Notify) -> Result<(), StoreError> {
        let Some(ear) = &self.ear else { return Ok(()) };
        let statement = &self.statements.listen_wake;
        let failed =
            |error: &tokio_postgres::Error| StoreError::new(statement.label, Kind::of(error, self.door.timeout));
        let late = |_| StoreError::new(statement.label, Kind::Unavailable(Unavailable::ConnectTimeout));
        let connecting = ear.postgres.connect(ear.tls.clone());
        let (client, mut connection) =
            timeout(self.door.timeout, connecting).await.map_err(late)?.map_err(|error| failed(&error))?;
        let listening = async {
            timeout(self.door.timeout, client.batch_execute(&statement.sql))
                .await
                .map_err(late)?
                .map_err(|e| failed(&e))?;
            wake.notify_one();
            // The client keeps the connection open for as long as this waits, which is until the connection ends it.
            std::future::pending::<Result<(), StoreError>>().await
        };
        let hearing = async {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(_) = message.map_err(|error| failed(&error))? {
                    wake.notify_one();
                }
            }
            Ok(())
        };
        tokio::select! {
            ended = listening => ended,
            ended = hearing => ended,
        }
    }
}
