//! How far this machine's clock is from the database's, and whether signatures that are dated by it would be accepted. Pure:
//! the readings are arguments, and what follows from them is done elsewhere.

use std::time::{Duration, Instant};

/// Receivers allow a signature to be 60 s off; at half of that none is made any more.
pub(crate) const STOPS: f64 = 30.0;
pub(crate) const WARNS: f64 = 5.0;

/// Both clocks of this machine at one moment: the one that can be set, in seconds since 1970, and the one that cannot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    pub(crate) wall: f64,
    pub(crate) steady: Instant,
}

/// The database's clock less ours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Skew {
    pub(crate) seconds: f64,
    /// By how much that may be wrong, since the answer came so long after the question.
    pub(crate) within: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    Close,
    /// Worth a word to whoever keeps the clocks.
    Apart,
    /// Nothing may be signed.
    TooFar,
}

impl Skew {
    /// Takes the middle of the question's time for the moment at which the database read its clock.
    pub(crate) fn measured(theirs: f64, asked: Reading, answered: Instant) -> Skew {
        let half = answered.saturating_duration_since(asked.steady).as_secs_f64() / 2.0;
        Skew { seconds: theirs - (asked.wall + half), within: half }
    }

    /// What it has become since, should our clock have been set meanwhile: seen without asking anybody. The database's may
    /// have been set too, which the next measurement tells.
    pub(crate) fn later(self, then: Reading, now: Reading) -> Skew {
        let passed = now.steady.saturating_duration_since(then.steady).as_secs_f64();
        Skew { seconds: self.seconds - (now.wall - then.wall - passed), ..self }
    }

    /// Goes by what is certain, so that no slow answer looks like a wrong clock.
    pub(crate) fn agreement(self) -> Agreement {
        match self.seconds.abs() - self.within {
            certain if certain > STOPS => Agreement::TooFar,
            certain if certain > WARNS => Agreement::Apart,
            _ => Agreement::Close,
        }
    }
}

impl Reading {
    pub(crate) fn new(wall: Duration, steady: Instant) -> Reading {
        Reading { wall: wall.as_secs_f64(), steady }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(wall: u64, steady: Instant) -> Reading {
        Reading::new(Duration::from_secs(wall), steady)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_round_trip_is_halved_and_what_it_leaves_open_is_no_skew() {
        let began = Instant::now();
        let skew = Skew::measured(1007.0, reading(1000, began), began + seconds(4));
        assert_eq!(skew, Skew { seconds: 5.0, within: 2.0 });
        assert_eq!(skew.agreement(), Agreement::Close);
        let judged = |theirs, took| Skew::measured(theirs, reading(1000, began), began + seconds(took)).agreement();
        let table = [
            (1005.0, 0, Agreement::Close),
            (1005.5, 0, Agreement::Apart),
            (994.5, 0, Agreement::Apart),
            (1030.0, 0, Agreement::Apart),
            (1031.0, 0, Agreement::TooFar),
            (969.0, 0, Agreement::TooFar),
            // Read at the end of twenty seconds, or at their beginning.
            (1020.0, 20, Agreement::Close),
            (1000.0, 20, Agreement::Close),
            (1051.0, 20, Agreement::TooFar),
        ];
        for (theirs, took, agreement) in table {
            assert_eq!(judged(theirs, took), agreement, "{theirs} after {took} s");
        }
    }

    #[test]
    fn a_clock_that_is_set_meanwhile_is_seen_without_another_measurement() {
        let began = Instant::now();
        let (then, later) = (reading(1000, began), began + seconds(3));
        let skew = Skew { seconds: 1.0, within: 0.5 };
        assert_eq!(skew.later(then, reading(1003, later)), skew);
        for (wall, seconds, agreement) in
            [(1303, -299.0, Agreement::TooFar), (703, 301.0, Agreement::TooFar), (1010, -6.0, Agreement::Apart)]
        {
            let skew = skew.later(then, reading(wall, later));
            assert_eq!((skew.seconds, skew.agreement()), (seconds, agreement), "{wall}");
        }
    }
}
