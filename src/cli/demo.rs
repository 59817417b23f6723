//! `outboxd demo`: what it takes, and nothing of what it does.

use super::{Failure, block_on};

#[derive(clap::Args)]
pub(super) struct Args {
    /// How many webhooks to send.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    rows: u32,
    /// Stay up after the ledger, until Ctrl-C: print how to reach the database, and each webhook as a buyer receives it.
    #[arg(long)]
    stay: bool,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    block_on(async { crate::demo::run(args.rows, args.stay).await.map_err(Failure::from) })
}
