//! How an execution ends: what it leaves open is cancelled, the terminal event comes last, and whoever waits
//! is told. All of it belongs to the turn's one transaction.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Identity;
use super::execution::{Actions, Execution, Pass, Stop};
use super::run::TurnResult;
use super::schedules::ScheduleKind;
use super::tape::Tape;
use super::turn::{DropReason, Outcome, Turn};
use crate::model::limits::MAX_CARRY_FORWARD_EVENTS;
use crate::model::redrive::{PARENT_CANCELED, PARENT_FAILED, TERMINAL_REASON};
use crate::model::{
    AppErrorKind, ErrorDetails, Event, EventKind, ExecutionMetadata, ItemKind, ParentLink, RecordedFailure,
    ScheduledActivityIdentifier, WorkItem, columns_of, error_within_limit, open_work, raised_pin,
    reply_to_colliding_start, state_changes, status,
};
use crate::test_fault;

/// What an execution has scheduled and not got back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OpenWork {
    /// The execution that scheduled each, by the event that did.
    pub(super) activities: BTreeMap<u64, u64>,
    /// Their instances, by the event that scheduled them.
    pub(super) children: BTreeMap<u64, String>,
}

/// What nobody has read: queue messages and events in the order of arrival, then messages for the
/// next execution that were not admitted.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) queue_messages: Vec<super::subscriptions::Unread>,
    pub(super) events: Vec<super::subscriptions::Unread>,
    pub(super) unadmitted: Vec<WorkItem>,
}

impl OpenWork {
    /// What is open according to a history alone, for executions whose code cannot be run.
    pub(super) fn of_history(history: &[Event]) -> Self {
        let open = open_work(history);
        let id = |item: &WorkItem| columns_of(item).event_id.unwrap_or_default();
        let activities =
            open.activities.iter().map(|item| (id(item), columns_of(item).execution_id.unwrap_or_default()));
        let children = open.children.iter().filter_map(|start| {
            let parent = columns_of(start).parent?;
            Some((parent.event_id, start.instance().to_string()))
        });
        Self { activities: activities.collect(), children: children.collect() }
    }
}

/// Ends an execution whose program has stopped, after the messages that it was given before.
pub(super) fn end_execution(
    mut execution: Execution,
    stop: Stop,
    unadmitted: Vec<WorkItem>,
    mut pass: Pass<'_>,
    metadata: ExecutionMetadata,
) -> TurnResult {
    execution.take_down();
    if let Stop::Unnamed(message) = stop {
        return TurnResult::without_execution(Turn::new(Outcome::Unnamed { message }));
    }
    let children = execution
        .schedules
        .open_ids(ScheduleKind::Child)
        .into_iter()
        .filter_map(|event_id| Some((event_id, execution.schedules.slot(event_id)?.subject())));
    let open = OpenWork {
        activities: execution
            .schedules
            .open_ids(ScheduleKind::Activity)
            .into_iter()
            .map(|event_id| (event_id, execution.scheduled_in(event_id)))
            .collect(),
        children: children.collect(),
    };
    let continues = matches!(stop, Stop::ContinuedAsNew { .. });
    let (unadmitted, late): (Vec<WorkItem>, Vec<WorkItem>) =
        unadmitted.into_iter().partition(|message| continues && outlives_execution(message));
    drop_after_end(&late, execution.parent.as_ref(), &mut pass.actions);
    let leftovers = Leftovers {
        queue_messages: execution.queues.drain_unread(),
        events: execution.events.drain_unread(),
        unadmitted,
    };
    let traces = execution.desk.take_traces();
    let parent = execution.parent.clone();
    let mut turn = end(stop, &execution.identity, parent.as_ref(), open, leftovers, pass.tape, pass.actions);
    turn.traces = traces;
    merge_metadata(&mut turn.metadata, metadata);
    TurnResult::without_execution(turn)
}

