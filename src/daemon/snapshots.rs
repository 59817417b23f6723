//! Watches who holds the oldest snapshot of the database: dead versions of rows stay for as long as somebody might read them,
//! and every look at the outbox then reads them too. It names the holder, and ends nobody's transaction.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::loops::jittered;
use crate::store::{Holder, HolderKind, Snapshots, Store};
use crate::telemetry::health::{Condition, Health};
use crate::telemetry::meter::Meter;

const EVERY: Duration = Duration::from_secs(15);

/// Mentions what is older than `old`.
pub(super) async fn run(store: Arc<Store>, health: Arc<Health>, old: Duration) {
    let every = EVERY.min(old / 2);
    let (mut watch, mut told_of_rights) = (Watch::new(old), false);
    loop {
        if !health.has(Condition::Database) {
            match store.find_snapshots().await {
                Ok(found) => {
                    if !found.sees_all && !std::mem::replace(&mut told_of_rights, true) {
                        tracing::info!(
                            "since when other users' transactions are open is known from when they were first seen here; to \
                             see it, grant pg_read_all_stats to the database user"
                        );
                    }
                    report(watch.look(found, Instant::now()), &health.meter);
                }
                Err(error) => tracing::debug!(%error, "could not see who holds old snapshots"),
            }
        }
        tokio::time::sleep(jittered(every)).await;
    }
}

fn report(look: Look, meter: &Meter) {
    meter.oldest_snapshot(look.oldest.as_ref().map_or(Duration::ZERO, |(_, age)| *age));
    match (look.mention, look.oldest) {
        (Mention::Holder, Some((holder, age))) => tracing::warn!(
            kind = holder.kind.label(),
            pid = holder.pid,
            name = holder.name,
            user = holder.user,
            state = holder.state,
            seconds = age.as_secs(),
            "an old snapshot keeps dead rows from being removed, and every look at the outbox slower; end it if it is forgotten"
        ),
        (Mention::Gone, _) => tracing::info!("no old snapshot is held any more"),
        _ => {}
    }
}

/// What one look came to.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    /// Who holds most back, and for how long at least.
    oldest: Option<(Holder, Duration)>,
    mention: Mention,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mention {
    Nothing,
    Holder,
    Gone,
}

/// What the looks before have left.
struct Watch {
    /// From which age on a holder is mentioned.
    old: Duration,
    /// Since when each holder has been seen to hold what it holds.
    seen: Vec<(Key, Instant)>,
    /// Who was mentioned last, and how old its snapshot was.
    mentioned: Option<(Key, Duration)>,
}

/// One holder for as long as what it holds does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    kind: HolderKind,
    pid: Option<i32>,
    name: Option<String>,
    held: String,
}

impl Key {
    fn of(holder: &Holder) -> Key {
        Key { kind: holder.kind, pid: holder.pid, name: holder.name.clone(), held: holder.held.clone() }
    }
}

impl Watch {
    fn new(old: Duration) -> Watch {
        Watch { old, seen: Vec::new(), mentioned: None }
    }

    fn look(&mut self, found: Snapshots, now: Instant) -> Look {
        let keys: Vec<Key> = found.holders.iter().map(Key::of).collect();
        self.seen.retain(|(key, _)| keys.contains(key));
        for key in &keys {
            if !self.seen.iter().any(|(seen, _)| seen == key) {
                self.seen.push((key.clone(), now));
            }
        }
        let oldest = found.holders.into_iter().next().map(|holder| {
            let age = holder.since.unwrap_or_else(|| self.seen_for(&Key::of(&holder), now));
            (holder, age)
        });
        let mention = self.mention(oldest.as_ref());
        Look { oldest, mention }
    }

    fn seen_for(&self, key: &Key, now: Instant) -> Duration {
        self.seen.iter().find(|(seen, _)| seen == key).map_or(Duration::ZERO, |(_, at)| now - *at)
    }

    /// A holder is mentioned when it is old, and again each time that its age has doubled.
    fn mention(&mut self, oldest: Option<&(Holder, Duration)>) -> Mention {
        let old = oldest.filter(|(_, age)| *age >= self.old);
        match (old, &self.mentioned) {
            (None, None) => Mention::Nothing,
            (None, Some(_)) => {
                self.mentioned = None;
                Mention::Gone
            }
            (Some((holder, age)), Some((key, at))) if *key == Key::of(holder) && *age < *at * 2 => Mention::Nothing,
            (Some((holder, age)), _) => {
                self.mentioned = Some((Key::of(holder), *age));
                Mention::Holder
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn session(pid: i32, since: Option<Duration>) -> Holder {
        Holder {
            kind: HolderKind::Session,
            pid: Some(pid),
            name: Some("psql".into()),
            user: Some("analyst".into()),
            state: since.map(|_| "idle in transaction".into()),
            held: "725".into(),
            since,
        }
    }

    fn found(holders: Vec<Holder>) -> Snapshots {
        Snapshots { sees_all: true, holders }
    }

    #[test]
    fn a_holder_is_mentioned_when_it_is_old_and_each_time_its_age_has_doubled() {
        let (mut watch, now) = (Watch::new(MINUTE * 5), Instant::now());
        let mut mentions = Vec::new();
        for minutes in 1..=24 {
            let look = watch.look(found(vec![session(7, Some(MINUTE * minutes))]), now);
            assert_eq!(look.oldest.as_ref().map(|(_, age)| *age), Some(MINUTE * minutes));
            if look.mention == Mention::Holder {
                mentions.push(minutes);
            }
        }
        assert_eq!(mentions, [5, 10, 20]);
        assert_eq!(watch.look(found(vec![]), now), Look { oldest: None, mention: Mention::Gone });
        assert_eq!(watch.look(found(vec![]), now).mention, Mention::Nothing);
    }

    #[test]
    fn another_holder_is_mentioned_at_once() {
        let (mut watch, now) = (Watch::new(MINUTE * 5), Instant::now());
        assert_eq!(watch.look(found(vec![session(7, Some(MINUTE * 6))]), now).mention, Mention::Holder);
        let both = found(vec![session(8, Some(MINUTE * 9)), session(7, Some(MINUTE * 6))]);
        let look = watch.look(both, now);
        assert_eq!((look.mention, look.oldest.and_then(|(holder, _)| holder.pid)), (Mention::Holder, Some(8)));
    }

    #[test]
    fn what_has_no_beginning_is_as_old_as_it_has_been_seen_to_hold_the_same() {
        let (mut watch, now) = (Watch::new(MINUTE * 5), Instant::now());
        let slot = Holder { kind: HolderKind::Slot, pid: None, user: None, ..session(0, None) };
        let age = |watch: &mut Watch, holder: &Holder, now| {
            watch.look(found(vec![holder.clone()]), now).oldest.map(|(_, age)| age)
        };
        assert_eq!(age(&mut watch, &slot, now), Some(Duration::ZERO));
        assert_eq!(age(&mut watch, &slot, now + MINUTE), Some(MINUTE));
        let moved = Holder { held: "900".into(), ..slot };
        assert_eq!(age(&mut watch, &moved, now + MINUTE * 2), Some(Duration::ZERO));
        assert_eq!(age(&mut watch, &moved, now + MINUTE * 8), Some(MINUTE * 6));
    }
}
