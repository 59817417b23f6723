//! Where a delivery may go: URL rules, names, addresses, and the pin that every connection needs. Opens no connection to a receiver.

mod class;
mod embedded;
mod interfaces;
mod lookup;
mod memory;
#[cfg(test)]
pub(crate) mod name_server;
mod pin;
mod policy;
mod ranges;
mod url;

pub(crate) use class::AddressClass;
pub(crate) use embedded::{Nat64Prefix, Nat64PrefixError};
pub(crate) use interfaces::own_addresses;
pub(crate) use lookup::Resolver;
pub(crate) use pin::{PinError, Pinned, judge_literal, look_up, pin};
pub(crate) use policy::{Judgement, Policy, Rule};
pub(crate) use url::{Destination, HostPatternError, UrlError, UrlRules};
