//! What the carrier remembers of rows that it read or wrote lately, so that a transaction about them need not
//! begin by reading them.
//!
//! A remembered row may have been changed by another process meanwhile. That is found when it is written: every
//! change of an instance or its inbox changes the revision of its row of `queues`, every lock of a work item has
//! its own number, and a transaction that finds another revision or number rolls back. It is then carried out
//! with what the store says, and for a while its instances are always read: several processes are about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::execution_row::ExecutionRow;
use crate::fetch_turn::RawTurn;
use crate::instance_row::{InstanceRow, Pending};
use crate::values::{Ms, count};
use crate::work::WorkRow;
use crate::working_set::Wanted;

/// Rows of a kind that are remembered before those that were not used lately are forgotten.
const MAX_ROWS: usize = 4_096;
/// How long the server's time is reckoned from its last answer.
const CLOCK_PATIENCE: Duration = Duration::from_secs(1);
/// A lock that expires sooner is judged by the server's own time.
const LOCK_MARGIN_MS: Ms = 1_000;
/// How long instances are read after another process was found to have changed one of them.
const SHARED: Duration = Duration::from_secs(10);

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    instances: Generations<i64, Remembered>,
    keys: Generations<String, i64>,
    work: Generations<i64, WorkRow>,
    /// Keys for instances to come, the smallest last.
    keys_to_come: Vec<i64>,
    /// What the server's clock said, and when it was heard.
    clock: Option<(Ms, Instant)>,
    /// Instances that other processes are about as well, and until when that is assumed.
    shared: Generations<i64, Instant>,
}

/// What is remembered, for the carrier and for those who wait for an instance.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory(Mutex<Memory>);

impl SharedMemory {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Memory> {
        // Whole after every operation, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An instance as it was last seen.
#[derive(Debug, Clone)]
struct Remembered {
    row: InstanceRow,
    /// Its current execution.
    execution: Option<ExecutionRow>,
    /// The store's time then. Every message in the inbox was sent before.
    seen_at: Ms,
}

/// The rows that a group of calls is about, as they are remembered.
#[derive(Debug, Default)]
pub(crate) struct Recalled {
    pub(crate) now: Ms,
    pub(crate) instances: Vec<InstanceRow>,
    pub(crate) executions: HashMap<(i64, u64), ExecutionRow>,
    pub(crate) work: BTreeMap<i64, WorkRow>,
    /// Ids of instances that begin, if nobody uses them.
    pub(crate) reserved: BTreeSet<String>,
    /// Keys for them.
    pub(crate) keys: Vec<i64>,
}

impl Memory {
    /// The server said that this is the time.
    pub(crate) fn note_time(&mut self, now: Ms) {
        self.clock = Some((now, Instant::now()));
    }

    /// It is not known how things are.
    pub(crate) fn forget(&mut self) {
        let keys_to_come = std::mem::take(&mut self.keys_to_come);
        let shared = std::mem::take(&mut self.shared);
        *self = Self { keys_to_come, shared, ..Self::default() };
    }

    /// Another process changed something of this.
    pub(crate) fn forget_shared(&mut self, wanted: &Wanted) {
        let keys: Vec<i64> = wanted.ids.iter().filter_map(|id| self.keys.get(id).copied()).collect();
        for key in keys.iter().chain(&wanted.keys) {
            self.instances.remove(key);
            self.shared.insert(*key, Instant::now() + SHARED);
        }
        wanted.work.iter().for_each(|id| self.work.remove(id));
    }

    /// Keys that the server gave out and nobody used yet.
    pub(crate) fn note_keys(&mut self, keys: Vec<i64>) {
        self.keys_to_come.extend(keys);
    }

    /// All keys that nobody used yet, the smallest last.
    pub(crate) fn take_keys(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.keys_to_come)
    }

