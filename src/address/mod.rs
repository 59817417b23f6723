//! Where a delivery may go: URL rules, names, addresses, and the pin that every connection needs. Opens no connection to a receiver.

mod lookup;
mod memory;
#[cfg(test)]
pub(crate) mod name_server;
mod pin;
mod policy;
mod url;

pub(crate) use lookup::Resolver;
pub(crate) use pin::{PinError, Pinned, judge_literal, pin};
pub(crate) use policy::Policy;
pub(crate) use url::{Destination, HostPatternError, UrlError, UrlRules};
