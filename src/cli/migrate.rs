//! `outboxd migrate`: applies, prints or checks the migrations and the host's functions, one line each.

use std::time::Duration;

use super::outboxes::{Chosen, OutboxArgs};
use super::{Failure, block_on};
use crate::config::Config;
use crate::store::{Step, printed};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print the SQL instead of running it, for psql, Alembic or Flyway. Needs no database.
    #[arg(long, conflicts_with = "check")]
    print: bool,
    /// Change nothing; say what is missing, and exit with 78 if anything is.
    #[arg(long)]
    check: bool,
    /// How long it tries for locks that open transactions hold. Writers are held up for fractions of a second meanwhile.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    patience: Duration,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) fn run(args: Args, config: &Config) -> Result<(), Failure> {
    if args.print {
        for table in args.outbox.tables(config)? {
            print!("{}", printed(&table));
        }
        return Ok(());
    }
    let chosen = args.outbox.open_all(config)?;
    block_on(async {
        let mut missing = 0;
        for outbox in &chosen {
            print!("{}", outbox.heading());
            let told = if args.check { check(outbox).await } else { apply(outbox, args.patience).await.map(|()| 0) };
            missing += told.map_err(|failure| failure.about(&outbox.title()))?;
        }
        match missing {
            0 => Ok(()),
            missing => Err(Failure::config(format!("{missing} object(s) are missing: run outboxd migrate"))),
        }
    })
}

async fn apply(outbox: &Chosen, patience: Duration) -> Result<(), Failure> {
    let applied = outbox.store.migrate(patience, |passed| {
        let file = passed.file;
        match passed.step {
            Step::Applied => println!("applied        {file}"),
            Step::AlreadyThere => println!("already there  {file}"),
            Step::Replaced => println!("replaced       {file}"),
            Step::Kept { serving } => println!("kept           {file} (it serves {serving})"),
            Step::Waiting(waits) => println!("waiting        {file}: {waits}"),
        }
    });
    Ok(applied.await?)
}

/// How many objects are missing.
async fn check(outbox: &Chosen) -> Result<usize, Failure> {
    let missing = outbox.store.find_missing().await?;
    for one in &missing {
        match one.version {
            Some(version) => println!("missing  {} (migration {version:04})", one.object),
            None => println!("missing  {} (sql/host)", one.object),
        }
    }
    if missing.is_empty() {
        println!("complete: nothing is missing");
    }
    Ok(missing.len())
}
