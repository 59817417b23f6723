//! Makes the list of destinations that have rows due, beside the claims: on a table that an old snapshot keeps full of dead
//! versions it may take a second, and no claim shall wait for it. What follows from it is not decided here.

use std::sync::Arc;

use tokio::time::Instant;

use super::looks::Listing;
use super::slots::Slots;
use crate::store::{Store, StoreError};

/// Destinations in one statement, and in one list.
const AT_ONCE: u32 = 200;
const AT_MOST: usize = 5000;

/// If it is time for one. It ends by itself, since each statement does.
pub(super) fn list_beside(slots: &Arc<Slots>, store: &Arc<Store>) {
    let began = Instant::now();
    let Some(from) = slots.looks().begin_list(began.into_std()) else { return };
    let (slots, store) = (slots.clone(), store.clone());
    tokio::spawn(async move {
        let listing = match list(&store, &from, slots.limits().account_rows.is_some()).await {
            Ok(listing) => Some(listing),
            Err(error) => {
                tracing::debug!(%error, "destinations could not be listed; the next list is made later");
                None
            }
        };
        let news = slots.looks().listed(began.into_std(), Instant::now().into_std(), listing);
        if news {
            slots.make_room(slots.worthwhile());
        }
    });
}

async fn list(store: &Store, from: &str, by_account: bool) -> Result<Listing, StoreError> {
    let mut listing = Listing::default();
    while !listing.ended && listing.destinations.len() < AT_MOST {
        let from = listing.destinations.last().map_or(from, |last| last.destination.as_str());
        let more = store.list_due(from, AT_ONCE, by_account).await?;
        listing.ended = (more.len() as u32) < AT_ONCE;
        // Each statement but the first begins with the last one's last.
        let again = usize::from(!listing.destinations.is_empty());
        listing.destinations.extend(more.into_iter().skip(again));
    }
    Ok(listing)
}
