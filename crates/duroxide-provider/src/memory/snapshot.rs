//! The whole state at one moment, for audits, comparisons and failure reports.

use std::collections::BTreeMap;

use duroxide_core::{ErrorDetails, Event, ItemKind, ParentLink, WorkItem};
use semver::Version;

use super::rows::{ExecutionRow, InstanceRow, MessageKey, Ms, SetAside, Stored, TurnLock, WorkRow};
use super::state::{Counters, State};
use crate::KvEntry;

/// The whole state at one moment. Times are in ms since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// All instances by id.
    pub instances: BTreeMap<String, InstanceSnapshot>,
    /// The worker queue, in the order of arrival.
    pub work: Vec<WorkSnapshot>,
    /// All sessions by id.
    pub sessions: BTreeMap<String, SessionSnapshot>,
    /// Messages kept for instances that have not started, in the order of arrival.
    pub early: BTreeMap<String, Vec<WorkItem>>,
    /// Rows that did not decode.
    pub set_aside: Vec<SetAside>,
    /// How many messages ended otherwise than by being admitted.
    pub counters: Counters,
}

/// One instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSnapshot {
    /// Tells it from another instance with the same id.
    pub incarnation: u64,
    /// The orchestration's name.
    pub name: String,
    /// The version that runs it, or the one asked for.
    pub version: String,
    /// The latest execution.
    pub current_execution_id: u64,
    /// The status word.
    pub status: &'static str,
    /// The parent's id.
    pub parent_instance: Option<String>,
    /// The whole link to the parent, if the start named it.
    pub parent: Option<ParentLink>,
    /// The custom status.
    pub custom_status: Option<String>,
    /// How often it was set.
    pub custom_status_version: u64,
    /// When it was started.
    pub created_at: i64,
    /// When a turn of it was last committed.
    pub updated_at: i64,
    /// The end of its backoff, 0 without one.
    pub not_before: i64,
    /// The earliest time at which a fetch may take it; `None` when its inbox is empty.
    pub ready_at: Option<i64>,
    /// Whether it is a suspect once its lock has expired.
    pub suspect: bool,
    /// The lock's token and end.
    pub lock: Option<(String, i64)>,
    /// Its executions.
    pub executions: BTreeMap<u64, ExecutionSnapshot>,
    /// Its KV store.
    pub kv: BTreeMap<String, KvEntry>,
    /// Its inbox, in the order of admission.
    pub inbox: Vec<MessageSnapshot>,
}

/// One execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionSnapshot {
    /// The status word.
    pub status: &'static str,
    /// The output, or the error's text.
    pub output: Option<String>,
    /// Why it failed.
    pub failure: Option<ErrorDetails>,
    /// The build that it is pinned to.
    pub pinned: Option<Version>,
    /// When it was created.
    pub started_at: i64,
    /// When it ended.
    pub completed_at: Option<i64>,
    /// Its history.
    pub events: Vec<Stored<Event>>,
}

/// One message of an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSnapshot {
    /// Its kind.
    pub kind: ItemKind,
    /// From when on it is visible.
    pub visible_at: i64,
    /// How often it was fetched.
    pub attempts: u32,
    /// Whether the instance's lock covers it.
    pub locked: bool,
    /// The message.
    pub item: Stored<WorkItem>,
}

/// One work item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSnapshot {
    /// The instance that scheduled it.
    pub instance: String,
    /// The execution that scheduled it.
    pub execution_id: u64,
    /// The id of its `ActivityScheduled` event.
    pub activity_id: u64,
    /// The earliest time at which a fetch may take it.
    pub ready_at: i64,
    /// How often it was fetched.
    pub attempts: u32,
    /// Whether it is a suspect once its lock has expired.
    pub suspect: bool,
    /// The lock's token and end.
    pub lock: Option<(String, i64)>,
    /// The activity.
    pub item: Stored<WorkItem>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSnapshot {
    /// Who may run its activities.
    pub owner: String,
    /// How long that holds.
    pub locked_until: i64,
    /// When one of its activities was last worked on.
    pub last_activity_at: i64,
}

impl State {
    pub(super) fn snapshot(&self) -> Snapshot {
        let instances = self.instances.iter().map(|(id, row)| (id.clone(), instance(row)));
        let sessions = self.sessions.iter().map(|(id, row)| {
            let session = SessionSnapshot {
                owner: row.owner.clone(),
                locked_until: row.locked_until,
                last_activity_at: row.last_activity_at,
            };
            (id.clone(), session)
        });
        let early = self
            .early
            .iter()
            .map(|(id, rows)| (id.clone(), rows.values().map(|row| row.item.clone()).collect()));
        Snapshot {
            instances: instances.collect(),
            work: self.work.values().map(work).collect(),
            sessions: sessions.collect(),
            early: early.collect(),
            set_aside: self.set_aside.clone(),
            counters: self.counters,
        }
    }
}

fn instance(row: &InstanceRow) -> InstanceSnapshot {
    let locked = row.lock.as_ref().map(|lock: &TurnLock| lock.messages.as_slice()).unwrap_or_default();
    let inbox = row.inbox().iter().map(|(key, message)| MessageSnapshot {
        kind: message.kind,
        visible_at: key.visible_at,
        attempts: message.attempts,
        locked: is_in(locked, *key),
        item: message.item.clone(),
    });
    InstanceSnapshot {
        incarnation: row.incarnation,
        name: row.name.clone(),
        version: row.version.clone(),
        current_execution_id: row.current_execution_id,
        status: row.status.word(),
        parent_instance: row.parent_instance.clone(),
        parent: row.parent(),
        custom_status: row.custom_status.clone(),
        custom_status_version: row.custom_status_version,
        created_at: row.created_at,
        updated_at: row.updated_at,
        not_before: row.not_before,
        ready_at: row.entry().map(|entry| entry.ready_at),
        suspect: row.suspicion.is_suspect(),
        lock: row.lock.as_ref().map(|lock| (lock.token.clone(), lock.until)),
        executions: row.executions.iter().map(|(id, execution)| (*id, self::execution(execution))).collect(),
        kv: row.kv.clone(),
        inbox: inbox.collect(),
    }
}

/// Whether a lock covers a message; the messages of a lock are in the order of the inbox.
fn is_in(locked: &[MessageKey], key: MessageKey) -> bool {
    locked.binary_search(&key).is_ok()
}

fn execution(row: &ExecutionRow) -> ExecutionSnapshot {
    let completed_at: Option<Ms> = row.completed_at;
    ExecutionSnapshot {
        status: row.status.word(),
        output: row.output.clone(),
        failure: row.failure.clone(),
        pinned: row.pinned.clone(),
        started_at: row.started_at,
        completed_at,
        events: row.events.values().cloned().collect(),
    }
}

fn work(row: &WorkRow) -> WorkSnapshot {
    WorkSnapshot {
        instance: row.key.instance.clone(),
        execution_id: row.key.execution_id,
        activity_id: row.key.event_id,
        ready_at: row.entry().ready_at,
        attempts: row.attempts,
        suspect: row.suspicion.is_suspect(),
        lock: row.lock.as_ref().map(|lock| (lock.token.clone(), lock.until)),
        item: row.item.clone(),
    }
}
