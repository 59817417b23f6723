//! Exactly one POST to a pinned destination, and what it came to. Follows no redirect, uses no proxy, decodes nothing, and decides nothing about the reply.

mod connect;
mod connection;
mod exchange;
mod fetch;
mod io;
mod pool;
#[cfg(any(test, fuzzing))]
pub(crate) mod rehearsal;
mod tls;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::ClientConfig;
use tokio::time::Instant;

use self::connection::{Connection, Key};
use self::exchange::{After, Exchange, exchange};
use self::pool::Pool;
use crate::address::Pinned;
use crate::certificate::ClientIdentity;
use crate::signature::SignedRequest;
use crate::verdict::{Attempt, Failure, Fault, Sent};

pub(crate) use connect::dials;
pub(crate) use pool::PoolLimits;
pub(crate) use tls::tls_config;

/// Sends deliveries and keeps their connections. One per policy snapshot: a reload makes a new one and so drops
/// every connection that the old policy had passed.
pub(crate) struct Client {
    tls: Arc<ClientConfig>,
    pool: Pool,
    opened: AtomicU64,
    reused: AtomicU64,
}

/// One attempt's end, and whether it went over a kept connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Posted {
    pub(crate) attempt: Attempt,
    pub(crate) reused: bool,
}

/// Numbers for the exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolGauges {
    pub(crate) idle: usize,
    /// Connections opened so far, handshake included.
    pub(crate) opened: u64,
    /// Attempts that went over a kept connection so far.
    pub(crate) reused: u64,
}

impl Client {
    pub(crate) fn new(tls: Arc<ClientConfig>, limits: PoolLimits) -> Client {
        Client { tls, pool: Pool::new(limits), opened: AtomicU64::new(0), reused: AtomicU64::new(0) }
    }

    pub(crate) fn gauges(&self) -> PoolGauges {
        PoolGauges {
            idle: self.pool.idle(),
            opened: self.opened.load(Ordering::Relaxed),
            reused: self.reused.load(Ordering::Relaxed),
        }
    }

    /// One attempt. `identity` is for a receiver that demands a client certificate. `fresh` is for an attempt that follows
    /// a failure: it trusts no connection that was open then. Dropping the future cuts the connection.
    pub(crate) async fn post(
        &self,
        pinned: &Pinned,
        identity: Option<&Arc<ClientIdentity>>,
        request: SignedRequest,
        fresh: bool,
        deadline: Instant,
    ) -> Posted {
        if !fresh && let Some(mut kept) = self.kept(pinned, identity) {
            let ended = exchange(&mut kept, &request, deadline).await;
            // One that its server closed while it was idle carried no byte, so that a new one is still the first try.
            if !matches!(ended, Exchange::Unused(_)) {
                self.reused.fetch_add(1, Ordering::Relaxed);
                return Posted { attempt: self.settle(kept, ended, deadline).await, reused: true };
            }
        }
        // Boxed, since every row would carry what only a new connection needs.
        let mut connection = match Box::pin(self.open(pinned, identity, deadline)).await {
            Ok(connection) => connection,
            Err(fault) => return Posted { attempt: unsent(fault), reused: false },
        };
        let ended = exchange(&mut connection, &request, deadline).await;
        Posted { attempt: self.settle(connection, ended, deadline).await, reused: false }
    }

    /// A kept connection to one of the addresses that this very attempt has pinned.
    fn kept(&self, pinned: &Pinned, identity: Option<&Arc<ClientIdentity>>) -> Option<Connection> {
        pinned.addresses().iter().find_map(|address| self.pool.take(&key(pinned, *address, identity)))
    }

    async fn open(
        &self,
        pinned: &Pinned,
        identity: Option<&Arc<ClientIdentity>>,
        deadline: Instant,
    ) -> Result<Connection, Fault> {
        let tls = match identity {
            None => Arc::clone(&self.tls),
            Some(identity) => {
                let mut tls = ClientConfig::clone(&self.tls);
                tls.client_auth_cert_resolver = Arc::<ClientIdentity>::clone(identity);
                Arc::new(tls)
            }
        };
        let (stream, address) = connect::connect(pinned, &tls, deadline).await?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        let connection =
            Connection::start(stream, key(pinned, address, identity)).await.map_err(|_| Fault::Disconnected)?;
        killpoint!("k5");
        Ok(connection)
    }

    /// Keeps, closes or cuts the connection by how its exchange ended.
    async fn settle(&self, connection: Connection, ended: Exchange, deadline: Instant) -> Attempt {
        match ended {
            Exchange::Replied { reply, after } => {
                match after {
                    After::Keep => self.pool.put(connection),
                    After::Close => connection.close(),
                    After::Cut => drop(connection),
                }
                Attempt::Replied(reply)
            }
            Exchange::Failed(failure) => Attempt::Failed(failure),
            // The request's own error says only that the connection was gone; the connection knows why.
            Exchange::Unused(fault) => unsent(connection.ended_by(deadline).await.unwrap_or(fault)),
        }
    }
}

fn key(pinned: &Pinned, address: SocketAddr, identity: Option<&Arc<ClientIdentity>>) -> Key {
    Key { server_name: pinned.server_name().clone(), address, identity: identity.map(|identity| identity.id()) }
}

fn unsent(fault: Fault) -> Attempt {
    Attempt::Failed(Failure { fault, sent: Sent::Nothing })
}
