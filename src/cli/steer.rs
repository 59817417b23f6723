//! `outboxd requeue`, `cancel`, `expire` and `purge`: many rows at once, counted first and changed only with `--run`. It
//! shows how far a run is and takes the signal to end it; what becomes of a row is the database's functions' business.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::filter::FilterArgs;
use super::outboxes::{Chosen, OutboxArgs};
use super::rekey::Display;
use super::seal::print;
use super::{Failure, block_on};
use crate::config::Config;
use crate::deliver::keyring;
use crate::envelope::Keyring;
use crate::steer::{End, Steer, Survey, Tally, survey, uuid};
use crate::store::{Action, Filter, Steerable};

/// Beyond two leases: a row that is delivered without end is free in between.
const PATIENCE_MARGIN: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Do it. Without this it only counts.
    #[arg(long, visible_alias = "yes", requires = "reason")]
    run: bool,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Who, for the audit. By default the user and machine that this runs as.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Every row that this can be done to, where no filter says which.
    #[arg(long)]
    all: bool,
    /// Go on with a run that was interrupted, with its filter; the run's id was printed, and is in the audit.
    #[arg(long, value_name = "RUN", requires = "run")]
    resume: Option<String>,
    /// At most so many rows a second. 0: as fast as the database goes.
    #[arg(long, default_value_t = 1000, value_name = "ROWS_PER_S")]
    rate: u32,
    /// Rows in one transaction.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "ROWS")]
    batch: u32,
    /// At most so many rows in all.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "ROWS")]
    limit: Option<u64>,
    /// Print one JSON object for each outbox.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const REQUEUE: &str = "\
Rows that were quarantined or expired are due again at once; with --state pending
also those that wait for their next try, and with --state delivered those that
were delivered. Until its retry horizon a row keeps its idempotency key, so that a
receiver who took it before takes it for a repeat, and the horizon does not move.
Past it the row gets a fresh key and a new horizon, which is said and written
down; what is sealed is opened and sealed again for that, by envelope.key_files.

Without --run it only counts. SIGINT and SIGTERM end a run after the batch that is
under way, with exit code 75 and the words to go on with.

  outboxd requeue --code envelope_unopenable
  outboxd requeue --code envelope_unopenable --run --reason 'key restored, INC-7'
  outboxd requeue --state pending --destination buyer.example.com --run --reason 'buyer is back'";

pub(super) const CANCEL: &str = "\
Open rows are quarantined as `cancelled`, and can be requeued until their horizon.
A row under a live lease is waited for: its receiver may have taken it already.
Without --run it only counts; a run that was interrupted is run again.

  outboxd cancel --account acc_7
  outboxd cancel --account acc_7 --run --reason 'account closed, INC-8'";

pub(super) const EXPIRE: &str = "\
Open rows are ended as though their retry horizon were over, with the code of
their last attempt. A row under a live lease is waited for. Without --run it only
counts; a run that was interrupted is run again.

  outboxd expire --older-than 2d --destination dead.example
  outboxd expire --older-than 2d --destination dead.example --run --reason 'gone for good'";

pub(super) const PURGE: &str = "\
Finished rows past their retry horizon are deleted, as `run` does by itself every
sweep.purge_interval. Until then a row proves what became of it and keeps its task
from being announced twice, so that none is deleted before. Without --run it only
counts.

  outboxd purge --all
  outboxd purge --state delivered --run --reason 'disk is full'";

/// What is written down must say something.
fn reason(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("say why") } else { Ok(text.to_owned()) }
}

pub(super) fn run(action: Action, args: &Args, config: &Config) -> Result<(), Failure> {
    let filter = args.filter.filter();
    judge(action, args, &filter)?;
    // Only what is past its horizon and sealed needs a key, and whether there is any is not known yet.
    let ring = match action {
        Action::Requeue => keyring(config).ok(),
        Action::Cancel | Action::Expire | Action::Purge => None,
    };
    let patience = config.settings.delivery.lease * 2 + PATIENCE_MARGIN;
    let chosen = args.outbox.open_all(config)?;
    block_on(async {
        let stop = CancellationToken::new();
        end_on_signal(&stop)?;
        let command = Command { action, args, filter: &filter, ring: ring.as_ref(), patience, stop };
        for outbox in &chosen {
            let done = command.on(outbox).await;
            done.map_err(|failure| failure.about(&outbox.title()))?;
        }
        Ok(())
    })
}

