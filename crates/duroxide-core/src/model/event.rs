//! Events: the stored facts of which a history consists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ActivityDeadlines, ErrorDetails, KvEntry, build_child_instance_id, current_build_version};

/// One stored fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its position in the execution's history, counted from 1 without gaps.
    pub event_id: u64,
    /// The event that this one answers: the schedule of a completion or of a cancellation. For a later attempt of a
    /// retried activity, the schedule of the first one.
    pub source_event_id: Option<u64>,
    /// The instance it belongs to.
    pub instance_id: String,
    /// The execution it belongs to.
    pub execution_id: u64,
    /// When the turn that wrote it began, by the store's clock.
    pub timestamp_ms: u64,
    /// The build that wrote it.
    pub duroxide_version: String,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventKind {
    /// The first event of every execution.
    OrchestrationStarted {
        /// The orchestration's name.
        name: String,
        /// The version of the handler that runs it.
        version: String,
        /// What it was started with.
        input: String,
        /// The instance that waits for the result.
        parent_instance: Option<String>,
        /// The parent's `SubOrchestrationScheduled` event.
        parent_id: Option<u64>,
        /// The parent's execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_execution_id: Option<u64>,
        /// Queue messages that the previous execution had not read, as (queue, data).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carry_forward_events: Option<Vec<(String, String)>>,
        /// The custom status at the end of the previous execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial_custom_status: Option<String>,
    },
    /// The orchestration returned `Ok`. Terminal.
    OrchestrationCompleted {
        /// What it returned.
        output: String,
    },
    /// The orchestration failed. Terminal.
    OrchestrationFailed {
        /// Why.
        details: ErrorDetails,
    },
    /// The orchestration went on as a new execution. Terminal for this one.
    OrchestrationContinuedAsNew {
        /// What the next execution starts with.
        input: String,
    },
    /// How the execution takes a cancel: it may go on for a while to undo what it did. Stands right behind the start, and
    /// only where the handler asks for it.
    CancelPolicyRecorded {
        /// How long it may go on, in ms.
        within_ms: u64,
    },
    /// A client asked to cancel the instance. The execution ends with it, unless it is about to undo what it did.
    OrchestrationCancelRequested {
        /// The reason that was given.
        reason: String,
    },
    /// The program scheduled an activity.
    ActivityScheduled {
        /// The activity's name.
        name: String,
        /// Its input.
        input: String,
        /// The session it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        /// The tag that a worker must accept to run it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
    },
    /// An activity returned `Ok`.
    ActivityCompleted {
        /// What it returned.
        result: String,
    },
    /// The program's own error, for the failure that comes next: that of the activity or child which
    /// `source_event_id` names, or that of this execution. Only where a handler gave one.
    ErrorRecorded {
        /// The error as JSON.
        error: String,
        /// Whether the handler panicked: then the error is the text of the panic.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        panicked: bool,
    },
    /// An activity failed.
    ActivityFailed {
        /// Why.
        details: ErrorDetails,
    },
    /// The program no longer waits for the activity.
    ActivityCancelRequested {
        /// Why not.
        reason: String,
    },
    /// The program scheduled a timer.
    TimerCreated {
        /// When it is due.
        fire_at_ms: u64,
    },
    /// A timer came due.
    TimerFired {
        /// When it was due.
        fire_at_ms: u64,
    },
    /// The program no longer waits for the timer.
    TimerCancelled {
        /// Why not.
        reason: String,
    },
    /// The program waits for an event.
    ExternalSubscribed {
        /// The event's name.
        name: String,
    },
    /// An event arrived.
    ExternalEvent {
        /// Its name.
        name: String,
        /// Its data.
        data: String,
    },
    /// The program no longer waits for the event.
    ExternalSubscribedCancelled {
        /// Why not.
        reason: String,
    },
    /// The program waits for a message of a queue.
    #[serde(rename = "ExternalSubscribedPersistent")]
    QueueSubscribed {
        /// The queue's name.
        name: String,
    },
    /// A queue message arrived.
    #[serde(rename = "ExternalEventPersistent")]
    QueueEventDelivered {
        /// The queue's name.
        name: String,
        /// Its data.
        data: String,
    },
    /// The program no longer waits for a message of the queue.
    #[serde(rename = "ExternalSubscribedPersistentCancelled")]
    QueueSubscriptionCancelled {
        /// Why not.
        reason: String,
    },
    /// The program started an instance that it does not wait for.
    OrchestrationChained {
        /// The orchestration's name.
        name: String,
        /// The new instance.
        instance: String,
        /// Its input.
        input: String,
    },
    /// The program scheduled a child.
    SubOrchestrationScheduled {
        /// The orchestration's name.
        name: String,
        /// The child's instance id; a generated one without its parent's id (`sub::2`) if a build from 1.1.0 on
        /// began the execution. [`Event::child_instance`] is the full id in either form.
        instance: String,
        /// Its input.
        input: String,
    },
    /// The version asked for by the schedule that `source_event_id` names. Stands right behind it, and
    /// only where the program asked for a version.
    VersionRequested {
        /// The version.
        version: String,
    },
    /// A child returned `Ok`.
    SubOrchestrationCompleted {
        /// What it returned.
        result: String,
    },
    /// A child failed.
    SubOrchestrationFailed {
        /// Why.
        details: ErrorDetails,
    },
    /// The program no longer waits for the child.
    SubOrchestrationCancelRequested {
        /// Why not.
        reason: String,
    },
    /// The program set its custom status (`None`: took it back).
    CustomStatusUpdated {
        /// The new status.
        status: Option<String>,
    },
    /// The program set a value of its KV store.
    KeyValueSet {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The time of the turn that set it; 0 in a form that has none.
        #[serde(default)]
        last_updated_at_ms: u64,
    },
    /// The program removed a value of its KV store.
    KeyValueCleared {
        /// The key.
        key: String,
    },
    /// The program emptied its KV store.
    KeyValuesCleared,
    /// The program goes the way of a patch. Stands where it asked first.
    PatchMarked {
        /// The patch.
        id: String,
    },
    /// What the KV store held when the execution began. Stands behind what the program did before its first
    /// wait, so that the first thing scheduled has event id 2; several of them if it is much, and only where
    /// there was something.
    KeyValuesCarried {
        /// The values by key.
        values: BTreeMap<String, KvEntry>,
    },
    /// The policy by which an activity is tried again. Stands right behind the first attempt; a replay takes
    /// the policy from here, so that changed code does not disturb an execution that has begun.
    RetryPolicyRecorded {
        /// The policy as JSON.
        policy: String,
    },
    /// The deadlines of the activity that `source_event_id` names. Stands right behind its schedule, and only
    /// where the program gave one. A replay takes them from here. The timer of a schedule-to-start deadline
    /// comes next.
    ActivityDeadlinesRecorded {
        /// The deadlines.
        #[serde(flatten)]
        deadlines: ActivityDeadlines,
    },
    /// A worker began the activity that `source_event_id` names, in time for its schedule-to-start deadline.
    ActivityBegun,
    /// The worker that ran the activity which `source_event_id` names has let go of it, after the program gave it up.
    ActivityStopped,
    /// Something that this execution had scheduled was queued nowhere and was put back.
    OrchestrationRepaired {
        /// How many activities, timers and results of children were put back.
        put_back: u64,
        /// Who asked for it.
        by: String,
        /// When, in ms since the epoch.
        at_ms: u64,
    },
    /// The execution before this one failed, and somebody asked that the instance go on. The events of the
    /// failed execution stand before this one, each with the execution in which it was recorded.
    OrchestrationRedriven {
        /// The execution that had failed.
        from_execution_id: u64,
        /// Who asked for it.
        by: String,
        /// When, in ms since the epoch.
        at_ms: u64,
    },
}

