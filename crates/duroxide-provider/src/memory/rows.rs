//! The rows of the model and what each can say about itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duroxide_core::{
    BounceCause, ErrorDetails, Event, ItemKind, ParentLink, Route, WorkItem, limits, pack_version, status,
};
use semver::Version;

use crate::stored_bytes::stored_bytes;
use crate::{ExpiredLock, KvEntry, LockHolder};

/// A time in ms since the epoch. Signed, because messages that are put back come before all others.
pub(super) type Ms = i64;

/// A time or a count of milliseconds, at most the largest that a row can hold.
pub(super) fn to_ms(value: u64) -> Ms {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A lock that was not renewed in time.
pub(super) fn expired(holder: LockHolder, until: Ms) -> ExpiredLock {
    ExpiredLock { holder, expired_at_ms: u64::try_from(until).unwrap_or(0) }
}

/// What a row holds: a value, or text that does not decode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored<T> {
    /// It decodes.
    Value(T),
    /// It does not.
    Undecodable {
        /// Why not, without the text itself.
        cause: String,
    },
}

impl<T> Stored<T> {
    pub(super) fn value(&self) -> Result<&T, &str> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Undecodable { cause } => Err(cause),
        }
    }

    pub(super) fn corrupt(&mut self) {
        *self = Self::Undecodable { cause: "Eof error at line 1 column 1".to_string() };
    }
}

/// A status word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Running,
    Completed,
    Failed,
    ContinuedAsNew,
}

impl Status {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Running => status::RUNNING,
            Self::Completed => status::COMPLETED,
            Self::Failed => status::FAILED,
            Self::ContinuedAsNew => status::CONTINUED_AS_NEW,
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        [Self::Running, Self::Completed, Self::Failed, Self::ContinuedAsNew]
            .into_iter()
            .find(|status| status.word() == word)
    }

    /// Whether it ends the instance.
    pub(super) fn ends_instance(self) -> bool {
        match self {
            Self::Completed | Self::Failed => true,
            Self::Running | Self::ContinuedAsNew => false,
        }
    }
}

/// How the previous attempt of a row ended, and whether an attempt is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// Not locked, and the previous attempt was acked or abandoned.
    Clean,
    /// Locked, or its lock expired; clean before.
    Locked,
    /// Locked, or its lock expired; a suspect before.
    LockedAgain,
}

impl Suspicion {
    /// Whether the row is a suspect once its lock has expired.
    pub(super) fn is_suspect(self) -> bool {
        match self {
            Self::Clean => false,
            Self::Locked | Self::LockedAgain => true,
        }
    }

    /// The value while an attempt is under way.
    pub(super) fn when_locked(self) -> Self {
        if self.is_suspect() { Self::LockedAgain } else { Self::Locked }
    }

    /// The value after the attempt was given back.
    pub(super) fn when_abandoned(self, ignore_attempt: bool) -> Self {
        match self {
            // The attempt did not take place, so the expiry before it still counts.
            Self::LockedAgain if ignore_attempt => Self::Locked,
            Self::Clean | Self::Locked | Self::LockedAgain => Self::Clean,
        }
    }
}

/// The last time that a row was given back for a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptCause {
    pub(super) at: Ms,
    pub(super) cause: BounceCause,
}

/// The order of an inbox: visible time, then arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageKey {
    pub(super) visible_at: Ms,
    pub(super) position: u64,
}

/// One message of an inbox.
#[derive(Debug, Clone)]
pub(super) struct MessageRow {
    pub(super) kind: ItemKind,
    pub(super) execution_id: Option<u64>,
    pub(super) event_id: Option<u64>,
    pub(super) attempts: u32,
    /// Whether it was to become visible at a later time.
    pub(super) delayed: bool,
    pub(super) item: Stored<WorkItem>,
}

