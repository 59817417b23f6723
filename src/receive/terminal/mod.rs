//! The profile terminal-notification: the source CMS's receiver contract, over the inbox in Postgres.

use std::path::PathBuf;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;

use super::server::{Arrival, Body};
use super::{ProfileError, Reply};
use crate::config::Config;
use crate::store::Store;

pub(crate) struct Terminal {
    store: Arc<Store>,
}

impl Terminal {
    pub(super) fn load(_: &Config, store: Arc<Store>) -> Result<Terminal, ProfileError> {
        Ok(Terminal { store })
    }

    pub(super) fn reload(&self) -> Result<(), ProfileError> {
        Ok(())
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    pub(super) async fn answer(&self, _: &Parts, _: Arrival, body: Body) -> Reply {
        let _ = body.exactly(0).await;
        let _ = self.store.pool_status();
        let mut reply = Reply::default();
        *reply.status_mut() = StatusCode::NOT_FOUND;
        reply
    }
}
