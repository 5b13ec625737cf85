//! The small numbers of an operation as the values that a store is given.

use std::collections::HashSet;

use duroxide::providers::{
    ExecutionMetadata, InstanceFilter, ScheduledActivityIdentifier, TagFilter, WorkItem,
};
use duroxide::{DispatcherCapabilityFilter, ErrorDetails, Event, EventKind, PoisonMessageType, SemverRange};
use duroxide_core::limits::MAX_BOUNCE_TEXT_BYTES;
use duroxide_core::{ActivityDeadlines, BounceCause};
use semver::Version;

use super::capabilities::activity_name;
use super::operations::{Commit, Filter, Happening, Message, Outcome, Work};
use super::translation::Token;

pub(crate) fn instance_name(instance: u8) -> String {
    format!("instance {instance}")
}

/// Why something is given back; often without a cause.
pub(crate) fn bounce_cause(cause: u8) -> Option<BounceCause> {
    let name = "Order".to_string();
    match cause {
        0 => Some(BounceCause::OrchestrationNotRegistered { name, version: Some("2.0.0".to_string()) }),
        1 => Some(BounceCause::ActivityNotRegistered { name }),
        2 => Some(BounceCause::NoStart),
        3 => Some(BounceCause::Panicked { message: "é\0".repeat(MAX_BOUNCE_TEXT_BYTES) }),
        _ => None,
    }
}

impl Message {
    /// What is counted when it is taken.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Event { .. } | Self::Queue { .. } => "send event",
            Self::Cancel { .. } => "send cancel",
            Self::Completed { .. } | Self::ChildFailed { .. } => "send completion",
            Self::Timer { .. } => "send timer",
            Self::Activity { .. } | Self::Nameless => "send what is refused",
        }
    }
}

impl Outcome {
    /// What is counted when the turn is committed.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Silent | Self::Running => "ack running",
            Self::Completed => "ack completed",
            Self::Failed => "ack failed",
            Self::Poisoned => "ack poisoned",
            Self::ContinuedAsNew => "ack continued as new",
            Self::Unknown => "ack of an unknown status",
        }
    }

    fn word(self) -> Option<String> {
        let word = match self {
            Self::Silent => return None,
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed | Self::Poisoned => "Failed",
            Self::ContinuedAsNew => "ContinuedAsNew",
            Self::Unknown => "Unheard of",
        };
        Some(word.to_string())
    }
}

pub(crate) fn start_item(instance: u8, parent: Option<u8>, version: bool) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance_name(instance),
        orchestration: format!("Orchestration {instance}"),
        input: if version { "in, versioned" } else { "in" }.to_string(),
        version: version.then(|| "1.2.3".to_string()),
        parent_instance: parent.map(instance_name),
        parent_id: parent.map(u64::from),
        parent_execution_id: parent.filter(|parent| parent % 2 == 0).map(|_| 1),
        execution_id: 1,
    }
}

pub(crate) fn message_item(now: u64, message: &Message) -> WorkItem {
    match message {
        Message::Event { instance, data } => WorkItem::ExternalRaised {
            instance: instance_name(*instance),
            name: "Event".to_string(),
            data: data.to_string(),
        },
        Message::Queue { instance, data } => WorkItem::QueueMessage {
            instance: instance_name(*instance),
            name: "Queue".to_string(),
            data: data.to_string(),
        },
        Message::Cancel { instance } => {
            WorkItem::CancelInstance { instance: instance_name(*instance), reason: "enough".to_string() }
        }
        Message::Completed { instance, execution_id, id } => WorkItem::ActivityCompleted {
            instance: instance_name(*instance),
            execution_id: *execution_id,
            id: *id,
            result: "result".to_string(),
        },
        Message::ChildFailed { instance, id } => WorkItem::SubOrchFailed {
            parent_instance: instance_name(*instance),
            parent_execution_id: 1,
            parent_id: *id,
            details: ErrorDetails::orchestration_failed("failed"),
        },
        Message::Timer { instance, id, due_in } => WorkItem::TimerFired {
            instance: instance_name(*instance),
            execution_id: 1 + id % 2,
            id: *id,
            fire_at_ms: now.saturating_add_signed(i64::from(*due_in)),
        },
        Message::Activity { instance } => {
            work_item(&Work { instance: *instance, id: 2, session: None, tag: None, within: false })
        }
        Message::Nameless => WorkItem::CancelInstance { instance: String::new(), reason: String::new() },
    }
}

