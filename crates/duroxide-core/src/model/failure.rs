//! What a caller needs to know of a failure: its kind, and the program's own error.

use super::{AppErrorKind, ErrorDetails, Event, EventKind, ParentLink, WorkItem};

/// What kind of failure a call ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The handler returned an error, or broke a rule or a limit.
    App,
    /// A deadline passed.
    TimedOut,
    /// The child was cancelled.
    Cancelled,
    /// The handler panicked.
    Panicked,
    /// It was attempted too often without coming to an end.
    Poisoned,
    /// The store, the deployment or the call itself was wrong.
    Other,
}

impl FailureKind {
    /// The kind, as far as the stored reason tells it. A timeout is told by the call that had the deadline, and the
    /// panic of an activity by the error that is recorded before the failure.
    pub fn of(details: &ErrorDetails) -> Self {
        match details {
            ErrorDetails::Application { kind, .. } => match kind {
                AppErrorKind::ActivityFailed | AppErrorKind::OrchestrationFailed => Self::App,
                AppErrorKind::Panicked => Self::Panicked,
                AppErrorKind::Cancelled { .. } => Self::Cancelled,
            },
            ErrorDetails::Poison { .. } => Self::Poisoned,
            ErrorDetails::Infrastructure { .. } | ErrorDetails::Configuration { .. } => Self::Other,
        }
    }
}

/// How an execution failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFailure {
    /// Why, as text and kind.
    pub details: ErrorDetails,
    /// The program's own error as JSON, where it gave one.
    pub error: Option<String>,
}

impl RecordedFailure {
    /// The failure at the end of a history, or of its last two events; `None` if it does not end in one.
    pub fn at_end_of(history: &[Event]) -> Option<Self> {
        let (last, before) = history.split_last()?;
        let EventKind::OrchestrationFailed { details } = &last.kind else { return None };
        let error = before.last().and_then(|event| {
            if let EventKind::ErrorRecorded { error, .. } = &event.kind { Some(error.clone()) } else { None }
        });
        Some(Self { details: details.clone(), error })
    }

    /// The message that tells the parent.
    pub fn told_to(self, parent: &ParentLink) -> WorkItem {
        let parent_instance = parent.instance.clone();
        let (parent_execution_id, parent_id) = (parent.execution_id, parent.event_id);
        let Self { details, error } = self;
        match error {
            None => WorkItem::SubOrchFailed { parent_instance, parent_execution_id, parent_id, details },
            Some(error) => {
                WorkItem::SubOrchErrored { parent_instance, parent_execution_id, parent_id, details, error }
            }
        }
    }
}
