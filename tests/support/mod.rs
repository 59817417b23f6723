//! What the tests stand on: a database, a receiver, the real binary, and independent oracles for what they see.

pub mod abuse;
pub mod certs;
pub mod cluster;
#[cfg(feature = "otlp")]
pub mod collector;
pub mod config;
pub mod daemon;
pub mod dns;
pub mod eventually;
mod evidence;
pub mod history;
pub mod host;
pub mod inbox;
pub mod keys;
pub mod link;
pub mod listener;
pub mod loopback;
pub mod manifests;
pub mod metrics;
pub mod moment;
pub mod namespace;
pub mod peer;
pub mod pooler;
pub mod prometheus;
pub mod receiver;
mod recorder;
pub mod reference;
pub mod refusal;
pub mod runtime;
pub mod seal;
pub mod server;
pub mod signing;
pub mod tool;
pub mod verify;
pub mod world;