/// Ends an execution: appends the last events to the tape and gives the finished turn.
pub(super) fn end(
    stop: Stop,
    identity: &Identity,
    parent: Option<&ParentLink>,
    open: OpenWork,
    leftovers: Leftovers,
    mut tape: Tape<'_>,
    mut actions: Actions,
) -> Turn {
    let (outcome, ending) = outcome_of(within_limit(stop), identity);
    cancel_open_work(&ending, identity, open, &mut tape, &mut actions);
    let mut turn = Turn::new(outcome);
    match ending {
        Ending::Completed(output) => {
            tape.append(None, EventKind::OrchestrationCompleted { output: output.clone() });
            turn.metadata.status = Some(status::COMPLETED.to_string());
            turn.metadata.output = Some(output.clone());
            actions.orchestrator_items.extend(parent.map(|parent| WorkItem::SubOrchCompleted {
                parent_instance: parent.instance.clone(),
                parent_execution_id: parent.execution_id,
                parent_id: parent.event_id,
                result: output,
            }));
        }
        Ending::Failed { details, error } => {
            if let Some(error) = error.clone() {
                tape.append(None, EventKind::ErrorRecorded { error, panicked: false });
            }
            tape.append(None, EventKind::OrchestrationFailed { details: details.clone() });
            turn.metadata.status = Some(status::FAILED.to_string());
            turn.metadata.output = Some(details.display_message());
            let failure = RecordedFailure { details, error };
            actions.orchestrator_items.extend(parent.map(|parent| failure.told_to(parent)));
        }
        Ending::ContinuedAsNew { input, version, custom_status } => {
            tape.append(None, EventKind::OrchestrationContinuedAsNew { input: input.clone() });
            turn.metadata.status = Some(status::CONTINUED_AS_NEW.to_string());
            turn.metadata.output = Some(input.clone());
            let next = NextExecution { input, version, custom_status };
            actions.orchestrator_items.extend(next_execution(identity, parent, next, leftovers));
        }
    }
    finish(turn, tape, actions)
}

/// What the first turn wrote stays, except for the status and output of an end in the same turn.
pub(super) fn merge_metadata(end: &mut ExecutionMetadata, first: ExecutionMetadata) {
    end.orchestration_name = first.orchestration_name;
    end.orchestration_version = first.orchestration_version;
    end.parent_instance_id = first.parent_instance_id;
    end.pinned_duroxide_version = end.pinned_duroxide_version.take().or(first.pinned_duroxide_version);
    if end.status.is_none() {
        end.status = first.status;
    }
}

/// Moves what a pass gathered into the turn.
pub(super) fn finish(mut turn: Turn, tape: Tape<'_>, actions: Actions) -> Turn {
    let Actions { mut worker_items, mut orchestrator_items, cancelled, dropped, scheduled: _ } = actions;
    // What was scheduled and cancelled in the same turn never reaches a queue.
    if !cancelled.is_empty() && !worker_items.is_empty() {
        let ids: BTreeSet<u64> = cancelled.iter().map(|activity| activity.activity_id).collect();
        worker_items.retain(|item| !columns_of(item).event_id.is_some_and(|id| ids.contains(&id)));
    }
    let changes = state_changes(&tape.events);
    if changes.drops_all_timers || !changes.cancelled_timers.is_empty() {
        let ids: BTreeSet<u64> = changes.cancelled_timers.into_iter().collect();
        orchestrator_items.retain(|item| {
            let columns = columns_of(item);
            let is_unwanted =
                changes.drops_all_timers || columns.event_id.is_some_and(|id| ids.contains(&id));
            columns.kind != ItemKind::Timer || !is_unwanted
        });
    }
    if let Some(raised) = raised_pin(tape.pinned.as_ref(), &tape.events) {
        turn.metadata.pinned_duroxide_version = Some(raised);
    }
    turn.events = tape.events;
    turn.worker_items = worker_items;
    turn.orchestrator_items = orchestrator_items;
    turn.cancelled_activities = cancelled;
    turn.dropped = dropped;
    turn
}

enum Ending {
    Completed(String),
    Failed { details: ErrorDetails, error: Option<String> },
    ContinuedAsNew { input: String, version: Option<String>, custom_status: Option<String> },
}

impl Ending {
    fn failed(details: ErrorDetails) -> Self {
        Self::Failed { details, error: None }
    }
}

/// The same with texts that a program chose cut to the limit: an error ends an execution, however long it is.
fn within_limit(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(details) => Stop::Failed(details.within_limit()),
        Stop::Errored { details, error } => Stop::Errored { details: details.within_limit(), error },
        Stop::Nondeterministic(diff) => Stop::Nondeterministic(error_within_limit(diff)),
        Stop::Panicked(message) => Stop::Panicked(error_within_limit(message)),
        Stop::Completed(_) | Stop::ContinuedAsNew { .. } | Stop::Unnamed(_) => stop,
    }
}

fn outcome_of(stop: Stop, identity: &Identity) -> (Outcome, Ending) {
    match stop {
        Stop::Completed(output) => (Outcome::Completed { output: output.clone() }, Ending::Completed(output)),
        Stop::Failed(details) => (Outcome::Failed { details: details.clone() }, Ending::failed(details)),
        Stop::Errored { details, error } => {
            (Outcome::Failed { details: details.clone() }, Ending::Failed { details, error: Some(error) })
        }
        Stop::ContinuedAsNew { input, version, custom_status } => {
            (Outcome::ContinuedAsNew, Ending::ContinuedAsNew { input, version, custom_status })
        }
        Stop::Nondeterministic(diff) => {
            let details = ErrorDetails::nondeterministic(identity.name.clone(), diff.clone());
            (Outcome::Nondeterministic { diff }, Ending::failed(details))
        }
        // The turn is given back instead of being ended.
        Stop::Unnamed(message) => (
            Outcome::Unnamed { message: message.clone() },
            Ending::failed(ErrorDetails::orchestration_failed(message)),
        ),
        Stop::Panicked(message) => {
            let details = ErrorDetails::panicked(message.clone());
            (Outcome::Panicked { message }, Ending::failed(details))
        }
    }
}

