//! When the backlog is counted: every few seconds while that is cheap, and never for more than a small part of the time. It
//! counts nothing itself.

use std::time::Duration;

use tokio::time::Instant;

const EVERY: Duration = Duration::from_secs(5);
/// Of the time counting takes no more than one in so many parts: past versions that an old snapshot keeps, it may take seconds.
const PART: u32 = 100;
const SELDOM: Duration = Duration::from_secs(600);

pub(super) struct Sampling {
    next: Instant,
}

impl Sampling {
    pub(super) fn new(now: Instant) -> Sampling {
        Sampling { next: now }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// A count that began and ended then, with or without an answer.
    pub(super) fn counted(&mut self, began: Instant, ended: Instant) {
        let took = ended.saturating_duration_since(began);
        self.next = ended + (took * (PART - 1)).clamp(EVERY, SELDOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_takes_a_hundredth_of_the_time_at_most_and_is_never_given_up() {
        let mut now = Instant::now();
        let mut sampling = Sampling::new(now);
        assert!(sampling.is_due(now));
        for (took, pause) in [(1, 5_000), (50, 5_000), (330, 32_670), (2_000, 198_000), (10_000, 600_000)] {
            let [took, pause] = [took, pause].map(Duration::from_millis);
            sampling.counted(now, now + took);
            now += took + pause;
            assert!(!sampling.is_due(now - Duration::from_millis(1)) && sampling.is_due(now), "after {took:?}");
        }
    }
}
