//! What a transaction has yet to write: one statement for all rows of a kind.

use std::collections::{BTreeMap, BTreeSet};

use duroxide_core::{Columns, ItemKind, KvChange};

use crate::instance_row::TurnLock;
use crate::values::{Ms, to_column};
use crate::work::{Place, WorkRow};

/// What a transaction has yet to write.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) inbox: Vec<InboxRow>,
    /// Locks whose messages are deleted.
    pub(crate) covered: Vec<(i64, TurnLock)>,
    /// Locks whose messages were attempted once more.
    pub(crate) ended_attempts: Vec<(i64, TurnLock)>,
    /// Why instances are given back; `None` where a turn is committed.
    pub(crate) bounces: BTreeMap<i64, Option<String>>,
    /// Instances of which messages become visible that came while the clock was ahead.
    pub(crate) pulled_back: BTreeSet<i64>,
    /// Messages that are delayed: key, when they are visible, position.
    pub(crate) delayed: Vec<(i64, Ms, i64)>,
    /// Timers to delete: key, execution, schedule; all of the execution without a schedule.
    pub(crate) timers: Vec<(i64, u64, Option<u64>)>,
    /// Instances whose whole inbox is deleted.
    pub(crate) emptied: Vec<i64>,
    pub(crate) history: Vec<HistoryRow>,
    /// Executions that begin unless they exist.
    pub(crate) next_executions: Vec<(i64, u64)>,
    /// Key, by how much the version grows, the status.
    pub(crate) custom_statuses: Vec<(i64, u64, Option<String>)>,
    pub(crate) kv: KvWrites,
    pub(crate) new_work: Vec<NewWork>,
    /// Work items to delete, with the lock that they have.
    pub(crate) deleted_work: Vec<(i64, Option<i64>)>,
    pub(crate) work_changes: BTreeMap<i64, WorkChange>,
    pub(crate) progress: BTreeMap<i64, String>,
    /// Work items of which an attempt is forgiven.
    pub(crate) forgiven: Vec<i64>,
    pub(crate) session_uses: Vec<SessionUse>,
    /// Sessions of which a work item changed, with its tag.
    pub(crate) touched: BTreeSet<(String, String)>,
    /// What is kept of the inboxes of failed instances: key, order, JSON.
    pub(crate) kept: Vec<(i64, i64, String)>,
    /// Failed instances that go on.
    pub(crate) redriven: Vec<i64>,
    pub(crate) early: Vec<EarlyMessage>,
    /// Instances that get what was kept for them: id, key, when their start is visible.
    pub(crate) admitted_early: Vec<(String, i64, Ms)>,
    pub(crate) expire_early: bool,
}

/// An event: key, execution, number, JSON.
pub(crate) type HistoryRow = (i64, u64, u64, String);

/// A message for an inbox.
#[derive(Debug)]
pub(crate) struct InboxRow {
    pub(crate) key: i64,
    pub(crate) visible_at: Ms,
    pub(crate) position: i64,
    pub(crate) kind: ItemKind,
    pub(crate) execution_id: Option<i64>,
    pub(crate) event_id: Option<i64>,
    pub(crate) json: String,
}

impl InboxRow {
    pub(crate) fn new(key: i64, visible_at: Ms, position: i64, columns: &Columns<'_>, json: &str) -> Self {
        Self {
            key,
            visible_at,
            position,
            kind: columns.kind,
            execution_id: columns.execution_id.map(to_column),
            event_id: columns.event_id.map(to_column),
            json: json.to_string(),
        }
    }
}

/// A message for an instance that does not exist.
#[derive(Debug)]
pub(crate) struct EarlyMessage {
    pub(crate) instance: String,
    pub(crate) position: i64,
    pub(crate) visible_at: Ms,
    pub(crate) json: String,
}

/// An activity to queue.
#[derive(Debug)]
pub(crate) struct NewWork {
    pub(crate) instance: String,
    pub(crate) execution_id: u64,
    pub(crate) activity_id: u64,
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) json: String,
    /// Set when a fetch that waits gets it at once.
    pub(crate) lock: Option<WorkLock>,
}

/// The lock of a work item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkLock {
    pub(crate) nonce: i64,
    pub(crate) expires_at: Ms,
}

/// How a work item stands after its attempt was renewed or ended.
#[derive(Debug)]
pub(crate) struct WorkChange {
    pub(crate) nonce: Option<i64>,
    pub(crate) visible_at: Ms,
    pub(crate) ready_at: Ms,
    pub(crate) suspect: bool,
    pub(crate) suspect_before: bool,
    pub(crate) attempts: i64,
    /// Whether it is given back with a delay.
    pub(crate) delayed: bool,
    /// Why it is given back.
    pub(crate) cause: Option<String>,
}

impl WorkChange {
    pub(crate) fn new(work: &WorkRow, suspect: bool) -> Self {
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
#[derive(Debug)]
pub(crate) struct SessionUse {
    pub(crate) session_id: String,
    pub(crate) item_locked_until: Ms,
}

/// The last word on each key of the KV stores.
#[derive(Debug, Default)]
pub(crate) struct KvWrites {
    pub(crate) cleared: BTreeSet<i64>,
    pub(crate) values: BTreeMap<(i64, String), Option<(String, u64)>>,
}

impl KvWrites {
    /// Notes changes in their order; whether the store has values then, if that is known.
    pub(crate) fn apply(&mut self, key: i64, changes: &[KvChange<'_>]) -> Option<bool> {
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
                    self.cleared.insert(key);
                    self.values.retain(|(other, _), _| *other != key);
                    has_values = Some(false);
                }
            }
        }
        has_values
    }
}

impl Writes {
    /// Notes that the readiness of a session's work items changed.
    pub(crate) fn touch(&mut self, place: &Place) {
        if let Some(session_id) = &place.session_id {
            self.touched.insert((session_id.clone(), place.tag.clone()));
        }
    }

    /// Forgets timers that the transaction was to add; how many.
    pub(crate) fn drop_added_timers(&mut self, key: i64, execution_id: u64, schedule: Option<u64>) -> usize {
        let before = self.inbox.len();
        self.inbox.retain(|row| {
            row.key != key
                || row.kind != ItemKind::Timer
                || row.execution_id != Some(to_column(execution_id))
                || schedule.is_some_and(|schedule| row.event_id != Some(to_column(schedule)))
        });
        before - self.inbox.len()
    }

    /// When the first message that the transaction adds to an inbox is visible.
    pub(crate) fn first_added(&self, key: i64) -> Option<Ms> {
        self.inbox.iter().filter(|row| row.key == key).map(|row| row.visible_at).min()
    }
}
