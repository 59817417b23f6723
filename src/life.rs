//! The life of one row: what may happen to it, when, and by whom. Pure and on any clock: no socket, no statement, no timer.
//!
//! The statements of `sql/outbox` do to the stored row what [`step`] does here; a simulation holds the two against each other,
//! and a model checker goes through every order of steps that this allows.

/// Where a row is. No worker and no sweep takes it out of the last three; an operator who requeues it begins another life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Pending,
    InFlight,
    Delivered,
    Expired,
    Invalid,
}

/// As much of a row as decides its life: `T` are moments of the database's clock, `K` the tokens of leases.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Row<T, K> {
    pub(crate) state: State,
    /// Of the lease that it is held under.
    pub(crate) token: Option<K>,
    pub(crate) lease_until: Option<T>,
    /// No claim before that.
    pub(crate) due: T,
    /// Those that were begun, and the one that the holder may begin.
    pub(crate) attempts: u32,
    /// No attempt from then on. It is counted from the first attempt.
    pub(crate) horizon: Option<T>,
}

/// How the holder of a row ends its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Settle {
    /// The receiver took it.
    Delivered,
    /// The attempt failed, and another may go better.
    Retried,
    /// No attempt can go better.
    Quarantined,
    /// No attempt was begun.
    GivenBack,
}

/// What is done to a row. The moment is that of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(not(test), expect(dead_code, reason = "claims and sweeps find their rows by conditions, in the database"))]
pub(crate) enum Event<T, K> {
    /// `first_horizon` is where the horizon would end if the first attempt began now.
    Claim {
        token: K,
        now: T,
        lease_until: T,
        first_horizon: T,
    },
    /// `due` is when the row is due again, where it is.
    Settle {
        token: K,
        now: T,
        how: Settle,
        due: T,
    },
    Expire {
        now: T,
    },
}

/// The row after the event; nothing where the event does not concern it, and leaves it alone.
pub(crate) fn step<T: Copy + Ord, K: Copy + Eq>(row: &Row<T, K>, event: &Event<T, K>) -> Option<Row<T, K>> {
    match *event {
        Event::Claim { token, now, lease_until, first_horizon } => row.is_due(now).then(|| Row {
            state: State::InFlight,
            token: Some(token),
            lease_until: Some(lease_until),
            // Whoever asks only what is due finds it no sooner than whoever asks after the lease.
            due: lease_until,
            attempts: row.attempts + 1,
            horizon: row.horizon.or(Some(first_horizon)),
        }),
        Event::Settle { token, now, how, due } => row.is_held_under(token).then(|| row.settled(now, how, due)),
        Event::Expire { now } => row.is_overdue(now).then(|| row.ended(State::Expired)),
    }
}

impl<T: Copy + Ord, K: Copy + Eq> Row<T, K> {
    /// Whether a claim takes it: open, its time has come, nobody holds it any more, and its horizon has not ended.
    fn is_due(&self, now: T) -> bool {
        self.is_free(now) && self.due <= now && self.horizon.is_none_or(|horizon| horizon > now)
    }

    /// Whether it is ended undelivered. Never under a live lease: its holder may have the receiver's 2xx in hand.
    fn is_overdue(&self, now: T) -> bool {
        self.is_free(now) && self.horizon.is_some_and(|horizon| horizon <= now)
    }

    fn is_free(&self, now: T) -> bool {
        let lapsed = self.lease_until.is_none_or(|until| until <= now);
        self.state == State::Pending || self.state == State::InFlight && lapsed
    }

    /// The fence. A lapsed lease that nobody else took still counts: nothing has happened to the row since.
    fn is_held_under(&self, token: K) -> bool {
        self.state == State::InFlight && self.token == Some(token)
    }

    fn settled(&self, now: T, how: Settle, due: T) -> Row<T, K> {
        match how {
            Settle::Delivered => self.ended(State::Delivered),
            Settle::Quarantined => self.ended(State::Invalid),
            Settle::Retried if self.horizon.is_some_and(|horizon| horizon <= now) => self.ended(State::Expired),
            Settle::Retried => Row { due, ..self.ended(State::Pending) },
            // As though it had not been claimed: with the first attempt uncounted, the horizon has not begun either.
            Settle::GivenBack => Row {
                due,
                attempts: self.attempts.saturating_sub(1),
                horizon: self.horizon.filter(|_| self.attempts > 1),
                ..self.ended(State::Pending)
            },
        }
    }

    /// Held by nobody.
    fn ended(&self, state: State) -> Row<T, K> {
        Row { state, token: None, lease_until: None, ..self.clone() }
    }
}

impl Settle {
    /// Whether a row in this state, held by nobody, may be what this settle has made of one that its holder held: a settle
    /// whose answer was lost is found again by it.
    pub(crate) fn may_have_made(self, state: State) -> bool {
        let (began, horizon, after) = (0, 1, 2);
        let held = Row {
            state: State::InFlight,
            token: Some(()),
            lease_until: Some(after),
            due: after,
            attempts: 1,
            horizon: Some(horizon),
        };
        let made = |now| step(&held, &Event::Settle { token: (), now, how: self, due: after });
        [began, after].into_iter().filter_map(made).any(|row| row.state == state)
    }
}

