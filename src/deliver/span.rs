//! The span of an attempt, where spans are exported: it takes the place of the host's context in the request and in the log, and
//! tells of the attempt's end what the log tells.

use super::{Ending, Trail};
use crate::claim::{Lease, TraceContext};
use crate::envelope::Row;
use crate::store::Broken;
pub(crate) use crate::telemetry::spans::Spans;
use crate::telemetry::spans::{Begun, Told};
use crate::verdict::{Attempt, Verdict};

/// A context whose host does not record its trace stays what it is.
pub(super) fn begin(
    spans: &Spans,
    row: &Result<Row, Broken>,
    context: Option<TraceContext>,
) -> (Option<Begun>, Option<TraceContext>) {
    let given = context.as_ref().map(|context| (context.parent(), context.state()));
    let key = row.as_ref().ok().map(|row| row.idempotency_key.as_str());
    let Some(begun) = spans.begin(given, key) else { return (None, context) };
    let own = TraceContext::parse(&begun.traceparent(), given.and_then(|(_, state)| state));
    (Some(begun), own)
}

/// A row that is given back was not attempted, and leaves none.
pub(super) fn end(
    spans: &Spans,
    begun: Option<Begun>,
    lease: &Lease,
    trail: &Trail,
    attempt: i32,
    verdict: &Verdict,
    ending: &Ending,
) {
    let Some(begun) = begun.filter(|_| !matches!(verdict, Verdict::GiveBack { .. })) else { return };
    let status = match ending {
        Ending::Attempted(Attempt::Replied(reply)) => Some(reply.status),
        _ => None,
    };
    let told = Told {
        row: lease.held.id,
        attempt,
        code: verdict.cause().code(),
        delivered: matches!(verdict, Verdict::Delivered { .. }),
        destination: trail.destination.as_ref().map(|destination| (destination.host(), destination.port())),
        status,
    };
    spans.end(begun, told);
}
