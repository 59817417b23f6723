//! The demo's last page: what became of each webhook, as a table a person likes to read. Pure text.

use std::fmt::Write;
use std::time::Duration;

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
pub(super) struct Sums {
    pub(super) took: Duration,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) verified: u64,
    pub(super) refused: u64,
    pub(super) duplicates: u64,
    pub(super) changed_bytes: u64,
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
    let _ = writeln!(page, "  commit to receipt   p50 {} ms, p99 {} ms", sums.p50.as_millis(), sums.p99.as_millis());
    let _ = writeln!(page, "  signatures          {} verified by the buyers, {} refused", sums.verified, sums.refused);
    let _ = writeln!(
        page,
        "  promises            {} lost, {} accepted twice, {} with changed bytes",
        lost(&total),
        sums.duplicates,
        sums.changed_bytes
    );
    page
}

/// Rows that are in no state they may be in.
pub(super) fn lost(total: &Line) -> u64 {
    total.rows - (total.delivered + total.quarantined + total.due).min(total.rows)
}

fn row(line: &Line) -> String {
    format!(
        "  {:<30}{:>7}{:>11}{:>17}{:>13}{:>11}\n",
        line.name, line.rows, line.delivered, line.retried, line.quarantined, line.due
    )
}

/// The value below which `share` of `sorted` lies.
pub(super) fn percentile(sorted: &[Duration], share: f64) -> Duration {
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

    #[test]
    fn the_page_sums_its_lines_and_counts_what_is_in_no_state() {
        let line = Line { name: "a buyer", rows: 10, delivered: 7, retried: 2, quarantined: 1, due: 1 };
        let sums = Sums {
            took: Duration::from_secs(2),
            p50: Duration::from_millis(5),
            p99: Duration::from_millis(9),
            verified: 9,
            refused: 0,
            duplicates: 0,
            changed_bytes: 0,
        };
        let page = page(&[line.clone(), line], &sums);
        assert!(page.contains("together                           20         14"), "{page}");
        assert!(page.contains("7 delivered/s") && page.contains("2 lost"), "{page}");
    }
}
