//! `outboxd man`: the manual pages, made of the same descriptions as `--help`. Installs nothing.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap_mangen::Man;

use super::Failure;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Write a page for each command into this directory, instead of the first page to standard output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) const HELP: &str = "\
  outboxd man | man -l -
  outboxd man --out /usr/local/share/man/man1";

pub(super) fn run(args: &Args, cli: clap::Command) -> Result<(), Failure> {
    match &args.out {
        Some(directory) => {
            let written = std::fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(cli, directory));
            written
                .with_context(|| format!("cannot write into {}", directory.display()))
                .map_err(Failure::cannot_create)
        }
        None => {
            // As the page that is written beside others has it.
            let cli = cli.disable_help_subcommand(true);
            let mut page = Vec::new();
            // A vector takes every write.
            Man::new(cli).render(&mut page).expect("memory takes every write");
            let written = io::stdout().write_all(&page);
            written.map_err(|error| Failure::io(format!("cannot write to standard output: {error}")))
        }
    }
}
