//! Executions kept in memory between turns.
//!
//! One is used only if incarnation, execution and last event match what the fetch found, so a stale one can
//! never be mistaken for the stored state.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duroxide_core::Execution;

use crate::providers::{HeldHistories, HeldHistory};

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
            let entry = state.by_instance.remove(instance)?;
            state.by_use.remove(&entry.used);
            entry
        };
        (entry.held() == held).then_some(entry.execution)
    }

    /// Forgets an instance.
    pub(super) fn forget(&self, instance: &str) {
        let forgotten = {
            let mut state = self.lock();
            let forgotten = state.by_instance.remove(instance);
            if let Some(entry) = &forgotten {
                state.by_use.remove(&entry.used);
            }
            forgotten
        };
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
            state.uses += 1;
            let used = state.uses;
            let replaced = state.by_instance.insert(instance.clone(), Entry { incarnation, execution, used });
            if let Some(replaced) = replaced {
                state.by_use.remove(&replaced.used);
                evicted.push(replaced);
            }
            state.by_use.insert(used, instance);
            while state.by_instance.len() > self.capacity {
                let Some((_, oldest)) = state.by_use.pop_first() else { break };
                evicted.extend(state.by_instance.remove(&oldest));
            }
        }
        drop(evicted);
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
