//! The one clock of what tests record: this machine's, which Postgres and the receivers share.

use std::time::{SystemTime, UNIX_EPOCH};

/// In seconds since 1970.
pub type Moment = f64;

pub fn moment() -> Moment {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("this machine's clock is right").as_secs_f64()
}
