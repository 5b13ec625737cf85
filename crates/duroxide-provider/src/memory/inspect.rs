//! Looking at one instance without copying it, for checks after every commit.

use std::collections::BTreeSet;

use duroxide_core::{Event, ParentLink, WorkItem};

use super::rows::Stored;
use super::state::State;

/// One instance, as it is stored.
#[derive(Debug)]
pub struct Inspection<'a> {
    /// The status word.
    pub status: &'static str,
    /// The latest execution.
    pub current_execution_id: u64,
    /// Its history, as far as it decodes.
    pub events: Vec<&'a Event>,
    /// How many events it has.
    pub event_count: usize,
    /// The messages, as far as they decode.
    pub inbox: Vec<&'a WorkItem>,
    /// Its queued activities, by execution and schedule.
    pub queued: BTreeSet<(u64, u64)>,
    /// The children that run, with who waits for them.
    pub running_children: Vec<(&'a str, ParentLink)>,
}

impl State {
    pub(super) fn inspect<T>(&self, id: &str, look: impl FnOnce(&Inspection<'_>) -> T) -> Option<T> {
        let row = self.instances.get(id)?;
        let events = row.executions.get(&row.current_execution_id).map(|execution| &execution.events);
        let queued = self.work_of(id).into_iter().filter_map(|seq| {
            let key = &self.work.get(&seq)?.key;
            Some((key.execution_id, key.event_id))
        });
        let children = self.children.get(id).into_iter().flatten().filter_map(|seq| {
            let child = self.created.get(seq)?;
            let row = self.instances.get(child).filter(|row| !row.status.ends_instance())?;
            Some((child.as_str(), row.parent()?))
        });
        let inspection = Inspection {
            status: row.status.word(),
            current_execution_id: row.current_execution_id,
            events: events.into_iter().flat_map(|events| events.values()).filter_map(decoded).collect(),
            event_count: events.map_or(0, std::collections::BTreeMap::len),
            inbox: row.inbox().values().filter_map(|message| decoded(&message.item)).collect(),
            queued: queued.collect(),
            running_children: children.collect(),
        };
        Some(look(&inspection))
    }
}

fn decoded<T>(stored: &Stored<T>) -> Option<&T> {
    match stored {
        Stored::Value(value) => Some(value),
        Stored::Undecodable { .. } => None,
    }
}
