//! Code and history do not agree: a diff that a person can read.
//!
//! Inputs are compared but never quoted: the text reaches logs and other people than the data may.

use super::turn::{Outcome, Turn};
use crate::model::{Event, EventKind};

/// The code did something other than what the history has next; `source` is the event that it answers.
pub(super) fn schedule_mismatch(recorded: &Event, source: Option<u64>, current: &EventKind) -> String {
    let fields = differing_fields(recorded, source, current);
    format!(
        "{}asks for {}; differs in {}",
        recorded_but_now(recorded),
        describe(current),
        if fields.is_empty() { "nothing that can be named".to_string() } else { fields.join(", ") }
    )
}

/// The history has an event that the code did not cause.
pub(super) fn unexpected_event(recorded: &Event) -> String {
    format!("{}does nothing there", recorded_but_now(recorded))
}

/// What a replay of a turn did otherwise, if anything.
pub(super) fn turn_difference(live: &Turn, replayed: &Turn) -> Option<String> {
    if live == replayed {
        return None;
    }
    if let Outcome::Nondeterministic { diff } = &replayed.outcome {
        return Some(diff.clone());
    }
    let differs = |(one, other): &(&Event, &Event)| {
        one.kind != other.kind || one.source_event_id != other.source_event_id
    };
    let (count, other_count) = (live.events.len(), replayed.events.len());
    Some(match live.events.iter().zip(&replayed.events).find(differs) {
        Some((event, other)) => schedule_mismatch(event, other.source_event_id, &other.kind),
        None if count > other_count => unexpected_event(&live.events[other_count]),
        None if count < other_count => {
            format!("the code now also asks for {}", describe(&replayed.events[count].kind))
        }
        None => "the same events, but another outcome".to_string(),
    })
}

/// The version that a schedule asks for is not the recorded one.
pub(super) fn version_mismatch(schedule: u64, recorded: Option<&str>, current: Option<&str>) -> String {
    format!(
        "schedule mismatch at event {schedule}: differs in version (recorded {}, now {})",
        quote(recorded),
        quote(current)
    )
}

/// The history is not what the engine wrote: its ids are not its positions.
pub(super) fn damaged_history(position: u64, event_id: u64) -> String {
    format!("the history is damaged: the event at position {position} has id {event_id}")
}

fn recorded_but_now(recorded: &Event) -> String {
    format!(
        "schedule mismatch at event {}: recorded {}, but the code now ",
        recorded.event_id,
        describe(&recorded.kind)
    )
}

/// A completion reached a schedule of another kind.
pub(super) fn completion_kind_mismatch(id: u64, expected: &str, got: &str) -> String {
    format!("completion kind mismatch for id={id}, expected '{expected}', got '{got}'")
}

/// A completion reached nothing.
pub(super) fn no_matching_schedule(what: &str, id: u64) -> String {
    format!("no matching schedule for {what} id={id}")
}

