//! Where a row is, what happens to it next, and what somebody should do: three sentences, made of facts alone.

use std::time::Duration;

use crate::cli::table::brief;
use crate::store::{KeptAttempt, Life, RowState, ShownParked};
use crate::verdict::{Cause, StatusPolicy};

pub(super) struct Outlook {
    pub(super) now: String,
    pub(super) next: String,
    pub(super) advice: Option<String>,
}

/// What is known beside the row.
pub(super) struct Circumstances {
    pub(super) parked: Option<ShownParked>,
    /// None: there is no list of them.
    pub(super) replicas: Option<usize>,
}

/// What has passed is no span.
pub(super) fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

impl Outlook {
    pub(super) fn of(life: &Life, around: &Circumstances) -> Outlook {
        match life.state {
            RowState::Delivered => delivered(life),
            RowState::Expired => expired(life),
            RowState::Invalid => quarantined(life),
            RowState::InFlight => held(life),
            RowState::Pending | RowState::Unknown if life.next_in > 0.0 => waiting(life),
            RowState::Pending | RowState::Unknown => due(life, around),
        }
    }

    /// Of a row that is not in the outbox any more.
    pub(super) fn of_gone(last: &KeptAttempt) -> Outlook {
        let ended = match last.status.as_deref() {
            Some("success") => "it was delivered".to_owned(),
            _ => format!("its last attempt ended with {}", last.code.as_deref().unwrap_or("an unknown outcome")),
        };
        Outlook {
            now: format!("{ended}, {} ago; its row is deleted, as rows are after their horizon", brief(last.fired_ago)),
            next: "nothing".into(),
            advice: None,
        }
    }
}

fn delivered(life: &Life) -> Outlook {
    let status = life.http_status.map(|status| format!(", answered with {status}")).unwrap_or_default();
    let ago = life.delivered_ago.map(|ago| format!(" {} ago", brief(ago))).unwrap_or_default();
    Outlook {
        now: format!("delivered{ago} at attempt {}{status}", life.attempts),
        next: "nothing; the row is deleted after its horizon".into(),
        advice: None,
    }
}

fn expired(life: &Life) -> Outlook {
    Outlook {
        now: format!("expired undelivered {} ago: {}", brief(life.changed_ago), last_outcome(life)),
        next: "nothing: it is not tried again".into(),
        advice: Some(format!("{}. Then requeue it: `outboxd requeue --task {}`", mend(life), life.task)),
    }
}

fn quarantined(life: &Life) -> Outlook {
    Outlook {
        now: format!(
            "quarantined {} ago, since no later attempt could end better: {}",
            brief(life.changed_ago),
            last_outcome(life)
        ),
        next: "nothing: it is not tried again".into(),
        advice: Some(format!("{}. Then requeue it: `outboxd requeue --task {}`", mend(life), life.task)),
    }
}

fn held(life: &Life) -> Outlook {
    if life.next_in > 0.0 {
        return Outlook {
            now: format!("attempt {} is under way, begun at most {} ago", life.attempts, brief(life.changed_ago)),
            next: format!(
                "it ends, or its lease does, in {}; then somebody else takes the row up",
                brief(span(life.next_in))
            ),
            advice: None,
        };
    }
    let over = brief(span(-life.next_in));
    Outlook {
        now: format!("whoever made attempt {} ended or was frozen: its lease is over since {over}", life.attempts),
        next: "the next claim takes it up; the receiver may get it twice, under the same key".into(),
        advice: None,
    }
}

fn waiting(life: &Life) -> Outlook {
    let now = match life.attempts {
        0 => "not due yet".to_owned(),
        _ => format!("waits after a failed attempt: {}", last_outcome(life)),
    };
    let last_call = match life.horizon_in {
        Some(left) if left > 0.0 => format!("; it is given up in {}", brief(span(left))),
        _ => String::new(),
    };
    let advice = cause(life).filter(|cause| *cause != Cause::Drained).map(|_| mend(life));
    Outlook { now, next: format!("it is tried again in {}{last_call}", brief(span(life.next_in))), advice }
}

fn due(life: &Life, around: &Circumstances) -> Outlook {
    let since = brief(span(-life.next_in));
    let destination = &life.destination;
    if life.horizon_in.is_some_and(|left| left <= 0.0) {
        return Outlook {
            now: format!("its horizon has passed: {}", last_outcome(life)),
            next: "the next sweep marks it expired".into(),
            advice: Some(mend(life)),
        };
    }
    if around.replicas == Some(0) {
        return Outlook {
            now: format!("due for {since}, and nobody delivers: no daemon wrote to this database within a minute"),
            next: "nothing, until one runs".into(),
            advice: Some("start `outboxd run`; if it runs, see its log and `outboxd check`".into()),
        };
    }
    if let Some(parked) = &around.parked {
        let until = match parked.left {
            left if left.is_zero() => "one row of it is tried now".to_owned(),
            left => format!("one row of it is tried in {}", brief(left)),
        };
        return Outlook {
            now: format!(
                "due for {since}, and its destination {destination} is parked since {}: {}, {} time(s) in a row",
                brief(parked.since),
                parked.reason,
                parked.trips
            ),
            next: format!("{until}; a reply lets the others go"),
            advice: Some(format!(
                "see whether the receiver is up; not to wait for the next try: `outboxd destinations --release {destination}`"
            )),
        };
    }
    Outlook {
        now: format!("due for {since}"),
        next: "it is claimed as soon as a slot, and its destination's share, is free".into(),
        advice: (-life.next_in > 60.0).then(|| "see `outboxd status` for what keeps it waiting".into()),
    }
}

/// What `last_error` says, explained.
fn last_outcome(life: &Life) -> String {
    let status = life.http_status.map(|status| format!(" ({status})")).unwrap_or_default();
    match (&life.code, cause(life)) {
        (Some(code), Some(cause)) => format!("{code}{status}: {}", cause.meaning().trim_end_matches('.')),
        (Some(code), None) => format!("{code}{status}"),
        (None, _) => "no attempt left an outcome".into(),
    }
}

fn cause(life: &Life) -> Option<Cause> {
    let code = life.code.as_deref()?.split(':').next()?;
    Cause::ALL.iter().copied().find(|cause| cause.code() == code)
}

/// Who can mend it. The runbook says how.
fn mend(life: &Life) -> String {
    match cause(life) {
        Some(cause) => format!(
            "this is for the {} to mend (`{}` in README, \"Outcome codes\"; such a row is {})",
            cause.blame().who(),
            cause.code(),
            cause.class(StatusPolicy::Default).consequence()
        ),
        None => "see what the outcome says".into(),
    }
}
