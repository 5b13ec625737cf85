//! What a store must index, computed here so that a store interprets nothing itself.

use super::{ErrorDetails, Event, EventKind, ParentLink, WorkItem};

/// The kind of a queued item, as stored in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// `StartOrchestration`
    Start,
    /// `ContinueAsNew`
    ContinueAsNew,
    /// `ActivityExecute` or `ActivityExecuteWithin`, the only kind of the worker queue
    Activity,
    /// The end of an activity or of a child: `ActivityCompleted`, `ActivityFailed`, `ActivityErrored`,
    /// `SubOrchCompleted`, `SubOrchFailed` or `SubOrchErrored`
    Completion,
    /// `TimerFired`
    Timer,
    /// `ExternalRaised` or `QueueMessage`
    Event,
    /// `CancelInstance`
    Cancel,
    /// `ActivityBegun`, `ActivityStopped`, `Redriven` or `Repaired`: a fact for the history
    Note,
}

impl ItemKind {
    /// The number stored in the row. Numbers are never reused.
    pub fn code(self) -> i64 {
        match self {
            Self::Start => 1,
            Self::ContinueAsNew => 2,
            Self::Activity => 3,
            Self::Completion => 4,
            Self::Timer => 5,
            Self::Event => 6,
            Self::Cancel => 7,
            Self::Note => 8,
        }
    }

    /// The kind behind a stored number.
    pub fn from_code(code: i64) -> Option<Self> {
        [
            Self::Start,
            Self::ContinueAsNew,
            Self::Activity,
            Self::Completion,
            Self::Timer,
            Self::Event,
            Self::Cancel,
            Self::Note,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }

    /// What the store does with an item for an instance that does not exist.
    pub fn without_instance(self) -> WithoutInstance {
        match self {
            Self::Start => WithoutInstance::Create,
            Self::Event => WithoutInstance::Keep,
            Self::ContinueAsNew
            | Self::Activity
            | Self::Completion
            | Self::Timer
            | Self::Cancel
            | Self::Note => WithoutInstance::Drop,
        }
    }

    /// Whether a turn that sends it to its own instance puts it before all that waits in the inbox: the next
    /// execution's start, and what this execution gives back unread.
    pub fn goes_before_inbox(self) -> bool {
        match self {
            Self::ContinueAsNew | Self::Event => true,
            Self::Start | Self::Activity | Self::Completion | Self::Timer | Self::Cancel | Self::Note => {
                false
            }
        }
    }

    /// What the runtime does with a row of this kind that cannot be decoded.
    pub fn when_undecodable(self) -> WhenUndecodable {
        match self {
            Self::Event | Self::Cancel | Self::Note => WhenUndecodable::SetAside,
            Self::Start | Self::ContinueAsNew | Self::Activity | Self::Completion | Self::Timer => {
                WhenUndecodable::Poison
            }
        }
    }
}

/// What the store does with an item for an instance that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutInstance {
    /// A start creates it.
    Create,
    /// An event is kept for its start.
    Keep,
    /// Nobody can ever want it: dropped and counted.
    Drop,
}

/// What happens to a row that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUndecodable {
    /// Kept aside, counted and listed; the instance goes on.
    SetAside,
    /// The instance cannot go on without it: it is poisoned.
    Poison,
}

/// The columns of a queued item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns<'a> {
    /// Its kind.
    pub kind: ItemKind,
    /// The instance it is for.
    pub instance: &'a str,
    /// The execution it is for, where it names one.
    pub execution_id: Option<u64>,
    /// The schedule it answers, or the activity's own id.
    pub event_id: Option<u64>,
    /// From when on it is visible; `None` means at once.
    pub due_ms: Option<u64>,
    /// The name of the orchestration or activity to run.
    pub name: Option<&'a str>,
    /// The version asked for.
    pub version: Option<&'a str>,
    /// The tag that a worker must accept.
    pub tag: Option<&'a str>,
    /// The session it belongs to.
    pub session_id: Option<&'a str>,
    /// Who waits for the instance that it starts.
    pub parent: Option<ParentLink>,
}

