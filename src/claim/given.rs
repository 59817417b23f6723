//! What a claim is told of destinations: of those with little room, and no more than some, however many are full or parked.
//! Decides on no row.

use std::collections::HashSet;
use std::sync::Arc;

use super::accounts::of_pair;
use super::destinations::Rooms;
use super::looks::Look;

/// Destinations named in one claim. 1,000 cost Postgres 0.2 ms a claim, and 10,000 cost 4 ms and 250 KB of their names.
pub(super) const MOST: usize = 500;

/// The least room of all first; whoever is not among these has as much as each of the others has at least.
pub(super) struct Given {
    pub(super) rooms: Vec<(Arc<str>, u32)>,
    /// What a destination may take that is not among them. Where it is nothing, rows are found in their order and taken by
    /// name, in the look after.
    pub(super) others: u32,
    was_cut: bool,
}

impl Given {
    /// Without looks by name nobody may be left out.
    pub(super) fn of(rooms: &Rooms, by_name: bool) -> Given {
        let mut all: Vec<(Arc<str>, u32)> = rooms.rooms.iter().map(|(name, room)| (name.clone(), *room)).collect();
        if all.len() <= MOST || !by_name {
            return Given { rooms: all, others: rooms.default_room, was_cut: false };
        }
        let (_, least_of_the_others, _) = all.select_nth_unstable_by_key(MOST, |(_, room)| *room);
        let others = rooms.default_room.min(least_of_the_others.1);
        all.truncate(MOST);
        Given { rooms: all, others, was_cut: true }
    }

    /// Whether a destination has room that the claim is not told of.
    pub(super) fn understates(&self, room: u32) -> bool {
        self.was_cut && room > self.others
    }

    /// With what those that a look names may take of their room in it.
    pub(super) fn with_named(mut self, rooms: &Rooms, look: &Look) -> Given {
        let Look::Around { around, each } = look else { return self };
        if rooms.accounts.is_some() {
            // How many each of these pairs may take is told beside, and what its destination may has to be told in any case.
            let told: HashSet<Arc<str>> = self.rooms.iter().map(|(name, _)| name.clone()).collect();
            let named: HashSet<&str> = around.named.iter().map(|(pair, _)| of_pair(pair).0).collect();
            let untold = named.into_iter().filter(|name| self.was_cut && !told.contains(*name));
            self.rooms.extend(untold.map(|name| (Arc::from(name), rooms.of_destination(name))));
            return self;
        }
        let named: HashSet<&str> = around.named.iter().map(|(name, _)| &**name).collect();
        self.rooms.retain(|(name, _)| !named.contains(&**name));
        let named = around.named.iter().map(|(name, _)| (name.clone(), rooms.of(name).min(*each)));
        self.rooms.extend(named);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Around, Position};

    /// Of so many destinations each, with that room.
    fn rooms(counts: &[(usize, u32)]) -> Rooms {
        let of = |(nth, &(count, room)): (usize, &(usize, u32))| {
            (0..count).map(move |one| (Arc::from(format!("{nth}-{one}")), room))
        };
        Rooms { rooms: counts.iter().enumerate().flat_map(of).collect(), default_room: 8, parked: 0, accounts: None }
    }

    #[test]
    fn while_they_are_few_a_claim_is_told_of_all() {
        let given = Given::of(&rooms(&[(MOST - 1, 0), (1, 64)]), true);
        assert_eq!((given.rooms.len(), given.others, given.understates(64)), (MOST, 8, false));
    }

    #[test]
    fn of_many_those_with_the_least_room_are_told_and_the_others_are_given_no_more_than_each_has() {
        for (counts, others) in [
            ([(300, 0), (400, 7), (5000, 64)], 7),
            ([(100, 0), (100, 3), (5000, 64)], 8),
            ([(0, 0), (501, 1), (0, 9)], 1),
            ([(10_000, 0), (100, 5), (100, 64)], 0),
        ] {
            let rooms = rooms(&counts);
            let given = Given::of(&rooms, true);
            assert_eq!((given.rooms.len(), given.others), (MOST, others), "{counts:?}");
            for (name, room) in &rooms.rooms {
                let told = given.rooms.iter().find(|(given, _)| given == name).map_or(others, |(_, told)| *told);
                assert!(told <= *room, "{name} has {room}, not {told}");
                assert!(told == (*room).min(8) || given.understates(*room) || *room > 8, "{name}");
            }
        }
    }

    #[test]
    fn where_rows_cannot_be_found_by_name_nobody_is_left_out() {
        let given = Given::of(&rooms(&[(10_000, 0)]), false);
        assert_eq!((given.rooms.len(), given.others), (10_000, 8));
    }

    #[test]
    fn whoever_is_named_is_told_of_once_and_with_its_part() {
        let rooms = rooms(&[(2, 5), (1, 0)]);
        let around = Around {
            after: Position::HEAD,
            most: 100,
            named: ["0-0", "new"].map(|name| (Arc::from(name), Position::HEAD)).to_vec(),
        };
        let given = Given::of(&rooms, true).with_named(&rooms, &Look::Around { around, each: 3 });
        let mut told: Vec<(&str, u32)> = given.rooms.iter().map(|(name, room)| (&**name, *room)).collect();
        told.sort_unstable();
        assert_eq!(told, [("0-0", 3), ("0-1", 5), ("1-0", 0), ("new", 3)]);
    }
}