/// Whatever of the words can be judged without a database.
fn judge(action: Action, args: &Args, filter: &Filter) -> Result<(), Failure> {
    let name = action.name();
    let meant = *filter != Filter::default();
    if args.resume.is_some() && (meant || args.all) {
        return Err(Failure::usage("--resume goes on with the filter of its run; leave the others out".into()));
    }
    if !meant && !args.all && args.resume.is_none() {
        return Err(Failure::usage(format!(
            "say which rows to {name}, by --code, --destination and the like, or --all"
        )));
    }
    let may: &[&str] = match action {
        Action::Requeue => &["invalid", "expired", "delivered", "pending"],
        Action::Cancel | Action::Expire => &["pending", "in_flight"],
        Action::Purge => &["delivered", "expired", "invalid"],
    };
    match filter.states.iter().find(|state| !may.contains(&state.label())) {
        Some(state) => Err(Failure::usage(format!(
            "{name} is not for rows in state {}, but for {}",
            state.label(),
            may.join(", ")
        ))),
        None => Ok(()),
    }
}

fn end_on_signal(stop: &CancellationToken) -> Result<(), Failure> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let refused = |error| Failure::system(format!("cannot listen to signals: {error}"));
        let mut signal = signal(kind).map_err(refused)?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signal.recv().await;
            stop.cancel();
        });
    }
    Ok(())
}

/// As the audit names whoever gave no name.
pub(super) fn actor(given: Option<&str>) -> String {
    given.map_or_else(
        || {
            let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
            let user = user.map_or_else(|| nix::unistd::getuid().to_string(), |user| user.name);
            let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
            format!("{user}@{host}")
        },
        str::to_owned,
    )
}

struct Command<'a> {
    action: Action,
    args: &'a Args,
    filter: &'a Filter,
    ring: Option<&'a Keyring>,
    patience: Duration,
    stop: CancellationToken,
}

/// What a run is about: given now, or read from the run that it goes on with.
struct Subject {
    run: String,
    filter: String,
    after: i64,
    before: u64,
}

impl Command<'_> {
    async fn on(&self, outbox: &Chosen) -> Result<(), Failure> {
        may(outbox).await?;
        match self.args.run {
            true => self.do_it(outbox).await,
            false => self.count(outbox).await,
        }
    }

    async fn count(&self, outbox: &Chosen) -> Result<(), Failure> {
        let mut display = Display::new();
        let mut looked = |survey: Survey| display.say(|| format!("{} found", survey.matched));
        let counted = survey(&outbox.store, self.action, &self.filter.to_json(), 0, &mut looked).await;
        display.clear();
        let counted = counted?;
        let name = self.action.name();
        print(&match self.args.json {
            true => {
                let mut report = json!({"action": name, "dry_run": true});
                merge(&mut report, &counted);
                outbox.put_name(&mut report);
                format!("{report}\n")
            }
            false => outbox.heading() + &would(self.action, &counted),
        })
    }

    async fn do_it(&self, outbox: &Chosen) -> Result<(), Failure> {
        let Subject { run, filter, after, before } = self.subject(outbox).await?;
        let args = self.args;
        let actor = actor(args.actor.as_deref());
        let steer = Steer {
            store: &outbox.store,
            action: self.action,
            filter: &filter,
            run: &run,
            actor: &actor,
            // Asked for by the parser.
            reason: args.reason.as_deref().unwrap_or_default(),
            ring: self.ring,
            batch: args.batch as usize,
            rows_per_second: Some(args.rate).filter(|rate| *rate > 0),
            most: args.limit,
            after,
            patience: self.patience,
            stop: self.stop.clone(),
        };
        let meant = survey(&outbox.store, self.action, &filter, after, &mut |_| {}).await?;
        let whole = args.limit.map_or(meant.matched, |limit| meant.matched.min(limit));
        let (mut tally, began, mut display) = (Tally::default(), Instant::now(), Display::new());
        let end = steer.run(&mut tally, &mut |tally| display.say(|| progress(self.action, tally, whole, began))).await;
        display.clear();
        // Whatever the end, what was done is done.
        print(&self.report(outbox, &run, &actor, &tally, before, began.elapsed()))?;
        match end? {
            End::Done | End::Enough => self.left(&tally),
            End::Held => Err(Failure::not_yet(format!(
                "{} stayed under leases or locks all the time; run it again later",
                tally.held
            ))),
            End::Stopped => Err(Failure::not_yet(format!(
                "stopped before the end; go on with: outboxd {} --run --reason ... --resume {run}",
                self.action.name()
            ))),
        }
    }

    async fn subject(&self, outbox: &Chosen) -> Result<Subject, Failure> {
        let Some(run) = &self.args.resume else {
            return Ok(Subject { run: uuid(), filter: self.filter.to_json(), after: 0, before: 0 });
        };
        let found = outbox.store.read_run(run).await?;
        let found = found.ok_or_else(|| Failure::absent(format!("there is no run {run} that changed something")))?;
        if found.action != self.action.name() {
            return Err(Failure::usage(format!("run {run} is one of `outboxd {}`", found.action)));
        }
        Ok(Subject { run: run.clone(), filter: found.filter, after: found.through, before: found.rows })
    }

    /// Rows that could not be done for want of a key are no success.
    fn left(&self, tally: &Tally) -> Result<(), Failure> {
        match (tally.sealed, tally.unopenable) {
            (0, 0) => Ok(()),
            (0, rows) => Err(Failure::data(format!(
                "{rows} past their horizon are opened by no key of envelope.key_files, so that they cannot be given a fresh \
                 idempotency key"
            ))),
            (rows, _) => Err(Failure::config(format!(
                "{rows} past their horizon are sealed, and need envelope.key_files to be given a fresh idempotency key"
            ))),
        }
    }

    fn report(&self, outbox: &Chosen, run: &str, actor: &str, tally: &Tally, before: u64, took: Duration) -> String {
        let seconds = took.as_secs_f64();
        if self.args.json {
            let mut report = json!({
                "action": self.action.name(), "dry_run": false, "run": run, "actor": actor, "seconds": seconds,
                "changed_before": before,
            });
            merge(&mut report, tally);
            outbox.put_name(&mut report);
            return format!("{report}\n");
        }
        let mut text = outbox.heading();
        text += &format!("{} {} in {seconds:.1} s, run {run} by {actor}\n", done(self.action), rows(tally.changed));
        if before > 0 {
            text += &format!("{} had been done before\n", rows(before));
        }
        if tally.fresh > 0 {
            text += &format!("{} of them, past their horizon, under a fresh idempotency key\n", tally.fresh);
        }
        if tally.unopenable > 0 {
            let named: Vec<String> = tally.first_unopenable.iter().map(i64::to_string).collect();
            text +=
                &format!("{} left as they are: no key held here opens them: {}\n", tally.unopenable, named.join(" "));
        }
        text
    }
}

