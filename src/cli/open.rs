//! `outboxd open`: describes sealed rows, from the database or from standard input. Changes nothing.

use std::io::IsTerminal;

use super::outboxes::OutboxArgs;
use super::seal::{print, read_input, sealing};
use super::{Failure, block_on};
use crate::config::Config;
use crate::sealing::{Description, Sealer, Stored};
use crate::store::Store;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The outbox row of this task, or the registration of the task where it has not ended; else rows from standard input.
    #[arg(long, value_name = "TASK_ID", conflicts_with = "id")]
    task: Option<String>,
    /// The outbox row with this id.
    #[arg(long, value_name = "ID")]
    id: Option<i64>,
    /// Show the body too: what the receiver gets, with the token in it. Credentials are never shown.
    #[arg(long)]
    body: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
Exits with 0 where the daemon has nothing against a row, with 65 where it has,
and with 66 where there is no such row.

  outboxd open --task task_0123456789abcdef
  outboxd open --id 42 --body | jq -r .body
  psql -XAtc \"select row_to_json(o) from OUTBOX o where ...\" | outboxd open";

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let held = sealing(config)?;
    let sealer = held.sealer();
    let told = if args.task.is_some() || args.id.is_some() {
        let store = args.outbox.open_one(config)?;
        vec![block_on(find(args, &store, &sealer))?]
    } else {
        piped(args, &sealer)?
    };
    let pretty = std::io::stdout().is_terminal();
    print(&told.iter().map(|told| told.to_json(pretty) + "\n").collect::<String>())?;
    match told.iter().filter(|told| !told.is_good()).count() {
        0 => Ok(()),
        bad => Err(Failure::data(format!("{bad} of {} cannot be delivered as they are; see problems", told.len()))),
    }
}

fn piped(args: &Args, sealer: &Sealer<'_>) -> Result<Vec<Description>, Failure> {
    let input = read_input()?;
    let rows = Stored::read_batch(&input).map_err(|fault| Failure::data(fault.to_string()))?;
    let rows = rows.into_iter().enumerate().map(|(index, stored)| match stored {
        Ok(stored) => Ok(sealer.describe(stored, args.body)),
        Err(fault) => Err(Failure::data(format!("row {index}: {fault}"))),
    });
    rows.collect()
}

async fn find(args: &Args, store: &Store, sealer: &Sealer<'_>) -> Result<Description, Failure> {
    if let Some(found) = store.read_sealed(args.id, args.task.as_deref()).await? {
        let told = sealer.describe(Stored::Outbox(Box::new(found.row)), args.body);
        return Ok(told.stands(Some(found.id), found.state, found.last_error));
    }
    let Some(task) = &args.task else { return Err(Failure::absent("the outbox has no row with this id".into())) };
    let Some(found) = store.read_registration(task).await? else {
        return Err(Failure::absent("there is neither an outbox row nor a task with this id".into()));
    };
    let Some((ciphertext, nonce)) = found.sealed else {
        return Err(Failure::absent(format!("the task is {} and has no registration", found.state)));
    };
    let columns = [found.account_id, found.task_id, found.task_type];
    Ok(sealer.describe(Stored::Registration { columns, ciphertext, nonce }, args.body).stands(None, found.state, None))
}
