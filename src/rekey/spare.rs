//! Whether a key can be spared: what speaks against taking it away for good, and what a reload without it would lose.

use std::time::Duration;

use tokio::time::Instant;

use super::walk::Walk;
use super::{PlaceCount, open};
use crate::envelope::Keyring;
use crate::store::{Access, Place, Replica, Store, StoreError};

/// What one look at the newest rows reads at a time, and in all.
const NEWEST_BATCH: i64 = 500;
const NEWEST_ROWS: u64 = 100_000;
const MOST_BYTES: i64 = 16 << 20;

/// Why a key is not to be dropped yet.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Objection {
    #[error("it is the newest key here, and seals: put the new key in front of it")]
    Newest,
    #[error("it is the newest key of replica {replica}, which seals under it: put the new key in front of it there")]
    NewestElsewhere { replica: String },
    #[error("{rows} of {place} need it: run `outboxd rekey`")]
    Needed { place: &'static str, rows: u64 },
    #[error("the database user may not read {place}: grant it outboxd_daemon")]
    Forbidden { place: &'static str },
    #[error("a row was sealed under it {} ago: a host still seals with it, or did until then", minutes(*.seconds_old))]
    Recent { seconds_old: f64 },
    #[error("this schema does not list its replicas and what was sealed again: run `outboxd migrate`")]
    NoReplicas,
}

fn minutes(seconds: f64) -> String {
    let whole = Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_secs();
    match whole {
        0..120 => format!("{whole} s"),
        120..7200 => format!("{} min", whole / 60),
        _ => format!("{} h", whole / 3600),
    }
}

/// Everything that speaks against dropping key `key` of the ring, given what a census has counted. `quiet` is for how long
/// no row may have appeared under it.
pub(crate) async fn objections(
    store: &Store,
    ring: &Keyring,
    key: usize,
    counts: &[PlaceCount],
    replicas: Option<&[Replica]>,
    quiet: Duration,
) -> Result<Vec<Objection>, StoreError> {
    let fingerprint = ring.newest_first()[key].fingerprint();
    let mut objections = Vec::new();
    if key == 0 {
        objections.push(Objection::Newest);
    }
    for replica in replicas.unwrap_or_default() {
        if replica.envelope_keys.first() == Some(&fingerprint) {
            objections.push(Objection::NewestElsewhere { replica: replica.replica.clone() });
        }
    }
    for count in counts {
        match (count.access, count.keys[key].rows) {
            (Access::Forbidden, _) => objections.push(Objection::Forbidden { place: count.place }),
            (_, 0) => {}
            (_, rows) => objections.push(Objection::Needed { place: count.place, rows }),
        }
    }
    let Some(_) = replicas else {
        objections.push(Objection::NoReplicas);
        return Ok(objections);
    };
    let used = store.list_key_uses().await?.into_iter().find(|(used, _)| *used == fingerprint);
    let resealed = used.map(|(_, seconds_old)| seconds_old);
    let newest = newest_use(store, ring, key, quiet).await?;
    let last = [resealed, newest].into_iter().flatten().fold(f64::INFINITY, f64::min);
    if last < quiet.as_secs_f64() {
        objections.push(Objection::Recent { seconds_old: last });
    }
    Ok(objections)
}

/// The age of the newest row under this key, finished ones among them, as long as it is younger than `within`: what is
/// delivered at once leaves no open row that would show what hosts seal with.
async fn newest_use(store: &Store, ring: &Keyring, key: usize, within: Duration) -> Result<Option<f64>, StoreError> {
    let (mut before, mut looked_at) = (String::new(), 0);
    while looked_at < NEWEST_ROWS {
        let batch = store.read_newest(&before, NEWEST_BATCH, MOST_BYTES).await?;
        let mut young = false;
        for item in batch {
            // In another batch it will be the first, which has room.
            if matches!(item.content, crate::store::Content::NoRoom) {
                break;
            }
            before.clone_from(&item.key);
            looked_at += 1;
            if item.seconds_old >= within.as_secs_f64() {
                continue;
            }
            young = true;
            let item = open(item, ring);
            if item.opened.is_some_and(|open| open.opened.key == key) {
                return Ok(Some(item.seconds_old));
            }
        }
        if !young {
            break;
        }
    }
    Ok(None)
}

/// What a keyring that is to take another's place would lose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// Of the lost keys the one that most rows need, as far as was looked.
    Key {
        fingerprint: String,
        rows: u64,
        more: bool,
    },
    /// Time was up, and none had been found.
    Unknown {
        looked_at: u64,
    },
    Forbidden {
        place: &'static str,
    },
}

/// Enough to refuse, and to know that it is not about a few.
const ENOUGH: u64 = 10_000;

/// Looks for what only keys open that `old` has and `new` has not, until there is enough of it or `limit` is over.
pub(crate) async fn need(store: &Store, old: &Keyring, new: &Keyring, limit: Duration) -> Result<Need, StoreError> {
    let (held, kept) = (old.fingerprints(), new.fingerprints());
    let lost: Vec<bool> = held.iter().map(|fingerprint| !kept.contains(fingerprint)).collect();
    if !lost.contains(&true) {
        return Ok(Need::Nothing);
    }
    let ends = Instant::now() + limit;
    let mut rows = vec![0u64; held.len()];
    let (mut looked_at, mut found, mut more) = (0, 0, false);
    'places: for place in &Place::ALL {
        match store.find_place(place).await? {
            Access::Absent => continue,
            Access::Forbidden => return Ok(Need::Forbidden { place: place.name }),
            Access::Readable | Access::Writable => {}
        }
        let mut walk = Walk::through(store, place, NEWEST_BATCH as usize);
        while let Some(batch) = walk.next().await? {
            for item in batch.items {
                looked_at += 1;
                let Some(open) = open(item, old).opened else { continue };
                // A key has one fingerprint, so that what a kept key opens is not needed of a lost one.
                if lost[open.opened.key] {
                    rows[open.opened.key] += 1;
                    found += 1;
                }
            }
            if found >= ENOUGH || Instant::now() >= ends {
                more = true;
                break 'places;
            }
        }
    }
    // The first of the largest; there is at least one key.
    let most = rows.iter().zip(&held).max_by_key(|(rows, _)| **rows);
    Ok(match most {
        Some((rows, fingerprint)) if *rows > 0 => Need::Key { fingerprint: fingerprint.clone(), rows: *rows, more },
        _ if more => Need::Unknown { looked_at },
        _ => Need::Nothing,
    })
}
