//! The behaviour of the daemon on real Postgres and real sockets; a module per behaviour.

#[path = "../support/mod.rs"]
mod support;

mod clock;
mod config;
mod crash;
mod database;
mod deliver;
mod demo;
mod drain;
mod faults;
mod fence;
mod host_tasks;
mod import;
mod interop;
mod metrics;
mod migrate;
mod notify;
mod poison;
mod readme;
mod reload;
mod replies;
mod sdk;
mod secrets;
