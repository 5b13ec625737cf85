//! Replaying a history against the registered code, from every prefix of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duroxide_core::{
    AppErrorKind, Before, ErrorDetails, Event, EventKind, OrchestrationHandler, Outcome, SYSCALL_PREFIX,
    Turn, TurnInput, cancel_policy_of, run_turn,
};

use super::{RecordedHistory, ReplayError};
use crate::runtime::program_log::muted;

/// Up to so many prefixes all are replayed; of more, about so many. A replay takes as long as its prefix is.
const MAX_PREFIXES: usize = 200;

/// Replays every execution of a history. `handler_of` gives the handler of a name and a version.
pub(crate) fn replay_all(
    history: &RecordedHistory,
    handler_of: impl Fn(&str, &str) -> Option<Arc<dyn OrchestrationHandler>>,
) -> Result<(), ReplayError> {
    for events in &history.executions {
        let Some(EventKind::OrchestrationStarted { name, version, .. }) =
            events.first().map(|event| &event.kind)
        else {
            return Err(ReplayError::damaged("an execution does not begin with its start"));
        };
        let handler = handler_of(name, version).ok_or_else(|| ReplayError::NotRegistered {
            orchestration: name.clone(),
            version: version.clone(),
        })?;
        replay_execution(&handler, version, events)?;
    }
    Ok(())
}

fn replay_execution(
    handler: &Arc<dyn OrchestrationHandler>,
    version: &str,
    events: &[Event],
) -> Result<(), ReplayError> {
    let prefixes = prefixes_of(events);
    let step = prefixes.len().div_ceil(MAX_PREFIXES).max(1);
    // The last one is the whole history: always among them.
    for prefix in prefixes.iter().rev().step_by(step).rev() {
        let length = prefix.length();
        let turn = replay_prefix(handler, version, &events[..length]);
        let mismatch = match prefix {
            Prefix::Waits(_) => still_waits(&turn, events.get(length)),
            Prefix::Ends(_) => events.last().and_then(|last| ends_alike(&turn, last)),
        };
        if let Some(diff) = mismatch {
            return Err(ReplayError::Mismatch { after_event: u64::try_from(length).unwrap_or(0), diff });
        }
    }
    Ok(())
}

/// A part of a history after which the program had done all that it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    /// It waited after so many events.
    Waits(usize),
    /// It ended after so many events.
    Ends(usize),
}

impl Prefix {
    fn length(self) -> usize {
        match self {
            Self::Waits(length) | Self::Ends(length) => length,
        }
    }
}

/// The prefixes of a history: up to every event that came from outside, and up to its end.
fn prefixes_of(events: &[Event]) -> Vec<Prefix> {
    let mut prefixes = Vec::new();
    let mut asked: BTreeSet<u64> = BTreeSet::new();
    let compensates = cancel_policy_of(events).is_some();
    // The failure that goes with the error before it.
    let mut joined = 0;
    for (place, event) in events.iter().enumerate() {
        match what_is(&event.kind) {
            Caused::ByProgram => {
                if let EventKind::ActivityScheduled { name, .. } = &event.kind
                    && name.starts_with(SYSCALL_PREFIX)
                {
                    asked.insert(event.event_id);
                }
            }
            // The store answers such a question within the turn that asks.
            Caused::FromOutside if event.source_event_id.is_some_and(|id| asked.contains(&id)) => {}
            Caused::FromOutside if place == joined => {}
            Caused::FromOutside => prefixes.push(Prefix::Waits(place)),
            // The program went on to undo what it did.
            Caused::ByCancel if compensates => prefixes.push(Prefix::Waits(place)),
            // From here on it was not the program that decided.
            Caused::ByCancel => {
                prefixes.push(Prefix::Waits(place));
                return prefixes;
            }
            Caused::End => {
                prefixes.push(Prefix::Ends(place));
                return prefixes;
            }
            // It stands directly before the failure that it belongs to, and they are one step.
            Caused::WithNext => match events.get(place + 1).map(|next| what_is(&next.kind)) {
                Some(Caused::End) => {
                    prefixes.push(Prefix::Ends(place));
                    return prefixes;
                }
                Some(Caused::FromOutside) => {
                    prefixes.push(Prefix::Waits(place));
                    joined = place + 1;
                }
                Some(Caused::ByProgram | Caused::ByCancel | Caused::WithNext) | None => {}
            },
        }
    }
    prefixes.push(Prefix::Waits(events.len()));
    prefixes
}

