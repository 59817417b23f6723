//! Counting what each held key is needed for. It changes nothing.

use super::walk::Walk;
use super::{NAMED, Pace, open};
use crate::envelope::Keyring;
use crate::store::{Access, Place, Store, StoreError};

/// Smaller than when sealing again: a daemon that counts beside its deliveries is in no hurry.
const BATCH: usize = 200;

/// What one key opens in one place.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) rows: u64,
    /// The age of the newest of them.
    pub(crate) newest_seconds_old: Option<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct PlaceCount {
    pub(crate) place: &'static str,
    /// Nothing is counted where it is absent or forbidden.
    pub(crate) access: Access,
    /// In the order of the ring, each item under the newest key that opens it.
    pub(crate) keys: Vec<Count>,
    pub(crate) unopenable: u64,
    pub(crate) first_unopenable: Vec<String>,
}

/// A whole pass through every place; `tell` hears how many items were counted so far.
pub(crate) async fn census(
    store: &Store,
    ring: &Keyring,
    mut pace: Pace,
    mut tell: impl FnMut(u64),
) -> Result<Vec<PlaceCount>, StoreError> {
    let mut counts = Vec::new();
    let mut counted = 0;
    for place in &Place::ALL {
        let access = store.find_place(place).await?;
        let mut count = PlaceCount {
            place: place.name,
            access,
            keys: vec![Count::default(); ring.len()],
            unopenable: 0,
            first_unopenable: Vec::new(),
        };
        if matches!(access, Access::Readable | Access::Writable) {
            let mut walk = Walk::through(store, place, BATCH);
            while let Some(batch) = walk.next().await? {
                let rows = batch.items.len();
                batch.items.into_iter().for_each(|item| count.add(open(item, ring)));
                counted += rows as u64;
                tell(counted);
                pace.done(rows).await;
            }
        }
        counts.push(count);
    }
    Ok(counts)
}

impl PlaceCount {
    fn add(&mut self, item: super::Item) {
        match item.opened {
            Some(open) => {
                let count = &mut self.keys[open.opened.key];
                count.rows += 1;
                let newest = count.newest_seconds_old.unwrap_or(f64::INFINITY);
                count.newest_seconds_old = Some(newest.min(item.seconds_old));
            }
            None => {
                self.unopenable += 1;
                if self.first_unopenable.len() < NAMED {
                    self.first_unopenable.push(item.key);
                }
            }
        }
    }
}
