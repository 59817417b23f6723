//! From a class to what becomes of the row, and when. Pure arithmetic: any facts are safe, nothing overflows, and no
//! delay passes the row's horizon.

use std::time::Duration;

use super::attempt::Challenge;
use super::cause::{Cause, Class};
use super::classify::StatusPolicy;

/// What is known of the row and its last attempt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// As the claim returned it: 1 at the first attempt.
    pub(crate) attempt_count: i32,
    pub(crate) since_first_attempt: Duration,
    /// Until `retry_until`; zero once it has passed.
    pub(crate) horizon_left: Duration,
    /// The reply's own hint.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) status: Option<u16>,
    pub(crate) challenge: Option<Challenge>,
}

/// The configured limits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Backoff {
    pub(crate) base: Duration,
    pub(crate) cap: Duration,
    pub(crate) slow_base: Duration,
    pub(crate) slow_cap: Duration,
    pub(crate) retry_after_cap: Duration,
    /// Counted from the first attempt; zero quarantines at once.
    pub(crate) unopenable_grace: Duration,
    pub(crate) policy: StatusPolicy,
}

/// What settles the row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Delivered { status: Option<u16> },
    Retry { delay: Duration, status: Option<u16>, cause: Cause, challenge: Option<Challenge> },
    Quarantine { status: Option<u16>, cause: Cause, challenge: Option<Challenge> },
    GiveBack { delay: Duration, cause: Cause },
}

/// The SDK's only ladder (wire contract, section 1.4).
const SDK_LADDER: Ladder = Ladder { base: Duration::from_secs(1), cap: Duration::from_secs(30) };

/// How long before the horizon the last attempt is made: room for the claim, a whole attempt and its settlement.
const LAST_CALL: Duration = Duration::from_secs(30);

/// A row that falls due this close to its horizon may be expired before it is claimed.
const TOO_LATE: Duration = Duration::from_secs(5);

/// `jitter` is uniform in [0, 1).
pub(crate) fn schedule(class: Class, cause: Cause, facts: &Facts, backoff: &Backoff, jitter: f64) -> Verdict {
    let Facts { status, challenge, .. } = *facts;
    let retry = |ladder: Ladder| {
        let own = spread(ladder.step(facts.attempt_count), jitter);
        let asked = facts.retry_after.filter(|_| status.is_some_and(honours_retry_after));
        let delay = own.max(hint(asked, backoff.retry_after_cap, jitter));
        Verdict::Retry { delay: within_horizon(delay, facts.horizon_left), status, cause, challenge }
    };
    let quarantine = Verdict::Quarantine { status, cause, challenge };
    match class {
        Class::Delivered => Verdict::Delivered { status },
        Class::Quarantine => quarantine,
        Class::Retry => retry(backoff.fast()),
        Class::RetrySlow => retry(backoff.slow()),
        Class::RetryThenQuarantine if facts.since_first_attempt >= backoff.unopenable_grace => quarantine,
        Class::RetryThenQuarantine => retry(backoff.slow()),
        // These causes are about this daemon; another may take the row at once.
        Class::GiveBack => Verdict::GiveBack { delay: Duration::ZERO, cause },
    }
}

/// Whether a reply of this status may set the pace: where RFC 9110 section 10.2.3 and RFC 6585 give the header a meaning.
pub(crate) fn honours_retry_after(status: u16) -> bool {
    matches!(status, 300..=399 | 429 | 503)
}

impl Backoff {
    fn fast(&self) -> Ladder {
        match self.policy {
            StatusPolicy::Default => Ladder { base: self.base, cap: self.cap },
            StatusPolicy::Sdk => SDK_LADDER,
        }
    }

    fn slow(&self) -> Ladder {
        match self.policy {
            StatusPolicy::Default => Ladder { base: self.slow_base, cap: self.slow_cap },
            StatusPolicy::Sdk => SDK_LADDER,
        }
    }
}

impl Verdict {
    pub(crate) fn cause(&self) -> Cause {
        match *self {
            Verdict::Delivered { .. } => Cause::Delivered,
            Verdict::Retry { cause, .. } | Verdict::Quarantine { cause, .. } | Verdict::GiveBack { cause, .. } => cause,
        }
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match *self {
            Verdict::Delivered { status } | Verdict::Retry { status, .. } | Verdict::Quarantine { status, .. } => {
                status
            }
            Verdict::GiveBack { .. } => None,
        }
    }

    /// How long the row waits before it is due again; none where it never is.
    pub(crate) fn delay(&self) -> Duration {
        match *self {
            Verdict::Retry { delay, .. } | Verdict::GiveBack { delay, .. } => delay,
            Verdict::Delivered { .. } | Verdict::Quarantine { .. } => Duration::ZERO,
        }
    }

    /// The row's `last_error`: the code, and for a 401 the receiver's reason from its closed list. Nothing else, ever.
    pub(crate) fn last_error(&self) -> Option<String> {
        match *self {
            Verdict::Delivered { .. } => None,
            Verdict::Retry { cause: Cause::HttpUnauthorized, challenge: Some(challenge), .. }
            | Verdict::Quarantine { cause: Cause::HttpUnauthorized, challenge: Some(challenge), .. } => {
                Some(format!("{}:{}", Cause::HttpUnauthorized, challenge.code()))
            }
            Verdict::Retry { cause, .. } | Verdict::Quarantine { cause, .. } | Verdict::GiveBack { cause, .. } => {
                Some(cause.code().to_owned())
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Ladder {
    base: Duration,
    cap: Duration,
}

impl Ladder {
    /// The longest wait after this many attempts: the base, doubled for each attempt but the first.
    fn step(self, attempt_count: i32) -> Duration {
        let doublings = u32::try_from(attempt_count.saturating_sub(1)).unwrap_or(0).min(31);
        self.base.checked_mul(1 << doublings).unwrap_or(self.cap).min(self.cap)
    }
}

/// 50 to 100 % of the whole, so that rows that failed together do not come back together.
fn spread(whole: Duration, jitter: f64) -> Duration {
    share(whole, 500_000 + millionths(jitter) / 2)
}

/// A receiver's hint, capped, then up to 10 % longer, but never beyond the cap. It is never shortened below the cap.
fn hint(asked: Option<Duration>, cap: Duration, jitter: f64) -> Duration {
    let asked = asked.unwrap_or_default().min(cap);
    asked.saturating_add(share(asked, millionths(jitter) / 10)).min(cap)
}

/// A delay past the horizon becomes one last attempt shortly before it, or, where it is too late for that, the horizon
/// itself, at which the row is expired.
fn within_horizon(delay: Duration, horizon_left: Duration) -> Duration {
    if delay.saturating_add(TOO_LATE) <= horizon_left {
        return delay;
    }
    match horizon_left.checked_sub(LAST_CALL) {
        Some(last_call) if !last_call.is_zero() => last_call,
        _ => delay.min(horizon_left),
    }
}

/// A cast to an integer saturates and takes NaN to zero, so no jitter can go wrong.
fn millionths(jitter: f64) -> u32 {
    ((jitter * 1e6) as u32).min(1_000_000)
}

/// `whole * millionths / 1e6` without the overflow of [`Duration::mul_f64`]; the share is at most the whole.
fn share(whole: Duration, millionths: u32) -> Duration {
    let nanos = whole.as_nanos() * u128::from(millionths.min(1_000_000)) / 1_000_000;
    Duration::from_nanos_u128(nanos)
}
