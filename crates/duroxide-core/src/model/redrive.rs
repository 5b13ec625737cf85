//! Letting a failed instance go on: what the next execution begins with.
//!
//! The failed execution stays as it is. The next one has its events up to the failure, and what those events wait for
//! is put back into the queues. All of it is computed from the history, so that a store has to interpret nothing.

use std::collections::BTreeSet;

use super::{
    AppErrorKind, ErrorDetails, Event, EventKind, ItemKind, OpenWork, WorkItem, columns_of, open_work,
};

/// What the reasons of cancellations begin with that an ending execution records.
pub const TERMINAL_REASON: &str = "orchestration_terminal";
/// What a child is told whose parent was cancelled.
pub const PARENT_CANCELED: &str = "parent canceled";
/// What a child is told whose parent failed.
pub const PARENT_FAILED: &str = "parent failed";

/// Whether a fix of code or configuration can mend what an execution failed of: it was poisoned, its code did not
/// fit its history, or no node could replay it.
pub fn is_redrivable(details: &ErrorDetails) -> bool {
    match details {
        ErrorDetails::Poison { .. } | ErrorDetails::Configuration { .. } => true,
        ErrorDetails::Infrastructure { .. } | ErrorDetails::Application { .. } => false,
    }
}

/// Whether an execution was cancelled because its parent ended. If the parent goes on, so does this one.
fn is_cancelled_by_parent(details: &ErrorDetails) -> bool {
    match details {
        ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } => {
            reason == PARENT_CANCELED || reason == PARENT_FAILED
        }
        ErrorDetails::Application { .. }
        | ErrorDetails::Infrastructure { .. }
        | ErrorDetails::Configuration { .. }
        | ErrorDetails::Poison { .. } => false,
    }
}

/// Whether an instance that failed of this may go on, by itself or with its parent.
fn may_go_on(details: &ErrorDetails) -> bool {
    is_redrivable(details) || is_cancelled_by_parent(details)
}

/// Whether a store keeps a message of this kind that comes after its instance has failed: an event, if the instance may
/// go on. What else comes then is known to the history, or is the answer to what the failure gave up.
pub fn kept_since_failure(kind: ItemKind, failure: &ErrorDetails) -> bool {
    match kind {
        ItemKind::Event => may_go_on(failure),
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Activity
        | ItemKind::Cancel
        | ItemKind::Note => false,
    }
}

/// The messages that a store keeps when a turn ends in a failure after which the instance may go on, by itself or with
/// its parent, in the order of the inbox. `None`: it ends in no such failure, so nothing is kept.
///
/// What the turn admitted before it failed is in the history and must not come twice.
pub fn kept_after_failure(history_delta: &[Event]) -> Option<KeptMessages> {
    let EventKind::OrchestrationFailed { details } = &history_delta.last()?.kind else { return None };
    if !may_go_on(details) {
        return None;
    }
    let mut kept = KeptMessages::default();
    for event in history_delta {
        match &event.kind {
            EventKind::OrchestrationCancelRequested { .. } => kept.cancels += 1,
            EventKind::ExternalEvent { .. } | EventKind::QueueEventDelivered { .. } => kept.admitted += 1,
            EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. } => kept.answered.extend(event.source_event_id),
            // What the failure itself gave up was not answered: its answer may be in the inbox.
            given_up @ (EventKind::ActivityCancelRequested { .. }
            | EventKind::SubOrchestrationCancelRequested { .. }) => {
                if !is_of_ending(given_up) {
                    kept.answered.extend(event.source_event_id);
                }
            }
            // Also that an activity has begun is no answer.
            EventKind::ActivityBegun
            | EventKind::OrchestrationStarted { .. }
            | EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. }
            | EventKind::OrchestrationRedriven { .. }
            | EventKind::OrchestrationRepaired { .. }
            | EventKind::ErrorRecorded { .. }
            | EventKind::CancelPolicyRecorded { .. }
            | EventKind::ActivityStopped
            | EventKind::OrchestrationChained { .. }
            | EventKind::ActivityScheduled { .. }
            | EventKind::ActivityDeadlinesRecorded { .. }
            | EventKind::RetryPolicyRecorded { .. }
            | EventKind::SubOrchestrationScheduled { .. }
            | EventKind::VersionRequested { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::TimerFired { .. }
            | EventKind::TimerCancelled { .. }
            | EventKind::ExternalSubscribed { .. }
            | EventKind::ExternalSubscribedCancelled { .. }
            | EventKind::QueueSubscribed { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
            | EventKind::CustomStatusUpdated { .. }
            | EventKind::KeyValueSet { .. }
            | EventKind::KeyValueCleared { .. }
            | EventKind::KeyValuesCleared
            | EventKind::PatchMarked { .. }
            | EventKind::KeyValuesCarried { .. } => {}
        }
    }
    Some(kept)
}

