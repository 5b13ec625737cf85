//! Ending an execution without running its code: its history says what is open and which instance waits for it.

use std::sync::Arc;

use super::behaviour::Behaviour;
use super::context::Identity;
use super::ending::{Leftovers, OpenWork, drop_after_end, end, merge_metadata};
use super::execution::{Actions, Stop};
use super::run::TurnResult;
use super::start::{append_start, take_start, unknown_start};
use super::tape::Tape;
use super::turn::{Outcome, Turn, TurnInput};
use crate::model::redrive::UNKNOWN_VERSION;
use crate::model::{
    ErrorDetails, Event, EventKind, ExecutionMetadata, ParentLink, WorkItem, columns_of, error_within_limit,
    pinned_version_of,
};

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
    /// The parent that waits for the result, where the history does not tell.
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

/// Ends an execution before its program runs, first turn or not.
pub(super) fn cancel_before_program(
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
pub(super) fn has_ended(history: &[Event]) -> bool {
    history.iter().any(Event::is_terminal)
}

pub(super) fn already_ended(parent: Option<&ParentLink>, messages: &[WorkItem]) -> Turn {
    let mut actions = Actions::default();
    drop_after_end(messages, parent, &mut actions);
    let mut turn = Turn::new(Outcome::AlreadyEnded);
    turn.orchestrator_items = actions.orchestrator_items;
    turn.dropped = actions.dropped;
    turn
}

pub(super) fn parent_of(started: &EventKind) -> Option<ParentLink> {
    let EventKind::OrchestrationStarted { parent_instance, parent_id, parent_execution_id, .. } = started
    else {
        return None;
    };
    ParentLink::from_fields(parent_instance.as_deref(), *parent_execution_id, *parent_id)
}
