//! One run over the rows that a filter means. It may end anywhere: what is done is done and written down, and another run
//! goes on behind it.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::envelope::Keyring;
use crate::rekey::Pace;
use crate::store::{Action, Order, Store, StoreError};

/// Rows that one statement looks at in order to find those that are meant: some tens of milliseconds.
const LOOK: i32 = 20_000;
/// Between two looks at rows that were under a lease or a lock.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// More rows under leases and locks than this are not kept in mind; the next run finds them.
const MOST_ASIDE: usize = 200_000;

pub(crate) struct Steer<'a> {
    pub(crate) store: &'a Store,
    pub(crate) action: Action,
    pub(crate) filter: &'a str,
    /// By which the audit knows the run.
    pub(crate) run: &'a str,
    pub(crate) actor: &'a str,
    pub(crate) reason: &'a str,
    /// Opens what has to be sealed again; without it such rows are left as they are.
    pub(crate) ring: Option<&'a Keyring>,
    pub(crate) batch: usize,
    pub(crate) rows_per_second: Option<u32>,
    /// At most so many rows.
    pub(crate) most: Option<u64>,
    /// Rows up to this one were dealt with before.
    pub(crate) after: i64,
    /// For how long rows under leases and locks are waited for while none of them comes free.
    pub(crate) patience: Duration,
    /// Ends the run after the batch that is under way.
    pub(crate) stop: CancellationToken,
}

/// What a run would come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Survey {
    pub(crate) matched: u64,
    /// Of those, past their horizon: they get a fresh idempotency key.
    pub(crate) fresh_keys: u64,
    /// Of those, sealed: their bodies are opened and sealed again.
    pub(crate) sealed: u64,
    /// Under a live lease now.
    pub(crate) held: u64,
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) changed: u64,
    #[serde(rename = "fresh_keys")]
    pub(crate) fresh: u64,
    /// Left as they are, since no held envelope key opens them.
    pub(crate) unopenable: u64,
    pub(crate) first_unopenable: Vec<i64>,
    /// Left as they are, since no envelope key is configured.
    pub(crate) sealed: u64,
    /// Still under a lease or a lock when patience ended.
    pub(crate) held: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// As many as were allowed.
    Enough,
    /// Rows are left that were under a lease or a lock all the time.
    Held,
    Stopped,
}

/// Counts, and changes nothing. `looked` hears how far it is.
pub(crate) async fn survey(
    store: &Store,
    action: Action,
    filter: &str,
    after: i64,
    looked: &mut dyn FnMut(Survey),
) -> Result<Survey, StoreError> {
    let through = store.newest_row().await?;
    let (mut place, mut survey) = (Some(after), Survey::default());
    while let Some(after) = place {
        let found = store.find_deliveries(action, filter, after, through, LOOK).await?;
        survey.matched += found.ids.len() as u64;
        survey.fresh_keys += found.fresh;
        survey.sealed += found.sealed;
        survey.held += found.held;
        looked(survey);
        place = found.looked_to;
    }
    Ok(survey)
}

impl Steer<'_> {
    /// `tally` is true at every moment, also where this ends with an error.
    pub(crate) async fn run(&self, tally: &mut Tally, tell: &mut dyn FnMut(&Tally)) -> Result<End, StoreError> {
        let mut course = Course { pace: Pace::new(self.rows_per_second), through: self.after, tally, tell };
        let through = self.store.newest_row().await?;
        let (mut place, mut aside) = (Some(self.after), Vec::new());
        while let Some(after) = place {
            let found = self.store.find_deliveries(self.action, self.filter, after, through, LOOK).await?;
            if let Some(end) = self.all_of(&found.ids, &mut aside, &mut course).await? {
                return Ok(end);
            }
            place = found.looked_to;
        }
        self.wait_for(aside, &mut course).await
    }

    pub(super) fn order(&self) -> Order<'_> {
        let Steer { action, filter, run, actor, reason, .. } = *self;
        Order { action, filter, run, actor, reason }
    }

    /// In batches; those that are held now come into `aside`. An end where the run is over before them.
    async fn all_of(
        &self,
        ids: &[i64],
        aside: &mut Vec<i64>,
        course: &mut Course<'_>,
    ) -> Result<Option<End>, StoreError> {
        let mut rest = ids;
        while !rest.is_empty() {
            let room = self.most.map_or(u64::MAX, |most| most.saturating_sub(course.tally.changed));
            if room == 0 {
                return Ok(Some(End::Enough));
            }
            if self.stop.is_cancelled() {
                return Ok(Some(End::Stopped));
            }
            let size = rest.len().min(self.batch).min(usize::try_from(room).unwrap_or(usize::MAX));
            let (batch, further) = rest.split_at(size);
            rest = further;
            self.one_batch(batch, aside, course).await?;
            (course.tell)(course.tally);
            tokio::select! {
                () = course.pace.done(batch.len()) => {}
                () = self.stop.cancelled() => {}
            }
        }
        Ok(None)
    }

    async fn one_batch(&self, ids: &[i64], aside: &mut Vec<i64>, course: &mut Course<'_>) -> Result<(), StoreError> {
        let through = course.through;
        let changed = self.store.change_deliveries(self.order(), ids, through).await?;
        course.tally.changed += changed.rows;
        course.tally.fresh += changed.fresh;
        let room = MOST_ASIDE.saturating_sub(aside.len());
        course.tally.held += changed.held.len().saturating_sub(room) as u64;
        aside.extend(changed.held.into_iter().take(room));
        self.renew(&changed.sealed, through, course.tally).await?;
        if let (true, Some(last)) = (aside.is_empty(), ids.last()) {
            course.through = *last;
        }
        Ok(())
    }

    /// What was under a lease or a lock, again and again, until nothing is left or nothing moves any more.
    async fn wait_for(&self, mut aside: Vec<i64>, course: &mut Course<'_>) -> Result<End, StoreError> {
        let mut gave_way = Instant::now();
        while !aside.is_empty() {
            if gave_way.elapsed() >= self.patience {
                course.tally.held += aside.len() as u64;
                return Ok(End::Held);
            }
            if tokio::time::timeout(LOOK_AGAIN_AFTER, self.stop.cancelled()).await.is_ok() {
                return Ok(End::Stopped);
            }
            let mut still = Vec::new();
            if let Some(end) = self.all_of(&aside, &mut still, course).await? {
                return Ok(end);
            }
            if still.len() < aside.len() {
                gave_way = Instant::now();
            }
            aside = still;
        }
        Ok(if course.tally.held > 0 { End::Held } else { End::Done })
    }
}

/// Where a run stands.
struct Course<'a> {
    pace: Pace,
    /// Of the rows up to here none is left to be dealt with: another run may go on behind it.
    through: i64,
    tally: &'a mut Tally,
    tell: &'a mut dyn FnMut(&Tally),
}
