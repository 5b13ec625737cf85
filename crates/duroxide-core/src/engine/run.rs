//! Running one turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::OrchestrationHandler;
use super::asking::Step;
use super::end_stored::{already_ended, cancel_before_program, end_history, has_ended, parent_of};
use super::ending::{end_execution, finish};
use super::execution::{Actions, Execution, Pass, Stop};
use super::guards::Guards;
use super::mismatch::damaged_history;
use super::start::{append_start, starts, take_start};
use super::tape::Tape;
use super::turn::{Before, Outcome, Turn, TurnInput};
use crate::model::limits::CARRIED_VALUES_PER_EVENT_BYTES;
use crate::model::{
    Event, EventKind, ExecutionMetadata, INITIAL_EVENT_ID, KvEntry, WorkItem, cancel_ends_at_once,
    cancel_policy_of, pinned_version_of,
};
use crate::test_fault;

/// A turn and, if the execution goes on, the execution to hold for the next one.
#[derive(Debug)]
pub struct TurnResult {
    /// What to commit.
    pub turn: Turn,
    /// Holds exactly what the history will hold once the turn is committed.
    pub execution: Option<Box<Execution>>,
}

impl TurnResult {
    pub(super) fn without_execution(turn: Turn) -> Self {
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
    test_fault!(CancelComesFirst => return None);
    let is_cancel = |message: &WorkItem| matches!(message, WorkItem::CancelInstance { .. });
    messages.iter().position(is_cancel).map(|index| messages.remove(index))
}

/// Whether there is an execution, or a message that starts one.
fn has_begun(history: &[Event], input: &TurnInput) -> bool {
    !history.is_empty() || input.messages.iter().any(|message| starts(message, input.execution_id))
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

/// The engine finds everything by event id, so the ids must be what it wrote: 1, 2, 3 and so on.
fn check_ids(history: &[Event]) -> Result<(), String> {
    (INITIAL_EVENT_ID..)
        .zip(history)
        .find(|(position, event)| *position != event.event_id)
        .map_or(Ok(()), |(position, event)| Err(damaged_history(position, event.event_id)))
}
