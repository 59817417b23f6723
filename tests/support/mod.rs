//! What the tests stand on: a database, a receiver, the real binary, and independent oracles for what they see.

pub mod abuse;
pub mod certs;
pub mod cluster;
pub mod config;
pub mod daemon;
pub mod dns;
pub mod eventually;
pub mod history;
pub mod host;
pub mod inbox;
pub mod keys;
pub mod link;
pub mod listener;
pub mod metrics;
pub mod namespace;
pub mod peer;
pub mod pooler;
pub mod receiver;
pub mod reference;
pub mod refusal;
pub mod runtime;
pub mod seal;
pub mod signing;
pub mod tool;
pub mod verify;
pub mod world;
