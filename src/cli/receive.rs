//! `outboxd receive`: loads the configuration and hands over to the daemon's receiving end, or shows it at work.

use super::{Failure, block_on};
use crate::config::{Config, Sources};

#[derive(clap::Args)]
pub(super) struct Args {
    /// See it work, without any configuration: a throwaway Postgres, senders that repeat themselves, and a kill.
    #[arg(long)]
    demo: bool,
}

pub(super) fn run(args: &Args, sources: &Sources) -> Result<(), Failure> {
    if args.demo {
        return block_on(async { crate::demo::inbox::run().await.map_err(Failure::from) });
    }
    let config = Config::load(sources)?;
    block_on(async { crate::daemon::receive(config).await.map_err(Failure::from) })
}
