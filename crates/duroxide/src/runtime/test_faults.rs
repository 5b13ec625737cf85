//! The faults that a test asks for by switching a protection off, where they need more than a line of their own.

use duroxide_core::{ErrorDetails, Turn, WorkItem};

use super::node::Node;
use super::verdict::Tries;

/// `PanicKeepsCapacity`: a panic of an activity takes a slot with it.
pub(super) fn lose_slot(node: &Node) {
    let slots = node.activity_slots.clone();
    node.tasks.spawn(async move {
        if let Ok(permit) = slots.acquire_owned().await {
            permit.forget();
        }
    });
}

/// `OutageIsNoFailure`: a store that was away makes a result a failure.
pub(super) fn spoil(completion: Option<WorkItem>, before: Tries) -> Option<WorkItem> {
    match completion {
        Some(WorkItem::ActivityCompleted { instance, execution_id, id, .. }) if before.failures > 0 => {
            let details = ErrorDetails::not_accepted("test fault", "the store was away");
            Some(WorkItem::ActivityFailed { instance, execution_id, id, details })
        }
        completion => completion,
    }
}

/// `PoisonTellsParent`: the parent of a poisoned child hears nothing.
pub(super) fn keep_from_parent(turn: &mut Turn) {
    turn.orchestrator_items.retain(|message| !matches!(message, WorkItem::SubOrchFailed { .. }));
}
