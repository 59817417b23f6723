//! What an attempt means: from its facts to a cause with a stable code, and from the cause to what becomes of the row.
//! Time, jitter and limits are arguments; nothing here waits, logs or settles.

mod attempt;
mod cause;
mod classify;
pub(crate) mod retry_after;
mod schedule;

#[cfg(test)]
mod tests;

pub(crate) use attempt::{Attempt, Challenge, Failure, Fault, Reply, Sent};
pub(crate) use cause::{Blame, Cause, Class};
pub(crate) use classify::{StatusPolicy, classify};
pub(crate) use schedule::{Backoff, Facts, Verdict, honours_retry_after, schedule};