/// The columns of a queued item.
pub fn columns_of(item: &WorkItem) -> Columns<'_> {
    let mut columns = Columns {
        kind: ItemKind::Event,
        instance: item.instance(),
        execution_id: None,
        event_id: None,
        due_ms: None,
        name: None,
        version: None,
        tag: None,
        session_id: None,
        parent: None,
    };
    match item {
        WorkItem::StartOrchestration {
            orchestration,
            version,
            parent_instance,
            parent_id,
            parent_execution_id,
            execution_id,
            ..
        } => {
            columns.kind = ItemKind::Start;
            columns.execution_id = Some(*execution_id);
            columns.name = Some(orchestration);
            columns.version = version.as_deref();
            columns.parent =
                ParentLink::from_fields(parent_instance.as_deref(), *parent_execution_id, *parent_id);
        }
        WorkItem::ContinueAsNew {
            orchestration,
            version,
            parent_instance,
            parent_id,
            parent_execution_id,
            ..
        } => {
            columns.kind = ItemKind::ContinueAsNew;
            columns.name = Some(orchestration);
            columns.version = version.as_deref();
            columns.parent =
                ParentLink::from_fields(parent_instance.as_deref(), *parent_execution_id, *parent_id);
        }
        WorkItem::ActivityExecute { execution_id, id, name, session_id, tag, .. }
        | WorkItem::ActivityExecuteWithin { execution_id, id, name, session_id, tag, .. } => {
            columns.kind = ItemKind::Activity;
            columns.execution_id = Some(*execution_id);
            columns.event_id = Some(*id);
            columns.name = Some(name);
            columns.tag = tag.as_deref();
            columns.session_id = session_id.as_deref();
        }
        WorkItem::Redriven { .. } | WorkItem::Repaired { .. } => columns.kind = ItemKind::Note,
        WorkItem::ActivityBegun { execution_id, id, .. }
        | WorkItem::ActivityStopped { execution_id, id, .. } => {
            columns.kind = ItemKind::Note;
            columns.execution_id = Some(*execution_id);
            columns.event_id = Some(*id);
        }
        WorkItem::ActivityCompleted { execution_id, id, .. }
        | WorkItem::ActivityFailed { execution_id, id, .. }
        | WorkItem::ActivityErrored { execution_id, id, .. }
        | WorkItem::SubOrchCompleted { parent_execution_id: execution_id, parent_id: id, .. }
        | WorkItem::SubOrchFailed { parent_execution_id: execution_id, parent_id: id, .. }
        | WorkItem::SubOrchErrored { parent_execution_id: execution_id, parent_id: id, .. } => {
            columns.kind = ItemKind::Completion;
            columns.execution_id = Some(*execution_id);
            columns.event_id = Some(*id);
        }
        WorkItem::TimerFired { execution_id, id, fire_at_ms, .. } => {
            columns.kind = ItemKind::Timer;
            columns.execution_id = Some(*execution_id);
            columns.event_id = Some(*id);
            columns.due_ms = Some(*fire_at_ms);
        }
        WorkItem::ExternalRaised { .. } | WorkItem::QueueMessage { .. } => columns.kind = ItemKind::Event,
        WorkItem::CancelInstance { .. } => columns.kind = ItemKind::Cancel,
    }
    columns
}

/// What a start of an id that already exists gives back to the parent that asked for it.
///
/// `existing_parent` is the link of the instance that has the id. A repeated start by the same parent, and
/// a start without a parent, get no answer: nothing changes.
pub fn reply_to_colliding_start(start: &WorkItem, existing_parent: Option<&ParentLink>) -> Option<WorkItem> {
    let columns = columns_of(start);
    let parent = columns.parent?;
    if existing_parent == Some(&parent) {
        return None;
    }
    let text = format!("sub-orchestration instance id '{}' already exists", columns.instance);
    Some(WorkItem::SubOrchFailed {
        parent_instance: parent.instance,
        parent_execution_id: parent.execution_id,
        parent_id: parent.event_id,
        details: ErrorDetails::orchestration_failed(text),
    })
}

