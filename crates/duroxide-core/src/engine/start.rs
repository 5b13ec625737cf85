//! The message that starts an execution, and what it writes.

use super::end_stored::StoredExecution;
use super::tape::Tape;
use crate::model::{EventKind, ExecutionMetadata, ItemKind, WorkItem, columns_of, pinned_version_of, status};

/// Takes the message that starts the execution out of the batch, wherever it stands.
///
/// A start for another execution is one of another parent for an id that is taken.
pub(super) fn take_start(messages: &mut Vec<WorkItem>, execution_id: u64) -> Option<WorkItem> {
    let index = messages.iter().position(|message| starts(message, execution_id))?;
    Some(messages.remove(index))
}

/// Whether the message starts this execution.
pub(super) fn starts(message: &WorkItem, execution_id: u64) -> bool {
    let columns = columns_of(message);
    match columns.kind {
        ItemKind::Start => columns.execution_id == Some(execution_id),
        ItemKind::ContinueAsNew => true,
        ItemKind::Activity
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Cancel
        | ItemKind::Note => false,
    }
}

pub(super) fn unknown_start(stored: &StoredExecution<'_>) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: stored.instance.clone(),
        orchestration: stored.name.clone(),
        input: String::new(),
        version: Some(stored.version.clone()).filter(|version| !version.is_empty()),
        parent_instance: stored.parent.as_ref().map(|parent| parent.instance.clone()),
        parent_id: stored.parent.as_ref().map(|parent| parent.event_id),
        parent_execution_id: stored.parent.as_ref().map(|parent| parent.execution_id),
        execution_id: stored.execution_id,
    }
}

/// Appends the start of an execution; what the store writes about it.
pub(super) fn append_start(tape: &mut Tape<'_>, start: WorkItem, version: String) -> ExecutionMetadata {
    let columns = columns_of(&start);
    let metadata = ExecutionMetadata {
        status: Some(status::RUNNING.to_string()),
        output: None,
        orchestration_name: columns.name.map(str::to_string),
        orchestration_version: Some(version.clone()),
        parent_instance_id: columns.parent.map(|parent| parent.instance),
        pinned_duroxide_version: None,
    };
    tape.append(None, started_event(start, version));
    ExecutionMetadata { pinned_duroxide_version: pinned_version_of(&tape.events), ..metadata }
}

fn started_event(start: WorkItem, version: String) -> EventKind {
    let (name, input, parent_instance, parent_id, parent_execution_id, carried, initial_custom_status) =
        match start {
            WorkItem::StartOrchestration {
                orchestration,
                input,
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } => (orchestration, input, parent_instance, parent_id, parent_execution_id, Vec::new(), None),
            WorkItem::ContinueAsNew {
                orchestration,
                input,
                parent_instance,
                parent_id,
                parent_execution_id,
                carry_forward_events,
                initial_custom_status,
                ..
            } => (
                orchestration,
                input,
                parent_instance,
                parent_id,
                parent_execution_id,
                carry_forward_events,
                initial_custom_status,
            ),
            WorkItem::ActivityExecute { .. }
            | WorkItem::ActivityExecuteWithin { .. }
            | WorkItem::ActivityBegun { .. }
            | WorkItem::ActivityStopped { .. }
            | WorkItem::Redriven { .. }
            | WorkItem::Repaired { .. }
            | WorkItem::ActivityCompleted { .. }
            | WorkItem::ActivityFailed { .. }
            | WorkItem::ActivityErrored { .. }
            | WorkItem::TimerFired { .. }
            | WorkItem::ExternalRaised { .. }
            | WorkItem::QueueMessage { .. }
            | WorkItem::CancelInstance { .. }
            | WorkItem::SubOrchCompleted { .. }
            | WorkItem::SubOrchFailed { .. }
            | WorkItem::SubOrchErrored { .. } => unreachable!("take_start takes only starts"),
        };
    EventKind::OrchestrationStarted {
        name,
        version,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        carry_forward_events: Some(carried).filter(|carried| !carried.is_empty()),
        initial_custom_status,
    }
}
