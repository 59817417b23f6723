//! The indexes that an operator makes who wants them, since every delivery pays for them: whether they are there, and by which
//! statement they come. It makes none.

use super::claim::read;
use super::statement::Statement;
use super::{Answer, Kind, Parameter, Store, StoreError};

/// Which indexes there are for listing an account's or a destination's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ListIndexes {
    /// The outbox's, as it is written in a statement.
    schema: String,
    /// Whether it is valid; if not, it is being built, or was left behind by a build that was interrupted. None: there is none.
    accounts: Option<bool>,
    destinations: Option<bool>,
    /// The one of open rows, which is no operator's choice.
    pub(super) open_destinations: bool,
}

/// What an index that is not there would have spared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissedIndex {
    /// Rows that were looked at without it; there may have been more.
    pub(crate) looked: u64,
    pub(crate) by: ListedBy,
    /// In one line, for the owner of the table.
    pub(crate) create: String,
    /// What comes before that, where one is there that is not valid.
    pub(crate) drop: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListedBy {
    Account,
    Destination,
}

impl ListIndexes {
    pub(super) fn serve(&self, by: ListedBy) -> bool {
        self.standing(by) == Some(true)
    }

    fn standing(&self, by: ListedBy) -> Option<bool> {
        match by {
            ListedBy::Account => self.accounts,
            ListedBy::Destination => self.destinations,
        }
    }
}

impl Store {
    /// `sql/outbox/index_accounts.sql`, in one line, for an operator to run.
    pub(crate) fn account_index(&self) -> String {
        in_one_line(&self.statements.index_accounts)
    }

    /// `sql/outbox/find_list_indexes.sql`
    pub(super) async fn find_list_indexes(&self) -> Result<ListIndexes, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&self.table.as_str()];
        let found = self.read_all(&self.statements.find_list_indexes, &parameters, read_indexes).await?.pop();
        // Of no table there are none; the statement that lists says that it is missing.
        Ok(found.unwrap_or_default())
    }

    /// `sql/outbox/index_list_accounts.sql` or `index_list_destinations.sql`, with the table's schema: whoever runs it may have
    /// another `search_path`.
    pub(super) fn missed_index(&self, by: ListedBy, indexes: &ListIndexes, looked: u64) -> MissedIndex {
        let (statement, index) = match by {
            ListedBy::Account => (&self.statements.index_list_accounts, ":\"outbox_list_account_idx\""),
            ListedBy::Destination => (&self.statements.index_list_destinations, ":\"outbox_list_dest_idx\""),
        };
        let name = |variable: &str| self.table.substitute(variable);
        let in_full = |variable: &str| format!("{}.{}", indexes.schema, name(variable));
        // An index takes no schema where it is made: it comes where its table is.
        let create = in_one_line(statement).replace(&name(":\"outbox\""), &in_full(":\"outbox\""));
        let drop = (indexes.standing(by) == Some(false))
            .then(|| in_one_line(&self.statements.drop_index).replace(&name(":\"outbox_index\""), &in_full(index)));
        MissedIndex { looked, by, create, drop }
    }
}

fn in_one_line(statement: &Statement) -> String {
    let lines = statement.sql.lines().filter(|line| !line.starts_with("--"));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn read_indexes(answer: &Answer) -> Result<ListIndexes, Kind> {
    Ok(ListIndexes {
        schema: read(answer, "schema_name")?,
        accounts: read(answer, "by_account")?,
        destinations: read(answer, "by_destination")?,
        open_destinations: read(answer, "open_by_destination")?,
    })
}
