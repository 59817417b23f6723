//! The behaviour of the daemon on real Postgres and real sockets; a module per behaviour.

#[path = "../support/mod.rs"]
mod support;

mod config;
mod crash;
mod database;
mod deliver;
mod drain;
mod faults;
mod fence;
mod host_tasks;
mod interop;
mod poison;
mod reload;
mod replies;
mod sdk;
mod secrets;
