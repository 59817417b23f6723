//! What names resolved to, for as long as their answers say and never for long. Asks nobody.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// More names than any fleet delivers to within the half minute that an answer is kept; past it nothing more is kept.
const MOST_NAMES: usize = 8192;

/// Of our own and not the resolver library's, so that an answer that was remembered is never taken for a sign that the
/// name servers live.
#[derive(Default)]
pub(super) struct Memory(Mutex<HashMap<String, Remembered>>);

struct Remembered {
    addresses: Vec<IpAddr>,
    until: Instant,
}

impl Memory {
    pub(super) fn recall(&self, name: &str, now: Instant) -> Option<Vec<IpAddr>> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(name).filter(|remembered| remembered.until > now).map(|remembered| remembered.addresses.clone())
    }

    pub(super) fn keep(&self, name: &str, addresses: &[IpAddr], until: Instant, now: Instant) {
        if until <= now {
            return;
        }
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MOST_NAMES {
            names.retain(|_, remembered| remembered.until > now);
        }
        if names.len() < MOST_NAMES || names.contains_key(name) {
            names.insert(name.to_owned(), Remembered { addresses: addresses.to_vec(), until });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(8, 8, 8, 8));

    #[test]
    fn an_answer_is_forgotten_when_its_time_is_up() {
        let (memory, now) = (Memory::default(), Instant::now());
        memory.keep("a", &[ADDRESS], now + Duration::from_secs(3), now);
        memory.keep("b", &[ADDRESS], now, now);
        assert_eq!(memory.recall("a", now + Duration::from_secs(2)), Some(vec![ADDRESS]));
        assert_eq!(memory.recall("a", now + Duration::from_secs(3)), None);
        assert_eq!(memory.recall("b", now), None, "an answer of no time is not kept at all");
    }

    #[test]
    fn names_without_number_are_not_kept_without_number() {
        let (memory, now) = (Memory::default(), Instant::now());
        let until = now + Duration::from_secs(3);
        for name in 0..MOST_NAMES + 10 {
            memory.keep(&name.to_string(), &[ADDRESS], until, now);
        }
        assert_eq!(memory.0.lock().unwrap().len(), MOST_NAMES);
        memory.keep("late", &[ADDRESS], until + Duration::from_secs(9), until);
        assert_eq!(memory.recall("late", until), Some(vec![ADDRESS]));
        assert_eq!(memory.0.lock().unwrap().len(), 1);
    }
}
