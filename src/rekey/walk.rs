//! A walk through all that is sealed in one place, batch by batch, in memory that does not grow with it.

use std::collections::VecDeque;

use crate::store::{Content, Place, SealedItem, Store, StoreError};

/// A batch that is full before this is full of rows; one of large bodies has fewer.
const MOST_BYTES: i64 = 16 << 20;

pub(super) struct Walk<'a> {
    store: &'a Store,
    place: &'a Place,
    batch: usize,
    keys: VecDeque<String>,
    /// Where the next list begins.
    after: Option<String>,
}

pub(super) struct Batch {
    pub(super) items: Vec<SealedItem>,
    /// Listed, but ended before they were read.
    pub(super) ended: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn through(store: &'a Store, place: &'a Place, batch: usize) -> Walk<'a> {
        Walk { store, place, batch, keys: VecDeque::new(), after: Some(String::new()) }
    }

    /// Through these alone.
    pub(super) fn again(store: &'a Store, place: &'a Place, batch: usize, keys: Vec<String>) -> Walk<'a> {
        Walk { store, place, batch, keys: keys.into(), after: None }
    }

    /// At least one item or one that ended, until there is nothing more.
    pub(super) async fn next(&mut self) -> Result<Option<Batch>, StoreError> {
        while self.keys.is_empty() {
            let Some(after) = self.after.take() else { return Ok(None) };
            let listed = self.store.list_sealed(self.place, &after).await?;
            self.keys = listed.keys.into();
            self.after = listed.after;
        }
        let wanted: Vec<String> = self.keys.drain(..self.batch.min(self.keys.len())).collect();
        let keys: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let mut items = self.store.read_sealed_items(self.place, &keys, MOST_BYTES).await?;
        let ended = wanted.len() - items.len();
        // The first one always has room, so that each batch gets on.
        let whole = items.iter().position(|item| matches!(item.content, Content::NoRoom)).unwrap_or(items.len());
        for item in items.drain(whole..).rev() {
            self.keys.push_front(item.key);
        }
        Ok(Some(Batch { items, ended }))
    }
}
