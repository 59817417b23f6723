//! What an answer of the host means for a message: taken, to be tried again, refused. It performs no hand-over.

use std::process::ExitStatus;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Taken,
    /// Not now; with the code that is kept with the message.
    Retry(String),
    /// Never, by the host's own word.
    Refused(String),
}

/// By sysexits.h: the input was wrong. The one exit code that says more than "not done".
const EX_DATAERR: i32 = 65;

impl Outcome {
    /// Only what says that this very message is at fault refuses it: a host that is misconfigured for an hour (401, 404)
    /// must not lose an hour of messages.
    pub(super) fn of_status(status: u16) -> Outcome {
        match status {
            200..=299 => Outcome::Taken,
            400 | 409 | 410 | 413 | 415 | 422 => Outcome::Refused(format!("forward_status_{status}")),
            _ => Outcome::Retry(format!("forward_status_{status}")),
        }
    }

    pub(super) fn of_exit(status: ExitStatus) -> Outcome {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(0), _) => Outcome::Taken,
            (Some(EX_DATAERR), _) => Outcome::Refused(format!("forward_exit_{EX_DATAERR}")),
            (Some(code), _) => Outcome::Retry(format!("forward_exit_{code}")),
            (None, signal) => Outcome::Retry(format!("forward_signal_{}", signal.unwrap_or_default())),
        }
    }

    pub(super) fn label(&self) -> &'static str {
        match self {
            Outcome::Taken => "taken",
            Outcome::Retry(_) => "retried",
            Outcome::Refused(_) => "refused",
        }
    }
}
