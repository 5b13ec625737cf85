//! What a group of calls changed and the store has yet to write, besides the rows that it knows.

use std::collections::{BTreeMap, BTreeSet};

use duroxide_core::{Columns, ItemKind, KvChange};

use super::instance_row::TurnLock;
use super::values::{Ms, to_column};
use super::work_row::{Place, WorkRow};

/// What a group has yet to write.
///
/// A store writes it in the order of the fields: what leaves an inbox before what comes into it.
#[derive(Debug, Default)]
pub struct Changes {
    /// What is kept of the inboxes of failed instances. Written before anything leaves an inbox.
    pub kept: Vec<KeptMessage>,
    /// Failed instances that go on: what was kept for them is forgotten, and they have no end any more.
    pub redriven: Vec<i64>,
    /// Locks whose messages were attempted once more.
    pub ended_attempts: Vec<(i64, TurnLock)>,
    /// Messages that did not decode and leave their inbox. Written before a lock that covers them deletes them.
    pub aside_messages: Vec<AsideMessage>,
    /// Locks whose messages are deleted.
    pub covered: Vec<(i64, TurnLock)>,
    /// Timers to delete: key, execution, schedule; all of the execution without a schedule.
    pub timers: Vec<(i64, u64, Option<u64>)>,
    /// Instances whose whole inbox is deleted.
    pub emptied: Vec<i64>,
    /// Messages that came while the clock was ahead and are visible now.
    pub pulled_back: Vec<PulledBack>,
    /// Messages that come into an inbox.
    pub inbox: Vec<InboxRow>,
    /// Why instances are given back; `None` where a turn is committed.
    pub bounces: BTreeMap<i64, Option<String>>,
    /// Events.
    pub history: Vec<HistoryRow>,
    /// Executions that begin unless they exist.
    pub next_executions: Vec<(i64, u64)>,
    /// Key, by how much the version grows, the status.
    pub custom_statuses: Vec<(i64, u64, Option<String>)>,
    /// The KV stores.
    pub kv: KvChanges,
    /// Work items that did not decode and leave the queue; they are among the deleted ones, too.
    pub aside_work: Vec<(i64, String)>,
    /// Work items to delete, with the lock that they have in the store.
    pub deleted_work: Vec<(i64, Option<i64>)>,
    /// Work items that stay and changed.
    pub work: BTreeMap<i64, WorkChange>,
    /// What activities reported.
    pub progress: BTreeMap<i64, String>,
    /// Work items of which an attempt is forgiven.
    pub forgiven: Vec<i64>,
    /// Activities to queue, unless they are queued.
    pub new_work: Vec<NewWork>,
    /// Sessions that were used.
    pub session_uses: Vec<SessionUse>,
    /// Places in sessions of which a work item changed: the first of each is found anew.
    pub touched: BTreeSet<Place>,
    /// Whether messages for instances that never started may have expired.
    pub expire_early: bool,
    /// Messages that are kept for instances that have not started.
    pub early: Vec<EarlyMessage>,
    /// Instances that get what was kept for them.
    pub admitted_early: Vec<AdmittedEarly>,
    /// Queued by this group and cancelled by it again: instance, execution, activity.
    pub(super) cancelled_new_work: Vec<(String, u64, u64)>,
    /// The activities of the deleted work items: instance, execution, activity.
    pub(super) deleted_activities: Vec<(String, u64, u64)>,
}

/// A message that is kept for a failed instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMessage {
    /// The instance.
    pub key: i64,
    /// Its place among what is kept.
    pub order: i64,
    /// What it is.
    pub item: KeptItem,
}

/// Where the item of a kept message comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptItem {
    /// It stands in the inbox.
    Stored {
        /// The message's place.
        visible_at: Ms,
        /// The message's place.
        position: i64,
    },
    /// Its JSON.
    New(String),
}

/// Messages that came while the clock was ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulledBack {
    /// The instance.
    pub key: i64,
    /// Those after this time, timers left out, become visible at it.
    pub now: Ms,
    /// Those up to this time.
    pub until: Ms,
}

