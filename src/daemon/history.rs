//! Keeps the history's days: makes those to come before they are needed, and drops those that are too old. Any replica may; the
//! statement sees to it that one does.

use std::sync::Arc;
use std::time::Duration;

use super::loops::jittered;
use crate::config;
use crate::store::{Kind, Store};

/// A daemon that is away for shorter finds its day made when it comes back.
const DAYS_AHEAD: u16 = 3;
const EVERY: Duration = Duration::from_secs(3600);
/// After what was left undone, and while there is nothing to keep.
const AGAIN: Duration = Duration::from_secs(60);
/// Between two days that are dropped.
const BREATH: Duration = Duration::from_secs(1);

pub(super) async fn keep(store: Arc<Store>, history: config::History) {
    let ahead = history.enabled.then_some(DAYS_AHEAD);
    let mut forbidden = false;
    loop {
        let pause = match store.takes_attempts() {
            false => AGAIN,
            true => match store.keep_attempts(ahead, history.retention).await {
                Ok(kept) if kept.dropped > 0 => {
                    tracing::info!("a day of the history that is older than history.retention is dropped");
                    BREATH
                }
                Ok(kept) if kept.busy => AGAIN,
                Ok(_) => EVERY,
                Err(error) => {
                    let ours = matches!(error.kind, Kind::Permission | Kind::Schema { .. });
                    if ours && !std::mem::replace(&mut forbidden, true) {
                        tracing::warn!(
                            error = %error,
                            "the history's days cannot be made or dropped: run `outboxd migrate`, or grant outboxd_daemon"
                        );
                    } else {
                        tracing::debug!(error = %error, "the history's days are looked after later");
                    }
                    AGAIN
                }
            },
        };
        tokio::time::sleep(jittered(pause)).await;
    }
}
