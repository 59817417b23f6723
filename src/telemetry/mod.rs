//! Logs, metrics, health and the listener that shows them; every metric name and label lives here.

pub(crate) mod admin;
pub(crate) mod expiry;
pub(crate) mod health;
mod lines;
pub(crate) mod logs;
pub(crate) mod meter;
pub(crate) mod metrics;
