//! `outboxd doctor`: what `check` looks at, then what the last hour looked like, and what to do about it. Changes nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::check;
use super::outboxes::{Chosen, OutboxArgs};
use super::seal::print;
use super::table::{Table, brief, harmless};
use super::{Failure, block_on};
use crate::config::{Config, Sources};
use crate::store::{Backlog, Holder, RecentRows, RowState};
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
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    outbox: OutboxArgs,
}

pub(super) const HELP: &str = "\
Looks at the configuration and the database as `outboxd check` does, at the rows
that changed in the last hour (of the newest 50,000 and of the 50,000 that are due
longest), and at who is in the way. Ends with what to do, the most urgent first.

  outboxd doctor --config outboxd.toml";

pub(super) fn run(args: &Args, sources: &Sources) -> Result<(), Failure> {
    let (findings, checked) = check::look(&args.outbox, sources, args.json);
    // Without a configuration there is nothing to look at, and that was said.
    let Ok(config) = Config::load(sources) else { return checked };
    let (mut seen, mut end) = (Vec::new(), Ok(()));
    if checked.is_ok() || args.json {
        end = block_on(async {
            for outbox in &args.outbox.open_all(&config)? {
                let looked = look(outbox, &config).await;
                seen.push((
                    outbox.title(),
                    outbox.name.clone(),
                    looked.map_err(|failure| failure.about(&outbox.title()))?,
                ));
            }
            Ok(())
        });
    }
    if args.json {
        let outboxes: Vec<Value> = seen.iter().map(|(_, name, seen)| seen.in_json(name.as_deref())).collect();
        print(&format!("{}\n", json!({"ready": checked.is_ok(), "findings": findings, "outboxes": outboxes})))?;
    } else {
        for (title, _, seen) in &seen {
            print(&seen.in_words(title))?;
        }
    }
    checked.and(end)
}

/// What one outbox looks like.
struct Seen {
    recent: Vec<RecentRows>,
    backlog: Backlog,
    replicas: usize,
    parked: usize,
    /// The most urgent first.
    advice: Vec<String>,
}

async fn look(outbox: &Chosen, config: &Config) -> Result<Seen, Failure> {
    let store = &outbox.store;
    let recent = store.look_back(LOOK_AT, LOOK_BACK).await?;
    let backlog = store.sample_backlog(DUE_ROWS, &[]).await?;
    let listed = store.list_replicas().await?;
    let parked = match store.shares_parking().await? {
        true => store.read_parked(PARKED, "").await?.len(),
        false => 0,
    };
    let holders = store.find_snapshots().await?.holders;
    let longest = config.settings.sweep.snapshot_warning;
    let holder = holders.into_iter().find(|holder| holder.since.is_some_and(|since| since > longest));

    let replicas = listed.as_ref().map_or(0, Vec::len);
    let late = backlog.oldest > LATE;
    let mut advice = Vec::new();
    if late && listed.is_some() && replicas == 0 {
        advice.push(
            "nobody delivers from this outbox: no replica has been seen for a minute. Start `outboxd run`.".into(),
        );
    } else if late {
        let why = if parked > 0 { format!("{parked} destinations are parked") } else { "the slots may be full".into() };
        let waits = brief(backlog.oldest);
        advice.push(format!(
            "rows have been due for {waits} with {replicas} replicas: {why}. See `outboxd destinations`."
        ));
    }
    advice.extend(holder.map(|holder| in_the_way(&holder)));
    advice.extend(recent.iter().filter_map(advise));
    Ok(Seen { recent, backlog, replicas, parked, advice })
}

impl Seen {
    fn in_words(&self, title: &str) -> String {
        let mut text = format!("\n{title}the last hour\n");
        match self.recent.as_slice() {
            [] => text += "no row changed\n",
            recent => text += &table(recent).to_string(),
        }
        let many = if self.backlog.due >= u64::from(DUE_ROWS) { "at least " } else { "" };
        text += &match self.backlog.due {
            0 => "nothing is due\n".to_owned(),
            due => format!("{many}{due} due, the oldest for {}\n", brief(self.backlog.oldest)),
        };
        text += &format!("\n{title}what to do\n");
        if self.advice.is_empty() {
            text += "nothing\n";
        }
        for (nth, line) in self.advice.iter().enumerate() {
            text += &format!("{}. {line}\n", nth + 1);
        }
        text
    }

    fn in_json(&self, name: Option<&str>) -> Value {
        let recent = |rows: &RecentRows| {
            json!({
                "state": rows.state.label(), "code": rows.code, "rows": rows.rows, "destinations": rows.destinations,
                "most_for": rows.most,
            })
        };
        json!({
            "outbox": name, "last_hour": self.recent.iter().map(recent).collect::<Vec<_>>(), "due": self.backlog.due,
            "oldest_due_seconds": self.backlog.oldest.as_secs_f64(), "replicas": self.replicas, "parked": self.parked,
            "advice": self.advice,
        })
    }
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
