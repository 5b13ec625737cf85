//! Makes stored rows undecodable, so that tests can see what happens then.

use duroxide_core::ItemKind;

use super::MemoryProvider;

#[doc(hidden)]
impl MemoryProvider {
    /// Makes the last event of the current execution undecodable; whether there is one.
    pub fn corrupt_history(&self, instance: &str) -> bool {
        self.with_state(|state, _| {
            let Some(row) = state.instances.get_mut(instance) else { return false };
            let current = row.current_execution_id;
            let execution = row.executions.get_mut(&current);
            let Some(mut last) = execution.and_then(|execution| execution.events.last_entry()) else {
                return false;
            };
            last.get_mut().corrupt();
            true
        })
    }

    /// Makes the messages of one kind in an inbox undecodable; how many there are.
    pub fn corrupt_messages(&self, instance: &str, kind: ItemKind) -> usize {
        self.with_state(|state, _| {
            let Some(row) = state.instances.get_mut(instance) else { return 0 };
            let of_kind = row.inbox().iter().filter(|(_, message)| message.kind == kind);
            let keys: Vec<_> = of_kind.map(|(key, _)| *key).collect();
            for key in &keys {
                if let Some(message) = row.message_mut(*key) {
                    message.item.corrupt();
                }
            }
            keys.len()
        })
    }

    /// Makes the queued work items of an instance undecodable; how many there are.
    pub fn corrupt_work(&self, instance: &str) -> usize {
        self.with_state(|state, _| {
            let rows = state.work.values_mut().filter(|row| row.key.instance == instance);
            rows.map(|row| row.item.corrupt()).count()
        })
    }

    /// The highest attempt count in an instance's inbox, 0 when that is empty.
    pub fn max_attempt_count(&self, instance: &str) -> u32 {
        self.with_state(|state, _| {
            let row = state.instances.get(instance);
            row.and_then(|row| row.inbox().values().map(|message| message.attempts).max()).unwrap_or(0)
        })
    }
}
