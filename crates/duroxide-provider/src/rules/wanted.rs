//! What a call has to know of the store: told before it is applied, or asked for while it is.

use std::collections::BTreeSet;

use duroxide_core::ItemKind;

use super::Fault;
use super::instance_row::TurnLock;
use super::values::{Ms, to_column};

/// The rows that calls are about. A store loads them before it applies the calls; where rows can be locked, it locks
/// them.
#[derive(Debug, Default, Clone)]
pub struct Wanted {
    /// Instances by key.
    pub keys: BTreeSet<i64>,
    /// Instances by id.
    pub ids: BTreeSet<String>,
    /// Ids that must not begin to exist meanwhile: those of starts, and of messages for nobody.
    pub reserved: BTreeSet<String>,
    /// How many instances may be created.
    pub starts: usize,
    /// Turns that end with a commit: key, execution.
    pub acks: Vec<(i64, u64)>,
    /// Turns that are given back.
    pub abandons: Vec<i64>,
    /// Timers that commits remove: key, execution, schedule; all of the execution without a schedule.
    pub timers: Vec<(i64, u64, Option<u64>)>,
    /// Work items by id.
    pub work: BTreeSet<i64>,
    /// Work items of activities that commits cancel: instance, execution, activity.
    pub cancelled: Vec<(String, u64, u64)>,
}

/// Why a call was not applied. The rows are as they were before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It has to be applied again once the rows know this.
    Need(Need),
    /// It fails.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Need> for Stop {
    fn from(need: Need) -> Self {
        Self::Need(need)
    }
}

/// What a call has to know that nobody could say before. Each names the function of [`super::Rows`] that takes the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// The instance of this id: `learn_instance`, or `learn_absent`.
    Instance(String),
    /// That no instance of this id exists or begins before the group is committed: `reserve`.
    Reserve(String),
    /// A key for a new instance: `learn_keys`.
    Key,
    /// The row of an execution: `learn_execution`.
    Execution {
        /// The instance.
        key: i64,
        /// The execution.
        execution_id: u64,
    },
    /// When the first stored message of an inbox is visible: `learn_first_message`.
    FirstMessage(FirstMessage),
    /// How many timers a commit removes: `learn_timers`.
    Timers {
        /// The instance.
        key: i64,
        /// Execution and schedule; all of the execution without a schedule.
        timers: Vec<(u64, Option<u64>)>,
    },
    /// The bytes of an inbox: `learn_inbox_bytes`.
    InboxBytes(i64),
    /// The messages of an inbox, without their items: `learn_inbox`.
    Inbox(i64),
    /// What is kept for an instance that failed: `learn_kept`.
    Kept {
        /// The instance.
        key: i64,
        /// The execution that failed.
        execution_id: u64,
    },
    /// Whether one of these events is stored: `learn_stored_event`.
    StoredEvents {
        /// The instance.
        key: i64,
        /// The execution.
        execution_id: u64,
        /// The events.
        ids: Vec<u64>,
    },
    /// What an instance was started with: `learn_first_input`.
    FirstInput(i64),
    /// The items that are kept for an instance, without the first `seen`: `learn_kept_items`.
    KeptItems {
        /// The instance.
        key: i64,
        /// How many are left out.
        seen: usize,
    },
    /// Whether an activity is in the worker queue: `learn_queued`.
    Queued {
        /// The instance.
        instance: String,
        /// The execution.
        execution_id: u64,
        /// The activity.
        activity_id: u64,
    },
}

/// A question for the first message of an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstMessage {
    /// The instance.
    pub key: i64,
    /// What these locks cover is left out.
    pub without: Vec<TurnLock>,
    /// So are these timers: execution and schedule; all of the execution without a schedule.
    pub without_timers: Vec<(u64, Option<u64>)>,
    /// And these messages: visible time and position.
    pub without_messages: Vec<(Ms, i64)>,
    /// Messages after the first of these times and up to the second, timers left out, count as visible at the first.
    pub pulled_back: Option<(Ms, Ms)>,
}

impl FirstMessage {
    /// Whether a stored message stays.
    pub fn counts(&self, message: &StoredMessage) -> bool {
        let (visible_at, position) = (message.visible_at, message.position);
        !self.without.iter().any(|lock| lock.covers(visible_at, position))
            && !self.without_messages.contains(&(visible_at, position))
            && !self.without_timers.iter().any(|timer| message.is_timer(*timer))
    }

    /// When a stored message that stays is visible.
    pub fn visible_at(&self, message: &StoredMessage) -> Ms {
        match self.pulled_back {
            Some((now, until))
                if message.visible_at > now
                    && message.visible_at <= until
                    && message.kind != ItemKind::Timer.code() =>
            {
                now
            }
            Some(_) | None => message.visible_at,
        }
    }
}

/// A stored message, without its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredMessage {
    /// Its place.
    pub visible_at: Ms,
    /// Its place.
    pub position: i64,
    /// The number of its kind.
    pub kind: i64,
    /// The execution that it is for, where it names one.
    pub execution_id: Option<i64>,
    /// The schedule that it answers, where it names one.
    pub event_id: Option<i64>,
}

impl StoredMessage {
    /// Whether it is this timer: execution and schedule; any of the execution without a schedule.
    pub(super) fn is_timer(&self, (execution_id, schedule): (u64, Option<u64>)) -> bool {
        self.kind == ItemKind::Timer.code()
            && self.execution_id == Some(to_column(execution_id))
            && schedule.is_none_or(|schedule| self.event_id == Some(to_column(schedule)))
    }
}

/// What is kept for an instance that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Early {
    /// The position of the last.
    pub last: i64,
    /// How many are kept, without those that expired.
    pub count: i64,
}

/// What an instance was started with, as far as the store knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstInputRow {
    /// The fingerprint of the input.
    pub fingerprint: Option<i64>,
    /// Without one, the JSON of the first event.
    pub started: Option<String>,
    /// Without one, the JSON of the start that still waits.
    pub start: Option<String>,
}

/// What is kept for an instance that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptRow {
    /// The JSON of its failure.
    pub failure: Option<String>,
    /// How many messages are kept. Their orders count from 0 and have no gaps.
    pub count: i64,
}
