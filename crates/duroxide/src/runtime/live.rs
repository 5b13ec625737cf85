//! Executions kept in memory between turns.
//!
//! One is used only if incarnation, execution and last event match what the fetch found, so a stale one can
//! never be mistaken for the stored state.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duroxide_core::Execution;

use crate::providers::{HeldHistories, HeldHistory};

/// Events that all held executions may have together: what they keep in memory grows with their histories.
const MAX_HELD_EVENTS: u64 = 4_000_000;

/// Live executions, least recently used dropped first.
pub(super) struct LiveExecutions {
    state: Mutex<State>,
    capacity: usize,
}

#[derive(Default)]
struct State {
    by_instance: BTreeMap<String, Entry>,
    /// Instances by when they were last used.
    by_use: BTreeMap<u64, String>,
    uses: u64,
    events: u64,
}

struct Entry {
    incarnation: u64,
    execution: Box<Execution>,
    used: u64,
}

impl LiveExecutions {
    pub(super) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the execution out for a turn, if it is still the one that `held` names.
    pub(super) fn take(&self, instance: &str, held: HeldHistory) -> Option<Box<Execution>> {
        let entry = {
            let mut state = self.lock();
            state.remove(instance)?
        };
        (entry.held() == held).then_some(entry.execution)
    }

    /// Forgets an instance.
    pub(super) fn forget(&self, instance: &str) {
        let forgotten = self.lock().remove(instance);
        // The program's destructors run here, not under the lock.
        drop(forgotten);
    }

    /// Keeps an execution whose turn has been committed.
    pub(super) fn keep(&self, instance: String, incarnation: u64, execution: Box<Execution>) {
        if self.capacity == 0 {
            return;
        }
        let mut evicted = Vec::new();
        {
            let mut state = self.lock();
            evicted.extend(state.remove(&instance));
            state.uses += 1;
            let used = state.uses;
            state.events += execution.last_event_id();
            state.by_use.insert(used, instance.clone());
            state.by_instance.insert(instance, Entry { incarnation, execution, used });
            while state.by_instance.len() > self.capacity || state.events > MAX_HELD_EVENTS {
                let Some(oldest) = state.by_use.values().next().cloned() else { break };
                evicted.extend(state.remove(&oldest));
            }
        }
        drop(evicted);
    }
}

impl State {
    fn remove(&mut self, instance: &str) -> Option<Entry> {
        let entry = self.by_instance.remove(instance)?;
        self.by_use.remove(&entry.used);
        self.events = self.events.saturating_sub(entry.execution.last_event_id());
        Some(entry)
    }
}

impl Entry {
    fn held(&self) -> HeldHistory {
        HeldHistory {
            incarnation: self.incarnation,
            execution_id: self.execution.execution_id(),
            last_event_id: self.execution.last_event_id(),
        }
    }
}

impl HeldHistories for LiveExecutions {
    fn held(&self, instance: &str) -> Option<HeldHistory> {
        self.lock().by_instance.get(instance).map(Entry::held)
    }
}
