//! The rows that a group of calls is about: loaded by a store, changed here, written by the store.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use duroxide_core::WorkItem;

use super::Fault;
use super::changes::{Changes, HistoryRow};
use super::effects::Effects;
use super::execution_row::ExecutionRow;
use super::instance_row::InstanceRow;
use super::values::Ms;
use super::wanted::{Early, FirstInputRow, FirstMessage, KeptRow, Need, Stop, StoredMessage};
use super::work_row::WorkRow;

/// The key of an instance that is yet to begin, with the random number that tells it from others of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewKey {
    /// The key.
    pub key: i64,
    /// See [`InstanceRow::incarnation`].
    pub incarnation: u64,
}

/// The rows of a group of calls.
///
/// What the store has is told by the functions that begin with `learn`. A call changes the rows and notes what has to be
/// written; one that fails leaves everything as it was.
#[derive(Debug)]
pub struct Rows {
    pub(super) now: Ms,
    instances: HashMap<i64, InstanceRow>,
    by_id: HashMap<String, i64>,
    /// Ids that nobody had when they were looked for.
    absent: BTreeSet<String>,
    /// Ids that nobody has and nobody can take before the group is committed.
    reserved: BTreeSet<String>,
    keys: Vec<NewKey>,
    executions: HashMap<(i64, u64), ExecutionRow>,
    work: BTreeMap<i64, WorkRow>,
    /// Work items that were told, deleted meanwhile or not.
    told_work: HashSet<i64>,
    early: HashMap<String, Early>,
    /// Ended instances: how many messages are kept for them, `None` if they are dropped.
    kept: HashMap<i64, Option<i64>>,
    /// How many timers the commits of an instance remove from the store.
    timers: HashMap<i64, i64>,
    known: Known,
    /// Changes and effects of the calls that were applied.
    pub(super) done: Done,
    /// Those of the call at hand.
    pub(super) call: Done,
    call_number: u64,
    undo: Vec<Undo>,
}

/// Answers to questions that no rule changes.
#[derive(Debug, Default)]
struct Known {
    inbox_bytes: HashMap<i64, i64>,
    inboxes: HashMap<i64, Vec<StoredMessage>>,
    kept: HashMap<i64, KeptRow>,
    kept_items: HashMap<i64, Vec<WorkItem>>,
    /// By execution.
    stored_events: HashMap<(i64, u64), Vec<StoredEvents>>,
    first_inputs: HashMap<i64, FirstInputRow>,
    queued: HashMap<(String, u64, u64), bool>,
    /// By instance: a call may ask about an inbox more than once, as it changes it.
    first_messages: HashMap<i64, Vec<(FirstMessage, Option<Ms>)>>,
}

/// Events that were asked for, and one of them that is stored.
#[derive(Debug)]
struct StoredEvents {
    asked: Vec<u64>,
    stored: Option<u64>,
}

/// What calls did.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) changes: Changes,
    pub(super) effects: Effects,
}

impl Done {
    fn nothing(now: Ms) -> Self {
        Self { changes: Changes::default(), effects: Effects::at(now) }
    }
}

/// How something was before the call at hand.
#[derive(Debug)]
enum Undo {
    Instance(i64, Option<Box<InstanceRow>>),
    Execution((i64, u64), Option<Box<ExecutionRow>>),
    Work(i64, Option<Box<WorkRow>>),
    Early(String, Option<Early>),
    Kept(i64, Option<Option<i64>>),
    Timers(i64, Option<i64>),
    Key(NewKey),
    Absent(String, bool, bool),
}

impl Rows {
    /// Rows of which nothing is known, at the time of the group.
    pub fn new(now: Ms) -> Self {
        Self {
            now,
            instances: HashMap::new(),
            by_id: HashMap::new(),
            absent: BTreeSet::new(),
            reserved: BTreeSet::new(),
            keys: Vec::new(),
            executions: HashMap::new(),
            work: BTreeMap::new(),
            told_work: HashSet::new(),
            early: HashMap::new(),
            kept: HashMap::new(),
            timers: HashMap::new(),
            known: Known::default(),
            done: Done::nothing(now),
            call: Done::nothing(now),
            call_number: 0,
            undo: Vec::new(),
        }
    }

    /// The time of the group.
    pub fn now(&self) -> Ms {
        self.now
    }

