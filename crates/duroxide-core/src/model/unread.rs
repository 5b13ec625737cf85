//! Messages that a program has not read.

use std::collections::BTreeMap;

use super::{Event, EventKind, WorkItem};

/// How many events and queue messages a history holds that no wait of the program has got, those included that
/// continue-as-new carried into it. 0 once the execution has ended: nothing will read them.
pub fn unread_messages(history: &[Event]) -> u64 {
    if history.last().is_some_and(Event::is_terminal) {
        return 0;
    }
    let mut channels: BTreeMap<Channel<'_>, Counts> = BTreeMap::new();
    let mut waits: BTreeMap<u64, Channel<'_>> = BTreeMap::new();
    for event in history {
        match change(event) {
            Some(Change::Arrived(channel)) => channels.entry(channel).or_default().arrived += 1,
            Some(Change::Carried(messages)) => {
                for (queue, _) in messages {
                    channels.entry(Channel::Queue(queue)).or_default().arrived += 1;
                }
            }
            Some(Change::Subscribed(channel)) => {
                waits.insert(event.event_id, channel);
                channels.entry(channel).or_default().waits += 1;
            }
            // A wait that was dropped gives back what it may have got.
            Some(Change::Unsubscribed) => {
                if let Some(channel) = event.source_event_id.and_then(|wait| waits.remove(&wait)) {
                    let counts = channels.entry(channel).or_default();
                    counts.waits = counts.waits.saturating_sub(1);
                }
            }
            None => {}
        }
    }
    // Each wait takes one message as soon as there is one, so a channel has unread messages or open waits, never both.
    channels.values().map(|counts| counts.arrived.saturating_sub(counts.waits)).sum()
}

/// How many queue messages an item carries into the execution that it begins.
pub fn carried_messages(item: &WorkItem) -> u64 {
    if let WorkItem::ContinueAsNew { carry_forward_events, .. } = item {
        u64::try_from(carry_forward_events.len()).unwrap_or(u64::MAX)
    } else {
        0
    }
}

/// What waits and messages are matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Channel<'a> {
    Event(&'a str),
    Queue(&'a str),
}

#[derive(Default)]
struct Counts {
    arrived: u64,
    waits: u64,
}

enum Change<'a> {
    Arrived(Channel<'a>),
    Carried(&'a [(String, String)]),
    Subscribed(Channel<'a>),
    Unsubscribed,
}

fn change(event: &Event) -> Option<Change<'_>> {
    match &event.kind {
        EventKind::OrchestrationStarted { carry_forward_events: Some(messages), .. } => {
            Some(Change::Carried(messages))
        }
        EventKind::ExternalSubscribed { name } => Some(Change::Subscribed(Channel::Event(name))),
        EventKind::ExternalEvent { name, .. } => Some(Change::Arrived(Channel::Event(name))),
        EventKind::QueueSubscribed { name } => Some(Change::Subscribed(Channel::Queue(name))),
        EventKind::QueueEventDelivered { name, .. } => Some(Change::Arrived(Channel::Queue(name))),
        EventKind::ExternalSubscribedCancelled { .. } | EventKind::QueueSubscriptionCancelled { .. } => {
            Some(Change::Unsubscribed)
        }
        EventKind::OrchestrationStarted { carry_forward_events: None, .. }
        | EventKind::OrchestrationCompleted { .. }
        | EventKind::OrchestrationFailed { .. }
        | EventKind::OrchestrationContinuedAsNew { .. }
        | EventKind::OrchestrationCancelRequested { .. }
        | EventKind::OrchestrationRedriven { .. }
        | EventKind::OrchestrationRepaired { .. }
        | EventKind::ErrorRecorded { .. }
        | EventKind::CancelPolicyRecorded { .. }
        | EventKind::ActivityStopped
        | EventKind::OrchestrationChained { .. }
        | EventKind::ActivityScheduled { .. }
        | EventKind::ActivityDeadlinesRecorded { .. }
        | EventKind::ActivityBegun
        | EventKind::ActivityCompleted { .. }
        | EventKind::ActivityFailed { .. }
        | EventKind::ActivityCancelRequested { .. }
        | EventKind::RetryPolicyRecorded { .. }
        | EventKind::TimerCreated { .. }
        | EventKind::TimerFired { .. }
        | EventKind::TimerCancelled { .. }
        | EventKind::SubOrchestrationScheduled { .. }
        | EventKind::VersionRequested { .. }
        | EventKind::SubOrchestrationCompleted { .. }
        | EventKind::SubOrchestrationFailed { .. }
        | EventKind::SubOrchestrationCancelRequested { .. }
        | EventKind::CustomStatusUpdated { .. }
        | EventKind::KeyValueSet { .. }
        | EventKind::KeyValueCleared { .. }
        | EventKind::KeyValuesCleared
        | EventKind::PatchMarked { .. }
        | EventKind::KeyValuesCarried { .. } => None,
    }
}
