//! The demo's last page: what became of each webhook, as a table a person likes to read. Pure text.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// What the host committed, by idempotency key.
pub(super) type Committed = HashMap<String, Commit>;

pub(super) struct Commit {
    pub(super) at: SystemTime,
    pub(super) body: Vec<u8>,
}

/// One webhook as a buyer has it: a row of the inbox, or a request that a scripted buyer verified.
#[derive(Debug, Clone)]
pub(super) struct Receipt {
    pub(super) key: String,
    pub(super) at: SystemTime,
    pub(super) accepted: bool,
    pub(super) body: Vec<u8>,
}

/// One destination's line.
#[derive(Debug, Default, Clone)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) rows: u64,
    pub(super) delivered: u64,
    pub(super) retried: u64,
    pub(super) quarantined: u64,
    pub(super) due: u64,
}

/// The figures below the table.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) took: Duration,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) verified: u64,
    pub(super) refused: u64,
    pub(super) lost: u64,
    pub(super) duplicates: u64,
    pub(super) changed_bytes: u64,
}

impl Sums {
    /// Holds what the outbox says and what the buyers have against what was committed.
    pub(super) fn of(lines: &[Line], committed: &Committed, receipts: &[Receipt]) -> Sums {
        let mut sums = Sums::default();
        let mut accepted: HashMap<&str, u32> = HashMap::new();
        let mut firsts: HashMap<&str, SystemTime> = HashMap::new();
        for receipt in receipts {
            *accepted.entry(&receipt.key).or_default() += u32::from(receipt.accepted);
            let first = firsts.entry(&receipt.key).or_insert(receipt.at);
            *first = receipt.at.min(*first);
            let same = committed.get(&receipt.key).is_some_and(|commit| commit.body == receipt.body);
            sums.changed_bytes += u64::from(!same);
        }
        // The inbox stamps a row before the host has the answer to its commit, at times.
        let wait =
            |(key, at): (&&str, &SystemTime)| Some(at.duration_since(committed.get(*key)?.at).unwrap_or_default());
        let mut waits: Vec<Duration> = firsts.iter().filter_map(wait).collect();
        waits.sort_unstable();
        (sums.p50, sums.p99) = (percentile(&waits, 0.5), percentile(&waits, 0.99));
        sums.duplicates = accepted.values().filter(|times| **times > 1).count() as u64;
        // Called delivered, and no buyer has it.
        let held = accepted.values().filter(|times| **times > 0).count() as u64;
        let delivered: u64 = lines.iter().map(|line| line.delivered).sum();
        sums.lost = delivered.saturating_sub(held) + lines.iter().map(stateless).sum::<u64>();
        sums
    }

    pub(super) fn kept(&self) -> bool {
        self.lost + self.refused + self.duplicates + self.changed_bytes == 0
    }
}

pub(super) fn page(lines: &[Line], sums: &Sums) -> String {
    let mut total = Line { name: "together", ..Line::default() };
    let mut page = String::new();
    let rule = format!("  {}\n", "-".repeat(84));
    let head = ["destination", "rows", "delivered", "of them retried", "quarantined", "still due"];
    let _ =
        writeln!(page, "  {:<30}{:>7}{:>11}{:>17}{:>13}{:>11}", head[0], head[1], head[2], head[3], head[4], head[5]);
    page += &rule;
    for line in lines {
        page += &row(line);
        total.rows += line.rows;
        total.delivered += line.delivered;
        total.retried += line.retried;
        total.quarantined += line.quarantined;
        total.due += line.due;
    }
    page += &rule;
    page += &row(&total);
    let rate = total.delivered as f64 / sums.took.as_secs_f64();
    let _ = writeln!(
        page,
        "\n  throughput          {rate:.0} delivered/s over {:.1} s, retries included",
        sums.took.as_secs_f64()
    );
    let _ = writeln!(
        page,
        "  commit to receipt   p50 {} ms, p99 {} ms, all by this machine's clock",
        sums.p50.as_millis(),
        sums.p99.as_millis()
    );
    let _ = writeln!(page, "  signatures          {} verified by the buyers, {} refused", sums.verified, sums.refused);
    let _ = writeln!(
        page,
        "  promises            {} lost, {} accepted twice, {} with changed bytes",
        sums.lost, sums.duplicates, sums.changed_bytes
    );
    page
}

/// Rows that are in no state they may be in.
fn stateless(line: &Line) -> u64 {
    line.rows - (line.delivered + line.quarantined + line.due).min(line.rows)
}

fn row(line: &Line) -> String {
    format!(
        "  {:<30}{:>7}{:>11}{:>17}{:>13}{:>11}\n",
        line.name, line.rows, line.delivered, line.retried, line.quarantined, line.due
    )
}

/// The value below which `share` of `sorted` lies.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let sorted: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 0.5), Duration::from_millis(50));
        assert_eq!(percentile(&sorted, 0.99), Duration::from_millis(99));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }

    fn commit(at: SystemTime) -> Commit {
        Commit { at, body: b"body".to_vec() }
    }

    fn receipt(key: &str, at: SystemTime) -> Receipt {
        Receipt { key: key.into(), at, accepted: true, body: b"body".to_vec() }
    }

    #[test]
    fn the_page_sums_its_lines_and_counts_what_is_in_no_state() {
        let line = Line { name: "a buyer", rows: 10, delivered: 7, retried: 2, quarantined: 1, due: 1 };
        let lines = [line.clone(), line];
        let committed: Committed = (0..14).map(|n| (n.to_string(), commit(SystemTime::UNIX_EPOCH))).collect();
        let receipts: Vec<Receipt> = committed.keys().map(|key| receipt(key, SystemTime::UNIX_EPOCH)).collect();
        let sums = Sums { took: Duration::from_secs(2), ..Sums::of(&lines, &committed, &receipts) };
        let page = page(&lines, &sums);
        assert!(page.contains("together                           20         14"), "{page}");
        assert!(page.contains("7 delivered/s") && page.contains("2 lost"), "{page}");
    }

    #[test]
    fn every_broken_promise_is_counted() {
        let start = SystemTime::UNIX_EPOCH;
        let committed: Committed = ["a", "b", "c"].map(|key| (key.to_owned(), commit(start))).into();
        let line = Line { name: "a buyer", rows: 3, delivered: 3, ..Line::default() };
        let later = start + Duration::from_millis(8);
        let good = [receipt("a", later), receipt("b", later), receipt("c", later)];
        let sums = Sums::of(std::slice::from_ref(&line), &committed, &good);
        assert!(sums.kept() && sums.p99 == Duration::from_millis(8), "{sums:?}");
        let mut bad = [receipt("a", start), receipt("b", start), receipt("a", later)];
        bad[1].body.push(b' ');
        let sums = Sums::of(&[line], &committed, &bad);
        assert_eq!((sums.lost, sums.duplicates, sums.changed_bytes), (1, 1, 1), "{sums:?}");
    }
}
