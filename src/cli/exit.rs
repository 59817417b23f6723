//! Exit codes as sysexits.h names them, and which failure gets which.

use crate::config::ConfigError;
use crate::daemon::DaemonError;
use crate::deliver::SnapshotError;
use crate::receive::import::ImportError;
use crate::rekey::RekeyError;
use crate::store::{Kind, OpenError, StoreError};

pub(super) const USAGE: u8 = 64;
const DATA: u8 = 65;
const NO_INPUT: u8 = 66;
const UNAVAILABLE: u8 = 69;
const SOFTWARE: u8 = 70;
const OS: u8 = 71;
const CANNOT_CREATE: u8 = 73;
const IO: u8 = 74;
const TEMP_FAIL: u8 = 75;
const NO_PERMISSION: u8 = 77;
const CONFIG: u8 = 78;

/// A command's end that is not success: one message for a person, one code for a script.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn system(message: String) -> Failure {
        Failure { code: OS, message }
    }

    /// An argument is missing or is not what it should be.
    pub(super) fn usage(message: String) -> Failure {
        Failure { code: USAGE, message }
    }

    /// What was given to work on is not what it should be.
    pub(super) fn data(message: String) -> Failure {
        Failure { code: DATA, message }
    }

    /// What was to be worked on is not there.
    pub(super) fn absent(message: String) -> Failure {
        Failure { code: NO_INPUT, message }
    }

    /// What was to be asked does not answer.
    pub(super) fn unavailable(message: String) -> Failure {
        Failure { code: UNAVAILABLE, message }
    }

    pub(super) fn io(message: String) -> Failure {
        Failure { code: IO, message }
    }

    pub(super) fn permission(message: String) -> Failure {
        Failure { code: NO_PERMISSION, message }
    }

    /// Not now; the same again may succeed later.
    pub(super) fn not_yet(message: String) -> Failure {
        Failure { code: TEMP_FAIL, message }
    }

    pub(super) fn cannot_create(error: anyhow::Error) -> Failure {
        Failure { code: CANNOT_CREATE, message: format!("{error:#}") }
    }

    pub(super) fn config(message: String) -> Failure {
        Failure { code: CONFIG, message }
    }

    /// The same, with whom it is about in front.
    pub(super) fn about(self, title: &str) -> Failure {
        Failure { message: format!("{title}{}", self.message), ..self }
    }

    /// The same, and what else is known of it.
    pub(super) fn also(self, known: &str) -> Failure {
        Failure { message: format!("{}; {known}", self.message), ..self }
    }

    /// The same code under another sentence.
    pub(super) fn summed_up(self, message: &str) -> Failure {
        Failure { code: self.code, message: message.to_owned() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let code = if matches!(error, ConfigError::Flag(_)) { USAGE } else { CONFIG };
        Failure { code, message: error.to_string() }
    }
}

impl From<SnapshotError> for Failure {
    fn from(error: SnapshotError) -> Failure {
        Failure { code: CONFIG, message: error.to_string() }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let code = match &error.kind {
            Kind::Permission => NO_PERMISSION,
            Kind::Schema { .. } | Kind::Refused { .. } => CONFIG,
            Kind::Other { .. } | Kind::Unreadable { .. } | Kind::Damaged(_) => SOFTWARE,
            Kind::Unavailable(_) | Kind::ReadOnly | Kind::Timeout { .. } | Kind::Contended | Kind::Locked { .. } => {
                UNAVAILABLE
            }
        };
        Failure { code, message: error.to_string() }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        match error {
            ImportError::Store(error) => error.into(),
            other => Failure { code: DATA, message: other.to_string() },
        }
    }
}

impl From<RekeyError> for Failure {
    fn from(error: RekeyError) -> Failure {
        match error {
            RekeyError::Store(error) => error.into(),
            RekeyError::NoReplicas => Failure::config(error.to_string()),
            RekeyError::Lagging { .. } => Failure::not_yet(error.to_string()),
            RekeyError::Forbidden { .. } => Failure { code: NO_PERMISSION, message: error.to_string() },
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        Failure { code: CONFIG, message: error.to_string() }
    }
}

impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Failure {
        let code = match &error {
            DaemonError::Config(_)
            | DaemonError::Snapshot(_)
            | DaemonError::Profile(_)
            | DaemonError::LogFilter
            | DaemonError::Spans { .. }
            | DaemonError::KeyNeeded { .. }
            | DaemonError::KeyUnclear { .. }
            | DaemonError::Schema(_) => CONFIG,
            DaemonError::Database(_) => CONFIG,
            DaemonError::Listen { .. } | DaemonError::Sealing(_) | DaemonError::System { .. } => OS,
        };
        Failure { code, message: error.to_string() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure { code: SOFTWARE, message: format!("{error:#}") }
    }
}
