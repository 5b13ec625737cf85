//! Executions kept in memory between turns.
//!
//! One is used only if incarnation, execution and last event match what the fetch found, so a stale one can
//! never be mistaken for the stored state.
//!
//! A store may serve the next fetch in the very transaction that commits a turn, before the turn's task hears
//! of it. So an execution is *announced* before its commit, with the last event it will have. A fetch that finds
//! that event stored has seen the commit, or nothing: the announced commit holds the lock until then. Whoever
//! takes an announced execution waits until its commit is known to have succeeded.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duroxide_core::Execution;
use tokio_util::sync::CancellationToken;

use crate::providers::{HeldHistories, HeldHistory};

/// Events that all held executions may have together: what they keep in memory grows with their histories.
const MAX_HELD_EVENTS: u64 = 4_000_000;
/// The stored bytes of their histories together: a program may keep every result that it was given.
const MAX_HELD_BYTES: u64 = 1 << 30;

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
    bytes: u64,
}

struct Entry {
    held: HeldHistory,
    bytes: u64,
    used: u64,
    execution: Availability,
}

enum Availability {
    Here(Box<Execution>),
    /// Its turn is being committed; cancelled once that is decided.
    Announced(CancellationToken),
}

impl LiveExecutions {
    pub(super) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the execution out for a turn, if it is still the one that `held` names.
    pub(super) async fn take(&self, instance: &str, held: HeldHistory) -> Option<Box<Execution>> {
        loop {
            let decided = {
                let mut state = self.lock();
                let entry = state.by_instance.get(instance).filter(|entry| entry.held == held)?;
                match &entry.execution {
                    Availability::Announced(decided) => decided.clone(),
                    Availability::Here(_) => return state.remove(instance).and_then(Entry::into_execution),
                }
            };
            decided.cancelled().await;
        }
    }

    /// Forgets an instance.
    pub(super) fn forget(&self, instance: &str) {
        let forgotten = self.lock().remove(instance);
        // The program's destructors run here, not under the lock.
        drop(forgotten);
    }

    /// Says that an execution will be here once its turn is committed.
    pub(super) fn announce(&self, instance: &str, incarnation: u64, execution: &Execution) {
        let held = held(incarnation, execution);
        let announced = Availability::Announced(CancellationToken::new());
        self.insert(instance.to_string(), held, execution.history_bytes(), announced);
    }

    /// Keeps an execution whose turn has been committed.
    pub(super) fn keep(&self, instance: String, incarnation: u64, execution: Box<Execution>) {
        let held = held(incarnation, &execution);
        self.insert(instance, held, execution.history_bytes(), Availability::Here(execution));
    }

    fn insert(&self, instance: String, held: HeldHistory, bytes: u64, execution: Availability) {
        // One that is too large by itself must not drive out all the others.
        if self.capacity == 0 || held.last_event_id > MAX_HELD_EVENTS || bytes > MAX_HELD_BYTES {
            return self.forget(&instance);
        }
        let mut evicted = Vec::new();
        {
            let mut state = self.lock();
            evicted.extend(state.remove(&instance));
            state.uses += 1;
            let used = state.uses;
            state.events += held.last_event_id;
            state.bytes += bytes;
            state.by_use.insert(used, instance.clone());
            state.by_instance.insert(instance, Entry { held, bytes, used, execution });
            while state.by_instance.len() > self.capacity
                || state.events > MAX_HELD_EVENTS
                || state.bytes > MAX_HELD_BYTES
            {
                let Some(oldest) = state.by_use.values().next().cloned() else { break };
                evicted.extend(state.remove(&oldest));
            }
        }
        drop(evicted);
    }
}

fn held(incarnation: u64, execution: &Execution) -> HeldHistory {
    HeldHistory {
        incarnation,
        execution_id: execution.execution_id(),
        last_event_id: execution.last_event_id(),
    }
}

impl State {
    fn remove(&mut self, instance: &str) -> Option<Entry> {
        let entry = self.by_instance.remove(instance)?;
        self.by_use.remove(&entry.used);
        self.events = self.events.saturating_sub(entry.held.last_event_id);
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        if let Availability::Announced(decided) = &entry.execution {
            decided.cancel();
        }
        Some(entry)
    }
}

impl Entry {
    fn into_execution(self) -> Option<Box<Execution>> {
        match self.execution {
            Availability::Here(execution) => Some(execution),
            Availability::Announced(_) => None,
        }
    }
}

impl HeldHistories for LiveExecutions {
    fn held(&self, instance: &str) -> Option<HeldHistory> {
        self.lock().by_instance.get(instance).map(|entry| entry.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(live: &LiveExecutions, instance: &str, last_event_id: u64, bytes: u64) {
        let held = HeldHistory { incarnation: 1, execution_id: 1, last_event_id };
        live.insert(instance.to_string(), held, bytes, Availability::Announced(CancellationToken::new()));
    }

    fn kept(live: &LiveExecutions) -> Vec<String> {
        live.lock().by_instance.keys().cloned().collect()
    }

    fn sizes(live: &LiveExecutions) -> (u64, u64) {
        let state = live.lock();
        (state.events, state.bytes)
    }

    #[test]
    fn the_least_recently_used_make_room() {
        let live = LiveExecutions::new(2);
        for instance in ["a", "b", "a", "c"] {
            keep(&live, instance, 10, 100);
        }
        assert_eq!(kept(&live), ["a", "c"]);
        assert_eq!(sizes(&live), (20, 200));
    }

    #[test]
    fn all_together_are_bounded_by_their_events_and_their_bytes() {
        let live = LiveExecutions::new(100);
        keep(&live, "a", MAX_HELD_EVENTS - 10, 0);
        keep(&live, "b", 10, 0);
        assert_eq!(kept(&live), ["a", "b"]);
        keep(&live, "c", 1, MAX_HELD_BYTES - 10);
        assert_eq!(kept(&live), ["b", "c"]);
        keep(&live, "d", 1, 11);
        assert_eq!(kept(&live), ["d"]);
        live.forget("d");
        assert_eq!(sizes(&live), (0, 0));
    }

    #[test]
    fn one_that_is_too_large_by_itself_is_not_held_and_drives_nobody_out() {
        let live = LiveExecutions::new(100);
        keep(&live, "a", 1, 1);
        keep(&live, "b", 1, 1);
        keep(&live, "b", 2, MAX_HELD_BYTES + 1);
        assert_eq!(kept(&live), ["a"]);
    }
}
