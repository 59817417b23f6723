//! `outboxd receive`: loads the configuration and hands over to the daemon's receiving end.

use super::{Failure, block_on};
use crate::config::{Config, Sources};

pub(super) fn run(sources: &Sources) -> Result<(), Failure> {
    let config = Config::load(sources)?;
    block_on(async { crate::daemon::receive(config).await.map_err(Failure::from) })
}
