//! `outboxd why`: one webhook's life in plain words, from the outbox and the history. It decides nothing: what it foretells is
//! what the daemon's statements do with a row like this one.

mod outlook;

use serde_json::{Value, json};

use super::outboxes::{Chosen, OutboxArgs};
use super::seal::print;
use super::table::{Table, brief, harmless};
use super::tail::object;
use super::{Failure, block_on};
use crate::config::Config;
use crate::store::{KeptAttempt, Life, Steered, StoreError};
use outlook::{Circumstances, Outlook, span};

/// The newest that are shown; all of them count.
const ATTEMPTS: u32 = 50;
/// The newest of the audit that are looked through.
const AUDIT_LINES: u32 = 2000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The webhook's idempotency key, its task's id, or its row's number.
    #[arg(value_name = "KEY|TASK|ID")]
    webhook: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
Exits with 66 where neither the outbox nor the history knows of it. A row is
deleted when its horizon has passed; its attempts are kept for history.retention
and found by its key.

  outboxd why whk_5f0c8a1e
  outboxd why task_0123456789abcdef --json | jq -r .next";

/// All that was found.
struct Told {
    life: Option<Life>,
    /// The newest first. None: there is no history.
    attempts: Option<Vec<KeptAttempt>>,
    /// The last first.
    steered: Vec<Steered>,
    outlook: Outlook,
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let chosen = args.outbox.open_all(config)?;
    block_on(async {
        for outbox in &chosen {
            if let Some(told) = outbox.found(look(args, outbox).await).await? {
                return print(&match args.json {
                    true => told.in_json(outbox),
                    false => outbox.heading() + &told.in_words(),
                });
            }
        }
        Err(Failure::absent(format!(
            "neither the outbox nor the history has {}; a task that has not ended has no webhook yet",
            harmless(&args.webhook)
        )))
    })
}

async fn look(args: &Args, outbox: &Chosen) -> Result<Option<Told>, StoreError> {
    let store = &outbox.store;
    let name = args.webhook.as_str();
    let mut life = store.read_life(None, Some(name)).await?;
    if let (None, Ok(id)) = (&life, name.parse::<i64>()) {
        life = store.read_life(Some(id), None).await?;
    }
    let key = life.as_ref().map_or(name, |life| life.key.as_str());
    let attempts = store.read_attempts(key, ATTEMPTS).await?;
    let row = life.as_ref().map(|life| life.id).or(attempts.iter().flatten().map(|attempt| attempt.row).next());
    let steered = match row {
        Some(row) => store.read_steps(row, AUDIT_LINES).await?,
        None => Vec::new(),
    };
    let Some(life) = life else {
        let Some(last) = attempts.as_ref().and_then(|attempts| attempts.first()) else { return Ok(None) };
        let outlook = Outlook::of_gone(last);
        return Ok(Some(Told { life: None, attempts, steered, outlook }));
    };
    let parked = match life.destination.as_str() {
        "" => None,
        destination => store.read_destination(destination).await?,
    };
    let replicas = store.list_replicas().await?.map(|replicas| replicas.len());
    let outlook = Outlook::of(&life, &Circumstances { parked, replicas });
    Ok(Some(Told { life: Some(life), attempts, steered, outlook }))
}

impl Told {
    fn in_words(&self) -> String {
        let mut text = String::new();
        if let Some(life) = &self.life {
            text += &headline(life);
        } else if let Some(last) = self.attempts.as_ref().and_then(|attempts| attempts.first()) {
            text += &format!("{} ({}), account {}, key {}\n", last.task, last.task_type, last.account, last.key);
        }
        text += &self.attempts_in_words();
        for one in self.steered.iter().rev() {
            text += &in_words(one);
        }
        let Outlook { now, next, advice } = &self.outlook;
        text += &format!("\nnow   {now}\nnext  {next}\n");
        if let Some(advice) = advice {
            text += &format!("do    {advice}\n");
        }
        text.lines().map(|line| harmless(line) + "\n").collect()
    }

