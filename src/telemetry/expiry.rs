//! When what we hold expires: a gauge for each kind, and a word in the log at load for what is about to. It reads no
//! certificate and no key.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::metrics;

const DAY: i64 = 86_400;
/// What has fewer days left is warned of.
pub(crate) const WARN_DAYS: i64 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiring {
    TrustAnchor,
    ClientCertificate,
    DatabaseCa,
    ReceiveCertificate,
    SigningKey,
}

impl Expiring {
    /// The label of the gauge.
    fn label(self) -> &'static str {
        match self {
            Expiring::TrustAnchor => "trust_anchor",
            Expiring::ClientCertificate => "client_certificate",
            Expiring::DatabaseCa => "database_ca",
            Expiring::ReceiveCertificate => "receive_certificate",
            Expiring::SigningKey => "signing_key",
        }
    }
}

/// One thing that was loaded, and when it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dated {
    pub(crate) kind: Expiring,
    /// Where it is from, for a person: a setting and a path, or a key id.
    pub(crate) name: String,
    /// In Unix seconds; `None` where it never expires.
    pub(crate) not_after: Option<u64>,
}

impl Dated {
    /// Whole days, rounded down: 0 on the last day, negative when it is over.
    pub(crate) fn days_left(&self, now: SystemTime) -> Option<i64> {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
        self.not_after.map(|ends| ends.cast_signed().saturating_sub(now).div_euclid(DAY))
    }

    pub(crate) fn day(&self) -> Option<String> {
        let moment = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(self.not_after?)).to_string();
        moment.split('T').next().map(str::to_owned)
    }
}

/// Everything that is held of one kind, after it was loaded.
pub(crate) fn report(kind: Expiring, held: &[Dated]) {
    gauge(kind, held);
    let now = SystemTime::now();
    for one in held {
        match one.days_left(now) {
            Some(days) if days < 0 => tracing::error!(what = one.name, on = one.day(), "has expired"),
            Some(days) if days < WARN_DAYS => tracing::warn!(what = one.name, days, on = one.day(), "expires soon"),
            _ => {}
        }
    }
}

/// Moves the gauge alone, for what is looked at again and again.
pub(crate) fn gauge(kind: Expiring, held: &[Dated]) {
    static SET: [AtomicBool; 5] = [const { AtomicBool::new(false) }; 5];
    let earliest = held.iter().filter_map(|one| one.not_after).min();
    // A gauge cannot be taken back: what no longer expires does so at no time.
    if earliest.is_some() || SET[kind as usize].load(Ordering::Relaxed) {
        SET[kind as usize].store(true, Ordering::Relaxed);
        metrics::earliest_expiry(kind.label(), earliest.map_or(f64::INFINITY, |at| at as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(not_after: Option<u64>) -> Dated {
        Dated { kind: Expiring::TrustAnchor, name: String::new(), not_after }
    }

    #[test]
    fn days_are_whole_and_an_expired_one_is_negative() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (ends, days) in [(1_000_000, 0), (1_086_399, 0), (1_086_400, 1), (999_999, -1), (0, -12)] {
            assert_eq!(ending(Some(ends)).days_left(now), Some(days), "{ends}");
        }
        assert_eq!(ending(None).days_left(now), None);
        assert_eq!(ending(Some(1_893_456_000)).day().as_deref(), Some("2030-01-01"));
    }
}
