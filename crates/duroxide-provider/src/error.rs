//! Errors of a store: what was done, what went wrong, whether again may help.

use std::sync::Arc;

use duroxide_core::ErrorDetails;

/// What kind of failure a [`ProviderError`] is. Decisions look at this, never at the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// The store did not answer, was busy, or lost the answer. The outcome may be unknown.
    Unavailable,
    /// The lock token is unknown, was taken back or has expired. Nothing was changed.
    LockLost,
    /// What was named does not exist.
    NotFound,
    /// A stored row cannot be decoded.
    Corrupt,
    /// The call itself is wrong, or the store does not accept its values and never will. Nothing was changed.
    Invalid,
    /// Anything else that will not go away by itself.
    Other,
}

/// A store's failure.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct ProviderError {
    /// What was being done.
    pub operation: String,
    /// What went wrong.
    pub message: String,
    /// Whether doing it again may help.
    pub retryable: bool,
    kind: ProviderErrorKind,
    #[source]
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl ProviderError {
    /// An error that may go away by itself.
    pub fn retryable(operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_kind(ProviderErrorKind::Unavailable, operation, message)
    }

    /// An error that will not go away by itself.
    pub fn permanent(operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of_kind(ProviderErrorKind::Other, operation, message)
    }

    /// An error of a given kind; only [`ProviderErrorKind::Unavailable`] is retryable.
    pub fn of_kind(
        kind: ProviderErrorKind,
        operation: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            operation: operation.into(),
            message: message.into(),
            retryable: kind == ProviderErrorKind::Unavailable,
            kind,
            source: None,
        }
    }

    /// The lock token does not hold (any more).
    pub fn lock_lost(operation: impl Into<String>) -> Self {
        Self::of_kind(
            ProviderErrorKind::LockLost,
            operation,
            "Invalid lock token: it is unknown or has expired; fetch the item again",
        )
    }

    /// `what` does not exist.
    pub fn not_found(operation: impl Into<String>, what: impl std::fmt::Display) -> Self {
        Self::of_kind(ProviderErrorKind::NotFound, operation, format!("{what} not found"))
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The first error of a type among the causes.
    #[doc(hidden)]
    pub fn cause<T: std::error::Error + 'static>(&self) -> Option<&T> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = source_of(self);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<T>() {
                return Some(found);
            }
            next = match error.downcast_ref::<Self>() {
                Some(error) => source_of(error),
                None => error.source(),
            };
        }
        None
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ProviderErrorKind {
        self.kind
    }

    /// Whether doing it again may help.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// The same failure as it is stored in a history.
    pub fn to_infrastructure_error(&self) -> ErrorDetails {
        ErrorDetails::Infrastructure {
            operation: self.operation.clone(),
            message: self.message.clone(),
            retryable: self.retryable,
        }
    }
}

/// The cause itself. `Error::source` gives the pointer to it, which is of another type.
fn source_of(error: &ProviderError) -> Option<&(dyn std::error::Error + 'static)> {
    match &error.source {
        Some(source) => Some(&**source),
        None => None,
    }
}