fn cancel_open_work(
    ending: &Ending,
    identity: &Identity,
    open: OpenWork,
    tape: &mut Tape<'_>,
    actions: &mut Actions,
) {
    let (word, told) = match ending {
        Ending::Completed(_) => ("completed", "parent completed"),
        Ending::Failed {
            details: ErrorDetails::Application { kind: AppErrorKind::Cancelled { .. }, .. },
            ..
        } => ("failed", PARENT_CANCELED),
        Ending::Failed { .. } => ("failed", PARENT_FAILED),
        Ending::ContinuedAsNew { .. } => ("continued_as_new", "parent continued as new"),
    };
    let reason = format!("{TERMINAL_REASON}_{word}");
    for (id, execution_id) in open.activities {
        tape.append(Some(id), EventKind::ActivityCancelRequested { reason: reason.clone() });
        actions.cancelled.push(ScheduledActivityIdentifier {
            instance: identity.instance.clone(),
            execution_id,
            activity_id: id,
        });
    }
    for (id, instance) in open.children {
        let event = EventKind::SubOrchestrationCancelRequested { reason: TERMINAL_REASON.to_string() };
        tape.append(Some(id), event);
        test_fault!(ChildrenEndWithParent => continue);
        // An execution that gave a child its own id must not cancel itself.
        if instance != identity.instance {
            let cancel = WorkItem::CancelInstance { instance, reason: told.to_string() };
            actions.orchestrator_items.push(cancel);
        }
    }
}

/// What the program says about the next execution.
struct NextExecution {
    input: String,
    version: Option<String>,
    custom_status: Option<String>,
}

/// The start of the next execution, followed by what this one did not read, in its order.
fn next_execution(
    identity: &Identity,
    parent: Option<&ParentLink>,
    next: NextExecution,
    leftovers: Leftovers,
) -> Vec<WorkItem> {
    let instance = &identity.instance;
    let mut queue_messages = leftovers.queue_messages.into_iter();
    let carried = queue_messages
        .by_ref()
        .take(MAX_CARRY_FORWARD_EVENTS)
        .map(|message| (message.name, message.data))
        .collect();
    let start = WorkItem::ContinueAsNew {
        instance: instance.clone(),
        orchestration: identity.name.clone(),
        input: next.input,
        version: next.version,
        parent_instance: parent.map(|parent| parent.instance.clone()),
        parent_id: parent.map(|parent| parent.event_id),
        parent_execution_id: parent.map(|parent| parent.execution_id),
        carry_forward_events: carried,
        initial_custom_status: next.custom_status,
    };
    let mut unread: Vec<(u64, WorkItem)> = queue_messages
        .map(|message| {
            let item =
                WorkItem::QueueMessage { instance: instance.clone(), name: message.name, data: message.data };
            (message.arrival, item)
        })
        .chain(leftovers.events.into_iter().map(|event| {
            let item =
                WorkItem::ExternalRaised { instance: instance.clone(), name: event.name, data: event.data };
            (event.arrival, item)
        }))
        .collect();
    unread.sort_by_key(|(arrival, _)| *arrival);
    std::iter::once(start)
        .chain(unread.into_iter().map(|(_, item)| item))
        .chain(leftovers.unadmitted)
        .collect()
}

/// Whether a message that was not admitted is for the next execution as well.
fn outlives_execution(message: &WorkItem) -> bool {
    match columns_of(message).kind {
        ItemKind::Event | ItemKind::Cancel => true,
        ItemKind::Start
        | ItemKind::ContinueAsNew
        | ItemKind::Activity
        | ItemKind::Completion
        | ItemKind::Note
        | ItemKind::Timer => false,
    }
}

/// Drops messages that came after the end. A parent whose child would have had this id is told that it is taken.
pub(super) fn drop_after_end(messages: &[WorkItem], parent: Option<&ParentLink>, actions: &mut Actions) {
    for message in messages {
        let reply = match columns_of(message).kind {
            ItemKind::Start => reply_to_colliding_start(message, parent),
            ItemKind::ContinueAsNew
            | ItemKind::Activity
            | ItemKind::Completion
            | ItemKind::Note
            | ItemKind::Timer
            | ItemKind::Event
            | ItemKind::Cancel => None,
        };
        actions.orchestrator_items.extend(reply);
        actions.dropped.push(DropReason::AfterEnd);
    }
}
