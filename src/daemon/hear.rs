//! Keeps an ear open for hosts' wake-ups, and knows whether it hears. Without one nothing is lost but time: the claim loop
//! looks by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::outage::Pause;
use crate::store::{Heard, Store};
use crate::telemetry::meter::Meter;

/// A connection that lasted this long was good: the next try need not wait longer for it.
const HEARD_LONG: Duration = Duration::from_secs(10);
/// A pooler that lets nothing through is not asked again soon: each try leaves a session of the server listening for nobody.
const DEAF_FOR: Duration = Duration::from_secs(10 * 60);

/// What the claim loop has of the ear.
pub(super) struct Ear {
    meter: Meter,
    spoken: Arc<Notify>,
    proven: AtomicBool,
}

impl Ear {
    pub(super) fn new(meter: Meter) -> Arc<Ear> {
        meter.hearing(false);
        Arc::new(Ear { meter, spoken: Arc::default(), proven: AtomicBool::new(false) })
    }

    /// Resolves when a host has spoken, or the bell was rung, since it was last waited for.
    pub(super) async fn woken(&self) {
        self.spoken.notified().await;
    }

    /// For whoever else knows that looking is worth while.
    pub(super) fn bell(&self) -> Arc<Notify> {
        self.spoken.clone()
    }

    /// Whether a host that speaks is heard.
    pub(super) fn hears(&self) -> bool {
        self.proven.load(Ordering::Relaxed)
    }

    fn take(&self, heard: Heard) {
        match heard {
            Heard::Proven => {
                self.proven.store(true, Ordering::Relaxed);
                self.meter.hearing(true);
                tracing::info!("hosts' wake-ups are heard");
            }
            // What was said before is found by looking once.
            Heard::Listening => self.spoken.notify_one(),
            Heard::WakeUp => {
                self.meter.woken();
                self.spoken.notify_one();
            }
        }
    }

    /// Whether it had been heard until now.
    fn lose(&self) -> bool {
        self.meter.hearing(false);
        let had = self.proven.swap(false, Ordering::Relaxed);
        if had {
            // Whoever waits longer because it would be told stops relying on it.
            self.spoken.notify_one();
        }
        had
    }
}

pub(super) async fn hear(store: Arc<Store>, ear: Arc<Ear>) {
    let (mut pause, mut deaf) = (Pause::default(), false);
    loop {
        let began = Instant::now();
        let error = store.hear(|heard| ear.take(heard)).await;
        if ear.lose() {
            deaf = false;
            tracing::info!(%error, "hosts' wake-ups are not heard any more; looking by the clock meanwhile");
        } else if error.is_deafness() && !deaf {
            deaf = true;
            tracing::warn!(
                %error,
                "hosts' wake-ups are not heard; rows are found by looking, every delivery.poll_interval"
            );
        } else {
            tracing::debug!(%error, "not hearing wake-ups; looking by the clock meanwhile");
        }
        if began.elapsed() > HEARD_LONG {
            pause.reset();
        }
        sleep(if error.is_deafness() { DEAF_FOR } else { pause.next() }).await;
    }
}
