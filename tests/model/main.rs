//! Every order in which workers, receivers, the database and time may step, tried: the promises hold in all of them, and each
//! of eight mistakes that one could make is caught, with the steps that lead to it.
//!
//! `make model` tries larger worlds. The row's life is the daemon's own, `src/life.rs`.

#[path = "../../src/life.rs"]
mod life;
mod world;

use stateright::{Checker, HasDiscoveries, Model};

use world::{Limits, Mistake, World};

const SMALL: Limits = Limits { workers: 2, crashes: 2, lost_settles: 2, leaps: 0, give_backs: 2, horizon: 4 };

/// Goes through all of it; panics with the steps where a promise does not hold.
fn holds(name: &str, limits: Limits) {
    let checker = World::new(limits, None).checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, the longest way {} steps", checker.unique_state_count(), checker.max_depth());
    for (promise, path) in checker.discoveries() {
        let is_example = world::EXAMPLES.contains(&promise);
        assert!(is_example, "{name}: {promise} is broken by\n{}", world::told(path));
    }
    for example in world::EXAMPLES {
        assert!(checker.discovery(example).is_some(), "{name}: {example} was never reached");
    }
    assert!(checker.is_done());
}

#[test]
fn p2_p3_p4_p6_p9_p10_p11_p12_hold_for_two_workers_that_pause_crash_and_wake() {
    holds("two workers", SMALL);
}

#[test]
fn the_promises_hold_for_three_workers() {
    holds("three workers", Limits { workers: 3, crashes: 1, lost_settles: 1, give_backs: 1, ..SMALL });
}

#[test]
fn the_promises_hold_while_the_databases_clock_leaps() {
    holds("a clock that leaps", Limits { crashes: 1, lost_settles: 1, leaps: 1, ..SMALL });
}

/// More of everything: minutes, and by command.
#[test]
fn the_promises_hold_in_larger_worlds_if_they_are_asked_for() {
    if std::env::var_os("OUTBOXD_MODEL").is_none() {
        return;
    }
    holds("three workers, more faults", Limits { workers: 3, ..SMALL });
    holds("a longer horizon", Limits { leaps: 1, horizon: 6, ..SMALL });
    holds("four workers", Limits { workers: 4, crashes: 1, lost_settles: 1, give_backs: 1, ..SMALL });
}

/// The mistake breaks this promise. Looked for step by step, so that the way that is shown is a shortest one.
fn is_caught(mistake: Mistake, promise: &'static str) {
    let look = |depth| {
        let checker = World::new(SMALL, Some(mistake)).checker().target_max_depth(depth);
        let checker = checker.finish_when(HasDiscoveries::AllOf([promise].into())).spawn_bfs().join();
        checker.discovery(promise)
    };
    let path = (2..24).find_map(look).unwrap_or_else(|| panic!("{mistake:?} goes unnoticed"));
    println!("{mistake:?} breaks {promise:?}:\n{}", world::told(path));
}

#[test]
fn p3_an_unfenced_ack_is_caught() {
    is_caught(Mistake::UnfencedAck, world::P3);
}

#[test]
fn p3_an_unfenced_release_is_caught() {
    is_caught(Mistake::UnfencedRelease, world::P3);
}

#[test]
fn p10_expiry_of_a_live_lease_is_caught() {
    is_caught(Mistake::ExpiryOfLiveLeases, world::P10);
}

#[test]
fn p4_a_claim_by_the_workers_clock_is_caught() {
    is_caught(Mistake::WorkerClock, world::P4);
}

#[test]
fn p2_an_ack_before_the_send_is_caught() {
    is_caught(Mistake::AckBeforeSend, world::P2);
}

#[test]
fn p9_an_attempt_past_the_horizon_is_caught() {
    is_caught(Mistake::AttemptPastHorizon, world::P9);
}

#[test]
fn p6_a_give_back_that_forgets_the_attempt_count_is_caught() {
    is_caught(Mistake::ForgetfulGiveBack, world::COUNTED);
}

#[test]
fn p12_a_sweep_that_never_comes_is_caught() {
    is_caught(Mistake::NoSweep, world::P12);
}
