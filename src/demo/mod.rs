//! (stub)

pub mod postgres;
