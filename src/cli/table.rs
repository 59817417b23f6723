//! Tables for a terminal: columns as wide as what is in them, text that cannot steer the terminal, and spans of time in few
//! letters. For scripts there is `--json`.

use std::fmt;
use std::time::Duration;

/// Rows under one line of headings. Columns whose heading begins with a space are set flush right.
pub(super) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(headings: &[&'static str]) -> Table {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// One cell for each heading.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| harmless(&cell)).collect());
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, widths: &[usize], cells: &[&str]) -> fmt::Result {
        let mut line = String::new();
        for ((cell, width), heading) in cells.iter().zip(widths).zip(&self.headings) {
            match heading.starts_with(' ') {
                true => line += &format!("{cell:>width$}  "),
                false => line += &format!("{cell:<width$}  "),
            }
        }
        writeln!(f, "{}", line.trim_end())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings: Vec<&str> = self.headings.iter().map(|heading| heading.trim_start()).collect();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([headings[column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        self.line(f, &widths, &headings)?;
        for row in &self.rows {
            self.line(f, &widths, &row.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Hosts choose the names of tasks and accounts; none of them may move the cursor.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect()
}

/// The two largest units, `2d 3h`; below a second the milliseconds.
pub(super) fn brief(span: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    if span.as_secs() == 0 {
        return format!("{}ms", span.as_millis());
    }
    let mut left = span.as_secs();
    let mut spelt = Vec::new();
    for (seconds, unit) in UNITS {
        if left >= seconds || !spelt.is_empty() {
            spelt.push((left / seconds, unit));
            left %= seconds;
        }
    }
    let spelt: Vec<String> = spelt
        .into_iter()
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    spelt.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them_and_lines_have_no_tail() {
        let mut table = Table::new(&["NAME", " COUNT", "NOTE"]);
        table.row(["a".into(), "7".into(), String::new()]);
        table.row(["longer\u{1b}[2J".into(), "1234567".into(), "x".into()]);
        let expected = "NAME          COUNT  NOTE\na                 7\nlonger\u{fffd}[2J  1234567  x\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn spans_are_told_by_their_two_largest_units() {
        for (seconds, expected) in
            [(0, "0ms"), (59, "59s"), (60, "1m"), (3599, "59m 59s"), (3600, "1h"), (90_061, "1d 1h"), (86_430, "1d")]
        {
            assert_eq!(brief(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(brief(Duration::from_millis(250)), "250ms");
    }
}