/// A lease as its holder knows it, on the holder's own clock. Both moments are counted from before the claim was asked, so that
/// neither lies behind the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hold<T> {
    pub(crate) until: T,
    pub(crate) horizon: T,
}

impl<T: Copy + Ord> Hold<T> {
    /// Whether an attempt may begin now that is over and settled by `done`. If not, the row must be given back.
    pub(crate) fn admits(&self, now: T, done: T) -> bool {
        now < self.horizon && done <= self.until
    }

    /// Whether it is any use to send a settle again. The fence holds without; this spares the database.
    pub(crate) fn lasts(&self, now: T) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Row<u32, char> =
        Row { state: State::Pending, token: None, lease_until: None, due: 10, attempts: 0, horizon: None };

    fn claim(token: char, now: u32) -> Event<u32, char> {
        Event::Claim { token, now, lease_until: now + 60, first_horizon: now + 1000 }
    }

    fn settle(token: char, now: u32, how: Settle) -> Event<u32, char> {
        Event::Settle { token, now, how, due: now + 5 }
    }

    #[test]
    fn a_row_is_claimed_when_it_is_due_and_again_when_its_lease_has_lapsed() {
        assert_eq!(step(&FIRST, &claim('a', 9)), None);
        let held = step(&FIRST, &claim('a', 10)).unwrap();
        assert_eq!((held.state, held.token, held.attempts), (State::InFlight, Some('a'), 1));
        assert_eq!((held.lease_until, held.horizon), (Some(70), Some(1010)));
        assert_eq!(step(&held, &claim('b', 69)), None);
        let taken = step(&held, &claim('b', 70)).unwrap();
        assert_eq!((taken.token, taken.attempts, taken.horizon), (Some('b'), 2, Some(1010)));
        let late = Row { due: 0, lease_until: Some(0), ..held };
        assert!(step(&late, &claim('b', 1009)).is_some() && step(&late, &claim('b', 1010)).is_none());
    }

    #[test]
    fn p3_only_the_holder_settles_and_a_lapsed_lease_that_nobody_took_still_counts() {
        let held = step(&FIRST, &claim('a', 10)).unwrap();
        for how in [Settle::Delivered, Settle::Retried, Settle::Quarantined, Settle::GivenBack] {
            assert_eq!(step(&held, &settle('b', 20, how)), None);
            assert!(step(&held, &settle('a', 500, how)).is_some());
            let taken = step(&held, &claim('b', 70)).unwrap();
            assert_eq!(step(&taken, &settle('a', 71, how)), None);
        }
    }

    #[test]
    fn p10_p11_a_live_lease_is_not_expired_and_nothing_leaves_an_end() {
        let held = Row { horizon: Some(30), ..step(&FIRST, &claim('a', 10)).unwrap() };
        assert_eq!(step(&held, &Event::Expire { now: 69 }), None);
        let expired = step(&held, &Event::Expire { now: 70 }).unwrap();
        assert_eq!((expired.state, expired.token), (State::Expired, None));
        let ends = [State::Delivered, State::Expired, State::Invalid];
        for end in ends.map(|state| Row { state, token: Some('a'), ..held.clone() }) {
            for event in [claim('b', 900), settle('a', 20, Settle::GivenBack), Event::Expire { now: 900 }] {
                assert_eq!(step(&end, &event), None);
            }
        }
    }

    #[test]
    fn a_retry_waits_or_expires_and_a_row_that_is_given_back_is_as_it_was() {
        let held = step(&FIRST, &claim('a', 10)).unwrap();
        let retried = step(&held, &settle('a', 20, Settle::Retried)).unwrap();
        assert_eq!((retried.state, retried.due, retried.attempts), (State::Pending, 25, 1));
        assert_eq!(step(&held, &settle('a', 1010, Settle::Retried)).unwrap().state, State::Expired);
        assert_eq!(step(&held, &settle('a', 20, Settle::GivenBack)), Some(Row { due: 25, ..FIRST }));
        let again = step(&retried, &claim('b', 25)).unwrap();
        let back = step(&again, &settle('b', 30, Settle::GivenBack)).unwrap();
        assert_eq!((back.attempts, back.horizon), (1, Some(1010)));
    }

    #[test]
    fn what_a_settle_may_have_made_is_known_by_its_kind() {
        let all = [State::Pending, State::InFlight, State::Delivered, State::Expired, State::Invalid];
        let made = |how: Settle| all.into_iter().filter(|state| how.may_have_made(*state)).collect::<Vec<_>>();
        assert_eq!(made(Settle::Delivered), [State::Delivered]);
        assert_eq!(made(Settle::Retried), [State::Pending, State::Expired]);
        assert_eq!(made(Settle::Quarantined), [State::Invalid]);
        assert_eq!(made(Settle::GivenBack), [State::Pending]);
    }

    #[test]
    fn p5_p9_an_attempt_begins_only_with_room_for_all_of_it_and_before_the_horizon() {
        let hold = Hold { until: 60, horizon: 50 };
        for (now, done, admitted) in [(0, 60, true), (0, 61, false), (49, 60, true), (50, 55, false), (51, 52, false)] {
            assert_eq!(hold.admits(now, done), admitted, "{now} to {done}");
        }
        assert!(hold.lasts(59) && !hold.lasts(60));
    }
}
