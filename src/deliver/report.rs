//! One log line and one count for each row taken up: what was tried, where, how it ended, what comes next.

use std::time::Duration;

use super::{Ending, Trail};
use crate::address::Destination;
use crate::claim::{Lease, TraceContext};
use crate::telemetry::meter::Meter;
use crate::verdict::{Attempt, Verdict};

/// Names host and port only. What the receiver wrote is never shown; its status is.
pub(super) fn attempt(
    meter: &Meter,
    lease: &Lease,
    trail: &Trail,
    attempt_count: i32,
    took: Duration,
    verdict: &Verdict,
    ending: &Ending,
) {
    let tried = matches!(ending, Ending::Attempted(_));
    let cause = verdict.cause();
    meter.attempt(cause.code(), tried.then_some(took));
    let (row, attempt, code, ms) = (lease.held.id, attempt_count, cause.code(), took.as_millis() as u64);
    // Spelt only where the line is written.
    let destination = || trail.destination.as_ref().map(Destination::origin);
    let status = match ending {
        Ending::Attempted(Attempt::Replied(reply)) => Some(reply.status),
        _ => None,
    };
    let reused = trail.reused;
    let trace = trail.context.as_ref().map(TraceContext::trace_id);
    match verdict {
        Verdict::Delivered { .. } => {
            tracing::debug!(row, attempt, destination = destination(), code, status, ms, reused, trace, "delivered");
        }
        Verdict::Retry { delay, .. } => {
            let retry_in = delay.as_secs();
            tracing::info!(
                row,
                attempt,
                destination = destination(),
                code,
                status,
                ms,
                retry_in,
                trace,
                "not delivered; will be tried again"
            );
        }
        Verdict::Quarantine { .. } => {
            tracing::warn!(
                row,
                attempt,
                destination = destination(),
                code,
                status,
                ms,
                trace,
                "quarantined: it will not be tried again"
            );
        }
        Verdict::GiveBack { .. } => {
            tracing::debug!(row, destination = destination(), code, ms, "given back unattempted");
        }
    }
}
