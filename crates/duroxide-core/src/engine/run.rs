//! Running one turn.

use super::context::Identity;
use super::ending::{Leftovers, OpenChild, OpenWork, end, finish};
use super::execution::{Actions, Execution, Pass, Stop};
use super::schedules::ScheduleKind;
use super::tape::Tape;
use super::turn::{Before, DropReason, Outcome, Turn, TurnInput};
use crate::model::{
    ErrorDetails, Event, EventKind, ExecutionMetadata, INITIAL_EVENT_ID, ItemKind, ParentLink, WorkItem,
    columns_of, current_build_version, status,
};

/// A turn and, if the execution goes on, the execution to hold for the next one.
#[derive(Debug)]
pub struct TurnResult {
    /// What to commit.
    pub turn: Turn,
    /// Holds exactly what the history will hold once the turn is committed.
    pub execution: Option<Box<Execution>>,
}

impl TurnResult {
    fn without_execution(turn: Turn) -> Self {
        Self { turn, execution: None }
    }
}

/// Runs one turn: admits the messages one by one and lets the program run after each.
///
/// Cannot fail: whatever the program or the history does becomes an [`Outcome`].
pub fn run_turn(before: Before<'_>, input: TurnInput) -> TurnResult {
    match before {
        Before::Held(execution) => run_held(*execution, input),
        Before::Stored { handler, version, history } => match history.first() {
            Some(_) if history.last().is_some_and(Event::is_terminal) => {
                let mut turn = Turn::new(Outcome::AlreadyEnded);
                turn.dropped = vec![DropReason::AfterEnd; input.messages.len()];
                TurnResult::without_execution(turn)
            }
            Some(started) => match Execution::new(handler, started) {
                Ok(execution) => run_replayed(execution, history, input),
                Err(diff) => end_history(Stop::Nondeterministic(diff), history, input),
            },
            None => run_first(handler, version, input),
        },
    }
}

fn run_held(execution: Execution, input: TurnInput) -> TurnResult {
    let now_ms = input.now_ms.max(execution.last_timestamp_ms);
    let next = execution.last_event_id + 1;
    let tape = Tape::new(&[], &input.instance, input.execution_id, now_ms, input.entropy, next);
    admit_all(
        execution,
        input.messages,
        Pass { tape, actions: Actions::default() },
        ExecutionMetadata::default(),
    )
}

fn run_replayed(mut execution: Execution, history: &[Event], input: TurnInput) -> TurnResult {
    let last_timestamp = history.iter().map(|event| event.timestamp_ms).max().unwrap_or_default();
    let now_ms = input.now_ms.max(last_timestamp);
    let rest = &history[1..];
    let tape =
        Tape::new(rest, &input.instance, input.execution_id, now_ms, input.entropy, INITIAL_EVENT_ID + 1);
    let mut pass = Pass { tape, actions: Actions::default() };
    match execution.replay(&mut pass) {
        Ok(()) => {
            execution.last_timestamp_ms = last_timestamp;
            admit_all(execution, input.messages, pass, ExecutionMetadata::default())
        }
        Err(stop) if pass.tape.events.is_empty() => {
            execution.take_down();
            let is_mismatch = matches!(stop, Stop::Nondeterministic(_));
            if is_mismatch || pass.tape.is_replaying() {
                return end_history(stop, history, input);
            }
            end_execution(execution, stop, input.messages, pass, ExecutionMetadata::default())
        }
        Err(stop) => end_execution(execution, stop, input.messages, pass, ExecutionMetadata::default()),
    }
}

fn run_first(
    handler: std::sync::Arc<dyn super::OrchestrationHandler>,
    version: String,
    mut input: TurnInput,
) -> TurnResult {
    let Some(start) = take_start(&mut input.messages) else {
        return TurnResult::without_execution(Turn::new(Outcome::NotStarted));
    };
    let mut tape =
        Tape::new(&[], &input.instance, input.execution_id, input.now_ms, input.entropy, INITIAL_EVENT_ID);
    let metadata = first_metadata(&start, &version);
    tape.append(None, started_event(start, version));
    let started = tape.events[0].clone();
    let mut pass = Pass { tape, actions: Actions::default() };
    let mut execution = match Execution::new(handler, &started) {
        Ok(execution) => execution,
        Err(diff) => unreachable!("the event was built as a start: {diff}"),
    };
    match execution.settle(&mut pass) {
        Ok(()) => admit_all(execution, input.messages, pass, metadata),
        Err(stop) => end_execution(execution, stop, input.messages, pass, metadata),
    }
}

