//! Whether our clock may date signatures: measured when the database is probed, and looked at before each attempt, since a clock
//! may be set in between. It asks the database nothing itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::clock::{Agreement, Reading, STOPS, Skew};
use crate::telemetry::health::{Condition, Health};

/// While the clocks are apart it is mentioned again this often.
const REMINDER: Duration = Duration::from_secs(600);

/// The clocks of one outbox's database and of this machine.
pub(crate) struct ClockWatch {
    health: Arc<Health>,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    measured: Option<(Skew, Reading)>,
    warned: Option<Instant>,
}

impl ClockWatch {
    pub(crate) fn new(health: Arc<Health>) -> Arc<ClockWatch> {
        Arc::new(ClockWatch { health, last: Mutex::default() })
    }

    /// The database's clock, in seconds since 1970, as it answered a question that was asked then.
    pub(crate) fn measured(&self, theirs: f64, asked: Reading) {
        let skew = Skew::measured(theirs, asked, Instant::now());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.measured = Some((skew, asked));
        self.health.meter.clock_skew(skew.seconds);
        self.judge(skew);
        let apart = skew.agreement() == Agreement::Apart;
        if apart && last.warned.is_none_or(|at| at.elapsed() >= REMINDER) {
            last.warned = Some(Instant::now());
            let skew_seconds = skew.seconds;
            tracing::warn!(skew_seconds, "this machine's clock and the database's disagree; check NTP on both");
        } else if !apart {
            last.warned = None;
        }
    }

    /// Whether a signature that is made now would be refused.
    pub(super) fn is_off(&self) -> bool {
        let measured = self.last.lock().unwrap_or_else(PoisonError::into_inner).measured;
        // Nothing is claimed before there is a measurement.
        let Some((skew, then)) = measured else { return false };
        let skew = skew.later(then, reading());
        let is_off = skew.agreement() == Agreement::TooFar;
        if is_off {
            self.judge(skew);
        }
        is_off
    }

    fn judge(&self, skew: Skew) {
        let stops = skew.agreement() == Agreement::TooFar;
        let fault = format!("this machine's clock is more than {STOPS} s off the database's; nothing is sent");
        if !self.health.set(Condition::Clock, stops.then_some(fault)) {
            return;
        }
        let skew_seconds = skew.seconds;
        match stops {
            true => tracing::error!(skew_seconds, "clock skew: receivers would refuse our signatures; not sending"),
            false => tracing::info!(skew_seconds, "the clocks agree"),
        }
    }
}

/// A clock before 1970 is as wrong as one of that year.
pub(crate) fn reading() -> Reading {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Reading::new(wall, Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::health::Loop;

    fn watch() -> ClockWatch {
        let health = Arc::new(Health::new(Duration::from_secs(60), &Loop::ALL, &[Condition::Clock]));
        ClockWatch { health, last: Mutex::default() }
    }

    /// As though our clock had been set ahead by so much since it was measured.
    fn set_ahead(watch: &ClockWatch, seconds: f64) {
        let mut last = watch.last.lock().unwrap();
        let (_, then) = last.measured.as_mut().unwrap();
        then.wall -= seconds;
    }

    #[test]
    fn a_clock_that_is_set_stops_attempts_at_once_and_a_measurement_lets_them_go_on() {
        let watch = watch();
        let is_red = || watch.health.has(Condition::Clock);
        assert!(!watch.is_off() && is_red(), "nothing is known yet");
        watch.measured(reading().wall, reading());
        assert!(!watch.is_off() && !is_red());
        for seconds in [300.0, -300.0] {
            set_ahead(&watch, seconds);
            assert!(watch.is_off() && is_red());
            watch.measured(reading().wall, reading());
            assert!(!watch.is_off() && !is_red());
        }
        set_ahead(&watch, 20.0);
        assert!(!watch.is_off() && !is_red());
    }

    #[test]
    fn a_difference_of_some_seconds_is_told_once() {
        let watch = watch();
        let warned = || watch.last.lock().unwrap().warned;
        watch.measured(reading().wall + 10.0, reading());
        let first = warned();
        assert!(first.is_some());
        watch.measured(reading().wall + 10.0, reading());
        assert_eq!(warned(), first);
        watch.measured(reading().wall, reading());
        assert_eq!(warned(), None);
    }
}
