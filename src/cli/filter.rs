//! `--state`, `--account`, `--destination` and the like: which rows a command is about, in the same words for every command.
//! How they are compared is the store's business.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::store::{Filter, RowState};

/// What a URL need not write.
const DEFAULT_PORT: &str = ":443";
/// As the table and every output name them; a row that was quarantined is `invalid`.
const STATES: [RowState; 5] =
    [RowState::Pending, RowState::InFlight, RowState::Delivered, RowState::Expired, RowState::Invalid];

/// Flatten these into a command's own arguments. What is given must hold together.
#[derive(clap::Args, Debug, Clone)]
pub(super) struct FilterArgs {
    /// Rows in one of these states: pending, in_flight, delivered, expired, invalid (quarantined). May be repeated.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = states(), hide_possible_values = true)]
    state: Vec<RowState>,
    /// Rows of this account.
    #[arg(long, value_name = "ID")]
    account: Option<String>,
    /// Rows for this host (and port, unless it is 443), or for that of this URL.
    #[arg(long, value_name = "HOST", value_parser = destination)]
    destination: Option<String>,
    /// Rows whose last attempt ended with this code. Every code: outboxd codes
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// The row of this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// The row with this idempotency key.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Rows written longer ago, for example 90m or 2d.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
    /// Rows written since.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    newer_than: Option<Duration>,
}

impl FilterArgs {
    pub(super) fn filter(&self) -> Filter {
        Filter {
            states: self.state.clone(),
            account: self.account.clone(),
            destination: self.destination.clone(),
            code: self.code.clone(),
            task: self.task.clone(),
            key: self.key.clone(),
            older_than: self.older_than,
            newer_than: self.newer_than,
        }
    }
}

fn states() -> impl TypedValueParser<Value = RowState> {
    PossibleValuesParser::new(STATES.map(RowState::label)).map(|text| RowState::parse(&text))
}

/// The name of a destination as claims, logs and lists write it; also of one that is given as a URL.
pub(super) fn destination(text: &str) -> Result<String, std::convert::Infallible> {
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    Ok(authority.strip_suffix(DEFAULT_PORT).unwrap_or(&authority).to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        filter: FilterArgs,
    }

    fn parsed(arguments: &[&str]) -> Result<Filter, clap::Error> {
        let command = Command::try_parse_from(["list"].iter().chain(arguments))?;
        Ok(command.filter.filter())
    }

    #[test]
    fn a_destination_is_named_as_claims_name_it_however_it_is_given() {
        for given in
            ["Buyer.example:443", "https://buyer.example/hooks?x", "https://buyer.example:443", "buyer.example"]
        {
            assert_eq!(destination(given), Ok("buyer.example".to_owned()), "{given}");
        }
        assert_eq!(destination("https://[::1]:8443/x"), Ok("[::1]:8443".to_owned()));
        assert_eq!(destination("buyer.example:4430"), Ok("buyer.example:4430".to_owned()));
    }

    #[test]
    fn nothing_given_lets_every_row_through_and_what_is_given_is_kept() {
        assert_eq!(parsed(&[]).expect("it parses"), Filter::default());
        let filter = parsed(&["--state", "pending,invalid", "--older-than", "90m", "--code", "http_gone"]);
        let filter = filter.expect("it parses");
        assert_eq!(filter.states, [RowState::Pending, RowState::Invalid]);
        assert_eq!(filter.older_than, Some(Duration::from_secs(5400)));
        assert_eq!(filter.code.as_deref(), Some("http_gone"));
    }

    #[test]
    fn a_state_or_an_age_that_is_none_is_refused() {
        for wrong in [["--state", "broken"], ["--state", "unknown"], ["--older-than", "soon"]] {
            assert!(parsed(&wrong).is_err(), "{wrong:?}");
        }
    }
}
