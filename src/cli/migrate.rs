//! `outboxd migrate`: applies, prints or checks the migrations and the host's functions, one line each.

use super::{Failure, block_on, open_store};
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
}

pub(super) fn run(args: Args, config: &Config) -> Result<(), Failure> {
    if args.print {
        let table = config.table()?;
        print!("{}", printed(&table));
        return Ok(());
    }
    block_on(async {
        let store = open_store(config)?;
        if !args.check {
            store
                .migrate(|passed| {
                    let file = passed.file;
                    match passed.step {
                        Step::Applied => println!("applied        {file}"),
                        Step::AlreadyThere => println!("already there  {file}"),
                        Step::Replaced => println!("replaced       {file}"),
                        Step::Kept { serving } => println!("kept           {file} (it serves {serving})"),
                    }
                })
                .await?;
            return Ok(());
        }
        let missing = store.find_missing().await?;
        for one in &missing {
            match one.version {
                Some(version) => println!("missing  {} (migration {version:04})", one.object),
                None => println!("missing  {} (sql/host)", one.object),
            }
        }
        if missing.is_empty() {
            println!("complete: nothing is missing");
            return Ok(());
        }
        Err(Failure::config(format!("{} object(s) are missing: run outboxd migrate", missing.len())))
    })
}
