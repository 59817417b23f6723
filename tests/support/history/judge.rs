//! Holds a history against the promises, row by row: first what the table went through, then what receivers got of it.

use std::collections::BTreeMap;

use super::{Commit, Enqueued, Fault, History, Moment, Receipt, Report, Side, Step, is_final};

/// One lease of one row, and how it ended.
struct Grant {
    worker: String,
    at: Moment,
    ended: Moment,
    ending: Ending,
}

#[derive(Debug, PartialEq)]
enum Ending {
    /// It was still held when the record ended.
    Open,
    /// Its holder let its time pass, and somebody else took the row or ended it.
    Lapsed,
    /// Settled, with what was written as its error.
    Delivered,
    Failed(String),
    GivenBack,
}

#[derive(Default)]
struct Life<'a> {
    grants: Vec<Grant>,
    receipts: Vec<&'a Receipt>,
    /// When the row was recorded as delivered.
    delivered: Option<Moment>,
    /// The end it came to, where the row has been deleted since.
    deleted: Option<String>,
    recorded: bool,
}

impl History {
    pub fn check(&self) -> Report {
        let mut report = Report { receipts: self.receipts.len(), ..Report::default() };
        let mut lives: BTreeMap<&str, Life<'_>> = BTreeMap::new();
        for step in &self.steps {
            lives.entry(&step.key).or_default().take(step, &mut report);
        }
        let states: BTreeMap<&str, &str> = self.rows.iter().map(|row| (row.key.as_str(), row.state.as_str())).collect();
        let enqueued: BTreeMap<&str, &Enqueued> = self.enqueued.iter().map(|one| (one.key.as_str(), one)).collect();
        for receipt in &self.receipts {
            report.accepted += usize::from(receipt.is_accepted());
            match enqueued.get(receipt.key.as_str()) {
                Some(one) if one.commit == Commit::RolledBack => {
                    report.unexpected.push(format!("{}: rolled back, and received", receipt.key));
                }
                Some(one) => {
                    if one.body != receipt.body {
                        report.wrong_bytes.push(receipt.key.clone());
                    }
                    lives.entry(&receipt.key).or_default().receipts.push(receipt);
                }
                None => report.unexpected.push(format!("{}: never enqueued, and received", receipt.key)),
            }
        }
        for one in &self.enqueued {
            let mut life = lives.remove(one.key.as_str()).unwrap_or_default();
            life.receipts.sort_by(|a, b| a.at.total_cmp(&b.at));
            self.judge(one, states.get(one.key.as_str()).copied(), &life, &mut report);
        }
        report
    }

    fn judge(&self, one: &Enqueued, state: Option<&str>, life: &Life<'_>, report: &mut Report) {
        report.enqueued += usize::from(one.commit != Commit::RolledBack);
        report.grants += life.grants.len();
        let Some(state) = state.or(life.deleted.as_deref()) else {
            if one.commit == Commit::Known {
                report.lost.push(format!("{}: committed, and gone", one.key));
            }
            return;
        };
        if one.commit == Commit::RolledBack {
            report.unexpected.push(format!("{}: rolled back, and {state}", one.key));
        }
        let accepted = life.receipts.iter().filter(|receipt| receipt.is_accepted());
        match state {
            "delivered" => {
                report.delivered += 1;
                report.recovered += usize::from(one.commit == Commit::Unknown);
                let by = life.delivered.unwrap_or(Moment::INFINITY);
                if !accepted.clone().any(|receipt| receipt.at <= by) {
                    report.lost.push(format!("{}: delivered, and nobody had taken it", one.key));
                }
            }
            "expired" => report.expired += 1,
            "invalid" => report.invalid += 1,
            other => report.unsettled.push(format!("{} is {other}", one.key)),
        }
        report.accepted_otherwise += usize::from(state != "delivered" && is_final(state) && accepted.count() > 0);
        self.explain(&one.key, life, report);
    }

    /// Finds the grant behind each receipt, and of each 2xx but one why it was not the last.
    fn explain(&self, key: &str, life: &Life<'_>, report: &mut Report) {
        let mut used = vec![false; life.grants.len()];
        let mut unrecorded = Vec::new();
        let mut accepted: usize = 0;
        for receipt in &life.receipts {
            accepted += usize::from(receipt.is_accepted());
            let before = || (0..life.grants.len()).rev().filter(|nth| life.grants[*nth].at <= receipt.at);
            // A process that was stopped may send late, under a grant that others have followed.
            let Some(nth) = before().find(|nth| !used[*nth]).or_else(|| before().next()) else {
                if life.recorded {
                    report.unexpected.push(format!("{key}: received before anybody held it"));
                }
                continue;
            };
            let grant = &life.grants[nth];
            let cause = if std::mem::replace(&mut used[nth], true) {
                Err(format!("sent twice under one grant of {}", grant.worker))
            } else {
                self.cause(grant, receipt)
            };
            if receipt.is_accepted() && (grant.ending != Ending::Delivered || cause.is_err()) {
                unrecorded.push(cause);
            } else if let Err(why) = cause {
                report.unexplained.push(format!("{key}: {why}"));
            }
        }
        for cause in unrecorded.into_iter().take(accepted.saturating_sub(1)) {
            match cause {
                Ok(cause) => *report.duplicates.entry(cause).or_default() += 1,
                Err(why) => report.unexplained.push(format!("{key}: {why}")),
            }
        }
    }

