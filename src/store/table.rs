//! The outbox table's name, and the identifiers that are made of it. The only text that ever becomes part of
//! a statement.

use std::fmt;
use std::str::FromStr;

/// 45 bytes leave room for the longest suffix, `_attempts_20261130`, in an identifier of 63.
const LONGEST: usize = 45;

/// A name matching `[a-z_][a-z0-9_]{0,44}`. It is unqualified: `search_path` chooses the schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TableName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the outbox table's name must be 1 to 45 of a-z, 0-9 and _, and not begin with a digit (a schema goes into search_path)"
)]
pub(crate) struct TableNameError;

impl TableName {
    pub(crate) fn parse(text: &str) -> Result<TableName, TableNameError> {
        let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let begins_well = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if begins_well && text.len() <= LONGEST && text.bytes().all(legal) {
            Ok(TableName(text.to_owned()))
        } else {
            Err(TableNameError)
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Replaces psql's `:"outbox"` and `:"outbox_<suffix>"` as psql itself would with `-v outbox=NAME`.
    pub(super) fn substitute(&self, sql: &str) -> String {
        const VARIABLE: &str = ":\"outbox";
        let mut text = String::with_capacity(sql.len() + 256);
        let mut rest = sql;
        while let Some((before, after)) = rest.split_once(VARIABLE) {
            // The name is of [a-z0-9_] only, so that quoting it needs no escapes; the suffix and the closing
            // quote follow from the file.
            text.push_str(before);
            text.push('"');
            text.push_str(&self.0);
            rest = after;
        }
        text.push_str(rest);
        text
    }
}

impl FromStr for TableName {
    type Err = TableNameError;

    fn from_str(text: &str) -> Result<TableName, TableNameError> {
        TableName::parse(text)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_by_the_rule_alone() {
        let longest = "a".repeat(45);
        for name in ["a", "_", "_1", "adcp_task_webhook_outbox", "select", longest.as_str()] {
            assert!(TableName::parse(name).is_ok(), "{name}");
        }
        let too_long = "a".repeat(46);
        for name in ["", "1a", "A", "a b", "a.b", "a\"b", "a-b", "ä", "a\n", too_long.as_str()] {
            assert_eq!(TableName::parse(name), Err(TableNameError), "{name:?}");
        }
    }

    #[test]
    fn psql_variables_become_quoted_identifiers() {
        let name = TableName::parse("box").expect("a legal name");
        assert_eq!(
            name.substitute("on :\"outbox\" x :\"outbox_work_idx\" '::text'"),
            "on \"box\" x \"box_work_idx\" '::text'"
        );
    }
}
