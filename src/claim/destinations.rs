//! What of the slots each destination holds, and which destinations are left alone for a while. Knows no rows.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

pub(super) struct Destinations {
    /// Most rows in flight to one of them.
    cap: usize,
    known: HashMap<Arc<str>, Destination>,
}

#[derive(Default)]
struct Destination {
    in_flight: usize,
    parked_until: Option<Instant>,
}

/// What the next claim may take, destination by destination.
pub(super) struct Rooms {
    /// Those with less than the default room; parked ones have none.
    pub(super) rooms: Vec<(String, u32)>,
    pub(super) default_room: u32,
    pub(super) parked: usize,
}

impl Destinations {
    pub(super) fn new(cap: usize) -> Destinations {
        Destinations { cap, known: HashMap::new() }
    }

    pub(super) fn entered(&mut self, name: &Arc<str>) {
        self.known.entry(name.clone()).or_default().in_flight += 1;
    }

    pub(super) fn left(&mut self, name: &Arc<str>) {
        let Some(destination) = self.known.get_mut(name) else { return };
        destination.in_flight -= 1;
        if destination.in_flight == 0 && destination.parked_until.is_none() {
            self.known.remove(name);
        }
    }

    pub(super) fn park(&mut self, name: &Arc<str>, until: Instant) {
        let destination = self.known.entry(name.clone()).or_default();
        destination.parked_until = destination.parked_until.max(Some(until));
    }

    pub(super) fn in_flight(&self, name: &str) -> u32 {
        self.known.get(name).map_or(0, |destination| destination.in_flight as u32)
    }

    pub(super) fn rooms(&mut self, now: Instant) -> Rooms {
        self.known.retain(|_, destination| {
            if destination.parked_until.is_some_and(|until| until <= now) {
                destination.parked_until = None;
            }
            destination.in_flight > 0 || destination.parked_until.is_some()
        });
        let room = |destination: &Destination| match destination.parked_until {
            Some(_) => 0,
            None => self.cap.saturating_sub(destination.in_flight),
        };
        Rooms {
            rooms: self.known.iter().map(|(name, one)| (name.to_string(), room(one) as u32)).collect(),
            default_room: self.cap as u32,
            parked: self.known.values().filter(|one| one.parked_until.is_some()).count(),
        }
    }
}
