//! The keys of one signer: from when until when each may sign, which of them does at a moment, and which are published
//! then. It reads no clock and no file.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::signature::SigningKey;

/// How long a key is published after its window: the longest horizon of a row (wire contract, section 1.1). What was signed
/// with it can be verified for as long as anybody still holds a delivery against us.
pub(crate) const PUBLISHED_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// When a key may sign: from its first moment on, and no longer at its last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) not_before: Option<SystemTime>,
    pub(crate) not_after: Option<SystemTime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    Open,
    Over,
}

impl Window {
    pub(crate) fn at(&self, now: SystemTime) -> Standing {
        if self.not_before.is_some_and(|first| now < first) {
            Standing::Waiting
        } else if self.not_after.is_some_and(|last| now >= last) {
            Standing::Over
        } else {
            Standing::Open
        }
    }

    /// No later than the key is published to.
    fn is_published_at(&self, now: SystemTime) -> bool {
        // Past the end of time there is nothing to wait for.
        self.not_after.and_then(|last| last.checked_add(PUBLISHED_AFTER)).is_none_or(|end| now < end)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TimedKey {
    pub(crate) key: Arc<SigningKey>,
    pub(crate) window: Window,
}

/// Why keys cannot stand beside each other; they are counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeysError {
    #[error("there is no key")]
    Empty,
    #[error("keys {0} and {1} have one key id, and receivers could not tell them apart")]
    SameKid(usize, usize),
    #[error("keys {0} and {1} begin to sign at the same moment (not_before), so that neither is the newer")]
    SameBeginning(usize, usize),
    #[error("key {0} is over (not_after) before it begins (not_before)")]
    NeverOpen(usize),
}

/// At least one key; no two of one name or one beginning.
#[derive(Debug, Clone)]
pub(crate) struct SigningKeys {
    /// The one that begins last first.
    keys: Arc<[TimedKey]>,
}

impl SigningKeys {
    pub(crate) fn new(mut keys: Vec<TimedKey>) -> Result<SigningKeys, KeysError> {
        if keys.is_empty() {
            return Err(KeysError::Empty);
        }
        for (second, key) in keys.iter().enumerate() {
            if let Window { not_before: Some(first), not_after: Some(last) } = key.window
                && last <= first
            {
                return Err(KeysError::NeverOpen(second + 1));
            }
            for (first, earlier) in keys[..second].iter().enumerate() {
                if earlier.key.kid() == key.key.kid() {
                    return Err(KeysError::SameKid(first + 1, second + 1));
                }
                if earlier.window.not_before == key.window.not_before {
                    return Err(KeysError::SameBeginning(first + 1, second + 1));
                }
            }
        }
        // A key without a beginning has begun before all others.
        keys.sort_by_key(|timed| std::cmp::Reverse(timed.window.not_before));
        Ok(SigningKeys { keys: keys.into() })
    }

    /// One key that signs from now on and for ever.
    pub(crate) fn single(key: SigningKey) -> SigningKeys {
        SigningKeys { keys: [TimedKey { key: Arc::new(key), window: Window::default() }].into() }
    }

    /// Of those whose window holds now, the one whose window began last: during an overlap the newer one signs.
    pub(crate) fn signing_at(&self, now: SystemTime) -> Option<&Arc<SigningKey>> {
        self.keys.iter().find(|timed| timed.window.at(now) == Standing::Open).map(|timed| &timed.key)
    }

    /// What a receiver must know at this moment: keys that will sign, that sign, and that signed.
    pub(crate) fn published_at(&self, now: SystemTime) -> impl Iterator<Item = &Arc<SigningKey>> {
        self.keys.iter().filter(move |timed| timed.window.is_published_at(now)).map(|timed| &timed.key)
    }

    /// When there is no key any more that may sign, if nothing is done: the end of the unbroken row of windows that `now`
    /// is in. `now` itself where no window holds, and nothing where one has no end.
    pub(crate) fn covered_until(&self, now: SystemTime) -> Option<SystemTime> {
        let mut until = now;
        loop {
            let mut further = until;
            for timed in self.keys.iter().filter(|timed| timed.window.at(until) == Standing::Open) {
                further = further.max(timed.window.not_after?);
            }
            if further == until {
                return Some(until);
            }
            until = further;
        }
    }

