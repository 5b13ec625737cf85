//! What lies in the queues: messages of an instance's inbox, and activities to run.

use serde::{Deserialize, Serialize};

use super::{ActivityDeadlines, ErrorDetails};

/// Which attempt of a retried call an activity is. All of them have the idempotency key of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetriedCall {
    /// The execution that scheduled the first attempt.
    pub first_execution_id: u64,
    /// The `ActivityScheduled` event of the first attempt.
    pub first_id: u64,
    /// The number of this attempt by the policy, counted from 1.
    pub attempt: u32,
}

/// A message for an instance (orchestrator queue), or an activity to run (worker queue).
///
/// Its stored form is read by `work_item_form`: a failure with an error of the program's own has the form of a plain one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub enum WorkItem {
    /// Start an instance.
    StartOrchestration {
        /// Its id.
        instance: String,
        /// The orchestration's name.
        orchestration: String,
        /// Its input.
        input: String,
        /// The version asked for; without one the policy of the node that starts it decides.
        version: Option<String>,
        /// The instance that waits for the result.
        parent_instance: Option<String>,
        /// The parent's `SubOrchestrationScheduled` event.
        parent_id: Option<u64>,
        /// The parent's execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_execution_id: Option<u64>,
        /// The execution to start, 1.
        execution_id: u64,
    },
    /// Run an activity.
    ActivityExecute {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The id of its `ActivityScheduled` event.
        id: u64,
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
    /// Run an activity that the program gave a deadline, or a later attempt of one that is retried. In the worker
    /// queue like [`Self::ActivityExecute`].
    ActivityExecuteWithin {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The id of its `ActivityScheduled` event.
        id: u64,
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
        /// Its deadlines.
        deadlines: ActivityDeadlines,
        /// The call that it is a later attempt of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retried: Option<RetriedCall>,
        /// Whether the worker says when it has let go of an activity that was given up.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reports_stop: bool,
    },
    /// A worker has let go of an activity that the program gave up.
    ActivityStopped {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The id of its `ActivityScheduled` event.
        id: u64,
    },
    /// A worker is about to run an activity that has a schedule-to-start deadline.
    ActivityBegun {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The id of its `ActivityScheduled` event.
        id: u64,
    },
    /// A failed instance goes on: the record of it.
    Redriven {
        /// Which instance.
        instance: String,
        /// The execution that had failed.
        from_execution_id: u64,
        /// Who asked for it.
        by: String,
        /// When, in ms since the epoch.
        at_ms: u64,
    },
    /// Something that had been scheduled and was queued nowhere was put back: the record of it.
    Repaired {
        /// Which instance.
        instance: String,
        /// How many activities, timers and results of children were put back.
        put_back: u64,
        /// Who asked for it.
        by: String,
        /// When, in ms since the epoch.
        at_ms: u64,
    },
    /// An activity returned `Ok`.
    ActivityCompleted {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The id of its `ActivityScheduled` event.
        id: u64,
        /// What it returned.
        result: String,
    },
    /// An activity failed.
    ActivityFailed {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The id of its `ActivityScheduled` event.
        id: u64,
        /// Why.
        details: ErrorDetails,
    },
    /// An activity failed with an error of the program's own. Stored as an `ActivityFailed` with more fields, which
    /// builds before 1.2.0 skip.
    #[serde(rename = "ActivityFailed", skip_deserializing)]
    ActivityErrored {
        /// The instance that scheduled it.
        instance: String,
        /// The execution that scheduled it.
        execution_id: u64,
        /// The id of its `ActivityScheduled` event.
        id: u64,
        /// Why, as text.
        details: ErrorDetails,
        /// The error as JSON.
        error: String,
        /// Whether the handler panicked: then the error is the text of the panic.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        panicked: bool,
    },
    /// A timer, visible from `fire_at_ms` on.
    TimerFired {
        /// The instance that created it.
        instance: String,
        /// The execution that created it.
        execution_id: u64,
        /// The id of its `TimerCreated` event.
        id: u64,
        /// When it is due.
        fire_at_ms: u64,
    },
    /// An event for the Nth wait of its name.
    ExternalRaised {
        /// The instance it is for.
        instance: String,
        /// The event's name.
        name: String,
        /// Its data.
        data: String,
    },
    /// A message of a queue, first in, first out.
    QueueMessage {
        /// The instance it is for.
        instance: String,
        /// The queue's name.
        name: String,
        /// Its data.
        data: String,
    },
    /// Cancel an instance.
    CancelInstance {
        /// Which.
        instance: String,
        /// Why.
        reason: String,
    },
    /// A child returned `Ok`.
    SubOrchCompleted {
        /// The instance that waits.
        parent_instance: String,
        /// Its execution that scheduled the child.
        parent_execution_id: u64,
        /// The id of its `SubOrchestrationScheduled` event.
        parent_id: u64,
        /// What the child returned.
        result: String,
    },
    /// A child failed.
    SubOrchFailed {
        /// The instance that waits.
        parent_instance: String,
        /// Its execution that scheduled the child.
        parent_execution_id: u64,
        /// The id of its `SubOrchestrationScheduled` event.
        parent_id: u64,
        /// Why.
        details: ErrorDetails,
    },
    /// A child failed with an error of the program's own. Stored as a `SubOrchFailed` with one more field, which
    /// builds before 1.2.0 skip.
    #[serde(rename = "SubOrchFailed", skip_deserializing)]
    SubOrchErrored {
        /// The instance that waits.
        parent_instance: String,
        /// Its execution that scheduled the child.
        parent_execution_id: u64,
        /// The id of its `SubOrchestrationScheduled` event.
        parent_id: u64,
        /// Why, as text.
        details: ErrorDetails,
        /// The error as JSON.
        error: String,
    },
    /// Start the next execution of an instance.
    ContinueAsNew {
        /// Which instance.
        instance: String,
        /// The orchestration's name.
        orchestration: String,
        /// The input of the next execution.
        input: String,
        /// The version asked for.
        version: Option<String>,
        /// The instance that waits for the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_instance: Option<String>,
        /// The parent's `SubOrchestrationScheduled` event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_id: Option<u64>,
        /// The parent's execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_execution_id: Option<u64>,
        /// Queue messages that the previous execution had not read, as (queue, data).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        carry_forward_events: Vec<(String, String)>,
        /// The custom status at the end of the previous execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        initial_custom_status: Option<String>,
    },
}

impl WorkItem {
    /// The instance whose inbox it goes to; for an activity, the instance that scheduled it.
    pub fn instance(&self) -> &str {
        match self {
            Self::StartOrchestration { instance, .. }
            | Self::ActivityExecute { instance, .. }
            | Self::ActivityExecuteWithin { instance, .. }
            | Self::ActivityBegun { instance, .. }
            | Self::ActivityStopped { instance, .. }
            | Self::Redriven { instance, .. }
            | Self::Repaired { instance, .. }
            | Self::ActivityCompleted { instance, .. }
            | Self::ActivityFailed { instance, .. }
            | Self::ActivityErrored { instance, .. }
            | Self::TimerFired { instance, .. }
            | Self::ExternalRaised { instance, .. }
            | Self::QueueMessage { instance, .. }
            | Self::CancelInstance { instance, .. }
            | Self::ContinueAsNew { instance, .. } => instance,
            Self::SubOrchCompleted { parent_instance, .. }
            | Self::SubOrchFailed { parent_instance, .. }
            | Self::SubOrchErrored { parent_instance, .. } => parent_instance,
        }
    }
}
