//! Running one turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::OrchestrationHandler;
use super::asking::Step;
use super::behaviour::Behaviour;
use super::context::Identity;
use super::ending::{Leftovers, OpenWork, drop_after_end, end, finish, outlives_execution};
use super::execution::{Actions, Execution, Pass, Stop};
use super::guards::Guards;
use super::mismatch::damaged_history;
use super::schedules::ScheduleKind;
use super::start::{append_start, starts, take_start, unknown_start};
use super::tape::Tape;
use super::turn::{Before, Outcome, Turn, TurnInput};
use crate::model::limits::CARRIED_VALUES_PER_EVENT_BYTES;
use crate::model::redrive::UNKNOWN_VERSION;
use crate::model::{
    ErrorDetails, Event, EventKind, ExecutionMetadata, INITIAL_EVENT_ID, KvEntry, ParentLink, WorkItem,
    cancel_ends_at_once, cancel_policy_of, columns_of, error_within_limit, pinned_version_of,
};
use crate::protection::Protection;

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

/// Begins a turn: admits the messages one by one and lets the program run after each, up to the end of the turn or
/// until the program wants to know something that only a store can tell.
///
/// Cannot fail: whatever the program or the history does becomes an [`Outcome`].
///
/// A cancel among the messages comes before all of them, and before the program: one that never waits cannot outrun
/// it.
pub fn begin_turn(before: Before<'_>, input: TurnInput) -> Step<'_> {
    begin_guarded_turn(before, input, Guards::default())
}

/// [`begin_turn`] with guards against programs that wait for what is not durable.
pub fn begin_guarded_turn(before: Before<'_>, mut input: TurnInput, guards: Guards) -> Step<'_> {
    let cancel = take_cancel(&mut input.messages);
    match (before, cancel) {
        (Before::Held(mut execution), cancel) => {
            input.messages.splice(0..0, cancel);
            execution.guards = guards;
            run_held(*execution, input)
        }
        (Before::Stored { history, .. }, cancel) if has_ended(history) => {
            input.messages.extend(cancel);
            let parent = history.first().and_then(|started| parent_of(&started.kind));
            Step::done(TurnResult::without_execution(already_ended(parent.as_ref(), &input.messages)))
        }
        (Before::Stored { version, history, .. }, Some(cancel))
            if has_begun(history, &input) && cancel_ends_at_once(history) =>
        {
            Step::done(cancel_before_program(version, history, &cancel, input))
        }
        (Before::Stored { handler, version, history }, Some(cancel)) if has_begun(history, &input) => {
            let without_program = input.clone();
            input.messages.insert(0, cancel.clone());
            let step = run_stored(handler, version.clone(), history, input, guards);
            let fits = !matches!(&step, Step::Done(result) if does_not_fit(&result.turn));
            // Code that does not fit cannot undo anything.
            if fits {
                return step;
            }
            Step::done(cancel_before_program(version, history, &cancel, without_program))
        }
        (Before::Stored { handler, version, history }, cancel) => {
            input.messages.extend(cancel);
            run_stored(handler, version, history, input, guards)
        }
    }
}

/// Whether the history of a turn that begins with a cancel could not be replayed.
fn does_not_fit(turn: &Turn) -> bool {
    let is_cancel = |event: &Event| matches!(event.kind, EventKind::OrchestrationCancelRequested { .. });
    matches!(turn.outcome, Outcome::Nondeterministic { .. }) && !turn.events.iter().any(is_cancel)
}

fn run_stored(
    handler: Arc<dyn OrchestrationHandler>,
    version: String,
    history: &[Event],
    input: TurnInput,
    guards: Guards,
) -> Step<'_> {
    let Some(started) = history.first() else { return run_first(handler, version, input, guards) };
    let execution_id = input.execution_id;
    match check_ids(history).and_then(|()| Execution::new(handler, started, execution_id, guards)) {
        Ok(execution) => run_replayed(execution, history, input),
        Err(diff) => Step::done(end_history(Stop::Nondeterministic(diff), history, input)),
    }
}

/// Takes the first cancel out of the batch, wherever it stands.
fn take_cancel(messages: &mut Vec<WorkItem>) -> Option<WorkItem> {
    if Protection::CancelComesFirst.is_off() {
        return None;
    }
    let is_cancel = |message: &WorkItem| matches!(message, WorkItem::CancelInstance { .. });
    messages.iter().position(is_cancel).map(|index| messages.remove(index))
}

/// Whether there is an execution, or a message that starts one.
fn has_begun(history: &[Event], input: &TurnInput) -> bool {
    !history.is_empty() || input.messages.iter().any(|message| starts(message, input.execution_id))
}

/// Ends an execution before its program runs, first turn or not.
fn cancel_before_program(
    version: String,
    history: &[Event],
    cancel: &WorkItem,
    input: TurnInput,
) -> TurnResult {
    let reason = if let WorkItem::CancelInstance { reason, .. } = cancel { reason.as_str() } else { "" };
    let stored = StoredExecution {
        instance: input.instance,
        execution_id: input.execution_id,
        name: String::new(),
        version,
        parent: None,
        history,
        last_event_id: 0,
    };
    let turn = cancel_without_handler(&stored, reason, input.messages, input.now_ms);
    TurnResult::without_execution(turn)
}

fn run_held<'a>(execution: Execution, input: TurnInput) -> Step<'a> {
    let now_ms = input.now_ms.max(execution.last_timestamp_ms);
    execution.desk.view(|view| view.now_ms = now_ms);
    let next = execution.last_event_id.saturating_add(1);
    let mut tape = Tape::new(&[], &input.instance, input.execution_id, now_ms, input.entropy, next);
    tape.pinned.clone_from(&execution.pinned);
    let pass = Pass { tape, actions: Actions::default() };
    admit_all(execution, input.messages.into_iter(), pass, ExecutionMetadata::default())
}

fn run_replayed(mut execution: Execution, history: &[Event], input: TurnInput) -> Step<'_> {
    let last_timestamp = history.iter().map(|event| event.timestamp_ms).max().unwrap_or_default();
    let now_ms = input.now_ms.max(last_timestamp);
    let rest = &history[1..];
    for event in rest {
        if let EventKind::KeyValuesCarried { values } = &event.kind {
            execution.carry_over(values);
        } else if let EventKind::PatchMarked { id } = &event.kind {
            execution.desk.view(|view| view.patches.note(id));
        }
    }
    let mut tape =
        Tape::new(rest, &input.instance, input.execution_id, now_ms, input.entropy, INITIAL_EVENT_ID + 1);
    execution.pinned = pinned_version_of(history);
    execution.cancelling.policy = cancel_policy_of(history);
    tape.pinned.clone_from(&execution.pinned);
    let mut pass = Pass { tape, actions: Actions::default() };
    if execution.guards.keep_events {
        execution.kept_events = Some(history.to_vec());
    }
    match execution.replay(&mut pass) {
        Ok(()) => {
            execution.last_event_id = pass.tape.next_event_id().saturating_sub(1);
            execution.last_timestamp_ms = last_timestamp;
            admit_all(execution, input.messages.into_iter(), pass, ExecutionMetadata::default())
        }
        Err(stop) if pass.tape.events.is_empty() => {
            execution.take_down();
            let is_mismatch = matches!(stop, Stop::Nondeterministic(_));
            if is_mismatch || pass.tape.is_replaying() {
                return Step::done(end_history(stop, history, input));
            }
            let metadata = ExecutionMetadata::default();
            Step::done(end_execution(execution, stop, input.messages, pass, metadata))
        }
        Err(stop) => {
            let metadata = ExecutionMetadata::default();
            Step::done(end_execution(execution, stop, input.messages, pass, metadata))
        }
    }
}

