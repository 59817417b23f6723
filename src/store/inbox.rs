//! The inbox of terminal notifications: accepting them, telling how far one is, counting, and judging stored rows.
//! The database decides what is fresh, what converges and what collides; nothing here looks before it writes.

use std::collections::HashSet;

use super::claim::read;
use super::error::{Damage, Kind, StoreError};
use super::{Answer, Parameter, Store};

/// How often accepting goes round while the row in its way keeps vanishing. Nothing deletes receipts, so one round is
/// already an accident: somebody's transaction was rolled back between our two statements.
const ROUNDS: usize = 8;

/// A notification that has passed every check, as it is to be stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewNotification<'a> {
    pub(crate) notification_id: &'a str,
    pub(crate) event_id: &'a str,
    pub(crate) site_id: &'a str,
    pub(crate) terminal_status: &'a str,
    pub(crate) payload_sha256: &'a str,
    /// The accepted bytes.
    pub(crate) payload: &'a str,
    pub(crate) max_attempts: i32,
}

/// What accepting came to. Whichever it is, it was committed before it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Stored now.
    Fresh,
    /// The very same was stored before; nothing was written.
    Converged,
    /// Something else was stored under its id, its event or its payload; nothing was written.
    Collision,
}

/// What became of one of several that were accepted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Together {
    Stored,
    /// Something was in its way; nothing was written of it.
    Taken,
}

/// A stored notification and how far its processing is. Times are Unix seconds by the database's clock.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NotificationStatus {
    pub(crate) notification_id: String,
    pub(crate) event_id: String,
    pub(crate) site_id: String,
    pub(crate) terminal_status: String,
    pub(crate) payload_sha256: String,
    pub(crate) payload: String,
    pub(crate) received_at: f64,
    pub(crate) processing_status: String,
    pub(crate) attempts: i32,
    pub(crate) max_attempts: i32,
    pub(crate) next_attempt_at: f64,
    pub(crate) lease_expires_at: Option<f64>,
    pub(crate) lease_expired: bool,
    pub(crate) last_error_code: Option<String>,
    pub(crate) processed_at: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InboxHealth {
    pub(crate) received: i64,
    /// pending, leased, retry_wait, succeeded, failed
    pub(crate) counts: [i64; 5],
    pub(crate) due: i64,
    /// Leases that ended and that no claim has swept yet.
    pub(crate) expired: i64,
    /// Rows in quarantine: as of the latest sweep, and of claims since.
    pub(crate) bad_rows: i64,
}

/// One stretch of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Where the next stretch begins; none when the end was reached.
    pub(crate) next: Option<String>,
    pub(crate) rows: u64,
    pub(crate) damaged: u64,
    pub(crate) released: u64,
}

