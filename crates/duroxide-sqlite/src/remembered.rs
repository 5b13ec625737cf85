//! The rows that this process read or wrote last, so that the next call about them needs no reading. True as long as no
//! other process writes; what another process may have changed is forgotten before a transaction uses it.

use std::collections::HashMap;
use std::hash::Hash;

use duroxide_provider::rules::{ExecutionRow, InstanceRow, Pending, WorkRow};

use super::instance_row::{Indexed, StoredInstance};

/// Bytes of rows that are remembered, about, in each of two generations of each kind.
const MAX_BYTES: usize = 2 << 20;

/// Rows of instances that are worked on.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    instances: Generations<i64, Seen>,
    keys: Generations<String, i64>,
    work: Generations<i64, WorkRow>,
    /// The key of the next instance.
    pub(super) next_key: Option<i64>,
    /// Nothing is kept for any instance that has not started.
    pub(super) nothing_early: bool,
}

#[derive(Debug, Clone)]
struct Seen {
    stored: StoredInstance,
    /// Its current execution.
    execution: Option<ExecutionRow>,
}

impl Remembered {
    /// It is not known how things are.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn instance(&self, key: i64) -> Option<&StoredInstance> {
        self.instances.get(&key).map(|seen| &seen.stored)
    }

    pub(super) fn instance_of(&self, instance: &str) -> Option<&StoredInstance> {
        self.keys.get(instance).and_then(|key| self.instance(*key))
    }

    pub(super) fn execution(&self, key: i64, execution_id: u64) -> Option<&ExecutionRow> {
        let seen = self.instances.get(&key)?;
        seen.execution.as_ref().filter(|_| seen.stored.row.current_execution_id == execution_id)
    }

    pub(super) fn work(&self, id: i64) -> Option<&WorkRow> {
        self.work.get(&id)
    }

    /// A call of the store's own, or a fetch, leaves rows so.
    pub(super) fn note(&mut self, seen: super::tx::Seen) {
        let (instances, work, others) = seen.into_rows();
        if others {
            self.forget();
        }
        for stored in instances {
            let execution = self.execution(stored.row.key, stored.row.current_execution_id).cloned();
            self.note_instance(&stored.row, stored.indexed, execution.as_ref());
        }
        work.into_iter().for_each(|row| self.note_work(row));
    }

    /// A transaction leaves an instance so, and its current execution if that is known.
    pub(super) fn note_instance(
        &mut self,
        row: &InstanceRow,
        indexed: Indexed,
        execution: Option<&ExecutionRow>,
    ) {
        // What a cancel or its removal left is found out by the next who reads the row.
        if row.is_ended() || row.pending.cancels {
            return self.forget_instance(row.key);
        }
        let execution = execution.map(|execution| ExecutionRow {
            new_output: None,
            new_failure: None,
            is_stored: true,
            changed: false,
            ..execution.clone()
        });
        let row = InstanceRow { pending: Pending::default(), ..row.clone() };
        let bytes = 400 + 2 * row.instance.len() + row.name.len() + row.version.len();
        self.keys.insert(row.instance.clone(), row.key, 64 + row.instance.len());
        self.instances.insert(row.key, Seen { stored: StoredInstance { row, indexed }, execution }, bytes);
    }

    pub(super) fn forget_instance(&mut self, key: i64) {
        if let Some(seen) = self.instances.remove(&key) {
            self.keys.remove(&seen.stored.row.instance);
        }
    }

    /// A transaction leaves a work item so.
    pub(super) fn note_work(&mut self, row: WorkRow) {
        let bytes = 300 + row.instance.len() + row.place.name.len();
        self.work.insert(row.id, row, bytes);
    }

    pub(super) fn forget_work(&mut self, id: i64) {
        self.work.remove(&id);
    }
}

/// A map that forgets what was not used lately: what is new goes into the young half, which becomes the old one
/// when it is full.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    young_bytes: usize,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_bytes: 0 }
    }
}

impl<K: Hash + Eq, V> Generations<K, V> {
    fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.old.remove(&key);
        if self.young.insert(key, value).is_none() {
            self.young_bytes += bytes;
        }
        if self.young_bytes > MAX_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }

    fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_lately_is_forgotten() {
        let mut rows: Generations<usize, usize> = Generations::default();
        let row = 1_000;
        let fit = MAX_BYTES / row;
        for n in 0..3 * fit {
            rows.insert(n, n, row);
        }
        assert_eq!(rows.get(&(3 * fit - 1)), Some(&(3 * fit - 1)));
        assert_eq!(rows.get(&0), None);
        assert!(rows.young.len() + rows.old.len() <= 2 * fit + 2);
    }
}
