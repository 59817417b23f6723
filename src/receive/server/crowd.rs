//! Who is connected, and who has to go when there is no room: the connection that has kept us waiting longest. One that
//! waits for us is never closed for another, so that half-open connections cost the others nothing but a handshake.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(super) struct Crowd {
    limit: usize,
    seats: Mutex<Seats>,
    size: watch::Sender<usize>,
}

#[derive(Default)]
struct Seats {
    /// Also the order of time.
    next_ticket: u64,
    /// By the moment from which on they have kept us waiting.
    waiting: BTreeMap<u64, CancellationToken>,
    taken: usize,
}

/// One connection. Leaves when dropped.
pub(super) struct Guest {
    crowd: Arc<Crowd>,
    asked_to_leave: CancellationToken,
    state: Mutex<State>,
}

struct State {
    /// Requests that wait for us.
    under_way: usize,
    /// Its place among those that keep us waiting.
    ticket: Option<u64>,
}

impl Crowd {
    pub(super) fn new(limit: usize) -> Arc<Crowd> {
        Arc::new(Crowd { limit, seats: Mutex::default(), size: watch::Sender::new(0) })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, made by asking another to leave if need be; none where all are being served.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Guest> {
        let asked_to_leave = CancellationToken::new();
        let mut seats = self.seats();
        if seats.taken >= self.limit {
            let (_, longest) = seats.waiting.pop_first()?;
            longest.cancel();
            // It goes at its next turn; its place counts as free from now on.
            seats.taken -= 1;
        }
        seats.taken += 1;
        let ticket = seats.sit(asked_to_leave.clone());
        self.size.send_replace(seats.taken);
        drop(seats);
        let state = Mutex::new(State { under_way: 0, ticket: Some(ticket) });
        Some(Guest { crowd: self.clone(), asked_to_leave, state })
    }

    pub(super) fn size(&self) -> usize {
        *self.size.borrow()
    }

    pub(super) async fn left(&self) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.size.subscribe().wait_for(|size| *size == 0).await;
    }
}

impl Seats {
    fn sit(&mut self, token: CancellationToken) -> u64 {
        self.next_ticket += 1;
        self.waiting.insert(self.next_ticket, token);
        self.next_ticket
    }
}

impl Guest {
    pub(super) async fn asked_to_leave(&self) {
        self.asked_to_leave.cancelled().await;
    }

    /// From now until the turn is dropped a request waits for us.
    pub(super) fn serve(self: &Arc<Self>) -> Turn {
        self.change(|under_way| under_way + 1);
        Turn(self.clone())
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.under_way = change(state.under_way);
        let mut seats = self.crowd.seats();
        match (state.under_way, state.ticket) {
            (0, None) => state.ticket = Some(seats.sit(self.asked_to_leave.clone())),
            (1.., Some(ticket)) => {
                seats.waiting.remove(&ticket);
                state.ticket = None;
            }
            _ => {}
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut seats = self.crowd.seats();
        let ticket = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).ticket;
        if let Some(ticket) = ticket {
            seats.waiting.remove(&ticket);
        }
        if !self.asked_to_leave.is_cancelled() {
            seats.taken -= 1;
            self.crowd.size.send_replace(seats.taken);
        }
    }
}

/// A request that waits for us.
pub(super) struct Turn(Arc<Guest>);

impl Turn {
    /// Until the pause is dropped, the request keeps us waiting again: for its body.
    pub(super) fn pause(&self) -> Pause<'_> {
        self.0.change(|under_way| under_way - 1);
        Pause(self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.change(|under_way| under_way - 1);
    }
}

pub(super) struct Pause<'a>(&'a Turn);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.0.change(|under_way| under_way + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(guest: &Guest) -> bool {
        guest.asked_to_leave.is_cancelled()
    }

    #[test]
    fn the_one_that_keeps_us_waiting_longest_makes_room() {
        let crowd = Crowd::new(2);
        let (first, second) = (Arc::new(crowd.enter().unwrap()), crowd.enter().unwrap());
        drop(first.serve());
        let third = crowd.enter().unwrap();
        assert!(leaves(&second) && !leaves(&first) && !leaves(&third));
        assert_eq!(crowd.size(), 2);
        drop((first, second, third));
        assert_eq!(crowd.size(), 0);
        assert!(crowd.seats().waiting.is_empty());
    }

    #[test]
    fn one_that_waits_for_us_is_never_closed_for_another() {
        let crowd = Crowd::new(1);
        let guest = Arc::new(crowd.enter().unwrap());
        let turn = guest.serve();
        assert!(crowd.enter().is_none());
        let pause = turn.pause();
        drop(pause);
        assert!(crowd.enter().is_none());
        let pause = turn.pause();
        assert!(crowd.enter().is_some() && leaves(&guest));
        drop(pause);
        drop((turn, guest));
        assert_eq!(crowd.size(), 0);
    }
}
