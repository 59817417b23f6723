//! `outboxd doctor`: what `check` looks at, then what the last hour looked like, and what to do about it. Changes nothing.

use std::time::Duration;

use super::check;
use super::outboxes::{Chosen, OutboxArgs};
use super::table::{Table, brief, harmless};
use super::{Failure, block_on};
use crate::config::{Config, Sources};
use crate::store::{Holder, RecentRows, RowState};
use crate::verdict::{Cause, Class, StatusPolicy};

const LOOK_BACK: Duration = Duration::from_secs(3600);
/// Of the newest rows and of the open ones, each: half a second's work.
const LOOK_AT: u32 = 50_000;
const DUE_ROWS: u32 = 10_000;
const PARKED: u32 = 1000;
/// An idle daemon finds a row within seconds; what waits longer waits for something.
const LATE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
Looks at the configuration and the database as `outboxd check` does, at the rows
that changed in the last hour (of the newest 50,000 and of the 50,000 that are due
longest), and at who is in the way. Ends with what to do, the most urgent first.

  outboxd doctor --config outboxd.toml";

pub(super) fn run(args: &Args, sources: &Sources) -> Result<(), Failure> {
    let checked = check::run(&args.outbox, sources);
    // Without a configuration there is nothing to look at, and the lines above say why.
    let Ok(config) = Config::load(sources) else { return checked };
    let looked = block_on(async {
        for outbox in &args.outbox.open_all(&config)? {
            let done = look(outbox, &config).await;
            done.map_err(|failure| failure.about(&outbox.title()))?;
        }
        Ok(())
    });
    checked.and(looked)
}

async fn look(outbox: &Chosen, config: &Config) -> Result<(), Failure> {
    let store = &outbox.store;
    let recent = store.look_back(LOOK_AT, LOOK_BACK).await?;
    let backlog = store.sample_backlog(DUE_ROWS).await?;
    let replicas = store.list_replicas().await?;
    let parked = match store.shares_parking().await? {
        true => store.read_parked(PARKED, "").await?.len(),
        false => 0,
    };
    let holders = store.find_snapshots().await?.holders;
    let longest = config.settings.sweep.snapshot_warning;
    let holder = holders.into_iter().find(|holder| holder.since.is_some_and(|since| since > longest));

    println!("\n{}the last hour", outbox.title());
    if recent.is_empty() {
        println!("no row changed");
    } else {
        print!("{}", table(&recent));
    }
    let many = if backlog.due >= u64::from(DUE_ROWS) { "at least " } else { "" };
    match backlog.due {
        0 => println!("nothing is due"),
        due => println!("{many}{due} due, the oldest for {}", brief(backlog.oldest)),
    }
    let running = replicas.as_ref().map_or(0, Vec::len);
    let late = backlog.oldest > LATE;
    let mut advice = Vec::new();
    if late && replicas.is_some() && running == 0 {
        advice.push(
            "nobody delivers from this outbox: no replica has been seen for a minute. Start `outboxd run`.".into(),
        );
    } else if late {
        let why = if parked > 0 { format!("{parked} destinations are parked") } else { "the slots may be full".into() };
        advice.push(format!(
            "rows have been due for {} with {running} replicas: {why}. See `outboxd destinations`.",
            brief(backlog.oldest)
        ));
    }
    advice.extend(holder.map(|holder| in_the_way(&holder)));
    advice.extend(recent.iter().filter_map(advise));
    println!("\n{}what to do", outbox.title());
    match advice.as_slice() {
        [] => println!("nothing"),
        advice => advice.iter().enumerate().for_each(|(nth, line)| println!("{}. {line}", nth + 1)),
    }
    Ok(())
}

fn table(recent: &[RecentRows]) -> Table {
    let mut table = Table::new(&["STATE", " ROWS", "CODE", " DESTINATIONS", "MOST FOR"]);
    for rows in recent {
        table.row([
            rows.state.label().into(),
            rows.rows.to_string(),
            rows.code.clone(),
            rows.destinations.to_string(),
            if rows.most.is_empty() { "(known to their registrations)".into() } else { rows.most.clone() },
        ]);
    }
    table
}

fn in_the_way(holder: &Holder) -> String {
    let named = holder.name.as_deref().map(harmless).unwrap_or_default();
    let pid = holder.pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    format!(
        "{} \"{named}\"{pid} has kept dead rows from being removed for {}: end it, or the table grows.",
        holder.kind.label(),
        holder.since.map(brief).unwrap_or_default()
    )
}

/// Nothing where all is as it should be.
fn advise(rows: &RecentRows) -> Option<String> {
    let RecentRows { state, code, most, .. } = rows;
    let count = super::steer::rows(rows.rows);
    if *state == RowState::Delivered || code.is_empty() {
        return None;
    }
    let Some(cause) = Cause::ALL.iter().find(|cause| cause.code() == code) else {
        return Some(format!(
            "{count} {}: `{}` is no code of ours; a worker of the SDK left it.",
            state.label(),
            harmless(code)
        ));
    };
    let host = if most.is_empty() { String::new() } else { format!(" (most for {})", harmless(most)) };
    let again = match state {
        RowState::Invalid | RowState::Expired => {
            format!(" Once that is mended: `outboxd requeue --code {code}`.")
        }
        _ => match cause.class(StatusPolicy::Default) {
            Class::RetrySlow | Class::RetryThenQuarantine => {
                format!(" Not to wait for the next try then: `outboxd requeue --state pending --code {code}`.")
            }
            _ => String::new(),
        },
    };
    Some(format!("{count} {}{host}, `{code}`: {} {}{again}", state.label(), cause.meaning(), remedy(*cause)))
}

/// What an operator can do about it, as the runbook in README has it.
fn remedy(cause: Cause) -> &'static str {
    use Cause::*;
    match cause {
        EnvelopeUnopenable => "Compare `outboxd keys` with the key that the host seals with.",
        HttpUnauthorized => {
            "See whether the receiver knows the key: `outboxd check`, and `outboxd verify` with a captured request."
        }
        AddressForbidden | LiteralForbidden | UrlRefused => "`outboxd check-url URL` says which rule decides.",
        ScopeUnknown | ScopeRequired | ScopeUnexpected | ScopeMalformed | ScopeDecommissioned => {
            "`outboxd check` says which scopes there are."
        }
        SigningKeyRefused | SigningUnavailable => "`outboxd check` says what each signing key does.",
        TlsClientAuth => "Agree with the receiver on a client certificate.",
        LocalResources => "Raise the limit on descriptors, or lower delivery.slots.",
        ResolverDown => "Look at egress.dns_servers, or at /etc/resolv.conf.",
        Cancelled => "An operator did that; `select * from outboxd.list_changes()` says who.",
        RowMalformed | EnvelopeMalformed | EnvelopeMismatch | HmacDisabled | CredentialsUnsendable | BodyTooLarge => {
            "`outboxd open --id ID` says what is wrong with a row; the host that writes such rows has to be mended."
        }
        HttpConflict | HttpGone | HttpTooLarge | HttpLegal => "Ask the receiver.",
        ClocksApart => "Keep both clocks by NTP.",
        LeaseShort | Drained | PeerMismatch | Internal => "The log says more.",
        _ => "The receiver's to mend; its rows wait, and are tried again by themselves.",
    }
}
