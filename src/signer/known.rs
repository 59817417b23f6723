//! The key ids that this process has met, each with the one public key that it stands for. Receivers keep key sets by key
//! id, so that a key id whose key changed would be verified against the old one. It forgets when the process ends.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keys::SigningKeys;

/// Some 10 MiB. A fuller memory takes up nothing new: what is not in it is not compared.
const MAX_KNOWN: usize = 65_536;

/// A signing scope and a key id of it; the fixed keys are of no scope.
type Name = (Option<String>, String);

#[derive(Default)]
pub(crate) struct KnownKids(Mutex<HashMap<Name, String>>);

impl KnownKids {
    /// The first key id of these that stood for another key before.
    pub(crate) fn changed<'a>(&self, scope: Option<&str>, keys: &'a SigningKeys) -> Option<&'a str> {
        let known = self.lock();
        keys.newest_first().iter().map(|timed| &*timed.key).find_map(|key| {
            let before = known.get(&(scope.map(str::to_owned), key.kid().to_owned()));
            before.is_some_and(|before| *before != key.thumbprint()).then_some(key.kid())
        })
    }

    /// Remembers what each key id stands for from now on. Whether one of them is new.
    pub(crate) fn remember(&self, scope: Option<&str>, keys: &SigningKeys) -> bool {
        let mut known = self.lock();
        let before = known.len();
        for key in keys.newest_first().iter().map(|timed| &timed.key) {
            if known.len() < MAX_KNOWN {
                known.insert((scope.map(str::to_owned), key.kid().to_owned()), key.thumbprint());
            }
        }
        known.len() > before
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, String>> {
        // A panic while the lock is held cannot leave the map half-written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;

    use super::*;
    use crate::signature::{Algorithm, SigningKey};

    fn keys(kid: &str) -> SigningKeys {
        SigningKeys::single(SigningKey::generate(Algorithm::Ed25519, Some(kid), &SystemRandom::new()).unwrap().0)
    }

    #[test]
    fn a_key_id_stands_for_one_key_in_each_scope() {
        let known = KnownKids::default();
        let (first, other) = (keys("k"), keys("k"));
        assert_eq!(known.changed(None, &first), None);
        assert!(known.remember(None, &first));
        assert!(!known.remember(None, &first));
        assert_eq!(known.changed(None, &first), None);
        assert_eq!(known.changed(None, &other), Some("k"));
        assert_eq!(known.changed(Some("a"), &other), None);
        known.remember(Some("a"), &other);
        assert_eq!(known.changed(Some("a"), &first), Some("k"));
        // What was dropped for a while is not forgotten.
        known.remember(None, &keys("next"));
        assert_eq!(known.changed(None, &other), Some("k"));
    }

    #[test]
    fn a_full_memory_refuses_nothing() {
        let known = KnownKids::default();
        let key = keys("k");
        for n in 0..MAX_KNOWN {
            known.lock().insert((Some(n.to_string()), "k".into()), String::new());
        }
        assert!(!known.remember(None, &key));
        assert_eq!(known.changed(None, &keys("k")), None);
        assert_eq!(known.lock().len(), MAX_KNOWN);
    }
}
