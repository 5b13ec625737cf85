//! Messages and work items with their stored form, which is made before a transaction begins.

use duroxide_core::{ItemKind, WorkItem, columns_of};

use crate::fault::Fault;
use crate::values::to_json;

/// A message or work item with its stored form.
#[derive(Debug, Clone)]
pub(crate) struct EncodedItem {
    pub(crate) item: WorkItem,
    pub(crate) json: String,
}

impl EncodedItem {
    pub(crate) fn new(item: WorkItem) -> Result<Self, Fault> {
        let json = to_json(&item)?;
        Ok(Self { item, json })
    }

    pub(crate) fn all(items: Vec<WorkItem>) -> Result<Vec<Self>, Fault> {
        items.into_iter().map(Self::new).collect()
    }

    pub(crate) fn kind(&self) -> ItemKind {
        columns_of(&self.item).kind
    }
}

/// Checks that an item belongs into an inbox.
pub(crate) fn check_message(item: &WorkItem) -> Result<(), Fault> {
    check_instance(item)?;
    match columns_of(item).kind {
        ItemKind::Activity => Err(Fault::Invalid("an activity does not belong into an inbox".to_string())),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Ok(()),
    }
}

/// Checks that an item belongs into the worker queue.
pub(crate) fn check_work(item: &WorkItem) -> Result<(), Fault> {
    check_instance(item)?;
    match columns_of(item).kind {
        ItemKind::Activity => Ok(()),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => {
            Err(Fault::Invalid("only an activity belongs into the worker queue".to_string()))
        }
    }
}

/// Checks that an item is the completion of a work item.
pub(crate) fn check_completion(item: &WorkItem) -> Result<(), Fault> {
    check_message(item)?;
    match columns_of(item).kind {
        ItemKind::Completion => Ok(()),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Activity
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Note
        | ItemKind::Cancel => Err(Fault::Invalid("the item is not a completion".to_string())),
    }
}

fn check_instance(item: &WorkItem) -> Result<(), Fault> {
    if item.instance().is_empty() {
        return Err(Fault::Invalid("the instance id is empty".to_string()));
    }
    Ok(())
}
