//! Prometheus' text format, as far as the tests read it, and the metric names that they rely on.

/// Attempts by `code`.
pub const ATTEMPTS: &str = "outboxd_attempts_total";
/// Verdicts that found their lease lost, by `code`.
pub const LEASES_LOST: &str = "outboxd_leases_lost_total";
/// Connections by `kind`: opened or reused.
pub const CONNECTIONS: &str = "outboxd_connections_total";
/// Connections begun, whatever came of them.
pub const DIALS: &str = "outboxd_dials_total";
/// Claims by `result`.
pub const CLAIMS: &str = "outboxd_claims_total";
/// Destinations with rows due that wait for room.
pub const BEHIND: &str = "outboxd_destinations_behind";
/// Accounts that hold all the slots that they may.
pub const ACCOUNTS_FULL: &str = "outboxd_accounts_full";
/// Destinations that are left alone for now.
pub const PARKED: &str = "outboxd_destinations_parked";
/// Statements done, by `statement`: the file's path.
pub const STATEMENTS: &str = "outboxd_statement_duration_seconds_count";

pub struct Metrics {
    pub text: String,
}

impl Metrics {
    pub fn parse(text: &str) -> Metrics {
        Metrics { text: text.to_string() }
    }

    /// The sum over all samples of `name` that carry all of `labels`.
    pub fn total(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .filter(|(series, _)| series.split('{').next() == Some(name))
            .filter(|(series, _)| labels.iter().all(|(key, value)| series.contains(&format!("{key}=\"{value}\""))))
            .map(|(_, value)| value.parse::<f64>().expect("a sample is a number"))
            .sum()
    }
}