fn admit_all(
    mut execution: Execution,
    messages: Vec<WorkItem>,
    mut pass: Pass<'_>,
    metadata: ExecutionMetadata,
) -> TurnResult {
    let mut messages = messages.into_iter();
    while let Some(message) = messages.next() {
        if let Err(stop) = execution.admit(message, &mut pass) {
            return end_execution(execution, stop, messages.collect(), pass, metadata);
        }
    }
    execution.last_event_id = pass.tape.next_event_id() - 1;
    execution.last_timestamp_ms = pass.tape.now_ms;
    let mut turn = Turn::new(Outcome::Waiting);
    turn.traces = execution.desk.take_traces();
    turn.metadata = metadata;
    let turn = finish(turn, pass.tape, pass.actions);
    TurnResult { turn, execution: Some(Box::new(execution)) }
}

fn end_execution(
    mut execution: Execution,
    stop: Stop,
    unadmitted: Vec<WorkItem>,
    mut pass: Pass<'_>,
    metadata: ExecutionMetadata,
) -> TurnResult {
    execution.take_down();
    let children = execution.schedules.open_ids(ScheduleKind::Child).into_iter().filter_map(|event_id| {
        let instance = execution.schedules.slot(event_id)?.subject();
        Some(OpenChild { event_id, instance })
    });
    let open = OpenWork {
        activities: execution.schedules.open_ids(ScheduleKind::Activity),
        children: children.collect(),
    };
    if !matches!(stop, Stop::ContinuedAsNew { .. }) {
        pass.actions.dropped.extend(unadmitted.iter().map(|_| DropReason::AfterEnd));
    }
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

/// Ends an execution whose code does not fit its history, or stopped in the middle of it.
fn end_history(stop: Stop, history: &[Event], input: TurnInput) -> TurnResult {
    let stored = StoredExecution {
        instance: input.instance,
        execution_id: input.execution_id,
        name: String::new(),
        version: String::new(),
        parent: None,
        history,
        last_event_id: 0,
    };
    TurnResult::without_execution(end_stored(&stored, stop, None, input.now_ms, input.messages.len(), None))
}

/// An execution that is ended without running its code.
#[derive(Debug, Clone)]
pub struct StoredExecution<'a> {
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution_id: u64,
    /// The orchestration's name, for an execution without history.
    pub name: String,
    /// The version asked for, for an execution without history; empty for none.
    pub version: String,
    /// Who waits for the result, where the history does not tell.
    pub parent: Option<ParentLink>,
    /// The stored events; empty if there are none or they cannot be decoded.
    pub history: &'a [Event],
    /// The last stored event, where the history does not tell.
    pub last_event_id: u64,
}

/// Ends an execution without its handler: poisoned, cancelled, or not to be replayed here.
///
/// Writes `OrchestrationStarted` if there is none, with the version asked for or 0.0.0; a cancellation is
/// recorded with its reason. Open activities and children are cancelled and the parent is told.
pub fn end_without_handler(
    stored: &StoredExecution<'_>,
    details: ErrorDetails,
    mut messages: Vec<WorkItem>,
    now_ms: u64,
) -> Turn {
    let start = take_start(&mut messages);
    end_stored(stored, Stop::Failed(details), start, now_ms, messages.len(), None)
}

/// The same for a cancellation.
pub fn cancel_without_handler(
    stored: &StoredExecution<'_>,
    reason: &str,
    mut messages: Vec<WorkItem>,
    now_ms: u64,
) -> Turn {
    let start = take_start(&mut messages);
    let details = ErrorDetails::Application {
        kind: crate::model::AppErrorKind::Cancelled { reason: reason.to_string() },
        message: format!("canceled: {reason}"),
        retryable: false,
    };
    end_stored(stored, Stop::Failed(details), start, now_ms, messages.len(), Some(reason))
}

