//! When a destination that fails by itself is left alone, for how long, and what brings it back: one probe. Pure: time and
//! jitter are given.

use std::time::Duration;

use tokio::time::Instant;

use super::outcome::Reason;

/// The first pause, and the longest: a receiver that comes back is found within half a minute.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Closed while rows may go; open while the destination is parked; half-open when that has passed, until a probe has told.
#[derive(Debug)]
pub(super) struct Breaker {
    /// Failures in a row that open it; 0: it never opens by itself.
    after: u32,
    failures: u32,
    /// How often it has been parked without a success between; each doubles the pause.
    trips: u32,
    parked: Option<Parked>,
    /// When it last opened or closed: what began before that tells nothing of the time since.
    changed: Option<Instant>,
    epoch: u64,
}

#[derive(Debug, Clone, Copy)]
struct Parked {
    until: Instant,
    /// Nothing where another replica gave a reason that this version does not know.
    reason: Option<Reason>,
    probing: bool,
}

/// Which opening a probe is for. One of an earlier opening is an attempt like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Parked {
        until: Instant,
    },
    /// One row may go.
    HalfOpen,
    /// It is on its way.
    Probing,
}

impl Breaker {
    pub(super) fn new(after: u32) -> Breaker {
        Breaker { after, failures: 0, trips: 0, parked: None, changed: None, epoch: 0 }
    }

    pub(super) fn state(&self, now: Instant) -> State {
        match self.parked {
            None => State::Closed,
            Some(Parked { until, .. }) if now < until => State::Parked { until },
            Some(Parked { probing: true, .. }) => State::Probing,
            Some(_) => State::HalfOpen,
        }
    }

    /// When the pause ends or ended, of one that is not closed.
    pub(super) fn pause_ends(&self) -> Option<Instant> {
        self.parked.map(|parked| parked.until)
    }

    pub(super) fn reason(&self) -> Option<Reason> {
        self.parked.and_then(|parked| parked.reason)
    }

    pub(super) fn trips(&self) -> u32 {
        self.trips
    }

    /// Moves on each time that the destination is parked or let go.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A row has been claimed: whether it is the probe.
    pub(super) fn entered(&mut self, now: Instant) -> Option<Probe> {
        if self.state(now) != State::HalfOpen {
            return None;
        }
        self.parked.as_mut()?.probing = true;
        Some(Probe(self.epoch))
    }

    /// The probe ended without having met the destination; another row may be one.
    pub(super) fn probe_unused(&mut self, probe: Probe) {
        if let Some(parked) = self.parked.as_mut().filter(|_| probe == Probe(self.epoch)) {
            parked.probing = false;
        }
    }

    /// The destination failed: for how long it is parked now, if that is news.
    pub(super) fn failed(
        &mut self,
        reason: Reason,
        probe: Option<Probe>,
        began: Instant,
        now: Instant,
        jitter: f64,
    ) -> Option<Duration> {
        let is_probe = probe == Some(Probe(self.epoch));
        if !is_probe {
            if self.parked.is_some() || self.changed.is_some_and(|changed| began <= changed) {
                return None;
            }
            self.failures += 1;
            if self.after == 0 || self.failures < self.after {
                return None;
            }
        }
        self.trips = self.trips.saturating_add(1);
        let pause = pause(self.trips, jitter);
        self.turn(Some(Parked { until: now + pause, reason: Some(reason), probing: false }), now);
        Some(pause)
    }

    /// The destination answered: whether that lets it go.
    pub(super) fn answered(&mut self, probe: Option<Probe>, now: Instant) -> bool {
        let is_probe = probe == Some(Probe(self.epoch));
        if is_probe {
            self.close(now);
        } else if self.parked.is_none() {
            self.failures = 0;
        }
        is_probe
    }

    /// It asked to be left alone until then. Never shortens.
    pub(super) fn park(&mut self, until: Instant, now: Instant) {
        if self.parked.is_none_or(|parked| parked.until < until) {
            self.turn(Some(Parked { until, reason: Some(Reason::RetryAfter), probing: false }), now);
        }
    }

    /// As another replica has it.
    pub(super) fn adopt(&mut self, until: Instant, reason: Option<Reason>, trips: u32, now: Instant) {
        self.trips = trips;
        self.turn(Some(Parked { until, reason, probing: false }), now);
    }

    pub(super) fn close(&mut self, now: Instant) {
        self.trips = 0;
        self.turn(None, now);
    }

    fn turn(&mut self, parked: Option<Parked>, now: Instant) {
        self.parked = parked;
        self.failures = 0;
        self.changed = Some(now);
        self.epoch += 1;
    }
}

