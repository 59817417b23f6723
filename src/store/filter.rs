//! Which rows of an outbox a command is about. How each member is compared stands in `sql/outbox/list_rows.sql`, and in every
//! other statement that takes a filter in the same words.

use std::time::Duration;

use super::settle::RowState;
use super::statement::Parameter;

/// Every member that is given must hold; of the states, one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Filter {
    /// Empty: any. A composed row that nobody holds counts as pending.
    pub(crate) states: Vec<RowState>,
    pub(crate) account: Option<String>,
    /// As a claim names it: the URL's authority in lower case, without the port that https implies.
    pub(crate) destination: Option<String>,
    /// A cause's code, or what another worker left in its place; of `code:detail` the part before the colon.
    pub(crate) code: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) key: Option<String>,
    /// Since the row was written.
    pub(crate) older_than: Option<Duration>,
    pub(crate) newer_than: Option<Duration>,
}

/// A filter as statements take it: `$1` to `$8`, null for what is not asked.
pub(super) struct FilterParameters<'a> {
    states: Option<Vec<&'static str>>,
    filter: &'a Filter,
    older_than: Option<f64>,
    newer_than: Option<f64>,
}

impl Filter {
    pub(super) fn parameters(&self) -> FilterParameters<'_> {
        let states: Vec<&'static str> = self.states.iter().map(|state| state.label()).collect();
        FilterParameters {
            states: Some(states).filter(|states| !states.is_empty()),
            filter: self,
            older_than: self.older_than.map(|age| age.as_secs_f64()),
            newer_than: self.newer_than.map(|age| age.as_secs_f64()),
        }
    }
}

impl FilterParameters<'_> {
    pub(super) fn each(&self) -> [Parameter<'_>; 8] {
        let Filter { account, destination, code, task, key, .. } = self.filter;
        [&self.states, account, destination, code, task, key, &self.older_than, &self.newer_than]
    }
}
