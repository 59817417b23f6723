//! `outboxd rekey`: seals open rows and registrations again under the newest key, beside running daemons. It decides
//! nothing; it shows how far the run is, and takes the signal to end it.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::outboxes::{Chosen, OutboxArgs};
use super::seal::print;
use super::{Failure, block_on};
use crate::config::Config;
use crate::deliver::keyring;
use crate::envelope::Keyring;
use crate::rekey::{End, Rekey, Summary, Tally, lagging};
use crate::store::Store;

/// Between two lines where there is no terminal to draw on.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Beyond two leases: a row that is delivered without end is free in between.
const PATIENCE_MARGIN: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only count what would be sealed again.
    #[arg(long)]
    dry_run: bool,
    /// Rows to read, seal and write at a time.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "ROWS")]
    batch: u32,
    /// At most so many rows a second. Without it as fast as the database goes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "ROWS_PER_S")]
    rate: Option<u32>,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
The newest key is the first of envelope.key_files. Every running replica must hold
it, or this refuses with exit code 75; a Python worker that lacks it must not run.
Rows under a live lease are waited for; finished rows stay as they are. What no
held key opens is counted, named and left alone. SIGINT and SIGTERM end the run
after the batch that is under way, with exit code 75; run it again to go on.

README, \"Rotating the envelope key\", has the whole procedure.

  outboxd rekey --dry-run
  outboxd rekey --rate 500";

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let ring = keyring(config)?;
    let chosen = args.outbox.open_all(config)?;
    let patience = config.settings.delivery.lease * 2 + PATIENCE_MARGIN;
    block_on(async {
        let stop = CancellationToken::new();
        end_on_signal(&stop)?;
        for outbox in &chosen {
            let done = rekey(args, outbox, &ring, patience, &stop).await;
            done.map_err(|failure| failure.about(&outbox.title()))?;
        }
        Ok(())
    })
}

async fn rekey(
    args: &Args,
    outbox: &Chosen,
    ring: &Keyring,
    patience: Duration,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let store = &outbox.store;
    if args.dry_run {
        warn_of_laggards(store, ring).await?;
    }
    let rekey = Rekey {
        store,
        ring,
        batch: args.batch as usize,
        rows_per_second: args.rate,
        dry_run: args.dry_run,
        patience,
        stop: stop.clone(),
    };
    let mut summary = Summary::default();
    let began = Instant::now();
    let mut display = Display::new();
    let end = rekey.run(&mut summary, &mut |summary| display.show(summary)).await;
    display.clear();
    // Whatever the end, what was done is done.
    if !summary.places.is_empty() {
        print(&report(args, outbox, ring, &summary, began.elapsed()))?;
    }
    match end? {
        End::Done => Ok(()),
        End::Held => {
            let rows = summary.total(|tally| tally.held);
            Err(Failure::not_yet(format!("{rows} stayed under leases or locks all the time; run it again later")))
        }
        End::Stopped => Err(Failure::not_yet("stopped before the end; run it again to go on".into())),
    }
}

async fn warn_of_laggards(store: &Store, ring: &Keyring) -> Result<(), Failure> {
    for replica in lagging(store, ring).await? {
        eprintln!("outboxd: replica {} lacks the newest key {}", replica.replica, ring.newest().fingerprint());
    }
    Ok(())
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

fn report(args: &Args, outbox: &Chosen, ring: &Keyring, summary: &Summary, took: Duration) -> String {
    let newest = ring.newest().fingerprint();
    let seconds = took.as_secs_f64();
    let rows = summary.total(|tally| tally.resealed);
    if args.json {
        let mut report = json!({
            "newest": newest,
            "dry_run": args.dry_run,
            "seconds": seconds,
            "rows_per_second": (rows as f64 / seconds.max(0.001)).round(),
            "places": summary.places,
        });
        outbox.put_name(&mut report);
        return format!("{report}\n");
    }
    let mut text = outbox.heading();
    text.extend(summary.places.iter().map(|tally| line(tally, args.dry_run)));
    let done = if args.dry_run { "would be sealed again" } else { "sealed again" };
    let rate = (rows as f64 / seconds.max(0.001)).round();
    text += &format!("{rows} {done} under {newest} in {seconds:.1} s ({rate} a second)\n");
    text
}

fn line(tally: &Tally, dry_run: bool) -> String {
    let Tally { place, resealed, current, ended, unopenable, first_unopenable, held } = tally;
    let done = if dry_run { "to seal again" } else { "sealed again" };
    let mut text =
        format!("{place:<14} {resealed} {done}, {current} under the newest key before, {ended} ended meanwhile");
    if *held > 0 {
        text += &format!(", {held} under leases or locks");
    }
    if *unopenable > 0 {
        text += &format!(", {unopenable} opened by no key held here: {}", first_unopenable.join(" "));
        if *unopenable > first_unopenable.len() as u64 {
            text += " ...";
        }
    }
    text + "\n"
}

/// How far a run is: drawn on a terminal, told in lines elsewhere; always on standard error.
pub(super) struct Display {
    bar: Option<ProgressBar>,
    began: Instant,
    told: Instant,
}

impl Display {
    pub(super) fn new() -> Display {
        let bar = std::io::stderr().is_terminal().then(|| {
            // The template is fixed, and good.
            let style =
                ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::new_spinner().with_style(style)
        });
        let now = Instant::now();
        Display { bar, began: now, told: now }
    }

    fn show(&mut self, summary: &Summary) {
        let resealed = summary.total(|tally| tally.resealed);
        let others = summary.total(|tally| tally.current + tally.ended + tally.unopenable);
        let rate = (resealed + others) as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        self.say(|| format!("{resealed} sealed again, {others} left as they were; {rate:.0} a second"));
    }

    pub(super) fn say(&mut self, text: impl Fn() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text());
            bar.tick();
        } else if self.told.elapsed() >= LINE_EVERY {
            self.told = Instant::now();
            eprintln!("{}", text());
        }
    }

    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