    /// Remembers how a committed transaction left an instance.
    pub(crate) fn note_instance(&mut self, mut row: InstanceRow, execution: Option<ExecutionRow>, now: Ms) {
        if row.ended {
            self.keys.remove(&row.instance);
            self.instances.remove(&row.key);
            return;
        }
        row.pending = Pending::default();
        let execution = execution.map(|execution| ExecutionRow {
            new_output: None,
            new_failure: None,
            is_stored: true,
            changed: false,
            ..execution
        });
        self.keys.insert(row.instance.clone(), row.key);
        self.instances.insert(row.key, Remembered { row, execution, seen_at: now });
    }

    /// Remembers an instance that a fetch locked.
    pub(crate) fn note_turn(&mut self, turn: &RawTurn) {
        self.note_instance(turn.row.clone(), turn.execution.clone(), turn.now);
    }

    pub(crate) fn note_work(&mut self, row: WorkRow) {
        self.work.insert(row.id, row);
    }

    pub(crate) fn forget_work(&mut self, id: i64) {
        self.work.remove(&id);
    }

    /// The execution of an instance that is still as it was seen.
    pub(crate) fn execution_of(&self, row: &InstanceRow) -> Option<&ExecutionRow> {
        let seen = self.instances.get(&row.key)?;
        seen.execution.as_ref().filter(|_| seen.row.revision == row.revision)
    }

    /// Whether this process holds the turn of an instance, which has therefore not ended.
    pub(crate) fn holds(&self, instance: &str, manual: Option<Ms>) -> bool {
        let seen = self.keys.get(instance).and_then(|key| self.instances.get(key));
        let Some((seen, now)) = seen.zip(self.now(manual)) else { return false };
        seen.row.lock.is_some() && seen.row.ready_at > Some(now.saturating_add(LOCK_MARGIN_MS))
    }

    /// All that these calls need, if all of it is remembered and none of it must be looked at closely.
    pub(crate) fn recall(&mut self, wanted: &Wanted, manual: Option<Ms>) -> Option<Recalled> {
        let starts = wanted.reserved.len();
        let is_known = |id: &String| self.keys.get(id).is_some();
        let cannot_start = starts != wanted.starts
            || self.keys_to_come.len() < starts
            || wanted.reserved.iter().any(is_known);
        if cannot_start || !wanted.abandons.is_empty() || !wanted.cancelled.is_empty() {
            return None;
        }
        let mut recalled = Recalled { now: self.now(manual)?, ..Recalled::default() };
        let mut keys = wanted.keys.clone();
        for id in wanted.ids.difference(&wanted.reserved) {
            keys.insert(*self.keys.get(id)?);
        }
        let is_shared = |key: &i64| self.shared.get(key).is_some_and(|until| Instant::now() < *until);
        if keys.iter().any(is_shared) {
            return None;
        }
        for key in &keys {
            let seen = self.instances.get(key)?;
            recalled.now = recalled.now.max(seen.seen_at);
            recalled.instances.push(seen.row.clone());
        }
        let sure_until = recalled.now.saturating_add(LOCK_MARGIN_MS);
        let is_doubtful = |row: &InstanceRow| row.lock.is_some() && row.ready_at <= Some(sure_until);
        if recalled.instances.iter().any(is_doubtful) {
            return None;
        }
        for (key, execution_id) in &wanted.acks {
            let seen = self.instances.get(key)?;
            let execution = seen.execution.clone()?;
            let lock = seen.row.lock?;
            let all_locked = lock.count == seen.row.inbox_count;
            let row = recalled.instances.iter_mut().find(|row| row.key == *key)?;
            if !all_locked || *execution_id != row.current_execution_id {
                return None;
            }
            row.pending.first_stored = Some(None);
            recalled.executions.insert((*key, *execution_id), execution);
        }
        for id in &wanted.work {
            let work = self.work.get(id)?;
            if work.ready_at <= sure_until {
                return None;
            }
            recalled.work.insert(*id, work.clone());
        }
        for row in &recalled.instances {
            if let Some(execution) = self.execution_of(row) {
                let id = (row.key, row.current_execution_id);
                recalled.executions.entry(id).or_insert_with(|| execution.clone());
            }
        }
        recalled.reserved.clone_from(&wanted.reserved);
        recalled.keys = self.keys_to_come.split_off(self.keys_to_come.len() - starts);
        Some(recalled)
    }

