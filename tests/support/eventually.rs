//! Waiting with a deadline: the only place in the tests with a timer. Nothing here waits for time to pass.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// Long enough for a loaded two-core machine; a passing test never uses it up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks until there is an answer; panics with `what` and the last doubt after [`PATIENCE`].
pub async fn eventually<T, D: Display>(what: &str, probe: impl AsyncFnMut() -> Result<T, D>) -> T {
    eventually_within(PATIENCE, what, probe).await
}

pub async fn eventually_within<T, D: Display>(
    limit: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, D>,
) -> T {
    let mut doubt = String::from("never asked");
    let asking = async {
        let mut ticks = interval(Duration::from_millis(25));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match probe().await {
                Ok(answer) => return answer,
                Err(reason) => doubt = reason.to_string(),
            }
        }
    };
    match timeout(limit, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("not within {limit:?}: {what}; last: {doubt}"),
    }
}

/// Awaits one thing; panics with `what` when it has not come within the limit.
pub async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match timeout(limit, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}

/// For a receiver that is slow on purpose.
pub fn ticks(period: Duration) -> Interval {
    interval(period)
}
