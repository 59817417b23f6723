//! When the claim loop looks again. Knows what the looks found and what the ear heard, and neither claims nor waits.

use std::time::Duration;

use tokio::time::Instant;

/// After a wake-up: a host that committed together with the one that spoke relies on its word, and may be visible a little
/// later than that.
const AFTER_WAKE_UP: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(40), Duration::from_millis(160)];
/// What is found this long after a wake-up is taken to be what it told of.
const TOLD_FOR: Duration = Duration::from_millis(300);
/// What came untold is followed by more of its kind: the next pause is this part of the interval, and doubles from there.
const QUICKER: u32 = 16;
const QUICKEST: Duration = Duration::from_millis(5);
/// So long after the last row that nobody told of, looks grow rarer; by this much, and never rarer than that.
const TRUSTS_AFTER: Duration = Duration::from_secs(10 * 60);
const RARER: u32 = 4;
const RAREST: Duration = Duration::from_secs(2);
/// Between the beginnings of two looks of which the first took all that was due. A burst of wake-ups is
/// answered by looks that bring several rows each, at a cost of 2.5 ms to the median row; the first is answered at once.
const GAP: Duration = Duration::from_millis(5);

pub(super) struct Pace {
    /// `delivery.poll_interval`
    interval: Duration,
    /// The next pause, when no wake-up is fresh.
    next: Duration,
    /// How many looks followed the last wake-up.
    followed: usize,
    woken: Option<Instant>,
    /// When a row was last found that no wake-up told of; the start counts as one.
    untold: Instant,
    /// When the last look began, if it took all that was due.
    exhausted: Option<Instant>,
}

impl Pace {
    pub(super) fn new(interval: Duration, now: Instant) -> Pace {
        Pace { interval, next: interval, followed: AFTER_WAKE_UP.len(), woken: None, untold: now, exhausted: None }
    }

    pub(super) fn woken(&mut self, now: Instant) {
        self.woken = Some(now);
        self.followed = 0;
    }

    /// A look that began then has found so many rows, and maybe all that were due.
    pub(super) fn looked(&mut self, began: Instant, rows: usize, exhausted: bool) {
        self.exhausted = Some(began).filter(|_| exhausted);
        let told = self.woken.is_some_and(|at| began < at + TOLD_FOR);
        if rows > 0 && !told {
            self.untold = began;
            self.next = (self.interval / QUICKER).max(QUICKEST).min(self.interval);
        }
    }

    /// How long to wait after a look that found nothing, if no wake-up comes. `heard`: one would.
    pub(super) fn pause(&mut self, now: Instant, heard: bool) -> Duration {
        if let Some(follow) = AFTER_WAKE_UP.get(self.followed) {
            self.followed += 1;
            return self.interval.min(*follow);
        }
        let most = match heard && now >= self.untold + TRUSTS_AFTER {
            true => (self.interval * RARER).min(RAREST).max(self.interval),
            false => self.interval,
        };
        let pause = self.next.min(most);
        self.next = (pause * 2).min(most);
        pause
    }

    /// Before this moment the next look would find little that the last one did not.
    pub(super) fn not_before(&self) -> Option<Instant> {
        self.exhausted.map(|began| began + GAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(500);
    const MS: Duration = Duration::from_millis(1);

    fn pauses(pace: &mut Pace, now: Instant, heard: bool, count: usize) -> Vec<u128> {
        (0..count).map(|_| pace.pause(now, heard).as_millis()).collect()
    }

    #[test]
    fn an_idle_daemon_looks_as_often_as_it_is_told_to_whether_it_hears_or_not() {
        let now = Instant::now();
        for heard in [false, true] {
            let mut pace = Pace::new(INTERVAL, now);
            pace.looked(now, 0, true);
            assert_eq!(pauses(&mut pace, now, heard, 3), [500, 500, 500]);
        }
    }

    #[test]
    fn looks_grow_rarer_only_where_all_that_came_was_told_of_and_more_would_be() {
        let began = Instant::now();
        let mut pace = Pace::new(INTERVAL, began);
        let later = began + TRUSTS_AFTER;
        assert_eq!(pauses(&mut pace, later - MS, true, 2), [500, 500]);
        assert_eq!(pauses(&mut pace, later, false, 2), [500, 500]);
        assert_eq!(pauses(&mut pace, later, true, 4), [500, 1000, 2000, 2000]);
        assert_eq!(pauses(&mut pace, later, false, 1), [500], "the ear was lost");
        // A told row changes nothing, one that is found by looking does.
        pace.woken(later);
        pace.looked(later + MS, 1, true);
        pace.followed = AFTER_WAKE_UP.len();
        pace.next = INTERVAL;
        assert_eq!(pauses(&mut pace, later, true, 3), [500, 1000, 2000]);
        pace.looked(later + TOLD_FOR, 1, true);
        let quick = pauses(&mut pace, later + TOLD_FOR, true, 7);
        assert_eq!(quick, [31, 62, 125, 250, 500, 500, 500]);
    }

    #[test]
    fn a_long_interval_is_not_made_rarer_and_a_short_one_not_quicker() {
        let began = Instant::now();
        let later = began + TRUSTS_AFTER;
        let mut pace = Pace::new(Duration::from_secs(60), began);
        assert_eq!(pauses(&mut pace, later, true, 2), [60_000, 60_000]);
        let mut pace = Pace::new(Duration::from_millis(4), began);
        pace.looked(later, 1, true);
        assert_eq!(pauses(&mut pace, later, false, 2), [4, 4]);
    }

    #[test]
    fn a_wake_up_is_followed_by_quick_looks_and_then_the_pace_of_before() {
        let now = Instant::now();
        let mut pace = Pace::new(INTERVAL, now);
        pace.woken(now);
        pace.looked(now, 1, true);
        assert_eq!(pauses(&mut pace, now, true, 5), [10, 40, 160, 500, 500]);
        let mut pace = Pace::new(Duration::from_millis(20), now);
        pace.woken(now);
        assert_eq!(pauses(&mut pace, now, true, 4), [10, 20, 20, 20], "never above the interval");
    }

    #[test]
    fn only_a_look_that_took_everything_keeps_the_next_one_waiting() {
        let now = Instant::now();
        let mut pace = Pace::new(INTERVAL, now);
        assert_eq!(pace.not_before(), None);
        pace.looked(now, 99, true);
        assert_eq!(pace.not_before(), Some(now + GAP));
        pace.looked(now, 99, false);
        assert_eq!(pace.not_before(), None);
    }
}