/// The exclusive right to commit the next turn of an instance.
#[derive(Debug, Clone)]
pub(super) struct TurnLock {
    pub(super) token: String,
    pub(super) holder: LockHolder,
    pub(super) until: Ms,
    /// The messages that this lock's fetch returned.
    pub(super) messages: Vec<MessageKey>,
    /// Whether a cancel arrived since: then the turn cannot end in a backoff.
    pub(super) cancelled: bool,
}

/// One run of an instance.
#[derive(Debug, Clone)]
pub(super) struct ExecutionRow {
    pub(super) status: Status,
    pub(super) output: Option<String>,
    pub(super) failure: Option<ErrorDetails>,
    pub(super) pinned: Option<Version>,
    pub(super) started_at: Ms,
    pub(super) completed_at: Option<Ms>,
    pub(super) events: BTreeMap<u64, Stored<Event>>,
}

impl ExecutionRow {
    pub(super) fn started(now: Ms) -> Self {
        Self {
            status: Status::Running,
            output: None,
            failure: None,
            pinned: None,
            started_at: now,
            completed_at: None,
            events: BTreeMap::new(),
        }
    }

    /// What the stored forms of its events would have; one that does not decode has none in this store.
    pub(super) fn stored_bytes(&self) -> u64 {
        let bytes: usize =
            self.events.values().filter_map(|event| event.value().ok()).map(stored_bytes).sum();
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn last_event_id(&self) -> u64 {
        self.events.last_key_value().map_or(0, |(event_id, _)| *event_id)
    }
}

/// A routing key that is cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnKey {
    pub(super) pinned: Option<i64>,
    pub(super) route: Arc<Route>,
}

/// Where an instance stands in the index of ready instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TurnEntry {
    pub(super) key: TurnKey,
    pub(super) suspect: bool,
    pub(super) ready_at: Ms,
}

/// One instance with all that belongs to it.
#[derive(Debug, Clone)]
pub(super) struct InstanceRow {
    /// The order of creation.
    pub(super) seq: u64,
    pub(super) incarnation: u64,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) current_execution_id: u64,
    pub(super) status: Status,
    pub(super) parent_instance: Option<String>,
    /// The parent's execution and the event there that scheduled this instance.
    pub(super) parent_schedule: Option<(u64, u64)>,
    pub(super) custom_status: Option<String>,
    pub(super) custom_status_version: u64,
    pub(super) created_at: Ms,
    pub(super) updated_at: Ms,
    /// When the turn that ended the instance was committed.
    pub(super) ended_at: Option<Ms>,
    pub(super) not_before: Ms,
    /// The handler that its next turn needs, unless a cancel waits.
    pub(super) route: Arc<Route>,
    pub(super) suspicion: Suspicion,
    pub(super) lock: Option<TurnLock>,
    /// `None` if it was not given back for a cause since a turn was committed.
    pub(super) bounce: Option<KeptCause>,
    pub(super) executions: BTreeMap<u64, ExecutionRow>,
    pub(super) kv: BTreeMap<String, KvEntry>,
    /// The fingerprint of the input that it was started with.
    pub(super) first_input: Option<u64>,
    /// What was in the inbox when the instance failed, if it may go on.
    pub(super) kept: Vec<Stored<WorkItem>>,
    inbox: BTreeMap<MessageKey, MessageRow>,
    /// The timers among the messages, by execution and schedule.
    timers: BTreeSet<(u64, u64, MessageKey)>,
    /// How many cancels are among the messages.
    cancels: usize,
    pub(super) indexed: Option<TurnEntry>,
}

/// What a start says about the instance that it creates.
pub(super) struct NewInstance<'a> {
    pub(super) seq: u64,
    pub(super) incarnation: u64,
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) execution_id: u64,
    pub(super) parent: Option<ParentLink>,
    pub(super) first_input: Option<u64>,
}

impl InstanceRow {
    /// Whether an execution has ended and the next has not begun.
    pub(super) fn is_between_executions(&self) -> bool {
        let current = self.executions.get(&self.current_execution_id);
        self.executions.len() > 1 && current.is_some_and(|execution| execution.events.is_empty())
    }