    /// The server's time, as far as it is known; never later than it is.
    fn now(&self, manual: Option<Ms>) -> Option<Ms> {
        if manual.is_some() {
            return manual;
        }
        let (heard, at) = self.clock?;
        let since = at.elapsed();
        let whole_ms = count(usize::try_from(since.as_millis()).ok()?);
        // The server rounds.
        (since < CLOCK_PATIENCE).then(|| heard.saturating_add(whole_ms).saturating_sub(1))
    }
}

/// A map that forgets what was not used lately: what is new goes into the young half, which becomes the old one
/// when it is full.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: std::hash::Hash + Eq, V> Generations<K, V> {
    fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        self.young.insert(key, value);
        if self.young.len() > MAX_ROWS {
            self.old = std::mem::take(&mut self.young);
        }
    }

    fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: std::hash::Hash + Eq + ?Sized,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    fn remove<Q>(&mut self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: std::hash::Hash + Eq + ?Sized,
    {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance_row::TurnLock;
    use crate::work::Place;

    const NOW: Ms = 1_000_000;
    const KEY: i64 = 7;

    fn locked(inbox_count: i64, expires_at: Ms) -> InstanceRow {
        InstanceRow {
            key: KEY,
            revision: 3,
            instance: "i".to_string(),
            incarnation: 1,
            created_at: 0,
            name: "O".to_string(),
            version: String::new(),
            parent_instance: None,
            parent_execution_id: None,
            parent_event_id: None,
            ended: false,
            updated_at: 0,
            current_execution_id: 1,
            pinned_key: crate::values::NOT_PINNED,
            has_kv: false,
            inbox_count,
            next_position: 2,
            not_before: 0,
            ready_at: Some(expires_at),
            suspect: true,
            suspect_before: false,
            lock: Some(TurnLock { nonce: 5, visible_at: 0, position: 1, watermark: 2, count: 1 }),
            cancelled: false,
            bounced: false,
            last_arrival: 0,
            pending: Pending::default(),
        }
    }

    fn work(expires_at: Ms) -> WorkRow {
        WorkRow {
            id: 9,
            nonce: Some(5),
            stored_nonce: Some(5),
            ready_at: expires_at,
            place: Place { session_id: None, tag: String::new() },
            instance: "i".to_string(),
            execution_id: 1,
            activity_id: 2,
            visible_at: 0,
            suspect_before: false,
            attempts: 1,
        }
    }

    fn knowing(row: InstanceRow) -> Memory {
        let mut memory = Memory::default();
        memory.note_instance(row, Some(ExecutionRow::new()), NOW);
        memory
    }

    fn an_ack() -> Wanted {
        Wanted { keys: [KEY].into(), acks: vec![(KEY, 1)], ..Wanted::default() }
    }

    fn recalls(memory: &mut Memory, wanted: &Wanted) -> bool {
        memory.recall(wanted, Some(NOW)).is_some()
    }

    const LATE: Ms = NOW + 30_000;

    #[test]
    fn what_is_known_is_recalled_and_what_is_not_is_read() {
        assert!(recalls(&mut knowing(locked(1, LATE)), &an_ack()));
        assert!(!recalls(&mut Memory::default(), &an_ack()));
        let by_id = Wanted { ids: ["i".to_string()].into(), ..Wanted::default() };
        assert!(recalls(&mut knowing(locked(1, LATE)), &by_id));
        let other = Wanted { ids: ["j".to_string()].into(), ..Wanted::default() };
        assert!(!recalls(&mut knowing(locked(1, LATE)), &other));
    }

    #[test]
    fn what_must_be_looked_at_closely_is_read() {
        // A message waits beside that of the turn.
        assert!(!recalls(&mut knowing(locked(2, LATE)), &an_ack()));
        // The lock expires soon.
        assert!(!recalls(&mut knowing(locked(1, NOW + LOCK_MARGIN_MS)), &an_ack()));
        let unknown_execution = Wanted { acks: vec![(KEY, 2)], ..an_ack() };
        assert!(!recalls(&mut knowing(locked(1, LATE)), &unknown_execution));
        for wanted in [
            Wanted { abandons: vec![KEY], ..an_ack() },
            Wanted { cancelled: vec![("i".to_string(), 1, 2)], ..an_ack() },
            Wanted { reserved: ["new".to_string()].into(), ..an_ack() },
        ] {
            assert!(!recalls(&mut knowing(locked(1, LATE)), &wanted), "{wanted:?}");
        }
        let the_work = Wanted { work: [9].into(), ..Wanted::default() };
        for (expires_at, sure) in [(LATE, true), (NOW + LOCK_MARGIN_MS, false)] {
            let mut memory = Memory::default();
            memory.note_work(work(expires_at));
            assert_eq!(recalls(&mut memory, &the_work), sure);
        }
    }

    #[test]
    fn an_instance_begins_with_a_key_that_was_given_out_and_an_id_that_is_not_known() {
        let start = |id: &str| Wanted {
            ids: [id.to_string()].into(),
            reserved: [id.to_string()].into(),
            starts: 1,
            ..Wanted::default()
        };
        let mut memory = knowing(locked(1, LATE));
        assert!(!recalls(&mut memory, &start("new")), "there is no key");
        memory.note_keys(vec![12, 11]);
        assert!(!recalls(&mut memory, &start("i")), "it is in use");
        let recalled = memory.recall(&start("new"), Some(NOW)).expect("all is known");
        assert_eq!(recalled.keys, [11], "the smallest first");
        assert_eq!(memory.take_keys(), [12]);
    }

    #[test]
    fn what_another_process_is_about_is_read_for_a_while() {
        let mut memory = knowing(locked(1, LATE));
        memory.note_instance(
            InstanceRow { key: 8, instance: "j".to_string(), ..locked(1, LATE) },
            Some(ExecutionRow::new()),
            NOW,
        );
        memory.forget_shared(&an_ack());
        memory.note_instance(locked(1, LATE), Some(ExecutionRow::new()), NOW);
        assert!(!recalls(&mut memory, &an_ack()), "not yet");
        let other = Wanted { keys: [8].into(), acks: vec![(8, 1)], ..Wanted::default() };
        assert!(recalls(&mut memory, &other), "others are trusted");
        memory.shared.insert(KEY, Instant::now());
        assert!(recalls(&mut memory, &an_ack()), "again");
    }

    #[test]
    fn an_instance_goes_on_as_long_as_its_turn_is_held_for_sure() {
        assert!(knowing(locked(1, LATE)).holds("i", Some(NOW)));
        assert!(!knowing(locked(1, LATE)).holds("j", Some(NOW)));
        assert!(!knowing(locked(1, NOW + LOCK_MARGIN_MS)).holds("i", Some(NOW)));
        assert!(!knowing(locked(1, LATE)).holds("i", None), "the time is not known");
        assert!(!knowing(InstanceRow { lock: None, ..locked(1, LATE) }).holds("i", Some(NOW)));
    }

    #[test]
    fn an_instance_that_ended_is_forgotten() {
        let mut memory = knowing(locked(1, LATE));
        memory.note_instance(InstanceRow { ended: true, ..locked(1, LATE) }, None, NOW);
        assert!(!recalls(&mut memory, &an_ack()));
    }

    #[test]
    fn no_message_is_dated_before_those_that_are_there() {
        let mut memory = Memory::default();
        memory.note_instance(locked(1, LATE), Some(ExecutionRow::new()), NOW + 50);
        let recalled = memory.recall(&an_ack(), Some(NOW)).expect("all is known");
        assert_eq!(recalled.now, NOW + 50);
    }

    #[test]
    fn what_was_not_used_lately_is_forgotten() {
        let mut rows: Generations<usize, usize> = Generations::default();
        for n in 0..3 * MAX_ROWS {
            rows.insert(n, n);
        }
        assert_eq!(rows.get(&(3 * MAX_ROWS - 1)), Some(&(3 * MAX_ROWS - 1)));
        assert_eq!(rows.get(&0), None);
        assert!(rows.young.len() + rows.old.len() <= 2 * MAX_ROWS + 1);
    }
}
