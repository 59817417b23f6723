//! `outboxd run`: loads the configuration and hands over to the daemon.

use super::{Failure, block_on};
use crate::config::{Config, Sources};

pub(super) fn run(sources: Sources) -> Result<(), Failure> {
    let config = Config::load(&sources)?;
    block_on(async { crate::daemon::run(config, sources).await.map_err(Failure::from) })
}
