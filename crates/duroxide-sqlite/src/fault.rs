//! Why a call failed, before it is known which call it was.

use duroxide_provider::{ProviderError, ProviderErrorKind};
use rusqlite::ErrorCode;

/// Why a call failed. The operation's name is added where the call is answered.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite failed.
    Storage(rusqlite::Error),
    /// The lock token is unknown, was taken back or has expired.
    LockLost,
    /// What was named does not exist.
    NotFound(String),
    /// A stored row cannot be decoded.
    Corrupt(String),
    /// The call itself is wrong.
    Invalid(String),
    /// The code that carried the call out panicked.
    Panicked,
    /// SQLite rolled the transaction back after the failure of another call.
    RolledBack,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<duroxide_provider::rules::Fault> for Fault {
    fn from(fault: duroxide_provider::rules::Fault) -> Self {
        use duroxide_provider::rules::Fault as Rule;
        match fault {
            Rule::LockLost => Self::LockLost,
            Rule::NotFound(what) => Self::NotFound(what),
            Rule::Corrupt(message) => Self::Corrupt(message),
            Rule::Invalid(message) => Self::Invalid(message),
        }
    }
}

impl Fault {
    pub(super) fn into_error(self, operation: &str) -> ProviderError {
        match self {
            Self::Storage(error) => storage_error(operation, error),
            Self::LockLost => ProviderError::lock_lost(operation),
            Self::NotFound(what) => ProviderError::not_found(operation, what),
            Self::Corrupt(message) => ProviderError::of_kind(ProviderErrorKind::Corrupt, operation, message),
            Self::Invalid(message) => ProviderError::of_kind(ProviderErrorKind::Invalid, operation, message),
            Self::RolledBack => ProviderError::retryable(operation, "SQLite rolled the transaction back"),
            Self::Panicked => ProviderError::permanent(operation, "the store panicked; nothing was changed"),
        }
    }
}

/// SQLite's error as the contract knows it. Its texts name tables and columns, never values.
pub(super) fn storage_error(operation: &str, error: rusqlite::Error) -> ProviderError {
    let kind = match error.sqlite_error_code() {
        Some(code) if passes_by_itself(code) => ProviderErrorKind::Unavailable,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ProviderErrorKind::Corrupt,
        Some(code) if is_about_values(code) => ProviderErrorKind::Invalid,
        Some(_) | None => ProviderErrorKind::Other,
    };
    ProviderError::of_kind(kind, operation, format!("SQLite: {error}")).with_source(error)
}

/// Whether an operator, another process or a moment's patience may clear the cause.
fn passes_by_itself(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::CannotOpen
            | ErrorCode::SchemaChanged
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
    )
}

/// Whether SQLite does not accept the values: again would give the same, and other calls are not concerned.
fn is_about_values(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TooBig
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::ParameterOutOfRange
    )
}
