//! (stub)

mod attempt;
pub(crate) use attempt::*;
