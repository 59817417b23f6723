//! `outboxd list`: the rows of the outbox, newest first, page by page, filtered. It shows nothing that is sealed, and changes
//! nothing.

use serde_json::{Value, json};

use super::filter::FilterArgs;
use super::outboxes::{Chosen, OutboxArgs};
use super::seal::print;
use super::table::{Table, brief};
use super::{Failure, block_on};
use crate::config::Config;
use crate::store::{ListedBy, MissedIndex, Page, RowState, ShownRow};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// Rows on a page.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// The page after this one: the id that the page before ended with.
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Print one JSON object: the rows, and what --after takes for the next page.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
NEXT says when the row is tried again, or when the lease of the attempt under
way ends. What a row's whole life was, and what comes next: outboxd why ID

  outboxd list --state invalid --newer-than 1d
  outboxd list --destination buyer.example.com --code http_server_error";

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let chosen = args.outbox.open_all(config)?;
    if args.after.is_some() && chosen.len() > 1 {
        return Err(Failure::usage("--after continues the page of one outbox: name it with --outbox".into()));
    }
    block_on(async {
        for outbox in &chosen {
            let page = outbox.store.list_rows(&args.filter.filter(), args.after, args.limit).await;
            let page = outbox.found(page).await?;
            print(&match args.json {
                true => in_json(outbox, &page),
                false => outbox.heading() + &in_words(&page),
            })?;
            if let (false, Some(missed)) = (args.json, &page.missed) {
                eprintln!("outboxd: {}{}", outbox.title(), why_long(missed));
            }
        }
        Ok(())
    })
}

fn in_words(page: &Page) -> String {
    if page.rows.is_empty() {
        return "no rows\n".into();
    }
    let mut table =
        Table::new(&[" ID", "STATE", " AGE", " ATTEMPTS", "NEXT", "LAST", "ACCOUNT", "DESTINATION", "TASK"]);
    for row in &page.rows {
        table.row([
            row.id.to_string(),
            row.state.label().into(),
            brief(row.age),
            row.attempts.to_string(),
            next(row),
            last(row),
            row.account.clone(),
            row.destination.clone(),
            row.task.clone(),
        ]);
    }
    let more = page.below.map(|id| format!("there may be more: --after {id}\n"));
    format!("{table}{}", more.unwrap_or_default())
}

/// What made it take long, and what does away with that.
fn why_long(missed: &MissedIndex) -> String {
    let MissedIndex { looked, by, create, drop } = missed;
    let (by, those) = match by {
        ListedBy::Account => ("--account", "that account's"),
        ListedBy::Destination => ("--destination", "those for that destination"),
    };
    let looked = format!("this looked through {} rows, since no index serves {by}", grouped(*looked));
    match drop {
        None => format!(
            "{looked}. With this one it looks at {those} alone, and every webhook writes three index entries more; making it \
             blocks no writer, and is for the table's owner: {create}"
        ),
        Some(drop) => format!(
            "{looked} yet: the one that was begun is not ready. If nobody is building it now, its build was interrupted: as the \
             table's owner run first {drop} and then {create}"
        ),
    }
}

/// Digits by threes.
fn grouped(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}

fn next(row: &ShownRow) -> String {
    match (row.state, row.next_in) {
        (RowState::Pending, None) => "due".into(),
        (RowState::Pending, Some(left)) => format!("in {}", brief(left)),
        (RowState::InFlight, Some(left)) => format!("lease {}", brief(left)),
        (RowState::InFlight, None) => "lease over".into(),
        _ => String::new(),
    }
}

fn last(row: &ShownRow) -> String {
    match (&row.code, row.http_status) {
        (Some(code), Some(status)) => format!("{code} ({status})"),
        (Some(code), None) => code.clone(),
        (None, Some(status)) => status.to_string(),
        (None, None) => String::new(),
    }
}

fn in_json(outbox: &Chosen, page: &Page) -> String {
    let one = |row: &ShownRow| {
        json!({
            "id": row.id, "state": row.state.label(), "account_id": row.account, "task_id": row.task,
            "idempotency_key": row.key, "destination": row.destination, "attempt_count": row.attempts,
            "age_seconds": row.age.as_secs_f64(), "next_in_seconds": row.next_in.map(|left| left.as_secs_f64()),
            "last_http_status": row.http_status, "last_error": row.code,
        })
    };
    let rows: Vec<Value> = page.rows.iter().map(one).collect();
    let mut all = json!({"rows": rows, "after": page.below});
    outbox.put_name(&mut all);
    format!("{all}\n")
}
