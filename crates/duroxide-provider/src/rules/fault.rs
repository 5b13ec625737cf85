//! Why a call cannot be applied.

use crate::error::{ProviderError, ProviderErrorKind};

/// Why a call fails. The operation's name is added where the call is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The lock token is unknown, was taken back or has expired.
    LockLost,
    /// What was named does not exist.
    NotFound(String),
    /// A stored row cannot be decoded, or contradicts another.
    Corrupt(String),
    /// The call itself is wrong.
    Invalid(String),
}

impl Fault {
    /// The error that the caller of `operation` gets.
    pub fn into_error(self, operation: &str) -> ProviderError {
        match self {
            Self::LockLost => ProviderError::lock_lost(operation),
            Self::NotFound(what) => ProviderError::not_found(operation, what),
            Self::Corrupt(message) => ProviderError::of_kind(ProviderErrorKind::Corrupt, operation, message),
            Self::Invalid(message) => ProviderError::of_kind(ProviderErrorKind::Invalid, operation, message),
        }
    }
}
