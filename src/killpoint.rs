//! The points at which a test kills or stops this process, by orders from the environment. A build without debug
//! assertions, and so every release, has nothing of it; it changes nothing else in one that has.

/// Between two steps of the caller's: `killpoint!("k4")`, or `killpoint!("k4", condition)`.
#[cfg(debug_assertions)]
macro_rules! killpoint {
    ($point:expr) => {
        $crate::killpoint::reached($point)
    };
    ($point:expr, $when:expr) => {
        if $when {
            $crate::killpoint::reached($point)
        }
    };
}

#[cfg(not(debug_assertions))]
macro_rules! killpoint {
    ($point:expr) => {};
    ($point:expr, $when:expr) => {};
}

#[cfg(debug_assertions)]
pub(crate) use orders::reached;

#[cfg(debug_assertions)]
mod orders {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    use nix::sys::signal::{Signal, raise};

    /// `point:kill:3,point:stop:1`: what to do when a point is reached for the nth time.
    pub(super) const VARIABLE: &str = "KILLPOINTS";

    #[derive(Debug)]
    pub(super) struct Order {
        point: String,
        pub(super) signal: Signal,
        left: AtomicI64,
    }

    impl Order {
        pub(super) fn parse(text: &str) -> Option<Order> {
            let mut parts = text.trim().split(':');
            let point = parts.next()?.to_owned();
            let signal = match parts.next()? {
                "kill" => Signal::SIGKILL,
                "stop" => Signal::SIGSTOP,
                _ => return None,
            };
            let left = AtomicI64::new(parts.next()?.parse().ok()?);
            Some(Order { point, signal, left })
        }

        /// Whether this is the time to act; it comes once.
        pub(super) fn comes_due(&self, point: &str) -> bool {
            self.point == point && self.left.fetch_sub(1, Ordering::Relaxed) == 1
        }
    }

    static ORDERS: LazyLock<Vec<Order>> = LazyLock::new(|| {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        text.split(',').filter_map(Order::parse).collect()
    });

    /// Returns when the process goes on, which one that is killed does not.
    pub(crate) fn reached(point: &str) {
        for order in ORDERS.iter().filter(|order| order.comes_due(point)) {
            // To this very thread, which then does not go on; another might be taken for the whole process.
            let _ = raise(order.signal);
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use nix::sys::signal::Signal;

    use super::orders::Order;

    #[test]
    fn an_order_comes_due_once_at_its_count() {
        let order = Order::parse(" k7:kill:2").unwrap();
        assert_eq!(order.signal, Signal::SIGKILL);
        let due: Vec<bool> = ["k7", "k8", "k7", "k7"].iter().map(|point| order.comes_due(point)).collect();
        assert_eq!(due, [false, false, true, false]);
        for bad in ["", "k7", "k7:kill", "k7:burn:1", "k7:stop:often"] {
            assert!(Order::parse(bad).is_none(), "{bad}");
        }
    }
}
