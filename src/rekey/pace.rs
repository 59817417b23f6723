//! How fast a walk through the rows may go. It only waits.

use std::time::Duration;

use tokio::time::Instant;

/// At most so many rows a second, over the whole of the walk.
pub(crate) struct Pace {
    rows_per_second: Option<u32>,
    began: Instant,
    rows: u64,
}

impl Pace {
    pub(crate) fn new(rows_per_second: Option<u32>) -> Pace {
        Pace { rows_per_second, began: Instant::now(), rows: 0 }
    }

    /// Waits until these many more may have been done.
    pub(crate) async fn done(&mut self, rows: usize) {
        self.rows += rows as u64;
        if let Some(rate) = self.rows_per_second {
            let due = Duration::from_secs_f64(self.rows as f64 / f64::from(rate.max(1)));
            tokio::time::sleep_until(self.began + due).await;
        }
    }
}
