//! What of a destination's room each claim is offered while others are under way in other databases: no two are offered the
//! same. Knows no rows, and with one outbox changes nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::destinations::Rooms;

/// For so long what was offered is kept for a claim that has not come back. A database that hangs must not keep a destination
/// from the other outboxes; what it brings after that may exceed the destination's cap, by what it was offered.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// By outbox, what its claim that is under way was offered.
pub(super) struct Offers {
    weights: Vec<u32>,
    under_way: Vec<Option<Offer>>,
}

struct Offer {
    rooms: HashMap<Arc<str>, u32>,
    default_room: u32,
    at: Instant,
}

impl Offers {
    pub(super) fn new(weights: &[u32]) -> Offers {
        Offers { weights: weights.to_vec(), under_way: weights.iter().map(|_| None).collect() }
    }

    /// Of what is there, less what was offered to others, the part of one outbox: a claim that takes all of it leaves
    /// something for whoever claims next, and finds more itself the next time.
    pub(super) fn offer(&mut self, own: usize, there: Rooms, now: Instant) -> Rooms {
        if self.weights.len() == 1 {
            return there;
        }
        let others: Vec<&Offer> = self
            .under_way
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != own)
            .filter_map(|(_, offer)| offer.as_ref())
            .filter(|offer| now.saturating_duration_since(offer.at) < KEPT_FOR)
            .collect();
        let Rooms { mut rooms, default_room: all_of_it, parked, accounts } = there;
        // What is not in the list for us was in theirs, when it had less than all.
        for name in others.iter().flat_map(|offer| offer.rooms.keys()) {
            rooms.entry(name.clone()).or_insert(all_of_it);
        }
        for (name, room) in &mut rooms {
            let offered = others.iter().map(|offer| offer.rooms.get(name).copied().unwrap_or(offer.default_room)).sum();
            *room = self.part(own, room.saturating_sub(offered)).1;
        }
        // For what nobody knows yet everybody has a fixed part, so that no list of it need be kept.
        let default_room = self.part(own, all_of_it).0.max(1);
        let offer = Offer { rooms: rooms.clone(), default_room, at: now };
        self.under_way[own] = Some(offer);
        Rooms { rooms, default_room, parked, accounts }
    }

    /// Its claim has ended, and what it took is counted.
    pub(super) fn over(&mut self, own: usize) {
        self.under_way[own] = None;
    }

    /// Rounded down and up.
    fn part(&self, own: usize, room: u32) -> (u32, u32) {
        let all = self.weights.iter().copied().map(u64::from).sum::<u64>().max(1);
        let whole = u64::from(room) * u64::from(self.weights[own]);
        // Neither is more than the room, which has 32 bits.
        ((whole / all) as u32, whole.div_ceil(all) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(list: &[(&str, u32)], default_room: u32) -> Rooms {
        Rooms {
            rooms: list.iter().map(|(name, room)| (Arc::from(*name), *room)).collect(),
            default_room,
            parked: 0,
            accounts: None,
        }
    }

    #[test]
    fn the_only_outbox_is_offered_what_is_there() {
        let mut offers = Offers::new(&[5]);
        let offered = offers.offer(0, rooms(&[("a", 3), ("b", 0)], 64), Instant::now());
        assert_eq!((offered.rooms.len(), offered.of("a"), offered.default_room), (2, 3, 64));
    }

    #[test]
    fn claims_under_way_together_are_never_offered_more_than_there_is() {
        let (mut offers, now) = (Offers::new(&[1, 1, 1]), Instant::now());
        for (there, default_room) in [(64, 64), (1, 64), (3, 3), (0, 5), (7, 12)] {
            let offered: Vec<Rooms> =
                (0..3).map(|own| offers.offer(own, rooms(&[("a", there)], default_room), now)).collect();
            for (name, most) in [("a", there), ("unknown", default_room)] {
                let sum: u32 = offered.iter().map(|offered| offered.of(name)).sum();
                assert!(sum <= most, "{sum} of {most} for {name}");
            }
            (0..3).for_each(|own| offers.over(own));
        }
    }

    #[test]
    fn what_one_was_offered_is_taken_off_although_the_next_does_not_know_the_destination() {
        let (mut offers, now) = (Offers::new(&[1, 1]), Instant::now());
        let first = offers.offer(0, rooms(&[("a", 60)], 64), now);
        assert_eq!(first.of("a"), 30);
        // Its last row has ended meanwhile, and it was forgotten.
        assert_eq!(offers.offer(1, rooms(&[], 64), now).of("a"), 17);
    }

    #[test]
    fn who_claims_alone_comes_to_have_all_of_it() {
        let (mut offers, now) = (Offers::new(&[1, 3]), Instant::now());
        let mut left = 64;
        for _ in 0..40 {
            left -= offers.offer(0, rooms(&[("a", left)], 64), now).of("a");
            offers.over(0);
        }
        assert_eq!(left, 0);
    }

    #[test]
    fn a_claim_that_hangs_keeps_its_offer_for_two_seconds() {
        let (mut offers, now) = (Offers::new(&[1, 1]), Instant::now());
        offers.offer(0, rooms(&[("a", 1)], 64), now);
        assert_eq!(offers.offer(1, rooms(&[("a", 1)], 64), now).of("a"), 0);
        assert_eq!(offers.offer(1, rooms(&[("a", 1)], 64), now + KEPT_FOR).of("a"), 1);
    }
}
