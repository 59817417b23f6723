//! One run of sealing again. It may end anywhere: what is done is done, and the next run passes over it.

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::walk::{Batch, Walk};
use super::{NAMED, Pace, open};
use crate::envelope::Keyring;
use crate::secret::random;
use crate::store::{Access, Place, Replacement, Replica, Store, StoreError};

/// A replica that appears without the newest key is noticed this soon.
const LOOK_FOR_LAGGARDS_EVERY: Duration = Duration::from_secs(5);
/// Between two looks at rows that were under a lease or a lock.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// More rows under leases and locks than this are not kept in mind; the next run finds them.
const MOST_ASIDE: usize = 200_000;

pub(crate) struct Rekey<'a> {
    pub(crate) store: &'a Store,
    pub(crate) ring: &'a Keyring,
    pub(crate) batch: usize,
    pub(crate) rows_per_second: Option<u32>,
    /// Counts what would be sealed again, and changes nothing.
    pub(crate) dry_run: bool,
    /// For how long rows under leases and locks are waited for while none of them comes free.
    pub(crate) patience: Duration,
    /// Ends the run after the batch that is under way.
    pub(crate) stop: CancellationToken,
}

/// What became of one place's content.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) place: &'static str,
    pub(crate) resealed: u64,
    /// Under the newest key before.
    pub(crate) current: u64,
    /// Finished while the run was on its way to them.
    pub(crate) ended: u64,
    /// Opened by no held key, and left as they are.
    pub(crate) unopenable: u64,
    pub(crate) first_unopenable: Vec<String>,
    /// Still under a lease or a lock when patience ended.
    pub(crate) held: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Summary {
    pub(crate) places: Vec<Tally>,
}

impl Summary {
    pub(crate) fn total(&self, of: impl Fn(&Tally) -> u64) -> u64 {
        self.places.iter().map(of).sum()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Whatever was open at the beginning and some held key opens is under the newest key now, or finished.
    Done,
    /// Rows are left that were under a lease or a lock all the time.
    Held,
    Stopped,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RekeyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "this schema does not list its replicas, so whether all hold the newest key is unknown: run `outboxd migrate`"
    )]
    NoReplicas,
    #[error(
        "not all replicas hold the newest key {newest}, and what they lack they cannot open. Give it to: {}; then run this \
         again", .replicas.join(", ")
    )]
    Lagging { newest: String, replicas: Vec<String> },
    #[error("the database user may not seal {place} again: grant it outboxd_daemon")]
    Forbidden { place: &'static str },
}

/// The replicas that are alive and lack the newest key.
pub(crate) async fn lagging(store: &Store, ring: &Keyring) -> Result<Vec<Replica>, RekeyError> {
    let newest = ring.newest().fingerprint();
    let replicas = store.list_replicas().await?.ok_or(RekeyError::NoReplicas)?;
    Ok(replicas.into_iter().filter(|replica| !replica.envelope_keys.contains(&newest)).collect())
}

