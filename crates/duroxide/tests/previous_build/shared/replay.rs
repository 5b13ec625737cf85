//! Replays a history from its first event through the engine, and compares what the program does with what is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use duroxide::{ErrorDetails, Event, EventKind, OrchestrationRegistry, PoisonMessageType};
use duroxide_core::{Before, OrchestrationHandler, Outcome, TurnInput, run_turn_with};
use semver::Version;

/// What a replay must find at the end of a history.
enum Expected<'a> {
    /// The program waits and does nothing more.
    Waiting,
    /// The program does this, the end included.
    Rest(&'a [Event]),
}

/// Replays one execution; the error says what differs.
pub(crate) fn replay(registry: &OrchestrationRegistry, history: &[Event]) -> Result<(), String> {
    let started = history.first().ok_or("there are no events")?;
    let (handler, version) = handler(registry, started)?;
    let (played, expected) = split(history);
    let input = TurnInput {
        instance: started.instance_id.clone(),
        // A redriven execution begins with the events of the one that failed.
        execution_id: history.iter().map(|event| event.execution_id).max().unwrap_or(1),
        now_ms: history.last().map_or(0, |event| event.timestamp_ms),
        entropy: 7,
        messages: Vec::new(),
        kv: BTreeMap::new(),
    };
    let before = Before::Stored { handler, version, history: played };
    let result = run_turn_with(before, input, |question| {
        panic!("the history holds the answer to {question:?}");
    });
    let turn = result.turn;
    if let Outcome::Nondeterministic { diff } = &turn.outcome {
        return Err(diff.clone());
    }
    match expected {
        Expected::Waiting if turn.outcome == Outcome::Waiting && turn.events.is_empty() => Ok(()),
        Expected::Waiting => {
            Err(format!("it does more than is stored: {:?} {:?}", turn.outcome, turn.events))
        }
        Expected::Rest(rest) if is_same_end(rest, &turn.events) => Ok(()),
        Expected::Rest(rest) => Err(format!(
            "it ends otherwise:\nstored:   {:?}\nreplayed: {:?}",
            kinds(rest),
            kinds(&turn.events)
        )),
    }
}

fn handler(
    registry: &OrchestrationRegistry,
    started: &Event,
) -> Result<(Arc<dyn OrchestrationHandler>, String), String> {
    let EventKind::OrchestrationStarted { name, version, .. } = &started.kind else {
        return Err(format!("it begins with {:?}", started.kind));
    };
    let parsed = Version::parse(version).map_err(|cause| format!("version '{version}': {cause}"))?;
    let handler = registry.resolve_handler_exact(name, &parsed);
    Ok((handler.ok_or_else(|| format!("{name} {version} is not registered"))?, version.clone()))
}

/// What is played to the program, and what it must then do.
///
/// The end of an execution and what it gives up at its end were not admitted from outside: the program must do both
/// again. An end that came from outside (a poisoned message, code that did not fit) is not the program's doing.
fn split(history: &[Event]) -> (&[Event], Expected<'_>) {
    let Some(end) = history.last().filter(|event| event.is_terminal()) else {
        return (history, Expected::Waiting);
    };
    let is_end = |event: &Event| belongs_to_end(&event.kind) || is_own_error(event);
    let last_played = history.iter().rposition(|event| !is_end(event)).unwrap_or(0);
    let (played, rest) = history.split_at(last_played + 1);
    if is_from_outside(&end.kind) { (played, Expected::Waiting) } else { (played, Expected::Rest(rest)) }
}

fn belongs_to_end(kind: &EventKind) -> bool {
    let (EventKind::ActivityCancelRequested { reason }
    | EventKind::SubOrchestrationCancelRequested { reason }) = kind
    else {
        return matches!(
            kind,
            EventKind::OrchestrationCompleted { .. }
                | EventKind::OrchestrationFailed { .. }
                | EventKind::OrchestrationContinuedAsNew { .. }
        );
    };
    reason.starts_with("orchestration_terminal")
}

/// Whether it is the error that the program returned: it stands before the end.
#[cfg(not(duroxide_without_types))]
fn is_own_error(event: &Event) -> bool {
    event.source_event_id.is_none() && matches!(event.kind, EventKind::ErrorRecorded { .. })
}

#[cfg(duroxide_without_types)]
fn is_own_error(_event: &Event) -> bool {
    false
}

fn is_from_outside(end: &EventKind) -> bool {
    let EventKind::OrchestrationFailed { details } = end else { return false };
    // The failure of a poisoned activity is an event of its own, and what ends the execution.
    let of_activity =
        |message_type: &PoisonMessageType| matches!(message_type, PoisonMessageType::Activity { .. });
    match details {
        ErrorDetails::Poison { message_type, .. } => !of_activity(message_type),
        ErrorDetails::Configuration { .. } => true,
        ErrorDetails::Infrastructure { .. } | ErrorDetails::Application { .. } => false,
    }
}

/// Whether both end alike. The value that an end carries is compared by nothing once it is stored, so that a later
/// build may write it without loss where 1.0.0 did not.
fn is_same_end(stored: &[Event], replayed: &[Event]) -> bool {
    let (Some((stored_end, stored)), Some((replayed_end, replayed))) =
        (stored.split_last(), replayed.split_last())
    else {
        return false;
    };
    // A build without types ended it: it knew of the error no more than the text.
    let has_error = stored.iter().any(is_own_error);
    let is_left_out = |event: &&Event| {
        !has_error && is_own_error(event) && stored_end.duroxide_version != replayed_end.duroxide_version
    };
    let replayed: Vec<Event> = replayed.iter().filter(|event| !is_left_out(event)).cloned().collect();
    let is_same_value = match (&stored_end.kind, &replayed_end.kind) {
        (
            EventKind::OrchestrationCompleted { output: stored },
            EventKind::OrchestrationCompleted { output: replayed },
        )
        | (
            EventKind::OrchestrationContinuedAsNew { input: stored },
            EventKind::OrchestrationContinuedAsNew { input: replayed },
        ) => is_same_text(stored, replayed),
        (stored, replayed) => stored == replayed,
    };
    kinds(stored) == kinds(&replayed) && is_same_value
}

/// Whether a text is what 1.0.0 stored for the same value: it stored every text bare. From 1.1.0 on a text that is JSON
/// is stored as a JSON string.
pub(crate) fn is_same_text(stored: &str, now: &str) -> bool {
    stored == now || serde_json::to_string(stored).is_ok_and(|encoded| encoded == now)
}

fn kinds(events: &[Event]) -> Vec<(Option<u64>, &EventKind)> {
    events.iter().map(|event| (event.source_event_id, &event.kind)).collect()
}
