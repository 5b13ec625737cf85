//! What was promised: every answer that said `Ok`, to be compared with what the store holds.

use std::collections::BTreeMap;

use duroxide::Event;
use duroxide::providers::WorkItem;
use serde_json::Value;

use crate::generate::Send;
use crate::world::Actor;

/// An activity by instance, execution and schedule.
pub(crate) type ActivityKey = (String, u64, u64);

/// What was promised.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The histories, as far as their commits were answered with `Ok`.
    pub(crate) histories: BTreeMap<(String, u64), Vec<Event>>,
    /// The result of each activity whose ack was answered with `Ok`.
    pub(crate) completions: BTreeMap<ActivityKey, WorkItem>,
    /// What clients sent and got an `Ok` for.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// The reasons of all cancels that clients sent, acknowledged or not.
    pub(crate) cancels: BTreeMap<String, Vec<String>>,
    /// The ends that clients saw.
    pub(crate) seen_ends: BTreeMap<String, Value>,
    /// Who fetched an instance or activity last.
    pub(crate) holders: BTreeMap<String, Actor>,
}

/// A call of a client that returned `Ok`.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    pub(crate) instance: String,
    pub(crate) what: Send,
}

impl Ledger {
    /// Remembers who holds the lock now; who held it before.
    pub(crate) fn takes(&mut self, item: String, actor: Actor) -> Option<Actor> {
        self.holders.insert(item, actor)
    }

    pub(crate) fn append(&mut self, execution_id: u64, events: &[Event]) {
        if let Some(first) = events.first() {
            let history = self.histories.entry((first.instance_id.clone(), execution_id)).or_default();
            history.extend_from_slice(events);
        }
    }
}
