//! The behaviour of the daemon on real Postgres and real sockets; a module per behaviour.

#[path = "../support/mod.rs"]
mod support;

mod check_url;
mod client_certificates;
mod clock;
mod config;
mod crash;
mod database;
mod deliver;
mod demo;
mod differential;
mod drain;
mod faults;
mod fence;
mod hardening;
mod host_agents;
mod host_parity;
mod host_proposals;
mod host_tasks;
mod import;
mod interop;
mod jwks;
mod metrics;
mod migrate;
mod notify;
mod poison;
mod readme;
mod receive_crash;
mod receive_server;
mod receive_terminal;
mod rekey;
mod reload;
mod replies;
mod rotation;
mod scope_table;
mod sdk;
mod sealing;
mod sealing_listener;
mod secrets;
mod signing_keys;
mod ssrf;
mod upgrade;
mod wake;
mod watch;
mod webhooks;