    pub(super) fn created(now: Ms, new: NewInstance<'_>) -> Self {
        let (parent_instance, parent_schedule) =
            new.parent.map(|link| (link.instance, (link.execution_id, link.event_id))).unzip();
        Self {
            seq: new.seq,
            incarnation: new.incarnation,
            name: new.name.to_string(),
            version: new.version.to_string(),
            current_execution_id: new.execution_id,
            status: Status::Running,
            parent_instance,
            parent_schedule,
            custom_status: None,
            custom_status_version: 0,
            created_at: now,
            updated_at: now,
            ended_at: None,
            not_before: 0,
            route: Arc::new(Route::new(new.name, Some(new.version))),
            suspicion: Suspicion::Clean,
            lock: None,
            bounce: None,
            executions: BTreeMap::from([(new.execution_id, ExecutionRow::started(now))]),
            kv: BTreeMap::new(),
            first_input: new.first_input,
            kept: Vec::new(),
            inbox: BTreeMap::new(),
            timers: BTreeSet::new(),
            cancels: 0,
            indexed: None,
        }
    }

    pub(super) fn parent(&self) -> Option<ParentLink> {
        let (execution_id, event_id) = self.parent_schedule?;
        Some(ParentLink { instance: self.parent_instance.clone()?, execution_id, event_id })
    }

    pub(super) fn current_execution(&self) -> Option<&ExecutionRow> {
        self.executions.get(&self.current_execution_id)
    }

    pub(super) fn inbox(&self) -> &BTreeMap<MessageKey, MessageRow> {
        &self.inbox
    }

    /// Where a cancel stands: ahead of all others if more messages wait than one fetch takes.
    pub(super) fn ahead_of_deep_inbox(&self, visible_at: Ms) -> Ms {
        match self.inbox.first_key_value() {
            Some((first, _)) if self.is_inbox_deep() => visible_at.min(first.visible_at.saturating_sub(1)),
            Some(_) | None => visible_at,
        }
    }

    /// Whether as much waits as one fetch takes, or more. One message alone is no more than a turn may have in its hands.
    fn is_inbox_deep(&self) -> bool {
        let mut left = limits::MAX_MESSAGE_BYTES_PER_FETCH;
        let mut fits = |message: &MessageRow| {
            let bytes = message.item.value().map_or(0, stored_bytes);
            let rest = left.checked_sub(bytes);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        self.inbox.len() >= limits::MAX_MESSAGES_PER_FETCH
            || (self.inbox.len() > 1 && !self.inbox.values().all(&mut fits))
    }

    pub(super) fn timer_count(&self) -> usize {
        self.timers.len()
    }

    pub(super) fn put_message(&mut self, key: MessageKey, row: MessageRow) {
        if row.kind == ItemKind::Timer {
            self.timers.insert((row.execution_id.unwrap_or(0), row.event_id.unwrap_or(0), key));
        }
        self.cancels += usize::from(row.kind == ItemKind::Cancel);
        self.inbox.insert(key, row);
    }

    pub(super) fn take_message(&mut self, key: MessageKey) -> Option<MessageRow> {
        let row = self.inbox.remove(&key)?;
        self.cancels -= usize::from(row.kind == ItemKind::Cancel);
        if row.kind == ItemKind::Timer {
            self.timers.remove(&(row.execution_id.unwrap_or(0), row.event_id.unwrap_or(0), key));
        }
        Some(row)
    }

    pub(super) fn message_mut(&mut self, key: MessageKey) -> Option<&mut MessageRow> {
        self.inbox.get_mut(&key)
    }

    /// Deletes the rows of one timer, or of all timers of an execution.
    pub(super) fn drop_timers(&mut self, execution_id: u64, event_id: Option<u64>) {
        let lowest = MessageKey { visible_at: Ms::MIN, position: 0 };
        let highest = MessageKey { visible_at: Ms::MAX, position: u64::MAX };
        let first = (execution_id, event_id.unwrap_or(0), lowest);
        let last = (execution_id, event_id.unwrap_or(u64::MAX), highest);
        let keys: Vec<MessageKey> = self.timers.range(first..=last).map(|(_, _, key)| *key).collect();
        for key in keys {
            self.take_message(key);
        }
    }

    /// Empties the inbox; how many messages that were.
    pub(super) fn drop_inbox(&mut self) -> usize {
        self.timers.clear();
        self.cancels = 0;
        std::mem::take(&mut self.inbox).len()
    }

    /// Where the instance belongs in the index of ready instances; nowhere when its inbox is empty.
    pub(super) fn entry(&self) -> Option<TurnEntry> {
        let (first, _) = self.inbox.first_key_value()?;
        let ready_at = match &self.lock {
            Some(lock) => lock.until,
            None => self.not_before.max(first.visible_at),
        };
        let pinned = self.current_execution().and_then(|execution| execution.pinned.as_ref());
        // A cancel needs no handler.
        let route = if self.cancels > 0 { Arc::new(Route::AnyNode) } else { self.route.clone() };
        Some(TurnEntry {
            key: TurnKey { pinned: pinned.map(pack_version), route },
            suspect: self.suspicion.is_suspect(),
            ready_at,
        })
    }
}

/// Where a work item stands in the index of ready work items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkEntry {
    pub(super) suspect: bool,
    pub(super) ready_at: Ms,
}