/// The event as a schedule, in words, without payloads.
pub(super) fn describe(kind: &EventKind) -> String {
    match kind {
        EventKind::ActivityScheduled { name, input, session_id, tag } => {
            let mut text = format!("activity '{name}' (input of {} bytes", input.len());
            if let Some(session) = session_id {
                text.push_str(&format!(", session '{session}'"));
            }
            if let Some(tag) = tag {
                text.push_str(&format!(", tag '{tag}'"));
            }
            text + ")"
        }
        EventKind::SubOrchestrationScheduled { name, instance, input } => {
            format!("suborchestration '{name}' as '{instance}' (input of {} bytes)", input.len())
        }
        EventKind::OrchestrationChained { name, instance, input } => {
            format!("detached start of '{name}' as '{instance}' (input of {} bytes)", input.len())
        }
        EventKind::VersionRequested { version } => format!("version '{version}' of the schedule before"),
        EventKind::ExternalSubscribed { name } => format!("wait for event '{name}'"),
        EventKind::QueueSubscribed { name } => format!("wait for queue '{name}'"),
        EventKind::ExternalEvent { name, .. } => format!("arrival of event '{name}'"),
        EventKind::QueueEventDelivered { name, .. } => format!("arrival of a message of queue '{name}'"),
        EventKind::TimerCreated { .. } => "timer".to_string(),
        EventKind::TimerFired { .. } => "end of a timer".to_string(),
        EventKind::TimerCancelled { .. } => "cancellation of a timer".to_string(),
        EventKind::ActivityCompleted { .. } => "completion of an activity".to_string(),
        EventKind::ErrorRecorded { .. } => "error of the failure that comes next".to_string(),
        EventKind::ActivityFailed { .. } => "failure of an activity".to_string(),
        EventKind::ActivityCancelRequested { .. } => "cancellation of an activity".to_string(),
        EventKind::ExternalSubscribedCancelled { .. } => "cancellation of a wait for an event".to_string(),
        EventKind::QueueSubscriptionCancelled { .. } => "cancellation of a wait for a queue".to_string(),
        EventKind::SubOrchestrationCompleted { .. } => "completion of a suborchestration".to_string(),
        EventKind::SubOrchestrationFailed { .. } => "failure of a suborchestration".to_string(),
        EventKind::SubOrchestrationCancelRequested { .. } => "cancellation of a suborchestration".to_string(),
        EventKind::OrchestrationStarted { name, version, .. } => {
            format!("start of '{name}' version {version}")
        }
        EventKind::OrchestrationCompleted { .. } => "completion of the orchestration".to_string(),
        EventKind::OrchestrationFailed { .. } => "failure of the orchestration".to_string(),
        EventKind::OrchestrationContinuedAsNew { .. } => "continue-as-new".to_string(),
        EventKind::OrchestrationCancelRequested { .. } => "cancellation of the orchestration".to_string(),
        EventKind::CustomStatusUpdated { .. } => "change of the custom status".to_string(),
        EventKind::KeyValueSet { key, .. } => format!("value for key '{key}'"),
        EventKind::KeyValueCleared { key } => format!("removal of key '{key}'"),
        EventKind::KeyValuesCleared => "removal of all keys".to_string(),
        EventKind::PatchMarked { id } => format!("patch '{id}'"),
        EventKind::CancelPolicyRecorded { .. } => "cancel policy".to_string(),
        EventKind::ActivityStopped => "end of an activity that was given up".to_string(),
        EventKind::KeyValuesCarried { .. } => "values of the execution before".to_string(),
        EventKind::RetryPolicyRecorded { .. } => "retry policy of an activity".to_string(),
        EventKind::ActivityDeadlinesRecorded { .. } => "deadlines of an activity".to_string(),
        EventKind::ActivityBegun => "beginning of an activity".to_string(),
        EventKind::OrchestrationRedriven { .. } => "record of a redrive".to_string(),
        EventKind::OrchestrationRepaired { .. } => "record of a repair".to_string(),
    }
}

fn differing_fields(recorded: &Event, source: Option<u64>, current: &EventKind) -> Vec<String> {
    if std::mem::discriminant(&recorded.kind) != std::mem::discriminant(current) {
        return vec!["kind".to_string()];
    }
    let mut differing: Vec<String> = fields_of(&recorded.kind)
        .iter()
        .zip(&fields_of(current))
        .filter(|(recorded, current)| recorded.value != current.value)
        .map(|(recorded, current)| {
            let difference = if recorded.is_payload {
                payload_difference(recorded.value, current.value)
            } else {
                format!("recorded {}, now {}", quote(recorded.value), quote(current.value))
            };
            format!("{} ({difference})", recorded.name)
        })
        .collect();
    if recorded.source_event_id != source {
        let id = |id: Option<u64>| id.map_or("none".to_string(), |id| id.to_string());
        differing.push(format!(
            "the event it is about (recorded {}, now {})",
            id(recorded.source_event_id),
            id(source)
        ));
    }
    differing
}

