//! What an attempt says of the destination that it went to, whatever became of its row.

/// What was learned of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing: the attempt ended before it met the destination, or through our own fault.
    Unknown,
    /// It answers, and that is all: a 404 or a 500 may be about the one row or its buyer.
    Answered,
    /// It took the delivery in time.
    Accepted,
    /// It answers, and says that it gets too much.
    Throttled,
    /// The destination itself failed, so that every row of it would have.
    Failed(Reason),
}

/// Why a destination is parked. The codes are a public interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Resolver,
    Connect,
    Tls,
    Timeout,
    Connection,
    Unavailable,
    RetryAfter,
}

impl Reason {
    const ALL: [Reason; 7] = [
        Reason::Resolver,
        Reason::Connect,
        Reason::Tls,
        Reason::Timeout,
        Reason::Connection,
        Reason::Unavailable,
        Reason::RetryAfter,
    ];

    pub(crate) fn code(self) -> &'static str {
        match self {
            Reason::Resolver => "resolver",
            Reason::Connect => "connect",
            Reason::Tls => "tls",
            Reason::Timeout => "timeout",
            Reason::Connection => "connection",
            Reason::Unavailable => "unavailable",
            Reason::RetryAfter => "retry_after",
        }
    }

    /// As another replica wrote it, which may be of a later version.
    pub(crate) fn of_code(code: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// Whether fewer attempts at once might have gone better.
    pub(super) fn is_strain(self) -> bool {
        matches!(self, Reason::Timeout | Reason::Unavailable)
    }
}