/// Whether a cancel sent by a turn of `sender` reaches `target`: only itself and its own children.
///
/// A parent may give up a child before it has read that the id was somebody else's.
pub fn cancel_reaches(sender: &str, target: &str, target_parent: Option<&str>) -> bool {
    sender == target || target_parent == Some(sender)
}

/// One change of an instance's KV store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvChange<'a> {
    /// Set a value.
    Set {
        /// The key.
        key: &'a str,
        /// The value.
        value: &'a str,
        /// The recorded time.
        last_updated_at_ms: u64,
    },
    /// Remove a value.
    Clear {
        /// The key.
        key: &'a str,
    },
    /// Remove all values.
    ClearAll,
}

/// What appended events change outside the history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateChanges<'a> {
    /// The last custom status set, and how often it was set.
    pub custom_status: Option<CustomStatusChange<'a>>,
    /// KV changes in their order.
    pub kv: Vec<KvChange<'a>>,
    /// Why the execution failed.
    pub failure: Option<&'a ErrorDetails>,
    /// What the execution began as: from now on it needs exactly this handler.
    pub began: Option<BeganAs<'a>>,
    /// Timers, by the id of their schedule, whose rows may be deleted.
    pub cancelled_timers: Vec<u64>,
    /// The execution is over: none of its timers can be wanted any more.
    pub drops_all_timers: bool,
}

/// The orchestration that an execution runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeganAs<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// A change of the custom status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomStatusChange<'a> {
    /// The last status set.
    pub status: Option<&'a str>,
    /// How many times it was set: the version grows by this.
    pub times: u64,
}

/// What appended events change outside the history.
pub fn state_changes(events: &[Event]) -> StateChanges<'_> {
    let mut changes = StateChanges::default();
    for event in events {
        match &event.kind {
            EventKind::CustomStatusUpdated { status } => {
                let times = changes.custom_status.as_ref().map_or(0, |change| change.times) + 1;
                changes.custom_status = Some(CustomStatusChange { status: status.as_deref(), times });
            }
            EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                changes.kv.push(KvChange::Set { key, value, last_updated_at_ms: *last_updated_at_ms });
            }
            EventKind::KeyValueCleared { key } => changes.kv.push(KvChange::Clear { key }),
            EventKind::KeyValuesCleared => changes.kv.push(KvChange::ClearAll),
            EventKind::OrchestrationFailed { details } => {
                changes.failure = Some(details);
                changes.drops_all_timers = true;
            }
            EventKind::OrchestrationCompleted { .. } | EventKind::OrchestrationContinuedAsNew { .. } => {
                changes.drops_all_timers = true;
            }
            EventKind::TimerCancelled { .. } => changes.cancelled_timers.extend(event.source_event_id),
            EventKind::OrchestrationStarted { name, version, .. } => {
                changes.began = Some(BeganAs { name, version });
            }
            EventKind::OrchestrationCancelRequested { .. }
            | EventKind::ActivityScheduled { .. }
            | EventKind::ActivityCompleted { .. }
            | EventKind::ErrorRecorded { .. }
            | EventKind::CancelPolicyRecorded { .. }
            | EventKind::ActivityStopped
            | EventKind::ActivityFailed { .. }
            | EventKind::ActivityCancelRequested { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::TimerFired { .. }
            | EventKind::ExternalSubscribed { .. }
            | EventKind::ExternalEvent { .. }
            | EventKind::ExternalSubscribedCancelled { .. }
            | EventKind::QueueSubscribed { .. }
            | EventKind::QueueEventDelivered { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
            | EventKind::OrchestrationChained { .. }
            | EventKind::SubOrchestrationScheduled { .. }
            | EventKind::VersionRequested { .. }
            | EventKind::PatchMarked { .. }
            | EventKind::KeyValuesCarried { .. }
            | EventKind::RetryPolicyRecorded { .. }
            | EventKind::ActivityDeadlinesRecorded { .. }
            | EventKind::ActivityBegun
            | EventKind::OrchestrationRedriven { .. }
            | EventKind::OrchestrationRepaired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
            | EventKind::SubOrchestrationCancelRequested { .. } => {}
        }
    }
    changes
}
