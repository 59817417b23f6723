//! Envelope keys in use and out of it: sealing again under the newest key whatever lies sealed under an older one, and
//! telling which key is still needed for what. Which places there are is the store's list; what is sealed there is not
//! looked into.

mod census;
mod pace;
mod run;
mod spare;
mod walk;

pub(crate) use census::{PlaceCount, census};
pub(crate) use pace::Pace;
pub(crate) use run::{End, Rekey, RekeyError, Summary, Tally, lagging};
pub(crate) use spare::{Need, Objection, need, objections};

use std::mem;

use crate::envelope::{Aad, Keyring, Opened, try_open};
use crate::store::{Content, SealedItem};

/// How many of what no held key opens are named; the rest is counted.
const NAMED: usize = 10;

/// An item as far as it is of use here.
struct Item {
    key: String,
    seconds_old: f64,
    opened: Option<Open>,
}

struct Open {
    opened: Opened,
    aad: Aad,
    nonce: Vec<u8>,
}

/// Tries what it may be bound to, one by one; finished rows do not say it any more.
fn open(item: SealedItem, ring: &Keyring) -> Item {
    let SealedItem { key, mut aads, content, seconds_old } = item;
    let Content::Whole { mut ciphertext, nonce } = content else { return Item { key, seconds_old, opened: None } };
    let mut opened = None;
    while let (None, Some(aad)) = (&opened, aads.pop()) {
        // Opening consumes the ciphertext, so that all but the last work on a copy.
        let copy = if aads.is_empty() { Vec::new() } else { ciphertext.clone() };
        opened = try_open(mem::replace(&mut ciphertext, copy), &nonce, &aad, ring).map(|opened| (opened, aad));
    }
    Item { key, seconds_old, opened: opened.map(|(opened, aad)| Open { opened, aad, nonce }) }
}