enum Caused {
    ByProgram,
    FromOutside,
    ByCancel,
    End,
    /// By what the next event says.
    WithNext,
}

fn what_is(kind: &EventKind) -> Caused {
    match kind {
        EventKind::ActivityCompleted { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityBegun
        | EventKind::ActivityStopped
        | EventKind::TimerFired { .. }
        | EventKind::ExternalEvent { .. }
        | EventKind::QueueEventDelivered { .. }
        | EventKind::SubOrchestrationCompleted { .. }
        | EventKind::SubOrchestrationFailed { .. }
        | EventKind::OrchestrationRedriven { .. }
        | EventKind::OrchestrationRepaired { .. } => Caused::FromOutside,
        EventKind::OrchestrationCancelRequested { .. } => Caused::ByCancel,
        EventKind::ErrorRecorded { .. } => Caused::WithNext,
        EventKind::OrchestrationCompleted { .. }
        | EventKind::OrchestrationFailed { .. }
        | EventKind::OrchestrationContinuedAsNew { .. } => Caused::End,
        EventKind::OrchestrationStarted { .. }
        | EventKind::ActivityScheduled { .. }
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::TimerCreated { .. }
        | EventKind::TimerCancelled { .. }
        | EventKind::ExternalSubscribed { .. }
        | EventKind::ExternalSubscribedCancelled { .. }
        | EventKind::QueueSubscribed { .. }
        | EventKind::QueueSubscriptionCancelled { .. }
        | EventKind::OrchestrationChained { .. }
        | EventKind::SubOrchestrationScheduled { .. }
        | EventKind::SubOrchestrationCancelRequested { .. }
        | EventKind::VersionRequested { .. }
        | EventKind::PatchMarked { .. }
        | EventKind::CancelPolicyRecorded { .. }
        | EventKind::CustomStatusUpdated { .. }
        | EventKind::KeyValueSet { .. }
        | EventKind::KeyValueCleared { .. }
        | EventKind::KeyValuesCleared
        | EventKind::KeyValuesCarried { .. }
        | EventKind::RetryPolicyRecorded { .. }
        | EventKind::ActivityDeadlinesRecorded { .. } => Caused::ByProgram,
    }
}

fn replay_prefix(handler: &Arc<dyn OrchestrationHandler>, version: &str, prefix: &[Event]) -> Turn {
    let last = prefix.last();
    let input = TurnInput {
        instance: last.map(|event| event.instance_id.clone()).unwrap_or_default(),
        execution_id: last.map_or(1, |event| event.execution_id),
        now_ms: last.map_or(0, |event| event.timestamp_ms),
        entropy: 0,
        messages: Vec::new(),
        kv: BTreeMap::new(),
    };
    let before = Before::Stored { handler: handler.clone(), version: version.to_string(), history: prefix };
    // What it leaves is dropped there as well.
    muted(|| run_turn(before, input).turn)
}

/// What differs where the program waited; `None` if it still waits there.
fn still_waits(turn: &Turn, next: Option<&Event>) -> Option<String> {
    let recorded = match next {
        Some(next) => format!("the history goes on with event {}, {}", next.event_id, kind_word(&next.kind)),
        None => "the history ends there".to_string(),
    };
    match (&turn.outcome, turn.events.first()) {
        (Outcome::Waiting, None) => None,
        (Outcome::Nondeterministic { diff }, _) => Some(diff.clone()),
        (Outcome::Panicked { message }, _) => Some(format!("the code now panics: {message}")),
        (_, Some(event)) => Some(format!("{recorded}, but the code now adds {}", kind_word(&event.kind))),
        (outcome, None) => Some(format!("{recorded}, but the code now is {outcome:?}")),
    }
}

/// What differs where the program ended; `None` if it ends in the same way.
fn ends_alike(turn: &Turn, recorded: &Event) -> Option<String> {
    if let Outcome::Nondeterministic { diff } = &turn.outcome {
        return Some(diff.clone());
    }
    let now = turn.events.last().map(|event| &event.kind);
    if now == Some(&recorded.kind) || !is_of_program(&recorded.kind) {
        return None;
    }
    let now = now.map_or("waits", kind_word);
    Some(format!(
        "event {} is {}, but the code now ends with {now}, or with another value",
        recorded.event_id,
        kind_word(&recorded.kind)
    ))
}

/// Whether an end came from the program, rather than from the store or the deployment.
fn is_of_program(end: &EventKind) -> bool {
    let EventKind::OrchestrationFailed { details } = end else { return true };
    match details {
        ErrorDetails::Application { kind, .. } => match kind {
            AppErrorKind::ActivityFailed | AppErrorKind::OrchestrationFailed | AppErrorKind::Panicked => true,
            AppErrorKind::Cancelled { .. } => false,
        },
        ErrorDetails::Infrastructure { .. }
        | ErrorDetails::Configuration { .. }
        | ErrorDetails::Poison { .. } => false,
    }
}

/// The kind of an event as a word: its stored name.
fn kind_word(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::OrchestrationStarted { .. } => "OrchestrationStarted",
        EventKind::OrchestrationCompleted { .. } => "OrchestrationCompleted",
        EventKind::OrchestrationFailed { .. } => "OrchestrationFailed",
        EventKind::OrchestrationContinuedAsNew { .. } => "OrchestrationContinuedAsNew",
        EventKind::OrchestrationCancelRequested { .. } => "OrchestrationCancelRequested",
        EventKind::ActivityScheduled { .. } => "ActivityScheduled",
        EventKind::ActivityCompleted { .. } => "ActivityCompleted",
        EventKind::ActivityFailed { .. } => "ActivityFailed",
        EventKind::ActivityCancelRequested { .. } => "ActivityCancelRequested",
        EventKind::ErrorRecorded { .. } => "ErrorRecorded",
        EventKind::ActivityBegun => "ActivityBegun",
        EventKind::ActivityStopped => "ActivityStopped",
        EventKind::CancelPolicyRecorded { .. } => "CancelPolicyRecorded",
        EventKind::TimerCreated { .. } => "TimerCreated",
        EventKind::TimerFired { .. } => "TimerFired",
        EventKind::TimerCancelled { .. } => "TimerCancelled",
        EventKind::ExternalSubscribed { .. } => "ExternalSubscribed",
        EventKind::ExternalEvent { .. } => "ExternalEvent",
        EventKind::ExternalSubscribedCancelled { .. } => "ExternalSubscribedCancelled",
        EventKind::QueueSubscribed { .. } => "QueueSubscribed",
        EventKind::QueueEventDelivered { .. } => "QueueEventDelivered",
        EventKind::QueueSubscriptionCancelled { .. } => "QueueSubscriptionCancelled",
        EventKind::OrchestrationChained { .. } => "OrchestrationChained",
        EventKind::SubOrchestrationScheduled { .. } => "SubOrchestrationScheduled",
        EventKind::SubOrchestrationCompleted { .. } => "SubOrchestrationCompleted",
        EventKind::SubOrchestrationFailed { .. } => "SubOrchestrationFailed",
        EventKind::SubOrchestrationCancelRequested { .. } => "SubOrchestrationCancelRequested",
        EventKind::VersionRequested { .. } => "VersionRequested",
        EventKind::PatchMarked { .. } => "PatchMarked",
        EventKind::CustomStatusUpdated { .. } => "CustomStatusUpdated",
        EventKind::KeyValueSet { .. } => "KeyValueSet",
        EventKind::KeyValueCleared { .. } => "KeyValueCleared",
        EventKind::KeyValuesCleared => "KeyValuesCleared",
        EventKind::KeyValuesCarried { .. } => "KeyValuesCarried",
        EventKind::RetryPolicyRecorded { .. } => "RetryPolicyRecorded",
        EventKind::ActivityDeadlinesRecorded { .. } => "ActivityDeadlinesRecorded",
        EventKind::OrchestrationRedriven { .. } => "OrchestrationRedriven",
        EventKind::OrchestrationRepaired { .. } => "OrchestrationRepaired",
    }
}
