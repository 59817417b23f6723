//! Logs, metrics, spans, health and the listener that shows them; every name of a metric, label or attribute lives here.

pub(crate) mod admin;
pub(crate) mod expiry;
pub(crate) mod health;
mod lines;
pub(crate) mod logs;
pub(crate) mod meter;
pub(crate) mod metrics;
#[cfg(feature = "otlp")]
pub(crate) mod spans;
