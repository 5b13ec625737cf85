//! Code and history do not agree: a diff that a person can read.
//!
//! Inputs are compared but never quoted: the text reaches logs and other people than the data may.

use crate::model::EventKind;

/// The position, what was recorded there and what the code did instead.
pub(super) fn schedule_mismatch(
    position: u64,
    recorded: Option<&EventKind>,
    current: Option<&EventKind>,
) -> String {
    let describe_or = |kind: Option<&EventKind>, nothing: &str| kind.map_or(nothing.to_string(), describe);
    let mut text = format!(
        "schedule mismatch at event {position}: recorded {}, but the code now {}",
        describe_or(recorded, "nothing"),
        current.map_or("does nothing there".to_string(), |kind| format!("asks for {}", describe(kind))),
    );
    if let (Some(recorded), Some(current)) = (recorded, current) {
        let fields = differing_fields(recorded, current);
        if !fields.is_empty() {
            text.push_str(&format!("; differs in {}", fields.join(", ")));
        }
    }
    text
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
    }
}

fn differing_fields(recorded: &EventKind, current: &EventKind) -> Vec<String> {
    let fields = (fields_of(recorded), fields_of(current));
    let (Some(recorded), Some(current)) = fields else { return Vec::new() };
    recorded
        .iter()
        .zip(&current)
        .filter(|(recorded, current)| recorded.name == current.name && recorded.value != current.value)
        .map(|(recorded, current)| {
            if recorded.is_payload {
                format!("{} ({})", recorded.name, payload_difference(recorded.value, current.value))
            } else {
                format!(
                    "{} (recorded {}, now {})",
                    recorded.name,
                    quote(recorded.value),
                    quote(current.value)
                )
            }
        })
        .collect()
}

struct Field<'a> {
    name: &'static str,
    value: Option<&'a str>,
    is_payload: bool,
}

/// The fields that a replay compares, for the kinds that have several.
fn fields_of(kind: &EventKind) -> Option<Vec<Field<'_>>> {
    let field = |name, value| Field { name, value, is_payload: false };
    let payload = |value| Field { name: "input", value: Some(value), is_payload: true };
    if let EventKind::ActivityScheduled { name, input, session_id, tag } = kind {
        return Some(vec![
            field("name", Some(name.as_str())),
            payload(input.as_str()),
            field("session", session_id.as_deref()),
            field("tag", tag.as_deref()),
        ]);
    }
    if let EventKind::SubOrchestrationScheduled { name, instance, input }
    | EventKind::OrchestrationChained { name, instance, input } = kind
    {
        let id =
            if matches!(kind, EventKind::OrchestrationChained { .. }) { "instance id" } else { "child id" };
        return Some(vec![
            field("name", Some(name.as_str())),
            field(id, Some(instance.as_str())),
            payload(input.as_str()),
        ]);
    }
    if let EventKind::VersionRequested { version } = kind {
        return Some(vec![field("version", Some(version.as_str()))]);
    }
    if let EventKind::ExternalSubscribed { name } | EventKind::QueueSubscribed { name } = kind {
        return Some(vec![field("name", Some(name.as_str()))]);
    }
    None
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
