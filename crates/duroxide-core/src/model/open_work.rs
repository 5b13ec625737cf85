//! What a history waits for, and in which form that stands in the queues.

use std::collections::BTreeMap;

use super::cancel_policy::cancel_policy_of;
use super::{ActivityDeadlines, Event, EventKind, INITIAL_EXECUTION_ID, RetriedCall, WorkItem};

/// What an execution has scheduled and neither got back nor given up, in the order of its schedules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenWork {
    /// Its activities, as they are queued.
    pub activities: Vec<WorkItem>,
    /// Its timers, as they are queued.
    pub timers: Vec<WorkItem>,
    /// The starts of its children.
    pub children: Vec<WorkItem>,
    /// How many events and queue messages it waits for.
    pub waits: usize,
}

/// What is open according to a history.
pub fn open_work(history: &[Event]) -> OpenWork {
    let mut work = OpenWork::default();
    for open in open_schedules(history).into_values() {
        match open {
            Open::Activity(item) => work.activities.push(item),
            Open::Timer(item) => work.timers.push(item),
            Open::Child(start) => work.children.push(start),
            Open::Wait => work.waits += 1,
        }
    }
    work
}

enum Open {
    Activity(WorkItem),
    Timer(WorkItem),
    Child(WorkItem),
    Wait,
}

/// What has been scheduled and neither answered nor given up, by event id.
fn open_schedules(events: &[Event]) -> BTreeMap<u64, Open> {
    let mut open = BTreeMap::new();
    let mut attempts = Attempts::default();
    let reports_stop = cancel_policy_of(events).is_some();
    for event in events {
        let (id, source) = (event.event_id, event.source_event_id.unwrap_or_default());
        match &event.kind {
            EventKind::ActivityScheduled { name, input, session_id, tag } => {
                let mut item = activity(event, name, input, session_id, tag);
                let retried = attempts.note(event);
                if retried.is_some() || reports_stop {
                    with_options(&mut item, ActivityDeadlines::default(), retried, reports_stop);
                }
                open.insert(id, Open::Activity(item));
            }
            EventKind::ActivityDeadlinesRecorded { deadlines } => {
                if let Some(Open::Activity(item)) = open.get_mut(&source) {
                    with_options(item, *deadlines, None, reports_stop);
                }
            }
            EventKind::TimerCreated { fire_at_ms } => {
                open.insert(id, Open::Timer(timer(event, *fire_at_ms)));
            }
            EventKind::SubOrchestrationScheduled { name, input, .. } => {
                let instance = event.child_instance().unwrap_or_default();
                open.insert(id, Open::Child(child(event, name, instance, input)));
            }
            EventKind::VersionRequested { version: asked } => {
                if let Some(Open::Child(WorkItem::StartOrchestration { version, .. })) = open.get_mut(&source)
                {
                    *version = Some(asked.clone());
                }
            }
            EventKind::ExternalSubscribed { .. } | EventKind::QueueSubscribed { .. } => {
                open.insert(id, Open::Wait);
            }
            EventKind::ExternalEvent { .. }
            | EventKind::ExternalSubscribedCancelled { .. }
            | EventKind::QueueEventDelivered { .. }
            | EventKind::QueueSubscriptionCancelled { .. }
            | EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::ActivityCancelRequested { .. }
            | EventKind::TimerFired { .. }
            | EventKind::TimerCancelled { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. }
            | EventKind::SubOrchestrationCancelRequested { .. } => {
                open.remove(&source);
            }
            EventKind::OrchestrationStarted { .. }
            | EventKind::OrchestrationCompleted { .. }
            | EventKind::OrchestrationFailed { .. }
            | EventKind::OrchestrationContinuedAsNew { .. }
            | EventKind::OrchestrationCancelRequested { .. }
            | EventKind::OrchestrationRedriven { .. }
            | EventKind::OrchestrationRepaired { .. }
            | EventKind::ErrorRecorded { .. }
            | EventKind::CancelPolicyRecorded { .. }
            | EventKind::ActivityStopped
            | EventKind::ActivityBegun
            | EventKind::OrchestrationChained { .. }
            | EventKind::CustomStatusUpdated { .. }
            | EventKind::KeyValueSet { .. }
            | EventKind::KeyValueCleared { .. }
            | EventKind::KeyValuesCleared
            | EventKind::PatchMarked { .. }
            | EventKind::KeyValuesCarried { .. }
            | EventKind::RetryPolicyRecorded { .. } => {}
        }
    }
    open
}

fn activity(
    event: &Event,
    name: &str,
    input: &str,
    session_id: &Option<String>,
    tag: &Option<String>,
) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: event.instance_id.clone(),
        execution_id: event.execution_id,
        id: event.event_id,
        name: name.to_string(),
        input: input.to_string(),
        session_id: session_id.clone(),
        tag: tag.clone(),
    }
}

fn timer(event: &Event, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: event.instance_id.clone(),
        execution_id: event.execution_id,
        id: event.event_id,
        fire_at_ms,
    }
}

/// The attempts of retried calls so far.
#[derive(Default)]
struct Attempts {
    /// The execution of every scheduled activity.
    executions: BTreeMap<u64, u64>,
    /// How many later attempts each first one had.
    later: BTreeMap<u64, u32>,
}

impl Attempts {
    /// Counts a scheduled activity; what it is a later attempt of.
    fn note(&mut self, scheduled: &Event) -> Option<RetriedCall> {
        self.executions.insert(scheduled.event_id, scheduled.execution_id);
        let first_id = scheduled.source_event_id?;
        let first_execution_id = *self.executions.get(&first_id)?;
        let later = self.later.entry(first_id).or_default();
        *later = later.saturating_add(1);
        Some(RetriedCall { first_execution_id, first_id, attempt: later.saturating_add(1) })
    }
}

/// Adds deadlines, or the call that it is an attempt of, to a queued activity.
fn with_options(
    item: &mut WorkItem,
    deadlines: ActivityDeadlines,
    retried: Option<RetriedCall>,
    reports_stop: bool,
) {
    if let WorkItem::ActivityExecuteWithin { deadlines: found, .. } = item {
        *found = deadlines;
    } else if let WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id, tag } =
        item
    {
        *item = WorkItem::ActivityExecuteWithin {
            instance: std::mem::take(instance),
            execution_id: *execution_id,
            id: *id,
            name: std::mem::take(name),
            input: std::mem::take(input),
            session_id: session_id.take(),
            tag: tag.take(),
            deadlines,
            retried,
            reports_stop,
        };
    }
}

fn child(event: &Event, name: &str, instance: String, input: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance,
        orchestration: name.to_string(),
        input: input.to_string(),
        version: None,
        parent_instance: Some(event.instance_id.clone()),
        parent_id: Some(event.event_id),
        parent_execution_id: Some(event.execution_id),
        execution_id: INITIAL_EXECUTION_ID,
    }
}