    /// What each key does at a moment, in words: its key id, and what follows "key ...".
    pub(crate) fn told(&self, now: SystemTime) -> impl Iterator<Item = (&TimedKey, String)> {
        let signing = self.signing_at(now);
        let time = humantime::format_rfc3339_seconds;
        self.keys.iter().map(move |timed| {
            let window = timed.window;
            let until = window.not_after.map(|end| format!(" until {}", time(end))).unwrap_or_default();
            let words = match (window.at(now), window.not_before, window.not_after) {
                (Standing::Open, ..) if signing.is_some_and(|key| Arc::ptr_eq(key, &timed.key)) => {
                    format!("signs now{until}")
                }
                (Standing::Waiting, Some(first), _) => format!("signs from {}{until}", time(first)),
                (Standing::Over, _, Some(end)) => match end.checked_add(PUBLISHED_AFTER) {
                    Some(published) if published > now => {
                        format!("signs no more since {}, and is published until {}", time(end), time(published))
                    }
                    _ => format!("signs no more since {}, and is not published", time(end)),
                },
                _ => format!("stands by for a newer one{until}"),
            };
            (timed, words)
        })
    }

    /// The keys of one signer that are kept in two places, to be published together; none of them is chosen to sign by this.
    /// What is in both stays for as long as in either.
    pub(crate) fn joined(&self, other: &SigningKeys) -> SigningKeys {
        let mut keys = self.keys.to_vec();
        for timed in other.keys.iter() {
            match keys.iter_mut().find(|known| known.key.kid() == timed.key.kid()) {
                Some(known) => {
                    let ends = (known.window.not_after, timed.window.not_after);
                    known.window.not_after = ends.0.zip(ends.1).map(|(one, other)| one.max(other));
                }
                None => keys.push(timed.clone()),
            }
        }
        keys.sort_by_key(|timed| std::cmp::Reverse(timed.window.not_before));
        SigningKeys { keys: keys.into() }
    }