    /// An instance is so.
    pub fn learn_instance(&mut self, row: InstanceRow) {
        self.absent.remove(&row.instance);
        self.by_id.insert(row.instance.clone(), row.key);
        self.instances.insert(row.key, row);
    }

    /// No instance has this id, as far as can be seen.
    pub fn learn_absent(&mut self, instance: &str) {
        if !self.by_id.contains_key(instance) {
            self.absent.insert(instance.to_string());
        }
    }

    /// No instance of this id begins before the group is committed, unless the group begins it. An instance that exists
    /// is told besides. `early` is what is kept for the id.
    pub fn reserve(&mut self, instance: &str, early: Option<Early>) {
        self.reserved.insert(instance.to_string());
        if let Some(early) = early {
            self.early.insert(instance.to_string(), early);
        }
    }

    /// Keys for new instances, the first last. Those that were told before are used before them, so that instances have
    /// their keys in the order of their creation also if each key was asked for.
    pub fn learn_keys(&mut self, keys: impl IntoIterator<Item = NewKey>) {
        self.keys.splice(0..0, keys);
    }

    /// An execution is so; `None` if the store has none.
    pub fn learn_execution(&mut self, key: i64, execution_id: u64, row: Option<ExecutionRow>) {
        let row = row.unwrap_or(ExecutionRow { changed: false, ..ExecutionRow::default() });
        self.executions.insert((key, execution_id), row);
    }

    /// The first stored message of an inbox, of which no call has removed anything yet, is visible then.
    pub fn learn_first(&mut self, key: i64, first: Option<Ms>) {
        if let Some(row) = self.instances.get_mut(&key) {
            row.pending.first_stored = Some(first);
        }
    }

    /// The answer to a question. It holds for that question alone: the next one may leave out more.
    pub fn learn_first_message(&mut self, question: FirstMessage, first: Option<Ms>) {
        self.known.first_messages.entry(question.key).or_default().push((question, first));
    }

    /// Once the messages of its lock and the timers that its commit removes are gone, the first stored message is visible
    /// then.
    pub fn learn_first_left(&mut self, key: i64, first: Option<Ms>) {
        if let Some(row) = self.instances.get_mut(&key) {
            row.pending.first_left = Some(first);
        }
    }

    /// So many timers are removed by the commits of an instance, those left out that its lock covers.
    pub fn learn_timers(&mut self, key: i64, count: i64) {
        self.timers.insert(key, count);
    }

    /// The stored messages of an inbox have so many bytes.
    pub fn learn_inbox_bytes(&mut self, key: i64, bytes: i64) {
        self.known.inbox_bytes.insert(key, bytes);
    }

    /// The stored messages of an inbox, in their order.
    pub fn learn_inbox(&mut self, key: i64, messages: Vec<StoredMessage>) {
        self.known.inboxes.insert(key, messages);
    }

    /// What is kept for an instance that failed.
    pub fn learn_kept(&mut self, key: i64, kept: KeptRow) {
        self.known.kept.insert(key, kept);
    }

    /// The items that are kept for an instance, as they were asked for.
    pub fn learn_kept_items(&mut self, key: i64, items: Vec<WorkItem>) {
        self.known.kept_items.insert(key, items);
    }

    /// One of these events, which were asked for, is stored, if any is.
    pub fn learn_stored_event(&mut self, key: i64, execution_id: u64, ids: Vec<u64>, stored: Option<u64>) {
        self.known
            .stored_events
            .entry((key, execution_id))
            .or_default()
            .push(StoredEvents { asked: ids, stored });
    }

    /// What an instance was started with.
    pub fn learn_first_input(&mut self, key: i64, input: FirstInputRow) {
        self.known.first_inputs.insert(key, input);
    }

    /// Whether an activity is in the worker queue.
    pub fn learn_queued(&mut self, instance: &str, execution_id: u64, activity_id: u64, is_queued: bool) {
        self.known.queued.insert((instance.to_string(), execution_id, activity_id), is_queued);
    }

    /// A work item is so. One that was told before is as the calls left it.
    pub fn learn_work(&mut self, row: WorkRow) {
        if self.told_work.insert(row.id) {
            self.work.insert(row.id, row);
        }
    }

    /// Whether a work item was told, whatever became of it since.
    pub fn knows_work(&self, id: i64) -> bool {
        self.told_work.contains(&id)
    }

    /// The instances that are known.
    pub fn instances(&self) -> impl Iterator<Item = &InstanceRow> {
        self.instances.values()
    }