/// Decides about the messages of an inbox, one after the other in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptMessages {
    /// How many events and queue messages the turn admitted: the first ones.
    admitted: usize,
    /// How many cancels it admitted: the first ones.
    cancels: usize,
    /// The schedules whose answers it admitted.
    answered: BTreeSet<u64>,
}

impl KeptMessages {
    /// Whether the store keeps the next message. `event_id` is the schedule that it answers, if it does; `taken`
    /// tells whether the turn had taken it.
    pub fn keeps(&mut self, kind: ItemKind, event_id: Option<u64>, taken: bool) -> bool {
        match kind {
            ItemKind::Completion if taken => event_id.is_none_or(|id| !self.answered.contains(&id)),
            ItemKind::Event if taken && self.admitted > 0 => {
                self.admitted -= 1;
                false
            }
            ItemKind::Cancel if taken && self.cancels > 0 => {
                self.cancels -= 1;
                false
            }
            // The history knows the timers.
            ItemKind::Timer | ItemKind::Activity => false,
            ItemKind::Event
            | ItemKind::Start
            | ItemKind::ContinueAsNew
            | ItemKind::Completion
            | ItemKind::Cancel
            | ItemKind::Note => true,
        }
    }
}

/// Why an instance is redriven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedriveOf {
    /// Somebody asked for it.
    Asked,
    /// Its parent is redriven, whose failure had cancelled it.
    CancelledChild,
}

/// What the next execution begins with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedrivePlan {
    /// The history up to the failure. Empty if the program had done nothing: then it begins anew.
    pub events: Vec<Event>,
    /// What those events wait for.
    pub open: OpenWork,
}

/// What the next execution of a failed one begins with, or why it cannot go on.
pub fn plan_redrive(history: &[Event], why: RedriveOf) -> Result<RedrivePlan, String> {
    let events = before_failure(history, why)?;
    if events.len() <= 1 {
        return Ok(RedrivePlan::default());
    }
    Ok(RedrivePlan { events: events.to_vec(), open: open_work(events) })
}

/// The events before those that the failure itself recorded.
fn before_failure(history: &[Event], why: RedriveOf) -> Result<&[Event], String> {
    let Some((Event { kind: EventKind::OrchestrationFailed { details }, .. }, rest)) = history.split_last()
    else {
        return Err("it has not failed".to_string());
    };
    let was_cancelled = why == RedriveOf::CancelledChild && is_cancelled_by_parent(details);
    if !was_cancelled && !is_redrivable(details) {
        return Err(format!(
            "it failed of itself ({}); only what was poisoned or could not be replayed goes on after a fix",
            details.category()
        ));
    }
    let mut events = rest;
    while let Some((last, before)) = events.split_last()
        && is_of_ending(&last.kind)
    {
        events = before;
    }
    if let Some((last, before)) = events.split_last()
        && is_cause(&last.kind, was_cancelled)
    {
        events = before;
    }
    let is_cancel = |event: &Event| matches!(event.kind, EventKind::OrchestrationCancelRequested { .. });
    if events.iter().any(is_cancel) {
        return Err("it was cancelled and has begun to undo what it did".to_string());
    }
    Ok(events)
}

