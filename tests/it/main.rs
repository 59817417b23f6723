//! The behaviour of the daemon on real Postgres and real sockets; a module per behaviour.

#[path = "../support/mod.rs"]
mod support;

mod deliver;
mod sdk;
