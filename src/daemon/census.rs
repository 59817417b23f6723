//! The census of what each held envelope key is needed for, while there is more than one: slowly, beside the deliveries,
//! for the metric that says whether a key can go.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::deliver::Snapshot;
use crate::rekey::{Pace, PlaceCount, census};
use crate::store::{Access, Store};
use crate::telemetry::health::{Condition, Health};
use crate::telemetry::meter::Meter;

/// A million rows in eight minutes; at 1 KiB each, 2 MiB/s of reading.
const ROWS_PER_SECOND: u32 = 2000;
/// Between two passes, and four times as long as one took where that is longer.
const PAUSE: Duration = Duration::from_secs(15);
const TICK: Duration = Duration::from_secs(1);

pub(super) async fn run(store: Arc<Store>, snapshot: Arc<ArcSwap<Snapshot>>, health: Arc<Health>) {
    let mut shown = Shown { meter: health.meter.clone(), ..Shown::default() };
    loop {
        let held = snapshot.load_full();
        if held.keyring.len() < 2 {
            shown.nothing();
            tokio::time::sleep(TICK).await;
            continue;
        }
        if health.has(Condition::Database) || health.has(Condition::Schema) {
            shown.grow_old();
            tokio::time::sleep(TICK).await;
            continue;
        }
        let began = Instant::now();
        let pass = census(&store, &held.keyring, Pace::new(Some(ROWS_PER_SECOND)), |_| {});
        let pass = tokio::select! {
            pass = pass => pass,
            // The ring that was counted for is not the one in use any more.
            () = replaced(&snapshot, &held, &shown) => continue,
        };
        match pass {
            Ok(counts) => shown.counts(held.keyring.fingerprints(), &counts),
            Err(error) => tracing::debug!(%error, "the census of envelope keys was broken off"),
        }
        let pause = PAUSE.max(began.elapsed() * 4);
        let _ = tokio::time::timeout(pause, replaced(&snapshot, &held, &shown)).await;
    }
}

/// Resolves when keys were loaded anew; lets the age be seen meanwhile.
async fn replaced(snapshot: &ArcSwap<Snapshot>, held: &Arc<Snapshot>, shown: &Shown) {
    while Arc::ptr_eq(&snapshot.load_full(), held) {
        shown.grow_old();
        tokio::time::sleep(TICK).await;
    }
}

/// What the gauges show.
#[derive(Default)]
struct Shown {
    meter: Meter,
    /// Place and key.
    series: Vec<(&'static str, String)>,
    counted_at: Option<Instant>,
}

impl Shown {
    fn counts(&mut self, fingerprints: Vec<String>, counts: &[PlaceCount]) {
        self.clear();
        for count in counts.iter().filter(|count| !matches!(count.access, Access::Absent | Access::Forbidden)) {
            let keys = fingerprints.iter().map(String::as_str).zip(count.keys.iter().map(|count| count.rows));
            for (key, rows) in keys.chain([("none", count.unopenable)]) {
                self.meter.envelope_rows(count.place, key, Some(rows));
                self.series.push((count.place, key.to_owned()));
            }
        }
        self.counted_at = Some(Instant::now());
        self.grow_old();
    }

    fn grow_old(&self) {
        if let Some(at) = self.counted_at {
            self.meter.envelope_census_age(Some(at.elapsed()));
        }
    }

    /// With one key there is no question that this would answer.
    fn nothing(&mut self) {
        if self.counted_at.take().is_some() {
            self.clear();
            self.meter.envelope_census_age(None);
        }
    }

    /// A gauge cannot be taken back, but it can say that it says nothing.
    fn clear(&mut self) {
        for (place, key) in self.series.drain(..) {
            self.meter.envelope_rows(place, &key, None);
        }
    }
}
