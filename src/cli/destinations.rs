//! `outboxd destinations`: where due rows are to go, and which destinations are parked, why, by whom and for how long. It
//! knows what the replicas share; how many attempts a replica gives to each is that replica's own.

use std::time::Duration;

use serde_json::{Value, json};

use super::outboxes::{Chosen, OutboxArgs};
use super::seal::print;
use super::table::harmless;
use super::{Failure, block_on};
use crate::config::Config;
use crate::store::{HandCap, ShownDestination, ShownParked};

/// Enough to see what piles up; the cost does not grow with the backlog.
const DUE_ROWS: u32 = 20_000;
const LOOKED_AT: u32 = 5_000;
const SHOWN: u32 = 1_000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Let these destinations go, as the list names them: each begins anew with one attempt at a time.
    #[arg(long, visible_alias = "resume", value_name = "NAME", value_parser = super::filter::destination)]
    release: Vec<String>,
    /// Leave these destinations alone, whatever they would answer: their rows wait, and keep their retry horizon.
    #[arg(long, value_name = "NAME", value_parser = super::filter::destination, requires_all = ["time", "reason"])]
    park: Vec<String>,
    /// For how long, for example 2h. Then one row is tried, as after any pause.
    #[arg(long = "for", id = "time", value_name = "TIME", value_parser = pause)]
    time: Option<Duration>,
    /// Give these destinations no more than `--most` attempts at once from each replica.
    #[arg(long, value_name = "NAME", value_parser = super::filter::destination, requires_all = ["most", "reason"])]
    cap: Vec<String>,
    /// How many attempts at once.
    #[arg(long, value_name = "ATTEMPTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    most: Option<u32>,
    /// Give these destinations as many as the configuration allows again.
    #[arg(long, value_name = "NAME", value_parser = super::filter::destination)]
    uncap: Vec<String>,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who, for the audit. By default the user and machine that this runs as.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
A destination is parked when it failed several times in a row, or when it asked
for it (Retry-After). Its rows wait, uncounted. When the time is over one row is
tried; a reply lets the destination go. Of many due rows some are counted, as in
100 or more.

  outboxd destinations
  outboxd destinations --park buyer.example.com --for 2h --reason 'their maintenance'
  outboxd destinations --release buyer.example.com
  outboxd destinations --cap buyer.example.com --most 2 --reason 'they asked for it'
  outboxd destinations --uncap buyer.example.com";

/// Rows of a parked destination may wait for it as long as their horizons allow.
fn pause(text: &str) -> Result<Duration, String> {
    let pause = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match pause.as_secs() {
        1..=604_800 => Ok(pause),
        _ => Err("from 1s to 7d".into()),
    }
}

pub(super) fn run(args: &Args, config: &Config) -> Result<(), Failure> {
    let chosen = args.outbox.open_all(config)?;
    block_on(async {
        for outbox in &chosen {
            let done = show(args, outbox).await;
            done.map_err(|failure| failure.about(&outbox.title()))?;
        }
        park(args, &chosen).await?;
        cap(args, &chosen).await?;
        for undo in [Undo::Park, Undo::Cap] {
            take_back(undo, args, &chosen).await?;
        }
        Ok(())
    })
}

async fn show(args: &Args, outbox: &Chosen) -> Result<(), Failure> {
    if !outbox.store.shares_parking().await? {
        return Err(Failure::config(
            "there is no list of parked destinations that this user may write: run `outboxd migrate`, or grant it \
             outboxd_daemon"
                .into(),
        ));
    }
    if [&args.release, &args.park, &args.cap, &args.uncap].iter().any(|names| !names.is_empty()) {
        return Ok(());
    }
    // Without the index each destination would take a look at every row.
    outbox.store.preflight().await?;
    if !outbox.store.finds_by_destination() {
        return Err(Failure::config(
            "no index finds rows by their destination, so that counting them would read them all: run `outboxd migrate`"
                .into(),
        ));
    }
    let (shown, are_more) = outbox.store.list_destinations(LOOKED_AT, DUE_ROWS, SHOWN).await?;
    let are_more = are_more || shown.len() >= SHOWN as usize;
    let caps = caps(outbox).await?;
    print(&match args.json {
        true => in_json(outbox, &shown, are_more, &caps),
        false => outbox.heading() + &in_words(&shown, are_more) + &caps_in_words(&caps),
    })
}

/// Parks each in all of the outboxes: whichever has rows for it.
async fn park(args: &Args, chosen: &[Chosen]) -> Result<(), Failure> {
    let (Some(time), Some(reason)) = (args.time, args.reason.as_deref()) else { return Ok(()) };
    let actor = super::steer::actor(args.actor.as_deref());
    for name in &args.park {
        for outbox in chosen {
            let done = outbox.store.park_by_hand(name, time.as_secs_f64(), reason, &actor).await;
            done.map_err(|error| Failure::from(error).about(&outbox.title()))?;
        }
        println!("{name} is parked for {}; every replica sees it within five seconds", spelt(time));
    }
    Ok(())
}

/// The same with how many attempts at once each may have.
async fn cap(args: &Args, chosen: &[Chosen]) -> Result<(), Failure> {
    let (Some(most), Some(reason)) = (args.most, args.reason.as_deref()) else { return Ok(()) };
    let actor = super::steer::actor(args.actor.as_deref());
    for name in &args.cap {
        for outbox in chosen {
            let done = outbox.store.cap_by_hand(name, most, reason, &actor).await;
            done.map_err(|error| Failure::from(error).about(&outbox.title()))?;
        }
        println!(
            "{name} gets {most} attempts at once at most from each replica; every one sees it within five seconds"
        );
    }
    Ok(())
}

