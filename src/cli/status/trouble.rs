//! What is wrong with an outbox and what to do about it, one sentence each, the most urgent first. It looks at nothing.

use std::time::Duration;

use super::{ENVELOPE_KEY, Standing};
use crate::cli::outboxes::in_the_way;
use crate::cli::table::brief;
use crate::store::Blocker;
use crate::verdict::{Blame, Cause};

/// Signatures of a clock that is further off are refused.
const SKEW_STOPS: f64 = 30.0;
/// A daemon looks for rows many times within this.
const LATE: Duration = Duration::from_secs(60);
const HELD_LONG: Duration = Duration::from_secs(5);

impl Standing {
    pub(super) fn trouble(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.of_locks(&mut all);
        self.of_delivery(&mut all);
        self.of_codes(&mut all);
        self.of_destinations(&mut all);
        self.of_keys(&mut all);
        if let Some((holder, since)) = &self.holder {
            all.push(format!(
                "{holder} holds a snapshot since {}, so that dead rows cannot be removed and claims become slow: end it",
                brief(*since)
            ));
        }
        let undelivered = self.states.invalid + self.states.expired;
        if undelivered > 0 {
            all.push(format!(
                "{undelivered} webhook(s) were given up undelivered: `outboxd list --state invalid,expired`, and \
                 `outboxd why ID` for each"
            ));
        }
        all
    }

    /// Migrations, too, hold some for a moment.
    fn of_locks(&self, all: &mut Vec<String>) {
        let matters = |one: &&Blocker| one.waiting > 0 || one.since.is_none_or(|since| since > HELD_LONG);
        all.extend(self.blockers.iter().filter(matters).map(in_the_way));
    }

    fn of_delivery(&self, all: &mut Vec<String>) {
        let due = self.backlog.due > 0;
        if self.replicas.as_ref().is_some_and(Vec::is_empty) {
            let rows = if due { format!(" though {} row(s) are due", self.backlog.due) } else { String::new() };
            all.push(format!(
                "nobody delivers{rows}: no daemon wrote to this database within a minute; start `outboxd run`, or see its log"
            ));
        } else if due && self.backlog.oldest > LATE && self.recent.as_ref().is_some_and(Vec::is_empty) {
            all.push(format!(
                "nothing was attempted within a minute though rows are due for {}: see /readyz and the log of the daemons",
                brief(self.backlog.oldest)
            ));
        }
        if self.skew.abs() > SKEW_STOPS {
            all.push(format!(
                "the database's clock is {:+.0} s off this machine's; on a daemon's machine nothing would be sent: see NTP on both",
                self.skew
            ));
        }
    }

    /// What failed within the last minute for a reason that is not the receivers'.
    fn of_codes(&self, all: &mut Vec<String>) {
        let failed = self.recent.iter().flatten().filter_map(|(code, attempts)| Some((code.as_deref()?, attempts)));
        for (code, attempts) in failed {
            let Some(cause) = Cause::ALL.iter().find(|cause| cause.code() == code) else { continue };
            if cause.blame() != Blame::Receiver {
                all.push(format!(
                    "{attempts} attempt(s) ended with {code} within a minute, for the {} to mend: {}",
                    cause.blame().who(),
                    cause.meaning()
                ));
            }
        }
    }

    fn of_destinations(&self, all: &mut Vec<String>) {
        for shown in &self.destinations {
            let Some(parked) = &shown.parked else { continue };
            all.push(format!(
                "destination {} fails since {} ({}, {} time(s) in a row), {} row(s) wait for it: see whether it is up, or \
                 `outboxd destinations --release {}`",
                shown.destination,
                brief(parked.since),
                parked.reason,
                parked.trips,
                shown.due,
                shown.destination
            ));
        }
    }

    /// What one replica opens and another does not, fails where it must not.
    fn of_keys(&self, all: &mut Vec<String>) {
        let replicas = self.replicas.as_ref().map_or(0, Vec::len);
        for (kind, key, holders) in self.keys() {
            if kind == ENVELOPE_KEY && holders < replicas {
                all.push(format!(
                    "{kind} {key} is held by {holders} of {replicas} replicas: give it to all, see `outboxd keys`"
                ));
            }
        }
    }
}