    /// Why what a receiver took under this grant was not recorded under it; an error where nothing excuses it.
    fn cause(&self, grant: &Grant, receipt: &Receipt) -> Result<String, String> {
        let status = receipt.answered.unwrap_or_default();
        match &grant.ending {
            Ending::Delivered => Ok("recorded".into()),
            Ending::GivenBack => Err(format!("{} gave the row back after it had been sent", grant.worker)),
            // The receiver's own word cannot come to another than it was.
            Ending::Failed(code) if receipt.is_accepted() && code.starts_with("http_") => {
                Err(format!("answered with {status}, and taken by {} for {code}", grant.worker))
            }
            Ending::Failed(code) => Ok(code.clone()),
            Ending::Open => Ok("not over yet".into()),
            Ending::Lapsed => {
                let fault = self.faults.iter().find(|fault| fault.explains(grant));
                let why = || format!("{} let its lease lapse after sending, and nothing was broken", grant.worker);
                fault.map(|fault| fault.what.clone()).ok_or_else(why)
            }
        }
    }
}

impl Fault {
    fn explains(&self, grant: &Grant) -> bool {
        let concerns = self.worker.as_ref().is_none_or(|worker| *worker == grant.worker);
        concerns && self.from <= grant.ended && self.until >= grant.at
    }
}

impl Life<'_> {
    fn take(&mut self, step: &Step, report: &mut Report) {
        self.recorded |= step.before.is_none();
        let unlawful = |report: &mut Report, what: &str| report.unlawful.push(format!("{}: {what}", step.key));
        let (before, after) = match (&step.before, &step.after) {
            (Some(before), Some(after)) => (before, after),
            (Some(before), None) => {
                if !is_final(&before.state) {
                    unlawful(report, &format!("deleted while {}", before.state));
                } else if before.retry_until.is_some_and(|until| until > step.asked) {
                    unlawful(report, "deleted before its horizon");
                }
                self.deleted = Some(before.state.clone()).filter(|state| is_final(state));
                return;
            }
            _ => return,
        };
        if is_final(&before.state) {
            if after.state != before.state {
                unlawful(report, &format!("from {} to {}", before.state, after.state));
            }
            return;
        }
        if after.is_held() && after.token != before.token {
            if before.is_held_at(step.asked) {
                unlawful(report, "granted while somebody held it");
            }
            if before.retry_until.is_some_and(|until| until <= step.asked) {
                unlawful(report, "granted past its horizon");
            }
            self.end(step, Ending::Lapsed);
            let worker = step.worker.clone();
            self.grants.push(Grant { worker, at: step.at, ended: Moment::INFINITY, ending: Ending::Open });
        } else if before.is_held() && (after.state != before.state || after.token != before.token) {
            self.settled(step, before, after, report);
        } else if after.state == "delivered" || after.state == "invalid" {
            report.settled_by_others.push(format!("{}: {} by {}, held by nobody", step.key, after.state, step.worker));
        }
        if after.state == "delivered" {
            self.delivered = Some(step.at);
        }
    }

    /// Somebody ended the lease that there was: its holder, or a sweep after its time.
    fn settled(&mut self, step: &Step, before: &Side, after: &Side, report: &mut Report) {
        let (key, worker) = (&step.key, &step.worker);
        if after.state == "expired" && !step.fenced {
            if before.is_held_at(step.asked) {
                report.unlawful.push(format!("{key}: expired by {worker} under a live lease"));
            }
            self.end(step, Ending::Lapsed);
            return;
        }
        if !step.fenced {
            report.settled_by_others.push(format!("{key}: {} by {worker}, which showed no token", after.state));
        } else if let Some(grant) = self.grants.last().filter(|grant| grant.worker != *worker) {
            let holder = &grant.worker;
            report.settled_by_others.push(format!("{key}: {} by {worker}, held by {holder}", after.state));
        }
        self.end(
            step,
            match after.state.as_str() {
                "delivered" => Ending::Delivered,
                _ if after.attempts < before.attempts => Ending::GivenBack,
                _ => Ending::Failed(after.error.clone().unwrap_or_default()),
            },
        );
    }

    fn end(&mut self, step: &Step, ending: Ending) {
        if let Some(grant) = self.grants.last_mut().filter(|grant| grant.ending == Ending::Open) {
            (grant.ended, grant.ending) = (step.at, ending);
        }
    }
}