impl Store {
    /// `sql/inbox/accept_notification.sql`, then `sql/inbox/compare_notification.sql` where something was in its way.
    pub(crate) async fn accept_notification(&self, new: &NewNotification<'_>) -> Result<Accepted, StoreError> {
        let NewNotification { notification_id, event_id, site_id, terminal_status, payload_sha256, payload, .. } = new;
        let parameters: [Parameter<'_>; 7] =
            [notification_id, event_id, site_id, terminal_status, payload_sha256, payload, &new.max_attempts];
        let accept = &self.statements.accept_notification;
        for _ in 0..ROUNDS {
            if !self.door.ask(accept, &parameters, |_| ()).await?.is_empty() {
                return Ok(Accepted::Fresh);
            }
            if let Some(found) = self.compare_notification(new).await? {
                return Ok(found);
            }
        }
        Err(StoreError::new(accept.label, Kind::Contended))
    }

    /// `sql/inbox/accept_notifications.sql`: what became of each, in their order; all of it was committed, or none.
    pub(crate) async fn accept_notifications(&self, new: &[NewNotification<'_>]) -> Result<Vec<Together>, StoreError> {
        let Some(NewNotification { max_attempts, .. }) = new.first() else { return Ok(Vec::new()) };
        let column = |of| column(new, of);
        let (ids, events) = (column(|new| new.notification_id), column(|new| new.event_id));
        let (sites, statuses) = (column(|new| new.site_id), column(|new| new.terminal_status));
        let (digests, payloads) = (column(|new| new.payload_sha256), column(|new| new.payload));
        let parameters: [Parameter<'_>; 7] = [&ids, &events, &sites, &statuses, &digests, &payloads, max_attempts];
        let stored = self
            .read_all(&self.statements.accept_notifications, &parameters, |row| read::<String>(row, "notification_id"))
            .await?;
        let mut stored: HashSet<String> = stored.into_iter().collect();
        // Of two with one id the first is the one that was stored: the id says that they are the same.
        Ok(ids.iter().map(|id| if stored.remove(*id) { Together::Stored } else { Together::Taken }).collect())
    }

    /// What is stored under the keys of one that was not; accepted after all if there is nothing.
    pub(crate) async fn converge_notification(&self, new: &NewNotification<'_>) -> Result<Accepted, StoreError> {
        match self.compare_notification(new).await? {
            Some(found) => Ok(found),
            None => self.accept_notification(new).await,
        }
    }

    async fn compare_notification(&self, new: &NewNotification<'_>) -> Result<Option<Accepted>, StoreError> {
        let NewNotification { notification_id, event_id, site_id, terminal_status, payload_sha256, payload, .. } = new;
        let same: [Parameter<'_>; 6] = [notification_id, event_id, site_id, terminal_status, payload_sha256, payload];
        let compare = &self.statements.compare_notification;
        let (found, equal, damaged) = self
            .read_one(compare, &same, |answer| {
                Ok((read::<i64>(answer, "found")?, read::<bool>(answer, "equal")?, read::<bool>(answer, "damaged")?))
            })
            .await?;
        match (found, equal) {
            (0, _) => Ok(None),
            _ if damaged => Err(StoreError::new(compare.label, Kind::Damaged(Damage::State))),
            (1, true) => Ok(Some(Accepted::Converged)),
            _ => Ok(Some(Accepted::Collision)),
        }
    }

    /// `sql/inbox/read_notification.sql`. A damaged row is an error, so that nobody passes it on.
    pub(crate) async fn read_notification(&self, event_id: &str) -> Result<Option<NotificationStatus>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [&event_id];
        let mut rows = self.read_all(&self.statements.read_notification, &parameters, read_status).await?;
        Ok(rows.pop())
    }

    /// `sql/inbox/count_notifications.sql`; its cost follows the number of rows.
    pub(crate) async fn inbox_health(&self) -> Result<InboxHealth, StoreError> {
        self.read_one(&self.statements.count_notifications, &[], |answer| {
            Ok(InboxHealth {
                received: read(answer, "received")?,
                counts: [
                    read(answer, "pending")?,
                    read(answer, "leased")?,
                    read(answer, "retry_wait")?,
                    read(answer, "succeeded")?,
                    read(answer, "failed")?,
                ],
                due: read(answer, "due")?,
                expired: read(answer, "expired")?,
                bad_rows: read(answer, "damaged")?,
            })
        })
        .await
    }

    /// `sql/inbox/sweep_notifications.sql`: judges at most `limit` rows behind `after`, the `next` of the stretch
    /// before. Whoever sweeps goes on until there is no next, and then begins again at his leisure.
    pub(crate) async fn sweep_notifications(&self, after: &str, limit: u32) -> Result<Swept, StoreError> {
        let parameters: [Parameter<'_>; 2] = [&after, &i64::from(limit)];
        self.read_one(&self.statements.sweep_notifications, &parameters, |answer| {
            let rows = read::<i64>(answer, "rows")?.unsigned_abs();
            let last: Option<String> = read(answer, "last")?;
            Ok(Swept {
                next: last.filter(|_| rows >= u64::from(limit)),
                rows,
                damaged: read::<i64>(answer, "damaged")?.unsigned_abs(),
                released: read::<i64>(answer, "released")?.unsigned_abs(),
            })
        })
        .await
    }
}

fn column<'a>(new: &[NewNotification<'a>], of: fn(&NewNotification<'a>) -> &'a str) -> Vec<&'a str> {
    new.iter().map(of).collect()
}

fn read_status(answer: &Answer) -> Result<NotificationStatus, Kind> {
    if let Some(code) = read::<Option<String>>(answer, "damage")? {
        return Err(Kind::Damaged(Damage::of(&code)));
    }
    Ok(NotificationStatus {
        notification_id: read(answer, "notification_id")?,
        event_id: read(answer, "event_id")?,
        site_id: read(answer, "site_id")?,
        terminal_status: read(answer, "terminal_status")?,
        payload_sha256: read(answer, "payload_sha256")?,
        payload: read(answer, "payload_json")?,
        received_at: read(answer, "received_at")?,
        processing_status: read(answer, "status")?,
        attempts: read(answer, "attempts")?,
        max_attempts: read(answer, "max_attempts")?,
        next_attempt_at: read(answer, "next_attempt_at")?,
        lease_expires_at: read(answer, "lease_expires_at")?,
        lease_expired: read(answer, "lease_expired")?,
        last_error_code: read(answer, "last_error_code")?,
        processed_at: read(answer, "processed_at")?,
    })
}