/// Whether an ending execution records this about what it leaves open.
fn is_of_ending(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ActivityCancelRequested { reason } | EventKind::SubOrchestrationCancelRequested { reason }
            if reason.starts_with(TERMINAL_REASON)
    )
}

/// Whether this is the message that ended the execution: a poisoned activity, or the cancel of a parent.
fn is_cause(kind: &EventKind, was_cancelled: bool) -> bool {
    let is_cancel = matches!(kind, EventKind::OrchestrationCancelRequested { .. });
    let is_poison = matches!(kind, EventKind::ActivityFailed { details: ErrorDetails::Poison { .. } });
    is_poison || (was_cancelled && is_cancel)
}

/// The message that begins anew an execution whose program had done nothing. `kept` are the messages that the store
/// has kept: the start among them says which version was asked for, if any. Without it the recorded start does.
pub fn start_anew(history: &[Event], kept: &[WorkItem]) -> Option<WorkItem> {
    let kept_start = kept.iter().find_map(|item| match columns_of(item).kind {
        ItemKind::Start | ItemKind::ContinueAsNew => Some(next_start(item)),
        ItemKind::Activity
        | ItemKind::Completion
        | ItemKind::Timer
        | ItemKind::Event
        | ItemKind::Cancel
        | ItemKind::Note => None,
    });
    if let Some(start) = kept_start {
        return start;
    }
    let first = history.first()?;
    let EventKind::OrchestrationStarted {
        name,
        version,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        carry_forward_events,
        initial_custom_status,
    } = &first.kind
    else {
        return None;
    };
    Some(WorkItem::ContinueAsNew {
        instance: first.instance_id.clone(),
        orchestration: name.clone(),
        input: input.clone(),
        version: Some(version.clone()).filter(|version| version != UNKNOWN_VERSION),
        parent_instance: parent_instance.clone(),
        parent_id: *parent_id,
        parent_execution_id: *parent_execution_id,
        carry_forward_events: carry_forward_events.clone().unwrap_or_default(),
        initial_custom_status: initial_custom_status.clone(),
    })
}

/// What stands for the version in a start that no handler has seen and that asked for none.
pub const UNKNOWN_VERSION: &str = "0.0.0";

/// A start or continue-as-new as the start of another execution.
fn next_start(item: &WorkItem) -> Option<WorkItem> {
    match item {
        WorkItem::StartOrchestration {
            instance,
            orchestration,
            input,
            version,
            parent_instance,
            parent_id,
            parent_execution_id,
            execution_id: _,
        } => Some(WorkItem::ContinueAsNew {
            instance: instance.clone(),
            orchestration: orchestration.clone(),
            input: input.clone(),
            version: version.clone(),
            parent_instance: parent_instance.clone(),
            parent_id: *parent_id,
            parent_execution_id: *parent_execution_id,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        }),
        WorkItem::ContinueAsNew { .. } => Some(item.clone()),
        WorkItem::ActivityExecute { .. }
        | WorkItem::ActivityExecuteWithin { .. }
        | WorkItem::ActivityBegun { .. }
        | WorkItem::ActivityStopped { .. }
        | WorkItem::Redriven { .. }
        | WorkItem::Repaired { .. }
        | WorkItem::ActivityCompleted { .. }
        | WorkItem::ActivityFailed { .. }
        | WorkItem::ActivityErrored { .. }
        | WorkItem::TimerFired { .. }
        | WorkItem::ExternalRaised { .. }
        | WorkItem::QueueMessage { .. }
        | WorkItem::CancelInstance { .. }
        | WorkItem::SubOrchCompleted { .. }
        | WorkItem::SubOrchFailed { .. }
        | WorkItem::SubOrchErrored { .. } => None,
    }
}
