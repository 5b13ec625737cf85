//! What is stored, in its stored form: made, and checked for what can be wrong by itself, before any row is loaded.

use std::borrow::Cow;

use duroxide_core::{Event, ItemKind, WorkItem, columns_of, state_changes};

use super::Fault;
use super::values::to_json;

/// A message or work item with its stored form.
#[derive(Debug, Clone)]
pub struct EncodedItem {
    /// What is stored.
    pub item: WorkItem,
    /// Its JSON.
    pub json: String,
}

impl EncodedItem {
    /// Encodes an item.
    pub fn new(item: WorkItem) -> Result<Self, Fault> {
        let json = to_json(&item)?;
        Ok(Self { item, json })
    }

    /// Encodes items.
    pub fn all(items: Vec<WorkItem>) -> Result<Vec<Self>, Fault> {
        items.into_iter().map(Self::new).collect()
    }

    /// What kind of message or work it is.
    pub fn kind(&self) -> ItemKind {
        columns_of(&self.item).kind
    }
}

/// Checks that an item belongs into an inbox.
pub fn check_message(item: &WorkItem) -> Result<(), Fault> {
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
pub fn check_work(item: &WorkItem) -> Result<(), Fault> {
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
pub fn check_completion(item: &WorkItem) -> Result<(), Fault> {
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

/// Events with their stored form, which is made before rows are loaded where the ids are known by then.
#[derive(Debug, Clone)]
pub struct EncodedEvents {
    events: Vec<Event>,
    json: Vec<String>,
}

impl EncodedEvents {
    /// Encodes events. Those without an id get it when the execution's row is known.
    pub fn new(events: Vec<Event>) -> Result<Self, Fault> {
        let unnumbered = events.iter().any(|event| event.event_id == 0);
        let json =
            if unnumbered { Vec::new() } else { events.iter().map(to_json).collect::<Result<_, _>>()? };
        Ok(Self { events, json })
    }

    /// The bytes of their stored forms.
    pub fn bytes(&self) -> usize {
        self.json.iter().map(String::len).sum()
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether clients see nothing of it: neither the custom status nor the KV store changes.
    pub(super) fn is_history_only(&self) -> bool {
        let changes = state_changes(&self.events);
        changes.custom_status.is_none() && changes.kv.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Event, &String)> {
        self.events.iter().zip(&self.json)
    }

    /// The same with the next ids for events that have none.
    pub(super) fn numbered(&self, last_event_id: u64) -> Result<Cow<'_, Self>, Fault> {
        if self.json.len() == self.events.len() {
            return Ok(Cow::Borrowed(self));
        }
        let mut last = last_event_id;
        let mut events = self.events.clone();
        for event in &mut events {
            if event.event_id == 0 {
                event.event_id = last.saturating_add(1);
            }
            last = last.max(event.event_id);
        }
        Self::new(events).map(Cow::Owned)
    }
}