fn end_stored(
    stored: &StoredExecution<'_>,
    stop: Stop,
    start: Option<WorkItem>,
    now_ms: u64,
    messages: usize,
    cancel_reason: Option<&str>,
) -> Turn {
    let last_timestamp = stored.history.iter().map(|event| event.timestamp_ms).max().unwrap_or_default();
    let last_event_id = stored.history.last().map_or(stored.last_event_id, |event| event.event_id);
    let now_ms = now_ms.max(last_timestamp);
    let mut tape = Tape::new(&[], &stored.instance, stored.execution_id, now_ms, 0, last_event_id + 1);
    let mut metadata = ExecutionMetadata::default();
    let mut parent = stored.parent.clone();
    let mut name = stored.name.clone();
    let begun = stored.history.first().map(|event| &event.kind);
    if let Some(EventKind::OrchestrationStarted {
        name: started,
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    }) = begun
    {
        name.clone_from(started);
        parent = ParentLink::from_fields(parent_instance.as_deref(), *parent_execution_id, *parent_id);
    } else if last_event_id == 0 {
        let start = start.unwrap_or_else(|| unknown_start(stored));
        let columns = columns_of(&start);
        let version = columns.version.unwrap_or("0.0.0").to_string();
        parent = columns.parent.clone().or(parent);
        metadata = first_metadata(&start, &version);
        tape.append(None, started_event(start, version));
    }
    if let Some(reason) = cancel_reason {
        tape.append(None, EventKind::OrchestrationCancelRequested { reason: reason.to_string() });
    }
    let identity = Identity {
        instance: stored.instance.clone(),
        execution_id: stored.execution_id,
        name,
        version: stored.version.clone(),
    };
    let open = OpenWork::of_history(stored.history);
    let actions = Actions { dropped: vec![DropReason::AfterEnd; messages], ..Actions::default() };
    let mut turn = end(stop, &identity, parent.as_ref(), open, Leftovers::default(), tape, actions);
    merge_metadata(&mut turn.metadata, metadata);
    turn
}

/// Takes the message that starts the execution out of the batch, wherever it stands.
fn take_start(messages: &mut Vec<WorkItem>) -> Option<WorkItem> {
    let is_start =
        |message: &WorkItem| matches!(columns_of(message).kind, ItemKind::Start | ItemKind::ContinueAsNew);
    let index = messages.iter().position(is_start)?;
    Some(messages.remove(index))
}

fn unknown_start(stored: &StoredExecution<'_>) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: stored.instance.clone(),
        orchestration: stored.name.clone(),
        input: String::new(),
        version: Some(stored.version.clone()).filter(|version| !version.is_empty()),
        parent_instance: stored.parent.as_ref().map(|parent| parent.instance.clone()),
        parent_id: stored.parent.as_ref().map(|parent| parent.event_id),
        parent_execution_id: stored.parent.as_ref().map(|parent| parent.execution_id),
        execution_id: stored.execution_id,
    }
}

fn first_metadata(start: &WorkItem, version: &str) -> ExecutionMetadata {
    let columns = columns_of(start);
    ExecutionMetadata {
        status: Some(status::RUNNING.to_string()),
        output: None,
        orchestration_name: columns.name.map(str::to_string),
        orchestration_version: Some(version.to_string()),
        parent_instance_id: columns.parent.map(|parent| parent.instance),
        pinned_duroxide_version: Some(current_build_version()),
    }
}

/// What the first turn wrote stays, except for the status and output of an end in the same turn.
fn merge_metadata(end: &mut ExecutionMetadata, first: ExecutionMetadata) {
    end.orchestration_name = first.orchestration_name;
    end.orchestration_version = first.orchestration_version;
    end.parent_instance_id = first.parent_instance_id;
    end.pinned_duroxide_version = first.pinned_duroxide_version;
    if end.status.is_none() {
        end.status = first.status;
    }
}

fn started_event(start: WorkItem, version: String) -> EventKind {
    let (name, input, parent_instance, parent_id, parent_execution_id, carried, initial_custom_status) =
        match start {
            WorkItem::StartOrchestration {
                orchestration,
                input,
                parent_instance,
                parent_id,
                parent_execution_id,
                ..
            } => (orchestration, input, parent_instance, parent_id, parent_execution_id, Vec::new(), None),
            WorkItem::ContinueAsNew {
                orchestration,
                input,
                parent_instance,
                parent_id,
                parent_execution_id,
                carry_forward_events,
                initial_custom_status,
                ..
            } => (
                orchestration,
                input,
                parent_instance,
                parent_id,
                parent_execution_id,
                carry_forward_events,
                initial_custom_status,
            ),
            WorkItem::ActivityExecute { .. }
            | WorkItem::ActivityCompleted { .. }
            | WorkItem::ActivityFailed { .. }
            | WorkItem::TimerFired { .. }
            | WorkItem::ExternalRaised { .. }
            | WorkItem::QueueMessage { .. }
            | WorkItem::CancelInstance { .. }
            | WorkItem::SubOrchCompleted { .. }
            | WorkItem::SubOrchFailed { .. } => unreachable!("take_start takes only starts"),
        };
    EventKind::OrchestrationStarted {
        name,
        version,
        input,
        parent_instance,
        parent_id,
        parent_execution_id,
        carry_forward_events: Some(carried).filter(|carried| !carried.is_empty()),
        initial_custom_status,
    }
}
