//! What the caller of an activity or orchestration gets when it fails.

use std::any::Any;
use std::error::Error;
use std::fmt::{Debug, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::{AppError, Failure};
use crate::engine::slot::Failed;
use crate::model::{AppErrorKind, ErrorDetails, FailureKind};

/// Why a call of an activity or orchestration failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CallError<E> {
    /// The handler returned this error.
    App(E),
    /// A deadline passed.
    TimedOut {
        /// Which deadline, of what.
        message: String,
    },
    /// It was cancelled.
    Cancelled {
        /// The reason that the canceller gave.
        reason: String,
    },
    /// The handler panicked.
    Panicked {
        /// The text of the panic.
        message: String,
    },
    /// It was attempted more often than `max_attempts` allows.
    Poisoned {
        /// How often, and why.
        message: String,
    },
    /// Anything else: a value that does not decode, an id that is taken, what the store does not accept.
    Other {
        /// What it was.
        message: String,
    },
}

impl<E> CallError<E> {
    /// The error of the handler, if that is what it was.
    pub fn app(&self) -> Option<&E> {
        match self {
            Self::App(error) => Some(error),
            Self::TimedOut { .. }
            | Self::Cancelled { .. }
            | Self::Panicked { .. }
            | Self::Poisoned { .. }
            | Self::Other { .. } => None,
        }
    }

    /// The same with the error of the handler changed by `f`.
    pub fn map_app<F>(self, f: impl FnOnce(E) -> F) -> CallError<F> {
        match self {
            Self::App(error) => CallError::App(f(error)),
            Self::TimedOut { message } => CallError::TimedOut { message },
            Self::Cancelled { reason } => CallError::Cancelled { reason },
            Self::Panicked { message } => CallError::Panicked { message },
            Self::Poisoned { message } => CallError::Poisoned { message },
            Self::Other { message } => CallError::Other { message },
        }
    }
}

impl<E: AppError> CallError<E> {
    /// From what was recorded: the kind, the text, and the error of the handler as JSON.
    pub fn from_recorded(kind: FailureKind, text: String, error: Option<&str>) -> Self {
        let message = text;
        match kind {
            FailureKind::App => match recorded_error(&message, error) {
                Some(error) => Self::App(error),
                None => Self::Other { message },
            },
            FailureKind::TimedOut => Self::TimedOut { message },
            FailureKind::Cancelled => Self::Cancelled { reason: message },
            FailureKind::Panicked => Self::Panicked { message },
            FailureKind::Poisoned => Self::Poisoned { message },
            FailureKind::Other => Self::Other { message },
        }
    }

    /// From a recorded failure, and the error of the handler as JSON.
    pub fn from_details(details: &ErrorDetails, error: Option<&str>) -> Self {
        if let ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } = details {
            return Self::Cancelled { reason: reason.clone() };
        }
        let mut text = details.display_message();
        if let Some(cause) = details.poison_cause() {
            text = format!("{text}: {cause}");
        }
        Self::from_recorded(FailureKind::of(details), text, error)
    }

    pub(super) fn from_failed(failed: Failed) -> Self {
        let Failed { text, kind, error } = failed;
        Self::from_recorded(kind, text, error.as_deref())
    }

    pub(super) fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into() }
    }
}

/// The error that a handler returned, if it decodes.
pub(super) fn recorded_error<E: AppError>(text: &str, json: Option<&str>) -> Option<E> {
    match json {
        Some(json) => serde_json::from_str(json).ok(),
        // A handler whose errors are texts records no more than the text.
        None => from_text(text),
    }
}

fn from_text<E: 'static>(text: &str) -> Option<E> {
    let mut error: Option<E> = None;
    let any: &mut dyn Any = &mut error;
    if let Some(error) = any.downcast_mut::<Option<String>>() {
        *error = Some(text.to_string());
    } else if let Some(error) = any.downcast_mut::<Option<Failure>>() {
        *error = Some(Failure::from(text));
    }
    error
}

impl<E: Display> Display for CallError<E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::App(error) => Display::fmt(error, f),
            Self::Cancelled { reason } => write!(f, "cancelled: {reason}"),
            Self::TimedOut { message }
            | Self::Panicked { message }
            | Self::Poisoned { message }
            | Self::Other { message } => f.write_str(message),
        }
    }
}

// An application error is displayed as itself, so it is not its own source besides.
impl<E: Debug + Display> Error for CallError<E> {}
