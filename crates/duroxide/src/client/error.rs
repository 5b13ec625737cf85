//! Errors of a client.

use crate::providers::{ProviderError, ProviderErrorKind};

/// Why a client call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The store failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The store has no management calls.
    #[error("this store has no management calls")]
    ManagementNotAvailable,
    /// The call itself is wrong; nothing was changed.
    #[error("{message}")]
    InvalidInput {
        /// What is wrong and what would be right.
        message: String,
    },
    /// It did not happen in time.
    #[error("it did not happen in time")]
    Timeout,
    /// The instance has not ended; cancel it first, or force the deletion.
    #[error("instance '{instance_id}' is still running; cancel it first, or delete it with force")]
    InstanceStillRunning {
        /// Which instance.
        instance_id: String,
    },
    /// The instance is a child; delete its root.
    #[error("instance '{instance_id}' is a sub-orchestration; delete its root instead")]
    CannotDeleteSubOrchestration {
        /// Which instance.
        instance_id: String,
    },
    /// No instance has the id.
    #[error("instance '{instance_id}' not found")]
    InstanceNotFound {
        /// Which id.
        instance_id: String,
    },
}

impl ClientError {
    /// Whether doing it again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Provider(error) => error.is_retryable(),
            Self::Timeout => true,
            Self::ManagementNotAvailable
            | Self::InvalidInput { .. }
            | Self::InstanceStillRunning { .. }
            | Self::CannotDeleteSubOrchestration { .. }
            | Self::InstanceNotFound { .. } => false,
        }
    }

    /// The error of a call that the store refused or could not carry out. What is wrong with the call itself, a full
    /// inbox for example, is the caller's to mend.
    pub(super) fn of_call(error: ProviderError) -> Self {
        match error.kind() {
            ProviderErrorKind::Invalid => Self::invalid(error.message),
            ProviderErrorKind::NotFound
            | ProviderErrorKind::Unavailable
            | ProviderErrorKind::LockLost
            | ProviderErrorKind::Corrupt
            | ProviderErrorKind::Other => Self::Provider(error),
        }
    }

    pub(super) fn invalid(message: String) -> Self {
        Self::InvalidInput { message }
    }
}