    /// An instance that is known.
    pub fn instance(&self, key: i64) -> Option<&InstanceRow> {
        self.instances.get(&key)
    }

    /// An instance that is known, by its id.
    pub fn instance_of(&self, instance: &str) -> Option<&InstanceRow> {
        self.by_id.get(instance).and_then(|key| self.instances.get(key))
    }

    /// The executions that are known, by key and number.
    pub fn executions(&self) -> impl Iterator<Item = (&(i64, u64), &ExecutionRow)> {
        self.executions.iter()
    }

    /// An execution that is known.
    pub fn execution(&self, key: i64, execution_id: u64) -> Option<&ExecutionRow> {
        self.executions.get(&(key, execution_id))
    }

    /// The work items that are known and were not deleted.
    pub fn work(&self) -> impl Iterator<Item = &WorkRow> {
        self.work.values()
    }

    /// The ids that are reserved.
    pub fn reserved(&self) -> &BTreeSet<String> {
        &self.reserved
    }

    /// What the calls changed.
    pub fn changes(&self) -> &Changes {
        &self.done.changes
    }

    /// What must follow once they are committed.
    pub fn effects(&self) -> &Effects {
        &self.done.effects
    }

    /// Takes the effects out, and the keys that no instance used.
    pub fn finish(self) -> (Effects, Vec<NewKey>) {
        (self.done.effects, self.keys)
    }

    /// An instance, to be locked for a fetch after all calls.
    pub(super) fn serving_instance(&mut self, key: i64) -> Option<&mut InstanceRow> {
        self.instances.get_mut(&key)
    }

    /// Begins a call.
    pub(super) fn begin_call(&mut self) {
        self.call_number += 1;
    }

    /// The call succeeded.
    pub(super) fn keep_call(&mut self) {
        self.undo.clear();
        let call = std::mem::replace(&mut self.call, Done::nothing(self.now));
        self.done.changes.merge(call.changes);
        self.done.effects.merge(call.effects);
    }

