//! The list of key ids that are not to be trusted any more, and until when the list itself can be relied on. It reads no
//! file and knows no clock.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::verify::Revocation;

pub(crate) struct RevocationList {
    kids: BTreeSet<String>,
    /// Unix seconds from which on the list is too old.
    stale_from: Option<i64>,
}

#[derive(Deserialize)]
struct Document {
    revoked_kids: BTreeSet<String>,
    updated: Option<String>,
    next_update: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListError {
    #[error("is not a JSON object with an array of strings `revoked_kids`")]
    Shape,
    #[error("has an `updated` or `next_update` that is no RFC 3339 time")]
    Time,
}

impl RevocationList {
    /// A list that says when the next one is due is given twice its own interval of grace, as the reference does.
    pub(crate) fn parse(text: &[u8]) -> Result<RevocationList, ListError> {
        let document: Document = serde_json::from_slice(text).map_err(|_| ListError::Shape)?;
        let updated = document.updated.as_deref().map(seconds).transpose()?;
        let next = document.next_update.as_deref().map(seconds).transpose()?;
        let interval = updated.zip(next).map_or(0, |(updated, next)| (next - updated).max(0));
        let stale_from = next.map(|next| next.saturating_add(2 * interval));
        Ok(RevocationList { kids: document.revoked_kids, stale_from })
    }

    pub(crate) fn at(&self, unix_seconds: i64) -> Revocation<'_> {
        match self.stale_from {
            Some(end) if unix_seconds > end => Revocation::Stale,
            _ => Revocation::Revoked(&self.kids),
        }
    }
}

fn seconds(text: &str) -> Result<i64, ListError> {
    let time = humantime::parse_rfc3339_weak(text).map_err(|_| ListError::Time)?;
    let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH).map_err(|_| ListError::Time)?;
    i64::try_from(since.as_secs()).map_err(|_| ListError::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_stale_two_intervals_after_its_next_was_due() {
        let list = RevocationList::parse(
            br#"{"revoked_kids":["k"],"updated":"2026-01-01T00:00:00Z","next_update":"2026-01-01T00:10:00Z"}"#,
        )
        .unwrap();
        let due = 1_767_225_600 + 600;
        assert!(matches!(list.at(due + 1200), Revocation::Revoked(kids) if kids.contains("k")));
        assert!(matches!(list.at(due + 1201), Revocation::Stale));
    }

    #[test]
    fn a_list_without_times_does_not_grow_stale_and_a_broken_one_is_refused() {
        let list = RevocationList::parse(br#"{"revoked_kids":[]}"#).unwrap();
        assert!(matches!(list.at(i64::MAX), Revocation::Revoked(kids) if kids.is_empty()));
        for broken in ["", "[]", "{}", r#"{"revoked_kids":"k"}"#] {
            assert_eq!(RevocationList::parse(broken.as_bytes()).err(), Some(ListError::Shape), "{broken}");
        }
        let undated = br#"{"revoked_kids":[],"next_update":"soon"}"#;
        assert_eq!(RevocationList::parse(undated).err(), Some(ListError::Time));
    }
}
