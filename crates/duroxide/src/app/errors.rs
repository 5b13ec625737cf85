//! What can go wrong outside of an orchestration.

use std::fmt::{Debug, Display};
use std::time::Duration;

use duroxide_core::CallError;

use crate::client::ClientError;
use crate::providers::ProviderError;

/// Why a program did not start.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Handlers are wrong: two of one name, one of two names, a name that is none, a closure.
    #[error("the handlers of this program are wrong: {}", problems.join("; "))]
    Handlers {
        /// What is wrong with each.
        problems: Vec<String>,
    },
    /// The store could not be opened, or the URL names none that is in this build.
    #[error(transparent)]
    Store(#[from] ProviderError),
}

/// Why an orchestration was not started.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The function has no name in this program.
    #[error("{message}")]
    NotNamed {
        /// Which function, and how it gets one.
        message: String,
    },
    /// The id is taken by another orchestration, or by one that was started with another input. Nothing was changed.
    #[error(
        "instance '{instance}' exists: it is {existing}, and not {asked}; use another id, or `handle` to attach to it"
    )]
    Exists {
        /// The id.
        instance: String,
        /// What has it.
        existing: String,
        /// What was asked for.
        asked: String,
    },
    /// The start was wrong, or the store did not take it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Why a run gave no result.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The orchestration failed.
    Call(CallError<E>),
    /// It was not started.
    Start(StartError),
    /// It has not ended in the time that the caller waited for it.
    NotEnded {
        /// The instance.
        instance: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// In a test: it has not ended, and it will not before something comes from outside.
    Stuck {
        /// The instance.
        instance: String,
        /// What it waits for.
        waits_for: String,
    },
    /// No instance has the id.
    NotFound {
        /// The id.
        instance: String,
    },
    /// The store failed.
    Client(ClientError),
}

impl<E> RunError<E> {
    /// The error of the orchestration itself, if that is what it was.
    pub fn app(&self) -> Option<&E> {
        match self {
            Self::Call(error) => error.app(),
            Self::Start(_)
            | Self::NotEnded { .. }
            | Self::Stuck { .. }
            | Self::NotFound { .. }
            | Self::Client(_) => None,
        }
    }
}

impl<E: Display> Display for RunError<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(error) => Display::fmt(error, f),
            Self::Start(error) => Display::fmt(error, f),
            Self::NotEnded { instance, waited } => {
                write!(f, "instance '{instance}' has not ended after {waited:?}")
            }
            Self::Stuck { instance, waits_for } => {
                write!(f, "instance '{instance}' will not end by itself: it waits for {waits_for}")
            }
            Self::NotFound { instance } => write!(f, "instance '{instance}' not found"),
            Self::Client(error) => Display::fmt(error, f),
        }
    }
}

impl<E: Debug + Display> std::error::Error for RunError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // These display as what they hold.
            Self::Start(error) => error.source(),
            Self::Client(error) => error.source(),
            Self::Call(_) | Self::NotEnded { .. } | Self::Stuck { .. } | Self::NotFound { .. } => None,
        }
    }
}

impl<E> From<CallError<E>> for RunError<E> {
    fn from(error: CallError<E>) -> Self {
        Self::Call(error)
    }
}

impl<E> From<StartError> for RunError<E> {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl<E> From<ClientError> for RunError<E> {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}