    /// The call failed: everything is as it was before it.
    pub(super) fn undo_call(&mut self) {
        self.call = Done::nothing(self.now);
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Instance(key, Some(row)) => drop(self.instances.insert(key, *row)),
                Undo::Instance(key, None) => {
                    if let Some(row) = self.instances.remove(&key) {
                        self.by_id.remove(&row.instance);
                    }
                }
                Undo::Execution(id, row) => put_back(&mut self.executions, id, row.map(|row| *row)),
                Undo::Work(id, Some(row)) => drop(self.work.insert(id, *row)),
                Undo::Work(id, None) => drop(self.work.remove(&id)),
                Undo::Early(id, early) => put_back(&mut self.early, id, early),
                Undo::Kept(key, kept) => put_back(&mut self.kept, key, kept),
                Undo::Timers(key, count) => put_back(&mut self.timers, key, count),
                Undo::Key(key) => self.keys.push(key),
                Undo::Absent(id, absent, reserved) => {
                    if reserved {
                        self.reserved.insert(id.clone());
                    }
                    if absent {
                        self.absent.insert(id);
                    }
                }
            }
        }
    }

    /// The key of an instance; `None` for an unknown one.
    pub(super) fn key_of(&self, instance: &str) -> Result<Option<i64>, Stop> {
        match self.by_id.get(instance) {
            Some(key) => Ok(Some(*key)),
            None if self.reserved.contains(instance) || self.absent.contains(instance) => Ok(None),
            None => Err(Need::Instance(instance.to_string()).into()),
        }
    }

    /// Fails unless an unknown id is reserved.
    pub(super) fn check_reserved(&self, instance: &str) -> Result<(), Stop> {
        if self.reserved.contains(instance) {
            Ok(())
        } else {
            Err(Need::Reserve(instance.to_string()).into())
        }
    }

    /// An instance, to be changed.
    pub(super) fn instance_mut(&mut self, key: i64) -> Result<&mut InstanceRow, Fault> {
        let row = self
            .instances
            .get_mut(&key)
            .ok_or_else(|| Fault::Corrupt("an instance was changed that is not loaded".to_string()))?;
        if row.pending.changed_by != self.call_number {
            self.undo.push(Undo::Instance(key, Some(Box::new(row.clone()))));
            row.pending.changed_by = self.call_number;
        }
        Ok(row)
    }

    /// A new instance.
    pub(super) fn create(&mut self, mut row: InstanceRow) {
        row.pending.changed_by = self.call_number;
        let (absent, reserved) = (self.absent.remove(&row.instance), self.reserved.contains(&row.instance));
        self.undo.push(Undo::Absent(row.instance.clone(), absent, reserved));
        self.undo.push(Undo::Instance(row.key, None));
        self.by_id.insert(row.instance.clone(), row.key);
        self.instances.insert(row.key, row);
    }

    pub(super) fn next_key(&mut self) -> Result<NewKey, Stop> {
        let key = self.keys.pop().ok_or(Need::Key)?;
        self.undo.push(Undo::Key(key));
        Ok(key)
    }

    /// An execution, as it is so far.
    pub(super) fn execution_to_change(&self, key: i64, execution_id: u64) -> Result<ExecutionRow, Stop> {
        let row = self.executions.get(&(key, execution_id)).cloned();
        row.ok_or_else(|| Need::Execution { key, execution_id }.into())
    }

    pub(super) fn put_execution(&mut self, key: i64, execution_id: u64, row: ExecutionRow) {
        let id = (key, execution_id);
        let before = self.executions.insert(id, row);
        self.undo.push(Undo::Execution(id, before.map(Box::new)));
    }

    /// A work item, as it is so far.
    pub(super) fn work_row(&self, id: i64) -> Option<&WorkRow> {
        self.work.get(&id)
    }

    /// The work item of an activity.
    pub(super) fn work_of(&self, instance: &str, execution_id: u64, activity_id: u64) -> Option<i64> {
        let is_it = |row: &&WorkRow| {
            row.instance == instance && row.execution_id == execution_id && row.activity_id == activity_id
        };
        self.work.values().find(is_it).map(|row| row.id)
    }

    pub(super) fn put_work_row(&mut self, row: WorkRow) {
        let id = row.id;
        let before = self.work.insert(id, row);
        self.undo.push(Undo::Work(id, before.map(Box::new)));
    }

    pub(super) fn remove_work_row(&mut self, id: i64) -> Option<WorkRow> {
        let row = self.work.remove(&id)?;
        self.undo.push(Undo::Work(id, Some(Box::new(row.clone()))));
        Some(row)
    }

    pub(super) fn early(&self, instance: &str) -> Option<Early> {
        self.early.get(instance).copied()
    }

    pub(super) fn set_early(&mut self, instance: &str, early: Option<Early>) {
        let before = match early {
            Some(early) => self.early.insert(instance.to_string(), early),
            None => self.early.remove(instance),
        };
        self.undo.push(Undo::Early(instance.to_string(), before));
    }

    /// How many messages are kept for an ended instance, if that is known.
    pub(super) fn kept(&self, key: i64) -> Option<Option<i64>> {
        self.kept.get(&key).copied()
    }

    pub(super) fn set_kept(&mut self, key: i64, kept: Option<i64>) {
        let before = self.kept.insert(key, kept);
        self.undo.push(Undo::Kept(key, before));
    }

    /// How many stored timers a commit removes, if that is known. Counted once.
    pub(super) fn take_timers(&mut self, key: i64) -> i64 {
        let before = self.timers.insert(key, 0);
        self.undo.push(Undo::Timers(key, before));
        before.unwrap_or(0)
    }

    pub(super) fn knows_timers(&self, key: i64) -> bool {
        self.timers.contains_key(&key)
    }

    pub(super) fn stored_kept(&self, key: i64, execution_id: u64) -> Result<&KeptRow, Stop> {
        self.known.kept.get(&key).ok_or_else(|| Need::Kept { key, execution_id }.into())
    }

    pub(super) fn kept_items(&self, key: i64, seen: usize) -> Result<&[WorkItem], Stop> {
        let items = self.known.kept_items.get(&key).map(Vec::as_slice);
        items.ok_or_else(|| Need::KeptItems { key, seen }.into())
    }

    pub(super) fn inbox_bytes(&self, key: i64) -> Result<i64, Stop> {
        self.known.inbox_bytes.get(&key).copied().ok_or_else(|| Need::InboxBytes(key).into())
    }

    pub(super) fn stored_inbox(&self, key: i64) -> Result<&[StoredMessage], Stop> {
        self.known.inboxes.get(&key).map(Vec::as_slice).ok_or_else(|| Need::Inbox(key).into())
    }

    /// The stored messages of an inbox that the group did not remove.
    pub(super) fn left_in_store(&self, key: i64) -> Result<Vec<StoredMessage>, Stop> {
        let stored = self.stored_inbox(key)?;
        let both = [&self.done.changes, &self.call.changes];
        if both.iter().any(|changes| changes.emptied.contains(&key)) {
            return Ok(Vec::new());
        }
        let question = self.question(key);
        Ok(stored.iter().filter(|message| question.counts(message)).copied().collect())
    }

    pub(super) fn first_input(&self, key: i64) -> Result<&FirstInputRow, Stop> {
        self.known.first_inputs.get(&key).ok_or_else(|| Need::FirstInput(key).into())
    }

    pub(super) fn is_queued(
        &self,
        instance: &str,
        execution_id: u64,
        activity_id: u64,
    ) -> Result<bool, Stop> {
        let both = [&self.done.changes, &self.call.changes];
        if both.iter().any(|changes| changes.has_new_work(instance, execution_id, activity_id)) {
            return Ok(true);
        }
        let id = (instance.to_string(), execution_id, activity_id);
        if both.iter().any(|changes| changes.deleted_activities.contains(&id)) {
            return Ok(false);
        }
        let known = self.known.queued.get(&id).copied();
        known.ok_or_else(|| {
            let (instance, execution_id, activity_id) = id;
            Need::Queued { instance, execution_id, activity_id }.into()
        })
    }

    /// One of these events that is stored, if any is.
    pub(super) fn stored_event(
        &self,
        key: i64,
        execution_id: u64,
        ids: Vec<u64>,
    ) -> Result<Option<u64>, Stop> {
        if ids.is_empty() {
            return Ok(None);
        }
        // What the group itself appended is not stored yet.
        let mut own = self.done.changes.history.iter();
        let is_its = |row: &HistoryRow| row.key == key && row.execution_id == execution_id;
        if let Some(row) = own.find(|row| is_its(row) && ids.contains(&row.event_id)) {
            return Ok(Some(row.event_id));
        }
        let answers = self.known.stored_events.get(&(key, execution_id));
        let answer = answers.and_then(|all| all.iter().find(|answer| answer.asked == ids));
        let stored = answer.map(|answer| answer.stored);
        stored.ok_or_else(|| Need::StoredEvents { key, execution_id, ids }.into())
    }

    /// When the first message in an inbox is visible, as the inbox will be after the group.
    pub(super) fn first_message(&self, key: i64) -> Result<Option<Ms>, Stop> {
        let row = self.loaded(key)?;
        // A number that is damaged says nothing; the inbox does.
        let stored = match row.pending.first_stored {
            Some(stored) => stored,
            None if row.inbox_count == row.pending.added => None,
            None => self.answered(self.question(key))?,
        };
        Ok(stored.into_iter().chain(row.pending.first_added).min())
    }

    fn answered(&self, question: FirstMessage) -> Result<Option<Ms>, Stop> {
        let answers = self.known.first_messages.get(&question.key);
        let answer = answers.and_then(|all| all.iter().find(|(asked, _)| *asked == question));
        answer.map(|(_, first)| *first).ok_or_else(|| Need::FirstMessage(question).into())
    }

    fn question(&self, key: i64) -> FirstMessage {
        let both = [&self.done.changes, &self.call.changes];
        let pulled = both.iter().flat_map(|changes| &changes.pulled_back).filter(|pulled| pulled.key == key);
        let covered = both.iter().flat_map(|changes| &changes.covered).filter(|(of, _)| *of == key);
        let timers = both.iter().flat_map(|changes| &changes.timers).filter(|(of, _, _)| *of == key);
        let aside = both.iter().flat_map(|changes| &changes.aside_messages).filter(|one| one.key == key);
        FirstMessage {
            key,
            without: covered.map(|(_, lock)| *lock).collect(),
            without_timers: timers.map(|(_, execution_id, schedule)| (*execution_id, *schedule)).collect(),
            without_messages: aside.map(|one| (one.visible_at, one.position)).collect(),
            pulled_back: pulled
                .map(|pulled| (pulled.now, pulled.until))
                .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))),
        }
    }

    /// An instance that a rule is about.
    pub(super) fn loaded(&self, key: i64) -> Result<&InstanceRow, Fault> {
        self.instances
            .get(&key)
            .ok_or_else(|| Fault::Corrupt("an instance was read that is not loaded".to_string()))
    }
}

fn put_back<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}
