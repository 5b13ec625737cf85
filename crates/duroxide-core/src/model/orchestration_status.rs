//! What a client sees of an instance.

use super::ErrorDetails;

/// What a client sees of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrchestrationStatus {
    /// No instance has the id.
    NotFound,
    /// It has not ended; also between two executions.
    Running {
        /// What the program last set.
        custom_status: Option<String>,
        /// How often the program set it.
        custom_status_version: u64,
    },
    /// It returned `Ok`.
    Completed {
        /// What it returned.
        output: String,
        /// What the program last set.
        custom_status: Option<String>,
        /// How often the program set it.
        custom_status_version: u64,
    },
    /// It failed.
    Failed {
        /// Why.
        details: ErrorDetails,
        /// What the program last set.
        custom_status: Option<String>,
        /// How often the program set it.
        custom_status_version: u64,
    },
}

impl OrchestrationStatus {
    /// Whether the instance has ended.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Completed { .. } | Self::Failed { .. } => true,
            Self::NotFound | Self::Running { .. } => false,
        }
    }
}