fn run_first<'a>(
    handler: Arc<dyn OrchestrationHandler>,
    version: String,
    mut input: TurnInput,
    guards: Guards,
) -> Step<'a> {
    let Some(start) = take_start(&mut input.messages, input.execution_id) else {
        return Step::done(TurnResult::without_execution(Turn::new(Outcome::NotStarted)));
    };
    let mut tape =
        Tape::new(&[], &input.instance, input.execution_id, input.now_ms, input.entropy, INITIAL_EVENT_ID);
    let metadata = append_start(&mut tape, start, version);
    let started = tape.events[0].clone();
    // The execution counts its start itself.
    tape.bytes = 0;
    if let Some(policy) = handler.cancel_policy() {
        tape.append(None, policy.recorded());
    }
    let policy = cancel_policy_of(&tape.events);
    tape.pinned.clone_from(&metadata.pinned_duroxide_version);
    let mut pass = Pass { tape, actions: Actions::default() };
    let mut execution = match Execution::new(handler, &started, input.execution_id, guards) {
        Ok(execution) => execution,
        Err(diff) => unreachable!("the event was built as a start: {diff}"),
    };
    execution.cancelling.policy = policy;
    let carried = carried_values(input.kv);
    for values in &carried {
        execution.carry_over(values);
    }
    if execution.guards.keep_events {
        execution.kept_events = Some(Vec::new());
    }
    let settled = execution.settle(&mut pass);
    for values in carried {
        pass.tape.append(None, EventKind::KeyValuesCarried { values });
    }
    match settled {
        Ok(()) => admit_all(execution, input.messages.into_iter(), pass, metadata),
        Err(stop) => Step::done(end_execution(execution, stop, input.messages, pass, metadata)),
    }
}

