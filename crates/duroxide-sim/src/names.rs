//! Events by name, for the trace.

use duroxide::Event;

/// The variant's name.
pub(crate) fn event_name(event: &Event) -> &'static str {
    use duroxide::EventKind as K;
    match &event.kind {
        K::OrchestrationStarted { .. } => "Started",
        K::OrchestrationCompleted { .. } => "Completed",
        K::OrchestrationFailed { .. } => "Failed",
        K::OrchestrationContinuedAsNew { .. } => "ContinuedAsNew",
        K::OrchestrationCancelRequested { .. } => "CancelRequested",
        K::ActivityScheduled { .. } => "ActivityScheduled",
        K::ActivityCompleted { .. } => "ActivityCompleted",
        K::PatchMarked { .. } => "PatchMarked",
        K::CancelPolicyRecorded { .. } => "CancelPolicyRecorded",
        K::ActivityStopped => "ActivityStopped",
        K::ErrorRecorded { .. } => "ErrorRecorded",
        K::ActivityFailed { .. } => "ActivityFailed",
        K::ActivityCancelRequested { .. } => "ActivityCancelled",
        K::TimerCreated { .. } => "TimerCreated",
        K::TimerFired { .. } => "TimerFired",
        K::TimerCancelled { .. } => "TimerCancelled",
        K::ExternalSubscribed { .. } => "Subscribed",
        K::ExternalEvent { .. } => "Event",
        K::ExternalSubscribedCancelled { .. } => "Unsubscribed",
        K::QueueSubscribed { .. } => "QueueSubscribed",
        K::QueueEventDelivered { .. } => "QueueMessage",
        K::QueueSubscriptionCancelled { .. } => "QueueUnsubscribed",
        K::OrchestrationChained { .. } => "Detached",
        K::SubOrchestrationScheduled { .. } => "ChildScheduled",
        K::SubOrchestrationCompleted { .. } => "ChildCompleted",
        K::SubOrchestrationFailed { .. } => "ChildFailed",
        K::SubOrchestrationCancelRequested { .. } => "ChildCancelled",
        K::VersionRequested { .. } => "VersionRequested",
        K::CustomStatusUpdated { .. } => "CustomStatus",
        K::KeyValueSet { .. } => "KvSet",
        K::KeyValueCleared { .. } => "KvCleared",
        K::KeyValuesCleared => "KvAllCleared",
        K::KeyValuesCarried { .. } => "KvCarried",
        K::RetryPolicyRecorded { .. } => "RetryPolicy",
        K::ActivityDeadlinesRecorded { .. } => "Deadlines",
        K::ActivityBegun => "ActivityBegun",
        K::OrchestrationRedriven { .. } => "Redriven",
        K::OrchestrationRepaired { .. } => "Repaired",
    }
}
