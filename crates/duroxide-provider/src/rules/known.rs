//! What a store has answered to calls that asked: facts that no rule changes.

use std::collections::HashMap;

use duroxide_core::WorkItem;

use super::Rows;
use super::changes::HistoryRow;
use super::values::Ms;
use super::wanted::{FirstInputRow, FirstMessage, KeptRow, Need, Stop, StoredMessage};

/// Answers to questions that no rule changes.
#[derive(Debug, Default)]
pub(super) struct Known {
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

impl Rows {
    /// The answer to a question. It holds for that question alone: the next one may leave out more.
    pub fn learn_first_message(&mut self, question: FirstMessage, first: Option<Ms>) {
        self.known.first_messages.entry(question.key).or_default().push((question, first));
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
}
