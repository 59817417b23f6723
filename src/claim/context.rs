//! The trace context that a host gave its rows (W3C Trace Context): read for a batch, checked, and carried to the request. It
//! begins no span of its own, and what is malformed is left out.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::store::{Claimed, Store};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// What vendors must propagate (W3C Trace Context, 3.3.1.5); more is not worth its bytes.
const LONGEST_STATE: usize = 512;

/// One row's, as the headers that carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceContext {
    parent: HeaderValue,
    state: Option<HeaderValue>,
}

impl TraceContext {
    /// Version 00: `00-<32 hex, not all zero>-<16 hex, not all zero>-<2 hex>`. A state that is malformed goes alone.
    pub(crate) fn parse(parent: &str, state: Option<&str>) -> Option<TraceContext> {
        let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
        let parts: Vec<&str> = parent.split('-').collect();
        let [version, trace, span, flags] = parts[..] else { return None };
        let lengths = [version, trace, span, flags].map(str::len);
        if lengths != [2, 32, 16, 2] || version != "00" || ![trace, span, flags].into_iter().all(is_hex) {
            return None;
        }
        if is_zero(trace) || is_zero(span) {
            return None;
        }
        let printable = |state: &&str| {
            (1..=LONGEST_STATE).contains(&state.len()) && state.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        };
        let state = state.filter(printable).and_then(|state| HeaderValue::from_str(state).ok());
        Some(TraceContext { parent: HeaderValue::from_str(parent).ok()?, state })
    }

    /// The trace's id, for a line of the log.
    pub(crate) fn trace_id(&self) -> &str {
        // The parent is ASCII of known length.
        self.parent.to_str().ok().and_then(|parent| parent.get(3..35)).unwrap_or_default()
    }

    /// No signature covers them: whoever is on the way may go on with the trace.
    pub(crate) fn put_into(&self, headers: &mut HeaderMap) {
        headers.insert(TRACEPARENT, self.parent.clone());
        if let Some(state) = &self.state {
            headers.insert(TRACESTATE, state.clone());
        }
    }
}

/// What a span of ours that continues it must know.
#[cfg(feature = "otlp")]
impl TraceContext {
    pub(crate) fn parent(&self) -> &str {
        self.parent.to_str().unwrap_or_default()
    }

    pub(crate) fn state(&self) -> Option<&str> {
        self.state.as_ref().and_then(|state| state.to_str().ok())
    }
}

/// By task. Nothing is asked where there is no table to ask, and a delivery never waits for its trace.
pub(super) async fn read_contexts(store: &Store, batch: &[Claimed]) -> HashMap<String, TraceContext> {
    let task = |claimed: &Claimed| match claimed {
        Claimed::Whole { row, .. } => Some(row.task_id.clone()),
        Claimed::Broken { .. } => None,
    };
    let tasks: Vec<String> = if store.has_traces() { batch.iter().filter_map(task).collect() } else { Vec::new() };
    if tasks.is_empty() {
        return HashMap::new();
    }
    let traces = store.read_traces(&tasks).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "trace contexts could not be read; deliveries go without");
        Vec::new()
    });
    let parsed = |(task, parent, state): (String, String, Option<String>)| {
        Some((task, TraceContext::parse(&parent, state.as_deref())?))
    };
    traces.into_iter().filter_map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_goes_into_the_headers_as_it_was_given() {
        let context = TraceContext::parse(GOOD, Some("vendor=a,other=b")).expect("it is well formed");
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let mut headers = HeaderMap::new();
        context.put_into(&mut headers);
        assert_eq!(
            (&headers["traceparent"], &headers["tracestate"]),
            (&GOOD.parse().unwrap(), &"vendor=a,other=b".parse().unwrap())
        );
    }

    #[test]
    fn what_is_malformed_is_left_out() {
        for parent in [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\n",
        ] {
            assert_eq!(TraceContext::parse(parent, None), None, "{parent:?}");
        }
        for state in ["", "a=b\r\nX-Evil: 1", "ä=b", &"a".repeat(513)] {
            let context = TraceContext::parse(GOOD, Some(state)).expect("the parent is well formed");
            assert_eq!(context.state, None, "{state:?}");
        }
    }
}
