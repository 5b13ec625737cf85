//! What an instance waits for, in words.

use std::collections::BTreeMap;

use duroxide_core::{Event, EventKind, open_work};

use crate::providers::memory::MemoryProvider;

/// How deep children are looked into: enough to find the one that waits.
const MAX_DEPTH: usize = 8;

/// What an instance waits for, its children included.
pub(super) fn waits_of(store: &MemoryProvider, instance: &str) -> String {
    let waits = collect(store, instance, MAX_DEPTH);
    if waits.is_empty() { "nothing that was scheduled".to_string() } else { waits.join(", ") }
}

fn collect(store: &MemoryProvider, instance: &str, depth: usize) -> Vec<String> {
    let looked = store.inspect(instance, |found| {
        let history: Vec<Event> = found.events.iter().map(|event| (*event).clone()).collect();
        let children: Vec<String> = found.running_children.iter().map(|(id, _)| (*id).to_string()).collect();
        (history, children)
    });
    let Some((history, children)) = looked else { return Vec::new() };
    let mut waits = open_waits(&history);
    for activity in open_work(&history).activities {
        let name = duroxide_core::columns_of(&activity).name.unwrap_or_default().to_string();
        waits.push(format!("activity '{name}'"));
    }
    for child in children {
        let of_child = if depth == 0 { Vec::new() } else { collect(store, &child, depth - 1) };
        let of_child =
            if of_child.is_empty() { String::new() } else { format!(" ({})", of_child.join(", ")) };
        waits.push(format!("child '{child}'{of_child}"));
    }
    waits
}

/// The events and queues that a history has more subscriptions to than answers.
fn open_waits(history: &[Event]) -> Vec<String> {
    let mut subscriptions: BTreeMap<u64, String> = BTreeMap::new();
    let mut open: BTreeMap<String, i64> = BTreeMap::new();
    let mut count = |what: String, by: i64| *open.entry(what).or_default() += by;
    for event in history {
        if let EventKind::ExternalSubscribed { name } = &event.kind {
            subscriptions.insert(event.event_id, format!("event '{name}'"));
            count(format!("event '{name}'"), 1);
        } else if let EventKind::QueueSubscribed { name } = &event.kind {
            subscriptions.insert(event.event_id, format!("a message of queue '{name}'"));
            count(format!("a message of queue '{name}'"), 1);
        } else if let EventKind::ExternalEvent { name, .. } = &event.kind {
            count(format!("event '{name}'"), -1);
        } else if let EventKind::QueueEventDelivered { name, .. } = &event.kind {
            count(format!("a message of queue '{name}'"), -1);
        } else if let EventKind::ExternalSubscribedCancelled { .. }
        | EventKind::QueueSubscriptionCancelled { .. } = &event.kind
            && let Some(what) = event.source_event_id.and_then(|id| subscriptions.get(&id))
        {
            count(what.clone(), -1);
        }
    }
    open.into_iter().filter(|(_, open)| *open > 0).map(|(what, _)| what).collect()
}