pub(crate) fn work_item(work: &Work) -> WorkItem {
    let instance = instance_name(work.instance);
    let (execution_id, id, name) = (1, work.id, activity_name(work.id));
    let input = "in".to_string();
    let session_id = work.session.map(|session| format!("session {session}"));
    let tag = work.tag.map(|tag| format!("tag {tag}"));
    if work.within {
        let deadlines = ActivityDeadlines { schedule_to_start_ms: Some(id), start_to_close_ms: None };
        return WorkItem::ActivityExecuteWithin {
            instance,
            execution_id,
            id,
            name,
            input,
            session_id,
            tag,
            deadlines,
            retried: None,
            reports_stop: false,
        };
    }
    WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id, tag }
}

pub(crate) fn tag_filter(number: u8) -> TagFilter {
    let tags = |tags: &[&str]| tags.iter().map(ToString::to_string).collect::<HashSet<String>>();
    match number {
        0 => TagFilter::DefaultOnly,
        1 => TagFilter::Tags(tags(&["tag 0"])),
        2 => TagFilter::DefaultAnd(tags(&["tag 1", "unused"])),
        3 => TagFilter::None,
        _ => TagFilter::Any,
    }
}

/// Versions that executions are pinned to.
fn version(number: u8) -> Version {
    match number {
        0 => Version::new(1, 0, 0),
        1 => Version::new(1, 5, 9),
        2 => Version::new(2, 0, 0),
        _ => Version::new(30, 0, 1),
    }
}

pub(crate) fn capability_filter(number: u8) -> Option<DispatcherCapabilityFilter> {
    let range = |min: u64, max: u64| SemverRange::new(Version::new(min, 0, 0), Version::new(max, 0, 0));
    let ranges = match number {
        0 => vec![],
        1 => vec![range(1, 2)],
        2 => vec![range(1, 1), range(30, 31)],
        3 => vec![SemverRange::below(Version::new(1, 0, 1), Version::new(2, 0, 0))],
        4 => vec![range(5, 4)],
        _ => return None,
    };
    Some(DispatcherCapabilityFilter { supported_duroxide_versions: ranges })
}

pub(crate) fn bulk_filter(now: u64, filter: &Filter) -> InstanceFilter {
    InstanceFilter {
        instance_ids: filter.instances.as_ref().map(|ids| ids.iter().copied().map(instance_name).collect()),
        completed_before: filter.before.map(|before| now.saturating_sub(u64::from(before))),
        limit: filter.limit,
    }
}

