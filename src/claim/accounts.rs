//! How many slots the rows of each account hold, where an operator sets the largest part of them that one account may have.
//! Knows no rows and no destinations.

use std::collections::HashMap;
use std::sync::Arc;

use crate::store::AccountRooms;

/// Accounts are told apart by so many of their characters, which is what an index can hold whatever a host calls them.
pub(super) const TOLD_BY: usize = 200;
/// A destination holds no slash, so that what stands before the first one is it.
const BETWEEN: char = '/';

/// Of one outbox: what another calls by the same name is another account.
pub(super) struct Accounts {
    /// Rows that one may have under way.
    most: u32,
    held: HashMap<Arc<str>, u32>,
}

impl Accounts {
    pub(super) fn new(most: usize) -> Accounts {
        Accounts { most: u32::try_from(most).unwrap_or(u32::MAX), held: HashMap::new() }
    }

    pub(super) fn entered(&mut self, account: &Arc<str>) {
        *self.held.entry(account.clone()).or_default() += 1;
    }

    pub(super) fn left(&mut self, account: &str) {
        if let Some(held) = self.held.get_mut(account) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(account);
            }
        }
    }

    /// Of those that hold any; there are no more of them than slots.
    pub(super) fn rooms(&self) -> AccountRooms {
        let room = |(account, held): (&Arc<str>, &u32)| (account.clone(), self.most.saturating_sub(*held));
        AccountRooms { rooms: self.held.iter().map(room).collect(), others: self.most }
    }

    /// Those that hold all that they may.
    pub(super) fn full(&self) -> usize {
        self.held.values().filter(|held| **held >= self.most).count()
    }
}

/// As the statements cut it.
pub(super) fn cut(account: &str) -> &str {
    account.char_indices().nth(TOLD_BY).map_or(account, |(at, _)| &account[..at])
}

/// An account's rows for a destination, by the name that the index gives them.
#[cfg(test)]
pub(super) fn pair(destination: &str, account: &str) -> String {
    format!("{destination}{BETWEEN}{account}")
}

/// The destination and the account of a pair.
pub(super) fn of_pair(pair: &str) -> (&str, &str) {
    pair.split_once(BETWEEN).unwrap_or((pair, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_account_holds_is_taken_off_its_room_until_it_is_given_back() {
        let mut accounts = Accounts::new(2);
        let name: Arc<str> = "acc_1".into();
        accounts.entered(&name);
        assert_eq!((accounts.rooms().of("acc_1"), accounts.rooms().of("acc_2"), accounts.full()), (1, 2, 0));
        accounts.entered(&name);
        assert_eq!((accounts.rooms().of("acc_1"), accounts.full()), (0, 1));
        accounts.left("acc_1");
        accounts.left("acc_1");
        assert_eq!((accounts.rooms().of("acc_1"), accounts.rooms().rooms.len()), (2, 0));
    }

    #[test]
    fn a_pair_is_read_as_it_was_made_whatever_an_account_is_called() {
        for account in ["", "acc_1", "a/b", "https://h.example/x", "ä\u{1F600}"] {
            let made = pair("buyer.example.com:8443", account);
            assert_eq!(of_pair(&made), ("buyer.example.com:8443", account));
        }
        assert_eq!(cut(&"\u{1F600}".repeat(300)), "\u{1F600}".repeat(TOLD_BY));
        assert_eq!(cut("short"), "short");
    }
}