impl Event {
    /// An event of the current time and build whose id the store or the engine will set.
    pub fn new(
        instance: impl Into<String>,
        execution_id: u64,
        source_event_id: Option<u64>,
        kind: EventKind,
    ) -> Self {
        Self::with_event_id(0, instance, execution_id, source_event_id, kind)
    }

    /// An event of the current time and build with a given id.
    pub fn with_event_id(
        event_id: u64,
        instance: impl Into<String>,
        execution_id: u64,
        source_event_id: Option<u64>,
        kind: EventKind,
    ) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "for users who build events by hand; the engine uses `at`"
        )]
        let now = std::time::SystemTime::now();
        let since_epoch = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self {
            event_id,
            source_event_id,
            instance_id: instance.into(),
            execution_id,
            timestamp_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
            duroxide_version: current_build_version().to_string(),
            kind,
        }
    }

    /// The id.
    pub fn event_id(&self) -> u64 {
        self.event_id
    }

    /// The event that this one answers.
    pub fn source_event_id(&self) -> Option<u64> {
        self.source_event_id
    }

    /// The full id of the child that this event schedules; `None` for any other event.
    pub fn child_instance(&self) -> Option<String> {
        let EventKind::SubOrchestrationScheduled { instance, .. } = &self.kind else { return None };
        Some(build_child_instance_id(&self.instance_id, instance))
    }

    /// Whether the execution ends with this event.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self.kind,
            EventKind::OrchestrationCompleted { .. }
                | EventKind::OrchestrationFailed { .. }
                | EventKind::OrchestrationContinuedAsNew { .. }
        )
    }
}