/// The exclusive right to complete a work item.
#[derive(Debug, Clone)]
pub(super) struct WorkLock {
    pub(super) token: String,
    pub(super) holder: LockHolder,
    pub(super) until: Ms,
}

/// One activity to run.
#[derive(Debug, Clone)]
pub(super) struct WorkRow {
    pub(super) key: WorkKey,
    pub(super) route: WorkRoute,
    pub(super) attempts: u32,
    /// Attempts that were taken back because the item did no harm.
    pub(super) forgiven: u32,
    pub(super) queued_at: Ms,
    /// The end of its delay, or when it was queued.
    pub(super) visible_at: Ms,
    /// Whether it was given back with a delay.
    pub(super) delayed: bool,
    pub(super) suspicion: Suspicion,
    pub(super) lock: Option<WorkLock>,
    pub(super) bounce: Option<KeptCause>,
    pub(super) progress: Option<String>,
    pub(super) item: Stored<WorkItem>,
    pub(super) indexed: Option<WorkEntry>,
}

impl WorkRow {
    pub(super) fn entry(&self) -> WorkEntry {
        let ready_at = self.lock.as_ref().map_or(self.visible_at, |lock| lock.until);
        WorkEntry { suspect: self.suspicion.is_suspect(), ready_at }
    }
}

/// Names one scheduled activity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkKey {
    pub(super) instance: String,
    pub(super) execution_id: u64,
    pub(super) event_id: u64,
}

/// What decides which workers may take a work item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WorkRoute {
    pub(super) session_id: Option<String>,
    pub(super) tag: Option<String>,
    /// The activity's name.
    pub(super) name: String,
}

/// Who may run the activities of a session.
#[derive(Debug, Clone)]
pub(super) struct SessionRow {
    pub(super) owner: String,
    pub(super) locked_until: Ms,
    pub(super) last_activity_at: Ms,
}

/// A message kept for an instance that has not started.
#[derive(Debug, Clone)]
pub(super) struct EarlyRow {
    pub(super) visible_at: Ms,
    pub(super) kept_at: Ms,
    pub(super) item: WorkItem,
}

/// A row that did not decode, kept for whoever wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The instance it was for.
    pub instance: String,
    /// Its kind.
    pub kind: ItemKind,
    /// Why it did not decode.
    pub cause: String,
}