/// Whether this outbox has what the commands run, for this user.
pub(super) async fn may(outbox: &Chosen) -> Result<(), Failure> {
    match outbox.store.find_steering().await? {
        Steerable::Yes => Ok(()),
        Steerable::Absent => Err(Failure::config(format!(
            "this database lacks the functions for operators that go with table {}: run `outboxd migrate`",
            outbox.table
        ))),
        Steerable::Forbidden { user } => {
            Err(Failure::permission(format!("the database user {user} may not do that: grant it outboxd_operator")))
        }
    }
}

fn merge(report: &mut serde_json::Value, part: &impl serde::Serialize) {
    if let Ok(serde_json::Value::Object(members)) = serde_json::to_value(part) {
        for (name, value) in members {
            report[name] = value;
        }
    }
}

pub(super) fn rows(count: u64) -> String {
    if count == 1 { "1 row".into() } else { format!("{count} rows") }
}

fn done(action: Action) -> &'static str {
    match action {
        Action::Requeue => "requeued",
        Action::Cancel => "cancelled",
        Action::Expire => "expired",
        Action::Purge => "deleted",
    }
}

fn would(action: Action, counted: &Survey) -> String {
    let Survey { matched, fresh_keys, sealed, held } = *counted;
    let mut text = format!("would {} {}\n", action.name(), rows(matched));
    if fresh_keys > 0 {
        text += &format!(
            "  {} under the idempotency key that they have\n  {fresh_keys} past their horizon, under a fresh key and with a new \
             horizon",
            matched - fresh_keys
        );
        if sealed > 0 {
            text += &format!("; {sealed} of these are opened and sealed again");
        }
        text += "\n";
    }
    if held > 0 {
        text += &format!("  {held} of them under a lease now, to be waited for\n");
    }
    text + "nothing was changed; to do it, add --run --reason '...'\n"
}

fn progress(action: Action, tally: &Tally, whole: u64, began: Instant) -> String {
    let rate = tally.changed as f64 / began.elapsed().as_secs_f64().max(0.001);
    format!("{} {} of {whole}; {rate:.0} a second", done(action), tally.changed)
}
