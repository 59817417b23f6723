//! Why an item is not sealed: one code and one sentence, neither with anything of the item's values in it.

use std::fmt;

use crate::address::{PinError, UrlError};
use crate::deliver::blame;
use crate::envelope::OpenError;
use crate::signer::ResolveError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ItemFault {
    NotAnObject,
    Repeated {
        /// Only where it is plainly a name.
        name: Option<String>,
    },
    Unknown {
        name: Option<String>,
    },
    Member {
        member: &'static str,
        problem: &'static str,
    },
    /// What the daemon would quarantine the row for.
    Envelope(OpenError),
    Url(UrlError),
    Address(PinError),
    Scope(ResolveError),
}

impl ItemFault {
    /// The outcome code that the row would end with, or `item_malformed` where no row could be made at all.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            ItemFault::NotAnObject
            | ItemFault::Repeated { .. }
            | ItemFault::Unknown { .. }
            | ItemFault::Member { .. } => "item_malformed",
            ItemFault::Envelope(error) => blame::open(error).code(),
            ItemFault::Url(error) => blame::url(error).code(),
            ItemFault::Address(error) => blame::pin(error).code(),
            ItemFault::Scope(error) => blame::resolve(error).code(),
        }
    }
}

impl fmt::Display for ItemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ItemFault::NotAnObject => f.write_str("it is not a JSON object"),
            ItemFault::Repeated { name: Some(name) } => write!(f, "the member {name} occurs twice"),
            ItemFault::Repeated { name: None } => f.write_str("a member occurs twice"),
            ItemFault::Unknown { name: Some(name) } => write!(f, "there is no member {name} in an item of this kind"),
            ItemFault::Unknown { name: None } => f.write_str("it has a member that no item of this kind has"),
            ItemFault::Member { member, problem } => write!(f, "the member {member} {problem}"),
            ItemFault::Envelope(error) => error.fmt(f),
            ItemFault::Url(error) => error.fmt(f),
            ItemFault::Address(error) => error.fmt(f),
            ItemFault::Scope(error) => error.fmt(f),
        }
    }
}
