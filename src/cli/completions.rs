//! `outboxd completions`: the script by which a shell completes our commands and options. Installs nothing.

use std::io;

use clap_complete::{Shell, generate};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The shell that reads it.
    shell: Shell,
}

pub(super) const HELP: &str = "\
  outboxd completions bash > /usr/share/bash-completion/completions/outboxd
  outboxd completions zsh  > /usr/share/zsh/vendor-completions/_outboxd
  outboxd completions fish > /usr/share/fish/vendor_completions.d/outboxd.fish";

pub(super) fn run(args: &Args, mut cli: clap::Command) {
    generate(args.shell, &mut cli, "outboxd", &mut io::stdout());
}
