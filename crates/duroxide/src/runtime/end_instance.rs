//! Ending an instance without its code: poisoned, cancelled, or not to be run by any node.

use duroxide_core::redrive::{PARENT_CANCELED, PARENT_FAILED};
use duroxide_core::{
    Event, ParentLink, StoredExecution, Turn, TurnResult, WorkItem, cancel_without_handler,
    end_without_handler, test_fault,
};

use super::node::Node;
use super::poison::Ending;
use super::store_call::answer_in_time;
use super::test_faults;
use crate::providers::{OrchestrationItem, TurnFacts};

/// The reason of a cancel that waits in the inbox.
pub(super) fn cancel_reason(messages: &[WorkItem]) -> Option<&str> {
    messages.iter().find_map(|message| {
        if let WorkItem::CancelInstance { reason, .. } = message { Some(reason.as_str()) } else { None }
    })
}

/// The turn that ends an instance as failed.
pub(super) async fn end(
    node: &Node,
    item: OrchestrationItem,
    facts: Option<&TurnFacts>,
    ending: Ending,
    now_ms: u64,
) -> TurnResult {
    let Ending { details, logged } = ending;
    tracing::error!(
        target: "duroxide::runtime",
        instance_id = %item.instance,
        execution_id = item.execution_id,
        orchestration_name = %item.orchestration_name,
        category = details.category(),
        cause = %logged,
        "ending the instance without running it: {}",
        details.display_message()
    );
    let stored = stored_execution(node, &item, facts).await;
    let mut turn = end_without_handler(&stored, details, item.messages.clone(), now_ms);
    cancel_unknown_children(node, &item, &mut turn, PARENT_FAILED).await;
    test_fault!(PoisonTellsParent => test_faults::keep_from_parent(&mut turn));
    TurnResult { turn, execution: None }
}

/// The turn that ends an instance as cancelled.
pub(super) async fn cancel(
    node: &Node,
    item: OrchestrationItem,
    facts: Option<&TurnFacts>,
    reason: &str,
    now_ms: u64,
) -> TurnResult {
    let stored = stored_execution(node, &item, facts).await;
    let mut turn = cancel_without_handler(&stored, reason, item.messages.clone(), now_ms);
    cancel_unknown_children(node, &item, &mut turn, PARENT_CANCELED).await;
    TurnResult { turn, execution: None }
}

async fn stored_execution<'a>(
    node: &Node,
    item: &'a OrchestrationItem,
    facts: Option<&TurnFacts>,
) -> StoredExecution<'a> {
    let (parent, last_event_id) = match facts {
        Some(facts) => (facts.parent.clone(), facts.last_event_id),
        None if item.history_error.is_some() => facts_from_plain_store(node, item).await,
        None => (None, 0),
    };
    StoredExecution {
        instance: item.instance.clone(),
        execution_id: item.execution_id,
        name: item.orchestration_name.clone(),
        version: item.version.clone(),
        parent,
        history: &item.history,
        last_event_id,
    }
}

/// The parent link and last event of an undecodable history, from a store without the extension: the parent's
/// own history says which of its events scheduled the child.
async fn facts_from_plain_store(node: &Node, item: &OrchestrationItem) -> (Option<ParentLink>, u64) {
    let Some(admin) = node.provider.as_management_capability() else { return (None, 0) };
    let last_event_id =
        match answer_in_time(admin.get_execution_info(&item.instance, item.execution_id)).await {
            Ok(info) => u64::try_from(info.event_count).unwrap_or(u64::MAX),
            Err(error) => {
                node.store_failed("reading an execution", &error);
                0
            }
        };
    let parent = match admin.get_parent_id(&item.instance).await {
        Ok(Some(parent)) => parent_link(node, &parent, &item.instance).await,
        Ok(None) => None,
        Err(error) => {
            node.store_failed("reading a parent", &error);
            None
        }
    };
    (parent, last_event_id)
}

async fn parent_link(node: &Node, parent: &str, child: &str) -> Option<ParentLink> {
    let history: Vec<Event> = match answer_in_time(node.provider.read(parent)).await {
        Ok(history) => history,
        Err(error) => {
            node.store_failed("reading a parent", &error);
            return None;
        }
    };
    history.iter().find_map(|event| {
        (event.child_instance().as_deref() == Some(child)).then(|| ParentLink {
            instance: parent.to_string(),
            execution_id: event.execution_id,
            event_id: event.event_id,
        })
    })
}

/// Children that only an undecodable history knows are found by their parent column.
async fn cancel_unknown_children(node: &Node, item: &OrchestrationItem, turn: &mut Turn, reason: &str) {
    if item.history_error.is_none() {
        return;
    }
    let Some(admin) = node.provider.as_management_capability() else { return };
    match answer_in_time(admin.list_children(&item.instance)).await {
        Ok(children) => turn.orchestrator_items.extend(
            children
                .into_iter()
                .map(|instance| WorkItem::CancelInstance { instance, reason: reason.to_string() }),
        ),
        Err(error) => node.store_failed("listing children", &error),
    }
}
