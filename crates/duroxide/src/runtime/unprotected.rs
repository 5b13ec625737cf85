//! What the runtime does when a test has switched a protection off: the fault that the protection is against.

use duroxide_core::protection::Protection;
use duroxide_core::{Turn, WorkItem};

use super::node::Node;
use crate::providers::ProviderError;

/// A panic of an activity takes a slot with it.
pub(super) fn lose_slot(node: &Node) {
    if !Protection::PanicKeepsCapacity.is_off() {
        return;
    }
    let slots = node.activity_slots.clone();
    node.tasks.spawn(async move {
        if let Ok(permit) = slots.acquire_owned().await {
            permit.forget();
        }
    });
}

/// A store that is away makes a result a failure.
pub(super) fn spoil(completion: Option<WorkItem>, error: &ProviderError) -> Option<WorkItem> {
    match completion {
        Some(WorkItem::ActivityCompleted { instance, execution_id, id, .. })
            if Protection::OutageIsNoFailure.is_off() =>
        {
            let details = error.to_infrastructure_error();
            Some(WorkItem::ActivityFailed { instance, execution_id, id, details })
        }
        completion => completion,
    }
}

/// Nobody tells the parent of a poisoned child.
pub(super) fn keep_from_parent(turn: &mut Turn) {
    if Protection::PoisonTellsParent.is_off() {
        turn.orchestrator_items.retain(|message| !matches!(message, WorkItem::SubOrchFailed { .. }));
    }
}
