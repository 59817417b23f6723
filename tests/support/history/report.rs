//! What the judge found: counts, each breach in words, and each duplicate's cause.

use std::collections::BTreeMap;
use std::fmt;

/// Each list names keys, with what is wrong.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub enqueued: usize,
    pub delivered: usize,
    pub expired: usize,
    pub invalid: usize,
    /// Whole requests, and those of them that were answered with a 2xx.
    pub receipts: usize,
    pub accepted: usize,
    /// Rows that were granted, over all: more than receipts where workers died early.
    pub grants: usize,
    /// The host never learned of its commit, and the row was delivered.
    pub recovered: usize,
    /// A receiver took it, and the row ended otherwise: the reply was lost, and time ran out.
    pub accepted_otherwise: usize,
    /// Committed and gone, or told to be delivered though nobody had taken it (P1, P2).
    pub lost: Vec<String>,
    /// Received though nobody committed it, or before anybody held it.
    pub unexpected: Vec<String>,
    /// Other bytes than were committed (P7).
    pub wrong_bytes: Vec<String>,
    /// Settled by somebody who did not hold the row, or by a statement that asked for no token (P3).
    pub settled_by_others: Vec<String>,
    /// Two grants at once (P4), a grant past the horizon (P9), an end under a live lease (P10), a way out of an end (P11).
    pub unlawful: Vec<String>,
    /// Neither ended nor gone (P12).
    pub unsettled: Vec<String>,
    /// By cause: why an earlier 2xx was not recorded (P6).
    pub duplicates: BTreeMap<String, usize>,
    /// Duplicates without one.
    pub unexplained: Vec<String>,
}

impl Report {
    /// What may not happen, whatever was broken.
    pub fn breaches(&self) -> Vec<String> {
        let lists = [
            ("lost", &self.lost),
            ("unexpected", &self.unexpected),
            ("wrong bytes", &self.wrong_bytes),
            ("settled by a non-holder", &self.settled_by_others),
            ("unlawful", &self.unlawful),
            ("duplicated without a cause", &self.unexplained),
        ];
        lists.into_iter().flat_map(|(title, list)| list.iter().map(move |one| format!("{title}: {one}"))).collect()
    }

    pub fn assert_sound(&self) {
        let breaches = self.breaches();
        assert!(breaches.is_empty(), "{}\n{self}", breaches.join("\n"));
    }

    /// And everything has ended, which it must once nothing is broken any more.
    pub fn assert_settled(&self) {
        self.assert_sound();
        assert!(self.unsettled.is_empty(), "not settled: {}\n{self}", self.unsettled.join(", "));
    }

    pub fn duplicated(&self) -> usize {
        self.duplicates.values().sum::<usize>() + self.unexplained.len()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("enqueued", self.enqueued),
            ("delivered", self.delivered),
            ("expired", self.expired),
            ("invalid", self.invalid),
            ("unsettled", self.unsettled.len()),
            ("granted", self.grants),
            ("received", self.receipts),
            ("accepted", self.accepted),
            ("recovered", self.recovered),
            ("accepted, but recorded otherwise", self.accepted_otherwise),
            ("lost", self.lost.len()),
            ("unexpected", self.unexpected.len()),
            ("wrong bytes", self.wrong_bytes.len()),
            ("settled by a non-holder", self.settled_by_others.len()),
            ("unlawful", self.unlawful.len()),
            ("duplicated", self.duplicated()),
        ];
        for (title, count) in lines {
            writeln!(f, "{title:<34} {count:>8}")?;
        }
        for (cause, count) in &self.duplicates {
            writeln!(f, "{:<34} {count:>8}", format!("  {cause}"))?;
        }
        if !self.unexplained.is_empty() {
            writeln!(f, "{:<34} {:>8}", "  without a cause", self.unexplained.len())?;
        }
        Ok(())
    }
}
