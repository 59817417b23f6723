//! What settling asks and what it answers. Every request carries the lease that it is made under.

use std::time::Duration;

use super::claim::{Lease, LeaseToken};

/// The receiver took the row.
#[derive(Debug, Clone)]
pub(crate) struct Delivered {
    pub(crate) lease: Lease,
    pub(crate) http_status: u16,
}

/// The attempt failed; another may end better.
#[derive(Debug, Clone)]
pub(crate) struct Retried {
    pub(crate) lease: Lease,
    pub(crate) delay: Duration,
    pub(crate) http_status: Option<u16>,
    /// A cause's code, for `last_error`.
    pub(crate) error: String,
}

/// No attempt can end better.
#[derive(Debug, Clone)]
pub(crate) struct Quarantined {
    pub(crate) lease: Lease,
    pub(crate) http_status: Option<u16>,
    pub(crate) error: String,
}

/// No attempt was begun.
#[derive(Debug, Clone)]
pub(crate) struct GivenBack {
    pub(crate) lease: Lease,
    pub(crate) delay: Duration,
}

/// A row that was settled, and as what: a retried row may have turned out `Expired`. A row that was asked for
/// and is not among these was lost, or settled before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) id: i64,
    pub(crate) state: RowState,
}

/// What became of a row that could not be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) id: i64,
    pub(crate) state: RowState,
    pub(crate) attempt_count: i32,
    /// It is in flight under the very lease that was asked about: the settle can be sent again.
    pub(crate) still_held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RowState {
    Pending,
    InFlight,
    Delivered,
    Expired,
    Invalid,
    /// None of ours: the table's check was changed.
    Unknown,
}

impl RowState {
    pub(crate) fn label(self) -> &'static str {
        match self {
            RowState::Pending => "pending",
            RowState::InFlight => "in_flight",
            RowState::Delivered => "delivered",
            RowState::Expired => "expired",
            RowState::Invalid => "invalid",
            RowState::Unknown => "unknown",
        }
    }

    pub(crate) fn parse(text: &str) -> RowState {
        match text {
            "pending" => RowState::Pending,
            "in_flight" => RowState::InFlight,
            "delivered" => RowState::Delivered,
            "expired" => RowState::Expired,
            "invalid" => RowState::Invalid,
            _ => RowState::Unknown,
        }
    }
}

/// The two arrays by which every settling statement finds its rows.
pub(super) fn fence<'a>(leases: impl Iterator<Item = &'a Lease>) -> (Vec<i64>, Vec<&'a str>) {
    leases.map(|Lease { id, token }| (*id, LeaseToken::as_str(token))).unzip()
}
