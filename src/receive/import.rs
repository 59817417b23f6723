//! From a ledger into the inbox, in two passes over one snapshot: the first judges every row and writes nothing, the
//! second stores batch by batch and reads each batch back. Breaking off leaves whole batches, and running it again skips
//! them.

use std::collections::BTreeMap;
use std::path::Path;

use super::ledger::{Ledger, LedgerError, Position, Version};
use crate::store::{Damage, ImportBatch, ImportRow, Standing, Store, StoreError};

/// Rows a batch. With payloads of at most 16 KiB one is sent in far less than a statement's time.
const BATCH: u32 = 200;
/// Rows between two words of progress.
const STRIDE: u64 = 10_000;
/// Refused rows that are told one by one.
const TOLD: u64 = 20;

pub(crate) struct Import<'a> {
    pub(crate) store: &'a Store,
    pub(crate) file: &'a Path,
    /// Of rows whose ledger does not say it.
    pub(crate) max_attempts: i32,
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Progress<'a> {
    Refused { id: &'a str, why: &'a str },
    Imported { rows: u64 },
}

/// What an import came to. The last four are how the ledger's rows stand to what was stored before (in a dry run) or
/// is stored now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    pub(crate) version: u8,
    pub(crate) rows: u64,
    pub(crate) imported: u64,
    pub(crate) missing: u64,
    pub(crate) same: u64,
    pub(crate) moved_on: u64,
    pub(crate) received_again: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{damaged} damaged row(s) and {colliding} that collide with what is stored; nothing was imported")]
    Refused { damaged: u64, colliding: u64 },
    #[error("{rows} row(s) are not stored as they were read: something else writes to the inbox's tables")]
    Unproven { rows: u64 },
}

impl Import<'_> {
    pub(crate) async fn run(&self, mut progress: impl FnMut(Progress<'_>)) -> Result<Summary, ImportError> {
        let ledger = Ledger::open(self.file, self.max_attempts)?;
        let before = self.judge(&ledger, &mut progress).await?;
        if self.dry_run {
            return Ok(before);
        }
        self.write(&ledger, &mut progress).await
    }

    /// Every row must be sound, and must not stand against a stored one.
    async fn judge(&self, ledger: &Ledger, progress: &mut impl FnMut(Progress<'_>)) -> Result<Summary, ImportError> {
        let mut tally = Tally::default();
        let (mut damaged, mut colliding) = (0, 0);
        let mut refuse = |id: &str, why: &str, count: &mut u64| {
            *count += 1;
            if *count <= TOLD {
                progress(Progress::Refused { id, why });
            }
        };
        let mut position = Position::START;
        while let Some((rows, next)) = ledger.read(position, BATCH)? {
            position = next;
            tally.rows += rows.len() as u64;
            let batch = ImportBatch::new(&rows);
            for (id, damage) in self.store.judge_import(&batch).await? {
                refuse(&id, Damage::code(damage), &mut damaged);
            }
            for (id, standing) in self.compare(&batch, &rows).await? {
                match standing {
                    Standing::Collision => refuse(&id, "idempotency_collision", &mut colliding),
                    Standing::Damaged => refuse(&id, "what is stored of it is damaged", &mut colliding),
                    standing => tally.count(standing),
                }
            }
        }
        if damaged + colliding > 0 {
            return Err(ImportError::Refused { damaged, colliding });
        }
        Ok(tally.summary(ledger, 0))
    }

    async fn write(&self, ledger: &Ledger, progress: &mut impl FnMut(Progress<'_>)) -> Result<Summary, ImportError> {
        let (mut tally, mut imported) = (Tally::default(), 0);
        let (mut position, mut told) = (Position::START, 0);
        while let Some((rows, next)) = ledger.read(position, BATCH)? {
            position = next;
            tally.rows += rows.len() as u64;
            let batch = ImportBatch::new(&rows);
            imported += self.store.import_notifications(&batch).await?;
            let standings = self.compare(&batch, &rows).await?;
            let proven = |standing| matches!(standing, Standing::Same | Standing::MovedOn | Standing::ReceivedAgain);
            let unproven = standings.iter().filter(|(_, standing)| !proven(*standing)).count() as u64;
            if unproven > 0 {
                return Err(ImportError::Unproven { rows: unproven });
            }
            standings.iter().for_each(|(_, standing)| tally.count(*standing));
            if tally.rows - told >= STRIDE {
                told = tally.rows;
                progress(Progress::Imported { rows: imported });
            }
        }
        Ok(tally.summary(ledger, imported))
    }

    async fn compare(&self, batch: &ImportBatch, rows: &[ImportRow]) -> Result<Vec<(String, Standing)>, ImportError> {
        // One answer a row, or some row was not compared.
        let readable = rows.iter().filter(|row| row.notification_id.is_some()).count();
        let standings = self.store.compare_import(batch).await?;
        if standings.len() != readable {
            return Err(ImportError::Unproven { rows: readable.abs_diff(standings.len()) as u64 });
        }
        Ok(standings)
    }
}

#[derive(Default)]
struct Tally {
    rows: u64,
    standings: BTreeMap<Standing, u64>,
}

impl Tally {
    fn count(&mut self, standing: Standing) {
        *self.standings.entry(standing).or_default() += 1;
    }

    fn summary(&self, ledger: &Ledger, imported: u64) -> Summary {
        let of = |standing| self.standings.get(&standing).copied().unwrap_or_default();
        Summary {
            version: match ledger.version() {
                Version::V1 => 1,
                Version::V2 => 2,
            },
            rows: self.rows,
            imported,
            missing: of(Standing::Missing),
            same: of(Standing::Same),
            moved_on: of(Standing::MovedOn),
            received_again: of(Standing::ReceivedAgain),
        }
    }
}