/// Doubles from the first pause to the longest, give or take a quarter, so that destinations behind one broken thing are not
/// all tried in the same moment.
fn pause(trips: u32, jitter: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << trips.saturating_sub(1).min(16)).min(LONGEST);
    doubled.mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 2.0).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// Neither longer nor shorter.
    const EVEN: f64 = 0.5;

    /// Fails until it opens, and says when that was.
    fn opened(breaker: &mut Breaker, mut now: Instant) -> Instant {
        for _ in 0..5 {
            now += SECOND;
            breaker.failed(Reason::Connect, None, now, now, EVEN);
        }
        assert_eq!(breaker.state(now), State::Parked { until: now + SECOND });
        now
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_reply_between_them_does_not_let_them() {
        let (mut breaker, now) = (Breaker::new(5), Instant::now());
        for _ in 0..4 {
            assert_eq!(breaker.failed(Reason::Timeout, None, now, now, EVEN), None);
        }
        assert!(!breaker.answered(None, now));
        opened(&mut breaker, now);
        assert_eq!((breaker.reason(), breaker.trips()), (Some(Reason::Connect), 1));
    }

    #[test]
    fn zero_switches_it_off() {
        let (mut breaker, now) = (Breaker::new(0), Instant::now());
        assert!((0..1000).all(|_| breaker.failed(Reason::Connect, None, now, now, EVEN).is_none()));
        assert_eq!(breaker.state(now), State::Closed);
    }

    #[test]
    fn when_the_pause_is_over_one_row_goes_and_its_failure_doubles_the_pause() {
        let mut breaker = Breaker::new(5);
        let mut now = opened(&mut breaker, Instant::now());
        for seconds in [2, 4, 8, 16, 30, 30] {
            let State::Parked { until } = breaker.state(now) else { panic!("it is parked") };
            assert_eq!(breaker.entered(now), None);
            now = until;
            let probe = breaker.entered(now);
            assert!(probe.is_some());
            assert_eq!((breaker.state(now), breaker.entered(now)), (State::Probing, None));
            let pause = breaker.failed(Reason::Connect, probe, now, now, EVEN);
            assert_eq!(pause, Some(Duration::from_secs(seconds)));
        }
    }

    #[test]
    fn a_probe_that_is_answered_lets_it_go_and_the_next_pause_is_short_again() {
        let mut breaker = Breaker::new(5);
        let now = opened(&mut breaker, Instant::now()) + SECOND;
        let probe = breaker.entered(now);
        assert!(breaker.answered(probe, now));
        assert_eq!((breaker.state(now), breaker.trips()), (State::Closed, 0));
        opened(&mut breaker, now);
    }

    #[test]
    fn a_probe_that_met_nobody_leaves_its_turn_to_another() {
        let mut breaker = Breaker::new(5);
        let now = opened(&mut breaker, Instant::now()) + SECOND;
        let probe = breaker.entered(now).expect("its pause is over");
        breaker.probe_unused(probe);
        assert_eq!(breaker.state(now), State::HalfOpen);
        assert!(breaker.entered(now).is_some());
        breaker.park(now + SECOND, now);
        breaker.probe_unused(probe);
        assert_eq!(breaker.state(now), State::Parked { until: now + SECOND });
    }

    #[test]
    fn what_was_on_its_way_when_it_turned_neither_parks_it_longer_nor_lets_it_go() {
        let mut breaker = Breaker::new(5);
        let before = Instant::now();
        let opened_at = opened(&mut breaker, before);
        for _ in 0..20 {
            assert_eq!(breaker.failed(Reason::Connect, None, before, opened_at, EVEN), None);
        }
        assert!(!breaker.answered(None, opened_at));
        assert_eq!(breaker.state(opened_at), State::Parked { until: opened_at + SECOND });
        let now = opened_at + SECOND;
        let probe = breaker.entered(now);
        assert!(breaker.answered(probe, now));
        for _ in 0..20 {
            assert_eq!(breaker.failed(Reason::Connect, None, before, now, EVEN), None);
        }
        assert_eq!(breaker.state(now), State::Closed);
    }

    #[test]
    fn a_probe_of_an_earlier_opening_decides_nothing() {
        let mut breaker = Breaker::new(5);
        let now = opened(&mut breaker, Instant::now()) + SECOND;
        let probe = breaker.entered(now);
        let until = now + 60 * SECOND;
        breaker.adopt(until, None, 7, now);
        assert!(!breaker.answered(probe, now));
        assert_eq!(breaker.failed(Reason::Connect, probe, now, now, EVEN), None);
        assert_eq!((breaker.state(now), breaker.trips()), (State::Parked { until }, 7));
    }

    #[test]
    fn what_a_receiver_asks_for_never_shortens_and_ends_in_a_probe_too() {
        let (mut breaker, now) = (Breaker::new(5), Instant::now());
        breaker.park(now + 10 * SECOND, now);
        breaker.park(now + 2 * SECOND, now);
        assert_eq!(breaker.state(now), State::Parked { until: now + 10 * SECOND });
        assert_eq!(breaker.state(now + 10 * SECOND), State::HalfOpen);
        assert_eq!((breaker.reason(), breaker.trips()), (Some(Reason::RetryAfter), 0));
    }

    proptest! {
        #[test]
        fn every_pause_is_within_its_bounds(trips in any::<u32>(), jitter in any::<f64>()) {
            let pause = pause(trips, if jitter.is_nan() { 0.0 } else { jitter });
            prop_assert!((FIRST.mul_f64(0.75)..=LONGEST).contains(&pause), "{:?}", pause);
        }
    }
}
