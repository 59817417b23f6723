//! How many attempts a destination gets at once: more while it takes them well, half as many when it shows strain. Pure:
//! it knows no destination, and no clock but the moments that it is given.

use tokio::time::Instant;

/// Between 1 and the operator's limit.
#[derive(Debug)]
pub(super) struct Cap {
    allowed: u32,
    limit: u32,
    /// Below it every success opens a place, which doubles the cap in a round trip; from it on one round trip adds one.
    threshold: u32,
    /// Successes since the cap last grew.
    credit: u32,
    halved: Option<Instant>,
}

impl Cap {
    pub(super) fn new(start: u32, limit: u32) -> Cap {
        Cap {
            allowed: start.clamp(1, limit.max(1)),
            limit: limit.max(1),
            threshold: limit.max(1),
            credit: 0,
            halved: None,
        }
    }

    pub(super) fn allowed(&self) -> u32 {
        self.allowed
    }

    pub(super) fn room(&self, in_flight: u32) -> u32 {
        self.allowed.saturating_sub(in_flight)
    }

    /// An attempt was taken well, while this many were in flight, itself among them.
    pub(super) fn succeeded(&mut self, in_flight: u32) {
        // A cap that is not half used has not been put to the test, and so has not earned to grow.
        if in_flight.saturating_mul(2) <= self.allowed || self.allowed >= self.limit {
            return;
        }
        self.credit += 1;
        if self.allowed < self.threshold || self.credit >= self.allowed {
            self.allowed += 1;
            self.credit = 0;
        }
    }

    /// An attempt that began then met a destination that has too much to do.
    pub(super) fn strained(&mut self, began: Instant, now: Instant) {
        // What was in flight when the cap was halved tells of the time before: one round trip halves once.
        if self.halved.is_some_and(|halved| began <= halved) {
            return;
        }
        self.allowed = (self.allowed / 2).max(1);
        self.threshold = self.allowed;
        self.credit = 0;
        self.halved = Some(now);
    }

    /// The operator's limit is another one now: what is above it is over, and what is below grows as before.
    pub(super) fn limit_to(&mut self, limit: u32) {
        let limit = limit.max(1);
        if self.threshold >= self.limit {
            self.threshold = limit;
        }
        self.limit = limit;
        self.threshold = self.threshold.min(limit);
        self.allowed = self.allowed.min(limit);
    }

    /// Nothing that was learned holds any more: from one attempt at a time, doubling.
    pub(super) fn restart(&mut self) {
        *self = Cap::new(1, self.limit);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// One round trip in which every place is used and every attempt succeeds.
    fn round(cap: &mut Cap) -> u32 {
        let places = cap.allowed();
        (0..places).for_each(|_| cap.succeeded(places));
        cap.allowed()
    }

    #[test]
    fn a_used_cap_doubles_each_round_trip_up_to_the_limit() {
        let mut cap = Cap::new(8, 50);
        assert_eq!([round(&mut cap), round(&mut cap), round(&mut cap), round(&mut cap)], [16, 32, 50, 50]);
    }

    #[test]
    fn after_strain_it_is_half_and_grows_by_one_each_round_trip() {
        let mut cap = Cap::new(8, 64);
        let now = Instant::now();
        cap.strained(now - Duration::from_secs(1), now);
        assert_eq!(cap.allowed(), 4);
        assert_eq!([round(&mut cap), round(&mut cap), round(&mut cap)], [5, 6, 7]);
    }

    #[test]
    fn one_round_trip_halves_once_and_nothing_goes_below_one() {
        let mut cap = Cap::new(64, 64);
        let (began, first) = (Instant::now(), Instant::now() + Duration::from_secs(10));
        (0..64).for_each(|_| cap.strained(began, first));
        assert_eq!(cap.allowed(), 32);
        for second in 1..20 {
            cap.strained(first + Duration::from_secs(second), first + Duration::from_secs(second));
        }
        assert_eq!(cap.allowed(), 1);
        assert_eq!(cap.room(0), 1);
    }

    #[test]
    fn a_cap_that_is_not_used_does_not_grow() {
        let mut cap = Cap::new(8, 64);
        (0..1000).for_each(|_| cap.succeeded(4));
        assert_eq!(cap.allowed(), 8);
        cap.succeeded(5);
        assert_eq!(cap.allowed(), 9);
    }

    #[test]
    fn a_restart_begins_at_one_and_doubles_again() {
        let mut cap = Cap::new(8, 64);
        cap.strained(Instant::now(), Instant::now());
        cap.restart();
        assert_eq!([cap.allowed(), round(&mut cap), round(&mut cap), round(&mut cap)], [1, 2, 4, 8]);
    }

    #[test]
    fn another_limit_holds_at_once_and_growth_goes_on_below_it() {
        let mut cap = Cap::new(8, 64);
        cap.limit_to(2);
        assert_eq!([cap.allowed(), round(&mut cap)], [2, 2]);
        cap.limit_to(64);
        assert_eq!([cap.allowed(), round(&mut cap), round(&mut cap)], [2, 4, 8]);
        cap.limit_to(0);
        assert_eq!(cap.allowed(), 1);
    }

    proptest! {
        #[test]
        fn whatever_happens_it_stays_between_one_and_the_limit(
            (start, limit) in (0u32..200, 0u32..200),
            events in proptest::collection::vec((0u8..3, 0u32..300, 0u64..60), 0..200),
        ) {
            let mut cap = Cap::new(start, limit);
            let mut now = Instant::now();
            for (event, in_flight, took) in events {
                let before = cap.allowed();
                now += Duration::from_millis(1);
                match event {
                    0 => cap.succeeded(in_flight),
                    1 => cap.strained(now - Duration::from_millis(took), now),
                    _ => cap.restart(),
                }
                prop_assert!((1..=limit.max(1)).contains(&cap.allowed()));
                prop_assert!(cap.allowed() <= before + 1, "one event opens one place at most");
                prop_assert_eq!(cap.room(in_flight) + in_flight.min(cap.allowed()), cap.allowed());
            }
        }
    }
}