/// The values in as few events as their size allows.
fn carried_values(kv: BTreeMap<String, KvEntry>) -> Vec<BTreeMap<String, KvEntry>> {
    let mut parts: Vec<BTreeMap<String, KvEntry>> = Vec::new();
    let mut room = 0;
    for (key, entry) in kv {
        let bytes = key.len() + entry.value.len();
        if bytes > room || parts.is_empty() {
            parts.push(BTreeMap::new());
            room = CARRIED_VALUES_PER_EVENT_BYTES;
        }
        room = room.saturating_sub(bytes);
        if let Some(part) = parts.last_mut() {
            part.insert(key, entry);
        }
    }
    parts
}

/// Admits the messages. What the program asks is answered before the next message, so that the history does not
/// depend on how messages were batched.
pub(super) fn admit_all<'a>(
    mut execution: Execution,
    mut messages: std::vec::IntoIter<WorkItem>,
    mut pass: Pass<'a>,
    metadata: ExecutionMetadata,
) -> Step<'a> {
    loop {
        if !execution.questions.is_empty() {
            return Step::asks(execution, messages, pass, metadata);
        }
        let Some(message) = messages.next() else { break };
        if let Err(stop) = execution.admit(message, &mut pass) {
            return Step::done(end_execution(execution, stop, messages.collect(), pass, metadata));
        }
    }
    execution.history_bytes += pass.tape.bytes;
    if let Some(last) = pass.tape.events.last() {
        // A turn without events leaves no trace in the history, so it leaves none here either.
        execution.last_event_id = last.event_id;
        execution.last_timestamp_ms = last.timestamp_ms;
    }
    let mut turn = Turn::new(Outcome::Waiting);
    turn.traces = execution.desk.take_traces();
    turn.metadata = metadata;
    let turn = finish(turn, pass.tape, pass.actions);
    if let Some(kept) = execution.kept_events.as_mut() {
        kept.extend_from_slice(&turn.events);
    }
    if turn.metadata.pinned_duroxide_version.is_some() {
        execution.pinned.clone_from(&turn.metadata.pinned_duroxide_version);
    }
    Step::done(TurnResult { turn, execution: Some(Box::new(execution)) })
}

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

/// Ends an execution whose code does not fit its history, or stopped in the middle of it.
pub(super) fn end_history(stop: Stop, history: &[Event], input: TurnInput) -> TurnResult {
    if let Stop::Unnamed(message) = stop {
        return TurnResult::without_execution(Turn::new(Outcome::Unnamed { message }));
    }
    let stored = StoredExecution {
        instance: input.instance,
        execution_id: input.execution_id,
        name: String::new(),
        version: String::new(),
        parent: None,
        history,
        last_event_id: 0,
    };
    TurnResult::without_execution(end_stored(&stored, stop, input.messages, input.now_ms, None))
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
    /// The version that a handler would run, or that was asked for, for an execution without history; empty if
    /// neither is known.
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
    messages: Vec<WorkItem>,
    now_ms: u64,
) -> Turn {
    end_stored(stored, Stop::Failed(details), messages, now_ms, None)
}

/// The same for a cancellation.
pub fn cancel_without_handler(
    stored: &StoredExecution<'_>,
    reason: &str,
    messages: Vec<WorkItem>,
    now_ms: u64,
) -> Turn {
    let reason = error_within_limit(reason.to_string());
    end_stored(stored, Stop::Failed(ErrorDetails::cancelled(&reason)), messages, now_ms, Some(&reason))
}

