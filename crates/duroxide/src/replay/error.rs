//! Why a recorded history is not replayed by the registered code.

#[cfg(feature = "testing")]
use std::path::Path;

/// The variable that lets files be written.
pub(crate) const BLESS_VARIABLE: &str = "DUROXIDE_BLESS";

/// Why a recorded history is not replayed by the registered code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The instance does not exist, or has not begun.
    #[error("instance '{instance}' has no history")]
    NoHistory {
        /// The instance.
        instance: String,
    },
    /// The file cannot be read.
    #[error("cannot read '{path}': {cause}; {BLESS_VARIABLE}=1 writes the history of this run")]
    Missing {
        /// The file.
        path: String,
        /// What the system says.
        cause: String,
    },
    /// The file cannot be written.
    #[error("cannot write '{path}': {cause}")]
    NotWritten {
        /// The file.
        path: String,
        /// What the system says.
        cause: String,
    },
    /// It is not a recorded history.
    #[error("it is not a recorded history: {cause}")]
    Damaged {
        /// What is wrong with it.
        cause: String,
    },
    /// It is the history of another orchestration.
    #[error("it is a history of orchestration '{recorded}', and not of '{expected}'")]
    OtherOrchestration {
        /// The orchestration of the history.
        recorded: String,
        /// The orchestration of the test.
        expected: String,
    },
    /// The program does not have its orchestration.
    #[error("orchestration '{orchestration}' version {version} is not registered in this program")]
    NotRegistered {
        /// The name.
        orchestration: String,
        /// The version.
        version: String,
    },
    /// The code does something other than what the history says.
    #[error("the code does not replay the history after event {after_event}: {diff}")]
    Mismatch {
        /// The last event of the prefix that was replayed.
        after_event: u64,
        /// The event, what was recorded, what the code does now, and the fields that differ.
        diff: String,
    },
    /// Files of a directory are not replayed.
    #[error("{}", failures.join("\n"))]
    Files {
        /// Each file, and why.
        failures: Vec<String>,
    },
}

impl ReplayError {
    pub(crate) fn damaged(cause: impl Into<String>) -> Self {
        Self::Damaged { cause: cause.into() }
    }

    /// The same, as the problem of a file.
    #[cfg(feature = "testing")]
    pub(crate) fn in_file(self, path: &Path) -> Self {
        match self {
            named @ (Self::Missing { .. } | Self::NotWritten { .. } | Self::Files { .. }) => named,
            other @ (Self::NoHistory { .. }
            | Self::Damaged { .. }
            | Self::OtherOrchestration { .. }
            | Self::NotRegistered { .. }
            | Self::Mismatch { .. }) => {
                Self::Files { failures: vec![format!("'{}': {other}", path.display())] }
            }
        }
    }
}
