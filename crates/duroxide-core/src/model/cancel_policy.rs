//! How an execution takes a cancel.

use std::time::Duration;

use super::{Event, EventKind, deadline_ms};

/// Lets an execution go on for a while after a cancel, to undo what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelPolicy {
    /// How long it may go on. After that it ends as it stands.
    pub compensate_within: Duration,
}

impl CancelPolicy {
    pub(crate) fn recorded(self) -> EventKind {
        EventKind::CancelPolicyRecorded { within_ms: deadline_ms(self.compensate_within).unwrap_or(0) }
    }
}

/// The policy that a history records, right behind its start.
pub fn cancel_policy_of(history: &[Event]) -> Option<CancelPolicy> {
    let EventKind::CancelPolicyRecorded { within_ms } = &history.get(1)?.kind else { return None };
    Some(CancelPolicy { compensate_within: Duration::from_millis(*within_ms) })
}

/// Whether a cancel ends the execution whatever its program does: it has no policy, or was cancelled before.
pub fn cancel_ends_at_once(history: &[Event]) -> bool {
    let is_cancel = |event: &Event| matches!(event.kind, EventKind::OrchestrationCancelRequested { .. });
    cancel_policy_of(history).is_none() || history.iter().any(is_cancel)
}
