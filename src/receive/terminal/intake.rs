//! Notifications that arrive together are stored together: whatever came while the database was busy with the ones before
//! goes into its next statement, so that many share one commit. One that comes alone waits for nobody.
//!
//! It decides nothing: what was not stored by such a statement is accepted or compared by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::notification::Notification;
use crate::store::{Accepted, Kind, NewNotification, Store, StoreError, Together};

/// Statements at once: one commits while the next one is filled. More of them would only be smaller.
const TURNS: usize = 2;
/// Notifications of one statement; 16 KiB each at most.
const MOST: usize = 64;

#[derive(Clone)]
pub(super) struct Intake {
    store: Arc<Store>,
    max_attempts: i32,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    turns: usize,
}

struct Waiting {
    received: Arc<Received>,
    answer: oneshot::Sender<Result<Together, StoreError>>,
}

/// A notification that has passed every check.
pub(super) struct Received {
    pub(super) notification: Notification,
    pub(super) sha256: String,
    /// The accepted bytes.
    pub(super) payload: String,
}

impl Intake {
    pub(super) fn new(store: Arc<Store>, max_attempts: i32) -> Intake {
        Intake { store, max_attempts, queue: Arc::default() }
    }

    /// Whatever it comes to was committed before it is told.
    pub(super) async fn accept(&self, received: Arc<Received>) -> Result<Accepted, StoreError> {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut queue = self.queue();
            queue.waiting.push(Waiting { received: received.clone(), answer });
            let begins = queue.turns < TURNS;
            queue.turns += usize::from(begins);
            begins
        };
        if begins {
            // A task of its own: the request that it is begun for may be given up, and others wait for it.
            tokio::spawn(Turn { intake: self.clone(), over: false }.run());
        }
        let new = self.new_notification(&received);
        match answered.await {
            Ok(Ok(Together::Stored)) => Ok(Accepted::Fresh),
            Ok(Ok(Together::Taken)) => self.store.converge_notification(&new).await,
            Ok(Err(error)) if concerns_all(&error) => Err(error),
            // Refused for one of them, which one by one will show; or nobody knows, and it converges.
            Ok(Err(_)) | Err(_) => self.store.accept_notification(&new).await,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Only plain assignments happen under the lock, so that a panic leaves it whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_notification<'a>(&self, received: &'a Received) -> NewNotification<'a> {
        let Received { notification, sha256, payload } = received;
        NewNotification {
            notification_id: &notification.notification_id,
            event_id: &notification.event_id,
            site_id: &notification.site_id,
            terminal_status: &notification.terminal_status,
            payload_sha256: sha256,
            payload,
            max_attempts: self.max_attempts,
        }
    }
}

/// Takes what waits until nothing does.
struct Turn {
    intake: Intake,
    over: bool,
}

impl Turn {
    async fn run(mut self) {
        while let Some(batch) = self.next() {
            let new: Vec<_> = batch.iter().map(|waiting| self.intake.new_notification(&waiting.received)).collect();
            let outcome = self.intake.store.accept_notifications(&new).await;
            for (position, Waiting { answer, .. }) in batch.into_iter().enumerate() {
                let of_this = outcome.as_ref().map(|all| all[position]).map_err(StoreError::clone);
                // Whoever gave up waiting has no use for it.
                let _ = answer.send(of_this);
            }
        }
    }

    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut queue = self.intake.queue();
        if queue.waiting.is_empty() {
            // Under the same lock as whoever comes next, so that nobody is left waiting for a turn that is over.
            queue.turns -= 1;
            self.over = true;
            return None;
        }
        let most = queue.waiting.len().min(MOST);
        Some(queue.waiting.drain(..most).collect())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Cut short by a panic or by the end of the process; whoever comes next takes the turn.
        if !self.over {
            self.intake.queue().turns -= 1;
        }
    }
}

/// Whether it would not go better with one of them alone.
fn concerns_all(error: &StoreError) -> bool {
    matches!(
        error.kind,
        Kind::Unavailable(_) | Kind::ReadOnly | Kind::Timeout { .. } | Kind::Schema { .. } | Kind::Permission
    )
}