/// An event; an id of 0 leaves it to the store.
pub(crate) fn happened(now: u64, event_id: u64, token: &Token, happening: &Happening) -> Event {
    let mut source_event_id = None;
    let kind = match happening {
        Happening::Started(number) => EventKind::OrchestrationStarted {
            name: number.map_or("Nobody's".to_string(), |number| format!("Orchestration {number}")),
            version: "1.2.3".to_string(),
            input: "in".to_string(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        },
        Happening::Scheduled => EventKind::ActivityScheduled {
            name: "Activity".to_string(),
            input: "in".to_string(),
            session_id: None,
            tag: None,
        },
        Happening::CustomStatus(status) => {
            EventKind::CustomStatusUpdated { status: status.map(|status| status.to_string()) }
        }
        Happening::Set(key, value) => EventKind::KeyValueSet {
            key: format!("key {key}"),
            value: value.to_string(),
            last_updated_at_ms: now,
        },
        Happening::Clear(key) => EventKind::KeyValueCleared { key: format!("key {key}") },
        Happening::ClearAll => EventKind::KeyValuesCleared,
        Happening::TimerCancelled(id) => {
            source_event_id = Some(*id);
            EventKind::TimerCancelled { reason: "dropped_future".to_string() }
        }
        Happening::TimerCreated => EventKind::TimerCreated { fire_at_ms: now },
    };
    Event::with_event_id(event_id, token.instance.clone(), token.execution_id, source_event_id, kind)
}

/// What a turn commits.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) execution_id: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) work: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

pub(crate) fn commit_parts(now: u64, token: &Token, commit: &Commit) -> Parts {
    let first = if commit.repeats { token.event_id.max(1) } else { token.event_id + 1 };
    let mut events: Vec<Event> = (first..)
        .zip(&commit.happenings)
        .map(|(id, happening)| happened(now, id, token, happening))
        .collect();
    if commit.repeats {
        events.push(happened(now, first, token, &Happening::Scheduled));
        events.push(happened(now, first, token, &Happening::Scheduled));
    }
    let last = events.last().map_or(first, |event| event.event_id + 1);
    if let Some(kind) = terminal(commit.outcome) {
        events.push(Event::with_event_id(last, token.instance.clone(), token.execution_id, None, kind));
    }
    let mut messages: Vec<WorkItem> =
        commit.messages.iter().map(|message| message_item(now, message)).collect();
    messages.extend(commit.starts.iter().map(|(child, detached)| WorkItem::StartOrchestration {
        instance: instance_name(*child),
        orchestration: "Child".to_string(),
        input: "in".to_string(),
        version: None,
        parent_instance: (!detached).then(|| token.instance.clone()),
        parent_id: (!detached).then_some(token.event_id + 1),
        parent_execution_id: (!detached).then_some(token.execution_id),
        execution_id: 1,
    }));
    if commit.outcome == Outcome::ContinuedAsNew {
        messages.push(continue_as_new(&token.instance, commit.happenings.len()));
    }
    messages.extend((0..commit.puts_back).map(|n| WorkItem::QueueMessage {
        instance: token.instance.clone(),
        name: "Queue".to_string(),
        data: format!("put back {n}"),
    }));
    Parts {
        execution_id: token.execution_id,
        events,
        work: commit.work.iter().map(work_item).collect(),
        messages,
        metadata: ExecutionMetadata {
            status: commit.outcome.word(),
            output: commit.outcome.word(),
            orchestration_name: commit.pinned.map(|n| format!("Renamed {n}")),
            orchestration_version: commit.pinned.map(|n| version(n).to_string()),
            parent_instance_id: commit.parent.map(instance_name),
            pinned_duroxide_version: commit.pinned.map(version),
        },
        cancelled: commit
            .cancelled
            .iter()
            .map(|(instance, activity_id)| ScheduledActivityIdentifier {
                instance: instance_name(*instance),
                execution_id: 1,
                activity_id: *activity_id,
            })
            .collect(),
    }
}

fn terminal(outcome: Outcome) -> Option<EventKind> {
    match outcome {
        Outcome::Silent | Outcome::Running | Outcome::Unknown => None,
        Outcome::Completed => Some(EventKind::OrchestrationCompleted { output: "Completed".to_string() }),
        Outcome::Failed => {
            Some(EventKind::OrchestrationFailed { details: ErrorDetails::orchestration_failed("Failed") })
        }
        Outcome::Poisoned => {
            let details = ErrorDetails::Poison {
                attempt_count: 11,
                max_attempts: 10,
                message_type: PoisonMessageType::Orchestration { instance: String::new(), execution_id: 1 },
                message: "[]".to_string(),
            };
            Some(EventKind::OrchestrationFailed { details })
        }
        Outcome::ContinuedAsNew => Some(EventKind::OrchestrationContinuedAsNew { input: "next".to_string() }),
    }
}

/// A start of the next execution; what it asks for depends on a number.
fn continue_as_new(instance: &str, number: usize) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: instance.to_string(),
        orchestration: "Next".to_string(),
        input: "next".to_string(),
        version: ["1.2.3", "9.9.9"].get(number).map(ToString::to_string),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    }
}
