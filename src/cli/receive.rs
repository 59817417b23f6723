//! `outboxd receive`: loads the configuration and hands over to the daemon's receiving end, shows it at work, or brings an
//! older ledger into the inbox.

use std::path::PathBuf;

use super::{Failure, block_on, open_store};
use crate::config::{Config, Sources};
use crate::receive::import::{Import, Progress, Summary};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    /// See it work, without any configuration: a throwaway Postgres, senders that repeat themselves, and a kill.
    #[arg(long)]
    demo: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Bring the source CMS's SQLite ledger (version 1 or 2) into the inbox. Stop its receiver first.
    ///
    /// Every row is checked before any is written, stored as it is, and read back. What is stored already stays as it is, so
    /// that this may be broken off and run again.
    #[command(verbatim_doc_comment)]
    Import {
        /// The ledger's file. It is only read.
        file: PathBuf,
        /// Check every row, say what would be imported, and write nothing.
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) fn run(args: Args, sources: &Sources) -> Result<(), Failure> {
    if args.demo {
        return block_on(async { crate::demo::inbox::run().await.map_err(Failure::from) });
    }
    let config = Config::load(sources)?;
    match args.action {
        None => block_on(async { crate::daemon::receive(config).await.map_err(Failure::from) }),
        Some(Action::Import { file, dry_run }) => {
            let max_attempts = config.settings.receive.terminal.max_attempts;
            block_on(async {
                let import = Import { store: &open_store(&config)?, file: &file, max_attempts, dry_run };
                let summary = import.run(show).await?;
                println!("{}", in_words(&summary, dry_run));
                Ok(())
            })
        }
    }
}

fn show(progress: Progress<'_>) {
    match progress {
        Progress::Refused { id, why } => println!("refused  {id}: {why}"),
        Progress::Imported { rows } => println!("imported {rows} so far"),
    }
}

fn in_words(summary: &Summary, dry_run: bool) -> String {
    let Summary { version, rows, imported, missing, same, moved_on, received_again } = summary;
    let new = if dry_run { format!("{missing} would be imported") } else { format!("{imported} imported") };
    format!(
        "ledger of version {version}: {rows} row(s), all sound; {new}, {same} stored as in the ledger, {moved_on} worked on \
         since, {received_again} received again before"
    )
}