/// What is taken back.
#[derive(Clone, Copy)]
enum Undo {
    Park,
    Cap,
}

/// In whichever outbox it stands.
async fn take_back(undo: Undo, args: &Args, chosen: &[Chosen]) -> Result<(), Failure> {
    let actor = super::steer::actor(args.actor.as_deref());
    let reason = args.reason.as_deref().unwrap_or("taken back by hand");
    let (names, what) = match undo {
        Undo::Park => (&args.release, "not parked"),
        Undo::Cap => (&args.uncap, "not capped"),
    };
    let mut absent = Vec::new();
    for name in names {
        let mut found = false;
        for outbox in chosen {
            let done = match undo {
                Undo::Park => outbox.store.release_by_hand(name, reason, &actor).await,
                Undo::Cap => outbox.store.uncap_by_hand(name, reason, &actor).await,
            };
            found |= done.map_err(|error| Failure::from(error).about(&outbox.title()))?;
        }
        match (found, undo) {
            (true, Undo::Park) => println!("{name} is let go; every replica sees it within a second"),
            (true, Undo::Cap) => println!("{name} is capped no more; every replica sees it within five seconds"),
            (false, _) => absent.push(name.to_owned()),
        }
    }
    match absent.as_slice() {
        [] => Ok(()),
        absent => Err(Failure::absent(format!("{what}: {}", absent.join(" ")))),
    }
}

/// What operators allow, as far as there is a list of it.
async fn caps(outbox: &Chosen) -> Result<Vec<HandCap>, Failure> {
    match outbox.store.shares_caps().await? {
        true => Ok(outbox.store.read_caps(SHOWN).await?),
        false => Ok(Vec::new()),
    }
}

fn caps_in_words(caps: &[HandCap]) -> String {
    let line = |cap: &HandCap| {
        let HandCap { destination, most, actor, reason, since } = cap;
        let (actor, reason) = (harmless(actor), harmless(reason));
        format!("{destination:<40}  at most {most} at once, said {actor} {} ago: {reason}\n", spelt(*since))
    };
    caps.iter().map(line).collect()
}

fn caps_in_json(caps: &[HandCap]) -> Value {
    let one = |cap: &HandCap| {
        let HandCap { destination, most, actor, reason, since } = cap;
        json!({
            "destination": destination, "most": most, "actor": actor, "reason": reason, "seconds_since": since.as_secs_f64(),
        })
    };
    caps.iter().map(one).collect()
}

fn in_words(shown: &[ShownDestination], are_more: bool) -> String {
    let mut text = String::new();
    for ShownDestination { destination, due, is_more, due_for, parked } in shown {
        let name = if destination.is_empty() { "(known to their registrations)" } else { destination };
        let waiting = match due_for {
            Some(oldest) => {
                format!("{due}{} due, the oldest for {}", if *is_more { " or more" } else { "" }, spelt(*oldest))
            }
            None => "none due".into(),
        };
        text += &format!("{name:<40}  {waiting}");
        if let Some(parked) = parked {
            text += &format!("; {}", parked_in_words(parked));
        }
        text += "\n";
    }
    if are_more {
        text += "there are more destinations than are shown\n";
    }
    if shown.is_empty() {
        text += "nothing is due and nothing is parked\n";
    }
    text
}

fn parked_in_words(parked: &ShownParked) -> String {
    let ShownParked { left, since, reason, trips, replica, prober } = parked;
    let state = match prober {
        _ if !left.is_zero() => format!("parked for {} more", spelt(*left)),
        Some(prober) => format!("being tried by {prober}"),
        None => "half-open, the next row is tried".into(),
    };
    let times = if *trips > 1 { format!(", {trips} times in a row") } else { String::new() };
    format!("{state}: {reason}{times}, since {}, seen by {replica}", spelt(*since))
}

fn in_json(outbox: &Chosen, shown: &[ShownDestination], are_more: bool, caps: &[HandCap]) -> String {
    let parked = |parked: &ShownParked| {
        json!({
            "state": match &parked.prober {
                _ if !parked.left.is_zero() => "parked",
                Some(_) => "probing",
                None => "half_open",
            },
            "seconds_left": parked.left.as_secs_f64(),
            "seconds_since": parked.since.as_secs_f64(),
            "reason": parked.reason, "times_in_a_row": parked.trips, "replica": parked.replica, "prober": parked.prober,
        })
    };
    let one = |shown: &ShownDestination| {
        json!({
            "destination": shown.destination, "due": shown.due, "more_due": shown.is_more,
            "oldest_due_seconds": shown.due_for.map(|oldest| oldest.as_secs_f64()),
            "parked": shown.parked.as_ref().map(parked),
        })
    };
    let destinations: Vec<Value> = shown.iter().map(one).collect();
    let mut all = json!({"destinations": destinations, "more_destinations": are_more, "caps": caps_in_json(caps)});
    outbox.put_name(&mut all);
    format!("{all}\n")
}

/// To the second, and finer below one.
fn spelt(span: Duration) -> String {
    let rough = if span.as_secs() > 0 {
        Duration::from_secs(span.as_secs())
    } else {
        Duration::from_millis(span.as_millis() as u64)
    };
    humantime::format_duration(rough).to_string()
}
