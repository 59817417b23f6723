//! `outboxd codes`: the closed list of outcome codes, as the metrics, logs and `last_error` use it.

use crate::verdict::{Cause, StatusPolicy};

#[derive(clap::Args)]
pub(super) struct Args {
    /// As a Markdown table, the one that the README shows.
    #[arg(long)]
    markdown: bool,
}

pub(super) fn run(args: &Args) {
    if args.markdown {
        println!("| code | the row is | under `policy = \"sdk\"` | who can mend it | meaning |\n|---|---|---|---|---|");
    }
    for cause in Cause::ALL {
        let [row, sdk] = [StatusPolicy::Default, StatusPolicy::Sdk].map(|policy| cause.class(policy).consequence());
        let (code, who, meaning) = (cause.code(), cause.blame().who(), cause.meaning());
        match args.markdown {
            true => println!("| `{code}` | {row} | {sdk} | {who} | {meaning} |"),
            false => println!("{code:<24} {row:<34} {who:<10} {meaning}"),
        }
    }
}
