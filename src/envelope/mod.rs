//! (stub)

mod row;

pub(crate) use row::Row;