/// A message that did not decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsideMessage {
    /// The instance.
    pub key: i64,
    /// The message's place.
    pub visible_at: Ms,
    /// The message's place.
    pub position: i64,
    /// Why it did not decode.
    pub cause: String,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    /// The instance.
    pub key: i64,
    /// The execution.
    pub execution_id: u64,
    /// The event's number.
    pub event_id: u64,
    /// Its JSON.
    pub json: String,
}

/// A message for an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRow {
    /// The instance.
    pub key: i64,
    /// From when on it may be fetched.
    pub visible_at: Ms,
    /// Its place among those of the same time.
    pub position: i64,
    /// What kind of message it is.
    pub kind: ItemKind,
    /// The execution that it is for, where it names one.
    pub execution_id: Option<i64>,
    /// The schedule that it answers, where it names one.
    pub event_id: Option<i64>,
    /// Its JSON.
    pub json: String,
    /// Whether its sender delayed it.
    pub delayed: bool,
}

impl InboxRow {
    pub(super) fn new(key: i64, visible_at: Ms, position: i64, columns: &Columns<'_>, json: &str) -> Self {
        Self {
            key,
            visible_at,
            position,
            kind: columns.kind,
            execution_id: columns.execution_id.map(to_column),
            event_id: columns.event_id.map(to_column),
            json: json.to_string(),
            delayed: false,
        }
    }
}

/// A message for an instance that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlyMessage {
    /// The instance's id.
    pub instance: String,
    /// Its place among what is kept for the instance.
    pub position: i64,
    /// From when on it may be fetched.
    pub visible_at: Ms,
    /// Its JSON.
    pub json: String,
}

/// An instance that gets what was kept for its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmittedEarly {
    /// The instance's id.
    pub instance: String,
    /// The instance.
    pub key: i64,
    /// When its start is visible: none of it is visible before.
    pub start_at: Ms,
    /// The position of the first.
    pub first_position: i64,
}

/// An activity to queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWork {
    /// The instance that waits for it.
    pub instance: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The event that scheduled it.
    pub activity_id: u64,
    /// Its session, tag and activity.
    pub place: Place,
    /// Its JSON.
    pub json: String,
    /// Set when a fetch that waits gets it at once.
    pub lock: Option<WorkLock>,
}

/// The lock of a work item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkLock {
    /// What a token must show.
    pub nonce: i64,
    /// When it ends.
    pub expires_at: Ms,
}

/// How a work item stands after its attempt was renewed or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkChange {
    /// The lock.
    pub nonce: Option<i64>,
    /// See [`WorkRow`].
    pub visible_at: Ms,
    /// See [`WorkRow`].
    pub ready_at: Ms,
    /// Whether its lock will have expired if nobody ends it.
    pub suspect: bool,
    /// See [`WorkRow`].
    pub suspect_before: bool,
    /// See [`WorkRow`].
    pub attempts: i64,
    /// Whether it is given back with a delay.
    pub delayed: bool,
    /// Why it is given back.
    pub cause: Option<String>,
}

impl WorkChange {
    pub(super) fn new(work: &WorkRow, suspect: bool) -> Self {
        Self {
            nonce: work.nonce,
            visible_at: work.visible_at,
            ready_at: work.ready_at,
            suspect,
            suspect_before: work.suspect_before,
            attempts: work.attempts,
            delayed: false,
            cause: None,
        }
    }
}

/// A session that was used, at least until the lock of one of its items ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUse {
    /// The session.
    pub session_id: String,
    /// The end of the lock.
    pub item_locked_until: Ms,
}

/// The last word on each key of the KV stores.
#[derive(Debug, Default)]
pub struct KvChanges {
    /// Instances of which all values are cleared, before those below are set.
    pub cleared: BTreeSet<i64>,
    /// Value and time, or that it is cleared, by instance and key.
    pub values: BTreeMap<(i64, String), Option<(String, u64)>>,
}

