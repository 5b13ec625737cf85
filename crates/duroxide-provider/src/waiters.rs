//! Who waits for an instance, and how they are woken.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Who waits for which instance.
#[derive(Debug, Default)]
pub struct Waiters {
    by_instance: Mutex<HashMap<String, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    waiting: usize,
    changed: Arc<Notify>,
}

impl Waiters {
    /// Begins to wait. What changes from now on is noticed.
    pub fn register(self: &Arc<Self>, instance: &str) -> Registration {
        let mut map = self.lock();
        let first = map.is_empty();
        let entry = map.entry(instance.to_string()).or_default();
        entry.waiting += 1;
        let changed = Arc::clone(&entry.changed);
        Registration { waiters: Arc::clone(self), instance: instance.to_string(), changed, first }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Wakes those who wait for these instances.
    pub fn wake(&self, instances: &[String]) {
        if instances.is_empty() {
            return;
        }
        let map = self.lock();
        for entry in instances.iter().filter_map(|instance| map.get(instance)) {
            entry.changed.notify_waiters();
        }
    }

    /// Wakes those who wait for instances of which this holds.
    pub fn wake_where(&self, holds: impl Fn(&str) -> bool) {
        for (_, entry) in self.lock().iter().filter(|(instance, _)| holds(instance)) {
            entry.changed.notify_waiters();
        }
    }

    /// Wakes everybody: another process may have changed anything.
    pub fn wake_all(&self) {
        for entry in self.lock().values() {
            entry.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // The map is whole after every operation, so a panic elsewhere does not spoil it.
        self.by_instance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that waits. Dropping it ends the wait.
#[derive(Debug)]
pub struct Registration {
    waiters: Arc<Waiters>,
    instance: String,
    changed: Arc<Notify>,
    first: bool,
}

impl Registration {
    /// Whether nobody else waited before.
    pub fn is_first(&self) -> bool {
        self.first
    }

    /// Resolves at the next change after this call, also one that comes before it is polled.
    pub fn next_change(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut map = self.waiters.lock();
        if let Some(entry) = map.get_mut(&self.instance) {
            entry.waiting -= 1;
            if entry.waiting == 0 {
                map.remove(&self.instance);
            }
        }
    }
}