impl Rekey<'_> {
    /// `summary` is true at every moment, also where this ends with an error.
    pub(crate) async fn run(&self, summary: &mut Summary, tell: &mut dyn FnMut(&Summary)) -> Result<End, RekeyError> {
        self.refuse_laggards().await?;
        let mut course = Course { looked: Instant::now(), pace: Pace::new(self.rows_per_second), summary, tell };
        for place in &Place::ALL {
            match self.store.find_place(place).await? {
                Access::Absent => continue,
                Access::Writable => {}
                Access::Readable if self.dry_run => {}
                Access::Forbidden | Access::Readable => return Err(RekeyError::Forbidden { place: place.name }),
            }
            course.summary.places.push(Tally { place: place.name, ..Tally::default() });
            if self.one_place(place, &mut course).await? == End::Stopped {
                return Ok(End::Stopped);
            }
        }
        Ok(if summary.total(|tally| tally.held) > 0 { End::Held } else { End::Done })
    }

    async fn refuse_laggards(&self) -> Result<(), RekeyError> {
        // Counting harms nobody.
        if self.dry_run {
            return Ok(());
        }
        let replicas: Vec<String> =
            lagging(self.store, self.ring).await?.into_iter().map(|replica| replica.replica).collect();
        if replicas.is_empty() {
            return Ok(());
        }
        Err(RekeyError::Lagging { newest: self.ring.newest().fingerprint(), replicas })
    }

    /// All of it, then again what was under a lease or a lock, until nothing is left or nothing moves any more.
    async fn one_place(&self, place: &Place, course: &mut Course<'_>) -> Result<End, RekeyError> {
        let mut walk = Walk::through(self.store, place, self.batch);
        let mut gave_way = Instant::now();
        loop {
            let (mut aside, mut forgotten, mut moved) = (Vec::new(), 0, false);
            while let Some(batch) = walk.next().await? {
                if self.stop.is_cancelled() {
                    return Ok(End::Stopped);
                }
                let rows = batch.items.len() + batch.ended;
                let held = self.one_batch(place, batch, course).await?;
                moved |= held.len() < rows;
                let room = MOST_ASIDE.saturating_sub(aside.len());
                forgotten += held.len().saturating_sub(room) as u64;
                aside.extend(held.into_iter().take(room));
                self.between(course, rows).await?;
            }
            course.tally().held += forgotten;
            if moved {
                gave_way = Instant::now();
            }
            if aside.is_empty() {
                return Ok(End::Done);
            }
            if gave_way.elapsed() >= self.patience {
                course.tally().held += aside.len() as u64;
                return Ok(End::Held);
            }
            let stopped = tokio::time::timeout(LOOK_AGAIN_AFTER, self.stop.cancelled()).await.is_ok();
            if stopped {
                return Ok(End::Stopped);
            }
            walk = Walk::again(self.store, place, self.batch, aside);
        }
    }

    /// What was under a lease or a lock, or was changed by somebody between being read and being replaced.
    async fn one_batch(&self, place: &Place, batch: Batch, course: &mut Course<'_>) -> Result<Vec<String>, RekeyError> {
        let newest = self.ring.newest();
        let tally = course.tally();
        tally.ended += batch.ended as u64;
        let mut replacements = Vec::new();
        for item in batch.items {
            let item = open(item, self.ring);
            match item.opened {
                None => {
                    tally.unopenable += 1;
                    if tally.first_unopenable.len() < NAMED {
                        tally.first_unopenable.push(item.key);
                    }
                }
                Some(open) if open.opened.key == 0 => tally.current += 1,
                Some(_) if self.dry_run => tally.resealed += 1,
                Some(open) => {
                    let fingerprint = self.ring.newest_first()[open.opened.key].fingerprint();
                    let nonce = random();
                    let ciphertext = open.opened.seal(&open.aad, newest, nonce);
                    let nonce = nonce.to_vec();
                    replacements.push(Replacement { key: item.key, was: open.nonce, ciphertext, nonce, fingerprint });
                }
            }
        }
        let replaced: HashSet<String> = self.store.reseal(place, &replacements).await?.into_iter().collect();
        tally.resealed += replaced.len() as u64;
        Ok(replacements.into_iter().map(|item| item.key).filter(|key| !replaced.contains(key)).collect())
    }

    async fn between(&self, course: &mut Course<'_>, rows: usize) -> Result<(), RekeyError> {
        (course.tell)(course.summary);
        if course.looked.elapsed() >= LOOK_FOR_LAGGARDS_EVERY {
            course.looked = Instant::now();
            self.refuse_laggards().await?;
        }
        tokio::select! {
            () = course.pace.done(rows) => {}
            () = self.stop.cancelled() => {}
        }
        Ok(())
    }
}

/// Where a run stands.
struct Course<'a> {
    looked: Instant,
    pace: Pace,
    summary: &'a mut Summary,
    tell: &'a mut dyn FnMut(&Summary),
}

impl Course<'_> {
    fn tally(&mut self) -> &mut Tally {
        // A tally is pushed before its place is begun.
        self.summary.places.last_mut().expect("a place is under way")
    }
}