fn end_stored(
    stored: &StoredExecution<'_>,
    stop: Stop,
    mut messages: Vec<WorkItem>,
    now_ms: u64,
    cancel_reason: Option<&str>,
) -> Turn {
    let begun = stored.history.first().and_then(|event| parent_of(&event.kind));
    if has_ended(stored.history) {
        return already_ended(begun.as_ref().or(stored.parent.as_ref()), &messages);
    }
    let last_timestamp = stored.history.iter().map(|event| event.timestamp_ms).max().unwrap_or_default();
    let last_event_id =
        stored.history.iter().map(|event| event.event_id).max().unwrap_or(stored.last_event_id);
    let now_ms = now_ms.max(last_timestamp);
    let next_id = last_event_id.saturating_add(1);
    let mut tape = Tape::new(&[], &stored.instance, stored.execution_id, now_ms, 0, next_id);
    tape.pinned = pinned_version_of(stored.history);
    let mut metadata = ExecutionMetadata::default();
    let mut parent = stored.parent.clone();
    let mut name = stored.name.clone();
    if let Some(EventKind::OrchestrationStarted { name: started, .. }) =
        stored.history.first().map(|event| &event.kind)
    {
        name.clone_from(started);
        parent = begun;
    } else if last_event_id == 0 {
        let start = take_start(&mut messages, stored.execution_id).unwrap_or_else(|| unknown_start(stored));
        let columns = columns_of(&start);
        let known = Some(stored.version.as_str()).filter(|version| !version.is_empty());
        let version = columns.version.or(known).unwrap_or(UNKNOWN_VERSION).to_string();
        parent = columns.parent.clone().or(parent);
        metadata = append_start(&mut tape, start, version);
    }
    if let Some(reason) = cancel_reason {
        tape.append(None, EventKind::OrchestrationCancelRequested { reason: reason.to_string() });
    }
    let identity = Identity {
        instance: stored.instance.clone(),
        execution_id: stored.execution_id,
        name,
        version: stored.version.clone(),
        behaviour: stored.history.first().map(Behaviour::of).unwrap_or_default(),
        names: Arc::default(),
    };
    let open = OpenWork::of_history(stored.history);
    let mut actions = Actions::default();
    drop_after_end(&messages, parent.as_ref(), &mut actions);
    let mut turn = end(stop, &identity, parent.as_ref(), open, Leftovers::default(), tape, actions);
    merge_metadata(&mut turn.metadata, metadata);
    turn
}

/// An execution ends once; whatever follows its end in a damaged history changes nothing.
fn has_ended(history: &[Event]) -> bool {
    history.iter().any(Event::is_terminal)
}

fn already_ended(parent: Option<&ParentLink>, messages: &[WorkItem]) -> Turn {
    let mut actions = Actions::default();
    drop_after_end(messages, parent, &mut actions);
    let mut turn = Turn::new(Outcome::AlreadyEnded);
    turn.orchestrator_items = actions.orchestrator_items;
    turn.dropped = actions.dropped;
    turn
}

/// The engine finds everything by event id, so the ids must be what it wrote: 1, 2, 3 and so on.
fn check_ids(history: &[Event]) -> Result<(), String> {
    (INITIAL_EVENT_ID..)
        .zip(history)
        .find(|(position, event)| *position != event.event_id)
        .map_or(Ok(()), |(position, event)| Err(damaged_history(position, event.event_id)))
}

fn parent_of(started: &EventKind) -> Option<ParentLink> {
    let EventKind::OrchestrationStarted { parent_instance, parent_id, parent_execution_id, .. } = started
    else {
        return None;
    };
    ParentLink::from_fields(parent_instance.as_deref(), *parent_execution_id, *parent_id)
}

/// What the first turn wrote stays, except for the status and output of an end in the same turn.
fn merge_metadata(end: &mut ExecutionMetadata, first: ExecutionMetadata) {
    end.orchestration_name = first.orchestration_name;
    end.orchestration_version = first.orchestration_version;
    end.parent_instance_id = first.parent_instance_id;
    end.pinned_duroxide_version = end.pinned_duroxide_version.take().or(first.pinned_duroxide_version);
    if end.status.is_none() {
        end.status = first.status;
    }
}