    /// The one that begins last first.
    pub(crate) fn newest_first(&self) -> &[TimedKey] {
        &self.keys
    }
}

/// What a configuration may write for a moment: RFC 3339 in UTC, as `2026-12-01T00:00:00Z`.
pub(crate) fn parse_moment(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const D: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA";

    fn key(kid: &str) -> Arc<SigningKey> {
        let jwk = serde_json::json!({
            "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": kid, "adcp_use": "webhook-signing", "d": D,
        });
        Arc::new(SigningKey::from_jwk(jwk.to_string().as_bytes()).unwrap())
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn timed(kid: &str, not_before: Option<u64>, not_after: Option<u64>) -> TimedKey {
        let window = Window { not_before: not_before.map(at), not_after: not_after.map(at) };
        TimedKey { key: key(kid), window }
    }

    fn keys(list: &[(&str, Option<u64>, Option<u64>)]) -> Result<SigningKeys, KeysError> {
        SigningKeys::new(list.iter().map(|(kid, from, to)| timed(kid, *from, *to)).collect())
    }

    #[test]
    fn keys_of_one_signer_from_two_places_are_each_there_once_until_the_later_end() {
        let one = keys(&[("a", None, Some(100)), ("b", Some(50), Some(300))]).unwrap();
        let other = keys(&[("a", None, Some(200)), ("b", Some(50), None), ("c", Some(70), None)]).unwrap();
        let other = other.joined(&one);
        for joined in [one.joined(&other), other.joined(&one)] {
            let told: Vec<_> =
                joined.newest_first().iter().map(|timed| (timed.key.kid(), timed.window.not_after)).collect();
            assert_eq!(told.len(), 3, "{told:?}");
            for expected in [("a", Some(at(200))), ("b", None), ("c", None)] {
                assert!(told.contains(&expected), "{told:?}");
            }
        }
    }

    const NANOSECOND: Duration = Duration::from_nanos(1);

    #[test]
    fn a_window_holds_from_its_first_moment_to_just_before_its_last() {
        let window = timed("a", Some(100), Some(200)).window;
        for (now, standing) in [
            (at(0), Standing::Waiting),
            (at(100) - NANOSECOND, Standing::Waiting),
            (at(100), Standing::Open),
            (at(200) - NANOSECOND, Standing::Open),
            (at(200), Standing::Over),
        ] {
            assert_eq!(window.at(now), standing, "{now:?}");
        }
        assert_eq!(Window::default().at(at(0)), Standing::Open);
    }

    #[test]
    fn during_an_overlap_the_newer_key_signs_whatever_the_order_in_the_file() {
        let listed = [("a", None, Some(200)), ("b", Some(150), Some(400)), ("c", Some(300), None)];
        let mut reversed = listed;
        reversed.reverse();
        for list in [listed, reversed] {
            let keys = keys(&list).unwrap();
            let signer = |now: SystemTime| keys.signing_at(now).map(|key| key.kid().to_owned());
            for (now, kid) in [
                (at(0), "a"),
                (at(150) - NANOSECOND, "a"),
                (at(150), "b"),
                (at(200), "b"),
                (at(300) - NANOSECOND, "b"),
                (at(300), "c"),
                (at(9_999_999_999), "c"),
            ] {
                assert_eq!(signer(now).as_deref(), Some(kid), "{now:?}");
            }
        }
    }

    #[test]
    fn between_two_windows_nobody_signs_and_after_a_short_one_the_older_goes_on() {
        let gap = keys(&[("a", None, Some(100)), ("b", Some(101), None)]).unwrap();
        assert_eq!(gap.signing_at(at(100)).map(|key| key.kid().to_owned()), None);
        assert!(gap.signing_at(at(101)).is_some());
        let trial = keys(&[("a", None, None), ("trial", Some(100), Some(200))]).unwrap();
        assert_eq!(trial.signing_at(at(150)).unwrap().kid(), "trial");
        assert_eq!(trial.signing_at(at(200)).unwrap().kid(), "a");
    }

    #[test]
    fn a_key_is_published_from_the_start_until_a_week_after_its_end() {
        let keys = keys(&[("a", None, Some(100)), ("b", Some(5_000_000), None)]).unwrap();
        let published = |now: SystemTime| keys.published_at(now).map(|key| key.kid().to_owned()).collect::<Vec<_>>();
        let end = at(100) + PUBLISHED_AFTER;
        assert_eq!(published(at(0)), ["b", "a"]);
        assert_eq!(published(end - NANOSECOND), ["b", "a"]);
        assert_eq!(published(end), ["b"]);
    }

    #[test]
    fn the_end_of_signing_is_the_end_of_the_unbroken_row() {
        let until = |list: &[_], now| keys(list).unwrap().covered_until(at(now));
        assert_eq!(until(&[("a", None, None)], 0), None);
        assert_eq!(until(&[("a", None, Some(100))], 0), Some(at(100)));
        let chain = [("a", None, Some(100)), ("b", Some(50), Some(200)), ("c", Some(200), Some(300))];
        assert_eq!(until(&chain, 0), Some(at(300)));
        let broken = [("a", None, Some(100)), ("b", Some(101), None)];
        assert_eq!(until(&broken, 0), Some(at(100)));
        assert_eq!(until(&broken, 100), Some(at(100)), "it is over already");
        assert_eq!(until(&broken, 101), None);
        // A longer window that began earlier goes on after a shorter one.
        assert_eq!(until(&[("a", None, Some(300)), ("b", Some(50), Some(100))], 60), Some(at(300)));
    }

    #[test]
    fn what_each_key_does_is_told_in_words() {
        let keys = keys(&[
            ("ancient", None, Some(0)),
            ("old", Some(1), Some(2_000_000)),
            ("older", Some(2), None),
            ("now", Some(3), Some(3_000_000)),
            ("next", Some(2_500_000), None),
        ]);
        let words = |now| {
            let keys = keys.as_ref().unwrap();
            keys.told(at(now)).map(|(timed, words)| format!("{} {words}", timed.key.kid())).collect::<Vec<_>>()
        };
        let told = [
            "next signs from 1970-01-29T22:26:40Z",
            "now signs now until 1970-02-04T17:20:00Z",
            "older stands by for a newer one",
            "old signs no more since 1970-01-24T03:33:20Z, and is published until 1970-01-31T03:33:20Z",
            "ancient signs no more since 1970-01-01T00:00:00Z, and is not published",
        ];
        assert_eq!(words(2_100_000), told);
    }

    #[test]
    fn keys_that_cannot_be_told_apart_are_refused_by_their_places() {
        assert_eq!(keys(&[]).unwrap_err(), KeysError::Empty);
        let twice = [("a", None, None), ("b", Some(1), None), ("a", Some(2), None)];
        assert_eq!(keys(&twice).unwrap_err(), KeysError::SameKid(1, 3));
        assert_eq!(keys(&[("a", None, None), ("b", None, Some(9))]).unwrap_err(), KeysError::SameBeginning(1, 2));
        assert_eq!(keys(&[("a", Some(5), None), ("b", Some(5), None)]).unwrap_err(), KeysError::SameBeginning(1, 2));
        for not_after in [4, 5] {
            let never = [("a", None, None), ("b", Some(5), Some(not_after))];
            assert_eq!(keys(&never).unwrap_err(), KeysError::NeverOpen(2));
        }
    }

    #[test]
    fn moments_are_rfc_3339_in_utc() {
        assert_eq!(parse_moment("1970-01-01T00:01:40Z"), Some(at(100)));
        assert_eq!(parse_moment("1970-01-01T00:01:40.5Z"), Some(at(100) + Duration::from_millis(500)));
        for text in ["", "1970-01-01", "1970-01-01T00:01:40", "1970-01-01T00:01:40+02:00", "100", "soon"] {
            assert_eq!(parse_moment(text), None, "{text}");
        }
    }
}