struct Field<'a> {
    name: &'static str,
    value: Option<&'a str>,
    is_payload: bool,
}

/// The fields that a replay compares.
fn fields_of(kind: &EventKind) -> Vec<Field<'_>> {
    let field = |name, value| Field { name, value, is_payload: false };
    let text = |name, value| Field { name, value: Some(value), is_payload: false };
    let payload = |name, value| Field { name, value: Some(value), is_payload: true };
    match kind {
        EventKind::ActivityScheduled { name, input, session_id, tag } => vec![
            text("name", name.as_str()),
            payload("input", input.as_str()),
            field("session", session_id.as_deref()),
            field("tag", tag.as_deref()),
        ],
        EventKind::SubOrchestrationScheduled { name, instance, input } => {
            vec![text("name", name.as_str()), text("child id", instance), payload("input", input)]
        }
        EventKind::OrchestrationChained { name, instance, input } => {
            vec![text("name", name.as_str()), text("instance id", instance), payload("input", input)]
        }
        EventKind::VersionRequested { version } => vec![text("version", version.as_str())],
        EventKind::ExternalSubscribed { name } | EventKind::QueueSubscribed { name } => {
            vec![text("name", name.as_str())]
        }
        EventKind::ActivityCancelRequested { reason }
        | EventKind::TimerCancelled { reason }
        | EventKind::ExternalSubscribedCancelled { reason }
        | EventKind::QueueSubscriptionCancelled { reason }
        | EventKind::SubOrchestrationCancelRequested { reason } => vec![text("reason", reason.as_str())],
        EventKind::CustomStatusUpdated { status } => {
            vec![Field { name: "status", value: status.as_deref(), is_payload: true }]
        }
        EventKind::KeyValueSet { key, value, .. } => {
            vec![text("key", key.as_str()), payload("value", value.as_str())]
        }
        EventKind::KeyValueCleared { key } => vec![text("key", key.as_str())],
        EventKind::PatchMarked { id } => vec![text("patch id", id.as_str())],
        EventKind::TimerCreated { .. }
        | EventKind::KeyValuesCarried { .. }
        | EventKind::RetryPolicyRecorded { .. }
        | EventKind::ActivityDeadlinesRecorded { .. }
        | EventKind::ActivityBegun
        | EventKind::OrchestrationRedriven { .. }
        | EventKind::OrchestrationRepaired { .. }
        | EventKind::KeyValuesCleared
        | EventKind::OrchestrationStarted { .. }
        | EventKind::OrchestrationCompleted { .. }
        | EventKind::OrchestrationFailed { .. }
        | EventKind::OrchestrationContinuedAsNew { .. }
        | EventKind::OrchestrationCancelRequested { .. }
        | EventKind::ActivityCompleted { .. }
        | EventKind::ErrorRecorded { .. }
        | EventKind::CancelPolicyRecorded { .. }
        | EventKind::ActivityStopped
        | EventKind::ActivityFailed { .. }
        | EventKind::TimerFired { .. }
        | EventKind::ExternalEvent { .. }
        | EventKind::QueueEventDelivered { .. }
        | EventKind::SubOrchestrationCompleted { .. }
        | EventKind::SubOrchestrationFailed { .. } => Vec::new(),
    }
}

fn quote(value: Option<&str>) -> String {
    value.map_or("none".to_string(), |value| format!("'{value}'"))
}

fn payload_difference(recorded: Option<&str>, current: Option<&str>) -> String {
    let (recorded, current) = (recorded.unwrap_or_default(), current.unwrap_or_default());
    let first = recorded.bytes().zip(current.bytes()).position(|(a, b)| a != b);
    let first = first.unwrap_or_else(|| recorded.len().min(current.len()));
    format!(
        "recorded {} bytes, now {} bytes, first difference at byte {first}",
        recorded.len(),
        current.len()
    )
}