    fn attempts_in_words(&self) -> String {
        let Some(attempts) = &self.attempts else {
            return "there is no history of attempts here: run `outboxd migrate`\n".into();
        };
        let count = self.life.as_ref().map_or(0, |life| life.attempts);
        if attempts.is_empty() {
            return match count {
                0 => "no attempt so far\n".into(),
                _ => format!("{count} attempt(s), none of which left a record\n"),
            };
        }
        let mut table = Table::new(&[" ATTEMPT", "AGO", "OUTCOME", " HTTP", "CODE", " MS"]);
        for attempt in attempts.iter().rev() {
            table.row([
                attempt.attempt.to_string(),
                brief(attempt.fired_ago),
                attempt.status.clone().unwrap_or_else(|| "not fired".into()),
                attempt.http_status.map(|status| status.to_string()).unwrap_or_default(),
                attempt.code.clone().unwrap_or_default(),
                attempt.took_ms.to_string(),
            ]);
        }
        let url = attempts.first().map_or("", |last| last.url.as_str());
        let told = attempts.len() as u32;
        let missing = match (count > told && told < ATTEMPTS, told < ATTEMPTS) {
            (true, _) => format!(
                "{} attempt(s) left no record: whoever made them ended or lost the lease, is making one now, or is a worker \
                 of the SDK\n",
                count - told
            ),
            (false, true) => String::new(),
            (false, false) => "older attempts are not shown\n".into(),
        };
        format!("to {url}\n{table}{missing}")
    }

    fn in_json(&self, outbox: &Chosen) -> String {
        let Outlook { now, next, advice } = &self.outlook;
        let attempts: Option<Vec<_>> = self.attempts.as_ref().map(|all| all.iter().rev().map(object).collect());
        let steered: Vec<_> = self.steered.iter().rev().map(steered_object).collect();
        let mut all = json!({"now": now, "next": next, "do": advice, "attempts": attempts, "operators": steered});
        if let Some(life) = &self.life {
            let row = json!({
                "id": life.id, "task_id": life.task, "account_id": life.account, "task_type": life.task_type,
                "terminal_status": life.terminal_status, "idempotency_key": life.key, "signing_scope_id": life.scope,
                "destination": life.destination, "state": life.state.label(), "attempt_count": life.attempts,
                "age_seconds": life.age.as_secs_f64(), "horizon_in_seconds": life.horizon_in,
                "next_in_seconds": life.next_in, "last_http_status": life.http_status, "last_error": life.code,
            });
            all["row"] = row;
        }
        outbox.put_name(&mut all);
        format!("{all}\n")
    }
}

/// What an operator did, and why.
fn in_words(one: &Steered) -> String {
    let Steered { action, actor, reason, ago, former_key } = one;
    let key = former_key.as_ref().map(|key| format!("; its key was {key} before")).unwrap_or_default();
    format!("{action} by {actor} {} ago: {reason}{key}\n", brief(*ago))
}

fn steered_object(one: &Steered) -> Value {
    let Steered { action, actor, reason, ago, former_key } = one;
    json!({
        "action": action, "actor": actor, "reason": reason, "ago_seconds": ago.as_secs_f64(), "former_key": former_key,
    })
}

fn headline(life: &Life) -> String {
    let to = if life.destination.is_empty() { "where its registration says" } else { &life.destination };
    let begun = life.begun_ago.map(|ago| format!(", first tried {} ago", brief(ago))).unwrap_or_default();
    let horizon = match life.horizon_in {
        Some(left) if left > 0.0 => format!(", its horizon ends in {}", brief(span(left))),
        Some(past) => format!(", its horizon ended {} ago", brief(span(-past))),
        None => String::new(),
    };
    format!(
        "row {}: {} ({}, {}) of account {}, key {}\nto {to}, written {} ago{begun}{horizon}\n",
        life.id,
        life.task,
        life.task_type,
        life.terminal_status,
        life.account,
        life.key,
        brief(life.age)
    )
}
