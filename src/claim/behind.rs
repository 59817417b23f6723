//! Whose rows are left behind with rows due, and behind which of them each: destinations, or where accounts have a share each
//! account's rows for a destination. Knows no room, and makes no look.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::accounts::of_pair;
use crate::store::Position;

/// So many are remembered, at 100 bytes each. Others are found again by a list when these are fewer.
const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct Behind {
    by_name: BTreeMap<Arc<str>, Position>,
    /// How often each destination, and each account, is among the names.
    destinations: HashMap<Box<str>, usize>,
    accounts: HashMap<Box<str>, usize>,
}

impl Behind {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether room for rows of this destination, or of this account, is room for one of these.
    pub(super) fn concerns(&self, destination: &str, account: &str) -> bool {
        self.destinations.contains_key(destination) || self.accounts.contains_key(account)
    }

    /// Whether it is remembered.
    pub(super) fn put(&mut self, name: &str, before: Position) -> bool {
        if let Some(known) = self.by_name.get_mut(name) {
            *known = before.min(*known);
            return true;
        }
        if self.by_name.len() >= MOST {
            return false;
        }
        self.by_name.insert(name.into(), before);
        let (destination, account) = of_pair(name);
        *self.destinations.entry(destination.into()).or_default() += 1;
        // Where a name is a destination alone there is no account, and none of that name.
        if name.len() > destination.len() {
            *self.accounts.entry(account.into()).or_default() += 1;
        }
        true
    }

    pub(super) fn remove(&mut self, name: &str) {
        if self.by_name.remove(name).is_none() {
            return;
        }
        let (destination, account) = of_pair(name);
        less(&mut self.destinations, destination);
        if name.len() > destination.len() {
            less(&mut self.accounts, account);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Behind::default();
    }

    /// All, beginning after this one.
    pub(super) fn after(&self, last: &Arc<str>) -> impl Iterator<Item = (&Arc<str>, &Position)> {
        let after = self.by_name.range::<Arc<str>, _>((Bound::Excluded(last), Bound::Unbounded));
        let upto = self.by_name.range::<Arc<str>, _>((Bound::Unbounded, Bound::Included(last)));
        after.chain(upto)
    }
}

fn less(counts: &mut HashMap<Box<str>, usize>, name: &str) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_concerns_whoever_shares_its_destination_or_its_account() {
        let mut behind = Behind::default();
        for name in ["a.example/acc_1", "a.example/acc_2", "b.example/acc_1"] {
            assert!(behind.put(name, Position::HEAD));
        }
        assert!(behind.concerns("a.example", "acc_9") && behind.concerns("c.example", "acc_2"));
        assert!(!behind.concerns("c.example", "acc_9"));
        behind.remove("a.example/acc_2");
        assert!(behind.concerns("a.example", "acc_9") && !behind.concerns("c.example", "acc_2"));
        behind.remove("a.example/acc_1");
        assert!(!behind.concerns("a.example", "acc_9") && behind.concerns("c.example", "acc_1"));
    }

    #[test]
    fn a_destination_without_accounts_is_no_account() {
        let mut behind = Behind::default();
        behind.put("a.example", Position::HEAD);
        assert!(behind.concerns("a.example", "") && !behind.concerns("b.example", ""));
    }
}
