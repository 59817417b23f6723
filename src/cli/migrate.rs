//! `outboxd migrate`: brings the database to the schema that this version needs, prints that schema for another
//! tool, or tells what is missing. It never touches a row.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use crate::store::{Store, StoreConfig, printed};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the migrations for psql, Alembic or Flyway; connect to nothing.
    #[arg(long, conflicts_with = "check")]
    print: bool,
    /// Say what is missing and exit with 1 if anything is; change nothing.
    #[arg(long)]
    check: bool,
}

/// Progress and answers go to `out`.
pub(crate) async fn run(args: &Args, config: &StoreConfig, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    if args.print {
        write!(out, "{}", printed(&config.table))?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = Store::open(config, Arc::new(|_| {}))?;
    if args.check {
        return check(&store, out).await;
    }
    let mut lines = Vec::new();
    let outcome = store
        .migrate(|applied| {
            let what = if applied.before { "already there" } else { "applied" };
            lines.push(format!("{}  {what}", applied.file));
        })
        .await;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    outcome.context("the migration was rolled back; those before it stay")?;
    writeln!(out, "{} is up to date", config.table)?;
    Ok(ExitCode::SUCCESS)
}

async fn check(store: &Store, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let missing = store.find_missing().await?;
    for missing in &missing {
        writeln!(out, "missing: {} (migration {:04})", missing.object, missing.version)?;
    }
    if missing.is_empty() {
        writeln!(out, "{} is up to date", store.table())?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "run `outboxd migrate`, or apply what `outboxd migrate --print` prints")?;
    Ok(ExitCode::FAILURE)
}