impl KvChanges {
    /// Notes changes in their order; whether the store has values then, if that is known.
    pub(super) fn apply(&mut self, key: i64, changes: &[KvChange<'_>]) -> Option<bool> {
        let mut has_values = None;
        for change in changes {
            match change {
                KvChange::Set { key: name, value, last_updated_at_ms } => {
                    let value = Some(((*value).to_string(), *last_updated_at_ms));
                    self.values.insert((key, (*name).to_string()), value);
                    has_values = Some(true);
                }
                KvChange::Clear { key: name } => {
                    self.values.insert((key, (*name).to_string()), None);
                }
                KvChange::ClearAll => {
                    self.clear(key);
                    has_values = Some(false);
                }
            }
        }
        has_values
    }

    fn clear(&mut self, key: i64) {
        self.cleared.insert(key);
        self.values.retain(|(other, _), _| *other != key);
    }

    fn merge(&mut self, later: Self) {
        later.cleared.into_iter().for_each(|key| self.clear(key));
        self.values.extend(later.values);
    }
}

impl Changes {
    /// Notes that the readiness of a session's work items changed.
    pub(super) fn touch(&mut self, place: &Place) {
        if place.session_id.is_some() {
            self.touched.insert(place.clone());
        }
    }

    /// Whether an activity is to be queued.
    pub(super) fn has_new_work(&self, instance: &str, execution_id: u64, activity_id: u64) -> bool {
        self.new_work.iter().any(|work| work.is_activity(instance, execution_id, activity_id))
    }

    /// Adds what a later call changed. What it removed of this group's own additions goes first.
    pub(super) fn merge(&mut self, later: Self) {
        if !later.timers.is_empty() {
            self.inbox.retain(|row| !later.timers.iter().any(|timer| is_timer(row, *timer)));
        }
        if !later.emptied.is_empty() {
            self.inbox.retain(|row| !later.emptied.contains(&row.key));
        }
        for pulled in &later.pulled_back {
            self.inbox.iter_mut().for_each(|row| pulled.apply(row));
        }
        if !later.cancelled_new_work.is_empty() {
            let is_cancelled = |work: &NewWork| {
                later.cancelled_new_work.iter().any(|(instance, execution_id, activity_id)| {
                    work.is_activity(instance, *execution_id, *activity_id)
                })
            };
            self.new_work.retain(|work| !is_cancelled(work));
        }
        for (id, _) in &later.deleted_work {
            self.work.remove(id);
            self.progress.remove(id);
            self.forgiven.retain(|forgiven| forgiven != id);
        }
        self.kept.extend(later.kept);
        self.redriven.extend(later.redriven);
        self.ended_attempts.extend(later.ended_attempts);
        self.aside_messages.extend(later.aside_messages);
        self.covered.extend(later.covered);
        self.timers.extend(later.timers);
        self.emptied.extend(later.emptied);
        self.pulled_back.extend(later.pulled_back);
        self.inbox.extend(later.inbox);
        self.bounces.extend(later.bounces);
        self.history.extend(later.history);
        self.next_executions.extend(later.next_executions);
        self.custom_statuses.extend(later.custom_statuses);
        self.kv.merge(later.kv);
        self.aside_work.extend(later.aside_work);
        self.deleted_work.extend(later.deleted_work);
        self.deleted_activities.extend(later.deleted_activities);
        self.work.extend(later.work);
        self.progress.extend(later.progress);
        self.forgiven.extend(later.forgiven);
        self.new_work.extend(later.new_work);
        self.session_uses.extend(later.session_uses);
        self.touched.extend(later.touched);
        self.expire_early |= later.expire_early;
        self.early.extend(later.early);
        self.admitted_early.extend(later.admitted_early);
    }
}

impl PulledBack {
    /// Makes a message visible, if it is one of those.
    pub fn apply(&self, row: &mut InboxRow) {
        let came_ahead = row.visible_at > self.now && row.visible_at <= self.until;
        if row.key == self.key && came_ahead && row.kind != ItemKind::Timer && !row.delayed {
            row.visible_at = self.now;
        }
    }
}

impl NewWork {
    pub(super) fn is_activity(&self, instance: &str, execution_id: u64, activity_id: u64) -> bool {
        self.activity_id == activity_id && self.execution_id == execution_id && self.instance == instance
    }
}

/// Whether a message is one of these timers.
pub(super) fn is_timer(row: &InboxRow, (key, execution_id, schedule): (i64, u64, Option<u64>)) -> bool {
    row.key == key
        && row.kind == ItemKind::Timer
        && row.execution_id == Some(to_column(execution_id))
        && schedule.is_none_or(|schedule| row.event_id == Some(to_column(schedule)))
}
