//! How full the memory for signatures is, so that a key whose share is used up is refused before any cryptography is
//! spent on it. An estimate between two looks at the table; the table itself decides near the caps.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{NonceCaps, NonceCount};

/// How far below a cap the table is asked to count. More than all replicas together can accept between two looks.
const SLACK: u64 = 100_000;

pub(super) struct Nonces {
    caps: NonceCaps,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_key: HashMap<String, u64>,
    total: u64,
    /// Nothing was looked at yet, or the last look failed.
    blind: bool,
}

impl Nonces {
    pub(super) fn new(caps: NonceCaps) -> Nonces {
        Nonces { caps, known: Mutex::new(Known { blind: true, ..Known::default() }) }
    }

    pub(super) fn caps(&self) -> NonceCaps {
        self.caps
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Only plain assignments happen under the lock, so that a panic leaves it whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is no room for another signature of this key.
    pub(super) fn is_crowded(&self, keyid: &str) -> bool {
        let known = self.known();
        let of_key = known.by_key.get(keyid).copied().unwrap_or_default();
        of_key >= u64::from(self.caps.per_key) || known.total >= u64::from(self.caps.total)
    }

    /// Whether the table must count before it takes another one.
    pub(super) fn must_count(&self, keyid: &str) -> bool {
        let known = self.known();
        let of_key = known.by_key.get(keyid).copied().unwrap_or_default();
        known.blind
            || of_key + SLACK >= u64::from(self.caps.per_key)
            || known.total + SLACK >= u64::from(self.caps.total)
    }

    pub(super) fn claimed(&self, keyid: &str) {
        let mut known = self.known();
        known.total += 1;
        // Only key ids of the key set come here, so that the map is bounded.
        match known.by_key.get_mut(keyid) {
            Some(count) => *count += 1,
            None => drop(known.by_key.insert(keyid.to_owned(), 1)),
        }
    }

    pub(super) fn saw(&self, counts: Vec<NonceCount>) {
        let total = counts.iter().map(|count| count.nonces).sum();
        let by_key = counts.into_iter().map(|count| (count.keyid, count.nonces)).collect();
        *self.known() = Known { by_key, total, blind: false };
    }

    pub(super) fn saw_nothing(&self) {
        self.known().blind = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(keyid: &str, nonces: u64) -> NonceCount {
        NonceCount { keyid: keyid.into(), nonces }
    }

    #[test]
    fn a_key_is_crowded_at_its_own_cap_and_all_are_at_the_total() {
        let nonces = Nonces::new(NonceCaps { per_key: 2, total: 3 });
        nonces.claimed("a");
        assert!(!nonces.is_crowded("a"));
        nonces.claimed("a");
        assert!(nonces.is_crowded("a") && !nonces.is_crowded("b"));
        nonces.claimed("b");
        assert!(nonces.is_crowded("b"));
        nonces.saw(vec![count("a", 1)]);
        assert!(!nonces.is_crowded("a"));
    }

    #[test]
    fn the_table_counts_near_the_caps_and_where_nothing_is_known() {
        let nonces = Nonces::new(NonceCaps { per_key: 250_000, total: 1_000_000 });
        assert!(nonces.must_count("a"));
        nonces.saw(vec![count("a", 150_000), count("b", 149_999)]);
        assert!(nonces.must_count("a") && !nonces.must_count("b"));
        nonces.saw(vec![count("a", 900_000)]);
        assert!(nonces.must_count("b"));
        nonces.saw(Vec::new());
        assert!(!nonces.must_count("b"));
        nonces.saw_nothing();
        assert!(nonces.must_count("b"));
    }
}
